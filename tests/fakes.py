"""Fakes of ten lines: a bench without a device and a family without a kernel, for tests whose subject is the loop."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np

from tuner.bench import Case, CheckOutcome, ContenderFailed
from tuner.family import Family, load_family
from tuner.model import Built, Config, Device, Facts, Measurement, Problem, Rendered, Silicon, Software, Verdict

SILICON = Silicon("Acme", "Anvil 9", "gpu", 8, 4)
SOFTWARE = Software("Acme OpenCL", "1.0", "OpenCL C 1.2", "Anvil 9")
DEVICE = Device(SILICON, SOFTWARE, "anvil:0", Facts(max_group_size=1024, local_mem_bytes=49152, fp64=True))
PROBLEM = Problem(64, 64, 64)

TimeOf = Callable[[Config], float]


def small_family(folder: Path, *, name: str = "grid", x: int = 8, y: int = 8, **more: Sequence[int]) -> Family:
    """A family of x times y configurations (and further axes), whose source names them."""
    axes = {"x": range(1, x + 1), "y": range(1, y + 1), **more}
    lines = [f"{axis} = {{ values = {list(values)}, meaning = 'a number' }}" for axis, values in axes.items()]
    first = [f"{axis} = {next(iter(values))}" for axis, values in axes.items()]
    toml = ['summary = "a grid"', "[axes]", *lines, "[[launch]]", 'kernel = "k"', 'global = ["1"]', 'local = ["1"]']
    (folder / f"{name}.toml").write_text("\n".join([*toml, "[[default]]", *first]))
    values = " ".join(f"{axis}={{{{ {axis} }}}}" for axis in axes)
    (folder / f"{name}.cl.j2").write_text(f"kernel {name} {values}\n")
    return load_family(folder / f"{name}.toml")


def config_of(rendered: Rendered) -> Config:
    """The configuration a `small_family` rendered."""
    name = rendered.source.split()[1]
    return Config.of(name, {axis: int(value) for axis, value in re.findall(r"(\w+)=(\d+)", rendered.source)})


def valley(config: Config) -> float:
    """Milliseconds with one optimum inside the grid."""
    values = config.as_dict()
    return 1.0 + abs(int(values["x"]) - 5) * 0.1 + abs(int(values["y"]) - 3) * 0.2


class FakeBench:
    """Measures by a formula; `verdict_of` makes some configurations fail, `on_measure` may interrupt."""

    def __init__(
        self,
        time_of: TimeOf = valley,
        *,
        device: Device = DEVICE,
        noise: float = 0.0,
        seed: int = 0,
        verdict_of: Callable[[Config], Verdict] = lambda config: Verdict.CORRECT,
        certifies: Callable[[Config], bool] = lambda config: True,
        races: Callable[[Config], bool] = lambda config: True,
        on_measure: Callable[[Config], None] = lambda config: None,
    ) -> None:
        self.device = device
        self.shares_cores = device.facts.shares_cores
        self.compilers = 2
        self.measured: list[Config] = []
        self.checked: list[Case] = []
        self.steps: list[str] = []
        """`build` and `measure`, in the order in which they were asked for."""
        self._time_of, self._noise, self._rng = time_of, noise, np.random.default_rng(seed)
        self._verdict_of, self._certifies, self._races = verdict_of, certifies, races
        self._on_measure = on_measure

    def build(self, rendered: Rendered) -> Future[Built]:
        config = config_of(rendered)
        self.steps.append("build")
        future: Future[Built] = Future()
        verdict = self._verdict_of(config)
        at_build = verdict in (Verdict.COMPILE_FAILED, Verdict.COMPILE_TIMED_OUT)
        future.set_result(Built(verdict if at_build else Verdict.CORRECT, 1.0, message="as told" if at_build else ""))
        return future

    def cancel_builds(self) -> None:
        pass

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
        meanwhile()
        config = config_of(rendered)
        if on_stage is not None and not fresh:  # a trial, not the confirmation of a winner
            on_stage("launch")
            self.steps.append("measure")
            self.measured.append(config)
            self._on_measure(config)
        verdict = self._verdict_of(config)
        if verdict is not Verdict.CORRECT:
            return Measurement(verdict, message="as told")
        return Measurement(verdict, tuple(self._sample(config) for _ in range(5)), error_ratio=0.1)

    def check(self, cases: Sequence[Case], *, seconds_left: Callable[[], float] = lambda: 1e9) -> CheckOutcome:
        self.checked += cases
        if self._certifies(config_of(cases[0].rendered)):
            return CheckOutcome(Verdict.CORRECT, ("as told",))
        return CheckOutcome(Verdict.WRONG_RESULT, (), "as told")

    def rounds(
        self, problem: Problem, contenders: Sequence[tuple[Rendered, Built]], count: int
    ) -> list[tuple[float, ...]]:
        configs = [config_of(rendered) for rendered, _ in contenders]
        for index, config in enumerate(configs):
            if not self._races(config):
                raise ContenderFailed(index, Verdict.CRASHED, "as told")
        return [tuple(self._sample(config) for config in configs) for _ in range(count)]

    def _sample(self, config: Config) -> float:
        return self._time_of(config) * float(np.exp(self._rng.normal(0.0, self._noise)))


def tuned(bench: Any, store: Any, families: dict[str, Family], **more: Any) -> Any:
    """One run on the fakes' device and problem."""
    from tuner.search import Budget, tune

    budget = Budget(more.pop("evaluations", None), more.pop("seconds", None))
    problem = more.pop("problem", PROBLEM)
    return tune(problem, bench.device, families, bench, store, budget, **more)
