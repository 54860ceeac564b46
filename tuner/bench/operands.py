"""Operands in device memory, kept from candidate to candidate, and what the device holds of the expected result."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any
from weakref import ReferenceType, ref

import numpy as np

from tuner.model import Problem, Verdict
from tuner.opencl.refusal import Refused
from tuner.opencl.run import Buffer, Machine, Program
from tuner.verify import Factors, Layout, Reference, References, Values, element_type, nan_bits, real_type

SCRATCH_GUARD_BYTES = 2**16
"""In front of every scratch buffer, and behind it: a kernel that writes outside of it is found out."""

_UNWRITTEN = np.full(1, 0xFFFFFFFF, np.uint32)
"""Fills scratch before each checked run: NaN in every float type, so that nothing is taken over from another run."""


@dataclass
class Loaded:
    """One set of operands in one layout on the device."""

    reference: Reference
    layout: Layout
    a: Buffer
    b: Buffer
    c: Buffer
    bytes: int
    factors: ReferenceType[Factors] | None = None
    """A and B on the host, by which other kinds of call find the same ones on the device; they may be let go."""
    expected: Buffer | np.ndarray[Any, Any] | None = field(default=None)
    """C's whole buffer as a right kernel leaves it, once known: on the device, or on the host if that is the device."""

    @property
    def problem(self) -> Problem:
        """The problem these are operands of."""
        return self.layout.problem

    def arguments(self) -> tuple[Any, ...]:
        """The common argument list of every kernel; see the families' `GEMM_ARGUMENTS`."""
        p, kind = self.problem, self.reference.operands.kind
        real = real_type(p.dtype).type
        packed: list[Any] = [np.int32(p.m), np.int32(p.n), np.int32(p.k)]
        for scalar, buffer, slab in (
            (kind.alpha, self.a, self.layout.a),
            (None, self.b, self.layout.b),
            (kind.beta, self.c, self.layout.c),
        ):
            packed += [] if scalar is None else [real(scalar)]
            packed += [buffer, np.int64(slab.base), np.int32(slab.ld), np.int64(slab.stride)]
        return tuple(packed)


