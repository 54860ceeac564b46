"""A component too large for a table: a core table over some of its axes, and a tail of axes bound when needed.

The core is complete. What the tail adds is found for some core rows at a time: for randomly chosen ones to sample and
to estimate the size, for those nearest to a point to snap to it (a beam search).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tuner.family.bind import BoundRule
from tuner.family.table import Costs, Rows, Table, extend

ESTIMATE_ROWS = 4096
KEPT_ROWS = 32768
"""Rows kept at random while the size is estimated."""
SAMPLE_ROWS, KEPT_OF_SAMPLE = 512, 8192
"""Core rows that a sample begins with, and rows kept at random while it is extended, at least."""
MOST_SAMPLE_ROWS = 2**16
MOST_ATTEMPTS = 32
BEAM = 1024
WIDEST_BEAM = 2**17


class CoreAndTail:
    """Core rows, the axes still unbound in the order in which they are bound, and the rules that tie them."""

    exact = False

    def __init__(self, core: Rows, tail: Sequence[int], choices: Sequence[int], rules: Sequence[BoundRule]) -> None:
        """`choices` counts those of every axis by position; `rules` are the component's."""
        self.positions = (*core.positions, *tail)
        self._core = core
        self._table = Table(core)
        self._tail = tail
        self._choices = choices
        self._rules = rules
        # A fixed seed: the same space always reports the same estimate.
        rows, factor = self._random_rows(np.random.default_rng(0), ESTIMATE_ROWS, KEPT_ROWS)
        self.size = round(len(rows) * factor * len(core) / min(ESTIMATE_ROWS, len(core)))

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.uint8]:
        """A matrix of `count` legal rows, each legal row about equally likely, repeated if more are hard to find.

        It has no row at all if none was found.
        """
        parts = []
        found, tried = 0, max(SAMPLE_ROWS, min(count, MOST_SAMPLE_ROWS))
        for _ in range(MOST_ATTEMPTS):
            rows, _ = self._random_rows(rng, tried, max(KEPT_OF_SAMPLE, 4 * count))
            parts.append(rows.matrix[:, rng.permutation(len(rows))])
            found += len(rows)
            if found >= count or tried >= len(self._core):
                break
            tried = min(8 * tried, MOST_SAMPLE_ROWS)
        matrix = np.concatenate(parts, axis=1)
        return matrix[:, :count] if found >= count or not found else matrix[:, rng.integers(found, size=count)]

    def nearest(self, costs: Costs) -> BeamRanking:
        """Legal rows, roughly nearest first."""
        core = self._table.nearest(costs)

        def search(beam: int) -> tuple[Rows, bool]:
            whole = beam >= len(self._core)

            def cut(rows: Rows) -> Rows:
                nonlocal whole
                whole = whole and len(rows) <= beam
                return rows.take(np.argsort(_distances(rows, costs), kind="stable")[:beam])

            return self._extended(self._core.take(core.first(beam)), cut), whole

        return BeamRanking(search, costs)

    def _random_rows(self, rng: np.random.Generator, tried: int, kept: int) -> tuple[Rows, float]:
        """Legal rows over `tried` random core rows, thinned at random to `kept` rows, and how many each stands for."""
        factor = 1.0

        def thin(rows: Rows) -> Rows:
            nonlocal factor
            if len(rows) <= kept:
                return rows
            factor *= len(rows) / kept
            return rows.take(rng.choice(len(rows), kept, replace=False, shuffle=False))

        core = self._core
        if tried < len(core):
            core = core.take(rng.choice(len(core), tried, replace=False, shuffle=False))
        return self._extended(core, thin), factor

    def _extended(self, rows: Rows, cut: Callable[[Rows], Rows]) -> Rows:
        for axis in self._tail:
            extended = extend(rows, axis, self._choices[axis], self._rules)
            assert extended is not None
            rows = cut(extended)
        return rows


def _distances(rows: Rows, costs: Costs) -> NDArray[np.float64]:
    total = np.zeros(len(rows))
    for position, column in rows.columns.items():
        total += costs[position][column]
    return total


class BeamRanking:
    """Rows found by ever wider beams; each beam adds what the ones before it missed, in order of distance."""

    def __init__(self, search: Callable[[int], tuple[Rows, bool]], costs: Costs) -> None:
        """`search(beam)` finds legal rows in order of distance, and says whether these are all there are."""
        self._search = search
        self._costs = costs
        self._beam = BEAM
        self._found: list[tuple[float, NDArray[np.uint8]]] = []
        self._seen: set[bytes] = set()

    def get(self, rank: int) -> tuple[float, NDArray[np.uint8]] | None:
        """Distance and indices of the row at `rank`, or None when no beam finds one more."""
        while rank >= len(self._found):
            if self._beam > WIDEST_BEAM:
                return None
            rows, whole = self._search(self._beam)
            self._beam = WIDEST_BEAM + 1 if whole else 8 * self._beam
            for distance, row in zip(_distances(rows, self._costs), rows.matrix.T, strict=True):
                key = row.tobytes()
                if key not in self._seen:
                    self._seen.add(key)
                    self._found.append((float(distance), row))
        return self._found[rank]
