"""An Optuna sampler that never leaves the rules: a Gaussian process over derived sizes, asked about legal candidates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from tuner.model import Config
from tuner.search.candidates import AT_FIRST, EACH_TIME, Candidates
from tuner.search.features import Features
from tuner.search.space import Space
from tuner.search.surrogate import GaussianProcess

optuna.logging.set_verbosity(optuna.logging.WARNING)

STARTUP = 10
"""Random configurations to begin with, whatever a portfolio or history brings along: the model must see the whole."""
BEST = 8
"""So many of the best so far have their neighbours among the candidates."""
STRAY = 0.1
"""Share of the proposals drawn at random throughout, the way out of a dead end that the model does not see."""
CURIOSITY = 1e-3
"""Worth of a standard deviation: where no improvement is expected any more, the search goes where least is known."""
LEAST_CHANCE = 1e-5
"""No configuration is thought to fail for certain because its like did."""


class Exhausted(Exception):
    """Every legal configuration was proposed."""


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """Integer value indices of the axes that have a choice."""
    return {axis.name: IntDistribution(0, len(axis.values) - 1) for axis in space.axes if len(axis.values) > 1}


@dataclass(frozen=True)
class Known:
    """What a study's trials say: configurations that were timed, that failed, and whose outcome is awaited."""

    timed: list[Config]
    log_times: NDArray[np.float64]
    failed: list[Config]
    pending: list[Config]


class ModelSampler(BaseSampler):
    """Proposes the candidate of the greatest expected improvement times chance of success.

    Times enter as logarithms. A failure has no time: it only lowers the chance of success of its like. A pending trial
    is taken to bring what the model expects ("kriging believer", Ginsbourger et al. 2010), so that a search that runs
    ahead does not propose the same thing again and again.
    """

    def __init__(self, family: str, space: Space, taken: set[Config], seed: int) -> None:
        """`taken` are configurations not to be proposed; it is shared, and grows."""
        self._family, self._space, self._taken = family, space, taken
        self._rng = np.random.default_rng(seed)
        self._random_ones = 0
        self._learnt_from = 0
        self._ready = False

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """One integer distribution for each axis with more than one choice."""
        return distributions(self._space)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The indices of a legal configuration that is not taken; raises `Exhausted` when there is none."""
        config = self._choose(self._known(study, trial))
        indices = self._space.indices(config)
        return {name: indices[name] for name in search_space}

    def sample_independent(self, study: Study, trial: FrozenTrial, name: str, distribution: BaseDistribution) -> Any:
        """Never asked for: every axis with a choice is part of the relative search space."""
        raise NotImplementedError("every axis is part of the relative search space")

    def _known(self, study: Study, current: FrozenTrial) -> Known:
        of: dict[TrialState, list[FrozenTrial]] = {state: [] for state in TrialState}
        for trial in study.get_trials(deepcopy=False):
            if trial.number != current.number:
                of[trial.state].append(trial)
        log_times = np.array([trial.value for trial in of[TrialState.COMPLETE]], dtype=np.float64)
        states = (TrialState.COMPLETE, TrialState.FAIL, TrialState.RUNNING)
        timed, failed, pending = ([self._config(trial) for trial in of[state]] for state in states)
        return Known(timed, log_times, failed, pending)

    def _config(self, trial: FrozenTrial) -> Config:
        values = {axis.name: axis.values[trial.params.get(axis.name, 0)] for axis in self._space.axes}
        return Config.of(self._family, values)

    def _choose(self, known: Known) -> Config:
        if self._random_ones < STARTUP or len(known.timed) < 2 or self._rng.random() < STRAY:
            self._random_ones += 1
            return self._draw()
        candidates = self._prepared(known)
        return candidates.choose(self._promise(candidates.points, known)) or self._draw()

    def _draw(self) -> Config:
        """A random legal configuration that is not taken."""
        for config in self._space.sample(self._rng, 8):
            if config not in self._taken:
                return config
        point = {axis.name: self._rng.uniform(0, len(axis.values) - 1) for axis in self._space.axes}
        config = self._space.snap(point, self._taken)
        if config is None:
            raise Exhausted
        return config

    def _prepared(self, known: Known) -> Candidates:
        if not self._ready:
            first = self._space.sample(self._rng, AT_FIRST)
            self._features = Features(self._space, first)
            self._candidates = Candidates(self._space, self._features, first, self._taken)
            self._process, self._success = (GaussianProcess(self._features.count) for _ in range(2))
            self._ready = True
        candidates = self._candidates
        candidates.add(self._space.sample(self._rng, EACH_TIME))
        candidates.add_neighbours(known.timed[index] for index in np.argsort(known.log_times, kind="stable")[:BEST])
        return candidates

    def _promise(self, points: NDArray[np.float64], known: Known) -> NDArray[np.float64]:
        """Expected improvement at each point times its chance of success, on a scale of its own."""
        process, features = self._process, self._features
        there = features.points(known.timed)
        spread = max(float(known.log_times.std()), 1e-6)
        values = (known.log_times - known.log_times.mean()) / spread
        if len(values) > self._learnt_from:
            process.fit(there, values)
            self._learnt_from = len(values)
        process.condition(there, values)
        if known.pending:
            awaited = features.points(known.pending)
            expected = process.predict(awaited)[0]
            process.condition(np.vstack([there, awaited]), np.concatenate([values, expected]))
        mean, deviation = process.predict(points)
        promise = expected_improvement(float(values.min()), mean, deviation) + CURIOSITY * deviation
        if known.failed:
            promise *= self._chance_of_success(points, there, features.points(known.failed))
        return promise

    def _chance_of_success(
        self, points: NDArray[np.float64], good: NDArray[np.float64], bad: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Least-squares classification (Rasmussen & Williams 2006, ch. 6.5)."""
        share = (len(good) + 1.0) / (len(good) + len(bad) + 2.0)
        spread = math.sqrt(share * (1.0 - share))
        outcomes = np.concatenate([np.full(len(good), 1.0 - share), np.full(len(bad), -share)]) / spread
        there = np.vstack([good, bad])
        self._success.fit(there, outcomes)
        self._success.condition(there, outcomes)
        mean, deviation = self._success.predict(points)
        return np.maximum(LEAST_CHANCE, _normal_cdf((mean - (0.5 - share) / spread) / deviation))


def expected_improvement(best: float, mean: NDArray[np.float64], deviation: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much lower than `best` a normal variable is expected to come, none counting as 0 (Mockus 1975)."""
    z = (best - mean) / deviation
    density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    return np.asarray(deviation * (z * _normal_cdf(z) + density))


def _normal_cdf(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Abramowitz & Stegun 26.2.17, good to 7.5e-8."""
    t = 1.0 / (1.0 + 0.2316419 * np.abs(z))
    series = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = series * np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    return np.asarray(np.where(z > 0, 1.0 - tail, tail))
