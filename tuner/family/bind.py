"""Rules bound to one problem and device: over the indices of axis choices, tabulated where that is small.

Index columns are uint8, one row of a matrix for each axis; `positions` count a family's axes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.expr import Domain, Expression, Value, compile_expression
from tuner.family.declare import Axis, Rule

Columns = Mapping[int, NDArray[np.uint8]]
"""Index columns by axis position."""
TABLE_ENTRIES = 2**18
"""Rules whose axes have up to this many combinations are tabulated."""


class BoundRule:
    """A rule whose remaining names are axes (at `positions`, ascending) and derived sizes of those."""

    def __init__(self, axes: Sequence[Axis], positions: tuple[int, ...], formulas: Mapping[str, Expression]) -> None:
        """`formulas` are the derived sizes needed, in order, and last the test itself."""
        self.positions = positions
        self.shape = tuple(len(axes[position].values) for position in positions)
        self._names = [axes[position].name for position in positions]
        self._choices = [np.array(axes[position].values) for position in positions]
        self._formulas = formulas
        self._projections: dict[tuple[int, ...], NDArray[np.bool_]] = {}
        self.table: NDArray[np.bool_] | None = None
        if math.prod(self.shape) <= TABLE_ENTRIES:
            grid = np.ix_(*self._choices) if positions else ()
            self.table = np.array(np.broadcast_to(self._evaluate(grid), self.shape), dtype=bool)
            self._flat = self.table.ravel()
            self._projections[positions] = self.table

    def _evaluate(self, columns: Sequence[NDArray[Any]]) -> Any:
        env: dict[str, Any] = dict(zip(self._names, columns, strict=True))
        for name, formula in self._formulas.items():
            env[name] = formula.columns(env)
        return env[name]

    def holds(self, columns: Columns) -> NDArray[np.bool_]:
        """Where the rule holds, for columns that have all its axes."""
        if self.table is None:
            values = [choices[columns[p]] for choices, p in zip(self._choices, self.positions, strict=True)]
            return np.asarray(np.broadcast_to(self._evaluate(values), values[0].shape), dtype=bool)
        return np.take(self._flat, self.codes(self.positions, columns))

    def projection(self, positions: tuple[int, ...]) -> NDArray[np.bool_]:
        """Over these of its axes only (ascending): whether some choice of the others makes a tabulated rule hold."""
        if positions not in self._projections:
            assert self.table is not None
            others = tuple(i for i, position in enumerate(self.positions) if position not in positions)
            self._projections[positions] = np.asarray(self.table.any(axis=others))
        return self._projections[positions]

    def codes(self, positions: Sequence[int], columns: Columns) -> NDArray[np.intp]:
        """The flat index into a table over these of its axes, for each row."""
        shape = dict(zip(self.positions, self.shape, strict=True))
        code = columns[positions[0]].astype(np.intp)
        for position in positions[1:]:
            code *= shape[position]
            code += columns[position]
        return code


def bind_rules(
    axes: Sequence[Axis], derived: Mapping[str, Expression], rules: Sequence[Rule], facts: Mapping[str, Value]
) -> list[BoundRule] | None:
    """The rules that still exclude something, given the facts of a problem and device; None if one can never hold."""
    names = {axis.name: Domain.of(axis.values) for axis in axes}
    names |= {name: Domain.of([value]) for name, value in facts.items()}
    formulas: dict[str, Expression] = {}
    for name, expression in derived.items():
        formulas[name] = compile_expression(expression.text, names, expression.where)
        names[name] = formulas[name].domain
    bound = []
    for rule in rules:
        test = compile_expression(rule.test.text, names, rule.test.where)
        if test.domain.single == (False,):
            return None
        if test.domain.single:
            continue
        needed = _needed(test, formulas)
        positions = tuple(i for i, axis in enumerate(axes) if any(axis.name in f.names for f in needed.values()))
        bound.append(BoundRule(axes, positions, needed))
    return [rule for rule in bound if rule.table is None or not rule.table.all()]


def _needed(test: Expression, formulas: dict[str, Expression]) -> dict[str, Expression]:
    """The derived sizes `test` rests on, in their order, then the test."""
    wanted = set(test.names)
    chosen: list[str] = []
    for name in reversed(formulas):
        if name in wanted:
            wanted |= formulas[name].names
            chosen.append(name)
    return {name: formulas[name] for name in reversed(chosen)} | {"": test}


def all_hold(rules: Sequence[BoundRule], columns: Columns, rows: int) -> NDArray[np.bool_]:
    """Where every rule holds; `columns` have `rows` rows and all axes of the rules."""
    legal = np.ones(rows, dtype=bool)
    for rule in rules:
        legal &= rule.holds(columns)
    return legal
