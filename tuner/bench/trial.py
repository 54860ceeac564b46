"""A candidate's trial in the measuring process: verified first, timed after, and judged once more at the end."""

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

HOPELESS = 10.0
"""A candidate this many times slower than the best in its first checked run is neither checked nor timed further."""

HOPELESS_LEAST_MS = 20.0
"""Shorter runs are always repeated: it saves nothing not to, and a first run may be slow for reasons of its own."""

SHORT_KERNEL_MS = 0.05
"""Shorter launches are timed in batches: in a single one the clock's steps and the start weigh too much."""

BATCH_MS = 1.0


def run_trial(desk: Desk, request: Trial) -> Measurement:
    """Correct first, timed after, and still correct after that; raises Refused if the driver or the device refuses."""
    bound = desk.load(request.rendered, request.binary)
    before = time.perf_counter()
    result, hopeless_ms = _verify(desk, bound, request)
    verify_ms = (time.perf_counter() - before) * 1e3
    if hopeless_ms is not None:
        message = f"cut short after one exact check: over {HOPELESS:g} times slower than the best"
        return Measurement(Verdict.CORRECT, (hopeless_ms,), message=message, verify_ms=verify_ms)
    if not result.ok:
        return Measurement(
            Verdict.WRONG_RESULT, error_ratio=result.error_ratio, message=result.message, verify_ms=verify_ms
        )
    desk.leave("time")
    loaded = desk.checker.load(request.problem, "floats", pad_rows=False)
    clock = _Clock(desk, bound, loaded, request)
    samples = clock.samples()
    before = time.perf_counter()
    lasting = desk.checker.check(
        bound, loaded, request.launch_s, again=True
    )  # C anew: the calls may have left it alone
    verify_ms += (time.perf_counter() - before) * 1e3
    if not lasting.ok:
        message = f"its result changes after {clock.calls} calls: {lasting.message}"
        return Measurement(Verdict.WRONG_RESULT, error_ratio=lasting.error_ratio, message=message, verify_ms=verify_ms)
    return Measurement(Verdict.CORRECT, samples, error_ratio=result.error_ratio, verify_ms=verify_ms)


def _verify(desk: Desk, bound: Bound, request: Trial) -> tuple[CheckResult, float | None]:
    """The first check that fails, or the last one, which has the error ratio; and the time of a hopeless candidate."""
    result = CheckResult(False)
    for number, (values, pad_rows) in enumerate(CHECKS):
        loaded = desk.checker.load(request.problem, values, pad_rows=pad_rows)
        if number == 0:
            desk.leave("launch")
        result = desk.checker.check(bound, loaded, request.launch_s, first=number == 0)
        if not result.ok:
            break
        if number == 0 and (slow := _hopeless_ms(desk, request)) is not None:
            return result, slow
    return result, None


def _hopeless_ms(desk: Desk, request: Trial) -> float | None:
    """Time of the run just checked, if it is far beyond the best and the clock can be believed."""
    if request.best_ms is None:
        return None
    try:
        time_ms = timing.event_ms(*desk.checker.last_interval_ns)
    except timing.ClockError:
        return None
    return time_ms if time_ms > max(HOPELESS_LEAST_MS, HOPELESS * request.best_ms) else None


class _Clock:
    """Samples of one candidate by the device's clock."""

    def __init__(self, desk: Desk, bound: Bound, loaded: Loaded, request: Trial) -> None:
        self._desk = desk
        self._bound = bound
        self._request = request
        self._enqueuing_ms = 0.0
        """What one product takes to enqueue where that is not the device's own time; it may be more than it runs."""
        self.calls = 0
        """Products computed so far."""
        bound.point_at(loaded)

    def samples(self) -> tuple[float, ...]:
        """Milliseconds of one product each, as many as it takes. Raises Refused (`bad_clock`)."""
        calls = 1
        alone = self._sample(1)
        if alone < SHORT_KERNEL_MS:
            calls = min(self._most_calls(), math.ceil(BATCH_MS / alone))
            self._sample(calls)
        samples = [alone] if calls == 1 else [self._sample(calls)]
        while not timing.enough(samples, self._request.best_ms):
            samples.append(self._sample(calls))
        return tuple(samples)

    def _most_calls(self) -> int:
        """Products of a batch: as many as a queue holds, where they are queued before they run."""
        if self._desk.machine.device.facts.shares_cores:
            return 1000
        return max(1, timing.MOST_HELD_LAUNCHES // len(self._bound.program.steps))

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
        self.calls += calls
        if calls > 1 and self._enqueuing_ms:
            machine.keep_busy(self._enqueuing_ms * calls)
        before = time.perf_counter()
        events = [machine.launch(self._bound.program) for _ in range(calls)]
        if not machine.device.facts.shares_cores:
            self._enqueuing_ms = (time.perf_counter() - before) * 1e3 / calls
        machine.finish()
        time_ms = timing.event_ms(*machine.interval_ns(events[0][0], events[-1][-1])) / calls
        if timing.impossible(time_ms, request.problem.flop, request.peak_gflops):
            rate = request.problem.gflops(time_ms)
            raise timing.ClockError(f"{rate:.0f} GFLOP/s, with a peak of {request.peak_gflops:.0f}")
        return time_ms
