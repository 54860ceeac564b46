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
HOPE = 3.0
"""What a family may still gain: with n evaluations its best is thought to be within 1 + HOPE / (n + 1) of its optimum.

On the recorded GEMM spaces the median of one random configuration is 2.5 times slower than the optimum, the best of
eight 1.3 times, and of twenty-five by a model 1.1 times."""
PATIENCE = 3
"""Evaluations of a family without any correct one, after which others that have one come first."""
EXPLORE = 0.1
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
        """The family that may reach the best time if all its hopes come true; each evaluation lessens its hopes.

        A family that is far behind after its default so costs no more than that, one that is near gets a few
        evaluations to show what it can do, and the one that deserves it gets nearly all. An upper confidence bound
        (Auer 2002), with what searches are known to gain in the place of a confidence interval.
        """
        chosen = min(live, key=_hoped_for_ms)
        others = [family for family in live if family is not chosen and math.isfinite(family.best_ms)]
        if not others or not math.isfinite(chosen.best_ms) or self._rng.random() >= EXPLORE:
            return chosen
        best_ms = min(family.best_ms for family in live)
        # A family three times slower than the best gets what luck leaves it, not a share of the night.
        weights = np.array([(best_ms / family.best_ms) ** 4 for family in others])
        if self._rng.random() >= weights.max():
            return chosen
        return others[int(self._rng.choice(len(others), p=weights / weights.sum()))]


def _hoped_for_ms(family: FamilySearch) -> tuple[float, int]:
    tried = len(family.taken)
    if math.isfinite(family.best_ms):
        return family.best_ms / (1.0 + HOPE / (tried + 1)), tried
    return (0.0 if tried < PATIENCE else math.inf), tried


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
