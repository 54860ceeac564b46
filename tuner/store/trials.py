"""Runs and trials: what was measured, in the order in which it was."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from tuner.model import Problem, Record, Silicon, Software, canonical_json
from tuner.store import rows
from tuner.store.schema import compile_log, run, trial


def start_run(
    connection: Connection, silicon: Silicon, software: Software, problem: Problem, settings: dict[str, Any]
) -> int:
    """Open a run; returns its number."""
    values = {**rows.key_ids(connection, silicon, software, problem), "settings": _json(settings)}
    return int(connection.execute(insert(run).values(**values, started=rows.now()).returning(run.c.id)).scalar_one())


def finish_run(connection: Connection, number: int, summary: dict[str, Any]) -> None:
    """Close a run with its summary."""
    values = {"summary": _json(summary), "finished": rows.now()}
    if connection.execute(update(run).where(run.c.id == number).values(**values)).rowcount != 1:
        raise ValueError(f"there is no run {number}")


def _json(values: dict[str, Any]) -> str:
    """As JSON that every database takes; what is no Unicode, a file's odd name say, is kept as a question mark."""
    return canonical_json(values).encode("utf-8", "replace").decode()


def add(connection: Connection, record: Record) -> None:
    """Insert one trial."""
    connection.execute(insert(trial).values(**rows.trial_columns(connection, record)))


def history(
    connection: Connection,
    silicon: Silicon | None,
    software: Software | None,
    problem: Problem | None,
    fastest: int | None = None,
) -> list[Record]:
    """Records about the nouns given, oldest first; or only the `fastest` correct ones, fastest first."""
    about = rows.conditions(connection, trial, silicon=silicon, software=software, problem=problem)
    query = select(trial, compile_log.c.text.label("log_text")).outerjoin(compile_log).where(*about)
    if fastest is None:
        query = query.order_by(trial.c.id)
    else:
        query = query.where(trial.c.time_ms.is_not(None)).order_by(trial.c.time_ms, trial.c.id).limit(fastest)
    nouns = rows.Nouns(connection, silicon, software, problem)

    def read(row: Row[Any]) -> Record:
        return rows.record_of(row, nouns.key(row))

    return rows.readable(connection.execute(query), read, "stored trials")
