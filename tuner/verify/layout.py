"""Where A, B and C lie in their buffers: bases, leading dimensions, batch strides and the guard zones around them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import ml_dtypes
import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from tuner.model import DTYPES, MAX_ALIGN_BYTES, Problem, operand_shapes

Array = NDArray[Any]
Name = Literal["a", "b", "c"]


def element_type(dtype: str) -> np.dtype[Any]:
    """numpy's type of the elements of A, B and C; bfloat16 is ml_dtypes'."""
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def real_type(dtype: str) -> np.dtype[Any]:
    """numpy's type of alpha, beta and of sums."""
    return np.dtype(DTYPES[dtype].real)


GUARD_ROWS = 256
"""Rows before and after each buffer: a kernel without an edge test runs over by up to a tile, into our memory."""

MAX_GUARD_ELEMENTS = 2**23
"""Cap of one guard zone, so that very wide matrices do not need gigabytes of it."""

_ROW_GAP_ELEMENTS = 8
"""Least gap between rows of the padded layout."""

_BASE_BYTES = 256
"""Bases of the timed layout lie at such multiples, as allocators give them, if the problem promises full alignment."""


@dataclass(frozen=True)
class Slab:
    """One operand in its flat buffer; every number counts elements."""

    batch: int
    rows: int
    columns: int
    ld: int
    stride: int
    """From one matrix of the batch to the next."""
    base: int
    """Offset of the first element: the length of the guard zone in front."""
    elements: int
    """Length of the whole buffer, guard zones included."""

    @property
    def is_dense(self) -> bool:
        """The matrices lie one after the other with nothing between their elements."""
        in_rows = self.ld == self.columns or self.rows == 1
        return in_rows and (self.batch == 1 or self.stride == self.rows * self.columns)

    def view(self, flat: Array) -> Array:
        """The matrices in `flat`, without their surroundings: a (batch, rows, columns) view."""
        return self._window(flat, self.base, (self.batch, self.rows, self.columns), (self.stride, self.ld))

    def outside(self, flat: Array) -> Iterator[tuple[str, Array]]:
        """(place, view) for each guard zone of `flat`; together they are exactly what `view` leaves out."""
        matrix = (self.rows - 1) * self.ld + self.columns
        end = self.base + (self.batch - 1) * self.stride + matrix
        yield "before the first element", self._window(flat, 0, (self.base,), ())
        yield "after the last element", self._window(flat, end, (self.elements - end,), ())
        if self.rows > 1 and self.ld > self.columns:
            gap = (self.batch, self.rows - 1, self.ld - self.columns)
            yield "between rows", self._window(flat, self.base + self.columns, gap, (self.stride, self.ld))
        if self.batch > 1 and self.stride > matrix:
            gaps = (self.batch - 1, self.stride - matrix)
            yield "between matrices of the batch", self._window(flat, self.base + matrix, gaps, (self.stride,))

    def _window(self, flat: Array, first: int, shape: tuple[int, ...], steps: tuple[int, ...]) -> Array:
        if flat.shape != (self.elements,) or not flat.flags.c_contiguous:
            raise ValueError(f"a flat buffer of {self.elements} elements is needed, not one of shape {flat.shape}")
        strides = tuple(step * flat.itemsize for step in (*steps, 1))
        return as_strided(flat[first:], shape, strides)


