"""The search judged without a device: driven by a recorded space, again and again, and compared with its optimum."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.model import Config, UserError
from tuner.search.promote import SHORTLIST, SHORTLIST_ROUNDS
from tuner.search.recorded import RecordedSpace
from tuner.search.rivals import SAMPLERS
from tuner.search.threads import undisturbed

Floats = NDArray[np.float64]

CHECKPOINTS = (25, 50, 100, 200)
"""Evaluations after which the best found is looked at."""
GOALS = (0.95, 0.99)
"""Fractions of the optimum that a search should reach early."""
RESAMPLES = 2000
PORTFOLIO_MOST = 8


@dataclass(frozen=True)
class Settings:
    """How a space is replayed."""

    evaluations: int = 200
    repeats: int = 20
    seed: int = 0
    ahead: int = 0
    """Proposals made beyond the one that is measured next."""
    noise: float = 0.0
    """Standard deviation of the logarithm of a measured time."""
    sampler: str = "ours"

    def __post_init__(self) -> None:
        if self.evaluations < 1 or self.repeats < 1 or self.ahead < 0:
            raise UserError("evaluations and repeats must be at least 1, proposals ahead at least 0.")
        if not 0.0 <= self.noise <= 1.0:
            raise UserError(f"noise is a fraction of the time, such as 0.03; it is {self.noise}.")
        if self.sampler not in SAMPLERS:
            raise UserError(f"there is no sampler {self.sampler!r}; there is: {', '.join(SAMPLERS)}.")


@dataclass(frozen=True)
class Replayed:
    """What came of it. `fractions[r, e]`: optimum ÷ what repeat r would publish after e + 1 evaluations, 0 for none."""

    fractions: Floats
    seconds: Floats
    """Processor time that proposing and learning took, for each repeat; it is one thread's."""

    def evaluations_to(self, goal: float) -> Floats:
        """For each repeat the evaluations after which it is at `goal` of the optimum; infinite if it never is."""
        reached = self.fractions >= goal
        return np.where(reached.any(axis=1), reached.argmax(axis=1) + 1.0, math.inf)

    def to_json(self) -> dict[str, Any]:
        """`fraction_of_optimum`, `evaluations_to_95`, `evaluations_to_99` and `seconds`, each with its interval."""
        at = [count for count in CHECKPOINTS if count <= self.fractions.shape[1]]
        fractions = {str(count): _described(self.fractions[:, count - 1], {"median": 0.5, "p10": 0.1}) for count in at}
        to_goals = {
            f"evaluations_to_{goal * 100:.0f}": _described(self.evaluations_to(goal), {"median": 0.5, "p90": 0.9})
            for goal in GOALS
        }
        seconds = _described(self.seconds, {"median": 0.5})
        return {
            "fraction_of_optimum": fractions,
            **to_goals,
            "seconds": seconds["median"],
            "seconds_interval": seconds["median_interval"],
        }


def replay(space: RecordedSpace, settings: Settings, portfolio: Sequence[Config] = ()) -> Replayed:
    """Search `space` as often as the settings say, each time with another seed."""
    with undisturbed():
        runs = [_run(space, settings, list(portfolio), settings.seed + repeat) for repeat in range(settings.repeats)]
    return Replayed(np.array([fractions for fractions, _ in runs]), np.array([seconds for _, seconds in runs]))


def portfolio_from(others: Sequence[RecordedSpace], space: RecordedSpace) -> list[Config]:
    """Up to eight configurations that exist here and were the best elsewhere, taken from the others in turns."""
    ranked = [
        [config for config in other.fastest(PORTFOLIO_MOST) if space.contains(Config(space.name, config.values))]
        for other in others
    ]
    turns = [ranking[place] for place in range(PORTFOLIO_MOST) for ranking in ranked if place < len(ranking)]
    return list(dict.fromkeys(Config(space.name, config.values) for config in turns))[:PORTFOLIO_MOST]


def misleading(space: RecordedSpace) -> list[Config]:
    """Eight configurations of median quality: a portfolio that is of no use here."""
    timed = space.fastest(space.size[0])
    middle = max(0, len(timed) // 2 - PORTFOLIO_MOST // 2)
    return timed[middle : middle + PORTFOLIO_MOST]


def _run(space: RecordedSpace, settings: Settings, first: list[Config], seed: int) -> tuple[Floats, float]:
    """The fraction after each evaluation, and the seconds the search took."""
    luck = np.random.default_rng([seed, 1])
    began = time.process_time()
    strategy = SAMPLERS[settings.sampler](space, first, seed)
    spent = time.process_time() - began
    publisher = _Publisher(space, settings.noise, luck)
    pending: deque[Config] = deque()
    fractions: list[float] = []
    while len(fractions) < settings.evaluations:
        began = time.process_time()
        while len(pending) < min(settings.ahead + 1, settings.evaluations - len(fractions)):
            config = strategy.propose()
            if config is None:
                break
            pending.append(config)
        spent += time.process_time() - began
        if not pending:
            break
        config = pending.popleft()
        true_ms = space.times[config]
        seen_ms = None if true_ms is None else true_ms * math.exp(luck.normal(0.0, settings.noise))
        began = time.process_time()
        strategy.tell(config, seen_ms)
        spent += time.process_time() - began
        fractions.append(publisher.after(config, seen_ms))
    last = fractions[-1] if fractions else 0.0
    return np.array(fractions + [last] * (settings.evaluations - len(fractions))), spent


class _Publisher:
    """What would be published: the best few of a search, measured again as the final race does, the fastest of them."""

    def __init__(self, space: RecordedSpace, noise: float, luck: np.random.Generator) -> None:
        self._space, self._luck = space, luck
        self._noise = noise / math.sqrt(SHORTLIST_ROUNDS)
        self._best: list[tuple[float, float, Config]] = []
        """(time in the search, time in the race, configuration), by the time in the search."""

    def after(self, config: Config, seen_ms: float | None) -> float:
        """One more evaluation; the optimum ÷ the true time of what would be published now."""
        true_ms = self._space.times[config]
        if seen_ms is not None and true_ms is not None:
            again = true_ms * math.exp(self._luck.normal(0.0, self._noise))
            self._best = sorted([*self._best, (seen_ms, again, config)], key=lambda entry: entry[0])[:SHORTLIST]
        if not self._best:
            return 0.0
        published = min(self._best, key=lambda entry: entry[1])[2]
        return self._space.best_ms / (self._space.times[published] or math.inf)


def _described(values: Floats, quantiles: dict[str, float]) -> dict[str, Any]:
    """Each quantile with its 95 % bootstrap interval; None for what was not reached."""
    luck = np.random.default_rng(0)
    drawn = values[luck.integers(len(values), size=(RESAMPLES, len(values)))]
    described: dict[str, Any] = {}
    for name, quantile in quantiles.items():
        resampled = np.quantile(drawn, quantile, axis=1, method="inverted_cdf")
        described[name] = _finite(np.quantile(values, quantile, method="inverted_cdf"))
        bounds = np.quantile(resampled, [0.025, 0.975], method="inverted_cdf")
        described[f"{name}_interval"] = [_finite(bound) for bound in bounds]
    return described


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
