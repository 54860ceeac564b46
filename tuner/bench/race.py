"""Rounds of a race in the measuring process: contenders take turns, timed by the host's clock."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tuner import timing
from tuner.bench.messages import Race, Rounds, Stage
from tuner.model import Verdict
from tuner.opencl.refusal import Refused

if TYPE_CHECKING:
    from tuner.bench.desk import Desk
    from tuner.bench.operands import Bound

CALLS_MS = 4.0
"""N calls last this long at least, so that a slope is more than the clock's noise."""

HELD_MS = 0.2
"""Shorter calls are queued while the device is kept busy: enqueuing one may take longer than it does."""

CLOCK_TRIES = 5
"""A host that is paused by others gives impossible slopes, now and then more than once."""

SHORTEST_MS = 0.001
"""No call is taken to be shorter when their number is chosen."""


def run_race(desk: Desk, request: Race) -> Rounds:
    """Milliseconds per call of every contender in every round; who is refused, or wrong after them, is named."""
    contenders: list[_Contender] = []
    rounds: list[tuple[float, ...]] = []
    at_work = 0
    try:
        for at_work in range(len(request.contenders)):
            rendered, binary = request.contenders[at_work]
            contenders.append(_Contender(desk, desk.load(rendered, binary, at_work), request, at_work))
        desk.leave("launch")
        for at_work in range(len(contenders)):
            contenders[at_work].warm_up()
        desk.leave("time")
        for number in range(request.count):
            ms = [0.0] * len(contenders)
            order = range(len(contenders)) if number % 2 == 0 else range(len(contenders) - 1, -1, -1)
            for at_work in order:
                ms[at_work] = contenders[at_work].slope_ms()
            rounds.append(tuple(ms))
        for at_work in range(len(contenders)):
            contenders[at_work].check()
    except Refused as refused:
        return Rounds((), at_work, refused.verdict, str(refused))
    return Rounds(tuple(rounds))


class _Contender:
    def __init__(self, desk: Desk, bound: Bound, request: Race, index: int) -> None:
        self._desk = desk
        self._bound = bound
        self._request = request
        self._index = index
        self._calls = 1
        self._held = False
        self._made = 0

    def warm_up(self) -> None:
        """First launch, with whatever the driver compiles then; choose how many calls make a sample."""
        loaded = self._desk.checker.load(self._request.problem, "floats", pad_rows=False)
        self._desk.checker.run(self._bound, loaded, self._request.launch_s, first=True, contender=self._index)
        shares_cores = self._desk.machine.device.facts.shares_cores
        one_ms = self._seconds(1) * 1e3
        if not shares_cores:  # a slow host takes longer to notice the end of a short kernel than that runs
            one_ms = min(one_ms, self._by_the_device_ms())
        self._calls = max(1, math.ceil(CALLS_MS / max(one_ms, SHORTEST_MS)))
        if one_ms < HELD_MS and not shares_cores:
            self._held = True
            launches = 2 * len(self._bound.program.steps)
            self._calls = max(1, min(self._calls, timing.MOST_HELD_LAUNCHES // launches))
        self._seconds(self._calls)

    def _by_the_device_ms(self) -> float:
        """The first run by the device's clock; infinite if that does not say."""
        try:
            return timing.event_ms(*self._desk.checker.last_interval_ns)
        except timing.ClockError:
            return math.inf

    def slope_ms(self) -> float:
        """Milliseconds per call; an impossible time is taken again a few times before it becomes the verdict."""
        problem = ""
        for _ in range(CLOCK_TRIES):
            single, double = self._seconds(self._calls), self._seconds(2 * self._calls)
            try:
                return timing.slope_ms(single * 1e3, double * 1e3, self._calls)
            except timing.ClockError as error:
                problem = str(error)
        raise Refused(Verdict.BAD_CLOCK, problem)

    def check(self) -> None:
        """After the rounds: its result is still right, with scratch as its many runs left it.

        The first run may find operands that another contender spoiled, which are then restored; the second finds what
        this contender does to them. Raises Refused (`wrong_result`).
        """
        loaded = self._desk.checker.load(self._request.problem, "floats", pad_rows=False)
        for _ in range(2):
            result = self._desk.checker.check(self._bound, loaded, self._request.launch_s, again=True)
            if not result.ok:
                message = f"its result changes after {self._made} calls: {result.message}"
                raise Refused(Verdict.WRONG_RESULT, message)

    def _seconds(self, calls: int) -> float:
        """The host's time of that many back-to-back calls."""
        # Many calls are short ones: they last a few CALLS_MS together.
        self._desk.say(Stage("time", self._request.launch_s * min(calls, 2), self._index))
        self._made += calls
        return self._desk.machine.seconds(self._bound.program, calls, held=self._held)
