"""What came of every rung and library at one size."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tuner import timing
from tuner.model import Config, Problem, Verdict


@dataclass(frozen=True)
class Taken:
    """A rung, or a library, at one size."""

    name: str
    ms: Mapping[int, float] = field(default_factory=dict)
    """By round, milliseconds of one product; empty if it has no time."""
    verdict: Verdict | None = None
    """Of a rung that was run."""
    config: Config | None = None
    note: str = ""
    """Where a champion comes from; version and ways of a library."""
    message: str = ""
    """Why it has no time."""

    @property
    def time_ms(self) -> float | None:
        """Median over the rounds."""
        return statistics.median(self.ms.values()) if self.ms else None

    @property
    def noise(self) -> float | None:
        """Half-width of the 95 % interval of `time_ms`, as a fraction of it; None for fewer than two rounds."""
        return timing.summarise(tuple(self.ms.values())).noise if self.ms else None

    def speed_over(self, other: Taken) -> tuple[float, float, float] | None:
        """How many times as fast as `other`: the median over the rounds that both played, and its 95 % interval."""
        shared = sorted(self.ms.keys() & other.ms.keys())
        if not shared:
            return None
        ratios = np.sort(np.array([other.ms[number] / self.ms[number] for number in shared]))
        return float(np.median(ratios)), *timing.median_interval(ratios)


@dataclass(frozen=True)
class Level:
    """All rungs and libraries at one size."""

    problem: Problem
    rungs: tuple[Taken, ...]
    libraries: tuple[Taken, ...]

    def gflops(self, taken: Taken) -> float | None:
        """Its rate in GFLOP/s; None without a time."""
        return None if taken.time_ms is None else self.problem.gflops(taken.time_ms)

    def find(self, name: str) -> Taken | None:
        """The rung or library of this name."""
        return next((taken for taken in (*self.rungs, *self.libraries) if taken.name == name), None)
