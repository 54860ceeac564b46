"""What the store remembers beside trials and champions: misses, nights, calibrations, regressions, peaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tuner.model import Champion, Config, Problem, Silicon, Software

LIBRARY_PREFIX = "lib:"
"""What the family of a library's records starts with: `lib:cublas`."""


@dataclass(frozen=True)
class Miss:
    """A question that had no exact, certified answer, and how often it was asked."""

    silicon: Silicon
    software: Software
    problem: Problem
    origin: str
    """Where the answer given last came from."""
    count: int
    first: str
    """UTC, ISO 8601, as is `last`."""
    last: str


class NightState(StrEnum):
    """How a night stands."""

    RUNNING = "running"
    COMPLETE = "complete"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    DIED = "died"
    """Never finished, and its process is gone: killed, or the machine was restarted."""


@dataclass(frozen=True)
class Night:
    """One run of the nightly job on one host; `plan`, `progress` and `summary` are what the job keeps there."""

    id: int
    name: str
    host: str
    started: str
    """UTC, ISO 8601."""
    finished: str | None
    state: NightState
    plan: Mapping[str, Any] = field(hash=False)
    progress: Mapping[str, Any] = field(hash=False)
    summary: Mapping[str, Any] | None = field(hash=False)


@dataclass(frozen=True)
class Calibration:
    """What the calibration kernel and the machine's sensors said at one moment."""

    instance: str
    silicon: Silicon
    software: Software
    night: int | None
    stage: str
    """When in the night: `start`, `between` or `end`, say."""
    reading: Mapping[str, float] = field(hash=False)
    """By name, the unit in the name: `kernel_ms`, `copy_gb_per_s`, `sm_clock_mhz`, `temperature_c`."""
    when: str


@dataclass(frozen=True)
class Regression:
    """The same configuration of the same problem is slower than its own history beyond noise."""

    id: int
    silicon: Silicon
    software: Software
    problem: Problem
    config: Config
    source_hash: str
    night: int | None
    """The night that found it."""
    before_ms: float
    now_ms: float
    noise: float
    """Half-width of the 95 % interval of now / before, as a fraction."""
    detail: str
    opened: str
    closed: str | None
    """None while it is open."""
    reason: str
    """Why it was closed; empty while it is open."""
    acknowledged: bool
    """A person closed it; it did not recover."""


@dataclass(frozen=True)
class Peak:
    """The most that a device on one software was measured to reach."""

    silicon: Silicon
    software: Software
    what: str
    """`gflops`, or `gb_per_s` for memory, whose dtype and math are empty."""
    dtype: str
    math: str
    value: float
    noise: float
    """Half-width of the 95 % interval, as a fraction of `value`."""
    method: str
    """How it was measured, in a few words."""
    when: str


@dataclass(frozen=True)
class Foreign:
    """A champion, a certificate or a portfolio entry of another machine, kept as it was read."""

    kind: str
    """`champion`, `certificate`, or `portfolio` for another tuner's configuration in our axes."""
    silicon: Silicon
    software: Software
    problem: Problem
    source_hash: str
    """Empty for a portfolio entry."""
    body: str
    """Everything that was read, as a JSON object, unknown fields too."""
    imported_from: str


@dataclass(frozen=True)
class Nominee:
    """A configuration that was good elsewhere: a candidate here, to be certified and raced before anything runs it."""

    champion: Champion
    """As its own machine published it; its certificate is that machine's and counts for nothing here."""
    imported_from: str
    pending: bool
    """Nothing was measured by us under its keys yet; never so for a portfolio entry, whose keys are another tuner's."""


@dataclass(frozen=True)
class TakenIn:
    """What an import added; whatever was there already counts for nothing."""

    trials: int = 0
    champions: int = 0
    certificates: int = 0
    portfolio_entries: int = 0
    misses: int = 0
