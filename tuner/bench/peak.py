"""The peak rate of a device, and when it may be believed: a false one would throw the best configuration away."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

STEADY = 0.05
"""Repeats of multiply-adds that differ by more were disturbed."""
BEST_MARGIN = 1.05
"""A configuration this much faster than multiply-adds alone shows that those were measured in a bad moment."""


@dataclass(frozen=True)
class PeakRate:
    """The most a device was seen to reach with one type."""

    gflops: float
    noise: float
    """Range of the repeats, as a fraction of the highest."""
    method: str
    trusted: bool
    """It was measured well enough to call a rate far above it a mistake of the clock."""


def judge_peak(repeats: Sequence[float], best_seen: float | None, *, quiet: bool) -> PeakRate | None:
    """The peak from repeats of multiply-adds and the best rate of any configuration so far, both in GFLOP/s.

    Trusted only if the machine was `quiet`, the repeats agree and no configuration was faster. None: nothing known.
    """
    measured = max(repeats, default=0.0)
    best = best_seen or 0.0
    if measured <= 0 and best <= 0:
        return None
    noise = (measured - statistics.median(repeats)) / measured if measured > 0 else 1.0
    trusted = quiet and len(repeats) >= 3 and noise <= STEADY and best <= measured * BEST_MARGIN
    if best > measured:
        return PeakRate(best, noise, "the best configuration so far", trusted)
    return PeakRate(measured, noise, "multiply-adds alone", trusted)
