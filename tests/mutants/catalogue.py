"""The kernels of this folder: how each is launched, and where at the latest a wrong one must be refused."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from tuner.model import Problem, Rendered, Step
from tuner.verify import Kind

_FOLDER = Path(__file__).parent
SIDE = 16
"""Of a work-group."""

RECTANGLE = Problem.packed(37, 53, 29, batch=2)
"""No side is a multiple of a tile's, and no two are alike."""
DOUBLE = replace(RECTANGLE, dtype="float64", align=8)
SQUARE = Problem.packed(40, 40, 40)
NARROW = tuple(Problem.packed(37, 53, 67, batch=2, dtype=dtype) for dtype in ("float16", "bfloat16"))
"""C is rounded to 16 bits, sums are not."""
EQUIVALENT = Problem.packed(37, 53, 300, math="fp32_equivalent")
TF32 = replace(EQUIVALENT, math="tf32")
DEEP = tuple(Problem.packed(37, 53, 4096, dtype=dtype) for dtype in ("float16", "bfloat16"))
TRANS_A = replace(SQUARE, trans_a=True)
TRANS_B = replace(SQUARE, trans_b=True)
M_IS_K = Problem.packed(37, 53, 37, batch=2)


class Latest(StrEnum):
    """Where a mutant must be refused at the latest; up to there it is right, and must be accepted."""

    INTEGERS = "integers"
    """By every path that accepts integers, on the plain kind of call."""
    FLOATS = "floats"
    """By every path that accepts floats."""
    KINDS = "kinds"
    """By every path that accepts integers, for those kinds of alpha and beta that `shows` names."""
    CALLS = "calls"
    """By a trial or a race, once it was called often enough."""
    CERTIFICATE = "certificate"
    """By `Bench.check`, which alone repeats runs, looks after A and B and calls with alpha and beta on floats."""


@dataclass(frozen=True)
class Mutant:
    """A wrong kernel, `wrong/NAME.cl`, and a problem on which it is wrong."""

    name: str
    latest: Latest = Latest.INTEGERS
    problem: Problem = RECTANGLE
    shows: Callable[[Kind], bool] | None = None
    scratch: tuple[tuple[str, int], ...] = ()
    steps: tuple[str, ...] = ("gemm",)
    """Its kernels, in order."""

    def rendered(self, problem: Problem | None = None) -> Rendered:
        """What the bench builds and launches, for the mutant's own problem or another one."""
        return render(f"wrong/{self.name}", problem or self.problem, self.steps, self.scratch)

    def __str__(self) -> str:
        deep = "-deep" * (self.problem.k >= 4096)
        mathematics = f"-{self.problem.math}" * (self.problem.math != "strict")
        return self.name + f"-{self.problem.dtype}" * (self.problem.dtype != "float32") + deep + mathematics


def right(problem: Problem, order: str = "sequential") -> Rendered:
    """The right kernel `order` of right/orders.cl."""
    if order != "split":
        return render("right/orders", problem, (order,))
    partial = ("partial", 4 * problem.batch * problem.m * problem.n * problem.real_bytes)
    return render("right/orders", problem, ("split", "gather"), (partial,))


ORDERS = ("sequential", "backwards", "fused", "unfused", "kahan", "two_sums", "vectors", "tree", "split")


