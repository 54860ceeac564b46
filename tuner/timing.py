"""Honest numbers from raw samples: median and noise, when to stop sampling, and races between two configurations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

LONGEST_NS = 24 * 3600 * 10**9
"""No launch of ours lasts a day; a longer duration is a counter that wrapped or was never set."""

PEAK_MARGIN = 1.2
"""A rate above this multiple of the measured peak is the clock's mistake."""

STEADY = 0.01
"""Noise at which a configuration has been sampled enough."""

FEWEST_SAMPLES = 5
MOST_SAMPLES = 30
LONGEST_SAMPLING_MS = 2000.0

HOPELESS = {2: 2.0, 3: 1.5, 4: 1.3}
"""By count of samples: if even the fastest is slower than this multiple of the best time, sampling ends."""

HOPELESS_LATER = 1.2


class ClockError(Exception):
    """The clock gave an impossible time; the measurement becomes `bad_clock`."""


@dataclass(frozen=True)
class Summary:
    """Raw samples in two numbers."""

    median_ms: float
    noise: float | None
    """Half-width of the 95 % interval of the median, as a fraction of it; None for a single sample."""


def summarise(samples_ms: Sequence[float]) -> Summary:
    """Median and noise. Under five samples no interval reaches 95 %, so noise is their whole range instead of half.

    Raises ValueError on no samples, or one that is zero, negative, infinite or NaN.
    """
    samples = np.sort(_checked(samples_ms))
    median = float(np.median(samples))
    if samples.size == 1:
        return Summary(median, None)
    low, high = median_interval(samples)
    return Summary(median, (high - low) / median / (2 if samples.size >= FEWEST_SAMPLES else 1))


def enough(samples_ms: Sequence[float], best_ms: float | None) -> bool:
    """Whether to stop sampling: noise is small, the configuration cannot beat `best_ms`, or it has had its share.

    Raises ValueError as `summarise`.
    """
    samples = np.sort(_checked(samples_ms))
    count = samples.size
    if best_ms is not None and count >= 2 and samples[0] > best_ms * HOPELESS.get(count, HOPELESS_LATER):
        return True
    if count >= MOST_SAMPLES or (count >= 2 and float(samples.sum()) >= LONGEST_SAMPLING_MS):
        return True
    if count < FEWEST_SAMPLES:
        return False
    noise = summarise(samples_ms).noise
    return noise is not None and noise <= STEADY


def median_interval(ordered: NDArray[np.float64], confidence: float = 0.95) -> tuple[float, float]:
    """Percentile interval that infinitely many bootstrap resamples would give the median of `ordered` (ascending).

    For the median no resampling is needed: B. Efron, "Bootstrap methods: another look at the jackknife", Ann. Statist.
    7 (1979), section 3. For even counts the lower end is that of the lower median, the upper end that of the upper.
    """
    rank = _bootstrap_rank(ordered.size, confidence)
    return float(ordered[rank - 1]), float(ordered[-rank])


@lru_cache(maxsize=4096)
def _bootstrap_rank(count: int, confidence: float) -> int:
    """Smallest i with P(median of a resample <= i-th smallest sample) >= (1 - confidence) / 2."""
    half = (count + 1) // 2
    for i in range(1, count + 1):
        p = i / count
        at_most = sum(math.comb(count, j) * p**j * (1 - p) ** (count - j) for j in range(half, count + 1))
        if at_most >= (1 - confidence) / 2:
            return i
    raise AssertionError("the last probability is 1")


def event_ms(start_ns: int, end_ns: int) -> float:
    """Milliseconds between two device time stamps. Raises ClockError unless 0 < duration < one day."""
    duration = int(end_ns) - int(start_ns)
    if not 0 < duration < LONGEST_NS:
        raise ClockError(f"the device's clock says the kernels took {duration} ns (from {start_ns} to {end_ns})")
    return duration / 1e6


MOST_HELD_LAUNCHES = 400
"""Kernels queued while a device is kept busy; NVIDIA's driver 580 queues about a thousand before the host waits."""


def slope_ms(time_n_ms: float, time_2n_ms: float, n: int) -> float:
    """Milliseconds per call from the host's times of n and of 2n back-to-back calls, so that fixed costs cancel.

    Raises ClockError if the second is not longer than the first, or either is not a positive number.
    """
    slope = (time_2n_ms - time_n_ms) / n
    if not (0 < time_n_ms < math.inf and 0 < slope < math.inf):
        raise ClockError(f"{n} calls took {time_n_ms} ms and {2 * n} calls {time_2n_ms} ms")
    return slope


def impossible(time_ms: float, flop: int, peak_gflops: float | None) -> bool:
    """Whether the rate exceeds 1.2 times the measured peak (never, if no peak was measured)."""
    return peak_gflops is not None and not flop / time_ms / 1e6 <= PEAK_MARGIN * peak_gflops


MIN_GAIN = 0.01
"""The champion changes only if the nominee is faster by more than this, with certainty."""

FIRST_LOOK = 10
MAX_ROUNDS = 200
"""Rounds a race is planned for: enough to prove 4 % under 5 % noise; a clear race ends at the first look."""

LOOK_GROWTH = 1.5
"""Each look at the race comes after so many times the rounds of the look before."""

