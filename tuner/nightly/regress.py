"""Whether a champion became slower than its own history, beyond noise and with the machine taken out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from tuner import timing
from tuner.model import Measurement

LAST = 20
"""Nights of a history that count."""
FALSE_ALARMS = 0.005
"""Wanted in one night over all its problems together, if nothing has changed and noise is normal."""
SUSPICIOUS = 0.4
"""Share of the threshold at which a champion is measured again before anything is said."""
FEWEST_NIGHTS = 3
"""A shorter history shows no spread from night to night; then YOUNG_SPREAD is assumed."""
YOUNG_SPREAD = 0.05
"""Of a machine that nobody knows yet: beyond what most show, so that only a gross change is news at once."""
LEAST_SPREAD = 0.01
"""From one night to the next, by logarithm, until enough nights say otherwise: heat, clocks and addresses differ."""
ENOUGH_NIGHTS = 5
"""From so many on the history's own spread is believed, also where it is less."""
FLOOR = 0.005
"""No history is so steady that less than this would be news."""
UNKNOWN_NOISE = 0.05
"""Of a measurement with a single sample."""
RECOVERED = 0.5
"""Share of the threshold below which a regression is over."""


@dataclass(frozen=True)
class Point:
    """One night's measurement of a champion: the logarithm of its median in ms, and that median's standard error."""

    log_ms: float
    error: float


@dataclass(frozen=True)
class Comparison:
    """Tonight beside the history; factors are tonight's time / before's."""

    before_ms: float
    now_ms: float
    factor: float
    """With the machine taken out."""
    noise: float
    """Half-width of the 95 % interval of `factor`, as a fraction of it."""
    regressed: bool
    suspicious: bool
    """Slow enough to be looked at again before it is called a regression, or not."""
    nights: int
    """Of the history."""


def point_of(measurement: Measurement) -> Point | None:
    """A measurement as a point of a history; None without a time."""
    if measurement.time_ms is None:
        return None
    noise = timing.summarise(measurement.samples_ms).noise
    return Point(math.log(measurement.time_ms), (UNKNOWN_NOISE if noise is None else noise) / 1.96)


def compare(
    history: Sequence[Point], tonight: Sequence[Point], *, threshold: float, problems: int, drift: float = 0.0
) -> Comparison | None:
    """Compare `tonight`'s measurements of one champion with its `history`, a point a night, oldest first.

    None without a history. A regression is at least `threshold` (a fraction) slower and beyond what `problems`
    champions compared in one night would show by chance (Bonferroni). `drift` is the logarithm of how much slower the
    machine is.
    """
    if not history or not tonight:
        return None
    last = [point.log_ms for point in history[-LAST:]]
    centre, spread = statistics.median(last), _spread(history[-LAST:])
    between = _between(history[-LAST:], spread)
    now = one_night(tonight)
    # pi/2: the variance of a median beside that of a mean, for a normal distribution
    error = math.sqrt(now.error**2 + between**2 + spread**2 * math.pi / 2 / len(last))
    shift = now.log_ms - centre - drift
    beyond = NormalDist().inv_cdf(1 - FALSE_ALARMS / max(1, problems)) * error
    limit = math.log1p(threshold)
    return Comparison(
        before_ms=math.exp(centre),
        now_ms=math.exp(now.log_ms),
        factor=math.exp(shift),
        noise=1.96 * error,
        regressed=shift >= limit and shift > beyond,
        suspicious=shift >= SUSPICIOUS * limit,
        nights=len(history),
    )


def one_night(points: Sequence[Point]) -> Point:
    """Several measurements of one night as one point: what they share, heat and addresses, makes them one witness."""
    error = math.sqrt(sum(point.error**2 for point in points)) / len(points)
    return Point(statistics.fmean(point.log_ms for point in points), error)


def recovered(before_ms: float, tonight: Sequence[Point], *, threshold: float, drift: float = 0.0) -> bool:
    """Whether a champion is again about as fast as before its regression was opened."""
    if not tonight:
        return False
    shift = statistics.fmean(point.log_ms for point in tonight) - math.log(before_ms) - drift
    return shift < RECOVERED * math.log1p(threshold)


def _spread(history: Sequence[Point]) -> float:
    """Standard deviation of one night's value: robust over enough nights, of a few no less than a guess."""
    single = statistics.median(point.error for point in history)
    if len(history) < FEWEST_NIGHTS:
        return max(YOUNG_SPREAD, single)
    if len(history) < ENOUGH_NIGHTS:
        return max(LEAST_SPREAD, single, statistics.stdev(point.log_ms for point in history))
    centre = statistics.median(point.log_ms for point in history)
    # 1.4826: the standard deviation of a normal distribution over its median absolute deviation
    robust = 1.4826 * statistics.median(abs(point.log_ms - centre) for point in history)
    return max(FLOOR, robust, 0.7 * single)


def _between(history: Sequence[Point], spread: float) -> float:
    """The part of `spread` that tonight shares with no other night: without the noise of a measurement, known apart.

    Never less than half of it, for the noise is known no better than the spread.
    """
    if len(history) < ENOUGH_NIGHTS:
        return spread
    single = statistics.median(point.error for point in history)
    return max(FLOOR, spread / 2, math.sqrt(max(0.0, spread**2 - single**2)))
