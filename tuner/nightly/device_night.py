"""One device's night, from the first reading to the last: peaks, old champions, confirmations, searches, rivals."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from tuner.model import Device, Problem
from tuner.nightly.confirm import close_replaced, confirm
from tuner.nightly.costs import Costs
from tuner.nightly.cross import cross_measure
from tuner.nightly.lane import Lane
from tuner.nightly.later import look_later, seconds_of, suspected
from tuner.nightly.peaks import armed, measure_peaks, missing
from tuner.nightly.plan import Plan
from tuner.nightly.rivals import Libraries, Rivals
from tuner.nightly.search_step import plan_of, renew, search
from tuner.nightly.words import problem_json

END_S = 6.0
"""Kept for the last reading and the summary."""
LIBRARIES_SHARE = 0.4
"""Of what is left of a night, kept for races with libraries at most: searching is what the night is for."""
LIBRARIES_WAIT_S = 20.0
"""Libraries that are still being opened when all else is done are waited for so long."""


def device_night(lane: Lane, open_libraries: Callable[[], Any]) -> None:
    """Everything due on one device, within the lane's clock; whatever happened is in its ledger and in the store.

    Raises Stopped when the night is told to stop, and whatever the bench raises for a device that is lost.
    """
    device = lane.device
    condition = lane.watch.wait(lane.clock, "start", lane.say)
    lane.mark("condition start", _condition(lane))
    if not condition.fit:
        lane.attention.append(f"{device.name} was left alone: {condition.words}.")
        return
    _peaks(lane)
    plan = plan_of(lane)
    renew(lane, plan.renew)
    lane.ledger.tick()
    confirm(lane, list(plan_of(lane).confirm) if plan.renew else plan.confirm)
    with ExitStack() as resources:
        rivals = None
        if lane.settings.libraries != ():
            libraries = Libraries(open_libraries, background=not device.facts.shares_cores)
            rivals = Rivals(lane, resources.enter_context(libraries))
        costs = Costs(lane.store, device, lane.bench.compilers, lane.here())
        _searches(lane, rivals, seconds_of(lane, costs, suspected(lane)))
    look_later(lane, costs)
    close_replaced(lane)
    lane.watch.look("end")
    lane.mark("condition end", _condition(lane))


def _searches(lane: Lane, rivals: Rivals | None, later_s: float) -> None:
    end = END_S + later_s
    plan = plan_of(lane)
    problems = [due.problem for due in plan.due] + [*plan.confirm]
    problems = list(dict.fromkeys(problems))
    cross = lane.settings.cross_share * lane.settings.budget.total_s if len(problems) > 1 else 0.0
    waiting: dict[Problem, None] = dict.fromkeys(problems)

    def reserve() -> float:
        unmet = len(rivals.due(list(waiting))) if rivals is not None else 0
        races = unmet * (rivals.usual_s if rivals is not None else 0.0)
        return end + cross + min(races, LIBRARIES_SHARE * lane.clock.left)

    def after(problem: Problem) -> None:
        if rivals is not None and rivals.race(problem):
            waiting.pop(problem, None)

    search(lane, plan, reserve, after)
    here = lane.here()
    for problem in list(waiting) if rivals is not None else ():
        if problem not in here or lane.out_of_time(end):
            continue
        assert rivals is not None
        patience = min(LIBRARIES_WAIT_S, lane.clock.left - end - cross)
        if not rivals.race(problem, patience):
            break
    if lane.done("cross measured") is None:
        cross_measure(lane, min(cross, lane.clock.left - end), end)


def _peaks(lane: Lane) -> None:
    dtypes = [problem.dtype for problem in lane.settings.problems]
    if wanted := missing(lane.store, lane.device, dtypes):
        # Cores that others use, too, may be shared tonight: without other nights to compare with nobody can tell.
        quiet = lane.watch.last.fit and (lane.watch.known or not lane.device.facts.shares_cores)
        measure_peaks(lane.store, lane.device, lane.bench, wanted, quiet=quiet)
    lane.bench.arm(armed(lane.store.peaks(lane.device.silicon, lane.device.software)))


def _condition(lane: Lane) -> dict[str, Any]:
    found = lane.watch.last
    return {
        "state": found.state.value,
        "words": found.words,
        "kernel_factor": found.kernel_factor,
        "copy_factor": found.copy_factor,
        "noise": found.noise,
        "software_changed": lane.watch.software_changed,
    }


def plan_json(plan: Plan, device: Device) -> dict[str, Any]:
    """A plan as plain values, for `--dry-run` and for the night's row in the store."""
    return {
        "device": device.name,
        "renew": [problem_json(problem) for problem in plan.renew],
        "confirm": [problem_json(problem) for problem in plan.confirm],
        "due": [
            {
                "problem": problem_json(due.problem),
                "reason": due.reason.value,
                "why": due.why,
                "gain": due.gain,
                "asked": due.asked,
                "seconds": due.seconds,
            }
            for due in plan.due
        ],
        "exhausted": [problem_json(problem) for problem in plan.exhausted],
        "lacking": [problem_json(problem) for problem in plan.lacking],
    }
