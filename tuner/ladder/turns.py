"""Rungs and libraries take turns in rounds, by one clock: the slope of the host's time."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence

from tuner.baselines.compare import CLOCK_TRIES, Opponent, sample_count
from tuner.baselines.library import LibraryFailed
from tuner.bench.messages import ContenderFailed
from tuner.ladder.ports import Bench
from tuner.model import Built, Problem, Rendered, Verdict

SECONDS_EACH = 2.0
"""Whoever has spent this much at one size sits out the rounds left: a product that long has little noise."""


class Side:
    """One that takes turns: `draw(count)` gives samples in ms, or raises the failure that ends its part."""

    def __init__(self, name: str, draw: Callable[[int], Sequence[float]]) -> None:
        """Nothing is drawn yet."""
        self.name = name
        self.ms: dict[int, float] = {}
        """By round, the median of its samples."""
        self.failed = ""
        self.verdict: Verdict | None = None
        """Of a rung that failed."""
        self._draw = draw
        self._seconds = 0.0
        self.last_ms = math.inf

    def plays(self, seconds_each: float) -> bool:
        """It has not failed, nor had its share."""
        return not self.failed and (not self.ms or self._seconds < seconds_each)

    def turn(self, number: int) -> None:
        """Its samples of round `number`."""
        before = time.perf_counter()
        try:
            self.last_ms = statistics.median(self._draw(sample_count(self.last_ms)))
        except ContenderFailed as failure:
            self.failed, self.verdict = failure.message or failure.verdict.meaning, failure.verdict
        except LibraryFailed as failure:
            self.failed = str(failure)
        else:
            self.ms[number] = self.last_ms
        self._seconds += time.perf_counter() - before


def rung_side(name: str, problem: Problem, contender: tuple[Rendered, Built], bench: Bench) -> Side:
    """A rung, already verified."""

    def draw(count: int) -> list[float]:
        for _ in range(CLOCK_TRIES - 1):
            try:
                return [ms for (ms,) in bench.rounds(problem, [contender], count)]
            except ContenderFailed as failure:
                if failure.verdict is not Verdict.BAD_CLOCK:
                    raise
        return [ms for (ms,) in bench.rounds(problem, [contender], count)]

    return Side(name, draw)


def library_side(library: Opponent) -> Side:
    """A library whose operands are loaded and whose result was right."""
    return Side(library.name, library.turn)


def take_turns(sides: Sequence[Side], rounds: int, rest: Callable[[], None], seconds_each: float) -> None:
    """`rounds` rounds, every other one backwards, so that nobody is always the one after a pause; `rest` in between."""
    for number in range(rounds):
        playing = [side for side in sides if side.plays(seconds_each)]
        for side in reversed(playing) if number % 2 else playing:
            rest()
            side.turn(number)
