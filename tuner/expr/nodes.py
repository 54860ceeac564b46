"""Checked sub-expressions: the domain, the names, and the two functions that evaluate each one.

numpy is imported when there is a column to compute: a look-up needs the scalar form alone, and has no time for numpy.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.expr.domain import (
    ANY_BOOL,
    ARITHMETIC,
    COMPARISONS,
    Domain,
    Value,
    arithmetic_domain,
    comparison_domain,
)

Evaluate = Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True)
class Node:
    """A sub-expression: its domain, the names its value rests on, and its scalar and column forms."""

    domain: Domain
    names: frozenset[str]
    scalar: Evaluate
    columns: Evaluate


def constant(value: Value) -> Node:
    """A literal."""
    return Node(Domain.of([value]), frozenset(), lambda env: value, lambda env: value)


def name(text: str, domain: Domain) -> Node:
    """A value looked up by name."""

    def column(env: Mapping[str, Any]) -> Any:
        value = env[text]
        if (numpy := sys.modules.get("numpy")) is None:
            return value
        if isinstance(value, numpy.generic):
            return value.item()
        if domain.kind == "int" and isinstance(value, numpy.ndarray):
            return value.astype("int64" if domain.fits else object, copy=False)
        return value

    return _folded(domain, frozenset((text,)), operator.itemgetter(text), column)


def arithmetic(symbol: str, left: Node, right: Node) -> Node:
    """`left symbol right` for numbers, where a divisor is never zero."""
    if symbol == "/" or left.domain.kind != right.domain.kind:
        left, right = to_float(left), to_float(right)
    domain = arithmetic_domain(symbol, left.domain, right.domain)
    function = ARITHMETIC[symbol]
    columns = _COLUMN_FORMS.get(symbol, function)
    if not (left.domain.fits and right.domain.fits and domain.fits):
        columns = _beyond_int64(columns, "int64" if domain.fits else None)
    return _binary(domain, left, right, function, columns)


def comparison(symbol: str, left: Node, right: Node) -> Node:
    """`left symbol right`, for two numbers or two values of one type."""
    if left.domain.kind != right.domain.kind:
        left, right = to_float(left), to_float(right)
    domain = comparison_domain(symbol, left.domain, right.domain)
    function: Callable[..., Any] = COMPARISONS[symbol]
    fits = left.domain.fits and right.domain.fits
    return _binary(domain, left, right, function, function if fits else _beyond_int64(function, "bool"))


def negation(operand: Node) -> Node:
    """`not operand`."""
    scalar, columns = operand.scalar, operand.columns
    domain = Domain.of(not value for value in operand.domain.values or ())
    return _folded(domain, operand.names, lambda env: not scalar(env), lambda env: columns(env) ^ True)


def junction(word: str, nodes: Sequence[Node]) -> Node:
    """`and` or `or` of booleans; those of known value are dropped, or decide it."""
    decisive = word == "or"
    if any(node.domain.single == (decisive,) for node in nodes):
        return constant(decisive)
    rest = [node for node in nodes if not node.domain.single]
    result = rest[0] if rest else constant(not decisive)
    function = operator.or_ if decisive else operator.and_
    for node in rest[1:]:
        result = _binary(ANY_BOOL, result, node, function, function)
    return result


def conditional(test: Node, yes: Node, no: Node) -> Node:
    """`yes if test else no`, for two numbers or two values of one type."""
    if yes.domain.kind != no.domain.kind:
        yes, no = to_float(yes), to_float(no)
    if test.domain.single:
        return yes if test.domain.single[0] else no
    domain = yes.domain.union(no.domain)
    scalar_test, scalar_yes, scalar_no = test.scalar, yes.scalar, no.scalar

    def column(env: Mapping[str, Any]) -> Any:
        chosen, first, second = test.columns(env), yes.columns(env), no.columns(env)
        if not _any_column((chosen,)):
            return first if chosen else second
        import numpy as np

        if not domain.fits:
            first, second = np.asarray(first, dtype=object), np.asarray(second, dtype=object)
        return np.where(chosen, first, second)

    names = test.names | yes.names | no.names
    return _folded(domain, names, lambda env: scalar_yes(env) if scalar_test(env) else scalar_no(env), column)


def to_float(node: Node) -> Node:
    """A number as a float."""
    if node.domain.kind == "float":
        return node
    scalar, columns = node.scalar, node.columns

    def column(env: Mapping[str, Any]) -> Any:
        value = columns(env)
        return value.astype("float64") if _any_column((value,)) else float(value)

    return _folded(node.domain.as_float(), node.names, lambda env: float(scalar(env)), column)


def _folded(domain: Domain, names: frozenset[str], scalar: Evaluate, columns: Evaluate) -> Node:
    """An inner node; one with a single possible value becomes that value and rests on no name."""
    return constant(domain.single[0]) if domain.single else Node(domain, names, scalar, columns)


def _binary(
    domain: Domain, left: Node, right: Node, function: Callable[..., Any], over_columns: Callable[..., Any]
) -> Node:
    a, b, column_a, column_b = left.scalar, right.scalar, left.columns, right.columns

    def column(env: Mapping[str, Any]) -> Any:
        return over_columns(column_a(env), column_b(env))

    return _folded(domain, left.names | right.names, lambda env: function(a(env), b(env)), column)


def _least(a: Any, b: Any) -> Any:
    return sys.modules["numpy"].minimum(a, b) if _any_column((a, b)) else min(a, b)


def _greatest(a: Any, b: Any) -> Any:
    return sys.modules["numpy"].maximum(a, b) if _any_column((a, b)) else max(a, b)


_COLUMN_FORMS: Mapping[str, Callable[..., Any]] = {"min": _least, "max": _greatest}


def _any_column(operands: Iterable[Any]) -> bool:
    """Whether any is an array, which none is before numpy is imported."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and any(isinstance(operand, numpy.ndarray) for operand in operands)


def _beyond_int64(function: Callable[..., Any], back_to: str | None) -> Callable[..., Any]:
    """`function` over columns of Python's own whole numbers, its result narrowed to `back_to` if given."""

    def exact(*operands: Any) -> Any:
        if not _any_column(operands):
            return function(*operands)
        import numpy as np

        result = function(*(np.asarray(operand, dtype=object) for operand in operands))
        return result.astype(back_to) if back_to else result

    return exact
