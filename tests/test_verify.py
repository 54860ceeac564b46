"""Right results pass and wrong ones do not, whichever path accepts: host, Freivalds, sampled rows, flat comparison."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.model import DTYPES, Problem
from tuner.verify import (
    KINDS,
    Layout,
    Reference,
    Values,
    checks,
    count_differences,
    nan_bits,
    real_type,
    references,
    sampling,
)
from tuner.verify.accept import accept_close, error_scale

Array = np.ndarray[Any, Any]
ROOT = Path(__file__).parents[1]

ODD = Problem(37, 41, 43, align=4)
ROUND = Problem(64, 64, 64)
VALUES: tuple[Values, ...] = ("integers", "floats")
PROBLEMS = [
    ODD,
    ROUND,
    Problem(37, 41, 43, trans_a=True, align=8),
    Problem(41, 37, 43, trans_b=True),
    Problem(20, 28, 12, trans_a=True, trans_b=True, batch=3),
    Problem(19, 23, 17, batch=2, dtype="float64", align=8),
    Problem(19, 23, 17, batch=2, dtype="float16", align=2),
    Problem(37, 41, 43, dtype="bfloat16", trans_a=True, align=8),
    Problem(1, 40, 33),
    Problem(40, 1, 33),
    Problem(9, 10, 1),
    Problem(1, 1, 1),
]
ids = [str(p).replace(" ", "-") for p in PROBLEMS]


@pytest.fixture(params=["host", "freivalds", "flat"])
def accept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """Each path that accepts a result for integers."""
    if request.param == "freivalds":
        monkeypatch.setattr(references, "WHOLE_FLOP", 0)

    def judge(reference: Reference, flat: Array, layout: Layout) -> bool:
        if request.param != "flat":
            assert isinstance(reference.check, checks.Whole) == (request.param == "host" or not _alpha(reference))
            return reference.accept(flat, layout).ok
        expected = reference.expected_flat(layout)
        assert expected is not None
        return count_differences(expected, flat) == 0

    return judge


def _alpha(reference: Reference) -> float:
    return reference.operands.kind.alpha


class Call:
    """One call of an imagined kernel: flat buffers, and a plain product to spoil."""

    def __init__(self, reference: Reference, layout: Layout) -> None:
        self.reference, self.layout, self.problem = reference, layout, layout.problem
        given = reference.operands
        self.kind = given.kind
        self.flat_a, self.flat_b, self.flat_c = (make(layout) for make in (given.flat_a, given.flat_b, given.flat_c))
        self.a, self.b = layout.a.view(self.flat_a), layout.b.view(self.flat_b)
        self.a = self.a.transpose(0, 2, 1) if self.problem.trans_a else self.a
        self.b = self.b.transpose(0, 2, 1) if self.problem.trans_b else self.b
        self.c = layout.c.view(self.flat_c)

    def dot(self, a: Array, b: Array) -> Array:
        """One product after the other in the problem's own arithmetic, no wider accumulator."""
        real = real_type(self.problem.dtype)
        left, right = a.astype(real), b.astype(real)
        out = np.zeros((a.shape[0], a.shape[1], b.shape[2]), real)
        for p in range(a.shape[2]):
            out += left[:, :, p, None] * right[:, None, p, :]
        return out

    def result(self, ab: Array | None = None) -> Array:
        real = real_type(self.problem.dtype).type
        out = np.zeros(self.c.shape, real)
        if self.kind.alpha:
            out = real(self.kind.alpha) * (self.dot(self.a, self.b) if ab is None else ab)
        if self.kind.beta:
            out = out + real(self.kind.beta) * self.c.astype(real)
        return out

    def write(self, ab: Array | None = None) -> Array:
        self.c[...] = self.result(ab)
        return self.flat_c


def call(problem: Problem, values: Any = "integers", kind: str = "plain", pad: bool = False, seed: int = 5) -> Call:
    return Call(Reference(problem, seed, values, kind), Layout(problem, pad))


