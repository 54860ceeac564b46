"""Which configuration to try next, over all families: known-good ones first, then the family that deserves it."""

from __future__ import annotations

import math
import zlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tuner.model import Config, Measurement, Verdict
from tuner.search.space import Space
from tuner.search.study import FamilySearch

HISTORY_LIMIT = 400
"""Trials of a family that its search is refilled with at most: the model's time grows with their cube."""
TRIAL_SHARE = 8
"""Evaluations each family gets before families compete; one that is three times slower than the best gets a third."""
EXPLORE = 0.15
"""Share of the evaluations that goes to families other than the best, in proportion to how near they are to it."""


class Proposer:
    """Proposals for one problem on one device. Never an illegal configuration, and never one twice.

    `spaces` by family name; `first` are configurations to try before anything else (a portfolio, declared defaults).
    Deterministic for a seed, as long as results are told in the order of proposal.
    """

    def __init__(self, spaces: Mapping[str, Space], first: Iterable[Config], seed: int) -> None:
        self._families = {name: FamilySearch(name, space, _mix(seed, name)) for name, space in spaces.items()}
        self._rng = np.random.default_rng([seed, 0x9E3779B9])
        self._first = deque(config for config in first if config.family in self._families)

    def refill(self, history: Sequence[tuple[Config, Measurement]]) -> None:
        """Take in what is known of each configuration, oldest first."""
        for name, family in self._families.items():
            mine = [(config, measured) for config, measured in history if config.family == name]
            family.taken.update(config for config, _ in mine)
            for config, measured in _most_telling(mine):
                family.tell(config, measured.time_ms, measured.verdict)

    def propose(self) -> Config | None:
        """The next configuration to measure, or None when every space is exhausted."""
        while self._first:
            config = self._first.popleft()
            family = self._families[config.family]
            if config not in family.taken:
                return family.ask(config)
        while live := [family for family in self._families.values() if not family.exhausted]:
            proposal = self._choose(live).ask()
            if proposal is not None:
                return proposal
        return None

    def tell(self, config: Config, time_ms: float | None, verdict: Verdict | None = None) -> None:
        """The outcome of a proposal: its time in ms, or None if it has none, and then, where it is known, why."""
        self._families[config.family].tell(config, time_ms, verdict)

    def skip(self, config: Config) -> None:
        """Never propose this configuration."""
        self._families[config.family].skip(config)

    def _choose(self, live: list[FamilySearch]) -> FamilySearch:
        best = min(live, key=lambda family: family.best_ms)
        fresh = [family for family in live if len(family.taken) < TRIAL_SHARE * _nearness(best, family)]
        if fresh:
            return min(fresh, key=lambda family: len(family.taken))
        others = [family for family in live if family is not best and math.isfinite(family.best_ms)]
        if not others or self._rng.random() >= EXPLORE:
            return best
        nearness = np.array([_nearness(best, family) for family in others])
        # A family three times slower than the best gets what luck leaves it, not a share of the night.
        weights = nearness**4
        if self._rng.random() >= weights.max():
            return best
        return others[int(self._rng.choice(len(others), p=weights / weights.sum()))]


def _nearness(best: FamilySearch, family: FamilySearch) -> float:
    """How near a family has come to the best, up to 1: what has no time yet has everything before it."""
    return best.best_ms / family.best_ms if math.isfinite(family.best_ms) else 1.0


def _most_telling(history: list[tuple[Config, Measurement]]) -> list[tuple[Config, Measurement]]:
    if len(history) <= HISTORY_LIMIT:
        return history
    timed = [pair for pair in history if pair[1].time_ms is not None]
    timed.sort(key=lambda pair: pair[1].time_ms or math.inf)
    keep = {config for config, _ in timed[: HISTORY_LIMIT // 4]}
    recent = [pair for pair in history if pair[0] not in keep][-(HISTORY_LIMIT - len(keep)) :]
    return timed[: HISTORY_LIMIT // 4] + recent


def _mix(seed: int, name: str) -> int:
    return (seed * 1_000_003 + zlib.crc32(name.encode())) % 2**32
