"""A candidate's trial in the measuring process: verified first, timed after."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from tuner import timing
from tuner.bench.messages import Stage, Trial
from tuner.model import Measurement, Verdict
from tuner.opencl.refusal import Refused
from tuner.verify import CheckResult, Values

if TYPE_CHECKING:
    from tuner.bench.desk import Desk
    from tuner.bench.operands import Bound, Loaded

CHECKS: tuple[tuple[Values, bool], ...] = (("integers", True), ("integers", False), ("floats", False))
"""(values, guards between rows) of the runs that verify a candidate; the last two have the layout that is timed."""

SHORT_KERNEL_MS = 0.05
"""Shorter launches are timed in batches: in a single one the clock's steps and the start weigh too much."""

BATCH_MS = 1.0


def run_trial(desk: Desk, request: Trial) -> Measurement:
    """Correct first, timed after; raises Refused if the driver or the device refuses."""
    bound = desk.load(request.rendered, request.binary)
    before = time.perf_counter()
    result = _verify(desk, bound, request)
    verify_ms = (time.perf_counter() - before) * 1e3
    if not result.ok:
        return Measurement(
            Verdict.WRONG_RESULT, error_ratio=result.error_ratio, message=result.message, verify_ms=verify_ms
        )
    desk.leave("time")
    loaded = desk.checker.load(request.problem, "floats", pad_rows=False)
    samples = _Clock(desk, bound, loaded, request).samples()
    return Measurement(Verdict.CORRECT, samples, error_ratio=result.error_ratio, verify_ms=verify_ms)


def _verify(desk: Desk, bound: Bound, request: Trial) -> CheckResult:
    """The first check that fails, or the last one, which has the error ratio."""
    result = CheckResult(False)
    for number, (values, pad_rows) in enumerate(CHECKS):
        loaded = desk.checker.load(request.problem, values, pad_rows=pad_rows)
        if number == 0:
            desk.leave("launch")
        result = desk.checker.check(bound, loaded, request.launch_s, first=number == 0)
        if not result.ok:
            break
    return result


class _Clock:
    """Samples of one candidate by the device's clock."""

    def __init__(self, desk: Desk, bound: Bound, loaded: Loaded, request: Trial) -> None:
        self._desk = desk
        self._bound = bound
        self._request = request
        bound.point_at(loaded)

    def samples(self) -> tuple[float, ...]:
        """Milliseconds of one product each, as many as it takes. Raises Refused (`bad_clock`)."""
        calls = 1
        alone = self._sample(1)
        if alone < SHORT_KERNEL_MS:
            calls = min(1000, math.ceil(BATCH_MS / alone))
            self._sample(calls)
        samples = [alone] if calls == 1 else [self._sample(calls)]
        while not timing.enough(samples, self._request.best_ms):
            samples.append(self._sample(calls))
        return tuple(samples)

    def _sample(self, calls: int) -> float:
        """One sample; an impossible time is taken once more before it becomes the verdict."""
        try:
            return self._measure(calls)
        except timing.ClockError:
            pass
        try:
            return self._measure(calls)
        except timing.ClockError as error:
            raise Refused(Verdict.BAD_CLOCK, str(error)) from error

    def _measure(self, calls: int) -> float:
        machine, request = self._desk.machine, self._request
        self._desk.say(Stage("time", request.launch_s))
        events = [machine.launch(self._bound.program) for _ in range(calls)]
        machine.finish()
        time_ms = timing.event_ms(*machine.interval_ns(events[0][0], events[-1][-1])) / calls
        if timing.impossible(time_ms, request.problem.flop, request.peak_gflops):
            rate = request.problem.gflops(time_ms)
            raise timing.ClockError(f"{rate:.0f} GFLOP/s, with a peak of {request.peak_gflops:.0f}")
        return time_ms