DRAW_AT_ONCE = 8
"""Rounds asked for at a time, so that a deadline is noticed soon."""

EARLY_CONFIDENCE = 0.9995
FINAL_CONFIDENCE = 0.99
FINAL_ROUNDS = 50
"""With fewer rounds even the last look demands EARLY_CONFIDENCE: intervals of few samples are too narrow.

Each look is another chance to be wrong, so all demand more than the 95 % that is reported. Simulated, 10^4 races
each, in at most 200 rounds: equal configurations are promoted in 0.03 % under 5 % noise and 0.3 % under 20 %, a nominee
4 % faster under 5 % noise in 97 %; with 100 rounds in 77 %."""

FUTILE_ROUNDS = 20
"""With fewer rounds the interval is too coarse to say what the rest of the race could bring."""


@dataclass(frozen=True)
class RaceResult:
    """How a race went; every gain is champion's time / nominee's time - 1."""

    gain: float
    """Median over the rounds."""
    low: float
    high: float
    """The 95 % interval of `gain`."""
    rounds: int
    promote: bool
    reason: str
    samples: tuple[tuple[float, float], ...]
    """(champion's ms, nominee's ms) of each round."""

    @property
    def noise(self) -> float:
        """Half-width of the 95 % interval of the median ratio."""
        return (self.high - self.low) / 2


def race(
    draw: Callable[[int], Sequence[tuple[float, ...]]],
    *,
    max_rounds: int = MAX_ROUNDS,
    deadline: Callable[[], bool] | None = None,
) -> RaceResult:
    """Race the nominee against the champion in interleaved rounds, and end it as soon as the outcome is clear.

    `draw(count)` runs `count` rounds and returns (champion's ms, nominee's ms) for each; `deadline()` says that time is
    up. The nominee is promoted only if the interval of the median ratio lies above 1 + MIN_GAIN. Only the order of the
    ratios counts, so outliers cost rounds, not verdicts. Raises ValueError if max_rounds < FIRST_LOOK, if a sample is
    not a positive number, or if `draw` returns another count of rounds than asked for.
    """
    if max_rounds < FIRST_LOOK:
        raise ValueError(f"a race needs {FIRST_LOOK} rounds at least, not {max_rounds}")
    samples: list[tuple[float, float]] = []
    for look in _looks(max_rounds):
        late = False
        while len(samples) < look and not late:
            samples += _drawn(draw, min(DRAW_AT_ONCE, look - len(samples)))
            late = deadline is not None and deadline()
        result = decide(samples, max_rounds=len(samples) if late else max_rounds)
        if result is not None:
            return result
    raise AssertionError("the last look decides")


def decide(samples: Sequence[tuple[float, float]], *, max_rounds: int) -> RaceResult | None:
    """The outcome of a race after these rounds, or None if further rounds, up to `max_rounds`, may change it."""
    rounds = len(samples)
    ratios = np.sort(np.divide(*_checked(samples).T))
    median = float(np.median(ratios))
    low, high = median_interval(ratios)
    last = rounds >= max_rounds
    confidence = FINAL_CONFIDENCE if last and rounds >= FINAL_ROUNDS else EARLY_CONFIDENCE
    surely = median_interval(ratios, confidence)[0]
    threshold = 1 + MIN_GAIN
    promote = rounds >= FIRST_LOOK and surely > threshold
    if promote:
        reason = f"faster by more than {MIN_GAIN:.0%}"
    elif rounds >= FIRST_LOOK and high < threshold:
        reason = f"not faster by {MIN_GAIN:.0%}"
    elif last:
        reason = f"not proven faster by {MIN_GAIN:.0%} in {rounds} rounds"
    elif rounds >= FUTILE_ROUNDS and _best_end(median, low, high, rounds / max_rounds) < threshold:
        reason = f"further rounds could not prove it faster by {MIN_GAIN:.0%}"
    else:
        return None
    return RaceResult(median - 1, low - 1, high - 1, rounds, promote, reason, tuple(samples))


def _best_end(median: float, low: float, high: float, share: float) -> float:
    """Lower end of the interval after all rounds, if the rest came out at the upper end of what is likely now."""
    return share * median + (1 - share) * high - (high - low) / 2 * math.sqrt(share)


def _looks(max_rounds: int) -> list[int]:
    looks, look = [], float(FIRST_LOOK)
    while look < max_rounds:
        looks.append(int(look))
        look *= LOOK_GROWTH
    return [*looks, max_rounds]


def _drawn(draw: Callable[[int], Sequence[tuple[float, ...]]], count: int) -> list[tuple[float, float]]:
    rounds = [(float(champion), float(nominee)) for champion, nominee in draw(count)]
    if len(rounds) != count:
        raise ValueError(f"{count} rounds were asked for, {len(rounds)} came")
    return rounds


def _checked(samples: Sequence[float] | Sequence[tuple[float, float]]) -> NDArray[np.float64]:
    """The samples as an array; a wrong one is refused, never dropped."""
    array = np.asarray(samples, dtype=np.float64)
    if array.size == 0:
        raise ValueError("there are no samples")
    if not ((array > 0) & (array < math.inf)).all():
        raise ValueError(f"samples must be positive numbers of milliseconds: {list(samples)[:20]}")
    return array
