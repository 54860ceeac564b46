"""The space of a family for one problem and device: its legal configurations, never multiplied out whole.

Axes that rules tie together, directly or through derived sizes, form a component; components are independent of each
other, so every question is answered for each and put together. A component is a complete table of its legal choices or,
where that would have more than `MAX_ROWS` rows, a complete table of some of its axes and a tail of the others.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.expr import Expression, Value
from tuner.family.bind import BoundRule, all_hold, bind_rules
from tuner.family.declare import Axis, Rule
from tuner.family.table import ONE_EMPTY_ROW, Rows, Table, TableRanking, best_next, extend
from tuner.family.tail import BeamRanking, CoreAndTail
from tuner.model import Config, UserError

MAX_ROWS = 2_000_000
"""Rows of the largest table that is built."""

FRUITLESS = 8
"""Draws without a new configuration after which a sample of a space of estimated size has all that it gets."""

Component = Table | CoreAndTail


class Space:
    """All legal configurations.

    Rules are bound at once; the tables, which may take some tenths of a second, are built when they are first needed.
    """

    def __init__(
        self,
        family: str,
        axes: Sequence[Axis],
        derived: Mapping[str, Expression],
        rules: Sequence[Rule],
        facts: Mapping[str, Value],
        max_rows: int = MAX_ROWS,
    ) -> None:
        """`facts` holds the value of every `problem.*` and `device.*` name."""
        self.family = family
        self.axes = tuple(axes)
        self._choices = [len(axis.values) for axis in axes]
        self._index = [{value: index for index, value in enumerate(axis.values)} for axis in axes]
        order = sorted(range(len(axes)), key=lambda position: axes[position].name)
        self._pairs = [([(axes[at].name, value) for value in axes[at].values], at) for at in order]
        """Of each axis, by name: (name, value) for each choice, and its position."""
        self._derived, self._facts = derived, facts
        bound = bind_rules(axes, derived, rules, facts)
        self._never = bound is None
        self._rules = bound or []
        self._max_rows = max_rows

    @cached_property
    def _components(self) -> list[Component]:
        groups = [] if self._never else _tied(len(self.axes), self._rules)
        return [_component(positions, self._choices, self._rules, self._max_rows) for positions in groups]

    @cached_property
    def size(self) -> tuple[int, bool]:
        """How many there are, and whether that is exact or an estimate."""
        if self._never:
            return 0, True
        total = math.prod(component.size for component in self._components)
        exact = all(component.exact for component in self._components)
        return total, exact or any(component.exact and component.size == 0 for component in self._components)

    def contains(self, config: Config) -> bool:
        """The configuration is of this family, complete, and breaks no rule."""
        values = config.as_dict()
        if self._never or config.family != self.family or values.keys() != {axis.name for axis in self.axes}:
            return False
        if any(values[axis.name] not in index for axis, index in zip(self.axes, self._index, strict=True)):
            return False
        return bool(self._legal(self._row(values)[:, None])[0])

    def indices(self, config: Config) -> dict[str, int]:
        """For each axis the index of the configuration's choice; a UserError if it is none of this family's."""
        values = config.as_dict()
        try:
            return {axis.name: index[values[axis.name]] for axis, index in zip(self.axes, self._index, strict=True)}
        except KeyError:
            raise UserError(f"{config} is no configuration of {self.family} as it is now.") from None

    def sample(self, rng: np.random.Generator, count: int) -> list[Config]:
        """Up to `count` distinct legal configurations, each about equally likely.

        They are fewer only if there are no more or, in a space of estimated size, if more are hard to find.
        """
        if self.size == (0, True) or count < 1:
            return []
        total, exact = self.size
        if exact and total <= 4 * count:
            return [self._config(self._decoded(number)) for number in rng.permutation(total)[:count].tolist()]
        found: dict[Config, None] = {}
        fruitless = 0
        while len(found) < count and fruitless < FRUITLESS:
            before = len(found)
            for row in self._draw(rng, count).T.tolist():
                found[self._config(row)] = None
            fruitless = fruitless + 1 if len(found) == before else 0
        return list(itertools.islice(found, count))

    def neighbours(self, *configs: Config) -> list[Config]:
        """The legal configurations that differ from one of these in a single axis: those of the first, and so on.

        A neighbour of two is listed twice. Asking for several at once costs little more than asking for one.
        """
        rows = np.array([list(self.indices(config).values()) for config in configs], dtype=np.uint8)
        if self._never or not rows.size:
            return []
        axis = np.repeat(np.arange(len(self.axes)), self._choices)
        choice = np.concatenate([np.arange(count) for count in self._choices])
        near = np.repeat(rows.T[:, :, None], len(axis), axis=2)
        near[axis, :, np.arange(len(axis))] = choice[:, None]
        changed = (choice != rows[:, axis]).ravel()
        near = near.reshape(len(self.axes), -1)[:, changed]
        return [self._config(other) for other in near[:, self._legal(near)].T.tolist()]

    def snap(self, point: Mapping[str, float], exclude: Container[Config] = ()) -> Config | None:
        """The legal configuration nearest to `point` that is not in `exclude`; None if there is none.

        `point` gives an index into the choices of each axis, which may be fractional or out of range; distance is the
        sum of differences of indices. Exact where the space is; among equally near ones the choice is always the same.
        """
        for row in self._by_distance(self._costs(point)):
            config = self._config(row)
            if config not in exclude:
                return config
        return None

    def columns(self, configs: Sequence[Config]) -> dict[str, NDArray[np.float64]]:
        """Every axis and derived size that is a number, by name, for each configuration; words by their index."""
        rows = np.array([self._row(config.as_dict()) for config in configs]).reshape(-1, len(self.axes))
        env: dict[str, Any] = dict(self._facts)
        found = {}
        for axis, row in zip(self.axes, rows.T, strict=True):
            env[axis.name] = np.array(axis.values)[row]
            found[axis.name] = row if isinstance(axis.values[0], str) else env[axis.name]
        for name, formula in self._derived.items():
            env[name] = formula.columns(env)
            if formula.domain.kind != "str":
                found[name] = np.broadcast_to(env[name], len(rows))
        return {name: column.astype(np.float64) for name, column in found.items()}

    def enumerate(self) -> Iterator[Config]:
        """Every legal configuration of a space whose size is exact; a ValueError if it is an estimate."""
        total, exact = self.size
        if not exact:
            raise ValueError(f"the space of {self.family} is too large to enumerate")
        return (self._config(self._decoded(number)) for number in range(total))

    def _row(self, values: Mapping[str, object]) -> NDArray[np.uint8]:
        indices = [index[values[axis.name]] for axis, index in zip(self.axes, self._index, strict=True)]  # type: ignore[index]
        return np.array(indices, dtype=np.uint8)

    def _legal(self, matrix: NDArray[np.uint8]) -> NDArray[np.bool_]:
        return all_hold(self._rules, dict(enumerate(matrix)), matrix.shape[1])

    def _config(self, row: Sequence[int]) -> Config:
        return Config(self.family, tuple([pairs[row[position]] for pairs, position in self._pairs]))

    def _decoded(self, number: int) -> list[int]:
        """The indices of configuration `number` of an exact space."""
        row = [0] * len(self.axes)
        for component in self._components:
            assert isinstance(component, Table)
            number, index = divmod(number, component.size)
            for position, choice in zip(component.positions, component.rows.matrix[:, index].tolist(), strict=True):
                row[position] = choice
        return row

    def _draw(self, rng: np.random.Generator, count: int) -> NDArray[np.uint8]:
        parts = [(component.positions, component.draw(rng, count)) for component in self._components]
        rows = min([part.shape[1] for _, part in parts], default=count)
        matrix = np.empty((len(self.axes), rows), dtype=np.uint8)
        for positions, part in parts:
            matrix[list(positions)] = part[:, :rows]
        return matrix

    def _costs(self, point: Mapping[str, float]) -> dict[int, NDArray[np.float64]]:
        costs = {}
        for position, axis in enumerate(self.axes):
            target = min(max(float(point[axis.name]), 0.0), len(axis.values) - 1.0)
            if math.isnan(target):
                raise ValueError(f"the point has no place along {axis.name}")
            costs[position] = np.abs(np.arange(len(axis.values)) - target)
        return costs

    def _by_distance(self, costs: Mapping[int, NDArray[np.float64]]) -> Iterator[list[int]]:
        """Rows over all axes, nearest first: the components' rankings merged, each combination of ranks visited once.

        A combination is reached from the one that has 1 less at its last rank that is not 0, which is never farther.
        """
        if self._never:
            return
        rankings = [component.nearest(costs) for component in self._components]
        nearest = [ranking.get(0) for ranking in rankings]
        if None in nearest:
            return
        distances = tuple(place[0] for place in nearest if place)
        queue = [(sum(distances), (0,) * len(rankings), distances)]
        while queue:
            _, ranks, distances = heapq.heappop(queue)
            yield self._joined(rankings, ranks)
            last = max((i for i, rank in enumerate(ranks) if rank), default=0)
            for i in range(last, len(ranks)):
                place = rankings[i].get(ranks[i] + 1)
                if place is not None:
                    farther = (*distances[:i], place[0], *distances[i + 1 :])
                    heapq.heappush(queue, (sum(farther), (*ranks[:i], ranks[i] + 1, *ranks[i + 1 :]), farther))

    def _joined(self, rankings: Sequence[TableRanking | BeamRanking], ranks: Sequence[int]) -> list[int]:
        """The row over all axes that has each component's row at its rank."""
        row = [0] * len(self.axes)
        for component, ranking, rank in zip(self._components, rankings, ranks, strict=True):
            place = ranking.get(rank)
            assert place is not None
            for position, choice in zip(component.positions, place[1].tolist(), strict=True):
                row[position] = choice
        return row


