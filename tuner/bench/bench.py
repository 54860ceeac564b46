"""One device's bench: builds, verifies, times, certifies and races, and no candidate can harm its caller."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from types import TracebackType

from tuner.bench.compile import BUILD_DEADLINE_S, BuildFunction, CompilePool
from tuner.bench.measurer import Lost, Measurer
from tuner.bench.messages import (
    Answer,
    Case,
    CaseRun,
    CheckOutcome,
    ContenderFailed,
    OutOfTime,
    Probe,
    Pulse,
    Race,
    Request,
    Rounds,
    Trial,
)
from tuner.bench.scratch import scratch_folder, vendors_folder
from tuner.model import Built, Device, Measurement, Problem, Rendered, Verdict

LEAST_LAUNCH_S = 2.0
PATIENCE = 20.0
"""A launch may last this many times the best so far."""

FIRST_LAUNCH_S = 60.0
SLOWEST_FLOP_PER_S = 5e8
"""Of one compute unit: without a best so far, anything slower than this (or than FIRST_LAUNCH_S) counts as hung."""

PROBE_SAMPLES = 15
"""Of the fixed kernel and of a copy, for one reading."""

PEAK_RISE = 1.02
"""A peak that comes out so much higher was measured in a bad moment before."""

OnStage = Callable[[str], None]


class Bench:
    """Measures on one device; open it with `Bench.open`, close it or use it in a `with`.

    Death, deadlines and the driver's errors come back as verdicts. `BenchError` is raised only for a mistake of ours
    and `DeviceLost` for a device that is gone.
    """

    def __init__(self, device: Device, pool: CompilePool, measurer: Measurer, resources: ExitStack) -> None:
        """Take over pool and measurer; callers use `Bench.open`."""
        self.device = device
        self.shares_cores = device.facts.shares_cores
        self.compilers = pool.workers
        self._pool = pool
        self._measurer = measurer
        self._resources = resources
        self._one_request = threading.Lock()
        self._peaks: dict[str, float] = {}

    @classmethod
    def open(
        cls,
        device: Device,
        *,
        compilers: int | None = None,
        build_function: BuildFunction | None = None,
        build_deadline_s: float = BUILD_DEADLINE_S,
    ) -> Bench:
        """Start the measuring process and its standby; compile workers start with the first build.

        `build_function` stands in for the driver's compiler and must be a module's function.
        """
        with ExitStack() as resources:
            folder = resources.enter_context(scratch_folder())
            vendors = vendors_folder(folder)
            pool = CompilePool(
                device,
                vendors,
                folder,
                workers=compilers,
                build_function=build_function,
                deadline_s=build_deadline_s,
            )
            resources.callback(pool.close)
            measurer = Measurer(device, vendors, folder)
            resources.callback(measurer.close)
            return cls(device, pool, measurer, resources.pop_all())

    def close(self) -> None:
        """End all children and remove their folders."""
        self._resources.close()

    def __enter__(self) -> Bench:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def arm(self, peaks: Mapping[str, float]) -> None:
        """Take rates far above these, in GFLOP/s by type and for strict arithmetic, for the clock's mistakes."""
        self._peaks = dict(peaks)

    @property
    def seconds_by_stage(self) -> dict[str, float]:
        """Where the measuring process's time went so far: load, prepare (operands), launch, check, time, start."""
        return dict(self._measurer.seconds)

    def build(self, rendered: Rendered) -> Future[Built]:
        """Compile ahead in the pool. The value carries a verdict; `cancel_builds` cancels the future."""
        return self._pool.submit(rendered)

    def cancel_builds(self) -> None:
        """Drop every build; those that run may go on for nothing for a moment, but not beside a race."""
        self._pool.cancel()

    def measure(
        self,
        problem: Problem,
        rendered: Rendered,
        built: Built,
        *,
        best_ms: float | None,
        on_stage: OnStage | None = None,
        meanwhile: Callable[[], None] = lambda: None,
        peak_gflops: float | None = None,
        fresh: bool = False,
    ) -> Measurement:
        """Verify, then time; only a correct candidate has samples.

        `on_stage("launch")` is called before anything is launched, once for each of at most two attempts: a candidate
        whose process dies or is late gets a second one in a fresh process; `fresh` asks for one at once. `meanwhile` is
        called while a process loads the candidate. Without `peak_gflops` the peak is the one that the bench was armed
        with; before a candidate is refused for it, it is measured again. Raises ValueError for a problem without a
        product to compute (m, n, k or batch is 0).
        """
        if built.verdict is not Verdict.CORRECT:
            return _with_build(Measurement(built.verdict, message=built.message), built)
        if lacking := _lacks(self.device, problem):
            return _with_build(Measurement(Verdict.UNSUPPORTED, message=lacking), built)
        if fresh:
            self._measurer.renew()
        launch_s = launch_deadline_s(problem, self.device, best_ms)
        armed = self._peaks.get(problem.dtype) if problem.math == "strict" else None
        trial = Trial(problem, rendered, built.binary, best_ms, launch_s, peak_gflops or armed)
        answer = self._request(trial, on_stage, meanwhile)
        if peak_gflops is None and armed and isinstance(answer, Measurement) and self._rises(answer, problem.dtype):
            trial = dataclasses.replace(trial, peak_gflops=self._peaks[problem.dtype])
            answer = self._request(trial, on_stage)
        if isinstance(answer, Lost):
            return _with_build(Measurement(answer.verdict, message=answer.message), built)
        assert isinstance(answer, Measurement)
        return _with_build(answer, built)

    def _rises(self, answer: Measurement, dtype: str) -> bool:
        """A rate above the peak, and the peak turns out to have been measured too low: it is raised."""
        if answer.verdict is not Verdict.BAD_CLOCK:
            return False
        again = max(dict(self.pulse((dtype,)).peaks).get(dtype, ()), default=0.0)
        if again <= self._peaks[dtype] * PEAK_RISE:
            return False
        self._peaks[dtype] = again
        return True

    def check(self, cases: Sequence[Case], *, seconds_left: Callable[[], float] = lambda: math.inf) -> CheckOutcome:
        """Run a certificate's cases, in order, up to the first failure.

        Raises OutOfTime, with every build ended, once `seconds_left()` is no more; a case that runs is run to its end.
        """
        passed: tuple[str, ...] = ()
        builds = {rendered: self.build(rendered) for rendered in dict.fromkeys(case.rendered for case in cases)}
        if self.shares_cores:  # no case runs before all are built
            for future in builds.values():
                self._built_in_time(future, seconds_left())
        for case in cases:
            outcome = self._check_one(case, self._built_in_time(builds[case.rendered], seconds_left()))
            passed += outcome.checks
            if outcome.verdict is not Verdict.CORRECT:
                return CheckOutcome(outcome.verdict, passed, outcome.message)
        return CheckOutcome(Verdict.CORRECT, passed)

    def rounds(
        self, problem: Problem, contenders: Sequence[tuple[Rendered, Built]], count: int
    ) -> list[tuple[float, ...]]:
        """`count` rounds in which the contenders take turns: milliseconds per call by the host's clock.

        All must have been built, and should have been measured. Raises ContenderFailed.
        """
        for index, (_, built) in enumerate(contenders):
            if built.verdict is not Verdict.CORRECT:
                raise ContenderFailed(index, built.verdict, built.message)
        self._pool.wait_idle()  # what was cancelled may still be at work, and the host's clock would tell
        launch_s = launch_deadline_s(problem, self.device, None)
        race = Race(problem, tuple((rendered, built.binary) for rendered, built in contenders), count, launch_s)
        answer = self._request(race, None)
        if isinstance(answer, Lost):
            raise ContenderFailed(answer.stage.contender, answer.verdict, answer.message)
        assert isinstance(answer, Rounds)
        if answer.failed is not None:
            raise ContenderFailed(answer.failed, answer.verdict, answer.message)
        return list(answer.ms)

    def pulse(self, peaks: Sequence[str] = ()) -> Pulse:
        """How fast the device is now, by work that never changes; with the peak rates of these types as well."""
        answer = self._request(Probe(PROBE_SAMPLES, tuple(peaks)), None)
        if isinstance(answer, Lost):
            return Pulse(message=f"{answer.verdict}: {answer.message}")
        assert isinstance(answer, Pulse)
        return answer

    def _built_in_time(self, building: Future[Built], seconds: float) -> Built:
        try:
            if seconds <= 0:
                raise TimeoutError
            return building.result(None if math.isinf(seconds) else seconds)
        except TimeoutError:
            self.cancel_builds()
            raise OutOfTime from None

    def _check_one(self, case: Case, built: Built) -> CheckOutcome:
        if built.verdict is not Verdict.CORRECT:
            return CheckOutcome(built.verdict, (), built.message)
        if lacking := _lacks(self.device, case.problem):
            return CheckOutcome(Verdict.UNSUPPORTED, (), lacking)
        launch_s = launch_deadline_s(case.problem, self.device, None)
        answer = self._request(CaseRun(case, built.binary, launch_s), None)
        if isinstance(answer, Lost):
            return CheckOutcome(answer.verdict, (), answer.message)
        assert isinstance(answer, CheckOutcome)
        return answer

    def _request(
        self, request: Request, on_stage: OnStage | None, meanwhile: Callable[[], None] = lambda: None
    ) -> Answer | Lost:
        """Two strikes: one lost process may have been shot from outside, two in a row are the candidate's doing."""

        def leave(name: str) -> None:
            if name == "launch" and on_stage is not None:
                on_stage(name)
            if name == "time":
                self._be_quiet()

        with self._one_request:
            self._wait_for_builds()
            answer = self._measurer.run(request, leave, meanwhile)
            if isinstance(answer, Lost):
                if answer.stage.name == "load":
                    request = _without_binary(request)
                answer = self._measurer.run(request, leave, meanwhile)
            return answer

    def _wait_for_builds(self) -> None:
        if self.shares_cores:
            self._pool.wait_idle()

    def _be_quiet(self) -> None:
        """Nothing of ours computes on the device's cores while it is timed."""
        if self.shares_cores:
            self._pool.wait_idle()
            self._measurer.wait_quiet()


