"""Tables of legal choices, built axis by axis, and the order in which their rows are nearest to a point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuner.family.bind import BoundRule

Costs = Mapping[int, NDArray[np.float64]]
"""For each axis position, the distance of each choice from a point."""
DIVE_WIDTH = 64
_NO_ROWS = np.empty(0, dtype=np.intp)


@dataclass(frozen=True)
class Rows:
    """Rows of indices over some axes: `matrix[i]` is the uint8 column of the axis at `positions[i]`.

    A table's rows are distinct and in lexicographic order.
    """

    positions: tuple[int, ...]
    matrix: NDArray[np.uint8]

    def __len__(self) -> int:
        return int(self.matrix.shape[1])

    @property
    def columns(self) -> dict[int, NDArray[np.uint8]]:
        """The columns by axis position."""
        return dict(zip(self.positions, self.matrix, strict=True))

    def take(self, chosen: NDArray[np.intp] | NDArray[np.bool_]) -> Rows:
        """The chosen rows only."""
        return Rows(self.positions, self.matrix[:, chosen])


ONE_EMPTY_ROW = Rows((), np.empty((0, 1), dtype=np.uint8))


def extend(rows: Rows, axis: int, choices: int, rules: Sequence[BoundRule], limit: int | None = None) -> Rows | None:
    """Every row with every choice of one more axis that the rules allow; None if that makes more rows than `limit`.

    A rule is applied as soon as all its axes are bound; a tabulated one before that, too, in its weaker form: some
    choice of the axes still unbound must satisfy it.
    """
    bound = {*rows.positions, axis}
    columns = rows.columns
    filters = []
    for rule in rules:
        if axis in rule.positions and rule.table is not None:
            filters += _filters(rule, bound, axis, columns)
    kept, total = [_NO_ROWS], 0
    for choice in range(choices):
        chosen = _survivors(filters, choice, len(rows))
        total += len(chosen)
        if limit is not None and total > limit:
            return None
        kept.append(chosen)
    parents = np.concatenate(kept)
    # A stable sort merges the runs, so that the rows stay in lexicographic order.
    order = np.argsort(parents, kind="stable")
    added = np.repeat(np.arange(choices, dtype=np.uint8), [len(chosen) for chosen in kept[1:]])
    matrix = np.empty((len(bound), total), dtype=np.uint8)
    matrix[:-1] = rows.matrix[:, parents[order]]
    matrix[-1] = added[order]
    result = Rows((*rows.positions, axis), matrix)
    for rule in rules:
        if rule.table is None and axis in rule.positions and bound.issuperset(rule.positions):
            result = result.take(rule.holds(result.columns))
    return result


_Filter = tuple[NDArray[np.bool_], NDArray[np.intp] | None]
"""[choice, code] -> allowed, and the code of each row (None where the choice alone decides)."""


def _filters(rule: BoundRule, bound: set[int], axis: int, columns: Mapping[int, NDArray[np.uint8]]) -> list[_Filter]:
    positions = tuple(position for position in rule.positions if position in bound)
    allowed = rule.projection(positions)
    if allowed.all():
        return []
    by_choice = np.moveaxis(allowed, positions.index(axis), 0).reshape(allowed.shape[positions.index(axis)], -1)
    others = [position for position in positions if position != axis]
    return [(np.ascontiguousarray(by_choice), rule.codes(others, columns) if others else None)]


def _survivors(filters: Sequence[_Filter], choice: int, rows: int) -> NDArray[np.intp]:
    alive: NDArray[np.intp] | None = None
    for allowed, codes in filters:
        if codes is None:
            if not allowed[choice, 0]:
                return _NO_ROWS
        elif alive is None:
            alive = np.flatnonzero(allowed[choice][codes])
        else:
            alive = alive[allowed[choice][codes[alive]]]
    return np.arange(rows) if alive is None else alive


def best_next(bound: Sequence[int], rest: Sequence[int], choices: Sequence[int], rules: Sequence[BoundRule]) -> int:
    """The axis of `rest` by which a table over `bound` grows least, as far as single rules tell."""
    return min(rest, key=lambda axis: (_growth(bound, axis, choices, rules), axis))


def _growth(bound: Sequence[int], axis: int, choices: Sequence[int], rules: Sequence[BoundRule]) -> float:
    growth = float(choices[axis])
    for rule in rules:
        if axis in rule.positions and rule.table is not None:
            before = tuple(position for position in rule.positions if position in bound)
            after = tuple(position for position in rule.positions if position in bound or position == axis)
            share = float(rule.projection(before).mean()) if before else 1.0
            growth *= float(rule.projection(after).mean()) / share if share else 0.0
    return growth


class Table:
    """All legal choices of some axes that rules tie together (or of a single axis).

    The rows are also kept as a tree, one level for each axis: the distance of a node in the axes down to it is a lower
    bound for all rows below, so few nodes need to be looked at for the rows nearest to a point.
    """

    exact = True

    def __init__(self, rows: Rows) -> None:
        """A component whose legal choices are just `rows`."""
        self.positions = rows.positions
        self.rows = rows
        self.size = len(rows)
        self.levels = _levels(rows.matrix)

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.uint8]:
        """A matrix of `count` rows drawn uniformly, with repetition."""
        return self.rows.matrix[:, rng.integers(self.size, size=count)]

    def nearest(self, costs: Costs) -> TableRanking:
        """Its rows, nearest first."""
        return TableRanking(self, costs)


@dataclass(frozen=True)
class Level:
    """The nodes of a tree at one axis: the choice of each, and the range of its children on the level below."""

    choice: NDArray[np.uint8]
    first: NDArray[np.int32]
    """Node i has the children first[i] to first[i + 1] - 1; on the last level they are the rows themselves."""


def _levels(matrix: NDArray[np.uint8]) -> list[Level]:
    rows = matrix.shape[1]
    new_node = np.zeros(rows, dtype=bool)
    new_node[:1] = True
    starts = []
    for column in matrix:
        new_node[1:] |= column[1:] != column[:-1]
        starts.append(np.flatnonzero(new_node))
    below = [*starts[1:], np.arange(rows)]
    return [
        Level(column[start], np.append(np.searchsorted(children, start), len(children)).astype(np.int32))
        for column, start, children in zip(matrix, starts, below, strict=True)
    ]


class TableRanking:
    """Rows in order of distance, ties in order of the table; sorted shell by shell, as far as anyone asks."""

    def __init__(self, table: Table, costs: Costs) -> None:
        """The ranking of `table` by `costs`."""
        self._table = table
        self._costs = [costs[position] for position in table.positions]
        self._order = _NO_ROWS
        self._distances = np.empty(0)
        self._reach = -np.inf
        self._width = 1.0

    def get(self, rank: int) -> tuple[float, NDArray[np.uint8]] | None:
        """Distance and indices of the row at `rank`, or None behind the last."""
        if rank >= self._table.size:
            return None
        if rank >= len(self._order):
            self._extend_to(rank + 1)
        return float(self._distances[rank]), self._table.rows.matrix[:, self._order[rank]]

    def first(self, count: int) -> NDArray[np.intp]:
        """The numbers of the nearest `count` rows of the table, or of all if it has no more."""
        self._extend_to(min(count, self._table.size))
        return self._order[:count]

    def _extend_to(self, count: int) -> None:
        while len(self._order) < count:
            if len(self._order):
                reach = self._reach + self._width
                self._width *= 1.5
            else:
                # The best of a narrow search bounds the nearest from above.
                reach = float(self._descend(np.inf, DIVE_WIDTH)[1].min())
            rows, distances = self._descend(reach)
            shell = distances > self._reach
            rows, distances = rows[shell], distances[shell]
            order = np.argsort(distances, kind="stable")
            self._order = np.concatenate([self._order, rows[order]])
            self._distances = np.concatenate([self._distances, distances[order]])
            self._reach = reach

    def _descend(self, reach: float, width: int | None = None) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Numbers (ascending) and distances of the rows up to `reach` away, over the best `width` of each level."""
        nodes, distances = np.zeros(1, dtype=np.intp), np.zeros(1)
        first = np.array([0, len(self._table.levels[0].choice)])
        for level, cost in zip(self._table.levels, self._costs, strict=True):
            starts, counts = first[nodes], first[nodes + 1] - first[nodes]
            skipped = np.repeat(starts - (np.cumsum(counts) - counts), counts)
            nodes = np.arange(len(skipped)) + skipped
            distances = np.repeat(distances, counts) + cost[level.choice[nodes]]
            kept = np.flatnonzero(distances <= reach)
            if width is not None and len(kept) > width:
                kept = np.sort(np.argpartition(distances, width)[:width])
            nodes, distances, first = nodes[kept], distances[kept], level.first
        return nodes, distances
