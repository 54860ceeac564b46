"""What reports read: whole sets at a time, light enough that hundreds of thousands of trials are summarised in seconds.

A `Reading` is made from a store and only ever reads; every question is answered from one consistent state.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

from sqlalchemy import Row, func, select

from tuner.model import Certificate, Config, Problem, Silicon, Software, Verdict
from tuner.store import certificates, champions, rows
from tuner.store.champions import Event
from tuner.store.keys import Key
from tuner.store.schema import certificate, champion_log, compile_log, in_flight, run, trial
from tuner.store.store import Store

_CHUNK = 5000
"""Rows fetched at a time: enough to be quick, few enough to be nothing."""


@dataclass(frozen=True)
class Run:
    """One run of the tuner as the store remembers it."""

    number: int
    silicon: Silicon
    software: Software
    problem: Problem
    settings: Mapping[str, Any] = field(hash=False)
    summary: Mapping[str, Any] | None = field(hash=False)
    """None while it runs, and for one that was killed."""
    started: str
    finished: str | None


class TrialLine(NamedTuple):
    """A trial without its samples and its compile log."""

    number: int
    run: int
    config: Config
    source_hash: str
    verdict: Verdict
    time_ms: float | None
    when: str
    message: str
    log_hash: str | None


class Flight(NamedTuple):
    """What a run was doing when it last said so."""

    run: int
    config: Config
    stage: str
    began: str
    here: bool
    """It was begun on this machine in this boot by a process that still lives."""


class Reading:
    """The set-oriented verbs, over one store."""

    def __init__(self, store: Store) -> None:
        """Read from `store`, for as long as it is open."""
        self._store = store

    def trials_by_key(self, problem: Problem | None = None) -> Iterator[tuple[Key, list[TrialLine]]]:
        """Every key with its trials, oldest first; one key is in memory at a time. Damaged rows are left out."""
        with self._store._read() as connection:
            nouns = rows.Nouns(connection)
            configs: dict[tuple[str, str], Config] = {}
            about = rows.conditions(connection, trial, problem=problem)
            columns = (trial.c.problem_id, trial.c.silicon_id, trial.c.software_id)
            query = select(*columns, *_LINE).where(*about).order_by(*columns, trial.c.id)
            found = connection.execute(query.execution_options(yield_per=_CHUNK))
            for _, group in groupby(found, key=lambda row: row[:3]):
                lines: list[Any] = list(group)
                try:
                    key = nouns.key(lines[0])
                except rows.UNREADABLE:
                    continue
                yield key, [line for row in lines if (line := _line_of(row, configs)) is not None]

    def runs(self, problem: Problem | None = None, *, unfinished: bool = False) -> list[Run]:
        """Runs of a problem (None: of any), oldest first; or only those that have not ended in order."""
        with self._store._read() as connection:
            about = rows.conditions(connection, run, problem=problem)
            if unfinished:
                about.append(run.c.finished.is_(None))
            nouns = rows.Nouns(connection)
            found = connection.execute(select(run).where(*about).order_by(run.c.id))
            return rows.readable(found, lambda row: _run_of(row, nouns.key(row)), "runs")

    def events(self, problem: Problem | None = None) -> list[Event]:
        """The champions' log, oldest first; where the source belongs stands the hash of its text."""
        with self._store._read() as connection:
            return champions.lines(connection, problem=problem)

    def certificates(self) -> dict[Key, dict[str, Certificate]]:
        """All certificates by key and source hash."""
        with self._store._read() as connection:
            return certificates.every(connection)

    def logs(self, hashes: Sequence[str]) -> dict[str, str]:
        """Compile logs by hash."""
        with self._store._read() as connection:
            query = select(compile_log).where(compile_log.c.hash.in_(sorted(hashes)))
            return {row.hash: row.text for row in connection.execute(query)}

    def fingerprints(self) -> dict[Problem, str]:
        """For each problem a text that changes whenever something about it is added, at the price of four counts."""
        with self._store._read() as connection:
            nouns = rows.Nouns(connection)
            parts: dict[int, list[str]] = {}
            found: dict[int, Problem] = {}
            for table in (trial, champion_log, certificate, run):
                last = (func.max(table.c.finished),) if table is run else ()
                ids = (table.c.problem_id, func.min(table.c.silicon_id), func.min(table.c.software_id))
                keys = [column.label(name) for column, name in zip(ids, _KEY, strict=True)]
                query = select(*keys, func.count(), func.max(table.c.id), *last).group_by(table.c.problem_id)
                counted: list[Any] = list(connection.execute(query))
                for row in counted:
                    parts.setdefault(row[0], []).append(f"{table.name}:{row[3:]}")
                    try:
                        found[row[0]] = nouns.key(row)[2]
                    except rows.UNREADABLE:
                        continue
            return {problem: " ".join(parts[number]) for number, problem in found.items()}

    def verdicts(self, number: int) -> Counter[Verdict]:
        """How many trials of a run had which verdict."""
        with self._store._read() as connection:
            query = select(trial.c.verdict, func.count()).where(trial.c.run_id == number).group_by(trial.c.verdict)
            return Counter({Verdict(row[0]): row[1] for row in connection.execute(query)})

    def flights(self) -> list[Flight]:
        """What is in flight, or was when its tuner died; the runs tell which."""
        process = self._store._process
        with self._store._read() as connection:
            found = connection.execute(select(in_flight).order_by(in_flight.c.id))

            def read(row: Row[Any]) -> Flight:
                here = (row.host, row.boot) == (process.host, process.boot)
                owner = type(process)(row.host, row.boot, row.pid, row.process_started)
                return Flight(row.run_id, rows.config_of(row), row.stage, row.began, here and owner.lives())

            return rows.readable(found, read, "candidates in flight")


_KEY = ("problem_id", "silicon_id", "software_id")
_LINE = (
    trial.c.id,
    trial.c.run_id,
    trial.c.family,
    trial.c.config,
    trial.c.source_hash,
    trial.c.verdict,
    trial.c.time_ms,
    trial.c.when,
    trial.c.message,
    trial.c.log_hash,
)
_VERDICTS = {verdict.value: verdict for verdict in Verdict}


def _line_of(row: Any, configs: dict[tuple[str, str], Config]) -> TrialLine | None:
    _, _, _, number, run_number, family, text, source_hash, verdict, time_ms, when, message, log_hash = row
    config = configs.get((family, text))
    try:
        if config is None:
            config = configs[family, text] = rows.config_of(row)
        found = _VERDICTS[verdict]
    except rows.UNREADABLE:
        return None
    return TrialLine(number, run_number, config, source_hash, found, time_ms, when, message, log_hash)


def _run_of(row: Row[Any], key: Key) -> Run:
    summary = None if row.summary is None else json.loads(row.summary)
    return Run(row.id, *key, json.loads(row.settings), summary, row.started, row.finished)
