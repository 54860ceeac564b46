"""A champion that became slower is looked at once more at the night's end, and only then is anything claimed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tuner.model import Champion, Config, Measurement, Problem, Verdict
from tuner.nightly.confirm import REFUSED, SUSPECTED, compared, history_of, measure, of_champion, refuse
from tuner.nightly.costs import Costs
from tuner.nightly.lane import Lane
from tuner.nightly.ledger import Result
from tuner.nightly.regress import RECOVERED, Comparison, point_of
from tuner.store import Regression
from tuner.store.champions import champion_of
from tuner.store.reading import Reading

LATER_S = 5.0
"""Kept at least, for each champion that became slower, to build and measure it once more at the night's end."""
NEW = "new"


def suspected(lane: Lane) -> list[Regression]:
    """What became slower tonight and is still to be looked at again, also where a kill came between; not stored yet."""
    return [_regression(lane, result) for _, result in _suspected(lane)]


def seconds_of(lane: Lane, costs: Costs, found: Sequence[Regression]) -> float:
    """To be kept for the later looks."""
    return sum(max(LATER_S, costs.one_s(regression.problem)) for regression in found)


def look_later(lane: Lane, costs: Costs) -> None:
    """Measure what became slower once more, far in time from the first looks: all of those may have met a busy moment.

    It is claimed, and stored, if the champion is still slower by half of what it was. Without time, or on a machine
    that is not fit, it is not: the next night looks again. A champion that fails is withdrawn.
    """
    for step, result in _suspected(lane):
        lane.mark(step, _settled(lane, result, costs))


def _suspected(lane: Lane) -> list[tuple[str, Result]]:
    steps = lane.ledger.steps(lane.name).items()
    return [(step, result) for step, result in steps if step.startswith("confirm ") and _open(result)]


def _open(result: Result) -> bool:
    return result.get("regression") == SUSPECTED


def _regression(lane: Lane, result: Result) -> Regression:
    problem = Problem(**result["problem"])
    which = (Config.of(result["family"], result["config"]), result["source_hash"], lane.ledger.night)
    figures = (result["before_ms"], result["now_ms"], result["noise"])
    detail = "the driver changed" if lane.watch.software_changed else ""
    return Regression(0, *lane.key(problem), *which, *figures, detail, "", None, "", False)


def _settled(lane: Lane, result: Result, costs: Costs) -> Result:
    """The step's result after the later look."""
    problem = Problem(**result["problem"])
    champion = _as_confirmed(lane, problem, result["source_hash"])
    if champion is None:
        return {**result, "regression": REFUSED}
    records = [r for r in lane.store.history(lane.device.silicon, None, problem) if of_champion(r, champion)]
    looked = _look(lane, champion, costs)
    if looked is not None and looked.verdict is not Verdict.CORRECT and refuse(lane, champion, looked):
        return {**result, "regression": REFUSED}
    point = None if looked is None else point_of(looked)
    again = None if point is None else compared(lane, history_of(lane, champion, records), [point])
    if again is None:
        return {**result, "regression": "", "settled": False}
    if not _lasts(result, again):
        return {**result, "regression": "", "now_ms": again.now_ms, "factor": again.factor}
    found = _regression(lane, result)
    about = (*lane.key(problem), found.config, found.source_hash, found.night)
    lane.store.open_regression(*about, found.before_ms, found.now_ms, found.noise, detail=found.detail)
    return {**result, "regression": NEW}


def _lasts(result: Result, again: Comparison) -> bool:
    return math.log(again.factor) >= RECOVERED * math.log(result["factor"])


def _as_confirmed(lane: Lane, problem: Problem, source_hash: str) -> Champion | None:
    """The champion that became slower, replaced or not; None if it was withdrawn since."""
    events = [e for e in lane.store.log(*lane.key(problem)) if e.rendered.source_hash == source_hash]
    return None if not events or events[-1].action == "withdraw" else champion_of(events[-1], False, {})


def _look(lane: Lane, champion: Champion, costs: Costs) -> Measurement | None:
    """A measurement, or the one of a night that was killed just after it; None if there can be none."""
    looked = _looked(lane, champion)
    if looked is not None:
        return looked
    if lane.out_of_time(costs.one_s(champion.problem)) or not lane.watch.recent().fit:
        return None
    return measure(lane, champion, "later")


def _looked(lane: Lane, champion: Champion) -> Measurement | None:
    note = lane.note("later")
    runs = Reading(lane.store).runs(champion.problem)
    later = {run.number for run in runs if note.items() <= run.settings.items()}
    records = lane.store.history(*lane.key(champion.problem))
    found = [r.measurement for r in records if r.run in later and of_champion(r, champion)]
    return next((measurement for measurement in reversed(found) if measurement.time_ms is not None), None)
