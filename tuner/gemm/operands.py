"""PyOpenCL arrays as BLAS operands: where they start, how far apart rows and products lie, and what is refused."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from tuner.model import DTYPES, MAX_ALIGN_BYTES, Problem, UserError

USE_HOST_PTR = cl.mem_flags.USE_HOST_PTR
_LARGEST = 2**31


@dataclass(frozen=True)
class Operand:
    """One operand as a kernel is given it; all numbers count elements."""

    offset: int
    ld: int
    """From one row to the next."""
    stride: int
    """From one product of the batch to the next."""
    turned: bool
    """It lies in memory transposed: its columns are contiguous, not its rows."""


@dataclass(frozen=True)
class Call:
    """A product with everything but buffers and scalars: which kernel is needed and what its numbers are."""

    problem: Problem
    a: Operand
    b: Operand
    c: Operand
    swapped: bool
    """C lies transposed, so Cᵀ = op(B)ᵀ op(A)ᵀ is computed: the buffers of A and B change places."""
    no_sum: bool = False
    """k is 0, so C = beta·C: the product is one with k = 1 and alpha = 0, whose A and B are never read."""
    ends: tuple[int, int, int] = (0, 0, 0)
    """Bytes that the buffers of A, B and C must have at least."""


@dataclass(frozen=True)
class Home:
    """Where a buffer really lies."""

    root: int
    """The allocation: the buffer that a sub-buffer is part of, or the host's memory (0) that it was told to use."""
    start: int
    """Bytes from there."""

    @classmethod
    def of(cls, buffer: Any) -> Home:
        """The home of a buffer; a few tenths of a microsecond. Raises UserError for what is no buffer."""
        if not isinstance(buffer, cl.MemoryObjectHolder):  # also memory from a pool
            raise UserError(f"gemm() works on arrays in buffers, not in {type(buffer).__name__}; copy them first.")
        memory: Any = buffer  # PyOpenCL's types do not know what can be asked
        parent = memory.associated_memobject
        if parent is not None:
            try:
                whole = cls.of(parent)
            except cl.Error as error:  # Intel's driver forgets a buffer that only its sub-buffers hold
                raise UserError("keep the buffer alive that a sub-buffer is part of; its driver forgot it.") from error
            return cls(whole.root, whole.start + memory.get_info(cl.mem_info.OFFSET))
        if memory.get_info(cl.mem_info.FLAGS) & USE_HOST_PTR:
            return cls(0, _host_address(memory))
        return cls(memory.int_ptr, 0)


def _host_address(buffer: Any) -> int:
    host = buffer.get_host_array(1, np.uint8)
    return int(host.__array_interface__["data"][0])


def shape_of(a: cla.Array, b: cla.Array, trans_a: bool, trans_b: bool) -> tuple[int, ...]:
    """The shape of C. Raises UserError if A and B do not fit each other."""
    if a.ndim != b.ndim or a.ndim not in (2, 3):
        raise UserError(f"a and b must both be 2-D, or both 3-D (batch first); they are {a.ndim}-D and {b.ndim}-D.")
    if a.dtype != b.dtype:
        raise UserError(f"a and b must have one dtype; they have {a.dtype.name} and {b.dtype.name}.")
    m, k = a.shape[-2:][:: -1 if trans_a else 1]
    other, n = b.shape[-2:][:: -1 if trans_b else 1]
    if k != other:
        raise UserError(f"op(a) is {m}x{k} and op(b) is {other}x{n}: columns of a and rows of b must be equal.")
    if a.shape[:-2] != b.shape[:-2]:
        raise UserError(f"a has {a.shape[0]} products and b {b.shape[0]}: the batches must be equal.")
    return (*a.shape[:-2], m, n)


