"""Our kernel beside the libraries: they take turns in rounds, and what counts is the ratio within each round."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from tuner import timing
from tuner.baselines.library import LibraryFailed
from tuner.bench.messages import ContenderFailed
from tuner.model import Built, Problem, Rendered, Verdict

ROUNDS = 11
SAMPLES = 3
"""Samples in a turn, of which the median counts."""
LONG_MS = 10.0
"""Of products this long one sample is enough: it lasts three of them."""
SECONDS_EACH = 20.0
"""A library that has spent this much sits out the rounds left: it is slow, and more of it would show nothing new."""
FEWEST_ROUNDS = 3
CLOCK_TRIES = 3
"""For a turn of ours whose time came out impossible, which the bench itself has then tried three times."""
REST_S = 0.1
"""Between turns on a CPU: threads of a finished product spin for some 30 ms, waiting for the next."""


class Bench(Protocol):
    """What times our kernel."""

    shares_cores: bool

    def rounds(
        self, problem: Problem, contenders: Sequence[tuple[Rendered, Built]], count: int
    ) -> list[tuple[float, ...]]:
        """Milliseconds per call, `count` times. Raises ContenderFailed."""


class Opponent(Protocol):
    """What times a library."""

    name: str
    version: str
    how: str
    absent: str

    def ask_prepare(self, problem: Problem) -> None:
        """Begin to load operands. Raises LibraryFailed."""

    def prepared(self) -> None:
        """Return when that is done and the result was right. Raises LibraryFailed."""

    def turn(self, count: int) -> tuple[float, ...]:
        """`count` samples in ms. Raises LibraryFailed."""


@dataclass(frozen=True)
class Standing:
    """How a library came off beside our kernel."""

    name: str
    version: str
    how: str
    absent: str = ""
    failed: str = ""
    """Why it has no time: it is not here, or it failed; at most one of the two."""
    pairs_ms: tuple[tuple[float, float], ...] = ()
    """(library's ms, ours) of each round."""

    @property
    def time_ms(self) -> float | None:
        """Median over the rounds."""
        return statistics.median(ms for ms, _ in self.pairs_ms) if self.pairs_ms else None

    @cached_property
    def _ratios(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.sort(np.array([library / ours for library, ours in self.pairs_ms]))

    @property
    def ratio(self) -> float | None:
        """Library's time / ours, median over the rounds: above 1 our kernel is faster."""
        return float(np.median(self._ratios)) if self.pairs_ms else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of `ratio`."""
        return timing.median_interval(self._ratios) if self.pairs_ms else None

    @property
    def noise(self) -> float | None:
        """Half-width of `interval`, as a fraction of `ratio`."""
        if self.ratio is None or self.interval is None:
            return None
        low, high = self.interval
        return (high - low) / 2 / self.ratio

    def to_json(self, problem: Problem) -> dict[str, Any]:
        """Plain values."""
        time_ms, (low, high) = self.time_ms, self.interval or (None, None)
        return {
            "name": self.name,
            "version": self.version or None,
            "how": self.how or None,
            "absent": self.absent or None,
            "failed": self.failed or None,
            "time_ms": time_ms,
            "gflops": None if time_ms is None else problem.gflops(time_ms),
            "ratio": self.ratio,
            "ratio_low": low,
            "ratio_high": high,
            "noise": self.noise,
            "pairs_ms": [list(pair) for pair in self.pairs_ms],
        }


@dataclass(frozen=True)
class Comparison:
    """One product by our kernel and by every library."""

    problem: Problem
    ours_ms: tuple[float, ...]
    """One time for each round."""
    libraries: tuple[Standing, ...]

    @property
    def time_ms(self) -> float:
        """Our median over the rounds."""
        return statistics.median(self.ours_ms)


def compare(
    problem: Problem,
    contender: tuple[Rendered, Built],
    bench: Bench,
    libraries: Sequence[Opponent],
    *,
    rounds: int = ROUNDS,
    seconds_each: float = SECONDS_EACH,
    sleep: Callable[[float], None] = time.sleep,
) -> Comparison:
    """Time `contender`, built and certified, and every library that is here, in `rounds` rounds.

    One clock for all: the slope of the host's time between N and 2N back-to-back calls. A library whose result is
    wrong, or that dies, has no time. Raises ContenderFailed if our own kernel fails.
    """
    failures = prepare_all(problem, libraries)
    race = _Race(problem, contender, bench, sleep)
    racing = [library for library in libraries if not library.absent and library.name not in failures]
    sides = [_Side(library) for library in racing]
    for number in range(rounds):
        race.round(sides, seconds_each, backwards=number % 2 == 1)
    failures |= {side.library.name: side.failed for side in sides if side.failed}
    pairs = {side.library.name: tuple(side.pairs_ms) for side in sides if not side.failed}
    standings = tuple(
        Standing(x.name, x.version, x.how, x.absent, failures.get(x.name, ""), pairs.get(x.name, ())) for x in libraries
    )
    return Comparison(problem, tuple(race.ours_ms), standings)


def prepare_all(problem: Problem, libraries: Sequence[Opponent]) -> dict[str, str]:
    """Load operands everywhere at once, since nothing is timed yet; why some failed, by name."""
    failures: dict[str, str] = {}
    present = [library for library in libraries if not library.absent]
    for step in ("ask", "wait"):
        for library in present:
            if library.name in failures:
                continue
            try:
                library.ask_prepare(problem) if step == "ask" else library.prepared()
            except LibraryFailed as failure:
                failures[library.name] = str(failure)
    return failures


class _Side:
    """One library in the race."""

    def __init__(self, library: Opponent) -> None:
        self.library = library
        self.failed = ""
        self.pairs_ms: list[tuple[float, float]] = []
        self.seconds = 0.0
        self.last_ms = math.inf

    def plays(self, seconds_each: float) -> bool:
        return not self.failed and (self.seconds < seconds_each or len(self.pairs_ms) < FEWEST_ROUNDS)

    def turn(self) -> float | None:
        """Median of its samples; None if it failed."""
        before = time.perf_counter()
        try:
            self.last_ms = statistics.median(self.library.turn(sample_count(self.last_ms)))
        except LibraryFailed as failure:
            self.failed = str(failure)
            return None
        self.seconds += time.perf_counter() - before
        return self.last_ms


class _Race:
    def __init__(
        self, problem: Problem, contender: tuple[Rendered, Built], bench: Bench, sleep: Callable[[float], None]
    ) -> None:
        self._problem, self._contender, self._bench = problem, contender, bench
        self._sleep = sleep
        self.ours_ms: list[float] = []

    def round(self, sides: Sequence[_Side], seconds_each: float, *, backwards: bool) -> None:
        """Everybody's turn, in order or backwards, so that nobody is always the one after a pause."""
        playing: list[_Side | None] = [None, *(side for side in sides if side.plays(seconds_each))]
        times: dict[_Side, float] = {}
        for side in reversed(playing) if backwards else playing:
            if self._bench.shares_cores:
                self._sleep(REST_S)
            if side is None:
                self._our_turn()
            elif (ms := side.turn()) is not None:
                times[side] = ms
        for side, ms in times.items():
            side.pairs_ms.append((ms, self.ours_ms[-1]))

    def _our_turn(self) -> None:
        count = sample_count(self.ours_ms[-1] if self.ours_ms else math.inf)
        for attempt in range(CLOCK_TRIES):
            try:
                drawn = self._bench.rounds(self._problem, [self._contender], count)
                break
            except ContenderFailed as failure:
                if failure.verdict is not Verdict.BAD_CLOCK or attempt == CLOCK_TRIES - 1:
                    raise
        self.ours_ms.append(statistics.median(ms for (ms,) in drawn))


def sample_count(last_ms: float) -> int:
    """One while nothing is known: it may be slow."""
    return 1 if last_ms > LONG_MS else SAMPLES
