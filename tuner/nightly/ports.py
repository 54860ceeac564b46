"""What a night asks of its collaborators, and how it is stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from tuner.baselines.compare import Opponent
from tuner.bench.messages import Case, CheckOutcome, Pulse
from tuner.family import Family
from tuner.model import Built, Champion, Device, Measurement, Problem, Rendered
from tuner.nightly.sensors import Sensors
from tuner.search.ports import Bench as SearchBench


class Bench(SearchBench, Protocol):
    """A search's bench that also reads the machine."""

    def pulse(self, peaks: Sequence[str] = ()) -> Pulse:
        """How fast the device is now, by work that never changes."""

    def arm(self, peaks: Mapping[str, float]) -> None:
        """Take rates far above these, in GFLOP/s by type, for mistakes of the clock."""


class NightClock:
    """The night's time, across a kill and its resume."""

    def __init__(self, total_s: float, spent_s: float = 0.0, now: Callable[[], float] = time.monotonic) -> None:
        """`spent_s` of `total_s` seconds were used before this process."""
        self._now, self._start = now, now()
        self._total, self._spent = total_s, spent_s

    @property
    def elapsed(self) -> float:
        """Seconds spent, those before a resume included."""
        return self._spent + self._now() - self._start

    @property
    def left(self) -> float:
        """Seconds until everything must have ended."""
        return self._total - self.elapsed

    def part(self, seconds: float) -> NightClock:
        """A clock that ends so many seconds from now, or with this one."""
        return NightClock(min(seconds, self.left), 0.0, self._now)


@dataclass(frozen=True)
class Collaborators:
    """Everything a night works with, beside its store."""

    devices: tuple[Device, ...]
    families: Mapping[str, Family]
    open_bench: Callable[[Device, int | None, float], AbstractContextManager[Bench]]
    """A locked bench from device, compilers (None: as many as fit) and seconds to wait for the lock."""
    open_libraries: Callable[[Device, Callable[[], float]], AbstractContextManager[Sequence[Opponent]]]
    """Libraries to race, from device and the seconds that are left."""
    open_sensors: Callable[[Device], Sensors]
    seeds: Sequence[Champion] = ()
    """Known to be good on some silicon: searches begin with them."""
    say: Callable[[str], None] = lambda line: None
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.monotonic


class Stopped(KeyboardInterrupt):
    """The night was told to stop; a search ends in order at it, as at Ctrl-C."""


class StoppableBench:
    """A bench that refuses further work once the night is told to stop, so that whatever uses it ends in order."""

    def __init__(self, bench: Bench, stop: threading.Event) -> None:
        self._bench, self._stop = bench, stop
        self.device, self.shares_cores, self.compilers = bench.device, bench.shares_cores, bench.compilers

    def _work(self) -> Bench:
        if self._stop.is_set():
            raise Stopped
        return self._bench

    def build(self, rendered: Rendered) -> Future[Built]:
        """As the bench."""
        return self._work().build(rendered)

    def cancel_builds(self) -> None:
        """As the bench; also after the stop."""
        self._bench.cancel_builds()

    def measure(self, problem: Problem, rendered: Rendered, built: Built, **how: Any) -> Measurement:
        """As the bench."""
        return self._work().measure(problem, rendered, built, **how)

    def check(self, cases: Sequence[Case], *, seconds_left: Callable[[], float]) -> CheckOutcome:
        """As the bench."""
        return self._work().check(cases, seconds_left=seconds_left)

    def rounds(
        self, problem: Problem, contenders: Sequence[tuple[Rendered, Built]], count: int
    ) -> list[tuple[float, ...]]:
        """As the bench."""
        return self._work().rounds(problem, contenders, count)

    def pulse(self, peaks: Sequence[str] = ()) -> Pulse:
        """As the bench."""
        return self._work().pulse(peaks)

    def arm(self, peaks: Mapping[str, float]) -> None:
        """As the bench."""
        self._bench.arm(peaks)
