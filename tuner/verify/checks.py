"""What is known of a right C: all of it exactly, what it makes of two random vectors, or its rounded values."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from tuner.model import DTYPES, TF32_ROUNDOFF
from tuner.verify.accept import (
    ERROR_BOUND,
    CheckResult,
    accept_close,
    accept_equal,
    accept_image,
    accept_specials,
    error_scale,
)
from tuner.verify.accuracy import NoWorse
from tuner.verify.layout import Array, element_type, real_type
from tuner.verify.operands import Operands
from tuner.verify.products import exact_element, image, product, product_and_magnitude, random_vectors
from tuner.verify.sampling import sample_columns, sample_rows

WHOLE_FLOP = 2 * 10**10
"""Up to here the host computes all of C; above, Freivalds' check and sampled rows."""

WHOLE_FLOAT_ELEMENTS = 2**23
"""Larger C than this are compared in sampled rows where errors are allowed: reference and allowance are float64."""


SKEWED = 2.0
"""The allowance of operands other than uniform ones, over theirs: where sums only grow, or a few products are all of a
sum, roundings average out less. Sequential strict sums were seen to reach 1.3 times the uniform allowance."""


class Check(Protocol):
    """One way of judging C."""

    @property
    def bytes(self) -> int:
        """Host memory held."""

    def accept(self, c: Array) -> CheckResult:
        """Judge C, a (batch, m, n) view."""


class Whole:
    """All of C is known exactly."""

    def __init__(self, operands: Operands) -> None:
        """Compute alpha·A·B + beta·C0, exact because operands are small integers."""
        p, kind, real = operands.problem, operands.kind, real_type(operands.problem.dtype)
        expected = np.zeros((p.batch, p.m, p.n), real)
        if operands.factors is not None:
            plain: Array = operands.factors.once("product", lambda: product(operands.left, operands.right, real))
            expected = plain * real.type(kind.alpha)
        if operands.c is not None:
            expected += operands.c.astype(real) * kind.beta
        self.expected = expected.astype(element_type(p.dtype), copy=False)

    @property
    def bytes(self) -> int:
        """Host memory held."""
        return self.expected.nbytes

    def accept(self, c: Array) -> CheckResult:
        """Judge all of C."""
        return accept_equal(c, self.expected)


class Freivalds:
    """C is known by what it makes of two random vectors."""

    def __init__(self, operands: Operands, seed: int) -> None:
        """Compute alpha·A·(B·x) + beta·C0·x modulo 2^64, in O(mk + kn + mn)."""
        kind = operands.kind
        self._bound = operands.c_bound
        self._vectors = random_vectors(operands.problem.n, seed)
        assert operands.factors is not None, "without A and B, all of C is known"
        plain: Array = operands.factors.once(f"image {seed}", lambda: _image(operands, self._vectors))
        self._image = plain * _word(int(kind.alpha))
        if operands.start is not None:
            (c,) = operands.start.arrays
            before: Array = operands.start.once(f"image {seed}", lambda: image(c, self._vectors))
            self._image += before * _word(int(kind.beta))

    @property
    def bytes(self) -> int:
        """Host memory held."""
        return self._image.nbytes + self._vectors.nbytes

    def accept(self, c: Array) -> CheckResult:
        """Judge all of C."""
        return accept_image(c, self._vectors, self._image, self._bound)


