"""The store on SQLite: the conformance suite, and what files, folders, upgrades and other processes do to it."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import filelock
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_mock_engine
from sqlalchemy.schema import CreateTable

from tests.journal_conformance import JournalConformance, miss
from tests.store_conformance import (
    HERE,
    KEY,
    PROBLEM,
    SILICON,
    SOFTWARE,
    StoreConformance,
    config,
    hash_of,
    promote,
    record,
    rendered,
)
from tuner.data import data_folder
from tuner.model import MachineError, UserError, Verdict
from tuner.store import Process, Store, migrate, open_store, schema
from tuner.store.engine import open_engine
from tuner.store.place import Place, file_system

DATA = Path(__file__).parent / "data"
OLD = DATA / "schema-0001.db"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tuner.db"


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A database just made: copying it is faster than making it a hundred times."""
    path = tmp_path_factory.mktemp("fresh") / "tuner.db"
    open_store(str(path), upgrade=True).close()
    return path.read_bytes()


def sql(path: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(statement).fetchall()


class TestFile(StoreConformance, JournalConformance):
    """A database file on a local disk."""

    @pytest.fixture
    def reopen(self, path: Path, fresh: bytes) -> Callable[..., Store]:
        path.write_bytes(fresh)
        return lambda process=HERE: open_store(str(path), upgrade=True, process=process)


class TestNetworkFile(StoreConformance, JournalConformance):
    """A database file on a network file system, where WAL cannot be used."""

    @pytest.fixture
    def reopen(self, path: Path, fresh: bytes) -> Callable[..., Store]:
        path.write_bytes(fresh)
        place = Place.of(str(path))
        return lambda process=HERE: Store(migrate.upgraded(place, system=lambda _: "nfs4"), place, process)


# Opening


def test_a_new_file_uses_wal_and_waits_for_the_disk(path: Path) -> None:
    open_store(str(path), upgrade=True).close()
    assert sql(path, "PRAGMA journal_mode") == [("wal",)]
    with open_engine(Place.of(str(path)), create=False).connect() as connection:
        found = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("synchronous", "foreign_keys")]
    assert found == [2, 1]


