"""What a configuration promises: its expected improvement on the best, times its chance of success."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import cycle

import numpy as np

from tuner.model import Config
from tuner.search.features import Features
from tuner.search.surrogate import Expected, Floats, GaussianProcess

CURIOSITY = 1e-3
"""Worth of a standard deviation: where no improvement is expected any more, the search goes where least is known."""
DOUBTS = (0.3, 1.0, 0.0)
"""How much times are doubted, in turns: the deviation of each, as a part of its distance (in logarithms) from the best.

Whoever takes all times at their word bends everything to fit the slow ones, and expects no more of a good spot than of
the slow ones around it. Whoever doubts them sees what is good more sharply, and forgets where it was bad. Each stays in
dead ends of its own, so they take turns (as in Hoffman, Brochu & de Freitas 2011): two, three or four of them, with the
largest doubt from 0.3 to 1, did about equally well on recorded spaces; alone none does as well."""
LEAST_CHANCE = 1e-5
"""No configuration is thought to fail for certain because its like did."""


@dataclass(frozen=True)
class Known:
    """What was told: configurations that were timed, that failed, and of which nothing is known (yet)."""

    timed: list[Config]
    log_times: Floats
    failed: list[Config]
    pending: list[Config]
    slow: list[Config]
    """Those of the failed that did not finish in time."""
    unheard: list[Config]
    """Those of which nothing will be known: what came of them said nothing."""


class Outlook:
    """What one look of a model sees at many points; of what is chosen there, it goes on to believe what it expects."""

    def __init__(self, process: GaussianProcess, expected: Expected, best: float, chance: Floats) -> None:
        """`expected` of the times, `best` of those told, in their standard deviations; `chance` of success."""
        self._process, self._expected, self._best, self._chance = process, expected, best, chance

    def promise(self) -> Floats:
        """For each point, in standard deviations of the times told."""
        mean, deviation = self._expected.mean, self._expected.deviation
        return (expected_improvement(self._best, mean, deviation) + CURIOSITY * deviation) * self._chance

    def believe(self, index: int) -> None:
        """Count this point among what is awaited; its like promises less from now on."""
        self._process.believe(self._expected, index)

    def join(self, more: Outlook) -> None:
        """Append `more` points of the same look, of which none was chosen yet."""
        self._expected.join(more._expected)
        self._chance = np.concatenate([self._chance, more._chance])


class Model:
    """Processes for the logarithm of the time, which take turns with more and less doubt; and one for success.

    A failure has no time: it only lowers the chance of success of its like. What did not finish in time is as slow as
    the slowest that did, at least, and is taken for that too. What is awaited is taken to bring what the
    model expects ("kriging believer", Ginsbourger et al. 2010), so that a search that runs ahead does not propose the
    same thing again and again. So is what nothing will be known of.
    """

    def __init__(self, features: Features) -> None:
        self._features = features
        self._turns = cycle([GaussianProcess(features.count, doubt) for doubt in DOUBTS])
        self._learnt: dict[GaussianProcess, tuple[int, ...]] = {}
        """From how much each has learnt its scales."""
        self._success = GaussianProcess(features.count)
        self._points: dict[Config, Floats] = {}
        self._threshold: float | None = None

    def learn(self, known: Known) -> None:
        """Take in what is known; at least one configuration is timed."""
        timed, failed = self._points_of(known.timed + known.slow), self._points_of(known.failed)
        log_times = np.append(known.log_times, np.full(len(known.slow), known.log_times.max()))
        spread = max(float(log_times.std()), 1e-6)
        values = (log_times - log_times.mean()) / spread
        self._best = float(values.min())
        self._time = next(self._turns)
        if self._is_more(self._time, len(timed)):
            self._time.fit(timed, values)
        self._time.condition(timed, values, self._points_of(known.pending + known.unheard))
        if len(failed) and self._is_more(self._success, len(timed), len(failed)):
            self._learn_success(timed[: len(known.timed)], failed)

    def _is_more(self, process: GaussianProcess, *counts: int) -> bool:
        """There is more to learn scales from than this process has learnt from; now it has."""
        before, self._learnt[process] = self._learnt.get(process), counts
        return counts != before

    def _points_of(self, configs: list[Config]) -> Floats:
        new = [config for config in configs if config not in self._points]
        self._points.update(zip(new, self._features.points(new), strict=True))
        return np.array([self._points[config] for config in configs]).reshape(len(configs), self._features.count)

    def _learn_success(self, timed: Floats, failed: Floats) -> None:
        """Least-squares classification (Rasmussen & Williams 2006, ch. 6.5)."""
        share = (len(timed) + 1.0) / (len(timed) + len(failed) + 2.0)
        spread = math.sqrt(share * (1.0 - share))
        outcomes = np.concatenate([np.full(len(timed), 1.0 - share), np.full(len(failed), -share)]) / spread
        points = np.vstack([timed, failed])
        self._success.fit(points, outcomes)
        self._success.condition(points, outcomes)
        self._threshold = (0.5 - share) / spread

    def look(self, points: Floats) -> Outlook:
        """What the points promise by what was learnt; good until more is."""
        chance = np.ones(len(points))
        if self._threshold is not None:
            mean, deviation = self._success.predict(points)
            chance = np.maximum(LEAST_CHANCE, _normal_cdf((mean - self._threshold) / deviation))
        return Outlook(self._time, self._time.expect(points), self._best, chance)


def expected_improvement(best: float, mean: Floats, deviation: Floats) -> Floats:
    """How much lower than `best` a normal variable is expected to come, none counting as 0 (Mockus 1975)."""
    z = (best - mean) / deviation
    density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    return np.asarray(deviation * (z * _normal_cdf(z) + density))


def _normal_cdf(z: Floats) -> Floats:
    """Abramowitz & Stegun 26.2.17, good to 7.5e-8."""
    t = 1.0 / (1.0 + 0.2316419 * np.abs(z))
    series = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = series * np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    return np.asarray(np.where(z > 0, 1.0 - tail, tail))
