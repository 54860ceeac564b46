"""What every step of one device's night works with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tuner.family import Family
from tuner.model import Champion, Device, Problem, Silicon, Software
from tuner.nightly.ledger import Ledger, Result
from tuner.nightly.ports import Bench, NightClock
from tuner.nightly.settings import NightSettings
from tuner.nightly.watch import Watch
from tuner.store import Store

Key = tuple[Silicon, Software, Problem]


@dataclass(frozen=True)
class Lane:
    """One device in one night."""

    device: Device
    settings: NightSettings
    families: Mapping[str, Family]
    bench: Bench
    store: Store
    ledger: Ledger
    clock: NightClock
    watch: Watch
    started: str
    """When the night began: UTC, ISO 8601. What is stored since is tonight's."""
    stop: threading.Event
    say: Callable[[str], None]
    seeds: Sequence[Champion] = ()
    attention: list[str] = field(default_factory=list)
    """What a person should see to, one sentence each."""

    @property
    def name(self) -> str:
        """The device's key in the night's ledger."""
        return f"{self.device.instance} / {self.device.software.key}"

    def key(self, problem: Problem) -> Key:
        """What is stored about a problem here is stored under this."""
        return self.device.silicon, self.device.software, problem

    def note(self, stage: str) -> dict[str, Any]:
        """What a run of this night says of itself."""
        return {"night": self.ledger.night, "stage": stage}

    def done(self, step: str) -> Result | None:
        """The result of a step that is done."""
        return self.ledger.steps(self.name).get(step)

    def mark(self, step: str, result: Result) -> None:
        """Commit a step."""
        self.ledger.mark(self.name, step, result)

    def results(self, stage: str) -> list[Result]:
        """The results of a stage's steps."""
        return [result for step, result in self.ledger.steps(self.name).items() if step.startswith(f"{stage} ")]

    def out_of_time(self, seconds: float = 0.0) -> bool:
        """Told to stop, or less than so many seconds left."""
        return self.stop.is_set() or self.clock.left <= seconds

    def champions(self) -> list[Champion]:
        """Champions of this silicon, whatever the software."""
        return [champion for champion in self.store.champions() if champion.silicon == self.device.silicon]

    def here(self) -> dict[Problem, Champion]:
        """Champions of this silicon and software."""
        return {c.problem: c for c in self.champions() if c.software == self.device.software}

    def hashes(self) -> dict[str, str]:
        """The families by name."""
        return {name: family.hash for name, family in sorted(self.families.items())}


def shares(sequence: Sequence[Any], start: int) -> list[Any]:
    """The same, begun elsewhere each night, so that what does not fit one night comes first in another."""
    start = start % len(sequence) if sequence else 0
    return [*sequence[start:], *sequence[:start]]
