"""What the tuning loop asks of its collaborators: the bench that measures, the store that remembers, the families."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from tuner.bench.messages import Case, CheckOutcome
from tuner.model import (
    Built,
    Certificate,
    Champion,
    CompilerInfo,
    Config,
    Device,
    Measurement,
    Problem,
    Record,
    Rendered,
    Silicon,
    Software,
)
from tuner.search.space import Space
from tuner.store import Event, Nominee, Settled


class Family(Protocol):
    """What the loop needs of a `tuner.family.Family`."""

    name: str

    @property
    def hash(self) -> str:
        """Of its files: while it is the same, so is whatever they render."""

    defaults: tuple[Config, ...]
    """The declared defaults, in order; not all need be legal everywhere."""

    def rank(self, problem: Problem, device: Device) -> int:
        """How promising it is before anything was measured; higher is better."""

    def complete(self, values: Mapping[str, Any]) -> Config:
        """The configuration with these values, axes added since filled in; raises UserError for what it lacks."""

    def broken_rule(self, config: Config, problem: Problem, device: Device) -> str | None:
        """The sentence of the first rule the configuration breaks; None when it is legal."""

    def refused_build(self, said: CompilerInfo) -> str | None:
        """Why a build is not worth running, by what its compiler said; None if it is."""

    def render(self, config: Config, problem: Problem, device: Device) -> Rendered:
        """Its source, build options and launches."""

    def space(self, problem: Problem, device: Device) -> Space:
        """Every legal configuration."""


class Bench(Protocol):
    """Measures on one device. No candidate can harm the caller: death and deadline come back as verdicts."""

    device: Device
    shares_cores: bool
    compilers: int
    """How many builds run at once."""

    def build(self, rendered: Rendered) -> Future[Built]:
        """Compile ahead; the future's value carries a verdict, and is cancelled by `cancel_builds`."""

    def cancel_builds(self) -> None:
        """Drop every build."""

    def measure(
        self,
        problem: Problem,
        rendered: Rendered,
        built: Built,
        *,
        best_ms: float | None,
        on_stage: Callable[[str], None] | None = None,
        meanwhile: Callable[[], None] = lambda: None,
        fresh: bool = False,
    ) -> Measurement:
        """Verify, then time; `on_stage` is called right before the first launch, `fresh` is in a new process.

        `meanwhile` is called while the candidate is being loaded, at each attempt: for what need not keep the device
        waiting.
        """

    def check(self, cases: Sequence[Case], *, seconds_left: Callable[[], float]) -> CheckOutcome:
        """Run a certificate's cases; stops at the first failure, and raises `tuner.bench.OutOfTime`."""

    def rounds(
        self, problem: Problem, contenders: Sequence[tuple[Rendered, Built]], count: int
    ) -> list[tuple[float, ...]]:
        """ms per call by the host's clock, one tuple per round; raises `tuner.bench.ContenderFailed`."""


class Store(Protocol):
    """Remembers. Each verb is one transaction."""

    def start_run(self, silicon: Silicon, software: Software, problem: Problem, settings: dict[str, Any]) -> int:
        """Open a run; returns its number."""

    def finish_run(self, run: int, summary: dict[str, Any]) -> None:
        """Close a run."""

    def history(
        self, silicon: Silicon, software: Software | None, problem: Problem, *, imported: bool = False
    ) -> list[Record]:
        """What was measured (on any software if that is None), oldest first; by other machines, too, if `imported`."""

    def settle(self, run: int, silicon: Silicon, software: Software, problem: Problem) -> Settled:
        """What becomes of candidates whose tuner is gone."""

    def begin(
        self,
        run: int,
        silicon: Silicon,
        software: Software,
        problem: Problem,
        config: Config,
        source_hash: str,
        stage: str,
        family_hash: str = "",
    ) -> None:
        """Note that a candidate is about to be launched."""

    def drop(self, run: int, source_hash: str) -> None:
        """An interrupted candidate is not wanted any more."""

    def add(self, record: Record) -> None:
        """Keep one trial; it is in flight no more."""

    def log(self, silicon: Silicon, software: Software, problem: Problem) -> list[Event]:
        """The champions' log, oldest first."""

    def certificate(
        self, silicon: Silicon, software: Software, problem: Problem, source_hash: str
    ) -> Certificate | None:
        """The certificate of a source on this software."""

    def promote(
        self,
        silicon: Silicon,
        software: Software,
        problem: Problem,
        config: Config,
        rendered: Rendered,
        *,
        reason: str,
        time_ms: float | None,
        noise: float | None,
        run: int | None = None,
        expected: str | None,
        checks: Iterable[str] | None,
        record: Record | None,
    ) -> Champion:
        """Record, certify and publish a configuration, at once; raises `tuner.store.Superseded` if the champion's
        source is not `expected` any more."""

    def withdraw(
        self, silicon: Silicon, software: Software, problem: Problem, *, reason: str, source_hash: str | None = None
    ) -> Champion | None:
        """Take a source away; returns what stands now."""

    def champions(self) -> list[Champion]:
        """Everything that is published."""

    def nominees(self) -> list[Nominee]:
        """What was good on other machines: to be tried here, and trusted for nothing."""

    def champion(self, silicon: Silicon, software: Software, problem: Problem) -> Champion | None:
        """What is published."""
