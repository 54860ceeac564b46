"""Run a program on known operands and judge what it leaves: guard zones, exact integers, floats within their bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tuner.bench.copies import built_comparison
from tuner.bench.messages import Stage
from tuner.bench.operands import Accepted, Bound, Loaded, OperandStore
from tuner.model import Problem
from tuner.opencl.refusal import Refused
from tuner.opencl.run import Buffer, Comparison, Machine, word_bytes
from tuner.verify import LEFT_IN_C, CheckResult, Values, count_differences, element_type, planted_errors

SPECIALISE_S = 60.0
HOST_WORK_S = 900.0
"""Deadline of work that only the host does: operands, references, comparisons."""

MOST_ACCEPTED, MOST_ACCEPTED_ON_HOST, ACCEPTED_SHARE = 4, 2, 1 / 64
"""Results that a run is compared with before it is judged: so many, fewer where they take more of the memory than that.

On the host a comparison costs a fifth of judging."""

Say = Callable[[Stage], None]


class Checker:
    """Checks programs on one machine; `say` tells the parent what begins and how long it may take."""

    def __init__(self, machine: Machine, say: Say) -> None:
        """Start with no operands loaded."""
        self._machine = machine
        self._store = OperandStore(machine)
        self._comparisons: dict[int, Comparison] = {}
        self.last_interval_ns = (0, 0)
        """START and END of the last checked run by the device's clock."""
        self.say = say

    def load(self, problem: Problem, values: Values, *, pad_rows: bool, kind: str = "plain", seed: int = 0) -> Loaded:
        """Operands in device memory, computed and uploaded at their first use."""
        self.say(Stage("prepare", HOST_WORK_S))
        return self._store.get(problem, seed, values, kind, pad_rows)

    def run(
        self,
        bound: Bound,
        loaded: Loaded,
        launch_s: float,
        *,
        first: bool,
        contender: int = 0,
        again: bool = False,
        over: float = LEFT_IN_C[0],
    ) -> None:
        """One checked run: C filled, and scratch unless it runs `again`; every step launched under its own deadline.

        C is NaN, and when it runs `again` the number `over`: it must not matter what an earlier product left there.

        With `first` on a driver that compiles at first launch, the launch's deadline begins when the device says that
        the kernel runs; until then the compiler's holds. So a slow compile is no hang, and a hang no slow compile.
        """
        self.say(Stage("prepare", HOST_WORK_S))
        self._store.reset_c(loaded, over if again else None)
        if not again:
            bound.reset_scratch(loaded.reference.kind)
        bound.point_at(loaded)
        self._machine.finish()
        self.say(Stage("launch", launch_s, contender))
        events = self._machine.launch(bound.program)
        for event in events:
            if first and self._machine.specialises_at_launch:
                self.say(Stage("specialise", SPECIALISE_S, contender))
                self._machine.wait_until_running(event)
            self.say(Stage("launch", launch_s, contender))
            self._machine.wait(event)
        self.last_interval_ns = self._machine.interval_ns(events[0], events[-1])
        self.say(Stage("check", HOST_WORK_S))

    def check(
        self,
        bound: Bound,
        loaded: Loaded,
        launch_s: float,
        *,
        first: bool = False,
        again: bool = False,
        over: float = LEFT_IN_C[0],
    ) -> CheckResult:
        """Run and judge; a wrong result counts only if no earlier kernel had spoiled A or B.

        `again` leaves scratch as the run before left it, which is how a caller's next product finds it, and C full of
        the number `over`, where it is not read.
        """
        self.run(bound, loaded, launch_s, first=first, again=again, over=over)
        result = self._judge(bound, loaded)
        if result.ok or self._store.is_intact(loaded):
            if not result.ok:
                self._store.forget()
            return result
        self._store.restore(loaded)
        self.run(bound, loaded, launch_s, first=False, again=again, over=over)
        result = self._judge(bound, loaded)
        if result.ok and not self._store.is_intact(loaded):
            result = CheckResult(False, message="it writes to A or B")
        if not result.ok:
            self._store.forget()
        return result

    def forget(self) -> None:
        """Drop all operands on the device, because a wrong kernel may have spoiled any of them."""
        self._store.forget()

    def is_intact(self, loaded: Loaded) -> bool:
        """No kernel has written to A or B."""
        return self._store.is_intact(loaded)

    def bits(self, loaded: Loaded) -> bytes:
        """C's whole buffer as it is now."""
        return self._store.read_c(loaded).tobytes()

    def _judge(self, bound: Bound, loaded: Loaded) -> CheckResult:
        misused = bound.misused_scratch()
        if misused is not None:
            return CheckResult(False, message=misused)
        if same := next((kept for kept in loaded.accepted if self._leaves(loaded, kept)), None):
            return same.result
        rows = loaded.reference.rows
        if rows is not None:
            return loaded.reference.accept_rows(self._read_rows(loaded, rows))
        flat = self._store.read_c(loaded)
        result = loaded.reference.accept(flat, loaded.layout)
        if result.ok:
            self._remember(loaded, flat, result)
        return result

    def _remember(self, loaded: Loaded, flat: np.ndarray[Any, Any], result: CheckResult) -> None:
        """Later runs are compared with this result before they are judged.

        Integers are exact, so any right result is the same; sums of floats are, of kernels that add in the same order.
        """
        facts = self._machine.device.facts
        most = MOST_ACCEPTED_ON_HOST if facts.shares_cores else MOST_ACCEPTED
        most = min(most, int(ACCEPTED_SHARE * facts.global_mem_bytes) // flat.nbytes)
        del loaded.accepted[max(1, most) - 1 :]
        try:
            c = flat.copy() if facts.shares_cores else self._machine.duplicate(loaded.c, flat.nbytes)
        except Refused:  # no room for a second C; the host goes on judging
            return
        loaded.accepted.insert(0, Accepted(c, result))
        word = word_bytes(flat.itemsize)
        if isinstance(c, Buffer) and word not in self._comparisons:
            self._comparisons[word] = built_comparison(self._machine, word)
            self._prove(loaded, flat, c)

    def _leaves(self, loaded: Loaded, kept: Accepted) -> bool:
        """C is now, bit for bit, what it was then."""
        if isinstance(kept.c, np.ndarray):
            return count_differences(kept.c, self._store.read_c(loaded)) == 0
        return self._differences(loaded, kept.c) == 0

    def _differences(self, loaded: Loaded, kept: Buffer) -> int:
        elements, size = loaded.layout.c.elements, loaded.problem.element_bytes
        return self._comparisons[word_bytes(size)].count(kept, loaded.c, elements, size)

    def _prove(self, loaded: Loaded, flat: np.ndarray[Any, Any], kept: Buffer) -> None:
        """The comparison must see every planted error, and none where there is none; else it could pass anything."""
        if self._differences(loaded, kept) != 0:
            raise RuntimeError("the comparison on the device finds differences where there are none")
        for error in planted_errors(flat, loaded.layout):
            place = error.index * flat.itemsize
            self._machine.write(loaded.c, np.frombuffer(error.data, np.uint8), byte_offset=place)
            if self._differences(loaded, kept) != 1:
                raise RuntimeError(f"the comparison on the device does not see an error planted at: {error.place}")
            self._machine.write(loaded.c, flat[error.index : error.index + 1], byte_offset=place)

    def _read_rows(self, loaded: Loaded, rows: tuple[tuple[int, int], ...]) -> np.ndarray[Any, Any]:
        slab, size = loaded.layout.c, loaded.problem.element_bytes
        out = np.empty((len(rows), slab.columns), element_type(loaded.problem.dtype))
        for target, (index, row) in zip(out, rows, strict=True):
            self._machine.read(loaded.c, target, byte_offset=(slab.base + index * slab.stride + row * slab.ld) * size)
        return out
