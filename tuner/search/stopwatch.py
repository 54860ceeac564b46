"""Where a run's time went, by stage."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Adds up seconds by stage; stages do not nest."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Count the time of the block to `stage`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[stage] += time.perf_counter() - start

    def seconds(self, total: float) -> dict[str, float]:
        """Seconds by stage, what no stage claimed as `other`."""
        spent = dict(self._seconds)
        return {**spent, "other": max(0.0, total - sum(spent.values()))}
