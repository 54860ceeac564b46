"""Operands in device memory, kept from candidate to candidate, and what the device holds of the expected result."""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from weakref import ReferenceType, ref

import numpy as np

from tuner.bench.copies import Copies
from tuner.model import Problem, Verdict
from tuner.opencl.refusal import Refused
from tuner.opencl.run import Buffer, Machine, Program
from tuner.verify import (
    CheckResult,
    Kind,
    Layout,
    Name,
    Operands,
    Reference,
    References,
    Shared,
    Values,
    element_type,
    kind_named,
    real_type,
)
from tuner.verify.layout import PIECE_ELEMENTS

SCRATCH_GUARD_BYTES = 2**16
"""In front of every scratch buffer, and behind it: a kernel that writes outside of it is found out."""

_NAN, _ZERO, _NUMBERS = (np.full(1, word, np.uint32) for word in (0xFFFFFFFF, 0, 0x4B3A2918))
"""Fill scratch and what surrounds it before a checked run, so that nothing is taken over from another one: NaN in every
float type; zeros, as much of a new buffer has; or finite numbers in every type."""

_ZEROS = np.zeros(1, np.uint8)
"""Fills scratch that a kernel is promised to find all zeros."""


@dataclass(frozen=True, eq=False)
class Accepted:
    """What came of a kernel and was judged right: another that leaves the very same bits is right too."""

    c: Buffer | np.ndarray[Any, Any]
    """C's whole buffer, guard zones included: on the device, or on the host if that is the device."""
    result: CheckResult


