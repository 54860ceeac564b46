"""An Optuna sampler that never leaves the rules: TPE over value indices, each point moved to what is legal and free."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any, Protocol

import optuna
from optuna.distributions import BaseDistribution, IntDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState, create_trial

from tuner.model import Config, Scalar

optuna.logging.set_verbosity(optuna.logging.WARNING)

HISTORY_LIMIT = 1000
"""Trials a study is refilled with at most: TPE learns nothing from more, and its time grows with each."""


class Axis(Protocol):
    """What the sampler needs to know of an axis."""

    @property
    def name(self) -> str:
        """The axis's name."""

    @property
    def values(self) -> tuple[Scalar, ...]:
        """Its choices, ordered."""


class Space(Protocol):
    """What the search needs of a `tuner.family.Space`."""

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes of the family."""

    def sample(self, rng: Any, n: int) -> list[Config]:
        """At most n distinct legal configurations."""

    def snap(self, point: Mapping[str, float], exclude: Any = ()) -> Config | None:
        """The nearest legal configuration outside `exclude`; None when there is none."""

    def indices(self, config: Config) -> dict[str, int]:
        """The index of each axis's value."""


class Exhausted(Exception):
    """Every legal configuration was proposed."""


class SnappingSampler(BaseSampler):
    """Multivariate TPE (Bergstra et al. 2011, Falkner et al. 2018) over integer value indices, snapped to the space.

    TPE's own proposals are mostly illegal or repeats in a constrained space; the nearest configuration that is legal
    and not yet taken (L1 over indices) keeps what the model learnt and wastes no evaluation.
    """

    def __init__(self, space: Space, taken: set[Config], seed: int, startup: int) -> None:
        self._space = space
        self._taken = taken
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            self._tpe = TPESampler(seed=seed, multivariate=True, n_startup_trials=startup, constant_liar=True)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """One integer distribution for each axis with more than one choice."""
        return distributions(self._space)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """TPE's point, snapped; raises `Exhausted` when nothing is left."""
        point = self._tpe.sample_relative(study, trial, search_space)
        for name, distribution in search_space.items():
            if name not in point:  # before TPE has learnt anything it leaves the point empty
                point[name] = self._tpe.sample_independent(study, trial, name, distribution)
        only = {axis.name: 0.0 for axis in self._space.axes}
        config = self._space.snap({**only, **point}, self._taken)
        if config is None:
            raise Exhausted
        indices = self._space.indices(config)
        return {name: indices[name] for name in search_space}

    def sample_independent(self, study: Study, trial: FrozenTrial, name: str, distribution: BaseDistribution) -> Any:
        """The only choice of an axis that has one."""
        raise NotImplementedError("every axis is part of the relative search space")


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """Integer value indices of the axes that have a choice."""
    return {axis.name: IntDistribution(0, len(axis.values) - 1) for axis in space.axes if len(axis.values) > 1}


class FamilySearch:
    """The search of one family: a study in memory over one space, refilled from history.

    `taken` are configurations never to be proposed: measured, pending, or known to be the same source.
    """

    def __init__(self, name: str, space: Space, *, seed: int, startup: int = 10) -> None:
        self.name = name
        self.space = space
        self.taken: set[Config] = set()
        self.best_ms = math.inf
        self.told = 0
        self.exhausted = False
        self._distributions = distributions(space)
        self._sampler = SnappingSampler(space, self.taken, seed, startup)
        self._study = optuna.create_study(sampler=self._sampler)
        self._asked: dict[Config, optuna.trial.Trial] = {}

    def ask(self) -> Config | None:
        """A legal configuration that is not taken, now taken; None when the space is exhausted."""
        if self.exhausted:
            return None
        try:
            config, trial = self._ask_model()
        except Exhausted:
            self.exhausted = True
            return None
        self.taken.add(config)
        self._asked[config] = trial
        return config

    def _ask_model(self) -> tuple[Config, optuna.trial.Trial]:
        trial = self._study.ask()
        index = {name: trial.suggest_int(name, 0, self._high(name)) for name in self._distributions}
        values = {axis.name: axis.values[index.get(axis.name, 0)] for axis in self.space.axes}
        config = Config.of(self.name, values)
        if config in self.taken:  # a family without any choice, for which Optuna asks no sampler
            raise Exhausted
        return config, trial

    def _high(self, name: str) -> int:
        distribution = self._distributions[name]
        assert isinstance(distribution, IntDistribution)
        return distribution.high

    def tell(self, config: Config, time_ms: float | None) -> None:
        """The outcome of a configuration; `time_ms` is None unless it is correct, and a failure never has a value."""
        self.told += 1
        self.taken.add(config)
        if time_ms is not None:
            self.best_ms = min(self.best_ms, time_ms)
        trial = self._asked.pop(config, None)
        state = TrialState.FAIL if time_ms is None else TrialState.COMPLETE
        value = None if time_ms is None else math.log(time_ms)
        if trial is not None:
            self._study.tell(trial, value, state=state)
        elif time_ms is not None:
            self._study.add_trial(self._past_trial(config, time_ms))

    def _past_trial(self, config: Config, time_ms: float) -> FrozenTrial:
        indices = self.space.indices(config)
        params = {name: indices[name] for name in self._distributions}
        return create_trial(params=params, distributions=self._distributions, value=math.log(time_ms))
