"""Many simulated nights: a better configuration is promoted soon, and equal ones do not take turns."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes import DEVICE, PROBLEM, SILICON, SOFTWARE, FakeBench, small_family, tuned
from tuner.model import Config
from tuner.store import open_store

KEY = (SILICON, SOFTWARE, PROBLEM)
NOISE = 0.05


def _nights(place: Path, seed: int, gain: float, nights: int) -> list[bool]:
    """After each night, whether x = 2 reigns, when x = 1 did before and is slower by the factor 1 + gain."""
    family = {"pair": small_family(place, name="pair", x=2, y=1)}
    old, new = (Config.of("pair", x=x, y=1) for x in (1, 2))
    reigns = []
    with open_store(str(place / f"{seed}.db"), upgrade=True) as store:
        rendered = family["pair"].render(old, PROBLEM, DEVICE)
        store.certify(*KEY, old, rendered.source_hash, ["given"])
        store.promote(*KEY, old, rendered, reason="given", time_ms=1 + gain, noise=None)
        for night in range(nights):
            bench = FakeBench(lambda config: 1.0 if config == new else 1 + gain, noise=NOISE, seed=1000 * seed + night)
            tuned(bench, store, family, evaluations=2)
            champion = store.champion(*KEY)
            assert champion is not None
            reigns.append(champion.config == new)
    return reigns


def _promoted_within_two(folder: Path, simulations: int) -> int:
    return sum(_nights(folder, seed, 0.04, 2)[-1] for seed in range(simulations))


def _changes(folder: Path, simulations: int) -> int:
    return sum(any(_nights(folder, seed, 0.0, 20)) for seed in range(simulations))


def test_four_percent_are_found_within_two_nights(tmp_path: Path) -> None:
    assert _promoted_within_two(tmp_path, 20) >= 18


def test_equal_configurations_do_not_change_places(tmp_path: Path) -> None:
    assert _changes(tmp_path, 6) == 0


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_a_hundred_times_two_nights(tmp_path: Path) -> None:
    assert _promoted_within_two(tmp_path, 100) >= 90


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_hundred_times_twenty_nights(tmp_path: Path) -> None:
    assert _changes(tmp_path, 100) <= 5
