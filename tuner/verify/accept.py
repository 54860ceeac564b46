"""Acceptance of a result: guards untouched, values exact or within the bound; what is not shown right is wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tuner.model import DType
from tuner.verify.layout import Array, Layout
from tuner.verify.parallel import each
from tuner.verify.products import CACHED_ELEMENTS, cached_blocks, image, slices

ERROR_BOUND = 1.0
"""Largest accepted max |error| / (max(sqrt(k), 8)·u·(|alpha||A||B| + |beta||C|)).

Right kernels reach 0.03 to 0.7, a lost product or operands rounded to 16 bits 2 and more."""

FEW_TERMS = 8.0
"""Least value of sqrt(k) in the bound. Rounding errors average out only over many terms: k products, alpha and beta
bring up to k + 2 roundings, all of which may agree while k <= 6, and 10^7 elements of right kernels with k from 4 to 64
were seen to reach 5.5 units, above sqrt(k) until k = 30. What we look for lies far above 8 units at such k."""


@dataclass(frozen=True)
class CheckResult:
    """Whether a result is accepted, and if not, why."""

    ok: bool
    error_ratio: float | None = None
    """Largest error over its allowance, for checks that allow one."""
    message: str = ""
    rms_ratio: float | None = None
    """Root-mean-square error over strict arithmetic's on the same operands, where the problem's math asks for it."""


ACCEPTED = CheckResult(True)


def guards_untouched(flat: Array, layout: Layout) -> CheckResult:
    """Accept if every guard element of C's buffer still has the very bits it was filled with."""
    pattern = layout.around("c")
    for place, zone in layout.c.outside(flat.view(pattern.dtype)):
        untouched = zone == pattern
        if not untouched.all():
            wrong = zone.size - int(np.count_nonzero(untouched))
            first = int(np.argmin(untouched))
            return CheckResult(False, message=f"{wrong} elements {place} of C were overwritten, first number {first}")
    return ACCEPTED


def accept_equal(c: Array, expected: Array) -> CheckResult:
    """Accept if all of C, (batch, m, n), equals the exact result; 0.0 and -0.0 are equal, NaN equals nothing."""
    if np.array_equal(c, expected):
        return ACCEPTED
    right = c == expected
    return _first_wrong(right, c, expected)


def accept_image(c: Array, vectors: Array, expected: Array, bound: int) -> CheckResult:
    """Accept if C holds whole numbers within ±bound, and C·x = alpha·A·(B·x) + beta·C0·x modulo 2^64 for both vectors.

    R. Freivalds, "Probabilistic machines can use less running time", IFIP Congress 1977. A wrong C of float32
    integers passes with a probability below 2^-70, an error in a single element of a row never.
    """

    batch, rows, columns = c.shape

    def is_whole(block: tuple[int, slice]) -> bool:
        part = c[block].astype(np.float64)
        return bool((np.abs(part) <= bound).all() and (np.rint(part) == part).all())

    if not all(each(is_whole, cached_blocks(batch, rows, columns))):
        return CheckResult(False, message=f"C has elements that are no whole numbers within {bound}")
    right = (image(c, vectors) == expected).all(axis=2)
    if right.all():
        return ACCEPTED
    index, row = (int(i) for i in np.argwhere(~right)[0])
    wrong = right.size - int(np.count_nonzero(right))
    place = f"row {row}" + f" of matrix {index}" * (batch > 1)
    return CheckResult(False, message=f"{wrong} of {right.size} rows of C fail Freivalds' check, the first is {place}")


