"""Arithmetic other than strict: what each math promises is asked for, and no result that gives less is accepted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest

from tests.fakes import DEVICE, SILICON, SOFTWARE, FakeBench, small_family, tuned
from tuner.bench.certificate import DISTRIBUTIONS
from tuner.lookup import Snapshot, lookup
from tuner.model import MATHS, Problem, UserError
from tuner.store import open_store
from tuner.verify import Layout, Reference, Values
from tuner.verify.accuracy import Errors, strict_product
from tuner.verify.draws import DRAWS

Array = np.ndarray[Any, Any]
Multiply = Callable[[Array, Array], Array]
FLOATS: tuple[Values, ...] = tuple(values for values in get_args(Values) if values != "integers")


def tf32(x: Array) -> Array:
    """float32 rounded to 11 significant bits, ties away from zero."""
    return ((x.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def cut(x: Array) -> Array:
    """The 8 bits that a bfloat16 keeps, cut off."""
    return (x.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def in_chunks(products: list[tuple[Array, Array]], chunk: int = 16) -> Array:
    """Sums of each chunk of k in float64 cut to float32, as matrix units make them, added up in float32."""
    total = np.zeros((products[0][0].shape[0], products[0][1].shape[1]), np.float32)
    for start in range(0, products[0][0].shape[1], chunk):
        for left, right in products:
            part = left[:, start : start + chunk].astype(np.float64) @ right[start : start + chunk].astype(np.float64)
            total += part.astype(np.float32)
    return total


def one_tf32(left: Array, right: Array) -> Array:
    return in_chunks([(tf32(left), tf32(right))])


def three_tf32(left: Array, right: Array) -> Array:
    """K. Ootomo and R. Yokota, "Recovering single precision accuracy from Tensor Cores", IJHPCA 36 (2022)."""
    high, wide = tf32(left), tf32(right)
    low, narrow = tf32(left - high), tf32(right - wide)
    return in_chunks([(low, wide), (high, narrow), (high, wide)])


def two_tf32(left: Array, right: Array) -> Array:
    """The low part of one operand is left out."""
    high, wide = tf32(left), tf32(right)
    return in_chunks([(tf32(left - high), wide), (high, wide)])


def judged(math: str, values: Values, multiply: Multiply, shape: tuple[int, int, int] = (48, 40, 256)) -> Any:
    problem = Problem(*shape, math=math)
    reference, layout = Reference(problem, 2, values), Layout(problem)
    given = reference.operands
    flat = given.flat_c(layout)
    with np.errstate(all="ignore"):
        layout.c.view(flat)[0] = multiply(np.ascontiguousarray(given.left[0]), np.ascontiguousarray(given.right[0]))
    return reference.accept(flat, layout)


@pytest.mark.parametrize("values", FLOATS)
@pytest.mark.parametrize("math", MATHS)
@pytest.mark.parametrize("k", [5, 64, 700])
def test_strict_arithmetic_serves_every_math(math: str, values: Values, k: int) -> None:
    found = judged(math, values, strict_product, (48, 40, k))
    assert found.ok, found.message


@pytest.mark.parametrize("values", ["floats", "normal", "one_signed", "wide"])
def test_three_products_are_as_good_as_strict_and_fewer_are_not(values: Values) -> None:
    found = judged("fp32_equivalent", values, three_tf32)
    assert found.ok and found.rms_ratio is not None and found.rms_ratio < (2 if values == "wide" else 0.7), found
    assert not judged("fp32_equivalent", values, two_tf32).ok
    assert not judged("fp32_equivalent", values, one_tf32).ok
    assert not judged("strict", values, one_tf32).ok


@pytest.mark.parametrize("values", ["floats", "normal", "one_signed", "wide"])
def test_tf32_is_two_rounded_operands_and_no_less(values: Values) -> None:
    assert judged("tf32", values, one_tf32).ok
    assert not judged("tf32", values, lambda a, b: in_chunks([(cut(a), cut(b))])).ok
    assert not judged("tf32", values, lambda a, b: one_tf32(a[:, :-8], b[:-8])).ok


def test_an_error_within_the_bound_but_larger_than_stricts_is_refused() -> None:
    def coarse(left: Array, right: Array) -> Array:
        return (strict_product(left, right).view(np.uint32) & np.uint32(0xFFFFFFF8)).view(np.float32)

    assert judged("strict", "one_signed", coarse).ok
    found = judged("fp32_equivalent", "one_signed", coarse)
    assert not found.ok and "times that of strict" in found.message


def without(replaced: Callable[[Array], Array]) -> Multiply:
    return lambda left, right: replaced(strict_product(left, right))


@pytest.mark.parametrize(
    "spoil",
    [
        np.nan_to_num,
        lambda c: np.where(np.isnan(c), np.float32(0), c),
        lambda c: np.where(np.isinf(c), np.float32(np.nan), c),
        lambda c: np.where(np.isinf(c), -c, c),
        lambda c: np.where(np.isnan(c), np.float32(np.inf), c),
        lambda c: np.where(np.isfinite(c), c, np.float32(3e38)),
    ],
)
@pytest.mark.parametrize("math", MATHS)
def test_lost_infinities_and_nan_are_refused(math: str, spoil: Callable[[Array], Array]) -> None:
    assert not judged(math, "specials", without(spoil)).ok


def test_splitting_an_infinity_is_refused() -> None:
    """inf - inf is NaN: what a method does that splits every operand, whatever it is."""
    assert not judged("fp32_equivalent", "specials", three_tf32).ok


def flushed(x: Array) -> Array:
    return np.where(np.abs(x) < np.float32(2.0**-126), np.float32(0), x)


@pytest.mark.parametrize("values", ["denormals", "outside"])
def test_numbers_beyond_the_range_need_the_strict_path(values: Values) -> None:
    assert (
        not judged("fp32_equivalent", values, lambda a, b: three_tf32(flushed(a), flushed(b))).ok or values == "outside"
    )
    small = lambda a, b: strict_product(np.where(np.abs(a) < np.float32(2.0**-100), np.float32(0), a), b)  # noqa: E731
    assert judged("fp32_equivalent", values, small).ok == (values == "outside")
    large = lambda a, b: strict_product(np.where(np.abs(a) > np.float32(2.0**60), np.float32(0), a), b)  # noqa: E731
    assert judged("fp32_equivalent", values, large).ok == (values == "denormals")


def test_certificates_ask_for_what_each_math_promises() -> None:
    assert DISTRIBUTIONS.keys() == MATHS.keys()
    assert all("specials" in values for values in DISTRIBUTIONS.values())
    assert {"one_signed", "wide", "outside", "denormals"} <= set(DISTRIBUTIONS["fp32_equivalent"])
    assert set(DRAWS) == set(FLOATS)


def test_errors_are_in_units_of_the_terms_magnitude() -> None:
    found = Errors.of(np.array([[1.0, 2.0]]), np.array([[1.0, 2.5]]), np.array([[4.0, 4.0]]), 0.25)
    assert (found.maximum, found.rms) == (0.5, 0.125**0.5)


# Keys


@pytest.mark.parametrize("math", ["fp32_equivalent", "tf32"])
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_only_float32_has_other_math(math: str, dtype: str) -> None:
    with pytest.raises(UserError, match=f"{math} is for float32"):
        Problem(8, 8, 8, dtype=dtype, math=math)


@pytest.mark.parametrize("asked", MATHS)
def test_a_look_up_never_crosses_math(asked: str, tmp_path: Any) -> None:
    families = {"grid": small_family(tmp_path)}
    problem = Problem(64, 64, 64, math=asked)
    with open_store(str(tmp_path / "tuner.db"), upgrade=True) as store:
        tuned(FakeBench(), store, families, evaluations=5, problem=problem)
        for math in MATHS:
            for near in (replace(problem, math=math), replace(problem, math=math, m=65)):
                found = lookup(Snapshot(store.snapshot), DEVICE, near, families)
                assert found.origin.is_miss == (math != asked or near.m != 64)
                assert (found.origin.value == "default") == (math != asked), (math, near)
        other = next(math for math in MATHS if math != asked)
        assert store.history(SILICON, SOFTWARE, replace(problem, math=other)) == []