@dataclass(frozen=True)
class Layout:
    """The three buffers of one product.

    Without `pad_rows` rows lie as close as `problem.align` allows: what users have, and what is timed. With `pad_rows`
    there are guard elements between rows and between the matrices of a batch too. Bases are aligned to `problem.align`
    and no better wherever it promises less than 16 bytes, and always in the padded layout (there leading dimensions,
    too): a kernel that counts on more than was promised is found out.

    What lies around the matrices is NaN, which shows what was read there, or `finite` numbers, which show what was
    changed there: a NaN that is added to or multiplied stays as it was.

    Raises ValueError if the problem has an empty dimension.
    """

    problem: Problem
    pad_rows: bool = False
    finite: bool = False

    def __post_init__(self) -> None:
        if 0 in (self.problem.m, self.problem.n, self.problem.k, self.problem.batch):
            raise ValueError(f"{self.problem} has an empty dimension, so there is nothing to lay out")

    @cached_property
    def a(self) -> Slab:
        """A as stored: m×k, or k×m when transposed."""
        return self._slab(0)

    @cached_property
    def b(self) -> Slab:
        """B as stored: k×n, or n×k when transposed."""
        return self._slab(1)

    @cached_property
    def c(self) -> Slab:
        """C: m×n."""
        return self._slab(2)

    def slab(self, name: Name) -> Slab:
        """The buffer of A, B or C."""
        return {"a": self.a, "b": self.b, "c": self.c}[name]

    def bytes_of(self, name: Name) -> int:
        """The size of the buffer of A, B or C."""
        return self.slab(name).elements * self.problem.element_bytes

    def around(self, name: Name) -> Array:
        """The bits that surround A, B or C, as a 0-d array of unsigned words."""
        nan = nan_bits(self.problem, name)
        if not self.finite:
            return nan
        return np.array(_FINITE[name], element_type(self.problem.dtype)).view(nan.dtype)

    def filled(self, name: Name) -> Array:
        """A flat buffer for A, B or C with that in every element."""
        return np.full(self.slab(name).elements, self.around(name)).view(element_type(self.problem.dtype))

    def _slab(self, operand: int) -> Slab:
        rows, columns = operand_shapes(self.problem)[operand]
        unit = self.problem.align // self.problem.element_bytes
        ld = _round_up(columns + _ROW_GAP_ELEMENTS * self.pad_rows, unit)
        if self.pad_rows and ld // unit % 2 == 0:
            ld += unit
        if self.pad_rows:  # no operand's ld, base or stride is another's: a kernel that confuses them must show
            taken = {self._slab(earlier).ld for earlier in range(operand)}
            while ld in taken:
                ld += 2 * unit
        guard = max(min(GUARD_ROWS * ld, MAX_GUARD_ELEMENTS), ld)
        base = _round_up(guard, _BASE_BYTES // self.problem.element_bytes)
        if self.pad_rows or self.problem.align < MAX_ALIGN_BYTES:
            base += unit * (1 + 2 * operand * self.pad_rows)
        stride = (rows + self.pad_rows) * ld
        elements = base + (self.problem.batch - 1) * stride + (rows - 1) * ld + columns + guard
        return Slab(self.problem.batch, rows, columns, ld, stride, base, elements)


def _round_up(count: int, unit: int) -> int:
    return -(-count // unit) * unit


_NAN_BITS = {
    "float16": {"a": 0x7EA1, "b": 0x7EB1, "c": 0x7FC5},
    "bfloat16": {"a": 0x7FE1, "b": 0x7FD2, "c": 0x7FC5},
    "float32": {"a": 0x7FC0A0A1, "b": 0x7FC0B0B1, "c": 0x7FC5C3C5},
    "float64": {"a": 0x7FF8A0A1A0A1A0A1, "b": 0x7FF8B0B1B0B1B0B1, "c": 0x7FF8C5C3C5C3C5C3},
}
"""Quiet NaNs that no arithmetic invents. Processors hand on the payload of an operand, so each buffer has its own: what
was read outside A or B and written outside C does not look like an untouched guard of C."""


_FINITE: Mapping[Name, float] = {"a": 11.5, "b": -13.25, "c": 23.75}
"""Numbers that every type holds and no operand has."""


def nan_bits(problem: Problem, operand: str) -> Array:
    """The NaN that fills the surroundings of operand "a", "b" or "c", as a 0-d array of unsigned words."""
    return np.array(_NAN_BITS[problem.dtype][operand], dtype=f"u{problem.element_bytes}")


_HALVES = np.arange(256, dtype=np.uint8).view(np.int8).astype(np.float16)
"""By the byte of an int8: numpy converts these to float16 one by one, twice as slowly as it looks them up."""


def _are_halves(target: Array, some: Array) -> bool:
    return target.dtype == np.float16 and some.dtype == np.int8


PIECE_ELEMENTS = 2**20
"""Of an operand that goes to a device piece by piece."""


def pieces(layout: Layout, name: Name, values: Array) -> Iterator[tuple[int, Array]]:
    """(first element, elements) of consecutive parts of a flat buffer for A, B or C that holds `values`.

    Together they cover it from the first element of a matrix to the last one. They share their memory.
    """
    slab = layout.slab(name)
    of_matrix = slab.stride // slab.ld
    matrices = max(1, PIECE_ELEMENTS // slab.stride)
    rows = slab.rows if matrices > 1 else min(slab.rows, max(1, PIECE_ELEMENTS // slab.ld))
    room = np.full(matrices * max(rows, of_matrix if matrices > 1 else 0) * slab.ld, layout.around(name))
    room = room.view(element_type(layout.problem.dtype))
    for matrix in range(0, slab.batch, matrices):
        for row in range(0, slab.rows, rows):
            some = values[matrix : matrix + matrices, row : row + rows]
            count, height = some.shape[:2]
            step = (slab.stride if count > 1 else 0, slab.ld, 1)
            target = as_strided(room, some.shape, tuple(s * room.itemsize for s in step))
            target[...] = np.take(_HALVES, some.view(np.uint8), mode="clip") if _are_halves(target, some) else some
            end = (count - 1) * slab.stride + (height - 1) * slab.ld + slab.columns
            yield slab.base + matrix * slab.stride + row * slab.ld, room[:end]