def accept_close(
    c: Array, reference: Array, scale: Array, bound: float = ERROR_BOUND, stored: DType | None = None
) -> CheckResult:
    """Accept if |c - reference| <= bound·scale in every element; the error ratio is the largest |c - reference|/scale.

    All three are of one shape, two-dimensional. Where scale is 0 the result must be exact. What rounding C to `stored`,
    a type narrower than its sums, may change comes off the error first: that is no matter of how sums are made.
    """
    worst = 0.0
    for block in slices(c.shape[0], c.shape[1], CACHED_ELEMENTS):
        error = c[block].astype(np.float64)
        error -= reference[block]
        np.abs(error, out=error)
        if stored is not None and stored.is_narrow:
            error = np.maximum(error - stored_rounding(reference[block], stored), 0)
        largest = _largest_ratio(error, scale[block])
        if largest is None or not largest < bound:  # look closely
            accepted = error <= bound * scale[block]
            if not accepted.all():
                return _too_far(c[block], reference[block], error, scale[block], accepted, block.start)
            largest = float(np.divide(error, scale[block], out=np.zeros_like(error), where=scale[block] > 0).max())
        worst = max(worst, largest)
    return CheckResult(True, worst)


def _largest_ratio(error: Array, scale: Array) -> float | None:
    """The largest error ÷ scale, in few passes, for this is done for nearly every candidate; None unless all is > 0."""
    return float(np.divide(error, scale).max()) if (scale > 0).all() else None


def error_scale(terms: int, magnitude: Array, unit_roundoff: float, operand_roundoff: float = 0.0) -> Array:
    """The allowance of each element: max(sqrt(terms), 8)·u·magnitude, magnitude = |alpha||A||B| + |beta||C|.

    Operands that are rounded first bring two roundings to each product; they may all agree, but grow with k no faster.
    """
    scale: Array = (max(terms**0.5, FEW_TERMS) * unit_roundoff + 2 * operand_roundoff) * magnitude
    return scale


def accept_specials(c: Array, reference: Array) -> CheckResult:
    """Accept if C is infinite or NaN exactly where `reference` is, and as `reference` is."""
    right = np.isfinite(reference) | (c == reference) | (np.isnan(c) & np.isnan(reference))
    if right.all():
        return ACCEPTED
    row, column = (int(i) for i in np.argwhere(~right)[0])
    wrong = right.size - int(np.count_nonzero(right))
    example = f"row {row}, column {column} has {c[row, column]}, must be {reference[row, column]}"
    return CheckResult(
        False, message=f"infinities and NaN do not reach {wrong} elements of C: of those checked {example}"
    )


def stored_rounding(reference: Array, stored: DType) -> Array:
    """What rounding an element of C to its own type changes at most."""
    rounding: Array = np.maximum(stored.stored_roundoff * np.abs(reference), stored.stored_least)
    return rounding


def count_differences(expected: Array, found: Array) -> int:
    """Elements of two flat buffers that differ in any bit, 0.0 and -0.0 taken as equal.

    The host's twin of `templates/check/compare.cl`.
    """
    words = f"u{expected.itemsize}"
    differing = expected.view(words) != found.view(words)
    if differing.any():
        differing &= (expected != 0) | (found != 0)
    return int(np.count_nonzero(differing))


def _first_wrong(right: Array, c: Array, expected: Array) -> CheckResult:
    where = tuple(int(i) for i in np.argwhere(~right)[0])
    wrong = right.size - int(np.count_nonzero(right))
    place = where if c.shape[0] > 1 else where[1:]
    example = f"C{list(place)} is {c[where]}, must be {expected[where]}"
    message = f"{wrong} of {right.size} elements of C are wrong: {example}"
    return CheckResult(False, message=message)


def _too_far(c: Array, reference: Array, error: Array, scale: Array, accepted: Array, first_row: int) -> CheckResult:
    row, column = (int(i) for i in np.argwhere(~accepted)[0])
    if not np.isfinite(error).all():
        return CheckResult(False, message="C has elements that are no finite numbers")
    ratio = np.divide(error, scale, out=np.where(error > 0, np.inf, 0.0), where=scale > 0)
    wrong = accepted.size - int(np.count_nonzero(accepted))
    example = f"row {first_row + row}, column {column} has {c[row, column]}, must be near {reference[row, column]}"
    message = f"{wrong} elements of C are too inexact: of those checked {example}"
    return CheckResult(False, float(ratio.max()), message)
