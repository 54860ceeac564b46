"""What a ladder asks of the bench."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

from tuner.model import Built, Device, Measurement, Problem, Rendered


class Bench(Protocol):
    """Builds, verifies and times rungs on one device; no kernel can harm the caller."""

    device: Device
    shares_cores: bool

    def build(self, rendered: Rendered) -> Future[Built]:
        """Compile ahead."""

    def measure(self, problem: Problem, rendered: Rendered, built: Built, *, best_ms: float | None) -> Measurement:
        """Verify, then time by the device's clock; cut short if far slower than `best_ms`."""

    def rounds(
        self, problem: Problem, contenders: Sequence[tuple[Rendered, Built]], count: int
    ) -> list[tuple[float, ...]]:
        """Milliseconds per call by the host's clock, `count` times. Raises ContenderFailed."""
