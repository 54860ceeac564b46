"""What is due tonight on one device, why, what it is expected to bring, and how long it may take."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from tuner.model import Champion, Device, Problem, operand_shapes
from tuner.nightly.past import Past
from tuner.nightly.settings import NightSettings
from tuner.store import Miss, Regression

LEAST_S = 5.0
"""Less is not worth starting a search."""
UNKNOWN_GAIN = 0.6
"""Expected of a problem for which nothing near was ever tuned; users report 0.1 to 3.4 over defaults."""
NEAREST_GAIN, GAIN_A_DOUBLING = 0.1, 0.1
"""Expected over the champion of a problem so many doublings away, until regrets were measured here."""
RENEWED_GAIN = 0.1
"""Expected of another search after a change of driver; measured between two drivers of one CPU: 0.15 to 0.27."""
FIRST_GAIN, HALF_EVALUATIONS = 0.3, 25.0
"""Expected of going on after e evaluations: 0.3 / (1 + e / 25), which is 6 % after a hundred."""
WITHIN_DOUBLINGS = 0.75
FEWEST_REGRETS = 3


class Reason(StrEnum):
    """Why a problem is due, most pressing first."""

    DRIVER = "driver changed"
    NEVER = "never tuned"
    MISSED = "asked for in vain"
    DRIFTED = "drifted"
    OLD = "old"
    ONGOING = "not exhausted"


@dataclass(frozen=True)
class Due:
    """One line of the plan."""

    problem: Problem
    reason: Reason
    why: str
    gain: float
    """Expected share of time saved by searching."""
    asked: int = 1
    """How often it was asked for in vain, at least 1."""
    least_s: float = LEAST_S
    """With less its search would end before race and certificate, and publish nothing."""
    seconds: float = 0.0
    """Allotted for search, race and certificate; 0: not tonight."""

    @property
    def weight(self) -> float:
        """What a search is worth: asked × gain."""
        return self.asked * self.gain


@dataclass(frozen=True)
class Plan:
    """One device's night: what is confirmed, what is proven again, what is searched, and what is left alone."""

    renew: tuple[Problem, ...] = ()
    """Had a champion on other software: certified and raced before anything is searched."""
    confirm: tuple[Problem, ...] = ()
    """Have a champion on this software: measured again."""
    due: tuple[Due, ...] = ()
    """Worth most first."""
    exhausted: tuple[Problem, ...] = ()
    lacking: tuple[Problem, ...] = ()
    """The device has no such type, or too little memory."""


def make_plan(
    settings: NightSettings,
    device: Device,
    champions: Iterable[Champion],
    past: Past,
    misses: Sequence[Miss],
    regressions: Sequence[Regression],
    now: datetime,
) -> Plan:
    """What is due, worth most first; `allot` gives it time."""
    mine = [champion for champion in champions if champion.silicon == device.silicon]
    here = {champion.problem: champion for champion in mine if champion.software == device.software}
    before = {champion.problem for champion in mine if champion.software != device.software}
    asked = {miss.problem: miss.count for miss in misses if miss.silicon == device.silicon}
    problems = _problems(settings, asked, here)
    able = [problem for problem in problems if _can(device, problem)]
    drifted = {r.problem: r for r in regressions if (r.silicon, r.software) == (device.silicon, device.software)}
    line = _Line(settings, here, before, past, asked, drifted, now)
    lines = [found for problem in able if (found := line.of(problem)) is not None]
    lines.sort(key=lambda due: (-due.weight, due.problem.flop))  # small ones are cheap, and show what larger ones cost
    return Plan(
        renew=tuple(problem for problem in able if problem in before and problem not in here),
        confirm=tuple(problem for problem in able if problem in here),
        due=tuple(lines),
        exhausted=tuple(problem for problem in able if problem in here and past.exhausted(problem)),
        lacking=tuple(problem for problem in problems if problem not in able),
    )


def _can(device: Device, problem: Problem) -> bool:
    facts = device.facts
    sizes = [problem.batch * rows * columns * problem.element_bytes for rows, columns in operand_shapes(problem)]
    fits = sum(sizes) <= facts.global_mem_bytes and max(sizes) <= facts.max_alloc_bytes
    return fits and device.has(problem.dtype)


