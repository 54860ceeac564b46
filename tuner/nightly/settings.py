"""What an operator asks of a night, as values; `tuner.nightly.read` makes them from a TOML file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tuner.model import Problem

BEST, ALL = "best", "all"
"""Device selectors: the best device that works; every one that does."""


@dataclass(frozen=True)
class NightBudget:
    """How long a night may take, and one problem in it."""

    total_s: float = 8 * 3600.0
    """Wall-clock seconds from the start of the command to its summary."""
    problem_s: float = 600.0
    """Most seconds of search, race and certificate for one problem."""
    evaluations: int | None = None
    """Most evaluations for one problem; None: as many as its seconds allow."""


@dataclass(frozen=True)
class Retune:
    """When a problem that has a champion is searched again."""

    older_than_s: float = 30 * 86400.0
    """Age of a champion, in seconds since it was proven, at which it is due."""
    exhaust: bool = True
    """Go on searching while the space is not exhausted."""
    most_misses: int = 10
    """Problems that were asked for and never tuned, taken in beyond the lists."""


@dataclass(frozen=True)
class MachineLimits:
    """When the machine is not fit to be measured on."""

    wait_s: float = 600.0
    """How long another job, foreign load or a slow machine is waited for, before the device is skipped."""
    slow: float = 0.08
    """Beyond this much slower than its own history it is slow."""
    noisy: float = 0.10
    """Noise of its calibration beyond which it is noisy, unless that is its habit."""


@dataclass(frozen=True)
class Outputs:
    """Where the morning's words go, beside terminal and store."""

    json: Path | None = None
    markdown: Path | None = None
    html: Path | None = None
    """A folder or file for `gemm-tuner report`."""
    on_finish: str = ""
    """Command that gets the summary as JSON on standard input, after every night."""
    on_failure: str = ""
    """The same, only after a night that needs a person: a failure, or a regression."""


@dataclass(frozen=True)
class NightSettings:
    """One night, as its file describes it."""

    problems: tuple[Problem, ...]
    names: Mapping[Problem, str] = field(default_factory=dict)
    """What people call some of the problems: a model's layers."""
    database: str | None = None
    devices: tuple[str, ...] = (BEST,)
    families: tuple[str, ...] = ()
    family_dirs: tuple[Path, ...] = ()
    budget: NightBudget = NightBudget()
    retune: Retune = Retune()
    machine: MachineLimits = MachineLimits()
    threshold: float = 0.05
    """A champion this much slower than its own history is a regression, if that is beyond noise."""
    libraries: tuple[str, ...] | None = None
    """Libraries to race champions against; None: all that are here; empty: none."""
    cross_share: float = 0.05
    """Share of the budget that measures a few champions on every problem."""
    seed: int | None = None
    outputs: Outputs = Outputs()
