"""The statistics of reports, each defined once; docs/reports.md says the same in words."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tuner.model import Config, Problem, Scalar

MARGIN = 0.10
"""A default this much slower than the best counts in the share of shapes; as in published surveys of defaults."""
PORTFOLIO = 8
NOTHING = 1e-12
UNCOVERED = 2.0
"""What a shape counts as, for choosing a portfolio, on which none of the chosen was measured: twice its best time."""


@dataclass(frozen=True)
class DefaultRegret:
    """How much tuning brings over the default, over the shapes on which both were measured."""

    shapes: int
    share: float | None
    """Of shapes on which the default is more than MARGIN slower than the best."""
    median: float | None
    """default's ms / best ms."""
    largest: float | None
    where: Problem | None
    """The shape of the largest."""


def default_regret(pairs: Iterable[tuple[Problem, float, float]]) -> DefaultRegret:
    """From (problem, default's ms, best ms)."""
    ratios = [(default / best, problem) for problem, default, best in pairs]
    if not ratios:
        return DefaultRegret(0, None, None, None, None)
    share = sum(ratio > 1 + MARGIN for ratio, _ in ratios) / len(ratios)
    largest, where = max(ratios, key=lambda pair: pair[0])
    return DefaultRegret(len(ratios), share, statistics.median(ratio for ratio, _ in ratios), largest, where)


def geometric_mean(values: Sequence[float]) -> float | None:
    """Of positive numbers; None of none."""
    return math.exp(statistics.fmean(math.log(value) for value in values)) if values else None


def ratio_noise(one: float | None, other: float | None) -> float | None:
    """Of a ratio of two medians that were measured apart, from theirs, as fractions; None if one is not known."""
    return None if one is None or other is None else math.hypot(one, other)


def mean_noise(noises: Sequence[float | None]) -> float | None:
    """Of a geometric mean of numbers that were measured apart, from theirs, as fractions; None if one is not known."""
    known = [noise for noise in noises if noise is not None]
    return math.hypot(*known) / len(known) if known and len(known) == len(noises) else None


@dataclass(frozen=True)
class Portfolio:
    """A few configurations chosen greedily to serve all shapes."""

    configs: tuple[Config, ...]
    regrets: tuple[tuple[Problem, tuple[float | None, ...]], ...]
    """For each shape what each configuration costs there: its ms / best ms; None where it was not measured."""
    steps: tuple[tuple[int, float | None], ...]
    """After each choice: shapes covered, and the geometric mean of the regret of the best chosen on those."""


def portfolio(times: Mapping[Problem, Mapping[Config, float]], most: int = PORTFOLIO) -> Portfolio:
    """Add, one by one, the configuration that lowers most the geometric mean over shapes of (best chosen ms / best ms).

    Only configurations measured on two shapes at least come into question, unless there is none. A shape on which none
    of the chosen was measured counts as UNCOVERED. Ends when nothing is gained. Greedy choice is
    within a factor 1 - 1/e of the best choice for such coverage: G. Nemhauser, L. Wolsey, M. Fisher, "An analysis of
    approximations for maximizing submodular set functions I", Math. Programming 14 (1978).
    """
    best = {problem: min(found.values()) for problem, found in times.items() if found}
    costs: dict[Config, dict[Problem, float]] = defaultdict(dict)
    for problem in best:
        for config, ms in times[problem].items():
            costs[config][problem] = math.log(ms / best[problem])
    costs = {config: cost for config, cost in costs.items() if len(cost) > 1} or costs
    current = dict.fromkeys(best, math.log(UNCOVERED))
    chosen: list[Config] = []
    steps: list[tuple[int, float | None]] = []
    covered: set[Problem] = set()
    while len(chosen) < most:
        gains = {config: _gain(cost, current) for config, cost in costs.items() if config not in chosen}
        if not gains or max(gains.values()) <= NOTHING:
            break
        config = min(gains, key=lambda one: (-gains[one], one))
        chosen.append(config)
        for problem, cost in costs[config].items():
            covered.add(problem)
            current[problem] = min(current[problem], cost)
        steps.append((len(covered), geometric_mean([_least(costs, chosen, problem) for problem in covered])))
    table = tuple((p, tuple(_ratio(costs[config].get(p)) for config in chosen)) for p in sorted(best))
    return Portfolio(tuple(chosen), table, tuple(steps))


def _gain(cost: Mapping[Problem, float], current: Mapping[Problem, float]) -> float:
    return sum(max(0.0, current[problem] - one) for problem, one in cost.items())


def _least(costs: Mapping[Config, Mapping[Problem, float]], chosen: Sequence[Config], problem: Problem) -> float:
    return math.exp(min(costs[config][problem] for config in chosen if problem in costs[config]))


def _ratio(log: float | None) -> float | None:
    return None if log is None else math.exp(log)


@dataclass(frozen=True)
class AxisValue:
    """How the trials with one value of an axis went."""

    family: str
    axis: str
    value: Scalar
    correct: int
    trials: int


def by_axis_value(configs: Mapping[Config, tuple[int, int]]) -> list[AxisValue]:
    """For every value of every axis the correct and all trials; those that fail most first."""
    counts: dict[tuple[str, str, Scalar], list[int]] = defaultdict(lambda: [0, 0])
    for config, (correct, trials) in configs.items():
        for axis, value in config.values:
            count = counts[config.family, axis, value]
            count[0] += correct
            count[1] += trials
    found = [AxisValue(*key, correct, trials) for key, (correct, trials) in counts.items()]
    return sorted(found, key=lambda one: (one.correct / one.trials, -one.trials, one.family, one.axis, str(one.value)))


@dataclass(frozen=True)
class Convergence:
    """A search as it went on: each evaluation in order."""

    times_ms: tuple[float | None, ...] = field(repr=False)
    """None for a failure."""
    seconds: tuple[float, ...] = field(repr=False)
    """Of searching until then; pauses between runs are left out."""

    @property
    def best_ms(self) -> list[float | None]:
        """The least time until then; None before the first."""
        found: list[float | None] = []
        best: float | None = None
        for ms in self.times_ms:
            best = ms if best is None else best if ms is None else min(ms, best)
            found.append(best)
        return found
