"""Which values an expression can take: finite sets where they are small, else intervals; always a superset."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Value = bool | int | float | str
"""What an expression may yield."""

INT64_MAX = 2**63 - 1
LARGEST = 2**512
"""Numbers that may grow beyond this are refused, so that every whole number converts to a float."""
MAX_PAIRS = 2048
"""Two finite domains are combined value by value up to this many pairs, and as intervals above it."""


@dataclass(frozen=True)
class Domain:
    """A superset of the values a name can take: a finite set where it is known, else an interval."""

    kind: str
    """`int`, `float`, `bool` or `str`."""
    low: float = 0
    high: float = 0
    """Bounds of a number, inclusive; exact `int` objects for `int`."""
    values: frozenset[Value] | None = None

    @classmethod
    def of(cls, values: Iterable[Value]) -> Domain:
        """The finite domain of `values`, which are of one type."""
        found = frozenset(values)
        kind = type(next(iter(found))).__name__
        if any(type(value).__name__ != kind for value in found):
            raise TypeError(f"values of different types: {sorted(map(repr, found))}")
        numbers = [value for value in found if not isinstance(value, bool | str)]
        return cls(kind, min(numbers, default=0), max(numbers, default=0), found)

    @classmethod
    def between(cls, low: int, high: int) -> Domain:
        """The whole numbers from `low` to `high`, both included."""
        return cls("int", low, high)

    @property
    def single(self) -> tuple[Value, ...]:
        """The only possible value, or nothing if there are several."""
        return tuple(self.values) if self.values is not None and len(self.values) == 1 else ()

    @property
    def fits(self) -> bool:
        """Every value is held by an int64 (or is no whole number at all)."""
        return self.kind != "int" or (self.low >= -INT64_MAX and self.high <= INT64_MAX)

    @property
    def too_large(self) -> bool:
        """A number in it may be beyond `LARGEST`."""
        return self.kind in ("int", "float") and not -LARGEST <= self.low <= self.high <= LARGEST

    @property
    def may_be_zero(self) -> bool:
        """Zero is among the possible values."""
        return 0 in self.values if self.values is not None else self.low <= 0 <= self.high

    @property
    def ends(self) -> tuple[float, ...]:
        """The bounds and, where the domain jumps over zero, the values on either side of it."""
        if self.values is None or not self.low < 0 < self.high:
            return self.low, self.high
        numbers = [value for value in self.values if not isinstance(value, bool | str)]
        return self.low, max(x for x in numbers if x < 0), min(x for x in numbers if x >= 0), self.high

    def as_float(self) -> Domain:
        """The domain of these numbers as floats."""
        values = None if self.values is None else frozenset(map(float, self.values))
        return Domain("float", float(self.low), float(self.high), values)

    def union(self, other: Domain) -> Domain:
        """The domain of what is in either, both being of one kind."""
        values = None if self.values is None or other.values is None else self.values | other.values
        return Domain(self.kind, min(self.low, other.low), max(self.high, other.high), values)


ANY_BOOL = Domain("bool", values=frozenset((False, True)))
ANY_STR = Domain("str")


def ceil_div(a: Any, b: Any) -> Any:
    """The quotient of whole numbers, rounded up."""
    return -(-a // b)


ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "ceil_div": ceil_div, "min": min, "max": max,
}  # fmt: skip
COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
DIVISIONS = ("/", "//", "%", "ceil_div")


def arithmetic_domain(symbol: str, a: Domain, b: Domain) -> Domain:
    """What `a symbol b` can be; both are of one kind, and a divisor is never zero."""
    function = ARITHMETIC[symbol]
    pairs = _pairs(a, b)
    if pairs is not None:
        return Domain.of(function(x, y) for x, y in pairs)
    if symbol == "%":
        return Domain(a.kind, *_remainder_bounds(a, b))
    # Each of the others is monotone in either argument, on either side of zero.
    corners = [function(x, y) for x in a.ends for y in b.ends]
    return Domain(a.kind, min(corners), max(corners))


def _remainder_bounds(a: Domain, b: Domain) -> tuple[float, float]:
    """A remainder has the sign of the divisor and is smaller."""
    if a.low >= 0 and a.high < b.low:
        return a.low, a.high
    high = max(b.high - 1, 0)
    return min(b.low + 1, 0), min(high, a.high) if a.low >= 0 and b.low > 0 else high


def comparison_domain(symbol: str, a: Domain, b: Domain) -> Domain:
    """What `a symbol b` can be; both are of one kind."""
    compare = COMPARISONS[symbol]
    pairs = _pairs(a, b)
    if pairs is not None:
        return Domain.of(compare(x, y) for x, y in pairs)
    if a.kind not in ("int", "float"):
        return ANY_BOOL
    if symbol in ("==", "!="):
        overlap = a.low <= b.high and b.low <= a.high
        return ANY_BOOL if overlap else Domain.of([symbol == "!="])
    return Domain.of((compare(a.low, b.high), compare(a.high, b.low)))


def _pairs(a: Domain, b: Domain) -> Iterable[tuple[Value, Value]] | None:
    """Every pair of values, if they are known and few."""
    if a.values is None or b.values is None or len(a.values) * len(b.values) > MAX_PAIRS:
        return None
    return ((x, y) for x in a.values for y in b.values)
