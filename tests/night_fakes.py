"""A whole night without a device: a bench that reads the machine, libraries by formula, a clock that sleep turns."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.fakes import DEVICE, FakeBench, config_of, small_family
from tuner import timing
from tuner.bench.messages import Pulse
from tuner.family import Family
from tuner.model import Built, Config, Device, Measurement, Problem, Rendered, Verdict
from tuner.nightly.night import run_night
from tuner.nightly.ports import Collaborators
from tuner.nightly.sensors import NoSensors, Sensors
from tuner.nightly.settings import NightBudget, NightSettings
from tuner.store import Store

TimeOf = Callable[[Config, Problem], float]


def by_size(config: Config, problem: Problem) -> float:
    """Milliseconds with one optimum inside the grid, the same for every problem."""
    values = config.as_dict()
    return (1.0 + abs(int(values["x"]) - 2) * 0.1 + abs(int(values["y"]) - 1) * 0.2) * problem.m / 64


class NightBench(FakeBench):
    """As the fake bench; times depend on the problem, `machine` slows everything, and samples are added as really."""

    def __init__(
        self,
        time_of: TimeOf = by_size,
        *,
        machine: float = 1.0,
        compiled: float = 1.0,
        between: float = 0.0,
        scatter: float = 0.004,
        **more: Any,
    ) -> None:
        """`compiled` slows kernels and not copies, as a worse compiler would; `between` is night-to-night noise."""
        super().__init__(lambda config: time_of(config, self._problem), **more)
        self._problem = Problem(64, 64, 64)
        self._by_problem, self._machine, self._compiled, self._scatter = time_of, machine, compiled, scatter
        self._between = between
        self.armed: dict[str, float] = {}
        self.confirmed: list[tuple[Problem, Config]] = []
        self.pulses = 0

    def measure(self, problem: Problem, rendered: Rendered, built: Built, **how: Any) -> Measurement:
        self._problem = problem
        found = super().measure(problem, rendered, built, **how)
        self.confirmed.append((problem, config_of(rendered)))
        if found.verdict is not Verdict.CORRECT:
            return found
        tonight = float(np.exp(self._rng.normal(0.0, self._between))) if self._between else 1.0
        samples: list[float] = []
        while not samples or not timing.enough(samples, how.get("best_ms")):
            samples.append(self._sample(config_of(rendered)) * tonight)
        return replace(found, samples_ms=tuple(samples))

    def rounds(
        self, problem: Problem, contenders: Sequence[tuple[Rendered, Built]], count: int
    ) -> list[tuple[float, ...]]:
        self._problem = problem
        return super().rounds(problem, contenders, count)

    def _sample(self, config: Config) -> float:
        return super()._sample(config) * self._machine * self._compiled

    def pulse(self, peaks: Sequence[str] = ()) -> Pulse:
        self.pulses += 1
        kernel = np.exp(self._rng.normal(0.0, self._scatter, 15)) * 2.0 * self._machine * self._compiled
        copy = np.exp(self._rng.normal(0.0, self._scatter, 15)) * 3.0 * self._machine
        rates = tuple((dtype, (990.0, 995.0, 1000.0)) for dtype in peaks)
        return Pulse(tuple(map(float, kernel)), tuple(map(float, copy)), 2**27, rates)

    def arm(self, peaks: Mapping[str, float]) -> None:
        self.armed = dict(peaks)


@dataclass
class FakeLibrary:
    """A library whose every product takes 1 ms."""

    name: str = "CLBlast"
    version: str = "1.6"
    how: str = "by formula"
    absent: str = ""
    raced: list[Problem] = field(default_factory=list)

    def ask_prepare(self, problem: Problem) -> None:
        self.raced.append(problem)

    def prepared(self) -> None:
        pass

    def turn(self, count: int) -> tuple[float, ...]:
        return (1.0,) * count


class Night:
    """Nights over one store, each with a bench of its own."""

    def __init__(self, folder: Path, problems: Sequence[Problem], **settings: Any) -> None:
        self.families: dict[str, Family] = {"grid": small_family(folder, x=3, y=2)}
        budget = settings.pop("budget", NightBudget(3600.0, 600.0, None))
        self.settings = NightSettings(tuple(problems), budget=budget, seed=1, **{"libraries": (), **settings})
        self.said: list[str] = []
        self.slept: list[float] = []

    def run(
        self,
        store: Store,
        bench: NightBench,
        *,
        libraries: Sequence[FakeLibrary] = (),
        sensors: Sensors | None = None,
        stop: threading.Event | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """One night on the bench's device; its summary."""

        @contextmanager
        def open_bench(device: Device, compilers: int | None, wait_s: float) -> Iterator[NightBench]:
            yield bench

        @contextmanager
        def open_libraries(device: Device, seconds_left: Callable[[], float]) -> Iterator[Sequence[FakeLibrary]]:
            yield libraries

        beside = Collaborators(
            devices=more.pop("devices", (bench.device,)),
            families=more.pop("families", self.families),
            open_bench=more.pop("open_bench", open_bench),
            open_libraries=open_libraries,
            open_sensors=lambda device: sensors or NoSensors(),
            say=self.said.append,
            sleep=self.slept.append,
            now=lambda: time.monotonic() + sum(self.slept),
        )
        return run_night(self.settings, "test", store, beside, stop or threading.Event(), **more)


def of_driver(driver: str) -> Device:
    """The fakes' device with another driver."""
    return replace(DEVICE, software=replace(DEVICE.software, driver=driver))


def cubes(count: int) -> list[Problem]:
    """Problems of different sizes."""
    return [Problem(16 * number, 16, 16) for number in range(1, count + 1)]
