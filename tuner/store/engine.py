"""From a place to connections: pragmas, transactions that never fail for being upgraded, and errors as sentences."""

from __future__ import annotations

import logging
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import filelock
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from tuner.model import MachineError, UserError
from tuner.store import server
from tuner.store.place import NETWORK_FILE_SYSTEMS, Place, file_system

BUSY_SECONDS = 60.0
"""How long a writer waits for another's transaction, each of which takes milliseconds."""

_LOCK_SECONDS = 120.0

_UNKNOWN = "whether it is stored is unknown; run the command again"

_log = logging.getLogger("tuner.store")
_Result = TypeVar("_Result")

_SENTENCES = {
    sqlite3.SQLITE_NOTADB: "is not a database; give another path, or move that file away",
    sqlite3.SQLITE_CORRUPT: "is damaged; restore a copy of it, or move it away to start anew",
    sqlite3.SQLITE_READONLY: "cannot be written; check the permissions of the file and its folder",
    sqlite3.SQLITE_PERM: "cannot be opened; check the permissions of the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; check the path and the permissions of its folder",
    sqlite3.SQLITE_FULL: "cannot grow: the disk is full; free some space and run the command again",
    sqlite3.SQLITE_IOERR: "cannot be read or written: the disk reports an error",
    sqlite3.SQLITE_BUSY: f"was locked by another program for {BUSY_SECONDS:.0f} s; end that program and try again",
}

_DAMAGE = re.compile(r"no such (table|column)|table \S+ has no column|malformed|Could not decode to UTF-8")
"""What SQLite calls an error of the statement, or Python of the text, when a bit of the file has flipped."""


def open_engine(place: Place, *, create: bool) -> Engine:
    """An engine on `place`; a missing database file is made only if `create`. Raises UserError, connects to nothing."""
    if place.path is None:
        return server.open_engine(place)
    address = _address(place.path, create=create)
    engine = create_engine(
        f"sqlite:///{quoted(place.path)}",
        creator=lambda: sqlite3.connect(
            address, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        ),
    )
    event.listen(engine, "connect", _set_pragmas)
    event.listen(engine, "begin", _begin)
    return engine


def empty_engine() -> Engine:
    """A private empty database in memory."""
    return create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})


def _address(path: Path, *, create: bool) -> str:
    """The URI SQLite opens. Who may not write the file or its folder must leave nothing there, for the owner could not
    open another user's log or shared memory: immutable, or where transactions lie in the log, with its memory as it is.
    """
    mode = "rwc" if create else "rw"
    if not create and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        log = path.with_name(f"{path.name}-wal")
        mode = "ro&readonly_shm=1" if log.exists() and log.stat().st_size else "ro&immutable=1"
    return f"file:{quoted(path)}?mode={mode}"


def quoted(path: Path) -> str:
    """A path as a URI has it, byte by byte: a name need not be text."""
    return quote(os.fsencode(path))


def _set_pragmas(connection: sqlite3.Connection, _: Any) -> None:
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")


