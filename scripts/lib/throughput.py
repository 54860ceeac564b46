"""What a tuning run did to compilers and device, second by second: who worked, who waited, and whether they met."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from tuner.bench import Case, CheckOutcome, OutOfTime
from tuner.model import Built, Measurement, Problem, Rendered, Verdict
from tuner.search.ports import Bench

Interval = tuple[float, float]


@dataclass
class Watched:
    """A bench that notes when each build and each measurement began and ended, and that will race nobody."""

    bench: Bench
    builds: dict[str, Interval] = field(default_factory=dict)
    """By source hash; from when it was asked for."""
    measurements: dict[str, Interval] = field(default_factory=dict)
    """By source hash, in order."""
    sources: list[Rendered] = field(default_factory=list)
    """What was measured, in order."""
    compile_ms: list[float] = field(default_factory=list)
    verify_ms: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.device, self.shares_cores = self.bench.device, self.bench.shares_cores
        self.compilers = self.bench.compilers
        self._lock = threading.Lock()

    def build(self, rendered: Rendered) -> Future[Built]:
        """As the bench does."""
        asked = time.monotonic()
        future = self.bench.build(rendered)

        def done(future: Future[Built]) -> None:
            with self._lock:
                self.builds[rendered.source_hash] = (asked, time.monotonic())
                if not future.cancelled() and future.exception() is None:
                    self.compile_ms.append(future.result().compile_ms)

        future.add_done_callback(done)
        return future

    def cancel_builds(self) -> None:
        """As the bench does."""
        self.bench.cancel_builds()

    def measure(self, problem: Problem, rendered: Rendered, built: Built, **more: Any) -> Measurement:
        """As the bench does."""
        began = time.monotonic()
        measured = self.bench.measure(problem, rendered, built, **more)
        self.measurements[rendered.source_hash] = (began, time.monotonic())
        self.verify_ms.append(measured.verify_ms)
        self.sources.append(rendered)
        return measured

    def check(self, cases: Sequence[Case], *, seconds_left: Callable[[], float] = lambda: 0.0) -> CheckOutcome:
        """Only the search is watched."""
        raise OutOfTime

    def rounds(
        self, problem: Problem, contenders: Sequence[tuple[Rendered, Built]], count: int
    ) -> list[tuple[float, ...]]:
        """Only the search is watched."""
        raise OutOfTime

    @property
    def seconds(self) -> float:
        """From the first build that was asked for to the end of the last measurement."""
        if not self.measurements:
            return 0.0
        return max(end for _, end in self.measurements.values()) - min(asked for asked, _ in self.builds.values())

    @property
    def idle_s(self) -> float:
        """Seconds between two measurements."""
        return sum(max(0.0, end - start) for start, end in self._gaps())

    @property
    def idle_with_work_s(self) -> float:
        """Of these, the seconds in which a candidate was built and waited to be measured."""
        measured = self.measurements
        waiting = [(self.builds[source][1], began) for source, (began, _) in measured.items() if source in self.builds]
        return sum(overlap(gap, waiting) for gap in self._gaps())

    @property
    def overlap_s(self) -> float:
        """Seconds in which something was measured while something else was being built."""
        building = list(self.builds.values())
        return sum(overlap(interval, building) for interval in self.measurements.values())

    def _gaps(self) -> list[Interval]:
        intervals = sorted(self.measurements.values())
        return [(before[1], after[0]) for before, after in itertools.pairwise(intervals)]


def overlap(interval: Interval, others: Sequence[Interval]) -> float:
    """Seconds of `interval` that lie in at least one of `others`."""
    start, end = interval
    covered, at = 0.0, start
    for low, high in sorted(others):
        low, high = max(low, at), min(high, end)
        if high > low:
            covered += high - low
            at = high
    return covered


def build_rate(bench: Bench, sources: Sequence[Rendered], seconds: float) -> dict[str, float]:
    """Builds a second of the pool alone, over `sources` as far as `seconds` allow; its start does not count.

    The first build of every worker opens the driver, so the clock starts when as many builds have ended.
    """
    ended: list[float] = []
    lock = threading.Lock()
    began = time.monotonic()

    def done(future: Future[Built]) -> None:
        if not future.cancelled() and future.exception() is None and future.result().verdict is Verdict.CORRECT:
            with lock:
                ended.append(time.monotonic())

    waiting = list(reversed(sources))
    running: list[Future[Built]] = []
    while (waiting or running) and time.monotonic() - began < seconds:
        running = [future for future in running if not future.done()]
        while waiting and len(running) < 2 * bench.compilers:
            running.append(bench.build(waiting.pop()))
            running[-1].add_done_callback(done)
        time.sleep(0.005)
    bench.cancel_builds()
    warm = sorted(ended)[bench.compilers :]
    counted = len(warm) - 1
    rate = counted / (warm[-1] - warm[0]) if counted > 0 and warm[-1] > warm[0] else 0.0
    return {"builds": len(ended), "seconds": round(time.monotonic() - began, 2), "builds_per_second": round(rate, 2)}