def _tied(axes: int, rules: Sequence[BoundRule]) -> list[list[int]]:
    """The axes in groups that no rule ties to each other."""
    group_of = [{axis} for axis in range(axes)]
    for rule in rules:
        joined = set().union(*(group_of[position] for position in rule.positions))
        for axis in joined:
            group_of[axis] = joined
    return [sorted(group) for axis, group in enumerate(group_of) if axis == min(group)]


def _component(
    positions: Sequence[int], choices: Sequence[int], rules: Sequence[BoundRule], max_rows: int
) -> Component:
    """The table of these axes, built in the order in which it grows least; a core and a tail if it grows too large."""
    own = [rule for rule in rules if set(rule.positions) <= set(positions)]
    rows: Rows = ONE_EMPTY_ROW
    rest = list(positions)
    while rest:
        axis = best_next(rows.positions, rest, choices, own)
        extended = extend(rows, axis, choices[axis], own, max_rows if rows.positions else None)
        if extended is None:
            return CoreAndTail(rows, _in_order(rows.positions, rest, choices, own), choices, own)
        rows = extended
        rest.remove(axis)
    return Table(rows)


def _in_order(
    bound: Sequence[int], rest: Sequence[int], choices: Sequence[int], rules: Sequence[BoundRule]
) -> list[int]:
    order: list[int] = []
    while len(order) < len(rest):
        remaining = [axis for axis in rest if axis not in order]
        order.append(best_next([*bound, *order], remaining, choices, rules))
    return order
