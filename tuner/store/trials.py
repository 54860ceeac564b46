"""Runs and trials: what was measured, in the order in which it was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Select, insert, select, update

from tuner.model import Problem, Record, Silicon, Software
from tuner.store import rows
from tuner.store.keys import Key
from tuner.store.nouns import LIBRARY_PREFIX
from tuner.store.schema import compile_log, run, trial

_TRIALS = select(trial, compile_log.c.text.label("log_text")).outerjoin(compile_log)
LIBRARY = trial.c.family.like(f"{LIBRARY_PREFIX}%")
"""A library's trial, which a search must never see."""
OURS = trial.c.imported_from.is_(None)
"""Another machine's smaller time must never win here."""
IMPORTED_RUN = run.c.settings.like('{"imported_from":%')
"""A run that another machine made: what an import notes of it."""


def start_run(
    connection: Connection, silicon: Silicon, software: Software, problem: Problem, settings: dict[str, Any]
) -> int:
    """Open a run; returns its number."""
    values = {**rows.key_ids(connection, silicon, software, problem), "settings": rows.json_text(settings)}
    return int(connection.execute(insert(run).values(**values, started=rows.now()).returning(run.c.id)).scalar_one())


def finish_run(connection: Connection, number: int, summary: dict[str, Any]) -> None:
    """Close a run with its summary."""
    values = {"summary": rows.json_text(summary), "finished": rows.now()}
    if connection.execute(update(run).where(run.c.id == number).values(**values)).rowcount != 1:
        raise ValueError(f"there is no run {number}")


def add(connection: Connection, record: Record) -> None:
    """Insert one trial."""
    connection.execute(insert(trial), rows.trial_columns(connection, record))


def add_baseline(connection: Connection, record: Record) -> None:
    """Insert what a library reached; without a run, one is opened for it."""
    if not record.config.family.startswith(LIBRARY_PREFIX):
        raise ValueError(f"{record.config.family} is no library: its records' family starts with {LIBRARY_PREFIX}")
    number = record.run
    if not number:
        key = (record.silicon, record.software, record.problem)
        number = start_run(connection, *key, {"baseline": record.config.family})
        finish_run(connection, number, {})
    add(connection, replace(record, run=number))


def history(
    connection: Connection,
    silicon: Silicon | None,
    software: Software | None,
    problem: Problem | None,
    *,
    imported: bool = False,
) -> list[Record]:
    """Our own trials of configurations about the nouns given, `imported` ones too if asked for, oldest first."""
    about = _about(connection, silicon, software, problem)
    wanted = [~LIBRARY] if imported else [~LIBRARY, OURS]
    return _records(connection, _TRIALS.where(*about, *wanted).order_by(trial.c.id), silicon, software, problem)


def fastest(connection: Connection, key: Key, count: int) -> list[Record]:
    """The `count` correct ones of our own trials with the least median time, fastest first."""
    wanted = [*_about(connection, *key), ~LIBRARY, OURS, trial.c.time_ms.is_not(None)]
    query = _TRIALS.where(*wanted).order_by(trial.c.time_ms, trial.c.id).limit(count)
    return _records(connection, query, *key)


def baselines(connection: Connection, key: Key) -> list[Record]:
    """What libraries reached here, oldest first."""
    wanted = [*_about(connection, *key), LIBRARY, OURS]
    return _records(connection, _TRIALS.where(*wanted).order_by(trial.c.id), *key)


def numbered(connection: Connection, after: int, batch: int) -> tuple[list[Record], int]:
    """The next trials of whatever kind after a number, and the number of the last one looked at; `after` at the end."""
    query = _TRIALS.where(trial.c.id > after).order_by(trial.c.id).limit(batch)
    found = connection.execute(query).all()
    nouns = rows.Nouns(connection)
    records = rows.readable(found, lambda row: rows.record_of(row, nouns.key(row)), "stored trials")
    return records, found[-1].id if found else after


def _about(
    connection: Connection, silicon: Silicon | None, software: Software | None, problem: Problem | None
) -> list[Any]:
    return rows.conditions(connection, trial, silicon=silicon, software=software, problem=problem)


def _records(
    connection: Connection,
    query: Select[Any],
    silicon: Silicon | None,
    software: Software | None,
    problem: Problem | None,
) -> list[Record]:
    nouns = rows.Nouns(connection, silicon, software, problem)
    return rows.readable(connection.execute(query), lambda row: rows.record_of(row, nouns.key(row)), "stored trials")
