"""The search of one family: an Optuna study in memory over one space, refilled from history."""

from __future__ import annotations

import math

import optuna
from optuna.trial import Trial, TrialState, create_trial

from tuner.model import Config, Verdict
from tuner.search.sampler import NOTED, Exhausted, ModelSampler, distributions
from tuner.search.space import Space

SAYS_NOTHING = frozenset({Verdict.BAD_CLOCK, Verdict.UNSUPPORTED})
"""Verdicts that speak of the clock or of the device, not of the configuration."""
NOTEWORTHY = SAYS_NOTHING | {Verdict.TIMED_OUT}
"""Verdicts that the sampler is told; all others without a time are failures alike."""


class FamilySearch:
    """Asks the sampler, tells it what came of it. `taken` are configurations that are never proposed (again)."""

    def __init__(self, name: str, space: Space, seed: int) -> None:
        self.name = name
        self.space = space
        self.taken: set[Config] = set()
        self.best_ms = math.inf
        self.exhausted = False
        self._distributions = distributions(space)
        self._study = optuna.create_study(sampler=ModelSampler(name, space, self.taken, seed))
        self._asked: dict[Config, Trial] = {}

    def ask(self, config: Config | None = None) -> Config | None:
        """`config`, else what the sampler chooses, now taken and awaited; None when the space is exhausted."""
        if config is not None:
            self._study.enqueue_trial(self._params(config))
        elif self.exhausted:
            return None
        try:
            trial = self._study.ask(self._distributions)
        except Exhausted:
            self.exhausted = True
            return None
        chosen = Config.of(
            self.name, {axis.name: axis.values[trial.params.get(axis.name, 0)] for axis in self.space.axes}
        )
        if chosen in self.taken:  # a family without any choice, for which Optuna asks no sampler
            self.exhausted = True
            return None
        self.taken.add(chosen)
        self._asked[chosen] = trial
        return chosen

    def tell(self, config: Config, time_ms: float | None, verdict: Verdict | None = None) -> None:
        """The outcome of a configuration, asked for or from history; a failure is told as one, without any value.

        What did not finish in time is told as slow; a verdict that says nothing of the configuration teaches nothing.
        """
        self.taken.add(config)
        if time_ms is not None:
            self.best_ms = min(self.best_ms, time_ms)
        state = TrialState.COMPLETE if time_ms is not None else TrialState.FAIL
        if verdict in SAYS_NOTHING:
            state = TrialState.PRUNED
        value = None if time_ms is None else math.log(time_ms)
        attributes = {NOTED: verdict.value} if verdict in NOTEWORTHY else {}
        trial = self._asked.pop(config, None)
        if trial is not None:
            for name, noted in attributes.items():
                trial.set_user_attr(name, noted)
            self._study.tell(trial, value, state=state)
        else:
            params = self._params(config)
            self._study.add_trial(
                create_trial(
                    state=state,
                    value=value,
                    params=params,
                    distributions=self._distributions,
                    user_attrs=attributes,
                )
            )

    def skip(self, config: Config) -> None:
        """Never propose this configuration, nor wait for its outcome, nor learn anything from it."""
        self.taken.add(config)
        trial = self._asked.pop(config, None)
        if trial is not None:
            self._study.tell(trial, state=TrialState.PRUNED)

    def _params(self, config: Config) -> dict[str, int]:
        indices = self.space.indices(config)
        return {name: indices[name] for name in self._distributions}
