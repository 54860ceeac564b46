"""An Optuna sampler that never leaves the rules: it asks a model about legal candidates and proposes the best."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from tuner.model import Config
from tuner.search.candidates import AT_FIRST, EACH_TIME, Candidates
from tuner.search.features import Features
from tuner.search.promise import Known, Model, Outlook
from tuner.search.space import Space

optuna.logging.set_verbosity(optuna.logging.WARNING)

STARTUP = 10
"""Random configurations to begin with, whatever a portfolio or history brings along: the model must see the whole."""
BEST = 8
"""So many of the best so far, and of the most promising, have their neighbours among the candidates."""
DRAWN = 32 * EACH_TIME
"""Random configurations drawn at once, which costs hardly more than drawing one."""
AWAITED_EACH, TIMED_EACH = 7, 20
"""For each so many results that are awaited, and so many times known, one look of the model serves one proposal more: a
search that runs far ahead cannot use each single result anyway, and a look costs far more than a choice. Early on each
is needed all the same: on recorded spaces, threes from the beginning lost 0.7 % of the optimum at 50 evaluations."""
STRAY = 0.1
"""Share of the proposals drawn at random throughout, the way out of a dead end that the model does not see."""

NOTED = "verdict"
"""Attribute of a trial without a time: that it did not finish in time (then it failed), or says nothing (pruned)."""


class Exhausted(Exception):
    """Every legal configuration was proposed."""


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """Integer value indices of the axes that have a choice."""
    return {axis.name: IntDistribution(0, len(axis.values) - 1) for axis in space.axes if len(axis.values) > 1}


class ModelSampler(BaseSampler):
    """Proposes the candidate that promises most by a model of what was told; the first few are drawn at random."""

    def __init__(self, family: str, space: Space, taken: set[Config], seed: int) -> None:
        """`taken` are configurations not to be proposed; it is shared, and grows."""
        self._family, self._space, self._taken = family, space, taken
        self._rng = np.random.default_rng(seed)
        self._random_ones = 0
        self._model: Model | None = None
        self._configs: dict[int, Config] = {}
        """By the trial's number."""
        self._drawn: deque[Config] = deque()
        self._outlook: Outlook | None = None
        self._choices_left = 0
        """For which the outlook serves."""

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """One integer distribution for each axis with more than one choice."""
        return distributions(self._space)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The indices of a legal configuration that is not taken; raises `Exhausted` when there is none."""
        config = self._choose(study, trial.number)
        indices = self._space.indices(config)
        return {name: indices[name] for name in search_space}

    def sample_independent(self, study: Study, trial: FrozenTrial, name: str, distribution: BaseDistribution) -> Any:
        """Never asked for: every axis with a choice is part of the relative search space."""
        raise NotImplementedError("every axis is part of the relative search space")

    def _known(self, study: Study, current: int) -> Known:
        of: dict[TrialState, list[FrozenTrial]] = {state: [] for state in TrialState}
        for trial in study.get_trials(deepcopy=False):
            if trial.number != current:
                of[trial.state].append(trial)
        log_times = np.array([trial.value for trial in of[TrialState.COMPLETE]], dtype=np.float64)
        late = [trial for trial in of[TrialState.FAIL] if NOTED in trial.user_attrs]
        unheard = [trial for trial in of[TrialState.PRUNED] if NOTED in trial.user_attrs]
        groups = (of[TrialState.COMPLETE], of[TrialState.FAIL], of[TrialState.RUNNING], late, unheard)
        timed, failed, pending, slow, unheard_of = ([self._config(trial) for trial in group] for group in groups)
        return Known(timed, log_times, failed, pending, slow, unheard_of)

    def _config(self, trial: FrozenTrial) -> Config:
        config = self._configs.get(trial.number)
        if config is None:
            values = {axis.name: axis.values[trial.params.get(axis.name, 0)] for axis in self._space.axes}
            config = self._configs[trial.number] = Config.of(self._family, values)
        return config

    def _choose(self, study: Study, current: int) -> Config:
        known = None if self._choices_left else self._known(study, current)
        if self._random_ones < STARTUP or (known is not None and len(known.timed) < 2) or self._rng.random() < STRAY:
            self._random_ones += 1
            return self._draw()
        if known is not None:
            self._outlook = self._look(known)
            self._choices_left = 1 + min(len(known.pending) // AWAITED_EACH, len(known.timed) // TIMED_EACH)
        assert self._outlook is not None
        self._choices_left -= 1
        promise = self._outlook.promise()
        index = self._candidates.choose(promise)
        if index is None:
            return self._draw()
        config = self._candidates.configs[index]
        if self._choices_left:
            self._outlook.believe(index)
        else:
            self._candidates.thin(promise)
        return config

    def _look(self, known: Known) -> Outlook:
        """Learn, let candidates join, and see what they promise now."""
        if self._model is None:
            self._begin()
        assert self._model is not None
        model, candidates = self._model, self._candidates
        model.learn(known)
        candidates.add(self._some(EACH_TIME))
        candidates.add_neighbours(known.timed[index] for index in np.argsort(known.log_times, kind="stable")[:BEST])
        outlook = model.look(candidates.points)
        # The most promising may have neighbours that promise more: one step uphill.
        uphill = np.argsort(-outlook.promise(), kind="stable")[:BEST]
        before = len(candidates.points)
        candidates.add_neighbours([candidates.configs[index] for index in uphill])
        outlook.join(model.look(candidates.points[before:]))
        return outlook

    def _begin(self) -> None:
        first = self._space.sample(self._rng, AT_FIRST)
        features = Features(self._space, first)
        self._model = Model(features)
        self._candidates = Candidates(self._space, features, first, self._taken)

    def _some(self, count: int) -> list[Config]:
        """A few random configurations, fewer where the space has no more."""
        if len(self._drawn) < count:
            self._drawn = deque(self._space.sample(self._rng, DRAWN))
        return [self._drawn.popleft() for _ in range(min(count, len(self._drawn)))]

    def _draw(self) -> Config:
        """A random legal configuration that is not taken."""
        for config in self._some(8):
            if config not in self._taken:
                return config
        point = {axis.name: self._rng.uniform(0, len(axis.values) - 1) for axis in self._space.axes}
        nearest = self._space.snap(point, self._taken)
        if nearest is None:
            raise Exhausted
        return nearest