@dataclass
class Loaded:
    """One set of operands in one layout on the device."""

    reference: Reference
    layout: Layout
    a: Buffer
    b: Buffer
    c: Buffer
    bytes: int
    before: Buffer | None = None
    """C as it is before each run, where the kernel reads it: copied on the device, not sent there for each run."""
    sources: dict[Name, ReferenceType[Shared]] = field(default_factory=dict)
    """What is on the host, by which other kinds of call find the same on the device; it may be let go."""
    copies: dict[Name, Buffer] = field(default_factory=dict)
    """Of what no kernel may write to, made before any kernel ran, where the device has memory of its own."""
    accepted: list[Accepted] = field(default_factory=list)
    """Results that were judged right, the latest first."""

    @property
    def problem(self) -> Problem:
        """The problem these are operands of."""
        return self.layout.problem

    def given(self) -> Iterator[tuple[Name, Buffer]]:
        """What no kernel may write to, by the operand whose values it has."""
        yield from (("a", self.a), ("b", self.b))
        if self.before is not None:
            yield "c", self.before

    def buffer_of(self, name: Name) -> Buffer | None:
        """That of `given` with the values of `name`."""
        return dict(self.given()).get(name)

    def arguments(self) -> tuple[Any, ...]:
        """The common argument list of every kernel; see the families' `GEMM_ARGUMENTS`."""
        p, kind = self.problem, self.reference.kind
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
        self._host = np.empty(0, np.uint8)
        self._budget = machine.device.facts.global_mem_bytes // 2
        self._copies = Copies(machine)

    def get(self, problem: Problem, seed: int, values: Values, kind: str, pad_rows: bool) -> Loaded:
        """The operands of these arguments in device memory. Raises Refused (`unsupported`) if they do not fit."""
        key = (problem, seed, values, kind, pad_rows)
        if key not in self._kept:
            layout = Layout(problem, pad_rows, kind_named(kind).finite)
            held: tuple[Name, ...] = ("a", "b", "c", "c") if kind_named(kind).reads_c else ("a", "b", "c")
            needed = sum(layout.bytes_of(name) for name in held)
            self._make_room(needed)
            self._kept[key] = self._load(self._references.get(problem, seed, values, kind), layout, needed)
        self._kept.move_to_end(key)
        return self._kept[key]

    def reset_c(self, loaded: Loaded, over: float | None = None) -> None:
        """C as it is before every checked run: NaN, or the values that beta asks for.

        `over`: where beta asks for none and C lies in one piece, this number, as an earlier product may have left one.
        """
        slab, size = loaded.layout.c, loaded.problem.element_bytes
        if loaded.before is not None:
            self._machine.copy(loaded.before, loaded.c, loaded.layout.bytes_of("c"))
            return
        around = loaded.layout.around("c")
        self._machine.fill(loaded.c, around, loaded.layout.bytes_of("c"))
        if over is not None and slab.is_dense:
            number = np.full(1, over, element_type(loaded.problem.dtype)).view(around.dtype)
            self._machine.fill(loaded.c, number, slab.batch * slab.rows * slab.columns * size, slab.base * size)

    def read_c(self, loaded: Loaded) -> np.ndarray[Any, Any]:
        """All of C's buffer, guard zones included; in memory that the next call overwrites."""
        flat = self._room(loaded.layout.c.elements, element_type(loaded.problem.dtype))
        self._machine.read(loaded.c, flat)
        return flat

    def is_intact(self, loaded: Loaded) -> bool:
        """No kernel has written to A or B, or to what C is copied from."""
        return all(self._is_as_sent(loaded, name, buffer) for name, buffer in loaded.given())

    def restore(self, loaded: Loaded) -> None:
        """Write to the device anew what `is_intact` looks at."""
        for name, buffer in loaded.given():
            self._send(loaded.reference.operands, loaded.layout, name, buffer)
            if name in loaded.copies:  # which a kernel may have hit just as well
                self._machine.copy(buffer, loaded.copies[name], loaded.layout.bytes_of(name))

    def forget(self) -> None:
        """Drop everything on the device, because a kernel may have written anywhere; references stay."""
        self._kept.clear()

    def _load(self, reference: Reference, layout: Layout, needed: int) -> Loaded:
        operands = reference.operands
        names: tuple[Name, ...] = ("a", "b", "c") if operands.kind.reads_c else ("a", "b")
        placed = {name: self._placed(operands, layout, name) for name in names}
        c = self._machine.buffer(layout.bytes_of("c"))
        sources = {name: ref(source) for name in names if (source := operands.source(name)) is not None}
        copies = {name: copy for name, (_, copy) in placed.items() if copy is not None}
        needed += sum(layout.bytes_of(name) for name in copies)
        before = placed["c"][0] if "c" in placed else None
        return Loaded(reference, layout, placed["a"][0], placed["b"][0], c, needed, before, sources, copies)

    def _placed(self, operands: Operands, layout: Layout, name: Name) -> tuple[Buffer, Buffer | None]:
        """(buffer, copy): those of another kind of call that has the same values in the same layout, or new ones."""
        source = operands.source(name)
        for other in self._kept.values():
            held = other.sources.get(name)
            if source is not None and held is not None and held() is source and other.layout == layout:
                buffer = other.buffer_of(name)
                assert buffer is not None
                return buffer, other.copies.get(name)
        buffer = self._machine.buffer(layout.bytes_of(name))
        self._send(operands, layout, name, buffer)
        return buffer, self._copies.of(buffer, layout.bytes_of(name))

    def _send(self, operands: Operands, layout: Layout, name: Name, buffer: Buffer) -> None:
        """What surrounds it everywhere, by the device itself, then the values piece by piece."""
        size = layout.problem.element_bytes
        self._machine.fill(buffer, layout.around(name), layout.bytes_of(name))
        for first, piece in operands.pieces(name, layout):
            self._machine.write(buffer, piece, byte_offset=first * size)

    def _is_as_sent(self, loaded: Loaded, name: Name, buffer: Buffer) -> bool:
        """`buffer` has the very bits that were sent, and around them what was there.

        Compared with the copy on the device, or read back piece by piece.
        """
        if name in loaded.copies:
            elements = loaded.layout.slab(name).elements
            return self._copies.same(loaded.copies[name], buffer, elements, loaded.problem.element_bytes)
        size, end = loaded.problem.element_bytes, 0
        nan = loaded.layout.around(name)
        nothing = loaded.layout.slab(name).elements, np.empty(0, nan.dtype)
        for first, piece in itertools.chain(loaded.reference.operands.pieces(name, loaded.layout), [nothing]):
            while end < first:  # what lies around the values
                around = self._room(min(first - end, PIECE_ELEMENTS), nan.dtype)
                self._machine.read(buffer, around, byte_offset=end * size)
                if not (around == nan).all():
                    return False
                end += around.size
            found = self._room(piece.size, nan.dtype)
            if piece.size:
                self._machine.read(buffer, found, byte_offset=end * size)
            if not np.array_equal(found, piece.view(nan.dtype)):
                return False
            end += piece.size
        return True

    def _room(self, elements: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """Memory of the host that is used again and again: pages that are new cost more than what is done with them."""
        size = elements * dtype.itemsize
        if self._host.size < size:
            self._host = np.empty(size, np.uint8)
        return self._host[:size].view(dtype)

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
        self._scratch = {
            name: _Scratch(machine, size, zeroed=name in program.zeroed) for name, size in program.scratch.items()
        }

    def point_at(self, loaded: Loaded) -> None:
        """Set every kernel's arguments."""
        common = loaded.arguments()
        for kernel, step in self.program.steps:
            # One by one: `set_args` first makes Python code for each kernel and compiles it, which takes longer.
            for index, argument in enumerate((*common, *(self._scratch[name].given for name in step.scratch))):
                kernel.set_arg(index, argument)

    def reset_scratch(self, kind: Kind) -> None:
        """Fill scratch and its guard zones, with other things for other kinds of call."""
        word = _NAN if not kind.reads_c else _ZERO if kind.alpha == 1 else _NUMBERS
        for scratch in self._scratch.values():
            scratch.reset(word)

    def misused_scratch(self) -> str | None:
        """How a kernel has used a scratch buffer as it must not, in words; or None."""
        for name, scratch in self._scratch.items():
            if place := scratch.overrun():
                return f"it writes {place} the scratch buffer {name!r}"
            if not scratch.is_as_promised():
                return f"it does not leave the scratch buffer {name!r} all zeros, as it found it"
        return None


class _Scratch:
    """One scratch buffer: a region in the middle of a larger one, between two guard zones."""

    def __init__(self, machine: Machine, size: int, *, zeroed: bool) -> None:
        align = math.lcm(4, max(1, machine.device.facts.base_align_bytes))
        self._machine = machine
        self._front = -(-SCRATCH_GUARD_BYTES // align) * align
        self._end = self._front + size
        self._size, self._zeroed = size, zeroed
        self._word = _NAN
        self._bytes = -(-self._end // 4) * 4 + SCRATCH_GUARD_BYTES
        self._whole = machine.buffer(self._bytes)
        self.given = machine.region(self._whole, self._front, size)
        """What kernels are given."""

    def reset(self, word: np.ndarray[Any, Any]) -> None:
        self._word = word
        self._machine.fill(self._whole, word, self._bytes)
        if self._zeroed:
            self._machine.fill(self.given, _ZEROS, self._size)

    def is_as_promised(self) -> bool:
        """All zeros, if kernels are promised to find it so: the next product must find it so, too."""
        if not self._zeroed:
            return True
        found = np.empty(self._size, np.uint8)
        self._machine.read(self.given, found)
        return not found.any()

    def overrun(self) -> str:
        """On which side it was written outside, or nothing."""
        for place, start, end in (("before the start of", 0, self._front), ("past the end of", self._end, self._bytes)):
            guard = np.empty(end - start, np.uint8)
            self._machine.read(self._whole, guard, byte_offset=start)
            if not np.array_equal(guard, _repeated(self._word.tobytes(), start % 4, end - start)):
                return place
        return ""


@lru_cache(maxsize=32)
def _repeated(word: bytes, skipped: int, count: int) -> np.ndarray[Any, Any]:
    """`count` bytes of a word again and again, after the first `skipped`."""
    return np.resize(np.roll(np.frombuffer(word, np.uint8), -skipped), count)
