"""Arrays to multiply, in every layout that gemm() takes, each inside a larger buffer whose rest must stay as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from tuner.model import DTYPES
from tuner.verify import element_type

Host = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Layout:
    """How an array lies: elements before it and between rows and products, and whether columns are contiguous."""

    before: int = 0
    between_rows: int = 0
    between_products: int = 0
    turned: bool = False


layouts = st.builds(Layout, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.booleans())


class Placed:
    """An array on the device and the host's copy of the whole buffer it is part of."""

    def __init__(self, queue: cl.CommandQueue, values: Host, layout: Layout) -> None:
        rows, columns = values.shape[-2:]
        along, across = (rows, columns) if layout.turned else (columns, rows)
        ld = along + layout.between_rows
        stride = ld * across + layout.between_products
        batch = values.shape[0] if values.ndim == 3 else 1
        size = values.itemsize
        inner = (size, ld * size) if layout.turned else (ld * size, size)
        self.strides = (stride * size, *inner) if values.ndim == 3 else inner
        self.offset = layout.before * size
        self.shape = values.shape
        self.whole = np.full(layout.before + stride * batch + 16, np.nan, values.dtype)
        self.view(self.whole)[...] = values
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        buffer = cl.Buffer(queue.context, flags, hostbuf=self.whole.view(np.uint8))
        self.array = cla.Array(queue, values.shape, values.dtype, strides=self.strides, data=buffer, offset=self.offset)

    def view(self, whole: Host) -> Host:
        """The array's elements in a copy of the whole buffer."""
        start = self.offset // whole.itemsize
        return as_strided(whole[start:], self.shape, self.strides)

    def fetched(self, queue: cl.CommandQueue) -> Host:
        """The whole buffer as the device has it now, after the array's events."""
        whole, buffer = np.empty_like(self.whole), self.array.base_data
        assert isinstance(buffer, cl.Buffer)
        cl.enqueue_copy(queue, whole.view(np.uint8), buffer, wait_for=self.array.events)
        return whole


@dataclass(frozen=True)
class Product:
    """What is multiplied, and how."""

    m: int
    n: int
    k: int
    batch: int | None
    dtype: str
    trans_a: bool
    trans_b: bool
    alpha: float
    beta: float
    layouts: tuple[Layout, Layout, Layout]
    seed: int


def products(dtypes: list[str], largest: int = 300) -> st.SearchStrategy[Product]:
    """Any product of these types."""
    side = st.one_of(st.integers(0, 20), st.integers(0, largest))
    scalar = st.sampled_from([0.0, 1.0, -1.0, 0.5, -2.25])
    return st.builds(
        Product,
        side,
        side,
        side,
        st.sampled_from([None, None, 0, 1, 2, 3]),
        st.sampled_from(dtypes),
        st.booleans(),
        st.booleans(),
        scalar,
        scalar,
        st.tuples(layouts, layouts, layouts),
        st.integers(0, 99),
    )


def operands(queue: cl.CommandQueue, p: Product) -> tuple[Placed, Placed, Placed]:
    """A, B and C of a product; where BLAS does not read C it is NaN, and where A and B are not read, they are."""
    rng = np.random.default_rng(p.seed)
    front = () if p.batch is None else (p.batch,)
    shapes = [(p.k, p.m) if p.trans_a else (p.m, p.k), (p.n, p.k) if p.trans_b else (p.k, p.n), (p.m, p.n)]
    hosts = [rng.uniform(-1, 1, (*front, *shape)).astype(element_type(p.dtype)) for shape in shapes]
    if p.alpha == 0:
        hosts[0][...] = hosts[1][...] = np.nan
    if p.beta == 0:
        hosts[2][...] = np.nan
    a, b, c = (Placed(queue, host, layout) for host, layout in zip(hosts, p.layouts, strict=True))
    return a, b, c


def check(queue: cl.CommandQueue, p: Product, a: Placed, b: Placed, c: Placed) -> None:
    """C is right by numpy in float64, with a bound that a lost product breaks; all else is as it was."""
    for placed in (a, b):
        assert np.array_equal(placed.fetched(queue), placed.whole, equal_nan=True)
    found, expected = c.fetched(queue), c.whole.copy()
    value, magnitude = _reference(p, *(placed.view(placed.whole).astype(np.float64) for placed in (a, b, c)))
    dtype = DTYPES[p.dtype]
    bound = (8 + 8 * np.sqrt(p.k)) * dtype.unit_roundoff * magnitude
    bound += dtype.stored_roundoff * (np.abs(value) + bound) + dtype.stored_least
    wrong = ~(np.abs(c.view(found).astype(np.float64) - value) <= bound)
    assert not wrong.any(), f"{int(wrong.sum())} of {wrong.size} elements are wrong"
    c.view(expected)[...] = c.view(found)
    assert np.array_equal(found, expected, equal_nan=True), "something outside of C was written"


def _reference(p: Product, a: Host, b: Host, c: Host) -> tuple[Host, Host]:
    """The product, and the sum of the magnitudes of all that was added."""
    op_a = np.swapaxes(a, -1, -2) if p.trans_a else a
    op_b = np.swapaxes(b, -1, -2) if p.trans_b else b
    value = np.zeros(c.shape) if p.alpha == 0 else p.alpha * (op_a @ op_b)
    magnitude = np.zeros(c.shape) if p.alpha == 0 else abs(p.alpha) * (np.abs(op_a) @ np.abs(op_b))
    if p.beta != 0:
        value, magnitude = value + p.beta * c, magnitude + np.abs(p.beta * c)
    return value, magnitude
