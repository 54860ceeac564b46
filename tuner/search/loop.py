"""The tuning run: propose, compile ahead, verify and time, remember; then race, certify and promote.

`tune` is handed everything it works with and decides nothing about devices, files or terminals.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tuner.model import Built, Champion, Config, Device, Measurement, Problem, Record, Rendered, Verdict
from tuner.search.ahead import Candidate, Lookahead
from tuner.search.certify import expected_s
from tuner.search.known import restored, unchanged
from tuner.search.outcome import Budget, Clock, Outcome, Progress, Promotion, Race
from tuner.search.portfolio import known_good
from tuner.search.ports import Bench, Family, Store
from tuner.search.promote import SHORTLIST, Arena
from tuner.search.proposer import Proposer
from tuner.search.space import Space
from tuner.search.stopwatch import Stopwatch
from tuner.search.tally import Tally, time_ms
from tuner.search.threads import undisturbed
from tuner.store import Settled

TOO_GOOD = 3.0
"""A time this many times below the best so far is confirmed in a fresh process before it counts."""

Observer = Callable[[Progress], None]


def tune(
    problem: Problem,
    device: Device,
    families: Mapping[str, Family],
    bench: Bench,
    store: Store,
    budget: Budget,
    *,
    seed: int | None = None,
    observe: Observer = lambda progress: None,
    barred: Callable[[], str] = lambda: "",
    note: Mapping[str, Any] | None = None,
    seeds: Iterable[Champion] = (),
) -> Outcome:
    """Spend `budget` on finding the fastest configuration of `families` for `problem` on `device`.

    Nothing is measured that was measured before with the same source on the same software. `seed` None takes the
    run's number, so that every run searches elsewhere; `seeds` are known to be good on some silicon. Ctrl-C ends the
    run in order; what was found is kept. `barred`, asked after the search, may say why the champion must not change
    now; `note` is kept with the run's settings.
    """
    with undisturbed():
        return _Run(problem, device, families, bench, store, budget, seed, observe, note or {}, seeds).run(barred)


class _Run:
    def __init__(
        self,
        problem: Problem,
        device: Device,
        families: Mapping[str, Family],
        bench: Bench,
        store: Store,
        budget: Budget,
        seed: int | None,
        observe: Observer,
        note: Mapping[str, Any],
        seeds: Iterable[Champion],
    ) -> None:
        self.problem, self.device, self.families = problem, device, families
        self.bench, self.store, self.budget = bench, store, budget
        self._observe = observe
        self.clock = Clock(budget)
        self.watch = Stopwatch()
        self.key = (device.silicon, device.software, problem)
        hashes = {name: family.hash for name, family in sorted(families.items())}
        settings = {"budget": vars(budget), "seed": seed, "families": sorted(families), "hashes": hashes, **note}
        self.number = store.start_run(*self.key, settings)
        self.tally = Tally()
        self._strays: dict[str, Record] = {}
        self._builds: dict[str, Built] = {}
        self._unwritten: deque[Record] = deque()
        """What was measured, and is to be stored while the next is being loaded."""
        self._adopted: deque[Record] = deque()
        """Strays that were met while the next proposals were made, not stored yet."""
        self._ahead = Lookahead(
            bench.compilers,
            self._next_proposal,
            bench.build,
            self._tell,
            in_batches=bench.shares_cores,
            hurried=budget.evaluations is None,
        )
        with self.watch("propose"):
            self._spaces: dict[str, Space] = {name: family.space(problem, device) for name, family in families.items()}
            everyones = store.history(device.silicon, None, problem, imported=True)
            imported = [record for record in everyones if record.imported_from is not None]
            champions = [*store.champions(), *(nominee.champion for nominee in store.nominees())]
            first = known_good(champions, families, problem, device, imported=imported, seeds=seeds)
            self._proposer = Proposer(self._spaces, first, self.number if seed is None else seed)
            settled = store.settle(self.number, *self.key)
            self._known = self._take_in_history()
            self._again = self._take_in_interrupted(settled)

    def run(self, barred: Callable[[], str]) -> Outcome:
        arena = None
        try:
            with ThreadPoolExecutor(1) as helper:
                try:
                    stopped_by = self._search(helper)
                finally:
                    self._ahead.stop()
                    self._write_down()
            self._keep_adopted()
            self.bench.cancel_builds()
            if why := barred():
                promotion = Promotion(False, why)
            else:
                arena = self._arena()
                promotion = arena.decide()
        except KeyboardInterrupt:
            self.bench.cancel_builds()
            stopped_by, promotion = "interrupted", Promotion(False, "interrupted; run again to go on")
        for record in () if arena is None else arena.last_words:
            self.tally.hear(record)
            if self.tally.count_again(record):
                self._show("certify", record)
        outcome = self._outcome(stopped_by, promotion)
        self.store.finish_run(self.number, self._summary(outcome, () if arena is None else arena.races))
        return outcome

    def _summary(self, outcome: Outcome, races: Iterable[Race]) -> dict[str, Any]:
        """What a report wants to know of the run beside its trials."""
        return {
            "evaluated": outcome.evaluated,
            "stopped_by": outcome.stopped_by,
            "seconds": outcome.seconds,
            "where_time_went": outcome.where_time_went,
            "promoted": outcome.promotion.promoted,
            "reason": outcome.promotion.reason,
            "races": [race.to_json() for race in races],
        }

    def _arena(self) -> Arena:
        place = (self.problem, self.device, self.families, self.bench, self.store, self.number)
        return Arena(*place, self.clock, self.watch, self._show, self._builds)

    def _search(self, helper: Executor) -> str:
        shares_cores = self.bench.shares_cores
        if not shares_cores:
            self._ahead.advance_in(helper, self._evaluations_left)
        while True:
            self.clock.certificate_s = expected_s(self.tally.telling, self.bench.compilers)
            if self._evaluations_left() <= 0:
                return "evaluations"
            if self.clock.left_to_search <= 0:
                return "seconds"
            if shares_cores:
                with self.watch("propose"):
                    self._ahead.advance(self._evaluations_left)
            candidate = self._next_built()
            self._keep_adopted()
            if candidate is None:
                return "exhausted" if self._ahead.exhausted else "seconds"
            built = candidate.building.result()
            measurement = self._measure(candidate, built)
            self.tally.judge(candidate.rendered.source_hash, measurement.verdict)
            candidate.measurement = measurement
            if not shares_cores:
                self._ahead.advance_in(helper, self._evaluations_left)
            self._remember(candidate, measurement, built)
            if shares_cores:
                with self.watch("store"):
                    self._write_down()

    def _evaluations_left(self) -> float:
        return math.inf if self.budget.evaluations is None else self.budget.evaluations - self.tally.evaluated

    def _tell(self, config: Config, measurement: Measurement) -> None:
        self._proposer.tell(config, measurement.time_ms, measurement.verdict)

    def _next_proposal(self) -> tuple[Config, Rendered] | None:
        while (config := self._next_config()) is not None:
            rendered = self._render(config)
            if rendered.source_hash in self._known:
                self._proposer.skip(config)  # another spelling of a source that is known
                continue
            self._known.add(rendered.source_hash)
            if rendered.source_hash not in self._strays:
                return config, rendered
            self._adopt(config, self._strays[rendered.source_hash])
        return None

    def _adopt(self, config: Config, stray: Record) -> None:
        """What was measured under another name need not be measured again: it is recorded under the present one."""
        family, when = self.families[config.family], datetime.now(UTC).isoformat()
        record = replace(stray, config=config, family_hash=family.hash, run=self.number, when=when)
        self._adopted.append(record)
        self._tell(config, record.measurement)

    def _keep_adopted(self) -> None:
        with self.watch("store"):
            while self._adopted:
                record = self._adopted.popleft()
                self.store.add(record)
                self.tally.hear(record)

    def _next_config(self) -> Config | None:
        """The search's next choice; what a killed tuner left in flight comes last, within the budget."""
        if self._again and (self._is_last_call() or (config := self._proposer.propose()) is None):
            return self._again.popleft()
        return config if self._again else self._proposer.propose()

    def _is_last_call(self) -> bool:
        if self._evaluations_left() - len(self._ahead.unmeasured) <= len(self._again):
            return True
        return self.clock.left_to_search < self.clock.elapsed

    def _next_built(self) -> Candidate | None:
        """The earliest candidate that is built; None if the time ran out before, or if there is none any more."""
        # The first has the best prospects, and where time is short it may be the only one.
        foremost = not self.tally.evaluated
        if self._ahead.ready(foremost) is None:
            with self.watch("store"):
                self._write_down()
        with self.watch("propose"):
            self._ahead.wait_for_proposals(self.clock.left_to_search, foremost=foremost)
        with self.watch("build"):
            candidate = self._ahead.wait(self.clock.left_to_search, foremost=foremost)
        return None if candidate is None or candidate.building.cancelled() else candidate

    def _measure(self, candidate: Candidate, built: Built) -> Measurement:
        family = self.families[candidate.config.family]
        verdict, why = built.verdict, built.message
        if verdict is Verdict.CORRECT and (refused := family.refused_build(built.compiler)):
            verdict, why = Verdict.ILLEGAL, refused
        if verdict is not Verdict.CORRECT:  # nothing to load
            with self.watch("store"):
                self._write_down()
            return Measurement(verdict, (), built.compile_ms, None, why, built.compiler)

        def on_stage(stage: str) -> None:
            rendered = candidate.rendered
            self.store.begin(self.number, *self.key, candidate.config, rendered.source_hash, stage, family.hash)

        best = self.tally.best
        best_ms = None if best is None else best.measurement.time_ms
        with self.watch("measure"):
            measured = self.bench.measure(
                self.problem,
                candidate.rendered,
                built,
                best_ms=best_ms,
                on_stage=on_stage,
                meanwhile=self._write_down,
            )
            if best_ms and measured.time_ms and measured.time_ms * TOO_GOOD < best_ms:
                return self.bench.measure(
                    self.problem, candidate.rendered, built, best_ms=best_ms, on_stage=on_stage, fresh=True
                )
        return measured

    def _record(self, candidate: Candidate, measurement: Measurement) -> Record:
        family = self.families[candidate.config.family]
        now = datetime.now(UTC).isoformat()
        source_hash = candidate.rendered.source_hash
        return Record(*self.key, candidate.config, measurement, source_hash, self.number, now, family.hash)

    def _remember(self, candidate: Candidate, measurement: Measurement, built: Built) -> None:
        record = self._record(candidate, measurement)
        self._unwritten.append(record)
        self.tally.hear(record)
        self._keep_build(record.source_hash, built)

    def _write_down(self) -> None:
        """Store what came of the latest candidates. A tuner that is killed before measures the last one again."""
        while self._unwritten:
            record = self._unwritten[0]
            self.store.add(record)
            self._unwritten.popleft()
            self._show("search", record)

    def _keep_build(self, source_hash: str, built: Built) -> None:
        """The builds of the fastest are wanted again for the race."""
        self._builds[source_hash] = built
        timed = [record for source in self._builds if (record := self.tally.correct(source)) is not None]
        fastest = sorted(timed, key=time_ms)[:SHORTLIST]
        self._builds = {record.source_hash: self._builds[record.source_hash] for record in fastest}

    def _show(self, stage: str, latest: Record | None = None) -> None:
        tally, limits = self.tally, (self.budget.evaluations, self.budget.seconds)
        progress = Progress(
            stage, tally.evaluated, limits[0], self.clock.elapsed, limits[1], tally.verdicts, tally.best, latest
        )
        self._observe(progress)

    def _take_in_history(self) -> set[str]:
        """Tell the proposer what is known; returns the source hashes that need no second measurement."""
        known: set[str] = set()
        told: dict[Config, Measurement] = {}
        for record in self.store.history(*self.key):
            config = self._restored(record.config)
            if config is None:  # its family, or its name for an axis, is another now: the source may still turn up
                self._strays[record.source_hash] = record
                continue
            known.add(record.source_hash)
            if self._same_source(record):
                told[config] = record.measurement  # the last word on a configuration counts
                self.tally.hear(record)
        self._proposer.refill(list(told.items()))
        return known

    def _restored(self, config: Config) -> Config | None:
        return restored(self.families.get(config.family), config, self.problem, self.device)

    def _same_source(self, record: Record) -> bool:
        family = self.families[record.config.family]
        if record.family_hash == family.hash:
            return True
        return unchanged(family, record, self.problem, self.device) is not None

    def _take_in_interrupted(self, settled: Settled) -> deque[Config]:
        """What is to be measured once more; what its family no longer renders to the same source is let go."""
        again: deque[Config] = deque()
        for interrupted in settled.again:
            config = self._restored(interrupted.config)
            wanted = config is not None and interrupted.source_hash not in self._known  # no second look at a champion
            if wanted and config is not None and self._render(config).source_hash == interrupted.source_hash:
                self._proposer.skip(config)
                again.append(config)
            else:
                self.store.drop(self.number, interrupted.source_hash)
        return again

    def _render(self, config: Config) -> Rendered:
        return self.families[config.family].render(config, self.problem, self.device)

    def _outcome(self, stopped_by: str, promotion: Promotion) -> Outcome:
        sizes = [space.size for space in self._spaces.values()]
        return Outcome(
            self.problem,
            self.tally.evaluated,
            sum(size for size, _ in sizes),
            all(exact for _, exact in sizes),
            self.tally.verdicts,
            self.tally.best,
            promotion,
            self.watch.seconds(self.clock.elapsed),
            self.clock.elapsed,
            stopped_by,
        )