def launch_deadline_s(problem: Problem, device: Device, best_ms: float | None) -> float:
    """Seconds that one launch of a configuration may take."""
    if best_ms is not None:
        return max(LEAST_LAUNCH_S, PATIENCE * best_ms / 1e3)
    slowest = problem.flop / (SLOWEST_FLOP_PER_S * device.silicon.compute_units)
    return max(LEAST_LAUNCH_S, min(FIRST_LAUNCH_S, slowest))


def _lacks(device: Device, problem: Problem) -> str:
    """Why the device can't compute such a problem, or nothing."""
    if 0 in (problem.m, problem.n, problem.k, problem.batch):
        raise ValueError(f"{problem} has an empty dimension: there is nothing to measure")
    if not device.has(problem.dtype):
        return f"{device.name} has no {problem.dtype}"
    return ""


def _with_build(measurement: Measurement, built: Built) -> Measurement:
    return dataclasses.replace(measurement, compile_ms=built.compile_ms, compiler=built.compiler)


def _without_binary(request: Request) -> Request:
    """The same request, built from source: a driver may die of its own binary."""
    if isinstance(request, Probe):
        return request
    if isinstance(request, Race):
        contenders = tuple((rendered, None) for rendered, _ in request.contenders)
        return dataclasses.replace(request, contenders=contenders)
    return dataclasses.replace(request, binary=None)
