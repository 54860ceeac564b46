"""The comparison with Kernel Tuner: a recorded space becomes a cache file of its, and its results become fractions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernel_tuner_rival import STRATEGIES, _fractions, replay_strategy, write_cache
from search_page import MARKS, OURS, plan, put_between_marks, tables
from tuner.search.recorded import RecordedSpace
from tuner.search.replay import Settings, misleading, replay


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


def test_a_page_has_ours_first_and_the_better_opponent_before_the_worse(space: RecordedSpace) -> None:
    rows = plan(["grid"], ["ours", "random"], ["mls"], 2)
    assert [row.label for row in rows] == [*(row.label for row in OURS), "kernel-tuner:mls", "random"]
    found = {row.key: replay(space, Settings(100, 2, row.seed)).to_json() for row in rows[:1]}
    for row, fraction in ((rows[-2], 0.5), (rows[-1], 0.7)):
        at = {str(count): {"median": fraction, "p10": fraction} for count in (25, 50, 100)}
        found[row.key] = {**found[rows[0].key], "fraction_of_optimum": at}
    lines = tables(rows, found, "With nothing:").splitlines()
    assert [line.split(" | ")[0] for line in lines[4:]] == ["| **grid**", "| plain", "| random", "| kernel-tuner:mls"]
    assert "| plain | 100, 120 | " in lines[5] and "| 0.700 / 0.700 | " in lines[6]
    page = f"before\n{MARKS[0]}\nold\n{MARKS[1]}\nafter\n"
    assert put_between_marks(page, "new") == f"before\n{MARKS[0]}\n\nnew\n\n{MARKS[1]}\nafter\n"
    with pytest.raises(ValueError, match="two lines"):
        put_between_marks("no marks", "new")


def test_a_misleading_portfolio_is_of_median_quality(space: RecordedSpace) -> None:
    times = sorted(time for time in space.times.values() if time is not None)
    chosen = [space.times[config] for config in misleading(space)]
    assert len(chosen) == 8 and chosen == times[24:32]
