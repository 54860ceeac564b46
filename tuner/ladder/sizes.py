"""Which products a ladder goes over, and what a column-major product is to kernels that are row-major."""

from __future__ import annotations

import re
from typing import Any, Literal

from tuner.model import Problem, UserError

Layout = Literal["row", "column"]
MOST_SIZES = 512
_RANGE = re.compile(r"(\d+):(\d+)(?::(\d+))?")
_SHAPE = re.compile(r"(\d+)x(\d+)x(\d+)")


def parse_sizes(text: str, dtype: str, layout: Layout = "row") -> list[Problem]:
    """The products of a comma-separated list of `FIRST:LAST:STEP`, `N` (cubes) and `MxNxK`, the least work first.

    Their matrices lie as `layout` says; the problems are the row-major ones that compute them. Raises UserError.
    """
    shapes: dict[tuple[int, int, int], None] = {}
    for part in text.split(","):
        for shape in _shapes(part.strip()):
            shapes[shape] = None
    if len(shapes) > MOST_SIZES:
        raise UserError(f"{text} are {len(shapes)} sizes; a ladder goes over {MOST_SIZES} at most.")
    packed = column_major if layout == "column" else Problem.packed
    products = [packed(*shape, dtype=dtype) for shape in shapes]
    return sorted(products, key=lambda problem: problem.flop)


def _shapes(part: str) -> list[tuple[int, int, int]]:
    if found := _SHAPE.fullmatch(part):
        sides = [tuple(int(side) for side in found.groups())]
    elif found := _RANGE.fullmatch(part):
        first, last, step = (int(number or 1) for number in found.groups())
        if step < 1 or last < first or (last - first) // step >= MOST_SIZES:
            raise UserError(f"{part} is no range of sizes: write FIRST:LAST:STEP, such as 256:6144:256.")
        sides = [(side, side, side) for side in range(first, last + 1, step)]
    elif part.isdecimal():
        sides = [(int(part),) * 3]
    else:
        raise UserError(f"{part!r} is no size: write N, MxNxK, or FIRST:LAST:STEP, separated by commas.")
    if any(0 in side for side in sides):
        raise UserError(f"{part} is an empty product: there is nothing to time.")
    return [(m, n, k) for m, n, k in sides]


def column_major(m: int, n: int, k: int, *, trans_a: bool = False, trans_b: bool = False, **rest: Any) -> Problem:
    """The row-major product that computes this one where all three matrices lie packed, column by column.

    A column-major matrix is its transpose row by row, so C^T = op(B)^T op(A)^T does it: B takes the place of A, A that
    of B, m that of n. Nothing is moved, and each flag goes with its operand.
    """
    return Problem.packed(n, m, k, trans_a=trans_b, trans_b=trans_a, **rest)
