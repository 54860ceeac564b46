"""The comparison with Kernel Tuner: a recorded space becomes a cache file of its, and its results become fractions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernel_tuner_rival import STRATEGIES, _fractions, replay_strategy, write_cache
from tuner.search.recorded import RecordedSpace
from tuner.search.replay import Settings


@pytest.fixture
def space() -> RecordedSpace:
    columns = {"x": [x for x in range(8) for _ in range(8)], "y": list(range(8)) * 8}
    times = [None if x == 7 else 1.0 + abs(x - 3) + 0.5 * abs(y - 5) for x, y in zip(*columns.values(), strict=True)]
    return RecordedSpace("grid", columns, times)


def test_a_space_becomes_a_cache_file(space: RecordedSpace, tmp_path: Path) -> None:
    write_cache(space, tmp_path / "grid.json")
    written = json.loads((tmp_path / "grid.json").read_text())
    assert written["tune_params"] == {"x": list(range(8)), "y": list(range(8))}
    assert len(written["cache"]) == 64 and written["cache"]["3,5"]["time"] == 1.0
    assert written["cache"]["7,0"]["time"] == "RuntimeFailedConfig"


def test_only_distinct_evaluations_count(space: RecordedSpace) -> None:
    asked = [(0, 5, 4.0), (7, 0, "RuntimeFailedConfig"), (0, 5, 4.0), (2, 5, 2.0), (3, 5, 1.0)]
    results = [{"x": x, "y": y, "time": time} for x, y, time in asked]
    assert _fractions(space, results, 6) == [0.25, 0.25, 0.5, 1.0, 1.0, 1.0]
    assert _fractions(space, results[1:2], 2) == [0.0, 0.0]


def test_its_strategies_run_on_it(space: RecordedSpace, tmp_path: Path) -> None:
    pytest.importorskip("kernel_tuner")
    write_cache(space, tmp_path / "grid.json")
    for strategy in ("random_sample", "genetic_algorithm"):
        assert strategy in STRATEGIES
        replayed = replay_strategy(space, tmp_path / "grid.json", strategy, Settings(evaluations=40, repeats=2))
        assert replayed.fractions.shape == (2, 40) and (replayed.fractions[:, -1] >= 0.4).all()
