"""Champions are measured again: what became slower than its own history, and what is no longer right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tuner.model import Champion, Measurement, Problem, Record, Verdict
from tuner.nightly.lane import Lane, shares
from tuner.nightly.ledger import Result
from tuner.nightly.regress import RECOVERED, Comparison, Point, compare, one_night, point_of, recovered
from tuner.nightly.words import config_json, problem_json
from tuner.store import Regression
from tuner.store.reading import Reading

LOOKS = 3
"""Measurements of a champion that looks slower, before it is called so."""
MOST_SHARE = 0.3
"""Part of the time left that confirmations may use; where a night does not get round, the next begins elsewhere."""
SUSPECTED, REFUSED = "suspected", "refused"
"""Of a regression that was not looked at again yet, and of a champion that was withdrawn instead."""
NOT_ITS_FAULT = (Verdict.UNSUPPORTED, Verdict.BAD_CLOCK)


@dataclass
class Case:
    """One champion's confirmation."""

    champion: Champion
    history: list[Point]
    tonight: list[Point]
    comparison: Comparison | None = None


def confirm(lane: Lane, problems: Sequence[Problem]) -> None:
    """Measure the champions of `problems` again, the suspicious ones up to three times, and judge them.

    Regressions are suspected, and closed in the store, only if the machine is fit before and after; what is suspected
    is for `look_later` to prove or disprove. A champion that fails twice is withdrawn.
    """
    if not problems:
        return
    clock = lane.clock.part(MOST_SHARE * lane.clock.left)
    champions, cases = lane.here(), []
    for problem in shares(problems, lane.ledger.night):
        if lane.out_of_time() or clock.left <= 0:
            break
        if problem in champions and lane.done(f"confirm {problem}") is None:
            case = _confirm(lane, champions[problem])
            if case is not None:
                cases.append(case)
    cases = _look_again(lane, cases)
    _judge(lane, cases, lane.watch.look("confirmed").fit)


def _confirm(lane: Lane, champion: Champion) -> Case | None:
    problem = champion.problem
    records = lane.store.history(lane.device.silicon, None, problem)
    mine = [record for record in records if of_champion(record, champion)]
    tonight = _measured_tonight(lane, mine)
    if not tonight and champion.when >= lane.started:
        return None  # it was measured as it was published, tonight
    if not tonight:
        measurement = measure(lane, champion)
        if measurement.verdict is not Verdict.CORRECT:
            refuse(lane, champion, measurement)
            return None
        tonight = [measurement]
    points = [point for point in map(point_of, tonight) if point is not None]
    history = history_of(lane, champion, mine)
    case = Case(champion, history, points)
    _compare(lane, case)
    return case


def of_champion(record: Record, champion: Champion) -> bool:
    """Whether a record is one of the champion's, by source or by configuration."""
    return record.source_hash == champion.rendered.source_hash or record.config == champion.config


def _measured_tonight(lane: Lane, records: Sequence[Record]) -> list[Measurement]:
    """What a killed tuner measured before this night went on, or what proved the champion on new software.

    Of a run that proved it only the last counts: the first may have been chosen for being fast.
    """
    runs = Reading(lane.store).runs(records[0].problem) if records else []
    stages = {run.number: run.settings.get("stage") for run in runs if run.settings.get("night") == lane.ledger.night}
    found: dict[str, list[Measurement]] = {"confirm": [], "renew": []}
    for record in records:
        stage = stages.get(record.run)
        if stage in found and record.measurement.time_ms is not None:
            found[stage].append(record.measurement)
    return found["confirm"] or found["renew"][-1:]


def measure(lane: Lane, champion: Champion, stage: str = "confirm") -> Measurement:
    """Measured and remembered; what fails is tried once more, for a busy machine is no fault of the champion's."""
    key, rendered = lane.key(champion.problem), champion.rendered
    family = lane.families.get(champion.config.family)
    if any(candidate.source_hash == rendered.source_hash for candidate in lane.store.interrupted(*key)):
        lane.store.forget_interrupted(*key, rendered.source_hash)
    run = lane.store.start_run(*key, lane.note(stage))

    def on_stage(doing: str) -> None:
        lane.store.begin(run, *key, champion.config, rendered.source_hash, doing, family.hash if family else "")

    measurement = Measurement(Verdict.UNSUPPORTED)
    for _ in range(2):
        built = lane.bench.build(rendered).result()
        measurement = lane.bench.measure(champion.problem, rendered, built, best_ms=None, on_stage=on_stage)
        if measurement.verdict is Verdict.CORRECT:
            break
    when = datetime.now(UTC).isoformat()
    record = Record(*key, champion.config, measurement, rendered.source_hash, run, when, family.hash if family else "")
    lane.store.add(record)
    lane.store.finish_run(run, {"stopped_by": "confirmed"})
    return measurement


def refuse(lane: Lane, champion: Champion, measurement: Measurement) -> bool:
    """Withdraw a champion that failed; False, and a person is told, if that was no fault of its own."""
    if measurement.verdict in NOT_ITS_FAULT:
        lane.attention.append(f"{champion.problem}: its champion could not be confirmed: {measurement.message}.")
        return False
    why = f"{measurement.verdict} when it was confirmed: {measurement.message}"
    lane.store.withdraw(*lane.key(champion.problem), reason=why, source_hash=champion.rendered.source_hash)
    return True