def render(
    file: str, problem: Problem, kernels: tuple[str, ...], scratch: tuple[tuple[str, int], ...] = ()
) -> Rendered:
    """`kernels` of a file of this folder, one work-item for each element of C, all of them given `scratch`."""
    source = "".join((_FOLDER / f"{name}.cl").read_text(encoding="utf-8") for name in ("common", file))
    p = problem
    real = "double" if p.dtype == "float64" else "float"
    element = {"float16": "half -DFLOAT16", "bfloat16": "ushort -DBFLOAT16"}.get(p.dtype, real)
    options = f"-DREAL={real} -DREAL4={real}4 -DELEMENT={element}"
    options += " -DTRANS_A=1" * p.trans_a + " -DTRANS_B=1" * p.trans_b
    size = (-(-p.n // SIDE) * SIDE, -(-p.m // SIDE) * SIDE, p.batch)
    names = tuple(name for name, _ in scratch)
    steps = tuple(Step(kernel, size, (SIDE, SIDE, 1), names) for kernel in kernels)
    digest = hashlib.sha256(f"{source}{options}{steps}{scratch}".encode()).hexdigest()[:32]
    return Rendered(source, options, steps, scratch, digest)


_ELEMENTS = RECTANGLE.batch * RECTANGLE.m * RECTANGLE.n
_FLOATS = 4 * _ELEMENTS

MUTANTS = (
    # The sum
    Mutant("lost_last_step"),
    Mutant("lost_one_term"),
    Mutant("lost_one_term", problem=DOUBLE),
    Mutant("step_counted_twice"),
    Mutant("whole_tiles_of_k"),
    Mutant("starts_at_one"),
    Mutant("absolute_values"),
    Mutant("no_barrier"),
    Mutant("no_second_barrier"),
    # Precision
    Mutant("half_operands", Latest.FLOATS),
    Mutant("half_sums"),
    Mutant("half_result"),
    Mutant("truncated_operands", Latest.FLOATS),
    Mutant("single_in_double", Latest.FLOATS, DOUBLE),
    Mutant("one_single_step", Latest.FLOATS, DOUBLE),
    # Elements of 16 bits
    *(Mutant("truncated_result", Latest.FLOATS, problem) for problem in (*NARROW, *DEEP)),
    *(Mutant("stored_sums", Latest.FLOATS, problem) for problem in (*NARROW, *DEEP)),
    *(Mutant("stored_parts", Latest.FLOATS, problem) for problem in (*NARROW, *DEEP)),
    *(Mutant("rounded_twice", Latest.CERTIFICATE, problem) for problem in NARROW),
    *(Mutant("half_alpha", Latest.CERTIFICATE, problem) for problem in NARROW[:1]),
    *(Mutant("lost_tile", problem=problem) for problem in DEEP),
    *(Mutant("lost_last_step", problem=problem) for problem in (*NARROW, *DEEP)),
    *(Mutant("no_edge_in_n", problem=problem) for problem in NARROW),
    *(Mutant("masked_by_zero", problem=problem) for problem in NARROW),
    # Infinities, NaN, and numbers at the ends of the range
    *(Mutant("nan_lost", Latest.CERTIFICATE, problem) for problem in (RECTANGLE, *NARROW)),
    Mutant("infinity_lost", Latest.CERTIFICATE),
    Mutant("tiny_flushed", Latest.CERTIFICATE, EQUIVALENT),
    Mutant("huge_lost", Latest.CERTIFICATE, EQUIVALENT),
    Mutant("one_tf32", Latest.FLOATS, EQUIVALENT),
    Mutant("half_operands", Latest.FLOATS, EQUIVALENT),
    Mutant("truncated_operands", Latest.FLOATS, TF32),
    # Edges
    Mutant("no_edge_in_m"),
    Mutant("no_edge_in_n"),
    Mutant("no_edge_in_n", problem=DOUBLE),
    Mutant("reads_beyond_k"),
    Mutant("masked_by_zero"),
    Mutant("masked_by_zero", problem=DOUBLE),
    Mutant("reads_before_a"),
    Mutant("skips_last_row"),
    Mutant("square_only"),
    Mutant("writes_between_rows"),
    Mutant("writes_before_c"),
    Mutant("writes_before_c", problem=DOUBLE),
    Mutant("writes_after_c"),
    Mutant("writes_nan_outside"),
    # Places
    Mutant("swapped_operands", problem=SQUARE),
    Mutant("transposed_result", problem=SQUARE),
    Mutant("swapped_neighbours"),
    Mutant("ignores_a_offset"),
    Mutant("ignores_b_offset"),
    Mutant("ignores_c_offset"),
    Mutant("ignores_lda"),
    Mutant("ignores_ldb"),
    Mutant("ignores_ldc"),
    Mutant("ldb_for_ldc"),
    Mutant("ldc_for_ldb"),
    Mutant("lda_for_ldb", problem=SQUARE),
    Mutant("b_offset_for_c"),
    Mutant("a_offset_for_b", problem=SQUARE),
    Mutant("b_stride_for_c", problem=M_IS_K),
    Mutant("ignores_batch"),
    Mutant("ignores_c_stride"),
    Mutant("ignores_trans_a", problem=TRANS_A),
    Mutant("ignores_trans_b", problem=TRANS_B),
    # Elements
    Mutant("one_off_in_the_middle"),
    Mutant("one_off_in_the_corner"),
    Mutant("last_bit_off"),
    Mutant("last_bit_off", problem=DOUBLE),
    Mutant("writes_nan"),
    Mutant("writes_infinity"),
    Mutant("empty"),
    Mutant("leaves_first_row"),
    # Alpha and beta
    Mutant("c_read_when_beta_is_zero"),
    Mutant("accumulates_into_c"),
    Mutant("beta_ignored", Latest.KINDS, shows=lambda kind: kind.beta != 0),
    Mutant("beta_as_one", Latest.KINDS, shows=lambda kind: kind.beta not in (0, 1)),
    Mutant("alpha_ignored", Latest.KINDS, shows=lambda kind: kind.alpha not in (0, 1)),
    Mutant("alpha_without_sign", Latest.KINDS, shows=lambda kind: kind.alpha < 0),
    Mutant("alpha_on_everything", Latest.KINDS, shows=lambda kind: kind.alpha != 1 and kind.beta != 0),
    Mutant("alpha_lost_if_beta_is_one", Latest.KINDS, shows=lambda kind: kind.alpha not in (0, 1) and kind.beta == 1),
    Mutant("reads_operands_if_alpha_is_zero", Latest.KINDS, shows=lambda kind: kind.alpha == 0 and not kind.finite),
    Mutant("whole_alpha", Latest.CERTIFICATE),
    Mutant("whole_beta", Latest.CERTIFICATE),
    Mutant("known_betas", Latest.CERTIFICATE),
    Mutant("half_alpha", Latest.CERTIFICATE),
    Mutant("single_old_c", Latest.CERTIFICATE, DOUBLE),
    # What lasts from call to call
    Mutant("writes_to_a", Latest.CERTIFICATE),
    Mutant("spoils_b_afterwards", Latest.CALLS, steps=("gemm", "afterwards")),
    Mutant("spoils_b_if_alpha_is_zero", Latest.CERTIFICATE),
    Mutant("spoils_a_if_beta_is_not_zero", Latest.CERTIFICATE),
    Mutant("scales_a_in_place", Latest.CERTIFICATE, steps=("scale", "gemm")),
    Mutant("depends_on_the_clock", Latest.CERTIFICATE, scratch=(("tickets", 4),)),
    Mutant("right_once", Latest.CALLS, scratch=(("calls", 4 * _ELEMENTS),)),
    Mutant("right_five_times", Latest.CALLS, scratch=(("calls", 4 * _ELEMENTS),)),
    Mutant("stale_scratch", scratch=(("partial", _FLOATS),)),
    Mutant("overruns_scratch", scratch=(("partial", _FLOATS),)),
    Mutant("writes_before_scratch", scratch=(("partial", _FLOATS),)),
)
