"""Which of many points are nearest to one, in order, without looking at all of them."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Point = tuple[float, ...]


class Near(Generic[T]):
    """Things at points of one dimension count d, sorted by the sum of their coordinates.

    Two points whose sums differ by s are at least s / sqrt(d) apart (Cauchy and Schwarz), so that points are visited
    from the asked one outwards until no farther sum can bring a nearer point.
    """

    def __init__(self, things: Iterable[tuple[Point, T]]) -> None:
        """Sort them."""
        self._rows = sorted(((sum(point), point, thing) for point, thing in things), key=lambda row: row[0])
        self._sums = [row[0] for row in self._rows]

    def around(self, point: Point, tie: Callable[[T], Any]) -> Iterator[tuple[float, T]]:
        """(distance, thing), the nearest first; `tie` orders those equally far and must be unique."""
        rows, middle, narrow = self._rows, sum(point), math.sqrt(len(point))
        high = bisect_left(self._sums, middle)
        low = high - 1
        found: list[tuple[float, Any, T]] = []
        while found or low >= 0 or high < len(rows):
            below = (middle - self._sums[low]) / narrow if low >= 0 else math.inf
            above = (self._sums[high] - middle) / narrow if high < len(rows) else math.inf
            if found and found[0][0] < min(below, above) - _ROUNDING:
                far, _, thing = heapq.heappop(found)
                yield far, thing
                continue
            if below <= above:
                row, low = rows[low], low - 1
            else:
                row, high = rows[high], high + 1
            heapq.heappush(found, (math.dist(point, row[1]), tie(row[2]), row[2]))


_ROUNDING = 1e-9
