"""How the store is doing: counts, size, and whether everything in it is what it should be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, func, select

from tuner.model import Verdict
from tuner.store import champions, findings, imports, misses, nights, rows, schema, trials
from tuner.store.keys import text_hash
from tuner.store.place import Place
from tuner.store.process import Process

_TABLES = (
    *("run", "trial", "in_flight", "source", "compile_log", "champion_log", "certificate"),
    *("miss", "night", "calibration", "regression", "peak", "imported"),
)


def stats(connection: Connection, place: Place, revision: str) -> dict[str, Any]:
    """Rows by table, trials by verdict, champions, bytes on disk, revision."""
    tables = {name: _count(connection, name) for name in _TABLES}
    verdict = schema.trial.c.verdict
    verdicts = connection.execute(select(verdict, func.count()).group_by(verdict).order_by(verdict))
    standing = champions.standings(champions.lines(connection)).values()
    return {
        "url": place.label,
        "schema": revision,
        "bytes": _bytes(place),
        "tables": tables,
        "verdicts": {row[0]: row[1] for row in verdicts},
        "champions": sum(one.champion is not None for one in standing),
        "baselines": _trials(connection, trials.LIBRARY),
        "imported": _trials(connection, ~trials.OURS),
    }


def _trials(connection: Connection, which: ColumnElement[bool]) -> int:
    return int(connection.execute(select(func.count()).select_from(schema.trial).where(which)).scalar_one())


def _bytes(place: Place) -> int | None:
    """Size of the database and its log; None for a server, which knows better."""
    if place.path is None:
        return None
    parts = (place.path, place.path.with_name(f"{place.path.name}-wal"))
    return sum(part.stat().st_size for part in parts if part.exists())


def check(connection: Connection) -> Iterator[str]:
    """Whatever is wrong in the database, one sentence each."""
    if connection.dialect.name == "sqlite":
        found = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check")]
        yield from (f"SQLite finds: {message}" for message in found if message != "ok")
        for row in connection.exec_driver_sql("PRAGMA foreign_key_check"):
            yield f"row {row[1]} of {row[0]} refers to a missing row of {row[2]}"
    yield from _bad_trials(connection)
    yield from _bad_texts(connection)
    yield from _bad_events(connection)
    yield from _unreadable(connection)


def _unreadable(connection: Connection) -> Iterator[str]:
    """The small tables: how many rows of each cannot be read."""
    readers: dict[str, Callable[[], Sequence[object]]] = {
        "miss": lambda: misses.listed(connection, None),
        "night": lambda: nights.listed(connection, Process.current(), None, None),
        "calibration": lambda: nights.calibrations(connection, None, None, None),
        "regression": lambda: findings.regressions(connection, open_only=False),
        "imported": lambda: imports.foreign(connection),
    }
    for name, read in readers.items():
        stored = _count(connection, name)
        lost = stored - len(read())
        if lost:
            yield f"{lost} of {stored} rows of {name} cannot be read"


def _count(connection: Connection, name: str) -> int:
    return int(connection.execute(select(func.count()).select_from(schema.metadata.tables[name])).scalar_one())


def _bad_trials(connection: Connection) -> Iterator[str]:
    trial, log = schema.trial, schema.compile_log
    query = select(trial, log.c.text.label("log_text")).outerjoin(log).order_by(trial.c.id)
    nouns = rows.Nouns(connection)
    for row in connection.execute(query.execution_options(yield_per=1000)):
        reason = _reason(row, nouns)
        if reason:
            yield f"trial {row.id} cannot be read: {reason}"


def _reason(row: Row[Any], nouns: rows.Nouns) -> str:
    try:
        record = rows.record_of(row, nouns.key(row))
    except rows.UNREADABLE as error:
        return str(error)
    if record.measurement.time_ms != row.time_ms:
        return f"its time {row.time_ms} ms is not the median of its samples"
    return ""


def _bad_texts(connection: Connection) -> Iterator[str]:
    for table in (schema.source, schema.compile_log):
        for row in connection.execute(select(table).execution_options(yield_per=100)):
            if text_hash(row.text) != row.hash:
                yield f"{table.name} {row.hash} is not the text it was"


def _bad_events(connection: Connection) -> Iterator[str]:
    found = len(champions.log(connection))
    stored = connection.execute(select(func.count()).select_from(schema.champion_log)).scalar_one()
    if found != stored:
        yield f"{stored - found} of {stored} lines of the champions' log cannot be read"
    good = {verdict.value for verdict in Verdict}
    for row in connection.execute(select(schema.trial.c.verdict).distinct()):
        if row.verdict not in good:
            yield f"the verdict {row.verdict!r} is unknown"