class Close:
    """C is known within rounding errors: all of it, or all columns of `rows`."""

    def __init__(self, operands: Operands, seed: int) -> None:
        """Compute reference and allowance in float64, and single elements exactly if C itself is float64."""
        p = operands.problem
        whole = p.flop <= WHOLE_FLOP and p.batch * p.m * p.n <= WHOLE_FLOAT_ELEMENTS
        self._sampled = sample_rows(p, seed)
        self.rows: tuple[tuple[int, int], ...] | None = None
        if not whole:
            self.rows = tuple((int(index), int(row)) for index, row in self._sampled)
        with np.errstate(invalid="ignore"):
            self._reference, magnitude = _close_rows(operands, self.rows)
        self._stored = DTYPES[p.dtype]
        rounded = TF32_ROUNDOFF if p.math == "tf32" else 0.0
        self._scale = error_scale(operands.terms, magnitude, self._stored.unit_roundoff, rounded)
        self._specials = operands.values == "specials"
        if operands.values != "floats":  # each product may underflow
            underflow = operands.terms * np.finfo(real_type(p.dtype)).smallest_subnormal
            self._scale = SKEWED * self._scale + underflow
        exact = p.dtype == "float64" and operands.values == "floats"
        self._exact = _ExactElements(operands, self._sampled, self.rows is None, seed) if exact else None
        self._no_worse = NoWorse.of(operands, self._sampled, self.rows is None, self._reference, magnitude)

    @property
    def bytes(self) -> int:
        """Host memory held."""
        return self._reference.nbytes + self._scale.nbytes

    def accept(self, c: Array) -> CheckResult:
        """Judge C, or the sampled rows of it."""
        if self.rows is None:
            return self.accept_rows(c.reshape(-1, c.shape[2]))
        index, row = self._sampled.T
        return self.accept_rows(c[index, row])

    def accept_rows(self, c: Array) -> CheckResult:
        """Judge C by the rows that are known, (rows, n): those named by `rows`, or all of them."""
        if self._specials:
            return self._accept_specials(c)
        if self._exact is None:
            close = accept_close(c, self._reference, self._scale, stored=self._stored)
            return self._no_worse.accept(c, close) if close.ok and self._no_worse else close
        # The reference is rounded like C itself, so that both may take up the bound; the exact elements have it alone.
        every = accept_close(c, self._reference, self._scale, 2 * ERROR_BOUND)
        return self._exact.accept(c, self._scale) if every.ok else every

    def _accept_specials(self, c: Array) -> CheckResult:
        """Where the reference is finite as ever; elsewhere infinite or NaN as it is."""
        shown = accept_specials(c, self._reference)
        finite = np.isfinite(self._reference)
        reference, scale, c = (np.where(finite, array, 0) for array in (self._reference, self._scale, c))
        return accept_close(c, reference, scale, stored=self._stored) if shown.ok else shown


class _ExactElements:
    """Single elements of C, known to twice the precision of float64."""

    def __init__(self, operands: Operands, sampled: Array, whole: bool, seed: int) -> None:
        columns = sample_columns(operands.problem, len(sampled), seed)
        per_row = columns.shape[1]
        flat_rows = sampled[:, 0] * operands.problem.m + sampled[:, 1] if whole else np.arange(len(sampled))
        self._where = (np.repeat(flat_rows, per_row), columns.ravel())
        pairs = [
            _exact(operands, int(index), int(row), int(column))
            for (index, row), of_row in zip(sampled, columns, strict=True)
            for column in of_row
        ]
        self._high, self._low = np.array(pairs).T

    def accept(self, c: Array, scale: Array) -> CheckResult:
        error = (c[self._where] - self._high) - self._low
        return accept_close(error[None], np.zeros_like(error)[None], scale[self._where][None])


def _image(operands: Operands, vectors: Array) -> Array:
    return image(operands.left, image(operands.right, vectors))


def _close_rows(operands: Operands, rows: tuple[tuple[int, int], ...] | None) -> tuple[Array, Array]:
    """(reference, |alpha||A||B| + |beta||C|) in float64 for `rows`, or all rows, (rows, n)."""
    c, kind = operands.c, operands.kind
    assert operands.factors is not None, "without A and B, all of C is known"
    plain = operands.factors.once(f"rows {rows}", lambda: _plain_rows(operands, rows))
    value, magnitude = plain[0] * kind.alpha, plain[1] * abs(kind.alpha)
    if c is not None:
        before = c.reshape(-1, operands.problem.n) if rows is None else c[tuple(np.array(rows).T)]
        value += kind.beta * before.astype(np.float64)
        magnitude += abs(kind.beta) * np.abs(before.astype(np.float64))
    return value, magnitude


def _plain_rows(operands: Operands, rows: tuple[tuple[int, int], ...] | None) -> tuple[Array, Array]:
    """(A·B, |A||B|) in float64, (rows, n)."""
    left, right = operands.left, operands.right
    if rows is None:
        value, magnitude = (every.reshape(-1, operands.problem.n) for every in product_and_magnitude(left, right))
        return value, magnitude
    index, row = np.array(rows).T
    return _sampled_products(left, right, index, row)


def _sampled_products(left: Array, right: Array, index: Array, row: Array) -> tuple[Array, Array]:
    value = np.empty((len(row), right.shape[2]))
    magnitude = np.empty_like(value)
    for matrix in np.unique(index):
        here = index == matrix
        both = product_and_magnitude(left[None, matrix, row[here]], right[None, matrix])
        value[here], magnitude[here] = both[0][0], both[1][0]
    return value, magnitude


def _exact(operands: Operands, index: int, row: int, column: int) -> tuple[float, float]:
    before = 0.0 if operands.c is None else float(operands.c[index, row, column])
    left, right = operands.left[index, row], operands.right[index, :, column]
    kept = np.flatnonzero(left)
    return exact_element(left[kept], right[kept], operands.kind.alpha, operands.kind.beta, before)


def _word(value: int) -> np.uint64:
    return np.uint64(value % 2**64)
