"""Other ways to search, to compare ours with: random, Optuna's samplers as they are, and TPE moved to what is legal."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

import numpy as np
import optuna
from optuna.samplers import BaseSampler, CmaEsSampler, NSGAIISampler, RandomSampler, TPESampler
from optuna.trial import Trial, TrialState, create_trial

from tuner.model import Config, UserError
from tuner.search.proposer import Proposer
from tuner.search.recorded import RecordedSpace
from tuner.search.sampler import distributions

MOST_ASKS = 100
"""Asks for one proposal: a sampler that knows no rules rarely meets them; then a random configuration is taken."""


class Strategy(Protocol):
    """A search over one space, asked and told in turns."""

    def propose(self) -> Config | None:
        """A configuration that was not proposed before; None when there is none."""

    def tell(self, config: Config, time_ms: float | None) -> None:
        """Its outcome: milliseconds, or None if it failed."""


Make = Callable[[RecordedSpace, list[Config], int], Strategy]
"""A strategy from the space, the configurations to try first, and the seed."""


def ours(space: RecordedSpace, first: list[Config], seed: int) -> Strategy:
    """What `tune` searches with."""
    return Proposer({space.name: space}, first, seed)


class _Asked:
    """What rivals share: configurations to try first, and those taken."""

    def __init__(self, space: RecordedSpace, first: list[Config], seed: int) -> None:
        self._space, self._first = space, list(first)
        self._taken: set[Config] = set()
        self._rng = np.random.default_rng(seed)

    def propose(self) -> Config | None:
        """The next of the first ones, then what the strategy chooses."""
        config = self._first.pop(0) if self._first else self._choose()
        if config is not None:
            self._taken.add(config)
        return config

    def _choose(self) -> Config | None:
        """Any configuration that is not taken."""
        untried = [config for config in self._space.sample(self._rng, 64) if config not in self._taken]
        origin = {axis.name: self._rng.uniform(0, len(axis.values) - 1) for axis in self._space.axes}
        return untried[0] if untried else self._space.snap(origin, self._taken)

    def tell(self, config: Config, time_ms: float | None) -> None:
        """Random search learns nothing."""


class _Optuna(_Asked):
    """An Optuna sampler over value indices, as it is: what is illegal is told as failed, what is repeated as it was."""

    def __init__(
        self, sampler: Callable[[int], BaseSampler], space: RecordedSpace, first: list[Config], seed: int
    ) -> None:
        super().__init__(space, first, seed)
        self._study = optuna.create_study(sampler=sampler(seed))
        self._distributions = distributions(space)
        self._asked: dict[Config, Trial] = {}
        self._told: dict[Config, float | None] = {}

    def _choose(self) -> Config | None:
        for _ in range(MOST_ASKS):
            trial = self._study.ask(self._distributions)
            config = self._config(trial)
            if config not in self._taken and self._space.contains(config):
                self._asked[config] = trial
                return config
            self._tell(trial, self._told.get(config))
        return super()._choose()

    def tell(self, config: Config, time_ms: float | None) -> None:
        """Told to the trial that asked for it, or as a trial of its own."""
        self._told[config] = time_ms
        trial = self._asked.pop(config, None)
        if trial is not None:
            self._tell(trial, time_ms)
        elif time_ms is not None:
            indices = self._space.indices(config)
            params = {name: indices[name] for name in self._distributions}
            self._study.add_trial(
                create_trial(params=params, distributions=self._distributions, value=math.log(time_ms))
            )

    def _tell(self, trial: Trial, time_ms: float | None) -> None:
        if time_ms is None:
            self._study.tell(trial, state=TrialState.FAIL)
        else:
            self._study.tell(trial, math.log(time_ms))

    def _config(self, trial: Trial) -> Config:
        values = {axis.name: axis.values[trial.params.get(axis.name, 0)] for axis in self._space.axes}
        return Config.of(self._space.name, values)


class _Snapped(_Optuna):
    """An Optuna sampler, each of its points moved to the nearest legal configuration that is free, and told there."""

    def _choose(self) -> Config | None:
        trial = self._study.ask(self._distributions)
        self._study.tell(trial, state=TrialState.FAIL)
        point = {axis.name: trial.params.get(axis.name, 0) for axis in self._space.axes}
        return self._space.snap(point, self._taken)


def _tpe(seed: int, *, multivariate: bool) -> BaseSampler:
    """Said which, as Optuna's default is not the same in every version."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return TPESampler(seed=seed, multivariate=multivariate)


def _cmaes(seed: int) -> BaseSampler:
    try:
        return CmaEsSampler(seed=seed)
    except ImportError:
        raise UserError("optuna-cmaes needs the package cmaes: pip install gemm-tuner[benchmark].") from None


SAMPLERS: Mapping[str, Make] = {
    "ours": ours,
    "tpe-snapped": partial(_Snapped, partial(_tpe, multivariate=False)),
    "optuna-tpe": partial(_Optuna, partial(_tpe, multivariate=False)),
    "optuna-tpe-multivariate": partial(_Optuna, partial(_tpe, multivariate=True)),
    "optuna-cmaes": partial(_Snapped, _cmaes),
    "optuna-nsgaii": partial(_Optuna, lambda seed: NSGAIISampler(seed=seed)),
    "optuna-random": partial(_Optuna, lambda seed: RandomSampler(seed=seed)),
    "random": _Asked,
}
"""By the name `replay --sampler` knows them by."""
NEEDS: Mapping[str, str] = {"optuna-cmaes": "cmaes"}
"""The package without which a sampler does not work, where that is none of ours."""