class OperandStore:
    """Loads operands, keeps the latest that fit in half of the device's memory, and restores what a kernel spoiled."""

    def __init__(self, machine: Machine) -> None:
        """Start with nothing loaded."""
        self._machine = machine
        self._references = References()
        self._kept: OrderedDict[tuple[Problem, int, Values, str, bool], Loaded] = OrderedDict()
        self._budget = machine.device.facts.global_mem_bytes // 2

    def get(self, problem: Problem, seed: int, values: Values, kind: str, pad_rows: bool) -> Loaded:
        """The operands of these arguments in device memory. Raises Refused (`unsupported`) if they do not fit."""
        key = (problem, seed, values, kind, pad_rows)
        if key not in self._kept:
            layout = Layout(problem, pad_rows)
            needed = sum(slab.elements for slab in (layout.a, layout.b, layout.c)) * problem.element_bytes
            self._make_room(needed)
            self._kept[key] = self._load(self._references.get(problem, seed, values, kind), layout, needed)
        self._kept.move_to_end(key)
        return self._kept[key]

    def reset_c(self, loaded: Loaded) -> None:
        """C as it is before every checked run: NaN, or the values that beta asks for."""
        operands = loaded.reference.operands
        if operands.kind.reads_c:
            self._machine.write(loaded.c, operands.flat_c(loaded.layout))
        else:
            pattern = nan_bits(loaded.problem, "c")
            self._machine.fill(loaded.c, pattern, loaded.layout.c.elements * loaded.problem.element_bytes)

    def read_c(self, loaded: Loaded) -> np.ndarray[Any, Any]:
        """All of C's buffer, guard zones included."""
        flat = np.empty(loaded.layout.c.elements, element_type(loaded.problem.dtype))
        self._machine.read(loaded.c, flat)
        return flat

    def is_intact(self, loaded: Loaded) -> bool:
        """No kernel has written to A or B."""
        operands, layout = loaded.reference.operands, loaded.layout
        for buffer, flat in ((loaded.a, operands.flat_a(layout)), (loaded.b, operands.flat_b(layout))):
            found = np.empty_like(flat)
            self._machine.read(buffer, found)
            words = f"u{flat.itemsize}"
            if not np.array_equal(found.view(words), flat.view(words)):
                return False
        return True

    def forget(self) -> None:
        """Drop everything on the device, because a kernel may have written anywhere; references stay."""
        self._kept.clear()

    def _load(self, reference: Reference, layout: Layout, needed: int) -> Loaded:
        operands, machine = reference.operands, self._machine
        twin = self._twin(operands.factors, layout)
        if twin is None:
            a, b = (machine.buffer(flat.nbytes, flat) for flat in (operands.flat_a(layout), operands.flat_b(layout)))
        else:
            a, b = twin.a, twin.b
        c = machine.buffer(layout.c.elements * layout.problem.element_bytes)
        factors = None if operands.factors is None else ref(operands.factors)
        return Loaded(reference, layout, a, b, c, needed, factors=factors)

    def _twin(self, factors: Factors | None, layout: Layout) -> Loaded | None:
        """Operands of another kind of call that has the same A and B, in the same layout, on the device already."""
        if factors is None:
            return None
        others = (other for other in self._kept.values() if other.factors is not None and other.factors() is factors)
        return next((other for other in others if other.layout == layout), None)

    def _make_room(self, needed: int) -> None:
        available = self._machine.device.facts.global_mem_bytes
        if needed > available:
            message = f"the operands need {needed / 2**30:.2f} GiB, the device has {available / 2**30:.2f} GiB"
            raise Refused(Verdict.UNSUPPORTED, message)
        while self._kept and needed + sum(loaded.bytes for loaded in self._kept.values()) > self._budget:
            self._kept.popitem(last=False)


class Bound:
    """A program with its scratch buffers, ready to be pointed at operands and launched."""

    def __init__(self, machine: Machine, program: Program) -> None:
        """Allocate scratch. Raises Refused if the device has no room."""
        self.program = program
        self._machine = machine
        self._scratch = {name: _Scratch(machine, size) for name, size in program.scratch.items()}

    def point_at(self, loaded: Loaded) -> None:
        """Set every kernel's arguments."""
        common = loaded.arguments()
        for kernel, step in self.program.steps:
            kernel.set_args(*common, *(self._scratch[name].given for name in step.scratch))

    def reset_scratch(self) -> None:
        """Fill scratch and its guard zones."""
        for scratch in self._scratch.values():
            scratch.reset()

    def overrun_scratch(self) -> str | None:
        """Where a kernel has written outside of its scratch buffers, in words; or None."""
        for name, scratch in self._scratch.items():
            if place := scratch.overrun():
                return f"{place} the scratch buffer {name!r}"
        return None


class _Scratch:
    """One scratch buffer: a region in the middle of a larger one, between two guard zones."""

    def __init__(self, machine: Machine, size: int) -> None:
        align = math.lcm(4, max(1, machine.device.facts.base_align_bytes))
        self._machine = machine
        self._front = -(-SCRATCH_GUARD_BYTES // align) * align
        self._end = self._front + size
        self._bytes = -(-self._end // 4) * 4 + SCRATCH_GUARD_BYTES
        self._whole = machine.buffer(self._bytes)
        self.given = machine.region(self._whole, self._front, size)
        """What kernels are given."""

    def reset(self) -> None:
        self._machine.fill(self._whole, _UNWRITTEN, self._bytes)

    def overrun(self) -> str:
        """On which side it was written outside, or nothing."""
        for place, start, end in (("before the start of", 0, self._front), ("past the end of", self._end, self._bytes)):
            guard = np.empty(end - start, np.uint8)
            self._machine.read(self._whole, guard, byte_offset=start)
            if not (guard == 0xFF).all():
                return place
        return ""