def test_a_network_file_system_is_told_and_gets_a_rollback_journal(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    migrate.upgraded(Place.of(str(path)), system=lambda _: "nfs4").dispose()
    assert sql(path, "PRAGMA journal_mode") == [("delete",)]
    assert "network file system (nfs4)" in caplog.text


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_removed_or_replaced_meanwhile_is_told_on_leaving(path: Path, fresh: bytes, replaced: bool) -> None:
    store = open_store(str(path), upgrade=True)
    promote(store, 1)
    before = store.snapshot.read_text()
    path.unlink()
    if replaced:
        path.write_bytes(fresh)
    promote(store, 2)
    with pytest.raises(MachineError, match=r"tuner\.db was removed or replaced .* nothing of this run is kept"), store:
        pass
    assert store.snapshot.read_text() == before
    with pytest.raises(ZeroDivisionError), open_store(str(path), upgrade=True) as store:
        store.start_run(*KEY, {})
        path.unlink()
        raise ZeroDivisionError


def test_who_only_read_does_not_mind_that_the_file_is_another_one(path: Path, fresh: bytes) -> None:
    open_store(str(path), upgrade=True).close()
    with open_store(str(path), upgrade=False) as store:
        path.unlink()
        assert store.champions() == []


def test_a_database_in_use_keeps_its_journal_for_now(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_store(str(path), upgrade=True) as store:
        store.start_run(*KEY, {})
        migrate.upgraded(Place.of(str(path)), system=lambda _: "nfs4").dispose()
        assert "its journal stays wal" in caplog.text
        assert store.start_run(*KEY, {}) == 2
    migrate.upgraded(Place.of(str(path)), system=lambda _: "nfs4").dispose()
    assert sql(path, "PRAGMA journal_mode") == [("delete",)]


def test_the_file_system_is_that_of_the_deepest_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    folder = tmp_path / "two words"
    name = str(folder).replace(" ", "\\040")
    mounts.write_text(f"/dev/a / ext4 rw 0 0\nserver:/x {name} nfs4 rw 0 0\n/dev/b {name}er xfs rw 0 0\n")
    assert file_system(folder / "tuner.db", mounts) == "nfs4"
    assert file_system(tmp_path / "tuner.db", mounts) == "ext4"
    assert file_system(tmp_path, tmp_path / "missing") == ""


def test_any_file_name_will_do(tmp_path: Path) -> None:
    path = tmp_path / "my db?#%20&x=1 é"
    for upgrade in (True, False):
        with open_store(str(path), upgrade=upgrade) as store:
            assert (store.check(), path.exists()) == ([], True)


def test_missing_folders_are_made(tmp_path: Path) -> None:
    open_store(str(tmp_path / "a" / "b" / "tuner.db"), upgrade=True).close()
    assert (tmp_path / "a" / "b" / "tuner.db").exists()


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}", "sqlite+pysqlite:///{}"])
def test_a_path_and_a_url_are_the_same_place(path: Path, form: str) -> None:
    assert Place.of(form.format(path)).path == path


def test_a_server_has_its_snapshot_in_the_users_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    one, other = (Place.of(f"postgresql://me:secret@host/{name}") for name in ("a", "b"))
    assert one.snapshot.parent == tmp_path / "gemm-tuner"
    assert one.snapshot != other.snapshot
    assert one.label == "postgresql://me:***@host/a"
    assert Place.of("postgresql://me@host/a").snapshot == one.snapshot, "a look-up need not know the password"


@pytest.mark.parametrize(
    "url", ["sqlite://", ":memory:", "sqlite:///:memory:", "nosuch://host/db", "mysql://host/db", "postgresql+x://h/d"]
)
def test_a_url_that_names_no_database_is_refused(url: str) -> None:
    with pytest.raises(UserError, match=r"names no file|is no database URL"):
        open_store(url, upgrade=True)


def test_a_server_without_its_driver_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UserError, match=r"needs the Python package psycopg: pip install .gemm-tuner\[postgres\]"):
        open_store("postgresql://me:secret@localhost/gemm", upgrade=False)


@pytest.mark.parametrize("upgrade", [True, False])
def test_a_file_that_is_no_database_is_refused_and_kept(path: Path, upgrade: bool) -> None:
    path.write_text("precious notes, longer than the sixteen bytes of SQLite's header")
    with pytest.raises(UserError, match="is not a database"):
        open_store(str(path), upgrade=upgrade)
    assert path.read_text().startswith("precious")


@pytest.mark.parametrize("upgrade", [True, False])
def test_a_damaged_database_is_refused(path: Path, upgrade: bool) -> None:
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    with pytest.raises(UserError, match=r"is not a database|is damaged"):
        open_store(str(path), upgrade=upgrade)


@pytest.mark.parametrize("upgrade", [True, False])
def test_another_programs_database_is_refused_and_kept(path: Path, upgrade: bool) -> None:
    sql(path, "CREATE TABLE alembic_version (version_num TEXT)")
    with pytest.raises(UserError, match="another program"):
        open_store(str(path), upgrade=upgrade)
    assert sql(path, "SELECT name FROM sqlite_schema") == [("alembic_version",)]


@pytest.mark.parametrize("upgrade", [True, False])
@pytest.mark.parametrize("url", ["{}", "/", "sqlite:////", "//", "{}/.."])
def test_a_folder_is_refused(tmp_path: Path, upgrade: bool, url: str) -> None:
    with pytest.raises(UserError, match="is a folder"):
        open_store(url.format(tmp_path), upgrade=upgrade)


@pytest.mark.parametrize("upgrade", [True, False])
def test_a_pipe_is_refused_and_not_waited_for(path: Path, upgrade: bool) -> None:
    os.mkfifo(path)
    with pytest.raises(UserError, match="no regular file"):
        open_store(str(path), upgrade=upgrade)


