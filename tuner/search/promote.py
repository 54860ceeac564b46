"""Who is published: the best few are measured again, the winner races the champion, and is certified and promoted."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from tuner import timing
from tuner.bench.messages import CheckOutcome, ContenderFailed, OutOfTime
from tuner.model import Built, Champion, Device, Measurement, Problem, Record, Rendered, Verdict
from tuner.search.certify import cases
from tuner.search.known import unchanged
from tuner.search.outcome import Clock, Promotion, Race
from tuner.search.ports import Bench, Family, Store
from tuner.search.stopwatch import Stopwatch
from tuner.store import Superseded

SHORTLIST = 5
"""How many are measured again: with noise, the best by one measurement is often not the best."""
SHORTLIST_ROUNDS = 7
RACE_SHARE = 0.5
"""Part of the time left that a race may use; the certificate needs the rest."""
CONFIRMATIONS = 4
STEADY = 0.03
"""Noise below which a confirmation is not taken again."""
MOST_CHANGES = 3
"""How often the champion may change under our hands before we give up."""
RANKING_SHARE = 0.2
"""Part of the time left that measuring the shortlist again may use."""
RACE_SECONDS = 120.0
"""What a race may use where no time was given: ten rounds of a kernel of two seconds."""
OUTCLASSED = 1.05
"""A challenger this much slower than the champion in the same few rounds is not worth a race."""


@dataclass(frozen=True)
class Contender:
    """A configuration built for the race, with the record it is known by."""

    record: Record
    rendered: Rendered
    built: Built


@dataclass(frozen=True)
class Arena:
    """What deciding about a champion works with."""

    problem: Problem
    device: Device
    families: Mapping[str, Family]
    bench: Bench
    store: Store
    run: int
    clock: Clock
    watch: Stopwatch
    show: Callable[[str], None]
    builds: Mapping[str, Built] = field(default_factory=dict)
    """Builds of the run's fastest, by source hash."""
    last_words: list[Record] = field(default_factory=list)
    """What was recorded about contenders on the way: refusals and the winner's confirmation."""
    races: list[Race] = field(default_factory=list)
    """Every race run on the way, for the run's summary."""

    def decide(self) -> Promotion:
        """Promote the fastest configuration known, if certified and proven faster than the champion; or say why not."""
        for _ in range(MOST_CHANGES):
            try:
                return self._decide_once()
            except OutOfTime:
                why = "the time ran out before race and certificate were done; run again to finish them"
                return Promotion(False, why)
            except Superseded:
                continue  # another tuner has published meanwhile: that champion is to be raced
        return Promotion(False, "other tuners keep changing the champion of this product; run again")

    def _decide_once(self) -> Promotion:
        champion = self.store.champion(self.device.silicon, self.device.software, self.problem)
        if champion is not None and champion.pinned:
            return Promotion(False, "the champion is pinned, and stays until it is unpinned", champion.config)
        records = self._shortlist()
        if not records:
            return Promotion(False, f"no configuration gave a correct result{self._common_failure()}")
        return self._decide(champion, self._challengers(champion, self._built(records)))

    def _decide(self, champion: Champion | None, contenders: list[Contender]) -> Promotion:
        reason = "none of the fastest configurations could be built and run again"
        if champion is not None and not contenders:
            return Promotion(False, "the champion is the fastest known", champion.config)
        for nominee in contenders:
            try:
                champion, result = self._challenge(champion, nominee)
            except ContenderFailed as failure:
                reason = self._refuse(nominee, failure.verdict, f"in the race: {failure.message}")
                continue
            if result is not None and not result.promote:
                config = None if champion is None else champion.config
                return Promotion(False, f"the champion stands: {result.reason}", config, result.gain)
            outcome = self._certify(nominee)
            if outcome.verdict is not Verdict.CORRECT:
                reason = self._refuse(nominee, outcome.verdict, f"in its certificate: {outcome.message}")
                continue
            confirmed = self._confirmed(nominee)
            if confirmed.verdict is not Verdict.CORRECT:
                reason = self._refuse(nominee, confirmed.verdict, f"when measured again: {confirmed.message}")
                continue
            why = "the first champion here" if result is None else result.reason
            self._promote(champion, nominee, confirmed, outcome, why)
            return Promotion(True, why, nominee.record.config, None if result is None else result.gain)
        return Promotion(False, reason)

    def _challenge(
        self, champion: Champion | None, nominee: Contender
    ) -> tuple[Champion | None, timing.RaceResult | None]:
        """The champion that was raced and how; a champion that can't run any more is withdrawn, and the next stands in.

        Raises ContenderFailed if the nominee can't run.
        """
        while champion is not None:
            try:
                return champion, self._race(champion, nominee)
            except ContenderFailed as failure:
                if failure.index != 0:
                    raise
                champion = self._withdraw(champion, f"{failure.verdict} in a race: {failure.message}")
        return None, None

    def _shortlist(self) -> list[Record]:
        """The fastest records that are still what they were: the last word on each source, legal and not withdrawn."""
        silicon, software = self.device.silicon, self.device.software
        last: dict[str, Record] = {}
        for record in self.store.history(silicon, software, self.problem):
            last[record.source_hash] = record
        timed = [record for record in last.values() if record.measurement.is_checked]
        timed.sort(key=lambda record: record.measurement.time_ms or 0.0)
        barred = self._withdrawn()
        found: list[Record] = []
        for record in timed:
            if record.source_hash not in barred and self._render(record) is not None:
                found.append(record)
            if len(found) == SHORTLIST:
                break
        return found

    def _common_failure(self) -> str:
        """What every source was refused with, if that is one and the same: then the product is the reason."""
        silicon, software = self.device.silicon, self.device.software
        last = {record.source_hash: record for record in self.store.history(silicon, software, self.problem)}
        met = {(record.measurement.verdict, record.measurement.message) for record in last.values()}
        if len(met) != 1:
            return ""
        verdict, message = met.pop()
        said = (message.strip().splitlines() or [""])[0].rstrip(".")
        return f"; all are {verdict}: {said}" if said and verdict is not Verdict.CORRECT else ""

    def _withdrawn(self) -> set[str]:
        """Sources taken away for cause: withdrawn last, and without a certificate since."""
        silicon, software = self.device.silicon, self.device.software
        last = {event.rendered.source_hash: event.action for event in self.store.log(silicon, software, self.problem)}
        gone = {source for source, action in last.items() if action == "withdraw"}
        held = self.store.certificate
        return {source for source in gone if held(silicon, software, self.problem, source) is None}

    def _render(self, record: Record) -> Rendered | None:
        return unchanged(self.families.get(record.config.family), record, self.problem, self.device)

    def _built(self, records: Iterable[Record]) -> list[Contender]:
        """Whatever is built in time; raises OutOfTime if nothing is."""
        rendered = [(record, self._render(record)) for record in records]
        known = [(record, source, self._building(source)) for record, source in rendered if source is not None]
        contenders: list[Contender] = []
        with self.watch("build"):
            for record, source, future in known:
                try:
                    built = self._wait(future.result)
                except OutOfTime:
                    if contenders:
                        break
                    raise
                if built.verdict is Verdict.CORRECT:
                    contenders.append(Contender(record, source, built))
        return contenders

    def _building(self, rendered: Rendered) -> Future[Built]:
        built = self.builds.get(rendered.source_hash)
        if built is None:
            return self.bench.build(rendered)
        done: Future[Built] = Future()
        done.set_result(built)
        return done

    def _wait(self, result: Callable[[float | None], Built]) -> Built:
        try:
            return result(self.clock.timeout)
        except (TimeoutError, CancelledError):
            self.bench.cancel_builds()
            raise OutOfTime from None

    def _challengers(self, champion: Champion | None, contenders: list[Contender]) -> list[Contender]:
        """Whoever may become champion, fastest first: not the champion itself, nor who is outclassed by it."""
        ranking = self._ranking(contenders)
        reigning = None if champion is None else champion.rendered.source_hash
        mark = next((ms for c, ms in ranking if c.rendered.source_hash == reigning), math.inf) * OUTCLASSED
        return [c for c, ms in ranking if c.rendered.source_hash != reigning and ms <= mark]

    def _ranking(self, contenders: list[Contender]) -> list[tuple[Contender, float]]:
        """Fastest first with their ms, by interleaved rounds; one that fails is out, and its record says so."""
        self.show("race")
        while len(contenders) > 1 and (rounds_left := self._affordable_rounds(contenders)):
            pairs = [(contender.rendered, contender.built) for contender in contenders]
            try:
                with self.watch("race"):
                    rounds = self.bench.rounds(self.problem, pairs, rounds_left)
            except ContenderFailed as failure:
                self._refuse(contenders.pop(failure.index), failure.verdict, f"in the race: {failure.message}")
                continue
            self.races.append(Race(tuple(contender.record.config for contender in contenders), tuple(rounds)))
            medians = [statistics.median(times) for times in zip(*rounds, strict=True)]
            return sorted(zip(contenders, medians, strict=True), key=lambda pair: pair[1])
        return [(contender, contender.record.measurement.time_ms or 0.0) for contender in contenders]

    def _affordable_rounds(self, contenders: Iterable[Contender]) -> int:
        """Rounds for a share of the time that is left; a round is three calls of each, or some milliseconds."""
        one = sum(max(0.05, 3e-3 * (contender.record.measurement.time_ms or 0.0)) for contender in contenders)
        return min(SHORTLIST_ROUNDS, int(min(1e6, self.clock.spare(RANKING_SHARE) / one)))

    def _race(self, champion: Champion, nominee: Contender) -> timing.RaceResult:
        self._check_time()
        self.show("race")
        built = self._wait(self.bench.build(champion.rendered).result)
        if built.verdict is not Verdict.CORRECT:
            raise ContenderFailed(0, built.verdict, built.message)
        pairs = [(champion.rendered, built), (nominee.rendered, nominee.built)]
        last = self.clock.elapsed + min(RACE_SECONDS, self.clock.spare(RACE_SHARE))
        with self.watch("race"):
            result = timing.race(
                lambda count: self.bench.rounds(self.problem, pairs, count),
                deadline=lambda: self.clock.elapsed >= last,
            )
        decided = {name: getattr(result, name) for name in ("gain", "low", "high", "promote", "reason")}
        self.races.append(Race((champion.config, nominee.record.config), result.samples, decided))
        return result

    def _certify(self, nominee: Contender) -> CheckOutcome:
        self._check_time()
        self.show("certify")
        config = nominee.record.config
        family = self.families[config.family]
        with self.watch("certify"):
            found = cases(config, family, self.problem, self.device, nominee.rendered)
            return self.bench.check(found, seconds_left=lambda: self.clock.left)

    def _confirmed(self, nominee: Contender) -> Measurement:
        """A fresh measurement: the one that made it the fastest of many is, for that reason alone, too fast.

        In a restless moment it is taken again; of several the steadiest counts, not the fastest.
        """
        found: list[tuple[float, Measurement]] = []
        with self.watch("race"):
            for _ in range(CONFIRMATIONS):
                measured = self.bench.measure(self.problem, nominee.rendered, nominee.built, best_ms=None)
                if measured.verdict is not Verdict.CORRECT:
                    return measured
                noise = timing.summarise(measured.samples_ms).noise
                found.append((math.inf if noise is None else noise, measured))
                if found[-1][0] <= STEADY:
                    break
        return min(found, key=lambda pair: pair[0])[1]

    def _promote(
        self, champion: Champion | None, nominee: Contender, measurement: Measurement, outcome: CheckOutcome, why: str
    ) -> None:
        """Raises `Superseded` if another tuner has changed the champion since it was raced."""
        when = datetime.now(UTC).isoformat()
        record = replace(nominee.record, measurement=measurement, run=self.run, when=when)
        summary = timing.summarise(measurement.samples_ms)
        self.store.promote(
            self.device.silicon,
            self.device.software,
            self.problem,
            record.config,
            nominee.rendered,
            reason=why,
            time_ms=summary.median_ms,
            noise=summary.noise,
            run=self.run,
            expected=None if champion is None else champion.rendered.source_hash,
            checks=outcome.checks,
            record=record,
        )
        self.last_words.append(record)

    def _withdraw(self, champion: Champion, why: str) -> Champion | None:
        key = (champion.silicon, champion.software, champion.problem)
        return self.store.withdraw(*key, reason=why, source_hash=champion.rendered.source_hash)

    def _refuse(self, contender: Contender, verdict: Verdict, message: str) -> str:
        """A later look found it bad: that is the last word on this source. Returns the reason in words."""
        measurement = Measurement(verdict, message=message)
        when = datetime.now(UTC).isoformat()
        self._record(replace(contender.record, measurement=measurement, run=self.run, when=when))
        return f"{contender.record.config}: {verdict} {message}"

    def _record(self, record: Record) -> None:
        self.store.add(record)
        self.last_words.append(record)

    def _check_time(self) -> None:
        if self.clock.left <= 0:
            raise OutOfTime
