"""How exact a result is beside strict arithmetic on the same operands: maximum and root-mean-square error."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tuner.model import DTYPES
from tuner.verify.accept import CheckResult
from tuner.verify.layout import Array
from tuner.verify.operands import Operands

FEWEST_TERMS = 64
"""Shorter sums have too few roundings for their root-mean-square to mean anything; the bound holds there alone."""

FEWEST_ELEMENTS = 512
"""Of C: over fewer ones the root-mean-square of a right kernel may be a tenth above another's by chance."""

MOST_ROWS, MOST_COLUMNS = 16, 2048
"""Of C that are computed in strict arithmetic on the host, one step of k after the other."""

RMS_MARGIN = 1.1
"""Largest accepted RMS error over strict's: the order of a sum, and whether products are fused, change that much."""

RMS_MARGIN_OF_FEW = 2.0
"""The same where a few products are nearly all of a sum: strict arithmetic then rounds once or twice in all, and a way
that adds products in parts rounds once more. Splits into three TF32 products reach 1.5, into six bfloat16 ones 1.3."""


@dataclass(frozen=True)
class Errors:
    """Errors of C in units of u·|A||B|, the magnitude that the terms of each sum have together times the roundoff."""

    maximum: float
    rms: float

    @classmethod
    def of(cls, c: Array, exact: Array, magnitude: Array, unit_roundoff: float) -> Errors:
        """Errors of `c` against `exact` in float64; NaN if any element is NaN."""
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(c.astype(np.float64) - exact)
            relative = np.divide(error, unit_roundoff * magnitude, out=np.zeros_like(error), where=error != 0)
        return cls(float(np.max(relative)), float(np.sqrt(np.mean(relative**2))))


def strict_product(left: Array, right: Array) -> Array:
    """left·right as strict arithmetic computes it, one product after the other in the operands' type.

    (rows, k) times (k, columns). Every product and every sum is rounded.
    """
    total = np.zeros((left.shape[0], right.shape[1]), left.dtype)
    for p in range(left.shape[1]):
        total += left[:, p, None] * right[p]
    return total


def some_columns(n: int) -> Array:
    """At most MOST_COLUMNS columns, evenly spread, the first and the last among them."""
    return np.unique(np.linspace(0, n - 1, min(n, MOST_COLUMNS)).astype(np.int64))


@dataclass(frozen=True)
class NoWorse:
    """What strict arithmetic's root-mean-square error is on some rows and columns of C."""

    rows: Array
    """Of those that a check knows."""
    columns: Array
    exact: Array
    magnitude: Array
    strict: Errors
    margin: float

    @classmethod
    def of(cls, operands: Operands, sampled: Array, whole: bool, reference: Array, magnitude: Array) -> NoWorse | None:
        """None where the problem's math promises no such thing, or too little is summed to tell."""
        p, kind = operands.problem, operands.kind
        index, row = sampled[:: -(-len(sampled) // MOST_ROWS)].T
        columns = some_columns(p.n)
        plain = (kind.alpha, kind.beta) == (1, 0) and operands.values != "specials"
        enough = operands.terms >= FEWEST_TERMS and len(row) * len(columns) >= FEWEST_ELEMENTS
        if p.math != "fp32_equivalent" or not plain or not enough:
            return None
        known = index * p.m + row if whole else np.arange(len(sampled))[:: -(-len(sampled) // MOST_ROWS)]
        at = np.ix_(known, columns)
        total = np.empty((len(row), len(columns)), np.float32)
        for matrix in np.unique(index):
            here = index == matrix
            right = np.take(operands.right[matrix], columns, axis=1)  # in memory row by row, unlike [:, columns]
            total[here] = strict_product(operands.left[matrix, row[here]], right)
        margin = RMS_MARGIN_OF_FEW if operands.values in ("wide", "outside") else RMS_MARGIN
        strict = Errors.of(total, reference[at], magnitude[at], DTYPES[p.dtype].unit_roundoff)
        return cls(known, columns, reference[at], magnitude[at], strict, margin)

    def accept(self, c: Array, close: CheckResult) -> CheckResult:
        """`close`, which accepts, with how the error compares; a refusal if it is larger than strict's."""
        found = Errors.of(c[np.ix_(self.rows, self.columns)], self.exact, self.magnitude, 2.0**-24)
        ratio = found.rms / self.strict.rms if self.strict.rms > 0 else float(found.rms > 0)
        if ratio <= self.margin:
            return replace(close, rms_ratio=ratio)
        message = f"the root-mean-square error is {ratio:.3g} times that of strict arithmetic on the same operands"
        return CheckResult(False, close.error_ratio, message, ratio)