@pytest.mark.parametrize("url", ["sqlite:///a%00b", "~nosuchuser/tuner.db", "a\ud800.db", "postgresql://h/\udce9"])
def test_what_no_file_or_server_can_be_called_is_refused(url: str) -> None:
    with pytest.raises(UserError, match=r"is no path of a file|is no database URL"):
        open_store(url, upgrade=True)


def test_a_file_name_need_not_be_text(old: Path) -> None:
    odd = old.with_name(os.fsdecode(b"caf\xe9 %.db"))
    old.rename(odd)
    for upgrade in (True, False):
        with open_store(str(odd), upgrade=upgrade) as store:
            assert store.check() == []
    assert {one.name.partition(".")[0] for one in odd.parent.iterdir() if one.name[0] != "."} == {odd.stem}
    assert Place.of("sqlite:///" + quote(os.fsencode(odd))).path == odd


# Links


def test_a_link_and_what_it_points_to_are_one_place(path: Path, tmp_path: Path) -> None:
    link, folder = tmp_path / "link.db", tmp_path / "folder"
    link.symlink_to(path)
    folder.symlink_to(tmp_path)
    there = Place.of(str(path))
    assert Place.of(str(link)) == Place.of(str(folder / "link.db")) == Place.of(f"sqlite:///{link}") == there
    open_store(str(link), upgrade=True).close()
    assert path.exists()


def test_a_link_to_itself_is_refused(path: Path) -> None:
    path.symlink_to(path)
    with pytest.raises(UserError):
        open_store(str(path), upgrade=True)


def test_a_path_below_a_file_is_refused(path: Path) -> None:
    path.touch()
    with pytest.raises(UserError, match="cannot make the folder"):
        open_store(str(path / "tuner.db"), upgrade=True)


AS_NOBODY = """
import os, sys
from tuner.store import open_store
from tuner.model import UserError
with open_store(sys.argv[1], upgrade=True) as store:  # imports whatever nobody may not read
    store.champions()
if os.getuid() == 0:
    os.setgid(65534), os.setuid(65534)
try:
    with open_store(sys.argv[2], upgrade=sys.argv[3] == "upgrade") as store:
        print(len(store.champions()))
        store.finish_run(1, {})
except UserError as error:
    print(error)
"""


def as_nobody(path: Path, elsewhere: Path, how: str) -> str:
    """Open a store in a process that permissions apply to, which they do not to root."""
    return subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(elsewhere / "mine.db"), str(path), how],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(data_folder("db").parent)},
    ).stdout


