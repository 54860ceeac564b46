"""Products computed on the host, independent of any device: blocked float64, integers modulo 2^64, exact elements."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import DTypeLike

from tuner.verify.layout import Array
from tuner.verify.parallel import each

BLOCK_ELEMENTS = 2**20
"""Elements converted to a wider type at a time and by each thread. It bounds the memory that conversion takes; larger
blocks would come from the system anew each time, and fetching pages costs more than what is done with them."""

CACHED_ELEMENTS = 2**17
"""The same where a block is looked at several times and takes part in no product: it stays in a core's cache."""


Block = tuple[slice, slice, slice]


def product(left: Array, right: Array, dtype: DTypeLike = "float64") -> Array:
    """left·right computed in float64 and stored as `dtype`; (batch, m, k) times (batch, k, n)."""
    batch, m, k = left.shape
    n = right.shape[2]
    out = np.empty((batch, m, n), dtype)

    def compute(block: Block) -> None:
        matrices, rows, columns = block
        wide = left[matrices, rows].astype(np.float64)
        out[matrices, rows, columns] = wide @ right[matrices, :, columns].astype(np.float64)

    each(compute, _blocks(batch, m, n, k))
    return out


def product_and_magnitude(left: Array, right: Array) -> tuple[Array, Array]:
    """(left·right, |left|·|right|) in float64; (batch, m, k) times (batch, k, n)."""
    batch, m, k = left.shape
    n = right.shape[2]
    value, magnitude = np.empty((batch, m, n)), np.empty((batch, m, n))

    def compute(block: Block) -> None:
        matrices, rows, columns = block
        wide, other = left[matrices, rows].astype(np.float64), right[matrices, :, columns].astype(np.float64)
        value[matrices, rows, columns] = wide @ other
        magnitude[matrices, rows, columns] = np.abs(wide, out=wide) @ np.abs(other, out=other)

    each(compute, _blocks(batch, m, n, k))
    return value, magnitude


def _blocks(batch: int, m: int, n: int, k: int) -> Iterator[Block]:
    """(matrices, rows, columns) of C, such that neither operand's part is more than a block."""
    for matrices in slices(batch, k * max(m, n)):
        for rows in slices(m, k):
            for columns in slices(n, k):
                yield matrices, rows, columns


def slices(length: int, weight: int, most: int = 0) -> Iterator[slice]:
    """Consecutive slices of range(length), each of at most `most` / weight (and at least one) items.

    Without `most` it is BLOCK_ELEMENTS.
    """
    step = max(1, (most or BLOCK_ELEMENTS) // weight)
    return (slice(first, min(first + step, length)) for first in range(0, length, step))


def random_vectors(length: int, seed: int) -> Array:
    """Two random columns of odd 64-bit words, (length, 2).

    Odd, so that an error in a single element never vanishes modulo 2^64.
    """
    words = np.random.default_rng([seed, 64]).integers(0, 2**64, (length, 2), dtype=np.uint64)
    return words | np.uint64(1)


def image(matrices: Array, vectors: Array) -> Array:
    """matrices·vectors modulo 2^64, exactly, for matrices of whole numbers.

    (batch, rows, columns) times (columns, 2) or (batch, columns, 2); uint64, (batch, rows, 2).
    """
    batch, rows, columns = matrices.shape
    out = np.empty((batch, rows, 2), np.uint64)

    def compute(block: tuple[int, slice]) -> None:
        index, some = block
        right = vectors if vectors.ndim == 2 else vectors[index]
        out[index, some] = matrices[index, some].astype(np.int64).view(np.uint64) @ right

    each(compute, cached_blocks(batch, rows, columns))
    return out


def cached_blocks(batch: int, rows: int, columns: int) -> Iterator[tuple[int, slice]]:
    """(matrix, rows) of consecutive parts of a stack of matrices, each of at most CACHED_ELEMENTS, if not one row."""
    return ((index, block) for index in range(batch) for block in slices(rows, columns, CACHED_ELEMENTS))


def two_product(x: Array, y: Array) -> tuple[Array, Array]:
    """(p, e) with p = fl(x·y) and p + e = x·y exactly, for float64 far from overflow and underflow.

    T. J. Dekker, "A floating-point technique for extending the available precision", Numer. Math. 18 (1971).
    """
    p = x * y
    x_high, x_low = _split(x)
    y_high, y_low = _split(y)
    return p, x_low * y_low - (((p - x_high * y_high) - x_low * y_high) - x_high * y_low)


def _split(x: Array) -> tuple[Array, Array]:
    scaled = x * 134217729.0  # Veltkamp's 2^27 + 1
    high = scaled - (scaled - x)
    return high, x - high


def exact_element(row: Array, column: Array, alpha: float, beta: float, c: float) -> tuple[float, float]:
    """alpha·(row·column) + beta·c as (high, low): high is the nearest float64, low what it lacks."""
    parts = two_product(row, column)
    terms = [term for part in parts for term in two_product(part, np.full_like(part, alpha))]
    terms.append(np.stack(two_product(np.array([beta]), np.array([c]))).ravel())
    every = np.concatenate(terms).tolist()
    high = math.fsum(every)
    return high, math.fsum([*every, -high])