# Right results


@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("problem", PROBLEMS, ids=ids)
def test_right_integers_are_accepted(problem: Problem, kind: str, pad: bool, accept: Callable[..., bool]) -> None:
    a_call = call(problem, kind=kind, pad=pad)
    assert accept(a_call.reference, a_call.write(), a_call.layout)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("problem", PROBLEMS, ids=ids)
def test_right_floats_are_accepted(problem: Problem, kind: str) -> None:
    a_call = call(problem, "floats", kind, pad=True)
    result = a_call.reference.accept(a_call.write(), a_call.layout)
    assert result.ok, result.message
    assert result.error_ratio is None or result.error_ratio < 0.8


def orders(a: Array, b: Array) -> Iterator[tuple[str, Array]]:
    """A right product in several orders of summation, every operation rounded to the operands' precision."""
    terms = a[:, :, None] * b[None]
    k = terms.shape[1]
    yield "sequential", np.add.accumulate(terms, axis=1)[:, -1]
    yield "backwards", np.add.accumulate(terms[:, ::-1], axis=1)[:, -1]
    yield "pairwise", pairwise(terms)
    for step in (4, 16):
        chunks = [np.add.accumulate(terms[:, i : i + step], axis=1)[:, -1] for i in range(0, k, step)]
        yield f"blocks of {step}", np.add.accumulate(np.stack(chunks, 1), axis=1)[:, -1]
    parts = [np.add.accumulate(terms[:, i::4], axis=1)[:, -1] for i in range(min(4, k))]
    yield "split in 4", np.add.accumulate(np.stack(parts, 1), axis=1)[:, -1]
    if a.dtype == np.float32:
        wide = terms.shape[:1] + terms.shape[2:]
        fused = np.zeros(wide, np.float32)
        for p in range(k):
            fused = (a[:, p, None].astype(np.float64) * b[p].astype(np.float64) + fused).astype(np.float32)
        yield "fused", fused


