"""The Store: few verbs in our nouns, each of which commits before it returns."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from types import EllipsisType
from typing import Any

from sqlalchemy import Connection

from tuner.model import (
    Certificate,
    Champion,
    Config,
    Problem,
    Record,
    Rendered,
    Silicon,
    Software,
    UserError,
)
from tuner.store import certificates, champions, flights, health, imports, misses, prune, publish, rows, trials
from tuner.store.champions import PIN, PROMOTE, UNPIN, Event, Standing
from tuner.store.engine import shrink
from tuner.store.flights import Interrupted, Settled
from tuner.store.journal import Journal
from tuner.store.keys import Key
from tuner.store.nouns import Foreign, Nominee, TakenIn
from tuner.store.prune import Pruned

PUBLISHING_SECONDS = 2.0
"""Longer than this no command takes from its commit to the snapshot."""


class Store(Journal):
    """Remembers runs, trials, champions and certificates; safe to use from several threads and processes at once.

    Verbs that write raise UserError when the machine does not let them (disk full, read-only, locked for a minute).
    """

    # Runs and trials

    def start_run(self, silicon: Silicon, software: Software, problem: Problem, settings: dict[str, Any]) -> int:
        """Open a run; returns its number. `settings` is whatever JSON can hold."""
        return self._writes(lambda connection: trials.start_run(connection, silicon, software, problem, settings))

    def finish_run(self, run: int, summary: dict[str, Any]) -> None:
        """Close a run in order; what it was measuring just now is released without blame."""

        def work(connection: Connection) -> None:
            trials.finish_run(connection, run, summary)
            flights.release(connection, run)

        self._writes(work)

    def add(self, record: Record) -> None:
        """Remember one trial, and in the same transaction that it is no longer in flight."""
        self._writes(lambda connection: _add(connection, record))

    def history(
        self,
        silicon: Silicon | None = None,
        software: Software | None = None,
        problem: Problem | None = None,
        *,
        imported: bool = False,
    ) -> list[Record]:
        """Every trial of a configuration about the nouns given (None: any), oldest first; libraries' are `baselines`.

        Other machines' trials are left out unless `imported`. A damaged row is left out with a warning.
        """
        return self._reads(lambda connection: trials.history(connection, silicon, software, problem, imported=imported))

    def fastest(self, silicon: Silicon, software: Software, problem: Problem, count: int) -> list[Record]:
        """The `count` correct trials, our own, of least median time, fastest first."""
        return self._reads(lambda connection: trials.fastest(connection, (silicon, software, problem), count))

    def add_baseline(self, record: Record) -> None:
        """Remember what a library reached: family `lib:<name>`, `version` among its values; run 0: one is opened."""
        self._writes(lambda connection: trials.add_baseline(connection, record))

    def baselines(self, silicon: Silicon, software: Software, problem: Problem) -> list[Record]:
        """What libraries reached here, oldest first."""
        return self._reads(lambda connection: trials.baselines(connection, (silicon, software, problem)))

    def records(self, batch: int = 1000, after: int = 0) -> Iterator[Record]:
        """Every trial, libraries' and imported ones too, in the order of `Record.number`, those above `after` only.

        Read `batch` at a time, each batch in a transaction of its own, so that neither memory nor a writer suffers.
        """
        found, last = self._batch(after, batch)
        while last > after:
            yield from found
            after = last
            found, last = self._batch(after, batch)

    def _batch(self, after: int, batch: int) -> tuple[list[Record], int]:
        return self._reads(lambda connection: trials.numbered(connection, after, batch))

    # What is being measured right now

    def begin(
        self,
        run: int,
        silicon: Silicon,
        software: Software,
        problem: Problem,
        config: Config,
        source_hash: str,
        stage: str,
        family_hash: str = "",
    ) -> None:
        """Commit, before anything is launched, that this process measures a candidate; again for each attempt."""
        what = (run, (silicon, software, problem), config, source_hash, stage, family_hash)
        self._writes(lambda connection: flights.begin(connection, self._process, *what))

    def drop(self, run: int, source_hash: str) -> None:
        """Commit that an interrupted candidate of this run will not be measured again: what it was is no more."""
        self._writes(lambda connection: flights.land(connection, run, source_hash))

    def stage(self, run: int, config: Config, stage: str) -> None:
        """Commit how far a candidate in flight has come."""
        self._writes(lambda connection: flights.stage(connection, run, config, stage))

    def interrupted(self, silicon: Silicon, software: Software, problem: Problem) -> list[Interrupted]:
        """Candidates in flight whose tuner, on this machine, is gone."""
        key = (silicon, software, problem)
        found = self._reads(lambda connection: flights.interrupted(connection, self._process, key))
        return [candidate for _, candidate in found]

    def forget_interrupted(self, silicon: Silicon, software: Software, problem: Problem, source_hash: str) -> None:
        """Commit that a source that was in flight when its tuner died is known, and about to be measured anew."""
        key = (silicon, software, problem)
        self._writes(lambda connection: flights.forget(connection, self._process, key, source_hash))

    def settle(self, run: int, silicon: Silicon, software: Software, problem: Problem) -> Settled:
        """Take interrupted candidates over for `run`: to be measured once more, last, or recorded as crashed."""
        return self._writes(
            lambda connection: flights.settle(connection, self._process, run, (silicon, software, problem))
        )

    # Champions

    def promote(
        self,
        silicon: Silicon,
        software: Software,
        problem: Problem,
        config: Config,
        rendered: Rendered,
        *,
        reason: str,
        time_ms: float | None,
        noise: float | None,
        run: int | None = None,
        expected: str | EllipsisType | None = ...,
        checks: Iterable[str] | None = None,
        record: Record | None = None,
    ) -> Champion:
        """Make a configuration the champion; returns what is served, which may still be pinned.

        With `checks` its certificate is issued and its misses are forgotten, with `record` that trial is added, in the
        same transaction. `expected` is the `source_hash` of the promoted champion that it was raced against, None for
        none: raises Superseded, and changes nothing, if another is promoted now, or if this source was withdrawn and
        not certified since.
        """
        event = Event(
            PROMOTE, silicon, software, problem, config, rendered, time_ms, noise, run, None, reason, rows.now()
        )
        passed = None if checks is None else tuple(checks)

        def work(connection: Connection) -> Champion:
            if not isinstance(expected, EllipsisType):
                champions.require(connection, event.key, expected, rendered.source_hash)
            if record is not None:
                _add(connection, record)
            if passed is not None:
                certificates.certify(connection, event.key, config, rendered.source_hash, passed)
                misses.forget(connection, event.key)
            champions.append(connection, event)
            return _required(_standing(connection, event.key))

        return self._publishes(work)

    def pin(
        self,
        silicon: Silicon,
        software: Software,
        problem: Problem,
        config: Config,
        rendered: Rendered,
        *,
        reason: str,
        time_ms: float | None = None,
        noise: float | None = None,
    ) -> Champion:
        """Serve this configuration, whatever is promoted, until `unpin`."""
        event = Event(PIN, silicon, software, problem, config, rendered, time_ms, noise, None, None, reason, rows.now())

        def work(connection: Connection) -> Champion:
            champions.append(connection, event)
            return _required(_standing(connection, event.key))

        return self._publishes(work)

    def unpin(self, silicon: Silicon, software: Software, problem: Problem, *, reason: str) -> Champion | None:
        """Serve again what is promoted; returns it. Raises UserError if nothing is pinned."""
        key = (silicon, software, problem)

        def work(connection: Connection) -> Champion | None:
            pinned = champions.standings(champions.log(connection, *key)).get(key, Standing()).pinned
            if pinned is None:
                raise UserError(f"nothing is pinned for {problem} on {silicon.name}.")
            champions.append(connection, replace(pinned, action=UNPIN, reason=reason))
            return _standing(connection, key)

        return self._publishes(work)

    def withdraw(
        self, silicon: Silicon, software: Software, problem: Problem, *, reason: str, source_hash: str | None = None
    ) -> Champion | None:
        """Take the champion, or the source named, away with its certificate; returns what is served now.

        The last promotion before it that is still certified returns. Raises UserError if there is no champion.
        """
        key = (silicon, software, problem)

        def work(connection: Connection) -> Champion | None:
            champions.withdraw(connection, key, reason, source_hash)
            return _standing(connection, key)

        return self._publishes(work)

    def rollback(self, to: datetime) -> list[Event]:
        """Restore what stood at a moment by appending to the log; returns the lines. Certificates stay as they are."""
        return self._publishes(lambda connection: champions.roll_back(connection, rows.moment(to)))

    def champion(self, silicon: Silicon, software: Software, problem: Problem) -> Champion | None:
        """What is served for a key: the pinned configuration, else the one promoted last."""
        return self._reads(lambda connection: _standing(connection, (silicon, software, problem)))

    def champions(self) -> list[Champion]:
        """Every champion, ordered by silicon, software and problem."""
        entries = self._reads(publish.collect).entries
        first = {entry.key: entry.champion for entry in reversed(entries)}
        return [first[key] for key in sorted(first)]

    def log(
        self, silicon: Silicon | None = None, software: Software | None = None, problem: Problem | None = None
    ) -> list[Event]:
        """The champions' log about the nouns given (None: any), oldest first."""
        return self._reads(lambda connection: champions.log(connection, silicon, software, problem))

    # Certificates

    def certify(
        self,
        silicon: Silicon,
        software: Software,
        problem: Problem,
        config: Config,
        source_hash: str,
        checks: Iterable[str],
    ) -> Certificate:
        """Remember the checks a source passed on this software, in place of an earlier certificate."""
        passed = tuple(checks)
        return self._publishes(
            lambda connection: certificates.certify(
                connection, (silicon, software, problem), config, source_hash, passed
            )
        )

    def certificate(
        self, silicon: Silicon, software: Software, problem: Problem, source_hash: str
    ) -> Certificate | None:
        """The certificate of a source on this software, if it has one."""
        return self._reads(
            lambda connection: certificates.of_key(connection, (silicon, software, problem)).get(source_hash)
        )

    def certificates(self) -> dict[Key, dict[str, Certificate]]:
        """All certificates by key and source hash."""
        return self._reads(certificates.every)

    # What came from other stores

    def take_in(self, read: imports.Read) -> TakenIn:
        """Keep what other stores know beside our own, all of it or, if `read` raises, nothing; returns what was new.

        `read` gives the records, champions, certificates and misses anew each time it is called.
        """
        return self._writes(lambda connection: imports.take_in(connection, read()))

    def foreign(self) -> list[Foreign]:
        """Imported champions, certificates and portfolio entries as they were read."""
        return self._reads(imports.foreign)

    def nominees(self, silicon: Silicon | None = None) -> list[Nominee]:
        """What was good elsewhere and is to be certified and raced here before anything runs it (None: any silicon)."""
        return self._reads(lambda connection: imports.nominees(connection, silicon))

    # The whole

    def prune(self, nights: int, before: datetime | None = None, *, dry_run: bool = False) -> Pruned:
        """Keep only the median of raw samples older than the last `nights` nights, or than `before`; says what went.

        Everything else stays: trials with their verdicts and medians, the samples of whatever was ever a champion, the
        champions' log, certificates, compile logs. With fewer nights than that nothing goes.
        """
        moment = rows.moment(before) if before else self._reads(lambda connection: prune.start_of(connection, nights))
        if moment is None:
            return prune.Pruned(None, 0, 0)
        found = self._reads(lambda connection: prune.count(connection, moment))
        while not dry_run and self._writes(lambda connection: prune.batch(connection, moment)):
            pass
        if found.trials and not dry_run:
            shrink(self._place)
        return found

    def stats(self) -> dict[str, Any]:
        """Rows by table, trials by verdict, champions, bytes on disk, schema."""
        return self._reads(lambda connection: health.stats(connection, self._place, self.version))

    def check(self) -> list[str]:
        """Whatever is wrong in the database or with the snapshot, one sentence each; empty if all is well."""
        found = self._reads(lambda connection: list(health.check(connection)))
        if not self._missing and not self._comes_current():
            found.append(f"the snapshot {self.snapshot} is not what the database says; gemm-tuner db upgrade renews it")
        return found

    def _comes_current(self) -> bool:
        """The snapshot says what the database does, or will in a moment: another command may just be publishing."""
        deadline = time.monotonic() + PUBLISHING_SECONDS
        while not publish.is_current(self._engine, self._place):
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.05)
        return True


def _standing(connection: Connection, key: Key) -> Champion | None:
    standing = champions.standings(champions.log(connection, *key)).get(key, Standing())
    event = standing.champion
    if event is None:
        return None
    held = certificates.of_key(connection, key)
    return champions.champion_of(event, event is standing.pinned, held)


def _add(connection: Connection, record: Record) -> None:
    trials.add(connection, record)
    flights.land(connection, record.run, record.source_hash)


def _required(champion: Champion | None) -> Champion:
    if champion is None:
        raise AssertionError("a line just written stands")
    return champion
