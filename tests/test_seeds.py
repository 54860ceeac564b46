"""Seeds and similar devices: what stands in where nothing was tuned, and what of them is never claimed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.store_conformance import KEY, PROBLEM, SILICON
from tests.test_lookup import DEVICE, FAMILIES, ask, ts, tune
from tuner.data import data_folder
from tuner.family import load_families
from tuner.lookup import Index, Origin, Snapshot, lookup, seed_index
from tuner.lookup.seeds import read_seeds
from tuner.lookup.snapshot import index_of
from tuner.model import Champion, Config, Device, Facts, Problem, Software
from tuner.store import Store, open_store
from tuner.store.published import Entry, Published

SIZES = (49152, 1024, (1024, 1024, 64), 2**37, 2**35)
GPU = Facts(*SIZES, fp64=True, sub_group_size=32, async_copy=True, matrix_unit="mma", sub_group_reduce="ptx")
SEEDS = list(read_seeds(data_folder("db") / "seeds"))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    opened = open_store(str(tmp_path / "tuner.db"), upgrade=True)
    opened.start_run(*KEY, {})
    return opened


def seeds(*champions: Champion) -> Any:
    index = index_of(Published(tuple(Entry(champion) for champion in champions)))
    return lambda: index


def seed(tile: int, problem: Problem = PROBLEM, **silicon: Any) -> Champion:
    config = Config.of("tiled", ts=tile)
    rendered = FAMILIES["tiled"].render(config, problem, DEVICE)
    about = (replace(SILICON, **silicon), DEVICE.software, problem)
    return Champion(*about, config, rendered, 1.0, None, None, "measured", "2026-11-29")


def on(**change: Any) -> Device:
    return replace(DEVICE, silicon=replace(SILICON, **change))


def test_of_similar_devices_the_nearest_in_compute_units_goes_first(store: Store) -> None:
    for units, tile in ((20, 4), (100, 8), (300, 16)):
        tune(store, tile, device=on(compute_units=units))
    assert [ts(ask(store, device=on(compute_units=units))) for units in (16, 90, 200, 1000)] == [4, 8, 16, 16]


def test_on_a_similar_device_the_nearest_shape_goes_first(store: Store) -> None:
    tune(store, 4, replace(PROBLEM, m=4096))
    tune(store, 8, replace(PROBLEM, m=128))
    found = ask(store, device=on(compute_units=66))
    assert (found.origin, ts(found), found.certified) == (Origin.SIMILAR_DEVICE, 8, False)
    assert found.distance == pytest.approx(2**0.5)
    assert (found.evidence["same_device"], found.evidence["same_driver"]) == (False, False)


@pytest.mark.parametrize("change", [{"vendor": "AMD"}, {"kind": "cpu"}])
def test_another_vendor_or_kind_is_not_similar(store: Store, change: dict[str, Any]) -> None:
    tune(store, 8)
    assert ask(store, device=on(**change)).origin is Origin.DEFAULT


def test_a_certificate_counts_for_what_a_similar_device_lent(store: Store) -> None:
    tune(store, 8)
    device = on(compute_units=66)
    rendered = ask(store, device=device).rendered
    store.certify(device.silicon, device.software, PROBLEM, Config.of("tiled", ts=8), rendered.source_hash, ["here"])
    found = ask(store, device=device)
    assert (found.origin, found.certified) == (Origin.SIMILAR_DEVICE, True)


def test_a_seed_comes_before_a_default_and_after_all_that_was_tuned(store: Store) -> None:
    known = seeds(seed(8))
    assert (ask(store, seeds=known).origin, ts(ask(store, seeds=known))) == (Origin.SEED, 8)
    tune(store, 4, device=on(compute_units=66))
    assert (ask(store, seeds=known).origin, ts(ask(store, seeds=known))) == (Origin.SIMILAR_DEVICE, 4)


def test_a_seed_is_rendered_for_what_was_asked_and_claims_nothing(store: Store) -> None:
    asked = replace(PROBLEM, m=65)
    found = ask(store, asked, seeds=seeds(seed(8)))
    assert found.rendered == FAMILIES["tiled"].render(found.config, asked, DEVICE)
    assert (found.certified, found.gflops) == (False, None)


def test_a_seed_that_breaks_a_rule_is_passed_over_and_said(store: Store) -> None:
    found = ask(store, replace(PROBLEM, n=100), seeds=seeds(seed(32), seed(4, replace(PROBLEM, m=1))))
    assert (found.origin, ts(found)) == (Origin.SEED, 4)
    assert found.evidence["skipped"] == ["seed tiled ts=32: it breaks the rule: the tile divides n"]


def test_a_cpu_takes_the_seeds_of_any_cpu_and_its_own_makers_first(store: Store) -> None:
    cpu = on(kind="cpu", vendor="Intel")
    theirs, own = seed(8, kind="cpu", vendor="AMD"), seed(4, kind="cpu", vendor="Intel", compute_units=1)
    assert ts(ask(store, device=cpu, seeds=seeds(theirs))) == 8
    assert ts(ask(store, device=cpu, seeds=seeds(theirs, own))) == 4
    assert ask(store, device=on(vendor="AMD"), seeds=seeds(theirs)).origin is Origin.DEFAULT


# What the package carries


def test_there_are_seeds_of_a_gpu_and_of_a_cpu() -> None:
    assert {entry.champion.silicon.kind for entry in SEEDS} == {"gpu", "cpu"}
    assert isinstance(seed_index(), Index)


@pytest.mark.parametrize("entry", SEEDS, ids=lambda entry: f"{entry.champion.silicon.kind} {entry.champion.problem}")
def test_a_seed_is_legal_where_it_was_measured_and_names_its_measurement(entry: Entry, tmp_path: Path) -> None:
    found = entry.champion
    cpu = Facts(2**18, 8192, (8192,) * 3, 2**34, 2**33, fp64=True, shares_cores=True)
    facts = GPU if found.silicon.kind == "gpu" else cpu
    device = Device(found.silicon, Software("any", "any", "OpenCL C 3.0", "any"), "here", facts)
    answer = lookup(Snapshot(tmp_path / "none"), device, found.problem, _families(), seeds=seed_index)
    assert (answer.origin, answer.distance, answer.config.family) == (Origin.SEED, 0.0, found.config.family)
    assert found.reason.startswith("docs/results/") and found.time_ms


def _families() -> Any:
    if not _LOADED:
        _LOADED.update(load_families())
    return _LOADED


_LOADED: dict[str, Any] = {}
