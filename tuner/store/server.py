"""PostgreSQL: how its transactions are made to promise what SQLite's do, and its errors as sentences."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError

from tuner.model import UserError
from tuner.store.place import Place

WAIT_SECONDS = 60
"""How long a writer waits for another's transaction, and how long one may stand still before the server ends it."""

PATIENCE_SECONDS = 30.0
"""How long a store that is open waits for a server that went away: a restart must not cost a night."""

_WRITERS = 0x67656D6D
_MIGRATORS = _WRITERS + 1
"""Numbers of the advisory locks that writers, and those who change the schema, share on a server."""

_QUEUE_UP = (
    f"SET LOCAL lock_timeout = '{WAIT_SECONDS}s'; SET LOCAL idle_in_transaction_session_timeout = '{WAIT_SECONDS}s'; "
    f"SELECT pg_advisory_xact_lock({_WRITERS})"
)
_READ = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"

_SETTINGS = {
    "application_name": "gemm-tuner",
    "connect_timeout": 10,
    # A machine that vanished in the middle of a transaction must not hold the lock for hours.
    "options": "-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3",
}

_AGAIN = ("40001", "40P01")
"""serialization_failure and deadlock_detected: the server undid the transaction and expects it once more."""
_PAUSES_S = (0.01, 0.05, 0.2, 1.0, 2.0)
_GONE = ("57P01", "57P02", "57P03", "25P03")
"""admin_shutdown, crash_shutdown, cannot_connect_now, and idle_in_transaction_session_timeout."""

_SENTENCES = {
    "55P03": f"was locked by another program for {WAIT_SECONDS} s; end that program and try again",
    "42501": "cannot be written by this user; ask its administrator for the rights",
    "25006": "is read-only; give the address of the primary server",
    "53100": "cannot grow: the server's disk is full; free some space and run the command again",
}

_Result = TypeVar("_Result")


def open_engine(place: Place) -> Engine:
    """An engine on a server; connects to nothing. Raises UserError for any other database than PostgreSQL."""
    try:
        url = make_url(place.url)
        if url.drivername not in ("postgresql", "postgres", "postgresql+psycopg"):
            raise UserError(f"{place.label!r} is no database URL; use a file's path or postgresql://...")
        settings = {name: value for name, value in _SETTINGS.items() if name not in url.query}
        engine = create_engine(url.set(drivername="postgresql+psycopg"), pool_pre_ping=True, connect_args=settings)
    except (ArgumentError, NoSuchModuleError) as error:
        raise UserError(f"{place.label!r} is no database URL; use a file's path or postgresql://...") from error
    except ModuleNotFoundError as error:
        raise UserError(
            f'{place.label} needs the Python package {error.name}: pip install "gemm-tuner[postgres]".'
        ) from error
    event.listen(engine, "begin", _begin)
    return engine


def _begin(connection: Connection) -> None:
    """One writer at a time, as on SQLite, for verbs read what stands before they append; readers see one moment."""
    if connection.dialect.name == "postgresql":
        writing = connection.get_execution_options().get("writing", False)
        connection.exec_driver_sql(_QUEUE_UP if writing else _READ)


@contextmanager
def one_migrator(engine: Engine) -> Iterator[None]:
    """Hold the server's lock of those who change the schema, against every other machine; on SQLite, nothing to do."""
    if engine.dialect.name != "postgresql":
        yield
        return
    with engine.begin() as connection:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_MIGRATORS})")
        yield


def retried(work: Callable[[], _Result]) -> _Result:
    """What `work`, whole transactions, returns; done again when the server undid it for another's sake or went away."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    for attempt in count():
        try:
            return work()
        except DBAPIError as error:
            undone = _state(error) in _AGAIN and attempt < len(_PAUSES_S)
            if not undone and not (is_gone(error) and time.monotonic() < deadline):
                raise
        time.sleep(_PAUSES_S[min(attempt, len(_PAUSES_S) - 1)] * random.uniform(0.5, 1.5))
    raise AssertionError("counting has no end")


def is_gone(error: DBAPIError) -> bool:
    """Whether the server or the way to it went away, as in a restart; it undoes what was not committed."""
    if not type(error.orig).__module__.startswith("psycopg"):
        return False
    state = _state(error)
    return isinstance(error, OperationalError) and (state is None or state in _GONE or state.startswith("08"))


def _state(error: DBAPIError) -> str | None:
    state = getattr(error.orig, "sqlstate", None)
    return None if state is None else str(state)


def sentence(place: Place, error: DBAPIError) -> str | None:
    """What the server or the way to it does to us, as people are told; None for a mistake of ours."""
    state = _state(error)
    if state in _SENTENCES:
        return f"{place.label} {_SENTENCES[state]}."
    if state in _AGAIN:
        return f"{place.label} is so busy that a transaction was undone {len(_PAUSES_S) + 1} times; try again later."
    if isinstance(error, OperationalError) and (state is None or state[:2] in ("08", "28", "3D", "53", "57")):
        return f"{place.label} cannot be reached: {str(error.orig).strip().splitlines()[0]}"
    return None
