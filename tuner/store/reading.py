"""What reports read: whole sets at a time, light enough that hundreds of thousands of trials are summarised in seconds.

A `Reading` is made from a store and only ever reads; every question is answered from one consistent state.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

from sqlalchemy import Row, func, select

from tuner.model import Certificate, Config, Problem, Record, Silicon, Software, Verdict
from tuner.store import certificates, champions, rows
from tuner.store.champions import Event
from tuner.store.keys import Key, checked_config
from tuner.store.nouns import Calibration, Peak
from tuner.store.schema import (
    calibration,
    certificate,
    champion_log,
    compile_log,
    in_flight,
    miss,
    night,
    peak,
    regression,
    run,
    trial,
)
from tuner.store.store import Store
from tuner.store.trials import IMPORTED_RUN, LIBRARY, OURS

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


class Progress(NamedTuple):
    """How far a run has come."""

    verdicts: Counter[Verdict]
    best_ms: float | None
    last: str
    """When it was last heard of."""


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
        """Every key with its trials, oldest first; one key is in memory at a time. Damaged rows are left out, and so
        are libraries' trials and those of other machines.
        """
        with self._store._read() as connection:
            nouns = rows.Nouns(connection)
            configs = _Configs()
            about = [*rows.conditions(connection, trial, problem=problem), ~LIBRARY, OURS]
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

    def baselines(self, problem: Problem | None = None) -> list[Record]:
        """The last record of every library for each key."""
        with self._store._read() as connection:
            about = [*rows.conditions(connection, trial, problem=problem), LIBRARY, OURS]
            key = (trial.c.problem_id, trial.c.silicon_id, trial.c.software_id, trial.c.family)
            last = select(func.max(trial.c.id)).where(*about).group_by(*key)
            query = select(trial, compile_log.c.text.label("log_text")).outerjoin(compile_log)
            nouns = rows.Nouns(connection)
            found = connection.execute(query.where(trial.c.id.in_(last)).order_by(trial.c.id))
            return rows.readable(found, lambda row: rows.record_of(row, nouns.key(row)), "libraries' records")

    def peaks(self) -> list[Peak]:
        """Every measured peak."""
        with self._store._read() as connection:
            query = select(peak.c.silicon_id, peak.c.software_id).distinct()
            found: list[Any] = list(connection.execute(query))
            nouns = rows.Nouns(connection)
            pairs = [nouns.device(row) for row in found]
        return [one for pair in pairs for one in self._store.peaks(*pair)]

    def calibrations(self) -> list[Calibration]:
        """Every calibration of every instance, oldest first."""
        with self._store._read() as connection:
            found = connection.execute(select(calibration).order_by(calibration.c.id))
            nouns = rows.Nouns(connection)

            def read(row: Row[Any]) -> Calibration:
                reading = json.loads(row.reading)
                return Calibration(row.instance, *nouns.device(row), row.night_id, row.stage, reading, row.when)

            return rows.readable(found, read, "calibrations")

    def runs(self, problem: Problem | None = None, *, unfinished: bool = False) -> list[Run]:
        """Our own runs of a problem (None: of any), oldest first; or only those that have not ended in order."""
        with self._store._read() as connection:
            about = [*rows.conditions(connection, run, problem=problem), ~IMPORTED_RUN]
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

    def samples(self, numbers: Collection[int]) -> dict[int, tuple[float, ...]]:
        """The raw samples in ms of these trials, by their number; damaged ones are left out."""
        found: dict[int, tuple[float, ...]] = {}
        wanted = sorted(numbers)
        with self._store._read() as connection:
            for start in range(0, len(wanted), _CHUNK):
                query = select(trial.c.id, trial.c.samples).where(trial.c.id.in_(wanted[start : start + _CHUNK]))
                for row in connection.execute(query):
                    with suppress(*rows.UNREADABLE):
                        found[row.id] = rows.samples_of(row.samples)
        return found

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

    def state(self) -> tuple[object, ...]:
        """Changes whenever anything a report shows was added or changed."""
        with self._store._read() as connection:
            tables = (trial, champion_log, certificate, run, peak, calibration, night, miss, regression)
            last = [
                connection.execute(select(func.count(), func.max(table.c.id)).select_from(table)).one()
                for table in tables
            ]
            moments = [run.c.finished, night.c.finished, miss.c.last, regression.c.closed, peak.c.when]
            return tuple(map(tuple, last)), tuple(connection.execute(select(func.max(one))).scalar() for one in moments)

    def progress(self, run: Run) -> Progress:
        """How far a run has come."""
        with self._store._read() as connection:
            about = rows.conditions(connection, trial, silicon=run.silicon, software=run.software, problem=run.problem)
            columns = (trial.c.verdict, func.count(), func.min(trial.c.time_ms), func.max(trial.c.when))
            query = select(*columns).where(*about, trial.c.run_id == run.number).group_by(trial.c.verdict)
            found: list[Any] = list(connection.execute(query))
        best = min((row[2] for row in found if row[2] is not None), default=None)
        last = max((row[3] for row in found), default=run.started)
        return Progress(Counter({Verdict(row[0]): row[1] for row in found}), best, last)

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


class _Configs:
    """Configurations read once each; what they are made of is shared, for there are many and their axes are few."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Config] = {}
        self._parts: dict[str, Any] = {}

    def of(self, family: str, text: str) -> Config:
        """The configuration in two columns. Raises one of rows.UNREADABLE."""
        found = self._known.get((family, text))
        if found is None:
            read = checked_config(family, json.loads(text))
            found = Config(self._shared(read.family), tuple(self._shared(part) for part in read.values))
            self._known[family, text] = found
        return found

    def _shared(self, part: Any) -> Any:
        return self._parts.setdefault(repr(part), part)


def _line_of(row: Any, configs: _Configs) -> TrialLine | None:
    _, _, _, number, run_number, family, text, source_hash, verdict, time_ms, when, message, log_hash = row
    try:
        config = configs.of(family, text)
        found = _VERDICTS[verdict]
    except rows.UNREADABLE:
        return None
    return TrialLine(number, run_number, config, source_hash, found, time_ms, when, message, log_hash)


def _run_of(row: Row[Any], key: Key) -> Run:
    summary = None if row.summary is None else json.loads(row.summary)
    return Run(row.id, *key, json.loads(row.settings), summary, row.started, row.finished)
