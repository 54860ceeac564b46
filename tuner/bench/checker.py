"""Run a program on known operands and judge what it leaves: guard zones, exact integers, floats within their bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tuner.bench.messages import Stage
from tuner.bench.operands import Bound, Loaded, OperandStore
from tuner.data import template_folder
from tuner.model import Problem
from tuner.opencl.refusal import Refused
from tuner.opencl.run import Comparison, Machine, word_bytes
from tuner.verify import COMPARE_SOURCE, CheckResult, Values, count_differences, element_type, planted_errors

SPECIALISE_S = 60.0
HOST_WORK_S = 900.0
"""Deadline of work that only the host does: operands, references, comparisons."""

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
    ) -> None:
        """One checked run: C filled, and scratch unless it runs `again`; every step launched under its own deadline.

        With `first` on a driver that compiles at first launch, the launch's deadline begins when the device says that
        the kernel runs; until then the compiler's holds. So a slow compile is no hang, and a hang no slow compile.
        """
        self.say(Stage("prepare", HOST_WORK_S))
        self._store.reset_c(loaded)
        if not again:
            bound.reset_scratch()
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
        self, bound: Bound, loaded: Loaded, launch_s: float, *, first: bool = False, again: bool = False
    ) -> CheckResult:
        """Run and judge; a wrong result counts only if no earlier kernel had spoiled A or B.

        `again` leaves scratch as the run before left it, which is how a caller's next product finds it.
        """
        self.run(bound, loaded, launch_s, first=first, again=again)
        result = self._judge(bound, loaded)
        if result.ok or self._store.is_intact(loaded):
            if not result.ok:
                self._store.forget()
            return result
        self._store.restore(loaded)
        self.run(bound, loaded, launch_s, first=False, again=again)
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
        overrun = bound.overrun_scratch()
        if overrun is not None:
            return CheckResult(False, message=f"it writes {overrun}")
        if loaded.expected is not None and self._equals_expected(loaded):
            return CheckResult(True)
        rows = loaded.reference.rows
        if rows is not None:
            return loaded.reference.accept_rows(self._read_rows(loaded, rows))
        flat = self._store.read_c(loaded)
        result = loaded.reference.accept(flat, loaded.layout)
        if result.ok and loaded.reference.operands.values == "integers":
            self._remember(loaded, flat)
        return result

    def _remember(self, loaded: Loaded, flat: np.ndarray[Any, Any]) -> None:
        """A result that the reference accepts is exact in every element: later candidates are compared with it."""
        if self._machine.device.facts.shares_cores:
            loaded.expected = flat.copy()
            return
        try:
            loaded.expected = self._machine.buffer(flat.nbytes, flat)
        except Refused:  # no room for a second C; the host goes on comparing
            return
        word = word_bytes(flat.itemsize)
        if word not in self._comparisons:
            source = (template_folder() / COMPARE_SOURCE).read_text(encoding="utf-8")
            self._comparisons[word] = self._machine.comparison(source, word)
            self._prove(loaded, flat)

    def _equals_expected(self, loaded: Loaded) -> bool:
        if isinstance(loaded.expected, np.ndarray):
            return count_differences(loaded.expected, self._store.read_c(loaded)) == 0
        return self._differences(loaded) == 0

    def _differences(self, loaded: Loaded) -> int:
        assert loaded.expected is not None and not isinstance(loaded.expected, np.ndarray)
        elements, size = loaded.layout.c.elements, loaded.problem.element_bytes
        return self._comparisons[word_bytes(size)].count(loaded.expected, loaded.c, elements, size)

    def _prove(self, loaded: Loaded, flat: np.ndarray[Any, Any]) -> None:
        """The comparison must see every planted error, and none where there is none; else it could pass anything."""
        if self._differences(loaded) != 0:
            raise RuntimeError("the comparison on the device finds differences where there are none")
        for error in planted_errors(flat, loaded.layout):
            place = error.index * flat.itemsize
            self._machine.write(loaded.c, np.frombuffer(error.data, np.uint8), byte_offset=place)
            if self._differences(loaded) != 1:
                raise RuntimeError(f"the comparison on the device does not see an error planted at: {error.place}")
            self._machine.write(loaded.c, flat[error.index : error.index + 1], byte_offset=place)

    def _read_rows(self, loaded: Loaded, rows: tuple[tuple[int, int], ...]) -> np.ndarray[Any, Any]:
        slab, size = loaded.layout.c, loaded.problem.element_bytes
        out = np.empty((len(rows), slab.columns), element_type(loaded.problem.dtype))
        for target, (index, row) in zip(out, rows, strict=True):
            self._machine.read(loaded.c, target, byte_offset=(slab.base + index * slab.stride + row * slab.ld) * size)
        return out
