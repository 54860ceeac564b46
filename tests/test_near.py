"""Nearest first: the same order as looking at all of them."""

from __future__ import annotations

import math
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from tuner.lookup.near import Near

coordinates = st.floats(0, 31)
points = st.tuples(coordinates, coordinates, coordinates, coordinates)


@given(st.lists(points, max_size=60), points)
def test_all_come_nearest_first(there: list[tuple[float, ...]], asked: tuple[float, ...]) -> None:
    found = list(Near((point, number) for number, point in enumerate(there)).around(asked, lambda number: number))
    assert sorted(number for _, number in found) == list(range(len(there)))
    assert [far for far, _ in found] == [math.dist(asked, there[number]) for _, number in found]
    assert [far for far, _ in found] == sorted(far for far, _ in found)


@given(st.lists(points, min_size=1, max_size=20), st.integers(0, 19))
def test_of_equally_near_ones_the_tie_decides(there: list[tuple[float, ...]], which: int) -> None:
    point = there[which % len(there)]
    near = Near((point, number) for number in (3, 1, 2))
    assert [number for _, number in near.around(point, lambda number: number)] == [1, 2, 3]


def test_the_nearest_of_many_is_found_without_looking_at_all() -> None:
    looked: list[int] = []
    near = Near(((float(i % 7), float(i), 3.0, 0.0), i) for i in range(2000))

    def tie(number: int) -> int:
        looked.append(number)
        return number

    ((far, number),) = islice(near.around((6.0, 1000.1, 3.0, 0.0), tie), 1)
    assert (round(far, 3), number) == (0.1, 1000) or far < 2
    assert len(looked) < 100