def history_of(lane: Lane, champion: Champion, records: Sequence[Record]) -> list[Point]:
    """What is known of a champion before tonight: on this software, else on the one before.

    The measurement that first made it the fastest of many is, for that reason, too fast, and left out. What a person
    has accepted as the new normal starts a new history.
    """
    known = [record for record in records if record.when < lane.started]
    before = known[1:] or known
    accepted = [r for r in lane.store.regressions(open_only=False) if r.acknowledged and _about(r, champion)]
    if accepted:
        since = accepted[-1].closed or ""
        before = [record for record in before if record.when > since]
        if not before:
            return [Point(math.log(accepted[-1].now_ms), accepted[-1].noise / 1.96)]
    here = [record for record in before if record.software == lane.device.software]
    if not here and before:
        here = [record for record in before if record.software == before[-1].software]
    return _by_night(lane, champion.problem, [r for r in here if len(r.measurement.samples_ms) > 1])


def _by_night(lane: Lane, problem: Problem, records: Sequence[Record]) -> list[Point]:
    """One point for all of a night's measurements, and for those of every run outside of nights.

    Where a night looked again at its end, that look alone counts: the first ones may have met a busy moment.
    """
    runs = Reading(lane.store).runs(problem)
    nights = {run.number: run.settings.get("night") for run in runs}
    later = {run.number for run in runs if run.settings.get("stage") == "later"}
    settled = {nights[record.run] for record in records if record.run in later}
    records = [r for r in records if r.run in later or nights.get(r.run) not in settled]
    found: dict[tuple[str, int], list[Point]] = {}
    for record in records:
        night, point = nights.get(record.run), point_of(record.measurement)
        if point is not None:
            found.setdefault(("run", record.run) if night is None else ("night", night), []).append(point)
    return [one_night(points) for points in found.values()]


def _about(regression: Regression, champion: Champion) -> bool:
    same = (regression.silicon, regression.problem) == (champion.silicon, champion.problem)
    return same and regression.source_hash == champion.rendered.source_hash


def close_replaced(lane: Lane) -> list[Regression]:
    """Regressions are over, too, when another champion is as fast as the one that became slow was; returns those."""
    here, closed = lane.here(), []
    for regression in lane.store.regressions():
        champion = here.get(regression.problem) if regression.silicon == lane.device.silicon else None
        if champion is None or _about(regression, champion) or champion.time_ms is None:
            continue
        if champion.time_ms <= regression.before_ms * (1 + RECOVERED * lane.settings.threshold):
            lane.store.close_regression(regression.id, f"replaced by {champion.config}, which is as fast as it was")
            closed.append(regression)
    return closed


def _compare(lane: Lane, case: Case) -> None:
    case.comparison = compared(lane, case.history, case.tonight)


def compared(lane: Lane, history: Sequence[Point], tonight: Sequence[Point]) -> Comparison | None:
    """Tonight beside the history by the night's settings; None without a history."""
    problems = len(lane.settings.problems)
    return compare(history, tonight, threshold=lane.settings.threshold, problems=problems, drift=_drift(lane))


def _drift(lane: Lane) -> float:
    """How much slower the machine is, by logarithm; 0 with new software, which may be what made it so."""
    return 0.0 if lane.watch.software_changed else lane.watch.last.drift


def _look_again(lane: Lane, cases: Sequence[Case]) -> list[Case]:
    """Those that look slower once more, after all others, so that a bad moment does not decide. Who failed is out."""
    standing = list(cases)
    for _ in range(LOOKS - 1):
        for case in list(standing):
            doubtful = case.comparison is not None and case.comparison.suspicious
            if not doubtful or lane.out_of_time() or len(case.tonight) >= LOOKS:
                continue
            measurement = measure(lane, case.champion)
            if measurement.verdict is not Verdict.CORRECT and refuse(lane, case.champion, measurement):
                standing.remove(case)
            elif (point := point_of(measurement)) is not None:
                case.tonight.append(point)
                _compare(lane, case)
    return standing


def _judge(lane: Lane, cases: Sequence[Case], fit: bool) -> None:
    regressions = lane.store.regressions()
    for case in cases:
        champion, found = case.champion, case.comparison
        result: Result = {"problem": problem_json(champion.problem), **config_json(champion.config), "judged": fit}
        result["source_hash"] = champion.rendered.source_hash
        if found is not None:
            result |= {"before_ms": found.before_ms, "now_ms": found.now_ms}
            result |= {"factor": found.factor, "noise": found.noise, "looks": len(case.tonight), "nights": found.nights}
        standing = next((r for r in regressions if _about(r, champion)), None)
        if fit:
            result["regression"] = _claim(lane, case, standing)
        lane.mark(f"confirm {champion.problem}", result)


def _claim(lane: Lane, case: Case, standing: Regression | None) -> str:
    """`suspected`, `open`, `recovered` or nothing; the store is told of what recovered."""
    if standing is not None:
        threshold = max(lane.settings.threshold, standing.noise)
        if recovered(standing.before_ms, case.tonight, threshold=threshold, drift=_drift(lane)):
            lane.store.close_regression(standing.id, "recovered")
            return "recovered"
        return "open"
    return SUSPECTED if case.comparison is not None and case.comparison.regressed else ""
