"""Numbers that operands are made of: distributions that expose one weakness of a method each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.verify.layout import real_type

Array = NDArray[Any]
Draw = Callable[[np.random.Generator, tuple[int, ...], str, int], Array]
"""(generator, shape, dtype, operand 0 to 2) -> an array of the type of sums."""

WIDE_EXPONENTS = {"float16": 4}
"""Powers of two to either side of 1, such that sums of products overflow nowhere; 48 for every other type."""

OUTSIDE_SHARE = 1 / 64
"""Of op(A)'s elements that lie beyond what split methods are exact for, 2^-100 to 2^60 (float32's range at hand)."""

DENORMAL_EXPONENTS = (-148, -120)
LIFTING_EXPONENTS = (20, 40)
"""op(A) holds numbers so small that float32 has few bits left for them; op(B) lifts the products again."""


def small_integers(generator: np.random.Generator, shape: tuple[int, ...], within: int) -> Array:
    """Whole numbers from -within to within, at most 127, none of them 0; int8, each about as likely as the others.

    No zeros: then each lost product changes C. A byte of the generator makes a number, by a multiplication.
    """
    count = math.prod(shape)
    words = generator.integers(0, 2**64, -(-count // 8), dtype=np.uint64).view(np.uint8)[:count]
    scaled = words.astype(np.uint16)
    scaled *= 2 * within
    scaled >>= 8
    whole = scaled.astype(np.int8)  # 0 to 2·within - 1, modulo 256
    whole -= within
    whole += whole >= 0
    return whole.reshape(shape)


def _uniform(generator: np.random.Generator, shape: tuple[int, ...], dtype: str, operand: int) -> Array:
    uniform = _unit(generator, shape, dtype)
    uniform *= 2
    uniform -= 1
    return uniform


def _one_signed(generator: np.random.Generator, shape: tuple[int, ...], dtype: str, operand: int) -> Array:
    return _unit(generator, shape, dtype)


def _normal(generator: np.random.Generator, shape: tuple[int, ...], dtype: str, operand: int) -> Array:
    return generator.standard_normal(shape, dtype=real_type(dtype).type)


def _wide(generator: np.random.Generator, shape: tuple[int, ...], dtype: str, operand: int) -> Array:
    reach = WIDE_EXPONENTS.get(dtype, 48)
    return _scaled(generator, shape, dtype, -reach, reach)


def _tiny(generator: np.random.Generator, shape: tuple[int, ...], dtype: str, operand: int) -> Array:
    """So small that only the exponent shows it, and no product is denormal; for float16 as `wide`."""
    if dtype == "float16":
        return _wide(generator, shape, dtype, operand)
    return _scaled(generator, shape, dtype, *((-100, -60) if operand == 0 else (-8, 8)))


def _huge(generator: np.random.Generator, shape: tuple[int, ...], dtype: str, operand: int) -> Array:
    """So large, and no sum overflows; for float16 as `wide`."""
    if dtype == "float16":
        return _wide(generator, shape, dtype, operand)
    return _scaled(generator, shape, dtype, *((60, 100) if operand == 0 else (-8, 1)))


def _outside(generator: np.random.Generator, shape: tuple[int, ...], dtype: str, operand: int) -> Array:
    """Only where exponents reach that far: for float16 it is as `wide`."""
    if dtype == "float16":
        return _wide(generator, shape, dtype, operand)
    ordinary = _scaled(generator, shape, dtype, -8, 8)
    if operand == 0:
        for low, high in ((-125, -101), (61, 100)):
            chosen = generator.random(shape, dtype=np.float32) < OUTSIDE_SHARE
            ordinary[chosen] = _scaled(generator, (int(np.count_nonzero(chosen)),), dtype, low, high)
    return ordinary


def _denormals(generator: np.random.Generator, shape: tuple[int, ...], dtype: str, operand: int) -> Array:
    if dtype == "float16":
        return _scaled(generator, shape, dtype, *((-24, -12) if operand == 0 else (0, 6)))
    return _scaled(generator, shape, dtype, *(DENORMAL_EXPONENTS if operand == 0 else LIFTING_EXPONENTS))


def _scaled(generator: np.random.Generator, shape: tuple[int, ...], dtype: str, low: int, high: int) -> Array:
    """Either sign, a significand from 1 to 2, and a power of two from 2^low to 2^high."""
    significand = 1 + _unit(generator, shape, dtype)
    significand *= generator.integers(0, 2, shape, dtype=np.int8) * 2 - 1
    scaled: Array = np.ldexp(significand, generator.integers(low, high, shape, dtype=np.int16, endpoint=True))
    return scaled


def _unit(generator: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    unit: Array = np.empty(shape, real_type(dtype))
    generator.random(out=unit, dtype=unit.dtype.type)
    return unit


DRAWS: Mapping[str, Draw] = {
    "floats": _uniform,
    "uniform": _uniform,
    "normal": _normal,
    "one_signed": _one_signed,
    "wide": _wide,
    "tiny": _tiny,
    "huge": _huge,
    "outside": _outside,
    "denormals": _denormals,
    "specials": _uniform,
}