def pairwise(terms: Array) -> Array:
    while terms.shape[1] > 1:
        even = terms[:, : terms.shape[1] // 2 * 2]
        terms = np.concatenate([even[:, ::2] + even[:, 1::2], terms[:, even.shape[1] :]], axis=1)
    return terms[:, 0]


@pytest.mark.parametrize("k", [1, 2, 3, 5, 8, 17, 24, 31, 64, 97, 500, 1024, 4096, 8192])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_order_of_summation_is_accepted(dtype: str, k: int) -> None:
    rows, columns = (24, 24) if k < 1024 else (4, 5)
    real = real_type(dtype)
    problem = Problem(rows, columns, k, dtype=dtype)
    layout = Layout(problem)
    for values in VALUES:
        reference = Reference(problem, 11, values)
        a_call = Call(reference, layout)
        for name, ab in orders(a_call.a[0].astype(real), a_call.b[0].astype(real)):
            result = reference.accept(a_call.write(ab[None]), layout)
            assert result.ok, f"{values}, {name}: {result.message}"
            assert result.error_ratio is None or result.error_ratio < 0.8, name


@settings(max_examples=40, deadline=None)
@given(k=st.integers(1, 80), seed=st.integers(0, 2**32), kind=st.sampled_from(["plain", "alpha", "alpha_beta"]))
def test_few_terms_have_room_for_their_roundings(k: int, seed: int, kind: str) -> None:
    a_call = call(Problem(120, 120, k), "floats", kind, seed=seed)
    result = a_call.reference.accept(a_call.write(), a_call.layout)
    assert result.ok and result.error_ratio is not None and result.error_ratio < 0.9


@settings(max_examples=30, deadline=None)
@given(k=st.integers(1, 6), seed=st.integers(0, 2**32), dtype=st.sampled_from(list(DTYPES)))
def test_the_worst_rounding_of_six_terms_alpha_and_beta_is_within_the_bound(k: int, seed: int, dtype: str) -> None:
    """k + 2 roundings, each against us: the sum of their bounds is what a right kernel may reach."""
    unit = Fraction(DTYPES[dtype].unit_roundoff)
    magnitude = Fraction(np.random.default_rng(seed).random())
    allowed = error_scale(k, np.array([float(magnitude)]), float(unit))[0]
    assert Fraction(float(allowed)) >= ((1 + unit) ** (k + 2) - 1) * magnitude * (1 - 4 * unit)


def test_the_bound_is_the_published_one_for_many_terms() -> None:
    assert error_scale(8192, np.array([2.0]), 2.0**-24)[0] == math.sqrt(8192) * 2.0**-24 * 2.0


@pytest.mark.parametrize("kind", [kind for kind in KINDS if KINDS[kind].alpha])
@pytest.mark.parametrize("problem", PROBLEMS, ids=ids)
def test_references_agree_with_exact_arithmetic(problem: Problem, kind: str) -> None:
    if problem.m * problem.n * problem.k > 10**4:
        problem = replace(problem, m=min(problem.m, 7), n=min(problem.n, 6))
    layout = Layout(problem)
    it = Call(Reference(problem, 8, "integers", kind), layout)
    beta, alpha = it.kind.beta, it.kind.alpha
    exact = np.zeros((problem.batch, problem.m, problem.n))
    for index, row, column in np.ndindex(*exact.shape):
        terms = zip(it.a[index, row].tolist(), it.b[index, :, column].tolist(), strict=True)
        before = Fraction(float(it.c[index, row, column])) if beta else 0
        exact[index, row, column] = float(alpha * sum(Fraction(x) * Fraction(y) for x, y in terms) + beta * before)
    expected = it.reference.expected_flat(layout)
    assert expected is not None
    assert np.array_equal(layout.c.view(expected), exact)


# Mutants: what a broken kernel does to C


def lost_last_step(it: Call) -> Array:
    return it.write(it.dot(it.a[:, :, :-1], it.b[:, :-1]))


def lost_one_product(it: Call) -> Array:
    flat = it.write()
    it.c[-1, -1, 0] -= it.a[-1, -1, -1] * it.b[-1, -1, 0]
    return flat


def step_counted_twice(it: Call) -> Array:
    last = it.dot(it.a[:, :, -1:], it.b[:, -1:])
    return it.write(it.dot(it.a, it.b) + last)


def not_transposed(it: Call) -> Array:
    stored_a, stored_b = it.layout.a.view(it.flat_a), it.layout.b.view(it.flat_b)
    return it.write(it.dot(np.swapaxes(stored_a, 1, 2) if not it.problem.trans_a else stored_a, stored_b))


def swapped_operands(it: Call) -> Array:
    return it.write(it.dot(it.b, it.a))


def transposed_result(it: Call) -> Array:
    return it.write(np.swapaxes(it.dot(it.a, it.b), 1, 2))


def shifted_row(it: Call) -> Array:
    return it.write(np.roll(it.dot(it.a, it.b), 1, axis=1))


def two_elements_swapped(it: Call) -> Array:
    flat = it.write()
    it.c[0, 0, :2] = it.c[0, 0, 1::-1]
    return flat


def one_element_off(it: Call) -> Array:
    flat = it.write()
    it.c[-1, it.problem.m // 2, it.problem.n // 3] += 1
    return flat


def last_bit_off(it: Call) -> Array:
    flat = it.write()
    it.c.view(nan_bits(it.problem, "c").dtype)[0, -1, -1] += 1
    return flat


def one_nan(it: Call) -> Array:
    flat = it.write()
    it.c[0, -1, 0] = np.nan
    return flat


def one_infinity(it: Call) -> Array:
    flat = it.write()
    it.c[-1, 0, -1] = np.inf
    return flat


def nothing_written(it: Call) -> Array:
    return it.flat_c


def last_tile_not_written(it: Call) -> Array:
    before = it.c[:, 32:, 32:].copy()
    flat = it.write()
    it.c[:, 32:, 32:] = before
    return flat


def zeros(it: Call) -> Array:
    it.c[...] = 0
    return it.flat_c


def read_beyond_a(it: Call) -> Array:
    flat = it.write()
    it.c[0, -1] += it.flat_a[it.layout.a.base - 1]
    return flat


def one_written_beyond_the_end(it: Call) -> Array:
    flat = it.write()
    c = it.layout.c
    flat[c.base + (c.batch - 1) * c.stride + (c.rows - 1) * c.ld + c.columns] = 1
    return flat


def one_written_before(it: Call) -> Array:
    flat = it.write()
    flat[it.layout.c.base - 1] = 0
    return flat


def first_of_the_buffer(it: Call) -> Array:
    flat = it.write()
    flat[0] = 0
    return flat


def last_of_the_buffer(it: Call) -> Array:
    flat = it.write()
    flat[-1] = 0
    return flat


def another_nan_beyond(it: Call) -> Array:
    """A read outside A, written outside C: NaN over NaN."""
    flat = it.write()
    words = flat.view(nan_bits(it.problem, "c").dtype)
    words[it.layout.c.base - 1] = it.flat_a.view(words.dtype)[0]
    return flat


MUTANTS = [
    lost_last_step,
    lost_one_product,
    step_counted_twice,
    not_transposed,
    swapped_operands,
    transposed_result,
    shifted_row,
    two_elements_swapped,
    one_element_off,
    last_bit_off,
    one_nan,
    one_infinity,
    nothing_written,
    last_tile_not_written,
    zeros,
    read_beyond_a,
    one_written_beyond_the_end,
    one_written_before,
    first_of_the_buffer,
    last_of_the_buffer,
    another_nan_beyond,
]


@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_mutants_are_rejected(mutant: Any, dtype: str, pad: bool, accept: Callable[..., bool]) -> None:
    problem = replace(ROUND, dtype=dtype, trans_b=True)
    it = call(problem, pad=pad)
    assert not accept(it.reference, mutant(it), it.layout)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_mutants_are_rejected_in_a_batch(mutant: Any, accept: Callable[..., bool]) -> None:
    it = call(Problem(48, 48, 48, batch=3, align=4), pad=True)
    assert not accept(it.reference, mutant(it), it.layout)


@pytest.mark.parametrize("path", ["whole", "sampled"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mutant", [m for m in MUTANTS if m is not last_bit_off], ids=lambda mutant: mutant.__name__)
def test_mutants_are_rejected_with_floats(mutant: Any, dtype: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if path == "sampled":
        monkeypatch.setattr(checks, "WHOLE_FLOP", 0)
    it = call(replace(ROUND, dtype=dtype), "floats", pad=True)
    assert (it.reference.rows is None) == (path == "whole")
    assert not it.reference.accept(mutant(it), it.layout).ok


def between_rows(it: Call) -> Array:
    flat = it.write()
    flat[it.layout.c.base + it.layout.c.columns] = 7
    return flat


def whole_vectors_at_the_edge(it: Call) -> Array:
    """A store of four elements without an edge test, on every row."""
    flat = it.write()
    c = it.layout.c
    for row in range(c.rows - 1):
        flat[c.base + row * c.ld + c.columns : c.base + row * c.ld + c.columns + 2] = 0
    return flat


def between_matrices(it: Call) -> Array:
    flat = it.write()
    flat[it.layout.c.base + it.layout.c.stride - 1] = 7
    return flat


@pytest.mark.parametrize("mutant", [between_rows, whole_vectors_at_the_edge, between_matrices])
def test_writes_between_rows_and_matrices_are_rejected(mutant: Any, accept: Callable[..., bool]) -> None:
    it = call(Problem(33, 30, 20, batch=2, align=4), pad=True)
    assert not accept(it.reference, mutant(it), it.layout)


def beta_ignored(it: Call) -> Array:
    it.c[...] = it.result() - it.kind.beta * it.c
    return it.flat_c


def beta_taken_for_one(it: Call) -> Array:
    it.c[...] = it.result() - (it.kind.beta - 1) * it.c
    return it.flat_c


def alpha_ignored(it: Call) -> Array:
    it.c[...] = it.dot(it.a, it.b) + (it.kind.beta * it.c if it.kind.beta else 0)
    return it.flat_c


def alpha_on_everything(it: Call) -> Array:
    it.c[...] = it.kind.alpha * (it.dot(it.a, it.b) + it.kind.beta * it.c)
    return it.flat_c


def c_read_though_beta_is_zero(it: Call) -> Array:
    it.c[...] = it.result() + real_type(it.problem.dtype).type(it.kind.beta) * it.c
    return it.flat_c


def ab_read_though_alpha_is_zero(it: Call) -> Array:
    it.c[...] = it.kind.alpha * it.dot(it.a, it.b) + it.kind.beta * it.c
    return it.flat_c


def c_not_scaled(it: Call) -> Array:
    return it.flat_c


@pytest.mark.parametrize("values", ["integers", "floats"])
@pytest.mark.parametrize(
    ("mutant", "kinds"),
    [
        (beta_ignored, "add beta alpha_beta alpha_zero"),
        (beta_taken_for_one, "beta alpha_beta alpha_zero"),
        (alpha_ignored, "alpha alpha_beta beta_zero_nan_c alpha_zero both_zero"),
        (alpha_on_everything, "alpha_beta"),
        (c_read_though_beta_is_zero, "plain alpha beta_zero_nan_c both_zero"),
        (ab_read_though_alpha_is_zero, "alpha_zero both_zero"),
        (c_not_scaled, " ".join(name for name in KINDS if name != "alpha_zero_add")),
    ],
)
def test_mutants_of_alpha_and_beta(mutant: Any, kinds: str, values: Any, accept: Callable[..., bool]) -> None:
    for kind in kinds.split():
        it = call(ODD, values, kind)
        flat = mutant(it)
        if values == "integers":
            assert not accept(it.reference, flat, it.layout), kind
        else:
            assert not it.reference.accept(flat, it.layout).ok, kind


@pytest.mark.parametrize("k", [64, 1024, 8192, 65536])
def test_operands_rounded_to_16_bits_are_rejected(k: int) -> None:
    it = call(Problem(48, 32, k), "floats")
    rounded = [operand.astype(np.float16).astype(np.float64) for operand in (it.a, it.b)]
    result = it.reference.accept(it.write(rounded[0] @ rounded[1]), it.layout)
    assert not result.ok
    assert result.error_ratio is not None and result.error_ratio > 2


@pytest.mark.parametrize("k", [97, 1024, 8192])
def test_a_float_kernel_for_a_double_problem_is_rejected(k: int) -> None:
    it = call(Problem(16, 16, k, dtype="float64"), "floats")
    single = it.dot(it.a.astype(np.float32), it.b.astype(np.float32))
    assert not it.reference.accept(it.write(single), it.layout).ok


def test_a_single_element_in_single_precision_is_seen_in_double() -> None:
    it = call(Problem(200, 200, 50, dtype="float64"), "floats")
    flat = it.write()
    it.c[0, 101, 77] = np.float32(it.c[0, 101, 77])
    assert not it.reference.accept(flat, it.layout).ok


def test_one_element_of_a_million_off_by_five() -> None:
    problem = Problem(1024, 1024, 64)
    for values in VALUES:
        it = call(problem, values)
        flat = it.write((it.a @ it.b).astype(np.float32))
        assert it.reference.accept(flat, it.layout).ok
        it.c[0, 517, 311] += 5
        result = it.reference.accept(flat, it.layout)
        assert not result.ok and result.message


@pytest.mark.parametrize("k", [1024, 8192])
def test_a_lost_product_is_rejected_with_floats_too(k: int) -> None:
    it = call(Problem(8, 8, k), "floats")
    ab = it.a.astype(np.float64) @ it.b.astype(np.float64)
    terms = it.a[0, 3] * it.b[0, :, 4]
    ab[0, 3, 4] -= terms[np.argsort(abs(terms))[-k // 8]]
    assert not it.reference.accept(it.write(ab), it.layout).ok


def test_messages_say_where() -> None:
    it = call(Problem(9, 8, 7), pad=True)
    flat = it.write()
    it.c[0, 4, 5] += 1
    wrong = it.reference.accept(flat, it.layout)
    assert "1 of 72" in wrong.message and "C[4, 5]" in wrong.message
    flat = it.write()
    flat[it.layout.c.base + it.layout.c.columns] = 0
    assert "1 elements between rows of C" in it.reference.accept(flat, it.layout).message


def test_the_bound_is_one_allowance() -> None:
    reference, scale = np.full((3, 4), 7.0), np.full((3, 4), 0.25)
    for share in (-0.99, 0.0, 0.5, 0.99):
        c = reference.copy()
        c[1, 2] += share * 0.25
        assert accept_close(c, reference, scale).error_ratio == pytest.approx(abs(share))
        assert accept_close(c, reference, scale).ok
    for share in (-1.01, 1.01, 5.0):
        c = reference.copy()
        c[1, 2] += share * 0.25
        result = accept_close(c, reference, scale)
        assert not result.ok and result.error_ratio == pytest.approx(abs(share))


@pytest.mark.parametrize(("row", "column"), [(0, 0), (0, -1)])
def test_corners_of_a_double_result_are_judged_against_exact_sums(row: int, column: int) -> None:
    it = call(Problem(40, 40, 100, dtype="float64"), "floats")
    flat = it.write()
    assert it.reference.accept(flat, it.layout).ok
    magnitude = np.abs(it.a[0, row]) @ np.abs(it.b[0, :, column])
    it.c[0, row, column] += 1.5 * error_scale(100, magnitude, 2.0**-53)
    assert not it.reference.accept(flat, it.layout).ok


def test_nan_is_never_close() -> None:
    ones = np.ones((2, 3))
    for wrong in (np.nan, np.inf, -np.inf):
        for argument in range(3):
            arguments = [ones.copy(), ones.copy(), ones * 0.1]
            arguments[argument][1, 2] = wrong
            c, reference, scale = arguments
            accepted = accept_close(c, reference, scale).ok
            assert accepted is (argument == 2 and wrong == np.inf), (argument, wrong)


def test_where_nothing_may_err_the_result_must_be_exact() -> None:
    zero = np.zeros((1, 2))
    assert accept_close(zero, zero, zero).ok
    assert not accept_close(np.array([[0.0, 1e-30]]), zero, zero).ok


def test_the_size_of_the_product_chooses_the_check() -> None:
    for problem, integers, sampled in (
        (Problem(64, 64, 64), checks.Whole, False),
        (Problem(2200, 2200, 2200), checks.Freivalds, True),
        (Problem(4096, 2304, 1), checks.Whole, True),
    ):
        assert type(Reference(problem, 0).check) is integers
        reference = Reference(problem, 0, "floats")
        assert (reference.rows is not None) == sampled
        assert (Reference(problem, 0).expected_flat(Layout(problem)) is None) == (integers is checks.Freivalds)


def test_sampled_rows_can_be_judged_without_the_rest_of_c(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "WHOLE_FLOP", 0)
    it = call(Problem(300, 50, 20, batch=2), "floats")
    it.write()
    rows = it.reference.rows
    assert rows is not None and len(set(rows)) == len(rows) <= sampling.MAX_ROWS
    some = np.stack([it.c[index, row] for index, row in rows])
    assert it.reference.accept_rows(some).ok
    some[-1, 17] += 0.01
    assert not it.reference.accept_rows(some).ok


def test_accept_rows_needs_a_sampled_check() -> None:
    for values in VALUES:
        with pytest.raises(ValueError, match="all of C"):
            Reference(ODD, 0, values).accept_rows(np.zeros((1, ODD.n)))
