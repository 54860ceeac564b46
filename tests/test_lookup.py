"""Look-up: the best that is known, why that one, and never one that is illegal for what was asked."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store_conformance import KEY, NEWER, PROBLEM, SILICON, SOFTWARE, record
from tuner.family import load_families
from tuner.lookup import Answer, Origin, Snapshot, lookup
from tuner.lookup import snapshot as snapshot_module
from tuner.model import Config, Device, Facts, Problem, Rendered, Step, UserError, Verdict, log_sizes
from tuner.store import Store, open_store

DEVICE = Device(SILICON, SOFTWARE, "uuid", Facts(fp64=True))


@dataclass(frozen=True)
class Tiled:
    """A family of one axis: the tile must divide n and fit the device."""

    version: int = 1
    choices: tuple[int, ...] = (1, 2, 4, 8, 16, 32)

    def complete(self, values: Mapping[str, Any]) -> Config:
        if set(values) != {"ts"} or values["ts"] not in self.choices:
            raise UserError(f"tiled has no such configuration: {dict(values)}")
        return Config.of("tiled", values)

    def broken_rule(self, config: Config, problem: Problem, device: Device) -> str | None:
        ts = int(config["ts"])
        if problem.n % ts:
            return "the tile divides n"
        return None if ts * ts <= device.facts.max_group_size else "the group fits the device"

    def rank(self, problem: Problem, device: Device) -> int:
        return 0

    def default(self, problem: Problem, device: Device) -> Config:
        return Config.of("tiled", ts=1)

    def render(self, config: Config, problem: Problem, device: Device) -> Rendered:
        step = Step("gemm", (problem.n, problem.m, problem.batch), (int(config["ts"]), 1, 1))
        source = f"// {self.version} {config}"
        return Rendered(source, "-cl-mad-enable", (step,), (), f"hash of {source} {step}")


FAMILIES = {"tiled": Tiled()}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    opened = open_store(str(tmp_path / "tuner.db"), upgrade=True)
    opened.start_run(*KEY, {})
    return opened


def tune(
    store: Store,
    ts: int,
    problem: Problem = PROBLEM,
    device: Device = DEVICE,
    *,
    certify: bool = True,
    pin: bool = False,
) -> Rendered:
    """Make a configuration the champion of a problem."""
    config = Config.of("tiled", ts=ts)
    rendered = FAMILIES["tiled"].render(config, problem, device)
    key = (device.silicon, device.software, problem)
    if certify:
        store.certify(*key, config, rendered.source_hash, ["odd sizes"])
    if pin:
        store.pin(*key, config, rendered, reason="known good")
    else:
        store.promote(*key, config, rendered, reason="won", time_ms=2.0, noise=0.01, run=1)
    return rendered


def ask(store: Store, problem: Problem = PROBLEM, device: Device = DEVICE, **rest: Any) -> Answer:
    return lookup(Snapshot(store.snapshot), device, problem, FAMILIES, **rest)


def ts(answer: Answer) -> Any:
    return answer.config["ts"]


# Origins


def test_an_empty_store_answers_the_default(store: Store) -> None:
    found = ask(store)
    assert (found.origin, found.certified, found.distance, found.gflops) == (Origin.DEFAULT, False, None, None)
    assert found.rendered == FAMILIES["tiled"].render(found.config, PROBLEM, DEVICE)


def test_what_was_tuned_is_exact(store: Store) -> None:
    rendered = tune(store, 8)
    found = ask(store)
    assert (found.origin, found.certified, found.distance) == (Origin.EXACT, True, 0.0)
    assert found.gflops == pytest.approx(PROBLEM.gflops(2.0))
    assert found.rendered == rendered


def test_each_size_gets_its_own(store: Store) -> None:
    other = replace(PROBLEM, n=128)
    tune(store, 8)
    tune(store, 16, other)
    assert [ts(ask(store, problem)) for problem in (PROBLEM, other)] == [8, 16]


def test_a_pin_goes_before_a_promotion(store: Store) -> None:
    tune(store, 4, pin=True)
    tune(store, 8)
    found = ask(store)
    assert (found.origin, ts(found), found.gflops, found.evidence["reason"]) == (Origin.PINNED, 4, None, "known good")


def test_another_driver_is_told_and_not_certified(store: Store) -> None:
    rendered = tune(store, 8)
    found = ask(store, device=replace(DEVICE, software=NEWER))
    assert (found.origin, found.certified, found.gflops) == (Origin.OTHER_DRIVER, False, None)
    assert (found.evidence["driver"], found.evidence["same_driver"]) == (SOFTWARE.driver, False)
    assert found.rendered == rendered


def test_another_drivers_champion_can_be_certified_here(store: Store) -> None:
    rendered = tune(store, 8)
    store.certify(SILICON, NEWER, PROBLEM, Config.of("tiled", ts=8), rendered.source_hash, ["checked here"])
    found = ask(store, device=replace(DEVICE, software=NEWER))
    assert (found.origin, found.certified, found.evidence["checks"]) == (Origin.OTHER_DRIVER, True, ["checked here"])


def test_of_other_drivers_what_is_certified_here_goes_first(store: Store) -> None:
    rendered = tune(store, 8)
    tune(store, 16, device=replace(DEVICE, software=replace(SOFTWARE, driver="2")))
    assert ts(ask(store, device=replace(DEVICE, software=NEWER))) == 16
    store.certify(SILICON, NEWER, PROBLEM, Config.of("tiled", ts=8), rendered.source_hash, ["checked here"])
    assert ts(ask(store, device=replace(DEVICE, software=NEWER))) == 8


def test_the_nearest_is_rendered_for_what_was_asked_and_claims_nothing(store: Store) -> None:
    tune(store, 8, Problem(1024, 1024, 1024))
    asked = Problem(8, 3200, 3200)
    found = ask(store, asked)
    assert (found.origin, found.certified, found.gflops) == (Origin.NEAREST, False, None)
    assert found.distance == pytest.approx(math.hypot(7, math.log2(3.125), math.log2(3.125)))
    assert found.evidence["problem"] == "1024x1024x1024 float32"
    assert found.rendered == FAMILIES["tiled"].render(found.config, asked, DEVICE)


def test_the_nearest_is_the_nearest(store: Store) -> None:
    tune(store, 8, Problem(1024, 1024, 1024))
    tune(store, 4, Problem(64, 64, 64))
    assert [ts(ask(store, Problem(m, m, m))) for m in (32, 200, 400, 4096)] == [4, 4, 8, 8]


def test_another_alignment_is_at_distance_zero_and_not_exact(store: Store) -> None:
    tune(store, 8)
    found = ask(store, replace(PROBLEM, align=4))
    assert (found.origin, found.distance, found.certified) == (Origin.NEAREST, 0.0, False)


def test_of_equally_near_ones_that_of_this_driver_goes_first(store: Store) -> None:
    near = replace(PROBLEM, m=128)
    tune(store, 4, near, replace(DEVICE, software=NEWER))
    tune(store, 8, near)
    tune(store, 16, near, replace(DEVICE, software=replace(SOFTWARE, driver="0")))
    assert ts(ask(store)) == 8


@pytest.mark.parametrize(
    "other",
    [replace(PROBLEM, dtype="float64"), replace(PROBLEM, trans_a=True), replace(PROBLEM, trans_b=True)],
)
def test_dtype_and_transposes_are_never_near(store: Store, other: Problem) -> None:
    tune(store, 8, other)
    assert ask(store).origin is Origin.DEFAULT


@pytest.mark.parametrize("change", [{"compute_units": 66}, {"memory_gib": 80}, {"name": "NVIDIA H100"}])
def test_other_silicon_is_another_device(store: Store, change: dict[str, Any]) -> None:
    tune(store, 8)
    found = ask(store, device=replace(DEVICE, silicon=replace(SILICON, **change)))
    assert (found.origin, found.certified, found.gflops) == (Origin.SIMILAR_DEVICE, False, None)


def test_a_nearest_can_be_certified_for_what_was_asked(store: Store) -> None:
    tune(store, 8)
    asked = replace(PROBLEM, m=65)
    rendered = ask(store, asked).rendered
    store.certify(SILICON, SOFTWARE, asked, Config.of("tiled", ts=8), rendered.source_hash, ["odd sizes"])
    assert (ask(store, asked).origin, ask(store, asked).certified) == (Origin.NEAREST, True)


def test_failing_trials_make_no_champion(store: Store) -> None:
    for verdict in Verdict:
        if verdict is not Verdict.CORRECT:
            store.add(record(1, verdict))
    assert ask(store).origin is Origin.DEFAULT


# Nothing illegal, nothing unproven


def test_a_near_one_that_breaks_a_rule_is_passed_over_and_said(store: Store) -> None:
    tune(store, 32, replace(PROBLEM, m=65))
    tune(store, 4, replace(PROBLEM, m=640))
    found = ask(store, replace(PROBLEM, n=100))
    assert (found.origin, ts(found)) == (Origin.NEAREST, 4)
    assert found.evidence["skipped"] == ["nearest tiled ts=32: it breaks the rule: the tile divides n"]


def test_an_exact_one_that_no_longer_fits_the_device_is_passed_over(store: Store) -> None:
    tune(store, 16)
    weaker = replace(DEVICE, facts=Facts(max_group_size=64))
    found = ask(store, device=weaker)
    assert (found.origin, ts(found)) == (Origin.DEFAULT, 1)
    assert "the group fits the device" in found.evidence["skipped"][0]


@pytest.mark.parametrize("values", [{"ts": 0}, {"ts": 3}, {"ts": "8"}, {"colour": 1}, {}])
def test_a_configuration_its_family_does_not_know_is_passed_over(store: Store, values: dict[str, Any]) -> None:
    tune(store, 8, replace(PROBLEM, m=1))
    config = Config.of("tiled", values)
    rendered = Rendered("// bad", "", (Step("gemm", (1,), (1,)),), (), "bad")
    store.promote(*KEY, config, rendered, reason="", time_ms=1.0, noise=0.0)
    found = ask(store)
    assert (found.origin, ts(found), len(found.evidence["skipped"])) == (Origin.NEAREST, 8, 1)


def test_a_champion_of_an_unknown_family_is_passed_over(store: Store) -> None:
    rendered = Rendered("// mine", "", (Step("gemm", (1,), (1,)),), (), "mine")
    store.promote(*KEY, Config.of("mine", x=1), rendered, reason="", time_ms=1.0, noise=0.0)
    found = ask(store)
    assert (found.origin, found.evidence["skipped"]) == (
        Origin.DEFAULT,
        ["exact mine x=1: the family mine is not known here"],
    )


def test_a_bad_pin_falls_back_to_the_champion(store: Store) -> None:
    tune(store, 8)
    rendered = Rendered("// bad", "", (Step("gemm", (1,), (1,)),), (), "bad")
    store.pin(*KEY, Config.of("tiled", ts=0), rendered, reason="typed wrongly")
    assert (ask(store).origin, ts(ask(store))) == (Origin.EXACT, 8)


def test_an_exact_answer_is_the_stored_source_though_the_template_changed(store: Store) -> None:
    rendered = tune(store, 8)
    found = lookup(Snapshot(store.snapshot), DEVICE, PROBLEM, {"tiled": Tiled(version=2)})
    assert (found.rendered, found.certified) == (rendered, True)


def test_a_nearest_answer_of_a_changed_template_is_not_certified(store: Store) -> None:
    tune(store, 8)
    asked = replace(PROBLEM, m=65)
    rendered = ask(store, asked).rendered
    store.certify(SILICON, SOFTWARE, asked, Config.of("tiled", ts=8), rendered.source_hash, ["odd sizes"])
    assert not lookup(Snapshot(store.snapshot), DEVICE, asked, {"tiled": Tiled(version=2)}).certified


def test_without_certificate_it_is_not_certified(store: Store) -> None:
    tune(store, 8, certify=False)
    assert (ask(store).origin, ask(store).certified) == (Origin.EXACT, False)


def test_a_withdrawn_champion_is_not_served(store: Store) -> None:
    tune(store, 8)
    store.withdraw(*KEY, reason="wrong at 2x")
    assert ask(store).origin is Origin.DEFAULT


# Whatever happens to the snapshot


def test_a_truncated_snapshot_serves_the_rest(store: Store) -> None:
    tune(store, 8, Problem(1, 96, 1))
    tune(store, 4, Problem(2, 96, 2))
    text = store.snapshot.read_text()
    store.snapshot.write_text(text[: text.rindex('"config":{"ts":4}')])
    assert [ts(ask(store, Problem(m, 96, m))) for m in (1, 2)] == [8, 8]


def test_one_bad_row_costs_that_row(store: Store) -> None:
    tune(store, 8, Problem(1, 96, 1))
    tune(store, 4, Problem(2, 96, 2))
    store.snapshot.write_text(store.snapshot.read_text().replace('"config":{"ts":4}', '"config":{"ts":null}'))
    assert [ask(store, Problem(m, 96, m)).origin for m in (1, 2)] == [Origin.EXACT, Origin.NEAREST]


def test_it_works_from_a_copy_without_the_database(store: Store, tmp_path: Path) -> None:
    tune(store, 8)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    copy = folder / "snapshot.json"
    copy.write_bytes(store.snapshot.read_bytes())
    copy.chmod(0o444)
    folder.chmod(0o555)
    assert lookup(Snapshot(copy), DEVICE, PROBLEM, FAMILIES).origin is Origin.EXACT
    assert list(folder.iterdir()) == [copy]
    folder.chmod(0o755)


def test_another_devices_data_changes_no_answer(store: Store) -> None:
    tune(store, 8)
    asked = [PROBLEM, replace(PROBLEM, m=65), replace(PROBLEM, align=4)]

    def answers() -> list[str]:
        return [json.dumps(ask(store, problem, now=lambda: 2e9).to_json()) for problem in asked]

    before = answers()
    other = replace(DEVICE, silicon=replace(SILICON, name="another"))
    for problem in asked:
        tune(store, 16, problem, other)
    assert answers() == before


# What is not answered


@pytest.mark.parametrize("name", ["m", "n", "k", "batch"])
def test_an_empty_product_is_refused(store: Store, name: str) -> None:
    with pytest.raises(UserError, match="empty product"):
        ask(store, replace(PROBLEM, **{name: 0}))  # type: ignore[arg-type]


def test_float64_is_refused_where_the_device_lacks_it(store: Store) -> None:
    with pytest.raises(UserError, match="does not support float64"):
        ask(store, replace(PROBLEM, dtype="float64"), replace(DEVICE, facts=Facts(fp64=False)))


def test_no_legal_default_is_an_error_that_says_why(store: Store) -> None:
    with pytest.raises(UserError, match="no family has a default"):
        lookup(Snapshot(store.snapshot), DEVICE, PROBLEM, {})


# What an answer says


def test_json_is_what_the_design_says(store: Store) -> None:
    tune(store, 8)
    found = json.loads(json.dumps(ask(store).to_json(), allow_nan=False))
    assert list(found) == [
        "family",
        "config",
        "origin",
        "certified",
        "gflops",
        "distance",
        "evidence",
        "launches",
        "build_options",
    ]
    assert found["launches"] == [{"kernel": "gemm", "global_size": [96, 64, 1], "local_size": [8, 1, 1], "scratch": []}]
    assert (found["family"], found["config"], found["build_options"]) == ("tiled", {"ts": 8}, "-cl-mad-enable")


def test_evidence_says_how_old_it_is_and_what_was_measured(store: Store) -> None:
    tune(store, 8)
    when = datetime.fromisoformat(ask(store).evidence["when"])
    found = ask(store, now=lambda: when.timestamp() + 3600).evidence
    assert when.tzinfo is not None and when <= datetime.now(UTC)
    assert (found["age_seconds"], found["time_ms"], found["noise"], found["run"]) == (3600.0, 2.0, 0.01, 1)
    assert found["checks"] == ["odd sizes"]
    assert found["certified_when"] <= found["when"]


@pytest.mark.parametrize("origin", Origin)
def test_everything_but_pinned_and_exact_is_a_miss(origin: Origin) -> None:
    assert origin.is_miss == (origin not in ("pinned", "exact"))


def test_a_thousand_champions_are_looked_up_quickly_because_they_are_read_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tune(store, 8)
    snapshot = Snapshot(store.snapshot)
    lookup(snapshot, DEVICE, PROBLEM, FAMILIES)
    monkeypatch.setattr(snapshot_module, "open_contents", lambda *_: pytest.fail("read again"))
    assert lookup(snapshot, DEVICE, PROBLEM, FAMILIES).origin is Origin.EXACT


sizes = st.integers(1, 2**31 - 1)
shapes = st.builds(Problem, m=sizes, n=sizes, k=sizes, batch=sizes)


@given(shapes, shapes)
def test_only_the_same_shape_is_at_distance_zero(one: Problem, other: Problem) -> None:
    assert (math.dist(log_sizes(one), log_sizes(other)) > 0) == (one != other)


@pytest.mark.parametrize("name", ["m", "n", "k", "batch"])
def test_distance_counts_doublings(name: str) -> None:
    one = Problem(64, 64, 64, 64)
    assert math.dist(log_sizes(one), log_sizes(replace(one, **{name: 256}))) == 2.0  # type: ignore[arg-type]


# With the built-in families


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (127, 129, 131), (500, 500, 500), (1, 4096, 1), (8, 3200, 3200)])
def test_every_shape_has_a_default_on_the_weakest_device(
    tmp_path: Path, dtype: str, shape: tuple[int, int, int]
) -> None:
    weakest = Device(SILICON, SOFTWARE, "weak", Facts(32768, 1, (1, 1, 1), fp64=True))
    problem = Problem.packed(*shape, dtype=dtype)
    found = lookup(Snapshot(tmp_path / "none"), weakest, problem, load_families())
    assert found.origin is Origin.DEFAULT
    assert all(math.prod(launch["local_size"]) == 1 for launch in found.launches())
