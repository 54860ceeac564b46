"""The parts that checks are made of: layouts, operands, host products, sampling, references kept."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.model import DTYPES, Problem
from tuner.verify import (
    GUARD_ROWS,
    KINDS,
    Layout,
    Reference,
    References,
    Values,
    checks,
    element_type,
    make_operands,
    nan_bits,
    operands,
    products,
    sampling,
)
from tuner.verify.accept import accept_image
from tuner.verify.operands import integer_range

ODD = Problem(37, 41, 43, align=4)
ROUND = Problem(64, 64, 64)
VALUES: tuple[Values, ...] = ("integers", "floats")

# Layout


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    dtype = draw(st.sampled_from(list(DTYPES)))
    problem = Problem(
        draw(st.integers(1, 40)),
        draw(st.integers(1, 40)),
        draw(st.integers(1, 40)),
        batch=draw(st.integers(1, 3)),
        dtype=dtype,
        trans_a=draw(st.booleans()),
        trans_b=draw(st.booleans()),
        align=draw(st.sampled_from([align for align in (4, 8, 16) if align >= DTYPES[dtype].bytes])),
    )
    return Layout(problem, draw(st.booleans()))


@settings(max_examples=150, deadline=None)
@given(layouts())
def test_views_and_guards_partition_every_buffer(layout: Layout) -> None:
    for slab in (layout.a, layout.b, layout.c):
        touched = np.zeros(slab.elements, np.int8)
        view = slab.view(touched)
        assert view.shape == (slab.batch, slab.rows, slab.columns)
        view += 1
        for _, zone in slab.outside(touched):
            zone += 1
        assert (touched == 1).all(), "each element belongs to exactly one"


@settings(max_examples=150, deadline=None)
@given(layouts())
def test_alignment_is_what_the_problem_promises(layout: Layout) -> None:
    size, align = layout.problem.element_bytes, layout.problem.align
    for slab in (layout.a, layout.b, layout.c):
        assert all(x * size % align == 0 for x in (slab.base, slab.ld, slab.stride))
        if layout.pad_rows:
            assert slab.base * size % (2 * align) and slab.ld * size % (2 * align), "and no better"
        elif align < 16:
            assert slab.base * size % (2 * align), "and no better"
        guard = GUARD_ROWS * slab.ld
        assert slab.base >= guard
        end = slab.base + (slab.batch - 1) * slab.stride + (slab.rows - 1) * slab.ld + slab.columns
        assert slab.elements - end >= guard


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.integers(1, 3), st.booleans(), st.booleans())
def test_packed_problems_lie_packed(m: int, n: int, k: int, batch: int, trans_a: bool, trans_b: bool) -> None:
    layout = Layout(Problem.packed(m, n, k, batch=batch, trans_a=trans_a, trans_b=trans_b))
    for slab in (layout.a, layout.b, layout.c):
        assert slab.ld == slab.columns and slab.stride == slab.rows * slab.columns
    padded = Layout(layout.problem, pad_rows=True)
    for slab in (padded.a, padded.b, padded.c):
        assert slab.ld > slab.columns and slab.stride > slab.rows * slab.ld - slab.ld + slab.columns


def test_full_alignment_is_timed_on_bases_as_allocators_give_them() -> None:
    layout = Layout(Problem(1000, 1000, 1000))
    assert all(slab.base * 4 % 256 == 0 for slab in (layout.a, layout.b, layout.c))


def test_wide_rows_do_not_ask_for_gigabytes() -> None:
    layout = Layout(Problem(1, 10**7, 1))
    assert layout.c.elements < 4 * 10**7 and layout.c.base >= 10**7


def test_an_empty_product_has_no_layout() -> None:
    for empty in (Problem(0, 2, 3), Problem(2, 0, 3), Problem(2, 3, 0), Problem(1, 2, 3, batch=0)):
        with pytest.raises(ValueError, match="empty"):
            Layout(empty)


def test_a_buffer_of_another_size_is_refused() -> None:
    slab = Layout(ODD).c
    with pytest.raises(ValueError, match="flat buffer"):
        slab.view(np.zeros(slab.elements - 1, np.float32))
    with pytest.raises(ValueError, match="flat buffer"):
        slab.view(np.zeros(2 * slab.elements, np.float32)[::2])


def test_nan_patterns_are_quiet_and_distinct() -> None:
    for dtype in DTYPES:
        problem = Problem(1, 1, 1, dtype=dtype)
        patterns = [nan_bits(problem, operand) for operand in "abc"]
        stored = element_type(dtype)
        default = np.full(1, np.nan).astype(stored).view(patterns[0].dtype)[0]
        assert len({int(pattern) for pattern in [*patterns, default]}) == 4
        quiet = 1 << {"float32": 22, "float64": 51, "float16": 9, "bfloat16": 6}[dtype]
        assert all(np.isnan(pattern.view(stored)) and int(pattern) & quiet for pattern in patterns)


# Operands


@settings(max_examples=200, deadline=None)
@given(
    k=st.integers(1, 2**31 - 1),
    kind=st.sampled_from(list(KINDS.values())),
    dtype=st.sampled_from(list(DTYPES.values())),
)
def test_no_partial_sum_of_integers_leaves_the_exact_range(k: int, kind: operands.Kind, dtype: Any) -> None:
    largest, terms, bound = integer_range(Problem(1, 1, k, dtype=dtype.name), kind)
    assert 1 <= largest <= 127 and 1 <= terms <= k
    of_c = abs(kind.beta) * operands.c_range(Problem(1, 1, k, dtype=dtype.name))
    assert max(1, abs(kind.alpha)) * terms * largest**2 + of_c <= bound < dtype.exact_below
    if max(1, abs(kind.alpha)) * k <= dtype.exact_below // 2:
        assert terms == k, "no zeros where there is room without"


@pytest.mark.parametrize("k", [1, 8192, 10**6])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if KINDS[kind].alpha])
def test_integers_keep_their_promise(k: int, kind: str) -> None:
    problem = Problem(3, 2, k)
    given = make_operands(problem, 4, "integers", kind)
    assert given.left.all() and given.right.all(), "a lost product always shows"
    worst = np.abs(given.left.astype(np.int64)) @ np.abs(given.right.astype(np.int64)) * abs(given.kind.alpha)
    assert worst.max() + abs(given.kind.beta) * 127 <= given.c_bound < 2**24


def test_zeros_are_mixed_in_where_there_are_too_many_terms() -> None:
    problem = Problem(4, 1, 2**23)
    given = make_operands(problem, 4, "integers", "alpha_beta")
    kept = np.count_nonzero(given.left, axis=2)
    assert kept.max() <= given.terms < problem.k and 3 * kept.max() < 2**24
    assert given.left.any(axis=1).all(), "every step of k counts in some row"


@pytest.mark.parametrize("trans_a", [False, True])
def test_floats_keep_a_bounded_count_of_products(trans_a: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operands, "MAX_FLOAT_TERMS", 16)
    for k in (16, 17, 50, 160, 161):
        given = make_operands(Problem(30, 3, k, trans_a=trans_a), 4, "floats")
        kept = np.count_nonzero(given.left, axis=2)
        assert given.terms == 16 and kept.min() >= 1 and kept.max() <= 16
        assert given.left.any(axis=1).all()
        assert np.count_nonzero(given.right) == given.right.size


def test_operands_are_told_apart() -> None:
    problem = Problem(32, 32, 32)
    for values in VALUES:
        given = make_operands(problem, 9, values, "alpha_beta")
        assert given.a is not None and given.b is not None and given.c is not None
        matrices = [m[0] for m in (given.a, given.b, given.c)]
        every = matrices + [m.T for m in matrices]
        assert not any(np.array_equal(x, y) for i, x in enumerate(every) for y in every[:i])
        for matrix in every:
            assert len(np.unique(matrix, axis=0)) == 32, "no two rows alike"


def test_the_same_seed_gives_the_same_operands_and_another_others() -> None:
    for values in VALUES:
        first, again, other = (make_operands(ODD, seed, values) for seed in (3, 3, 4))
        assert np.array_equal(first.left, again.left) and not np.array_equal(first.left, other.left)


def test_what_must_not_be_read_is_nan() -> None:
    layout = Layout(ODD)
    for kind in KINDS.values():
        given = make_operands(ODD, 0, "integers", kind.name)
        for flat, slab, read in (
            (given.flat_a(layout), layout.a, kind.alpha != 0),
            (given.flat_b(layout), layout.b, kind.alpha != 0),
            (given.flat_c(layout), layout.c, kind.beta != 0),
        ):
            assert np.isnan(slab.view(flat)).all() != read
            assert np.isfinite(slab.view(flat)).all() == read
            assert all(np.isnan(zone).all() for _, zone in slab.outside(flat))


def test_every_kind_that_certificates_promise_is_there() -> None:
    assert {"alpha", "beta", "alpha_beta", "beta_zero_nan_c", "alpha_zero"} <= set(KINDS)
    assert all(name == kind.name for name, kind in KINDS.items())
    assert (KINDS["plain"].alpha, KINDS["plain"].beta) == (1, 0)


def test_operands_refuse_another_problems_layout() -> None:
    with pytest.raises(ValueError, match="layout"):
        make_operands(ODD, 0).flat_a(Layout(ROUND))


# Freivalds


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32),
    st.lists(st.tuples(st.integers(0, 15), st.integers(0, 30), st.integers(-5, 5)), min_size=1, max_size=6),
)
def test_freivalds_sees_what_equality_sees(seed: int, changes: list[tuple[int, int, int]]) -> None:
    problem = Problem(16, 31, 20)
    given = make_operands(problem, seed)
    check = checks.Freivalds(given, seed)
    c = (given.left.astype(np.float64) @ given.right.astype(np.float64)).astype(np.float32)
    right = c.copy()
    for row, column, change in changes:
        c[0, row, column] += change
    assert check.accept(c).ok == np.array_equal(c, right)


def test_freivalds_refuses_what_is_no_whole_number_in_range() -> None:
    problem = Problem(4, 5, 6)
    given = make_operands(problem, 1)
    check = checks.Freivalds(given, 1)
    c = (given.left.astype(np.float64) @ given.right.astype(np.float64)).astype(np.float32)
    assert check.accept(c).ok
    for wrong in (0.5, 2.0**40, -(2.0**70), np.nan, np.inf):
        spoiled = c.copy()
        spoiled[0, 2, 3] += wrong
        assert not check.accept(spoiled).ok


def test_freivalds_bounds_every_element_whatever_the_vectors_say() -> None:
    blind, nothing = np.zeros((5, 2), np.uint64), np.zeros((1, 4, 2), np.uint64)
    c = np.full((1, 4, 5), 100.0, np.float32)
    assert accept_image(c, blind, nothing, 100).ok
    c[0, 3, 4] = -101
    assert not accept_image(c, blind, nothing, 100).ok


def test_image_is_exact_modulo_two_to_the_64th() -> None:
    rng = np.random.default_rng(2)
    matrix = rng.integers(-(2**20), 2**20, (2, 3, 7))
    vectors = products.random_vectors(7, 3)
    exact = [[[sum(int(x) * int(v) for x, v in zip(row, column, strict=True)) % 2**64 for column in vectors.T]
              for row in rows] for rows in matrix]  # fmt: skip
    assert products.image(matrix, vectors).tolist() == exact


# Sampling


@settings(max_examples=60, deadline=None)
@given(m=st.integers(1, 5000), n=st.integers(1, 5000), batch=st.integers(1, 9), seed=st.integers(0, 99))
def test_sampled_rows_and_columns_are_inside_and_hold_the_ends(m: int, n: int, batch: int, seed: int) -> None:
    problem = Problem(m, n, 3, batch=batch)
    rows = sampling.sample_rows(problem, seed)
    assert len(rows) <= sampling.MAX_ROWS
    assert len({tuple(row) for row in rows.tolist()}) == len(rows)
    assert (rows >= 0).all() and (rows[:, 0] < batch).all() and (rows[:, 1] < m).all()
    assert [0, 0] in rows.tolist() and [batch - 1, m - 1] in rows.tolist()
    columns = sampling.sample_columns(problem, len(rows), seed)
    assert (columns >= 0).all() and (columns < n).all()


def test_sampled_rows_stand_on_both_sides_of_tile_edges() -> None:
    rows = {row for _, row in sampling.sample_rows(Problem(1000, 8, 8), 0).tolist()}
    assert {0, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 255, 256, 767, 768, 895, 896, 959, 960, 991, 992, 999} <= rows
    columns = set(sampling.sample_columns(Problem(8, 1000, 8), 64, 0).ravel().tolist())
    assert {0, 127, 128, 895, 896, 999} <= columns


# References


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-1, 1, width=32), st.floats(-1, 1)), min_size=1, max_size=40),
    st.sampled_from([1.0, 3.0, -3.0]),
    st.sampled_from([0.0, 1.0, -2.0]),
    st.floats(-1, 1),
)
def test_exact_elements_are_exact(pairs: list[tuple[float, float]], alpha: float, beta: float, c: float) -> None:
    pairs = [(x, y) if min(abs(x), abs(y), abs(c)) > 1e-60 else (0.5, 0.25) for x, y in pairs]
    c = c if abs(c) > 1e-60 else 0.125
    row, column = np.array(pairs).T
    high, low = products.exact_element(row, column, alpha, beta, c)
    exact = Fraction(alpha) * sum(Fraction(x) * Fraction(y) for x, y in pairs) + Fraction(beta) * Fraction(c)
    assert high == float(exact)
    assert low == float(exact - Fraction(high))


def test_blocks_do_not_change_products(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    left, right = rng.integers(-9, 9, (5, 17, 13), np.int8), rng.integers(-9, 9, (5, 13, 19), np.int8)
    exact = left.astype(int) @ right.astype(int)
    vectors = products.random_vectors(13, 0)
    image = products.image(left, vectors)
    for block in (1, 13, 40, 200, 600):
        monkeypatch.setattr(products, "BLOCK_ELEMENTS", block)
        monkeypatch.setattr(products, "CACHED_ELEMENTS", block)
        assert np.array_equal(products.product(left, right), exact)
        value, magnitude = products.product_and_magnitude(left, right)
        assert np.array_equal(value, exact)
        assert np.array_equal(magnitude, np.abs(left.astype(int)) @ np.abs(right.astype(int)))
        assert np.array_equal(products.image(left, vectors), image)


def test_each_reference_is_computed_once() -> None:
    kept = References()
    first = kept.get(ODD, 1)
    assert kept.get(ODD, 1) is first
    others = [kept.get(ODD, 2), kept.get(ODD, 1, "floats"), kept.get(ODD, 1, "integers", "beta"), kept.get(ROUND, 1)]
    assert len({id(reference) for reference in [first, *others]}) == 5
    assert kept.get(ODD, 1) is first


def test_references_make_room_operands_first() -> None:
    kept = References(max_bytes=2 * Reference(ROUND, 0).bytes)
    first = kept.get(ROUND, 0)
    before = first.operands.left.copy()
    full = first.bytes
    for seed in (1, 2):
        kept.get(ROUND, seed)
    assert first.bytes < full, "its operands went"
    assert np.array_equal(first.operands.left, before), "and come again"
    for seed in range(3, 12):
        newest = kept.get(ROUND, seed)
    assert kept.get(ROUND, 11) is newest
    assert kept.get(ROUND, 0) is not first
