"""Blocks by several threads: in order, with the first error, and the same numbers whatever the threads are."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tuner.model import Problem
from tuner.verify import make_operands, parallel
from tuner.verify import operands as verify_operands
from tuner.verify.draws import small_integers


def test_results_stand_in_order_and_errors_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_cores", lambda: 4)
    both = threading.Barrier(2, timeout=20)

    def met(number: int) -> int:
        both.wait()
        return number * number

    assert parallel.each(met, range(8)) == [number * number for number in range(8)]
    with pytest.raises(ZeroDivisionError):
        parallel.each(lambda number: 1 // number, range(3))
    assert parallel.each(str, []) == []


@pytest.mark.parametrize("values", ["integers", "floats", "outside"])
def test_a_seed_gives_the_same_operands_on_any_number_of_cores(values: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_operands, "DRAWN_ELEMENTS", 100)
    problem, drawn = Problem(30, 40, 50, align=4), []
    for cores in (1, 3):
        monkeypatch.setattr(parallel, "_cores", lambda cores=cores: cores)
        given = make_operands(problem, 5, values, "add")  # type: ignore[arg-type]
        assert given.factors is not None and given.c is not None
        drawn.append(tuple(array.tobytes() for array in (*given.factors.arrays, given.c)))
        del given  # what is in use is not drawn again
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) == 3


@pytest.mark.parametrize("within", [1, 2, 63, 127])
def test_small_integers_are_all_there_but_zero(within: int) -> None:
    drawn = small_integers(np.random.default_rng(0), (200, 501), within)
    assert drawn.shape == (200, 501) and drawn.dtype == np.int8
    found, counts = np.unique(drawn, return_counts=True)
    assert found.tolist() == [number for number in range(-within, within + 1) if number]
    assert counts.max() <= 4 * counts.min()
