"""Right kernels are accepted whatever the order of their sums, for every k and dtype, by every path."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.mutants.catalogue import ORDERS, right
from tests.mutants.harness import measure, program
from tests.mutants.laboratory import FLOAT_WAYS, INTEGER_WAYS, Laboratory, Sample
from tuner.bench import Bench, Case
from tuner.model import DTYPES, Problem, Verdict

DEPTHS = (1, 2, 3, 7, 64, 97, 1000, 8192)
FEW_DEPTHS = (3, 97, 8192)


def problems(bench: Bench, dtype: str, depths: Sequence[int]) -> list[Problem]:
    """With A transposed guard zones stay small, which are as wide as a row."""
    if not bench.device.has(dtype):
        pytest.skip(f"this device has no {dtype}")
    return [Problem.packed(5, 7, k, dtype=dtype, trans_a=True) for k in depths]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_order_of_summation_is_timed(bench: Bench, dtype: str, order: str) -> None:
    for problem in problems(bench, dtype, FEW_DEPTHS[1:]):
        measured = measure(bench, problem, right(problem, order))
        assert measured.verdict is Verdict.CORRECT, f"{problem}: {measured.message}"
        assert measured.error_ratio is not None and measured.error_ratio < 0.9, problem


@pytest.mark.parametrize(
    "depths", [pytest.param(DEPTHS, marks=pytest.mark.soak, id="all"), pytest.param(FEW_DEPTHS, id="few")]
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_order_of_summation_is_certified(bench: Bench, dtype: str, depths: Sequence[int]) -> None:
    """In one certificate, so that its builds use all cores."""
    of = [(problem, order) for problem in problems(bench, dtype, depths) for order in ORDERS if order != "kahan"]
    outcome = bench.check([Case(p, right(p, order), ("alpha_beta",), repeats=2) for p, order in of])
    assert outcome.verdict is Verdict.CORRECT, (outcome.message, outcome.checks[-1:])


def test_compensated_sums_are_timed_but_not_certified(bench: Bench) -> None:
    """Kahan's correction takes infinity from infinity: where strict arithmetic gives one, it gives NaN."""
    problem = Problem.packed(5, 7, 97, trans_a=True)
    outcome = bench.check([Case(problem, right(problem, "kahan"), ("alpha_beta",), repeats=2)])
    assert outcome.verdict is Verdict.WRONG_RESULT and "infinities and NaN" in outcome.message


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_order_of_summation_is_accepted_by_every_path(
    bench: Bench, lab: Laboratory, dtype: str, order: str
) -> None:
    for problem in problems(bench, dtype, FEW_DEPTHS):
        of = [Sample(problem, way) for way in (*INTEGER_WAYS, *FLOAT_WAYS)]
        sequential, other = program(bench, right(problem)), program(bench, right(problem, order))
        for sample, judged in zip(of, lab.judge(of, sequential, other), strict=True):
            assert judged.by == sample.way
            assert judged.right.ok, (sample, judged.right.message)
            assert judged.candidate.ok, (sample, judged.candidate.message)


def test_the_orders_differ(bench: Bench) -> None:
    """Or the tests above would test one kernel nine times."""
    problem = Problem.packed(5, 7, 97, trans_a=True)
    ratios = {measure(bench, problem, right(problem, order)).error_ratio for order in ORDERS}
    assert len(ratios) >= len(ORDERS) - 1, "sequential may be fused or unfused, as the compiler likes"
