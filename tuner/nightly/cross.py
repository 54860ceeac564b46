"""A few champions measured on every problem: what it would cost to serve all with few, and what nearness is worth."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from tuner.model import Champion, Config, Measurement, Problem, Record, Rendered, Verdict
from tuner.nightly.costs import Costs
from tuner.nightly.lane import Lane
from tuner.nightly.past import distance
from tuner.nightly.plan import GAIN_A_DOUBLING, NEAREST_GAIN
from tuner.nightly.words import config_json
from tuner.search.known import restored

MOST = 8
"""Champions in the portfolio."""

Times = Mapping[Config, Mapping[Problem, float]]


def portfolio(champions: Mapping[Problem, Champion], times: Times) -> list[Config]:
    """At most eight champions that together serve all problems well, most useful first.

    Greedy: each adds most to the sum over problems of best time / time with the best of the chosen, which for such a
    (submodular) sum is within 1 - 1/e of the best choice (Nemhauser, Wolsey and Fisher, Mathematical Programming 14,
    1978). What was not measured is guessed from the distance of the problems.
    """
    owners: dict[Config, list[Problem]] = defaultdict(list)
    for problem, champion in champions.items():
        owners[champion.config].append(problem)
    served = dict.fromkeys(champions, 0.0)
    chosen: list[Config] = []
    while len(chosen) < min(MOST, len(owners)):
        left = [config for config in owners if config not in chosen]
        worth = {c: {p: _worth(c, p, owners[c], champions, times) for p in champions} for c in left}
        best = max(left, key=lambda c: sum(max(0.0, worth[c][p] - served[p]) for p in champions))
        if sum(max(0.0, worth[best][p] - served[p]) for p in champions) <= 0:
            break
        chosen.append(best)
        served = {problem: max(served[problem], worth[best][problem]) for problem in champions}
    return chosen


def _worth(
    config: Config, problem: Problem, owners: Sequence[Problem], champions: Mapping[Problem, Champion], times: Times
) -> float:
    if problem in owners:
        return 1.0
    known = times.get(config, {}).get(problem)
    own = champions[problem].time_ms
    if known is not None and own:
        return min(1.0, own / known)
    near = min((distance(owner, problem) for owner in owners if owner.dtype == problem.dtype), default=math.inf)
    return 0.0 if math.isinf(near) else max(0.0, 1 - NEAREST_GAIN - GAIN_A_DOUBLING * near)


def cross_measure(lane: Lane, seconds: float, keep_s: float) -> None:
    """Measure the portfolio's configurations where they were not, for at most `seconds`; they are ordinary trials.

    None is begun that would, by what its problem's took so far, end later than `keep_s` before the night does.
    """
    champions = lane.here()
    problems = [problem for problem in lane.settings.problems if problem in champions]
    champions = {problem: champions[problem] for problem in problems}
    if len(champions) < 2 or seconds <= 0:
        return
    clock, measured = lane.clock.part(seconds), 0
    known = {problem: _known(lane, problem) for problem in problems}
    times: dict[Config, dict[Problem, float]] = defaultdict(dict)
    for problem, records in known.items():
        for record in records.values():
            if record.measurement.time_ms is not None:
                times[record.config][problem] = record.measurement.time_ms
    chosen = portfolio(champions, times)
    costs = Costs(lane.store, lane.device, lane.bench.compilers, problems)
    for problem in problems:
        missing = _missing(lane, problem, chosen, known[problem])
        keep = keep_s + costs.one_s(problem)
        if missing and clock.left > 0 and not lane.out_of_time(keep):
            measured += _measure_all(lane, missing, champions[problem], clock.left, keep)
    lane.mark("cross measured", {"measured": measured, "portfolio": [config_json(config) for config in chosen]})


def _known(lane: Lane, problem: Problem) -> dict[str, Record]:
    return {record.source_hash: record for record in lane.store.history(*lane.key(problem))}


def _missing(
    lane: Lane, problem: Problem, chosen: Sequence[Config], known: Mapping[str, Record]
) -> list[tuple[Config, Rendered]]:
    found = []
    for config in chosen:
        family = lane.families.get(config.family)
        here = restored(family, config, problem, lane.device)
        if family is None or here is None:
            continue
        rendered = family.render(here, problem, lane.device)
        if rendered.source_hash not in known:
            found.append((here, rendered))
    return found


def _measure_all(
    lane: Lane, missing: Sequence[tuple[Config, Rendered]], champion: Champion, seconds: float, keep_s: float
) -> int:
    problem = champion.problem
    clock, key = lane.clock.part(seconds), lane.key(problem)
    run = lane.store.start_run(*key, lane.note("cross"))
    builds = [(config, rendered, lane.bench.build(rendered)) for config, rendered in missing]
    measured = 0
    for config, rendered, building in builds:
        try:
            built = building.result(max(0.0, clock.left))
        except TimeoutError:
            lane.bench.cancel_builds()
            break
        if clock.left <= 0 or lane.out_of_time(keep_s):
            lane.bench.cancel_builds()
            break
        family = lane.families[config.family]

        def on_stage(stage: str, config: Config = config, rendered: Rendered = rendered) -> None:
            lane.store.begin(run, *key, config, rendered.source_hash, stage, lane.families[config.family].hash)

        if built.verdict is Verdict.CORRECT:
            measurement = lane.bench.measure(problem, rendered, built, best_ms=champion.time_ms, on_stage=on_stage)
        else:
            measurement = Measurement(built.verdict, (), built.compile_ms, None, built.message, built.compiler)
        when = datetime.now(UTC).isoformat()
        lane.store.add(Record(*key, config, measurement, rendered.source_hash, run, when, family.hash))
        measured += 1
    lane.store.finish_run(run, {"stopped_by": "cross-measured"})
    return measured
