"""What a bench and its measuring process say to each other; every value is plain and picklable."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from tuner.model import Measurement, Problem, Rendered, Verdict

PLAIN = ("plain",)


@dataclass(frozen=True)
class Case:
    """One case of a certificate: a configuration, rendered for `problem`, called in each of `kinds`."""

    problem: Problem
    rendered: Rendered
    kinds: tuple[str, ...] = PLAIN
    """Kinds of alpha and beta, by their names in `tuner.verify.KINDS`, or `drawn SEED`, on floats alone."""
    fresh: bool = False
    """Also build from source in the measuring process, and compare with the build from the binary bit for bit."""
    repeats: int = 1
    """Runs on the float operands that must agree bit for bit."""


@dataclass(frozen=True)
class CheckOutcome:
    """What came of a certificate: `correct`, or the first failure."""

    verdict: Verdict
    checks: tuple[str, ...]
    """The checks passed, in words."""
    message: str = ""


class OutOfTime(Exception):
    """The caller's time was over before the work was done; nothing is known of what was left."""


class ContenderFailed(Exception):
    """A contender of a race could not go on; the others are well."""

    def __init__(self, index: int, verdict: Verdict, message: str) -> None:
        super().__init__(f"contender {index}: {verdict}: {message}")
        self.index = index
        self.verdict = verdict
        self.message = message


@dataclass(frozen=True)
class Trial:
    """Request: verify a candidate, then time it; answered by a `Measurement`."""

    problem: Problem
    rendered: Rendered
    binary: bytes | None
    best_ms: float | None
    launch_s: float
    """Deadline of one launch, in seconds."""
    peak_gflops: float | None


@dataclass(frozen=True)
class CaseRun:
    """Request: one case of a certificate; answered by a `CheckOutcome`."""

    case: Case
    binary: bytes | None
    launch_s: float


@dataclass(frozen=True)
class Race:
    """Request: `count` rounds over all contenders, interleaved; answered by `Rounds`."""

    problem: Problem
    contenders: tuple[tuple[Rendered, bytes | None], ...]
    count: int
    launch_s: float


@dataclass(frozen=True)
class Rounds:
    """Milliseconds per call, one tuple per round, one number per contender; or who failed."""

    ms: tuple[tuple[float, ...], ...]
    failed: int | None = None
    verdict: Verdict = Verdict.CORRECT
    message: str = ""


@dataclass(frozen=True)
class Probe:
    """Request: how fast the device is at this moment, by work that never changes; answered by a `Pulse`."""

    samples: int
    peaks: tuple[str, ...] = ()
    """Types whose peak rate is measured as well."""


@dataclass(frozen=True)
class Pulse:
    """How fast a device was: a fixed kernel, compiled by its driver, and copies, which no compiler touches."""

    kernel_ms: tuple[float, ...] = ()
    copy_ms: tuple[float, ...] = ()
    copy_bytes: int = 0
    """Read and written by one copy, together."""
    peaks: tuple[tuple[str, tuple[float, ...]], ...] = ()
    """For each type asked for: GFLOP/s of multiply-adds alone in several repeats; none where the type is lacking."""
    message: str = ""
    """Why samples are missing."""

    @property
    def bandwidth_gbs(self) -> float | None:
        """Median rate of the copies in GB/s, what is read and what is written counted."""
        return self.copy_bytes / statistics.median(self.copy_ms) / 1e6 if self.copy_ms else None


Request = Trial | CaseRun | Race | Probe
Answer = Measurement | CheckOutcome | Rounds | Pulse


@dataclass(frozen=True)
class Hello:
    """The measuring process has opened its device and takes requests."""


@dataclass(frozen=True)
class Gone:
    """The device can't be opened, in a sentence for people."""

    message: str


@dataclass(frozen=True)
class Stage:
    """The measuring process begins something that takes at most `seconds`; silence beyond that ends it."""

    name: str
    seconds: float
    contender: int = 0


@dataclass(frozen=True)
class Ask:
    """The measuring process waits for leave to go on with `name` ("launch" or "time")."""

    name: str


@dataclass(frozen=True)
class Done:
    """The answer; a `poisoned` process ends after giving it."""

    answer: Answer
    poisoned: bool = False


@dataclass(frozen=True)
class Mistake:
    """An exception that no kernel or driver explains, as a traceback: a mistake of ours, which ends the run."""

    traceback: str


Reply = Hello | Gone | Stage | Ask | Done | Mistake
