"""The night's searches: champions of another driver proven again first, then whatever is worth most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from tuner.family import Family, brief
from tuner.model import Config, Device, Problem, Verdict
from tuner.nightly.costs import Costs
from tuner.nightly.lane import Lane
from tuner.nightly.later import suspected
from tuner.nightly.ledger import Result
from tuner.nightly.past import read_past
from tuner.nightly.plan import LEAST_S, Due, Plan, allot, make_plan
from tuner.nightly.settings import NightSettings
from tuner.nightly.words import config_json, problem_json, rate
from tuner.search import Budget, Outcome, Progress, tune
from tuner.store import Regression, Store

BARRED_S = 20.0
"""Half of this a search waits, at its end, for a machine that is slow at that moment: hot from the search, say."""
MOST_OLD = 3
"""Champions of other drivers that are proven again for one problem."""
RENEW_S = 60.0
OLD_SHARE = 0.5
"""Part of the time left that proving old champions again may use."""
FEWEST_TRIALS = 8
"""Of one axis value, before it is said that it fails every time."""


def plan_for(
    settings: NightSettings,
    store: Store,
    device: Device,
    families: Mapping[str, Family],
    suspected: Sequence[Regression] = (),
) -> Plan:
    """What is due on a device now; nothing is measured or changed. `suspected` count as regressions that are open."""
    champions = store.champions()
    hashes = {name: family.hash for name, family in sorted(families.items())}
    past = read_past(store, device, hashes, champions)
    misses = store.misses(device.silicon)
    regressions = [*store.regressions(), *suspected]
    return make_plan(settings, device, champions, past, misses, regressions, datetime.now(UTC))


def plan_of(lane: Lane) -> Plan:
    """What is due now."""
    return plan_for(lane.settings, lane.store, lane.device, lane.families, suspected(lane))


def renew(lane: Lane, problems: Sequence[Problem]) -> None:
    """Certify and publish on this software what was the champion on another; no search is made for it."""
    clock = lane.clock.part(OLD_SHARE * lane.clock.left)
    champions = lane.champions()
    for problem in problems:
        step = f"renew {problem}"
        if lane.out_of_time(LEAST_S) or clock.left <= 0:
            return
        if lane.done(step) is not None:
            continue
        old = [c for c in champions if c.problem == problem and c.software != lane.device.software]
        old.sort(key=lambda champion: champion.when, reverse=True)
        configs = list(dict.fromkeys(champion.config for champion in old))[:MOST_OLD]
        families = {c.family: lane.families[c.family] for c in configs if c.family in lane.families}
        result: Result = {"problem": problem_json(problem), "from": [config_json(config) for config in configs]}
        if families:
            budget = Budget(len(configs), min(RENEW_S, clock.left))
            note = lane.note("renew")
            arguments = (problem, lane.device, families, lane.bench, lane.store, budget)
            barred = partial(_barred, lane, problem)
            outcome = tune(*arguments, seed=0, barred=barred, note=note)
            result |= {"proven": outcome.promotion.promoted, "reason": outcome.promotion.reason}
            result["verdicts"] = dict(outcome.verdicts)
            if lane.stop.is_set():
                return
        else:
            result |= {"proven": False, "reason": "its family is not known here"}
        lane.mark(step, result)
        lane.say(f"{problem}: {'proven again' if result['proven'] else 'not proven again'}: {result['reason']}")


def search(lane: Lane, plan: Plan, reserve: Callable[[], float], after: Callable[[Problem], None]) -> None:
    """Search what is due, in the order of what it is worth, until only `reserve()` seconds are left.

    What a search leaves of its time goes to those after it. `after(problem)` is called after each.
    """
    due = [one for one in plan.due if lane.done(f"search {one.problem}") is None]
    total, already = len(due), set[Problem]()
    costs = Costs(lane.store, lane.device, lane.bench.compilers, [one.problem for one in due])
    while due and not lane.out_of_time(reserve() + LEAST_S):
        due = [replace(one, least_s=costs.least_s(one.problem)) for one in due]
        planned = allot(due, lane.clock.left - reserve(), lane.settings.budget.problem_s)
        one = planned[0]
        if one.seconds <= 0:
            return
        condition = lane.watch.recent()
        if not condition.fit:
            condition = lane.watch.wait(lane.clock, "between", lane.say)
            if not condition.fit:
                lane.attention.append(f"{lane.device.name} was left alone: {condition.words}.")
                return
            continue
        due = [other for other in due if other.problem != one.problem]
        lane.say(f"[{max(1, total - len(due))}/{total}] {one.problem}: {one.reason}, {one.why}; {one.seconds:.0f} s")
        if _search(lane, one):
            after(one.problem)
            costs.learn(one.problem)
            lane.attention.extend(_too_short(lane, one, costs.least_s(one.problem)))
            if not due:
                due = _without_champion(lane, plan, already)
                already |= {other.problem for other in due}


def _too_short(lane: Lane, due: Due, least_s: float) -> list[str]:
    """What the file would have to grant for a problem that was searched and could not be certified."""
    result, most = lane.done(f"search {due.problem}"), lane.settings.budget.problem_s
    if result is None or result["best_ms"] is None or least_s <= most or due.problem in lane.here():
        return []
    return [f"{due.problem}: to race and certify it takes about {least_s:.0f} s; [budget] problem is {most:.0f} s."]


def _without_champion(lane: Lane, plan: Plan, already: set[Problem]) -> list[Due]:
    """Those whose time was over before anything was published: once more, with what time is left."""
    here, found = lane.here(), []
    for one in plan.due:
        before = lane.done(f"search {one.problem}")
        if before is not None and before["stopped_by"] == "seconds" and one.problem not in here:
            found.append(one)
    return [one for one in found if one.problem not in already]


def _search(lane: Lane, due: Due) -> bool:
    """One search; False if it was stopped or could not be made."""
    problem, budget = due.problem, lane.settings.budget
    trials: dict[Config, tuple[Verdict, str]] = {}  # the last word on each

    def observe(progress: Progress) -> None:
        if progress.latest is not None:
            latest = progress.latest
            trials[latest.config] = latest.measurement.verdict, latest.measurement.message

    earlier = lane.done(f"search {problem}")
    finishing = earlier is not None and earlier["best_ms"] is not None  # only race and certificate are missing
    limits = Budget(0 if finishing else budget.evaluations, due.seconds)
    arguments = (problem, lane.device, lane.families, lane.bench, lane.store, limits)
    seed, note, barred = lane.settings.seed, lane.note("search"), partial(_barred, lane, problem)
    outcome = tune(*arguments, seed=seed, observe=observe, barred=barred, note=note, seeds=lane.seeds)
    if outcome.stopped_by == "interrupted":
        return False
    result = _result(due, outcome)
    result["failures"] = _failures([(config, *said) for config, said in trials.items()], lane.families)
    lane.mark(f"search {problem}", result if earlier is None else _joined(earlier, result))
    lane.say(f"        {_line(result)}")
    if lane.store.champion(*lane.key(problem)) is not None:
        lane.store.forget_misses(*lane.key(problem))
    return True


def _joined(earlier: Result, later: Result) -> Result:
    """Two searches of one problem in one night as one."""
    failures = {
        "examples": {**earlier["failures"]["examples"], **later["failures"]["examples"]},
        "axes": [*earlier["failures"]["axes"], *later["failures"]["axes"]],
    }
    return {
        **later,
        "evaluated": earlier["evaluated"] + later["evaluated"],
        "seconds": round(earlier["seconds"] + later["seconds"], 1),
        "verdicts": dict(Counter(earlier["verdicts"]) + Counter(later["verdicts"])),
        "failures": failures,
    }


def _barred(lane: Lane, problem: Problem) -> str:
    """Why no champion may change now: the machine is slow or noisy, and the software is not to blame.

    The first champion of a problem changes none, and even one found in a bad hour is better than what a look-up would
    fall back on.
    """
    if lane.store.champion(*lane.key(problem)) is None:
        return ""
    condition = lane.watch.look("before a champion changes")
    if not condition.fit:
        condition = lane.watch.wait(lane.clock.part(BARRED_S), "before a champion changes", lane.say)
    return "" if condition.fit else f"the champion must not change now: {condition.words}"


def _result(due: Due, outcome: Outcome) -> Result:
    problem, promotion = due.problem, outcome.promotion
    best = outcome.best
    time_ms = None if best is None else best.measurement.time_ms
    return {
        "problem": problem_json(problem),
        "reason": due.reason.value,
        "evaluated": outcome.evaluated,
        "verdicts": dict(outcome.verdicts),
        "stopped_by": outcome.stopped_by,
        "seconds": round(outcome.seconds, 1),
        "best_ms": time_ms,
        "best_gflops": None if time_ms is None else problem.gflops(time_ms),
        "promoted": promotion.promoted,
        "promotion": promotion.reason,
    }


def _failures(trials: Sequence[tuple[Config, Verdict, str]], families: Mapping[str, Family]) -> Result:
    """What failed, by verdict with an example each, and the axis values of which every trial failed."""
    failed = [(config, verdict, message) for config, verdict, message in trials if verdict is not Verdict.CORRECT]
    examples = {verdict.value: f"{brief(config, families)}: {said}"[:300] for config, verdict, said in reversed(failed)}
    tried: Counter[tuple[str, str, Any]] = Counter()
    bad: Counter[tuple[str, str, Any]] = Counter()
    for config, verdict, _ in trials:
        values = [(config.family, axis, value) for axis, value in config.values]
        tried.update(values)
        bad.update(values if verdict is not Verdict.CORRECT else ())
    hopeless = [value for value, count in bad.items() if count == tried[value] >= FEWEST_TRIALS]
    axes = [{"family": f, "axis": axis, "value": value, "trials": tried[f, axis, value]} for f, axis, value in hopeless]
    return {"examples": examples, "axes": axes}


def _line(result: Result) -> str:
    counts = ", ".join(f"{count} {verdict}" for verdict, count in result["verdicts"].items()) or "nothing new"
    fate = "promoted" if result["promoted"] else "not promoted"
    return f"{counts}; best {rate(result['best_gflops'])}; {fate}: {result['promotion']}"
