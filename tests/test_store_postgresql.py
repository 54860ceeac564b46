"""The store on PostgreSQL: the same suites as on SQLite against a real server, and what only a server can do."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.exc import OperationalError

from tests import postgresql
from tests.journal_conformance import JournalConformance
from tests.store_conformance import ELSEWHERE, HERE, KEY, StoreConformance, config, promote, record
from tuner.model import MachineError, UserError
from tuner.store import Store, migrate, open_store, schema, trials
from tuner.store import server as store_server
from tuner.store.engine import transact
from tuner.store.place import Place

FOUND = postgresql.programs()
pytestmark = [
    pytest.mark.skipif(FOUND is None, reason="no PostgreSQL server is installed (apt-get install postgresql)"),
    pytest.mark.skipif(
        find_spec("psycopg") is None, reason="psycopg is not installed (pip install gemm-tuner[postgres])"
    ),
]


@pytest.fixture(scope="session")
def server() -> Iterator[postgresql.Server]:
    assert FOUND is not None
    with postgresql.serving(FOUND) as running:
        yield running


@pytest.fixture(scope="session")
def made(server: postgresql.Server, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Engine]:
    """The URL of a database, and an engine on it, for all tests that leave the schema as it is."""
    url = server.fresh()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("made")))
        open_store(url, upgrade=True).close()
    return url, create_engine(url, pool_pre_ping=True)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder, where the snapshot is."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def url(made: tuple[str, Engine]) -> str:
    """The URL of a database just made: emptying one is faster than making a hundred."""
    url, engine = made
    tables = reversed(schema.metadata.sorted_tables)
    clear = [f"DELETE FROM {table.name}" for table in tables]
    count_anew = [
        f"SELECT setval('{table.name}_id_seq', 1, false)" for table in schema.metadata.sorted_tables if "id" in table.c
    ]
    with engine.begin() as connection:
        connection.exec_driver_sql("; ".join([*clear, *count_anew]))
    return url


class TestServer(StoreConformance, JournalConformance):
    """A database of a PostgreSQL server."""

    @pytest.fixture
    def reopen(self, url: str) -> Callable[..., Store]:
        return lambda process=HERE: open_store(url, upgrade=True, process=process)


# Opening


def test_an_empty_database_is_read_as_an_empty_store(server: postgresql.Server) -> None:
    url = server.fresh()
    with open_store(url, upgrade=False) as store:
        assert (store.history(), store.champions(), store.check()) == ([], [], [])
    assert server.ask(url, r"SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == "0"


def test_a_server_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"postgresql://me:\*\*\*@/none.* cannot be reached: "):
        open_store(f"postgresql://me:secret@/none?host={tmp_path}", upgrade=False)


def test_a_database_that_is_not_there_is_told(server: postgresql.Server) -> None:
    with pytest.raises(MachineError, match=r'cannot be reached: .*database "none" does not exist'):
        open_store(server.url("none"), upgrade=True)


def test_a_newer_schema_is_refused(server: postgresql.Server) -> None:
    url = server.fresh()
    open_store(url, upgrade=True).close()
    server.ask(url, f"UPDATE {schema.VERSION_TABLE} SET version_num = '9999'")
    with pytest.raises(UserError, match=r"written by a newer gemm-tuner \(schema 9999\)"):
        open_store(url, upgrade=True)


def test_an_older_schema_is_brought_up_to_date(server: postgresql.Server) -> None:
    url = server.fresh()
    for revision in migrate.revisions():
        migrate.upgraded(Place.of(url), to=revision).dispose()
        assert server.ask(url, f"SELECT version_num FROM {schema.VERSION_TABLE}") == revision
    with open_store(url, upgrade=True) as store:
        assert store.check() == []


def test_a_user_who_may_only_read_reads_and_is_told(server: postgresql.Server, url: str) -> None:
    with open_store(url, upgrade=True) as store:
        store.start_run(*KEY, {})
        promote(store, 1)
    server.ask(url, "DROP ROLE IF EXISTS reader")
    server.ask(url, "CREATE ROLE reader LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    with open_store(url.replace("tuner@", "reader@"), upgrade=False) as store:
        assert [one.config for one in store.champions()] == [config(1)]
        with pytest.raises(MachineError, match="cannot be written by this user"):
            store.start_run(*KEY, {})
    server.ask(url, "DROP OWNED BY reader; DROP ROLE reader")


# Several machines


def test_champions_reach_another_machine_when_it_tunes(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(url, upgrade=True) as here:
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "another machine"))
        with open_store(url, upgrade=True, process=ELSEWHERE) as there:
            here.start_run(*KEY, {})
            promote(here, 1)
            assert (here.snapshot.exists(), there.snapshot.exists()) == (True, False)
        with open_store(url, upgrade=True, process=ELSEWHERE) as there:
            assert here.snapshot.read_text() == there.snapshot.read_text()


def test_six_processes_make_the_same_store_at_once(server: postgresql.Server, home: Path) -> None:
    """Each with a data folder of its own, as on six machines, so that no lock file keeps them apart."""
    url = server.fresh()
    script = "import os, sys; os.environ['XDG_DATA_HOME'] = sys.argv[2]; from tuner.store import open_store; "
    script += "open_store(sys.argv[1], upgrade=True).close()"
    started = [
        subprocess.Popen([sys.executable, "-c", script, url, str(home / str(number))], stderr=subprocess.PIPE)
        for number in range(6)
    ]
    assert [process.communicate(timeout=120)[1].decode() for process in started] == [""] * 6
    assert server.ask(url, f"SELECT version_num FROM {schema.VERSION_TABLE}") == migrate.head()


def test_a_writer_that_waits_too_long_says_so(
    server: postgresql.Server, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = store_server._QUEUE_UP.replace("lock_timeout = '60s'", "lock_timeout = '50ms'")
    monkeypatch.setattr(store_server, "_QUEUE_UP", short)
    with open_store(url, upgrade=True) as store, open_store(url, upgrade=True) as other:
        with other._writer.begin(), pytest.raises(MachineError, match="was locked by another program"):
            store.start_run(*KEY, {})
        assert store.start_run(*KEY, {}) == 1


def test_a_deadlock_is_undone_and_done_again(url: str) -> None:
    """One takes run and wants trial, the other trial and wants run: the server ends one, which then starts over."""
    ready, attempts = threading.Barrier(2, timeout=20), list[str]()

    def lock(first: str, second: str) -> None:
        def work(connection: Connection) -> None:
            attempts.append(first)
            connection.exec_driver_sql(f"LOCK TABLE {first}")
            if attempts.count(first) == 1:
                ready.wait()
            connection.exec_driver_sql(f"LOCK TABLE {second}")

        engine = create_engine(url)
        transact(Place.of(url), engine, work)
        engine.dispose()

    threads = [threading.Thread(target=lock, args=pair) for pair in (("run", "trial"), ("trial", "run"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert sorted(attempts) in (["run", "run", "trial"], ["run", "trial", "trial"])


def test_a_server_that_restarts_is_waited_for(
    server: postgresql.Server, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_server, "PATIENCE_SECONDS", 120.0)  # a busy machine starts a server slowly
    with open_store(url, upgrade=True) as store:
        store.start_run(*KEY, {})
        server.ask(url, "CHECKPOINT")  # or it would go through all tests' changes again before it serves anybody
        server.stop()
        again = threading.Timer(1.0, server.start)
        again.start()
        store.add(record(1))
        again.join()
        assert store.history(*KEY) == [record(1)]


def test_a_transaction_that_was_cut_off_is_done_again(server: postgresql.Server, url: str) -> None:
    attempts: list[int] = []

    def work(connection: Connection) -> None:
        attempts.append(connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one())
        trials.add(connection, record(len(attempts)))
        if len(attempts) == 1:
            server.ask(url, f"SELECT pg_terminate_backend({attempts[0]})")
            connection.exec_driver_sql("SELECT pg_sleep(20)")

    with open_store(url, upgrade=True) as store:
        store.start_run(*KEY, {})
        transact(Place.of(url), store._engine.execution_options(writing=True), work)
        assert store.history(*KEY) == [record(2)]
    assert len(attempts) == 2


def test_a_server_that_goes_away_in_a_commit_leaves_a_doubt(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import psycopg

    with open_store(url, upgrade=True) as store:

        def lose(transaction: object) -> None:
            raise OperationalError("COMMIT", None, psycopg.OperationalError("the connection is lost"))

        monkeypatch.setattr("sqlalchemy.engine.RootTransaction.commit", lose)
        with pytest.raises(MachineError, match="went away while a change was committed"):
            store.start_run(*KEY, {})


def test_a_server_that_stays_away_is_told(server: postgresql.Server, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_server, "PATIENCE_SECONDS", 0.1)
    with open_store(url, upgrade=True) as store:
        server.ask(url, "CHECKPOINT")
        server.stop()
        try:
            with pytest.raises(MachineError, match="cannot be reached"):
                store.start_run(*KEY, {})
        finally:
            server.start()


def test_the_nights_of_two_machines_are_in_one_list(url: str) -> None:
    with open_store(url, upgrade=True) as here, open_store(url, upgrade=True, process=ELSEWHERE) as there:
        numbers = [store.start_night("lab", host, {}) for store, host in ((here, HERE.host), (there, ELSEWHERE.host))]
        there.finish_night(numbers[1], "complete", {})
        assert [(one.host, one.state) for one in here.nights()] == [
            (ELSEWHERE.host, "complete"),
            (HERE.host, "running"),
        ]
        assert here.nights() == there.nights()


def test_a_reader_sees_one_moment(url: str) -> None:
    with open_store(url, upgrade=True) as store, open_store(url, upgrade=True) as other:
        store.start_run(*KEY, {})
        with store._read() as connection:
            before = trials.history(connection, *KEY)
            other.add(record())
            assert trials.history(connection, *KEY) == before == []
        assert store.history(*KEY) == [record()]