def _begin(connection: Connection) -> None:
    """A read that turns into a write fails at once if another wrote in between, so writers say so from the start."""
    writing = connection.get_execution_options().get("writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def writing(engine: Engine) -> Engine:
    """The same engine, whose transactions take the write lock when they begin."""
    return engine.execution_options(writing=True)


def transact(place: Place, engine: Engine, work: Callable[[Connection], _Result]) -> _Result:
    """What `work` returns, done in one transaction, which may be tried several times. Raises as `plain_errors` does."""

    def once() -> _Result:
        with engine.connect() as connection, connection.begin() as transaction:
            result = work(connection)
            try:
                transaction.commit()
            except DBAPIError as error:
                if server.is_gone(error) and engine.get_execution_options().get("writing", False):
                    raise MachineError(f"{place.label} went away while a change was committed: {_UNKNOWN}.") from error
                raise
        return result

    with plain_errors(place):
        return server.retried(once)


def set_journal(place: Place, system: Callable[[Path], str] = file_system) -> None:
    """Choose the journal for the file system `place` lies on. Call under the exclusive lock, no connection open."""
    if place.path is None:
        return
    kind = system(place.path)
    remote = kind in NETWORK_FILE_SYSTEMS
    if remote:
        _log.warning(
            "%s lies on a network file system (%s): the slower rollback journal is used. "
            "Keep the database on a local disk if more than one machine tunes.",
            place.label,
            kind,
        )
    _switch_journal(place.path, "delete" if remote else "wal")


def _switch_journal(path: Path, wanted: str) -> None:
    """Only a database that nobody else has open can be switched; the next command that finds it so does."""
    with closing(sqlite3.connect(path, timeout=1.0, isolation_level=None)) as connection:
        (present,) = connection.execute("PRAGMA journal_mode").fetchone()
        if present == wanted:
            return
        try:
            connection.execute(f"PRAGMA journal_mode={wanted}")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            _log.warning("%s is in use, so its journal stays %s for now.", path, present)


def shrink(place: Place) -> None:
    """Give the pages of a file that hold nothing back to the disk, unless others use it just now."""
    if place.path is None:
        return
    with plain_errors(place), closing(sqlite3.connect(place.path, timeout=1.0, isolation_level=None)) as connection:
        try:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            _log.warning(
                "%s is in use: the room that became free will be used again, but the file stays large.", place.label
            )


@contextmanager
def exclusive(place: Place) -> Iterator[None]:
    """Hold the lock file of `place` against every other process on this machine. Raises MachineError if that fails."""
    try:
        place.lock.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(f"cannot make the folder {place.lock.parent}: {error.strerror or error}.") from error
    try:
        os.close(os.open(place.lock, os.O_RDWR | os.O_CREAT, 0o644))  # what can't be made, filelock would wait for
        held = filelock.FileLock(place.lock, timeout=_LOCK_SECONDS).acquire()
    except filelock.Timeout as error:
        raise MachineError(f"another program has held {place.lock} for {_LOCK_SECONDS:.0f} s; end it first.") from error
    except OSError as error:
        reason = f"{error.strerror or error}".rstrip(".")
        owner = "" if "uid" in reason else _owned_by(place.lock)
        raise MachineError(f"cannot lock {place.lock}{owner}: {reason}.") from error
    with held:
        yield


def _owned_by(path: Path) -> str:
    """Whose file it is, if it is another user's."""
    try:
        owner = path.stat().st_uid
    except OSError:
        return ""
    return "" if owner == os.geteuid() else f", which belongs to another user (uid {owner})"


@contextmanager
def plain_errors(place: Place) -> Iterator[None]:
    """Turn what the machine or another program does to the database into a MachineError; our mistakes pass through."""
    try:
        yield
    except DBAPIError as error:
        said = server.sentence(place, error) if place.path is None else None
        raise (MachineError(said) if said else _file_error(place, error.orig)) or error from error
    except sqlite3.Error as error:
        raise _file_error(place, error) or error from error
    except UnicodeDecodeError as error:
        raise MachineError(f"{place.label} {_SENTENCES[sqlite3.SQLITE_CORRUPT]}.") from error
    except UnicodeEncodeError as error:
        raise UserError(f"{error.object!r:.80} cannot be stored: it is no valid Unicode.") from error


def _file_error(place: Place, error: BaseException | None) -> MachineError | None:
    if isinstance(error, sqlite3.OperationalError) and _DAMAGE.match(str(error)):
        return MachineError(f"{place.label} {_SENTENCES[sqlite3.SQLITE_CORRUPT]}.")
    code = getattr(error, "sqlite_errorcode", None)
    sentence = None if code is None else _SENTENCES.get(code & 0xFF)
    return MachineError(f"{place.label} {sentence}.") if sentence else None