def describe_call(
    a: cla.Array, b: cla.Array, c: cla.Array, trans_a: bool, trans_b: bool, math_name: str, base_align: int
) -> Call:
    """The product that arrays of these shapes and strides are; `base_align` divides every buffer's address, in bytes.

    Raises UserError in one sentence for whatever is not served.
    """
    for name, flag in (("trans_a", trans_a), ("trans_b", trans_b)):
        if not isinstance(flag, (bool, np.bool_)):
            raise UserError(f"{name} must be True or False, not {flag!r}.")
    for name, array in (("a", a), ("b", b), ("c", c)):
        if not array.dtype.isnative:
            raise UserError(f"{name} has elements in another byte order than this machine's; convert it first.")
    shape = shape_of(a, b, trans_a, trans_b)
    if c.shape != shape:
        raise UserError(f"c is {_by(c.shape)}, but op(a)·op(b) is {_by(shape)}.")
    if c.dtype != a.dtype:
        raise UserError(f"c must have the dtype of a and b, {a.dtype.name}; it has {c.dtype.name}.")
    if a.dtype.name not in DTYPES:
        raise UserError(f"gemm() does not support {a.dtype.name}; use one of: {', '.join(DTYPES)}.")
    batch = shape[0] if len(shape) == 3 else 1
    ends = end_of(a), end_of(b), end_of(c)
    out = operand("c", c)
    m, n = shape[-2:][:: -1 if out.turned else 1]
    k = a.shape[-2] if trans_a else a.shape[-1]
    if k == 0:
        problem = Problem(m, n, 1, batch, a.dtype.name, math=math_name, align=c.dtype.itemsize)
        return Call(problem, Operand(0, 1, 0, False), Operand(0, n, 0, False), out, out.turned, no_sum=True, ends=ends)
    first, second = operand("a", a), operand("b", b)
    flip_a, flip_b = trans_a != first.turned, trans_b != second.turned
    if out.turned:
        first, second = second, first
        flip_a, flip_b = not flip_b, not flip_a
    align = _align(c.dtype.itemsize, base_align, batch, [first, second, out])
    problem = Problem(m, n, k, batch, a.dtype.name, flip_a, flip_b, math_name, align)
    return Call(problem, first, second, out, out.turned, ends=ends)


def end_of(array: cla.Array) -> int:
    """Bytes from the buffer's start to the array's last element and past it; 0 without elements."""
    if array.size == 0:
        return 0
    last = sum((count - 1) * stride for count, stride in zip(array.shape, array.strides, strict=True) if stride > 0)
    return int(array.offset + last + array.dtype.itemsize)


def operand(name: str, array: cla.Array) -> Operand:
    """How an array lies. Raises UserError unless its rows, or else its columns, are contiguous and disjoint."""
    size = array.dtype.itemsize
    if array.size == 0:
        return Operand(0, 1, 0, False)
    rows, columns = array.shape[-2:]
    down, across = array.strides[-2:]
    ld = _leading(rows, columns, down, across, size)
    turned = ld is None
    if ld is None:
        ld = _leading(columns, rows, across, down, size)
    stride = array.strides[0] if array.ndim == 3 and array.shape[0] > 1 else 0
    if ld is None or array.offset % size or stride % size or stride < 0:
        raise UserError(
            f"{name} has the strides {array.strides} (bytes) and the offset {array.offset}: gemm() takes arrays whose "
            f"rows or columns are contiguous, apart and in ascending order; use {name}.copy()."
        )
    used = ((columns if turned else rows) - 1) * ld + (rows if turned else columns)
    if name == "c" and array.ndim == 3 and array.shape[0] > 1 and stride < used * size:
        raise UserError(f"the products of c overlap: they are {stride} bytes apart and {used * size} long.")
    return Operand(array.offset // size, ld, stride // size, turned)


def _leading(rows: int, columns: int, down: int, across: int, size: int) -> int | None:
    """The leading dimension if rows are contiguous and apart; of a single row it is the row's own length."""
    if columns > 1 and across != size:
        return None
    if rows == 1:
        return columns
    return down // size if down % size == 0 and columns <= down // size < _LARGEST else None


def _align(size: int, base_align: int, batch: int, operands: list[Operand]) -> int:
    """Bytes, as `Problem.align` has them: what divides every base, leading dimension and batch stride."""
    numbers = [base_align, MAX_ALIGN_BYTES]
    for one in operands:
        numbers += [one.offset * size, one.ld * size]
        if batch > 1:
            numbers.append(one.stride * size)
    return max(math.gcd(*numbers), size)


def overlap(c: cla.Array, c_home: Home, other: cla.Array, home: Home) -> bool:
    """Whether two arrays share an element."""
    if c_home.root != home.root or 0 in (c.size, other.size):
        return False
    return _share(
        (c_home.start + c.offset - home.start - other.offset, c.shape, c.strides),
        (0, other.shape, other.strides),
        c.dtype.itemsize,
        other.dtype.itemsize,
    )


_View = tuple[int, tuple[int, ...], tuple[int, ...]]
_ANYWHERE = 2**62
"""An address that is never read: only distances matter."""


@functools.lru_cache(4096)
def _share(one: _View, other: _View, size: int, other_size: int) -> bool:
    return bool(np.shares_memory(_fake(*one, size), _fake(*other, other_size)))


def _fake(start: int, shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> np.ndarray[Any, Any]:
    """An array that lies there and must not be read: numpy's exact test of overlap looks at bounds and strides only."""

    where = {
        "version": 3,
        "data": (_ANYWHERE + start, True),
        "shape": shape,
        "strides": strides,
        "typestr": f"|V{size}",
    }
    return np.asarray(SimpleNamespace(__array_interface__=where))


def _by(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))
