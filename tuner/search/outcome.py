"""What a tuning run may use, what it reports while it goes on, and what it found."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tuner import timing
from tuner.model import Config, Problem, Record

RESERVE_SHARE = 0.3
"""Part of a time budget that is kept for the race and the certificate."""
RESERVE_MOST_S = 60.0
CERTIFY_SHARE = 0.7
"""Part of it that is kept where the certificate is known to take so much: a search that publishes nothing is lost."""
CERTIFY_MARGIN = 1.25
"""Of what is expected of it: the shortlist is measured again, and the winner confirmed, in the same time."""


@dataclass(frozen=True)
class Budget:
    """Limits of one run: evaluations, seconds, or both; None is no limit."""

    evaluations: int | None = None
    seconds: float | None = None


class Clock:
    """The run's time: when searching must stop, and when everything must."""

    def __init__(self, budget: Budget, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._start = now()
        self._seconds = math.inf if budget.seconds is None else budget.seconds
        self.certificate_s = 0.0
        """What the certificate is expected to take; 0 as long as nobody knows."""

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return self._now() - self._start

    @property
    def left(self) -> float:
        """Seconds until everything must have ended."""
        return self._seconds - self.elapsed

    @property
    def timeout(self) -> float | None:
        """Seconds left as a timeout: None for no limit, never negative."""
        return None if math.isinf(self.left) else max(0.0, self.left)

    @property
    def left_to_search(self) -> float:
        """Seconds until the search must stop, so that race and certificate fit in."""
        if math.isinf(self._seconds):
            return math.inf
        needed = min(CERTIFY_SHARE * self._seconds, CERTIFY_MARGIN * self.certificate_s)
        return self.left - max(needed, min(RESERVE_SHARE * self._seconds, RESERVE_MOST_S))

    def spare(self, share: float) -> float:
        """At most `share` of the seconds left, and no more of the certificate's than a quarter of that share."""
        return min(share * self.left, max(share / 4 * self.left, self.left - self.certificate_s))


@dataclass(frozen=True)
class Progress:
    """Where a run stands; sent to the observer after every evaluation, at every change of stage, and when the race or
    the certificate refuses what a trial had accepted."""

    stage: str
    """`search`, `race` or `certify`."""
    evaluated: int
    evaluations: int | None
    seconds: float
    seconds_limit: float | None
    verdicts: Counter[str]
    best: Record | None
    latest: Record | None


@dataclass(frozen=True)
class Race:
    """Rounds in which configurations took turns; kept whole, so that a report can show every sample of a decision."""

    contenders: tuple[Config, ...]
    """The champion first, where it took part as such."""
    rounds_ms: tuple[tuple[float, ...], ...]
    """ms per call by the host's clock: for each round one of each contender."""
    decided: dict[str, Any] | None = None
    """`gain`, `low`, `high` (95 % interval), `promote`, `reason` of champion against nominee; None for a ranking."""

    def to_json(self) -> dict[str, Any]:
        """Plain values for the run's summary."""
        return {
            "contenders": [{"family": config.family, "config": config.as_dict()} for config in self.contenders],
            "rounds_ms": [list(times) for times in self.rounds_ms],
            "decided": self.decided,
        }


@dataclass(frozen=True)
class Promotion:
    """How the run ended for the champion."""

    promoted: bool
    reason: str
    config: Config | None = None
    gain: float | None = None
    """Speed-up over the champion before, as measured in the race; None without a race."""


@dataclass(frozen=True)
class Outcome:
    """What a run found. `to_json` is the object `tune --json` prints."""

    problem: Problem
    evaluated: int
    space_size: int
    space_exact: bool
    verdicts: Counter[str]
    """How many evaluated configurations got each; of what the race or the certificate refused, their verdict counts."""
    best: Record | None
    promotion: Promotion
    where_time_went: dict[str, float]
    """Seconds by stage: propose, wait for builds, measure (of which verify), race, certify, other."""
    seconds: float
    stopped_by: str
    """`evaluations`, `seconds`, `exhausted` or `interrupted`."""


def best_json(problem: Problem, record: Record | None) -> dict[str, Any] | None:
    """The `best` object of `tune --json`."""
    if record is None or record.measurement.time_ms is None:
        return None
    time_ms = record.measurement.time_ms
    noise = timing.summarise(record.measurement.samples_ms).noise
    return {
        "family": record.config.family,
        "config": record.config.as_dict(),
        "time_ms": time_ms,
        "gflops": problem.gflops(time_ms),
        "noise": noise,
    }
