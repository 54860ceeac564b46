"""What scripts/bench_throughput counts: idle, idle while something waits, measuring beside builds, builds a second."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes import DEVICE, PROBLEM, FakeBench, small_family, tuned
from throughput import Watched, build_rate, overlap
from tuner.model import Rendered
from tuner.store import open_store


@pytest.mark.parametrize(
    ("others", "seconds"),
    [([], 0.0), ([(0.0, 9.0)], 3.0), ([(5.0, 9.0), (1.0, 3.0), (2.0, 4.0)], 2.0), ([(2.5, 3.0), (2.0, 4.0)], 2.0)],
)
def test_seconds_in_common(others: list[tuple[float, float]], seconds: float) -> None:
    assert overlap((2.0, 5.0), others) == seconds


def test_idle_counts_against_us_only_while_something_waits() -> None:
    watched = Watched(FakeBench())
    watched.builds = {"a": (0.0, 1.0), "b": (0.0, 4.0), "c": (3.0, 5.5)}
    watched.measurements = {"a": (1.0, 2.0), "b": (5.0, 6.0), "c": (6.5, 7.0)}
    assert watched.idle_s == 3.5  # 2 to 5, 6 to 6.5
    assert watched.idle_with_work_s == 1.5  # b from 4 on, c from 6 on
    assert watched.overlap_s == 1.5  # a beside b's build, b beside c's until 5.5
    assert watched.seconds == 7.0


def test_a_watched_run_is_a_search_that_promotes_nobody(tmp_path: Path) -> None:
    families = {"grid": small_family(tmp_path)}
    watched = Watched(FakeBench())
    with open_store(str(tmp_path / "tuner.db"), upgrade=True) as store:
        outcome = tuned(watched, store, families, evaluations=20)
    assert outcome.evaluated == 20 and not outcome.promotion.promoted
    assert len(watched.sources) == len(watched.measurements) == 20 and len(watched.compile_ms) >= 20
    assert watched.measurements.keys() == {rendered.source_hash for rendered in watched.sources}


def test_the_first_build_of_each_worker_does_not_count(tmp_path: Path) -> None:
    family = small_family(tmp_path)
    sources: list[Rendered] = [family.render(c, PROBLEM, DEVICE) for c in family.space(PROBLEM, DEVICE).enumerate()]
    found = build_rate(FakeBench(), sources, 30.0)
    assert found["builds"] == 64 and found["builds_per_second"] > 0
    assert build_rate(FakeBench(), sources[:3], 30.0)["builds_per_second"] == 0.0