def _problems(settings: NightSettings, asked: Mapping[Problem, int], here: Mapping[Problem, Champion]) -> list[Problem]:
    wanted = [problem for problem in sorted(asked, key=lambda p: -asked[p]) if problem not in settings.problems]
    wanted = [problem for problem in wanted if problem not in here and not problem.is_empty and problem.k]
    return [*settings.problems, *wanted[: settings.retune.most_misses]]


@dataclass(frozen=True)
class _Line:
    settings: NightSettings
    here: Mapping[Problem, Champion]
    before: set[Problem]
    past: Past
    asked: Mapping[Problem, int]
    drifted: Mapping[Problem, Regression]
    now: datetime

    def of(self, problem: Problem) -> Due | None:
        """Why a problem is due; None if it is not."""
        asked = self.asked.get(problem, 0)
        if problem not in self.here:
            return self._without_champion(problem, asked)
        regression = self.drifted.get(problem)
        if regression is not None:
            slower = regression.now_ms / regression.before_ms - 1
            return Due(problem, Reason.DRIFTED, f"its champion became {slower:.0%} slower", slower, max(1, asked))
        if self.past.exhausted(problem):
            return None
        evaluated = self.past.evaluated(problem)
        gain = FIRST_GAIN / (1 + evaluated / HALF_EVALUATIONS)
        age = (self.now - self.past.searched(problem, self.here[problem].when)).total_seconds()
        if age > self.settings.retune.older_than_s:
            return Due(problem, Reason.OLD, f"last searched {age / 86400:.0f} days ago", gain, max(1, asked))
        if self.settings.retune.exhaust:
            return Due(problem, Reason.ONGOING, f"{evaluated} configurations measured so far", gain, max(1, asked))
        return None

    def _without_champion(self, problem: Problem, asked: int) -> Due:
        if problem in self.before:
            return Due(problem, Reason.DRIVER, "its champion is another driver's", RENEWED_GAIN, max(1, asked))
        near = self.past.nearest(problem, self.here)
        if near is None:
            gain, beside = UNKNOWN_GAIN, "nothing like it was tuned"
        else:
            gain, beside = self._regret(near[0]), f"the nearest tuned is {near[1]}"
        if asked:
            why = f"asked for {asked} times, {beside}"
            return Due(problem, Reason.MISSED, why, gain, asked)
        return Due(problem, Reason.NEVER, beside, gain)

    def _regret(self, distance: float) -> float:
        """Of taking a champion from so far, as measured here, or a guess."""
        alike = [regret for far, regret in self.past.regrets if abs(far - distance) <= WITHIN_DOUBLINGS]
        if len(alike) >= FEWEST_REGRETS:
            return max(0.01, sorted(alike)[len(alike) // 2])
        return min(UNKNOWN_GAIN, NEAREST_GAIN + GAIN_A_DOUBLING * distance)


def allot(due: Sequence[Due], seconds: float, most: float) -> list[Due]:
    """Share `seconds` out, at most `most` each, where they are expected to pay; who gets none has `seconds` 0.

    A search is taken to bring weight × (1 - exp(-t / T)), T being an equal share: of all divisions the best gives
    everybody T·log(weight / level), with one level for all (water-filling; Boyd and Vandenberghe, Convex Optimization,
    example 5.2). Nobody gets less than what lets a search publish something, unless `most` is less.
    """
    ranked = sorted(due, key=lambda one: (-one.weight, one.problem.flop))
    some: list[Due] = []
    none: list[Due] = []
    left = seconds
    for one in ranked:
        least = min(one.least_s, max(LEAST_S, most))
        (some if least <= left else none).append(one)
        left -= least if least <= left else 0.0
    if not some:
        return [_with(one, 0.0) for one in none]
    scale = max(LEAST_S, seconds / len(some))
    most = max(LEAST_S, min(most, seconds))
    low, high = -50.0, 50.0
    for _ in range(60):
        level = (low + high) / 2
        if sum(_share(one, level, scale, most) for one in some) > seconds:
            low = level
        else:
            high = level
    shares = [_share(one, high, scale, most) for one in some]
    return [*map(_with, some, shares), *(_with(one, 0.0) for one in none)]


def _share(due: Due, level: float, scale: float, most: float) -> float:
    return min(most, max(due.least_s, scale * (math.log(max(1e-6, due.weight)) - level)))


def _with(due: Due, seconds: float) -> Due:
    return replace(due, seconds=seconds)