@pytest.fixture
def locked_folder() -> Iterator[Path]:
    """A folder with a store that anybody can read and nobody write."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with open_store(str(folder / "tuner.db"), upgrade=True) as store:
            store.start_run(*KEY, {})
            promote(store, 1)
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)


def test_a_read_only_folder_is_refused_to_commands_that_tune(locked_folder: Path, tmp_path: Path) -> None:
    assert "cannot write to the folder" in as_nobody(locked_folder / "tuner.db", tmp_path, "upgrade")


def test_a_read_only_folder_can_be_read_and_not_written(locked_folder: Path, tmp_path: Path) -> None:
    first, second = as_nobody(locked_folder / "tuner.db", tmp_path, "read").splitlines()
    assert first == "1"
    assert "cannot be written" in second


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that anybody can write, with a store that only its owner can: /tmp, say."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        with open_store(str(folder / "tuner.db"), upgrade=True) as store:
            store.start_run(*KEY, {})
            promote(store, 1)
        (folder / "tuner.db").chmod(0o444)
        yield folder


@pytest.mark.parametrize("busy", [True, False])
def test_a_reader_leaves_nothing_that_locks_the_owner_out(shared_folder: Path, tmp_path: Path, busy: bool) -> None:
    path = shared_folder / "tuner.db"
    path.chmod(0o644)
    store = open_store(str(path), upgrade=True)
    if busy:
        promote(store, 2, (SILICON, SOFTWARE, replace(PROBLEM, m=1)))
        assert path.with_name("tuner.db-wal").stat().st_size
    else:
        store.close()
    path.chmod(0o444)
    before = sorted(shared_folder.iterdir())
    first, second = as_nobody(path, tmp_path, "read").splitlines()
    assert (first, "cannot be written" in second) == ("2" if busy else "1", True)
    assert sorted(shared_folder.iterdir()) == before
    path.chmod(0o644)
    assert store.start_run(*KEY, {}) == 2
    store.close()


def test_a_lock_that_cannot_be_had_is_named_with_its_reason(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "lock file belongs to uid 7, not to this process's account or the directory's owner"
    with open_store(str(path), upgrade=True) as store:
        monkeypatch.setattr(filelock.FileLock, "acquire", lambda _: os_error(errno.EACCES, said))
        with pytest.raises(UserError, match=f"cannot lock {path}.lock: {said}") as caught:
            store.publish()
    assert "cannot write" not in str(caught.value)


def os_error(number: int, reason: str) -> None:
    raise OSError(number, reason)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_another_users_lock_is_named_with_its_owner(shared_folder: Path, tmp_path: Path) -> None:
    for name in ("tuner.db", "tuner.db.snapshot.json"):
        os.chown(shared_folder / name, 65534, 65534)
        (shared_folder / name).chmod(0o644)
    said = as_nobody(shared_folder / "tuner.db", tmp_path, "upgrade")
    assert f"cannot lock {shared_folder}/tuner.db.lock, which belongs to another user (uid 0)" in said


# Reading where nothing is stored


@pytest.mark.parametrize("present", [True, False])
def test_reading_where_nothing_is_stored_answers_nothing_and_makes_nothing(path: Path, present: bool) -> None:
    if present:
        path.touch()
    with open_store(str(path), upgrade=False) as store:
        assert (store.history(*KEY), store.champions(), store.log(), store.check()) == ([], [], [], [])
        assert store.stats()["tables"]["trial"] == 0
        with pytest.raises(UserError, match="nothing is stored"):
            store.start_run(*KEY, {})
    assert [one.name for one in path.parent.iterdir()] == ["tuner.db"] * present


def test_reading_makes_no_snapshot_and_no_copy(path: Path) -> None:
    with open_store(str(path), upgrade=True) as store:
        store.start_run(*KEY, {})
    before = sorted(path.parent.iterdir())
    with open_store(str(path), upgrade=False) as store:
        assert store.champions() == []
    assert sorted(path.parent.iterdir()) == before


# Upgrades


OLD_TRIALS = [
    replace(record(1), source_hash="h1"),
    replace(record(2, Verdict.WRONG_RESULT, message="off by 5"), source_hash="h2"),
]
"""In every file of tests/data."""


@pytest.mark.parametrize("number", [found.name[7:11] for found in sorted(DATA.glob("schema-*.db"))])
def test_every_older_schema_is_brought_up_to_date(path: Path, number: str) -> None:
    """Each file in tests/data was written by the release that had that schema."""
    path.write_bytes((DATA / f"schema-{number}.db").read_bytes())
    with open_store(str(path), upgrade=True) as store:
        assert store.history(*KEY) == OLD_TRIALS
        assert [one.config for one in store.champions()] == [config(1)]
        assert (store.misses(), store.nights(), store.peaks(SILICON, SOFTWARE), store.check()) == ([], [], [], [])


def test_every_older_schema_has_its_file() -> None:
    assert [found.name[7:11] for found in sorted(DATA.glob("schema-*.db"))] == list(migrate.revisions()[:-1])


@pytest.fixture
def old(path: Path) -> Path:
    """A database that the first migration made, with two trials, a champion and a candidate in flight."""
    path.write_bytes(OLD.read_bytes())
    return path


def test_an_old_file_is_brought_up_to_date(old: Path) -> None:
    with open_store(str(old), upgrade=True) as store:
        assert store.history(*KEY) == OLD_TRIALS
        assert [one.config for one in store.fastest(*KEY, 5)] == [config(1)]
        assert [one.config for one in store.champions()] == [config(1)]
        assert store.check() == []


def test_an_upgrade_copies_the_file_first(old: Path) -> None:
    open_store(str(old), upgrade=True).close()
    (copy,) = old.parent.glob("tuner.schema-0001.*.db")
    assert sql(copy, f"SELECT version_num FROM {schema.VERSION_TABLE}") == [("0001",)]
    assert sql(copy, "SELECT count(*) FROM trial") == [(2,)]


def test_an_upgrade_happens_once(old: Path) -> None:
    for _ in range(2):
        open_store(str(old), upgrade=True).close()
    assert len(list(old.parent.glob("tuner.schema-*"))) == 1


def test_a_new_file_needs_no_copy(path: Path) -> None:
    open_store(str(path), upgrade=True).close()
    assert list(path.parent.glob("tuner.schema-*")) == []


def test_reading_an_old_file_says_what_to_do_and_leaves_it(old: Path) -> None:
    with pytest.raises(UserError, match="older schema 0001; run gemm-tuner db upgrade"):
        open_store(str(old), upgrade=False)
    assert old.read_bytes() == OLD.read_bytes()


@pytest.mark.parametrize("upgrade", [True, False])
def test_a_newer_file_is_refused_and_left(path: Path, upgrade: bool) -> None:
    open_store(str(path), upgrade=True).close()
    sql(path, f"UPDATE {schema.VERSION_TABLE} SET version_num = '9999'")
    before = path.read_bytes()
    with pytest.raises(UserError, match=r"written by a newer gemm-tuner \(schema 9999\); upgrade gemm-tuner"):
        open_store(str(path), upgrade=upgrade)
    assert path.read_bytes() == before


def test_a_migration_that_fails_leaves_the_old_schema(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sql(old, "CREATE INDEX ix_trial_problem_id_silicon_id_software_id_time_ms ON trial (id)")
    with pytest.raises(Exception, match="already exists"):
        open_store(str(old), upgrade=True)
    assert sql(old, f"SELECT version_num FROM {schema.VERSION_TABLE}") == [("0001",)]
    assert "time_ms" not in {row[1] for row in sql(old, "PRAGMA table_info(trial)")}


def test_every_revision_upgrades_from_the_one_before(path: Path) -> None:
    for revision in migrate.revisions():
        migrate.upgraded(Place.of(str(path)), to=revision).dispose()
        assert sql(path, f"SELECT version_num FROM {schema.VERSION_TABLE}") == [(revision,)]


def test_revisions_are_those_alembic_finds() -> None:
    script = ScriptDirectory(str(data_folder("db") / "migrations"))
    assert [step.revision for step in script.walk_revisions()][::-1] == list(migrate.revisions())


def test_an_upgrade_killed_before_its_first_revision_starts_anew(path: Path) -> None:
    sql(path, f"CREATE TABLE {schema.VERSION_TABLE} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
    with open_store(str(path), upgrade=False) as store:
        assert store.champions() == []
    with open_store(str(path), upgrade=True) as store:
        assert store.check() == []


def test_migrations_make_the_tables_that_the_code_knows(path: Path) -> None:
    with migrate.upgraded(Place.of(str(path))).connect() as connection:
        options = {"version_table": schema.VERSION_TABLE, "compare_type": True}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, schema.metadata) == []


def test_the_schema_file_is_up_to_date() -> None:
    committed = (data_folder("db") / "schema.sql").read_text("utf-8")
    assert committed == migrate.schema_sql(), "run: python -m tuner.store.migrate > db/schema.sql"


def test_the_tables_are_valid_on_postgresql() -> None:
    dialect = create_mock_engine("postgresql+psycopg://", print).dialect
    statements = [str(CreateTable(table).compile(dialect=dialect)) for table in schema.metadata.sorted_tables]
    assert sum("DOUBLE PRECISION" in statement for statement in statements) == 4


# Several threads and processes


def test_six_processes_make_the_same_store_at_once(path: Path) -> None:
    script = "import sys; from tuner.store import open_store; open_store(sys.argv[1], upgrade=True).close()"
    environment = {**os.environ, "PYTHONPATH": str(data_folder("db").parent)}
    started = [
        subprocess.Popen([sys.executable, "-c", script, str(path)], env=environment, stderr=subprocess.PIPE)
        for _ in range(6)
    ]
    errors = [process.communicate(timeout=120)[1].decode() for process in started]
    assert errors == [""] * 6
    with open_store(str(path), upgrade=False) as store:
        assert (store.check(), list(path.parent.glob("tuner.schema-*"))) == ([], [])


def test_readers_and_writers_are_never_locked_out(path: Path) -> None:
    with open_store(str(path), upgrade=True) as store:
        run = store.start_run(*KEY, {})
    failures: list[BaseException] = []
    done = threading.Event()

    def write(first: int) -> None:
        with open_store(str(path), upgrade=True) as store:
            for number in range(first, first + 20):
                store.begin(run, *KEY, config(number), hash_of(number), "time")
                store.add(record(number))
                if number % 10 == 0:
                    promote(store, number)

    def read() -> None:
        with open_store(str(path), upgrade=False) as store:
            while not done.wait(0.02):
                store.history(*KEY)
                store.champions()
                store.stats()

    def guarded(work: Callable[..., None], *arguments: int) -> None:
        try:
            work(*arguments)
        except BaseException as error:
            failures.append(error)

    writers = [threading.Thread(target=guarded, args=(write, first)) for first in (0, 1000)]
    readers = [threading.Thread(target=guarded, args=(read,)) for _ in range(8)]
    for thread in (*writers, *readers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert failures == []
    with open_store(str(path), upgrade=False) as store:
        assert (len(store.history(*KEY)), store.stats()["tables"]["in_flight"], store.check()) == (40, 0, [])


def test_one_store_serves_several_threads(path: Path) -> None:
    with open_store(str(path), upgrade=True) as store:
        store.start_run(*KEY, {})
        threads = [threading.Thread(target=store.add, args=(record(number),)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(one.config for one in store.history(*KEY)) == [config(number) for number in range(20)]


def test_a_store_locked_for_too_long_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.store.engine.BUSY_SECONDS", 0.1)
    with open_store(str(path), upgrade=True) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(UserError, match="locked by another program"):
            store.start_run(*KEY, {})


# Size


def test_the_history_of_one_problem_uses_the_index(path: Path) -> None:
    with migrate.upgraded(Place.of(str(path))).connect() as connection:
        query = "SELECT * FROM trial WHERE silicon_id=1 AND software_id=1 AND problem_id=1 ORDER BY id"
        plan = [row[-1] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}")]
    assert plan == [
        "SEARCH trial USING INDEX ix_trial_problem_id_silicon_id_software_id "
        "(problem_id=? AND silicon_id=? AND software_id=?)"
    ]


def test_twenty_thousand_trials_come_back(path: Path) -> None:
    with open_store(str(path), upgrade=True) as store:
        store.start_run(*KEY, {})
        store.add(record())
        sql(
            path,
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 19999) "
            "INSERT INTO trial SELECT i + 1, run_id, problem_id, silicon_id, software_id, family, "
            "'{\"ts\":' || i || '}', family_hash, source_hash, verdict, samples, compile_ms, verify_ms, error_ratio, "
            'message, registers, spill_bytes, local_bytes, log_hash, "when", time_ms, imported_from, extra '
            "FROM trial, n",
        )
        found = store.history(*KEY)
    assert [one.config for one in found] == [config(number) for number in range(20_000)]


def test_a_source_is_kept_once(path: Path) -> None:
    with open_store(str(path), upgrade=True) as store:
        for m in range(1, 4):
            key = (SILICON, SOFTWARE, replace(PROBLEM, m=m))
            store.promote(*key, config(), replace(rendered(), source_hash=f"h{m}"), reason="", time_ms=1.0, noise=0.1)
        assert store.stats()["tables"]["source"] == 1


# Damage


@pytest.mark.parametrize(
    "change",
    [
        "config = '{\"ts\":'",
        "config = '[1]'",
        "config = 'null'",
        "samples = x'00'",
        "samples = x''",
        "verdict = 'fast'",
    ],
)
def test_a_damaged_trial_is_left_out_and_named(path: Path, change: str, caplog: pytest.LogCaptureFixture) -> None:
    with open_store(str(path), upgrade=True) as store:
        store.start_run(*KEY, {})
        store.add(record(1))
        store.add(record(2))
        sql(path, f"UPDATE trial SET {change} WHERE id = 1")
        with caplog.at_level(logging.WARNING):
            assert store.history(*KEY) == [record(2)]
        assert "1 stored trials cannot be read" in caplog.text
        assert any("trial 1 cannot be read" in message for message in store.check())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE trial SET time_ms = 9", "not the median"),
        ("UPDATE source SET text = 'other'", "not the text it was"),
        ("UPDATE champion_log SET plan = '{'", "1 of 1 lines of the champions' log"),
        ("DELETE FROM run", "missing row of run"),
        ("UPDATE miss SET asked = 'often'", "1 of 1 rows of miss"),
        ("UPDATE night SET plan = '['", "1 of 1 rows of night"),
    ],
)
def test_check_names_what_is_wrong(path: Path, change: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.store.store.PUBLISHING_SECONDS", 0.0)
    with open_store(str(path), upgrade=True) as store:
        store.start_run(*KEY, {})
        store.add(record(1))
        promote(store, 1)
        store.add_misses([miss()])
        store.start_night("lab", HERE.host, {})
        sql(path, change)
        assert any(message in found for found in store.check())


@pytest.mark.parametrize("upgrade", [True, False])
@pytest.mark.parametrize(
    "old_text", [b"TABLE trial", b"trial", b"CREATE TABLE", b"family TEXT", b"family", b"uq_silicon"]
)
def test_a_flipped_bit_in_the_schema_is_damage(path: Path, fresh: bytes, old_text: bytes, upgrade: bool) -> None:
    assert old_text in fresh
    for bit in (0, 1, 7):
        path.write_bytes(fresh.replace(old_text, old_text[:-1] + bytes([old_text[-1] ^ 1 << bit])))
        try:
            with open_store(str(path), upgrade=upgrade) as store:
                assert store.history(*KEY) == []
                store.fastest(*KEY, 1)
                assert store.champions() == []
        except UserError as error:
            assert "is damaged" in str(error)


def test_a_damaged_source_is_not_published_and_a_promotion_mends_it(path: Path) -> None:
    with open_store(str(path), upgrade=True) as store:
        store.start_run(*KEY, {})
        promote(store, 1)
        sql(path, "UPDATE source SET text = replace(text, '1', '7')")
        assert (store.champion(*KEY), store.champions()) == (None, [])
        promote(store, 1)
        assert [one.rendered for one in store.champions()] == [rendered(1)]
        assert store.check() == []


def test_undecodable_text_in_a_row_is_damage(path: Path) -> None:
    with open_store(str(path), upgrade=True) as store:
        store.start_run(*KEY, {})
        store.add(record(1))
        sql(path, "UPDATE trial SET message = CAST(x'ff' AS TEXT)")
        with pytest.raises(UserError, match="is damaged"):
            store.history(*KEY)


# Processes


def test_a_process_lives_until_it_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
    process = replace(HERE, pid=child.pid, started=started)
    assert process.lives()
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not process.lives(), "a zombie does nothing any more"
    child.communicate()
    assert not process.lives()


def test_the_current_process_is_this_one() -> None:
    assert Process.current() == HERE
    assert HERE.lives()
    assert HERE.boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
