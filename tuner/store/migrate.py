"""The schema's revisions: find the one a database has, bring it up to date after a copy, refuse what is not ours."""

from __future__ import annotations

import os
import re
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from tuner.data import data_folder
from tuner.model import UserError
from tuner.store import server
from tuner.store.engine import exclusive, open_engine, plain_errors, quoted, set_journal, writing
from tuner.store.place import Place, file_system, opened
from tuner.store.schema import VERSION_TABLE

_MIGRATIONS = data_folder("db") / "migrations"


@lru_cache(maxsize=1)
def revisions() -> tuple[str, ...]:
    """Every revision this package knows, oldest first: the numbers that the files of migrations start with."""
    return tuple(sorted(path.name.partition("_")[0] for path in (_MIGRATIONS / "versions").glob("[0-9]*_*.py")))


def head() -> str:
    """The revision this package writes."""
    return revisions()[-1]


def revision(connection: Connection, where: str) -> str | None:
    """The revision of the database at `where`, None for an empty one.

    Raises UserError for another program's database and for one that a newer gemm-tuner wrote.
    """
    tables = inspect(connection).get_table_names()
    if VERSION_TABLE not in tables:
        if tables and connection.dialect.name == "sqlite":
            raise UserError(f"{where} is the database of another program; give another path.")
        return None
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    if found is not None and found not in revisions():
        raise UserError(f"{where} was written by a newer gemm-tuner (schema {found}); upgrade gemm-tuner.")
    return None if found is None else str(found)


def current(place: Place) -> Engine | None:
    """An engine on an existing database of this package's revision; None where nothing was stored yet.

    Raises UserError if the file is not ours, of an older revision, or of a newer one; it is never changed.
    """
    if place.path is not None and not _look_at(place.path):
        return None
    engine = open_engine(place, create=False)
    with plain_errors(place), engine.connect() as connection:
        found = revision(connection, place.label)
    if found is None:
        return None
    if found != head():
        raise UserError(f"{place.label} has the older schema {found}; run gemm-tuner db upgrade.")
    return engine


def upgraded(place: Place, *, to: str = "head", system: Callable[[Path], str] = file_system) -> Engine:
    """An engine on the database, made or brought up to revision `to`; any number of processes may do so at once.

    Raises UserError if the file is not ours, cannot be written, or has a newer revision; then nothing is changed.
    """
    _prepare_folder(place)
    with exclusive(place), plain_errors(place):
        if place.path is not None:
            _look_at(place.path)
        engine = open_engine(place, create=True)
        with server.one_migrator(engine):
            with engine.connect() as connection:
                found = revision(connection, place.label)
            if found not in (to, head()):
                if found is not None and place.path is not None:
                    copy_aside(place.path, found)
                server.retried(lambda: _run_migrations(engine, to))
        engine.dispose()
        set_journal(place, system)
    return engine


def _run_migrations(engine: Engine, to: str) -> None:
    # Alembic takes a quarter of a second to import, and hardly any command needs it.
    from alembic import command
    from alembic.config import Config

    settings = Config()
    settings.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    settings.set_main_option("path_separator", "os")
    with writing(engine).connect() as connection:
        settings.attributes["connection"] = connection
        settings.attributes["version_table"] = VERSION_TABLE
        command.upgrade(settings, to)


def copy_aside(path: Path, found: str) -> Path:
    """Copy a database, transactions still in its log included, to a file named by its revision and the date."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
    copy = path.with_name(f"{path.stem}.schema-{found}.{stamp}{path.suffix or '.db'}")
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        with (
            closing(sqlite3.connect(f"file:{quoted(path)}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(unfinished)) as target,
        ):
            source.backup(target)
        unfinished.replace(copy)
    finally:
        unfinished.unlink(missing_ok=True)
    return copy


def _look_at(path: Path) -> bool:
    """Whether there is a database file with something in it. Raises UserError if something else lies there."""
    try:
        with os.fdopen(opened(path), "rb") as file:
            start = file.read(16)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except IsADirectoryError as error:
        raise UserError(f"{path} is a folder; give the path of a database file.") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error
    if start and start != b"SQLite format 3\0":
        raise UserError(f"{path} is not a database; give another path, or move that file away.")
    return bool(start)


def _prepare_folder(place: Place) -> None:
    folder = (place.path or place.lock).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {folder}: {error.strerror}.") from error
    if not os.access(folder, os.W_OK):
        raise UserError(f"cannot write to the folder {folder}; check its permissions, or give another path.")
    try:
        there = place.path is not None and place.path.exists()
    except OSError as error:
        raise UserError(f"cannot use {place.label} as a database: {error.strerror}.") from error
    if there and not os.access(str(place.path), os.W_OK):
        raise UserError(f"{place.path} cannot be written; check its permissions, or give another path.")


def schema_sql() -> str:
    """The statements of a fresh database, as db/schema.sql holds them."""
    with tempfile.TemporaryDirectory() as folder:
        engine = upgraded(Place.of(f"{folder}/fresh.db"))
        with engine.connect() as connection:
            rows = connection.execute(
                text("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY tbl_name, type DESC, name")
            )
            statements = [re.sub(r"[ \t]+\n", "\n", f"{row.sql};\n") for row in rows if "sqlite_" not in row.sql]
        engine.dispose()
    return "\n".join(["-- Generated from db/migrations by `python -m tuner.store.migrate`.\n", *statements])


if __name__ == "__main__":
    print(schema_sql(), end="")
