"""Nights on a fake bench: what is due, what is claimed, what is kept, and what is said in the morning."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fakes import DEVICE, SILICON, SOFTWARE
from tests.night_fakes import FakeLibrary, Night, NightBench, TimeOf, by_size, cubes, of_driver
from tuner.model import Config, Measurement, Problem, Record, Verdict
from tuner.nightly.costs import Costs
from tuner.nightly.morning import lines, markdown
from tuner.nightly.plan import Due, Reason, allot
from tuner.nightly.regress import Comparison, Point, compare, one_night, point_of
from tuner.nightly.settings import NightBudget, Retune
from tuner.store import LIBRARY_PREFIX, Miss, Process, Store, open_store
from tuner.timing import enough


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "tuner.db"), upgrade=True) as opened:
        yield opened


def device_of(summary: dict[str, Any]) -> dict[str, Any]:
    (found,) = summary["devices"]
    assert isinstance(found, dict)
    return found


# Nights in a row


def test_a_first_night_tunes_everything_and_a_second_only_confirms(tmp_path: Path, store: Store) -> None:
    night = Night(tmp_path, cubes(3))
    first = device_of(night.run(store, NightBench()))
    assert (len(first["promoted"]), first["evaluated"], first["confirmed"]) == (3, 18, 0)
    bench = NightBench()
    second = night.run(store, bench)
    found = device_of(second)
    assert (second["status"], found["evaluated"], found["confirmed"], found["due"]) == (0, 0, 3, [])
    assert len(bench.confirmed) == 3
    assert second["attention"] == []


def test_a_changed_driver_proves_the_old_champions_first(tmp_path: Path, store: Store) -> None:
    night = Night(tmp_path, cubes(3))
    night.run(store, NightBench())
    bench = NightBench(device=of_driver("2.0"))
    summary = night.run(store, bench)
    found = device_of(summary)
    assert [one["proven"] for one in found["renewed"]] == [True] * 3
    best = Config.of("grid", x=2, y=1)
    assert [bench.measured[number] for number in range(3)] == [best] * 3, "nothing was searched before"
    assert found["evaluated"] == 15, "the others, once each"
    assert found["software"]["regression"] is False
    assert summary["status"] == 0


def test_a_driver_that_slows_everything_is_reported_that_night(tmp_path: Path, store: Store) -> None:
    night = Night(tmp_path, cubes(4))
    for seed in range(3):
        night.run(store, NightBench(noise=0.02, between=0.003, seed=seed))
    summary = night.run(store, NightBench(device=of_driver("2.0"), compiled=1.15, noise=0.02, between=0.003, seed=9))
    found = device_of(summary)
    assert summary["status"] == 3
    assert found["software"]["regression"] is True
    assert found["software"]["median_factor"] == pytest.approx(1.15, abs=0.02)
    assert len(found["regressions"]["new"]) == 4
    assert any("the new software is 15% slower over all 4 problems" in line for line in summary["attention"])


def test_a_slow_machine_changes_no_champion_and_claims_nothing(tmp_path: Path, store: Store) -> None:
    night = Night(tmp_path, cubes(4))
    for seed in range(3):
        night.run(store, NightBench(noise=0.02, seed=seed))
    log = store.log()
    bench = NightBench(machine=1.15, noise=0.02, seed=7)
    summary = night.run(store, bench)
    found = device_of(summary)
    assert summary["status"] == 0
    assert found["regressions"] == {"new": [], "open": [], "recovered": []}
    assert found["conditions"]["start"]["state"] == "slow"
    assert bench.measured == [] and store.log() == log
    assert night.slept, "it was waited for"
    assert any("left alone: the calibration kernel is 15% slower" in line for line in summary["attention"])


def test_a_machine_that_stays_slower_is_the_machine_after_some_nights(tmp_path: Path, store: Store) -> None:
    night = Night(tmp_path, cubes(1))
    for seed in range(3):
        night.run(store, NightBench(seed=seed))
    states = []
    for seed in range(3, 8):
        found = device_of(night.run(store, NightBench(machine=1.15, seed=seed)))
        states.append(found["conditions"]["start"]["state"])
    assert states[0] == "slow" and states[-1] == "quiet"


def test_a_machine_that_slows_down_in_the_middle_changes_no_champion(tmp_path: Path, store: Store) -> None:
    class Slowing(NightBench):
        def pulse(self, peaks: Any = ()) -> Any:
            self._machine = 1.0 if self.pulses < 2 else 1.3
            return super().pulse(peaks)

    night = Night(tmp_path, cubes(3))
    night.run(store, NightBench(lambda config, problem: 1.0 if config["x"] == 1 else 2.0))
    log = store.log()
    faster = lambda config, problem: {1: 1.0, 2: 2.0, 3: 0.5}[config["x"]]  # noqa: E731
    new = Problem(512, 16, 16)
    night.settings = replace(night.settings, problems=(*night.settings.problems, new))
    summary = night.run(store, Slowing(faster))
    added = store.log()[len(log) :]
    assert store.log()[: len(log)] == log
    assert [(event.action, event.problem) for event in added] == [("promote", new)], "a first champion changes none"
    assert summary["status"] == 0


def test_a_step_in_one_problem_is_found_stays_open_and_is_acknowledged(tmp_path: Path, store: Store) -> None:
    slow = cubes(3)[2]

    def stepped(config: Config, problem: Problem) -> float:
        return by_size(config, problem) * (1.07 if problem == slow else 1.0)

    night = Night(tmp_path, cubes(3))
    for seed in range(4):
        assert night.run(store, NightBench(noise=0.03, between=0.003, seed=seed))["status"] == 0
    found: list[Any] = []
    for seed in range(4, 6):
        summary = night.run(store, NightBench(stepped, noise=0.03, between=0.003, seed=seed))
        found += device_of(summary)["regressions"]["new"]
    assert [Problem(**one["problem"]) for one in found] == [slow]
    assert found[0]["slower"] == pytest.approx(0.07, abs=0.02)
    again = night.run(store, NightBench(stepped, noise=0.03, between=0.003, seed=7))
    assert again["status"] == 3 and len(device_of(again)["regressions"]["open"]) == 1
    store.acknowledge_regression(found[0]["id"], "the new cooler is worse")
    after = night.run(store, NightBench(stepped, noise=0.03, between=0.003, seed=8))
    assert (after["status"], device_of(after)["regressions"]["new"]) == (0, [])


def test_a_regression_that_recovers_is_closed(tmp_path: Path, store: Store) -> None:
    night = Night(tmp_path, cubes(2))
    for seed in range(3):
        night.run(store, NightBench(noise=0.01, seed=seed))
    slower = night.run(store, NightBench(lambda c, p: by_size(c, p) * (1.2 if p.m == 16 else 1), noise=0.01, seed=5))
    assert slower["status"] == 3
    summary = night.run(store, NightBench(noise=0.01, seed=6))
    assert (summary["status"], len(device_of(summary)["regressions"]["recovered"])) == (0, 1)
    assert store.regressions() == []


def busy_at_first(looks: int, seed: int, slower: float = 1.9) -> NightBench:
    """A bench on which the first `looks` measurements of a night are all slower, and none after them."""
    bench = NightBench(
        lambda c, p: by_size(c, p) * (slower if len(bench.confirmed) < looks else 1), noise=0.01, seed=seed
    )
    return bench


@pytest.mark.parametrize("nights", [1, 4])
def test_a_busy_moment_is_no_regression(tmp_path: Path, store: Store, nights: int) -> None:
    night = Night(tmp_path, cubes(3))
    for seed in range(nights):
        night.run(store, NightBench(noise=0.01, seed=seed))
    summary = night.run(store, busy_at_first(9, 5))
    assert store.regressions(open_only=False) == []
    regressions = device_of(summary)["regressions"]
    assert (summary["status"], summary["attention"], regressions) == (0, [], {"new": [], "open": [], "recovered": []})
    after = night.run(store, NightBench(noise=0.01, seed=6))
    assert (after["status"], device_of(after)["looks_slower"]) == (0, [])


def test_what_lasts_the_night_is_a_regression(tmp_path: Path, store: Store) -> None:
    night = Night(tmp_path, cubes(3))
    night.run(store, NightBench(noise=0.01, seed=0))
    summary = night.run(store, busy_at_first(10**9, 5))
    assert summary["status"] == 3 and len(device_of(summary)["regressions"]["new"]) == 3


def test_without_a_later_look_nothing_is_claimed(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    night = Night(tmp_path, cubes(3))
    night.run(store, NightBench(noise=0.01, seed=0))
    monkeypatch.setattr("tuner.nightly.later._look", lambda lane, champion, costs: None)
    summary = night.run(store, busy_at_first(10**9, 5))
    assert (summary["status"], len(device_of(summary)["looks_slower"])) == (0, 3)
    assert "not looked at again" in markdown(summary)


def test_a_champion_that_turns_wrong_is_withdrawn_and_comes_first(tmp_path: Path, store: Store) -> None:
    night = Night(tmp_path, cubes(2))
    night.run(store, NightBench())
    best = Config.of("grid", x=2, y=1)
    wrong = NightBench(verdict_of=lambda config: Verdict.WRONG_RESULT if config == best else Verdict.CORRECT)
    summary = night.run(store, wrong)
    assert len(device_of(summary)["withdrawn"]) == 2
    assert "the champion was withdrawn: wrong_result when it was confirmed" in summary["attention"][0]
    titles = [line.split()[0] for line in lines(summary)[2:]]
    assert titles.index("withdrawn") < titles.index("searched") if "searched" in titles else titles[0] == "withdrawn"


# Statistics


def confirmed(rng: np.random.Generator, time_ms: float, noise: float, between: float) -> Point:
    """One confirmation as a bench takes it: samples until their noise is small."""
    tonight = time_ms * float(np.exp(rng.normal(0.0, between)))
    samples: list[float] = []
    while not samples or not enough(samples, None):
        samples.append(tonight * float(np.exp(rng.normal(0.0, noise))))
    point = point_of(Measurement(Verdict.CORRECT, tuple(samples)))
    assert point is not None
    return point


def simulated(seed: int, *, step: float = 0.0, since: int = 10, nights: int = 20) -> tuple[int, list[int]]:
    """(false regressions, nights in which the step in one of 50 problems was found) under 5 % noise."""
    rng, problems = np.random.default_rng(seed), 50
    base = rng.uniform(0.1, 5.0, problems)
    history: list[list[Point]] = [[] for _ in range(problems)]
    false = 0
    found: list[int] = []
    for night in range(nights):
        for number in range(problems):
            stepped = bool(step) and number == 7 and night >= since
            time_ms = base[number] * (1 + step * stepped)
            points = [confirmed(rng, time_ms, 0.05, 0.005)]
            result: Comparison | None = compare(history[number], points, threshold=0.05, problems=problems)
            while result is not None and result.suspicious and len(points) < 3:
                points.append(confirmed(rng, time_ms, 0.05, 0.005))
                result = compare(history[number], points, threshold=0.05, problems=problems)
            if result is not None and result.regressed:
                if stepped:
                    found.append(night)
                else:
                    false += 1
            history[number].append(one_night(points))
    return false, found


def test_twenty_nights_of_fifty_problems_without_a_change_claim_at_most_one_regression() -> None:
    assert [simulated(seed)[0] <= 1 for seed in range(2)] == [True] * 2


def test_a_step_of_seven_percent_is_found_within_two_nights() -> None:
    found = [simulated(seed, step=0.07, nights=12)[1] for seed in range(2)]
    assert all(nights and nights[0] <= 11 for nights in found)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_a_hundred_times_twenty_nights_of_fifty_problems() -> None:
    assert sum(simulated(seed)[0] > 1 for seed in range(100)) == 0
    assert sum(not simulated(seed, step=0.07, nights=12)[1] for seed in range(100)) <= 5


@pytest.mark.parametrize(("nights", "slower", "claimed"), [(1, 0.15, 0), (2, 0.15, 0), (1, 1.0, 1), (3, 0.07, 1)])
def test_without_a_history_to_speak_of_only_a_gross_change_is_news(nights: int, slower: float, claimed: bool) -> None:
    """A machine's spread from night to night is not known from one or two nights."""
    history = [Point(0.0, 0.003)] * nights
    found = compare(history, [Point(float(np.log(1 + slower)), 0.003)], threshold=0.05, problems=8)
    assert found is not None and (found.regressed, found.suspicious) == (bool(claimed), True)


def test_few_nights_that_scatter_are_believed() -> None:
    history = [Point(level, 0.003) for level in (-0.03, 0.0, 0.03)]
    found = compare(history, [Point(0.1, 0.003)], threshold=0.05, problems=8)
    assert found is not None and not found.regressed


def test_measurements_of_one_night_are_one_witness(tmp_path: Path, store: Store) -> None:
    """A champion that looked slow was measured three times in one night: that is no history of three nights."""
    night = Night(tmp_path, cubes(1))
    night.run(store, NightBench())
    night.run(store, NightBench(lambda config, problem: by_size(config, problem) * 1.03))
    summary = night.run(store, NightBench(lambda config, problem: by_size(config, problem) * 1.15))
    assert summary["status"] == 0
    (one,) = device_of(summary)["looks_slower"]
    assert (one["nights"], one["looks"], one["too_few_nights"]) == (2, 3, True)
    assert any("a history of 2 nights is too short to tell" in line for line in lines(summary))


def whole_nights(folder: Path, problems: int, nights: int, since: int) -> tuple[int, list[int]]:
    """(false regressions, nights that found it) of the whole loop, one problem 7 % slower from night `since` on."""
    night, slow = Night(folder, cubes(problems)), cubes(problems)[problems // 2]
    false, found = 0, []
    with open_store(str(folder / "whole.db"), upgrade=True) as opened:
        for number in range(nights):

            def stepped(config: Config, problem: Problem, late: bool = number >= since) -> float:
                return by_size(config, problem) * (1.07 if late and problem == slow else 1.0)

            bench = NightBench(stepped, noise=0.05, between=0.005, seed=100 + number)
            for one in device_of(night.run(opened, bench))["regressions"]["new"]:
                stands = Problem(**one["problem"]) == slow and number >= since
                false += not stands
                found += [number] if stands else []
    return false, found


def test_whole_nights_of_a_few_problems_find_a_step_and_nothing_else(tmp_path: Path) -> None:
    false, found = whole_nights(tmp_path, problems=5, nights=8, since=6)
    assert false == 0 and found[:1] in ([6], [7])


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_twenty_whole_nights_of_fifty_problems(tmp_path: Path) -> None:
    false, found = whole_nights(tmp_path, problems=50, nights=22, since=20)
    assert false <= 1 and found[:1] in ([20], [21])


def test_the_machine_is_taken_out() -> None:
    history = [Point(0.0, 0.003)] * 6
    tonight = [Point(float(np.log(1.07)), 0.003)]
    slower = compare(history, tonight, threshold=0.05, problems=1)
    machine = compare(history, tonight, threshold=0.05, problems=1, drift=float(np.log(1.06)))
    assert slower is not None and slower.regressed
    assert machine is not None and not machine.regressed


# What is due


def test_what_was_asked_for_in_vain_is_tuned_too(tmp_path: Path, store: Store) -> None:
    wanted = Problem(48, 48, 48)
    night = Night(tmp_path, cubes(1))
    when = "2026-11-29T20:00:00.000000+00:00"
    store.add_misses([Miss(SILICON, SOFTWARE, wanted, "nearest", 40, when, when)])
    summary = night.run(store, NightBench())
    assert store.champion(SILICON, SOFTWARE, wanted) is not None
    first = device_of(summary)["searched"][0]
    assert (Problem(**first["problem"]), first["reason"]) == (wanted, "asked for in vain")
    assert store.misses(SILICON) == []


def test_what_is_exhausted_costs_nothing_until_the_family_changes(tmp_path: Path, store: Store) -> None:
    night = Night(tmp_path, cubes(1))
    night.run(store, NightBench())
    bench = NightBench()
    night.run(store, bench)
    assert bench.measured == [Config.of("grid", x=2, y=1)], "its confirmation"
    grown = Night(tmp_path, cubes(1))
    from tests.fakes import small_family

    grown.families = {"grid": small_family(tmp_path, x=4, y=2)}
    assert device_of(grown.run(store, NightBench()))["evaluated"] == 2


def test_a_search_gets_time_enough_to_publish_something_or_none() -> None:
    least = (5.0, 30.0, 8.0)
    due = [Due(p, Reason.NEVER, "", 0.6, least_s=s) for p, s in zip(cubes(3), least, strict=True)]
    assert [one.seconds for one in allot(due, 100.0, 60.0)][1] >= 30.0
    tight = {one.problem: one.seconds for one in allot(due, 20.0, 60.0)}
    assert tight[cubes(3)[1]] == 0.0 and sum(tight.values()) == pytest.approx(20.0)
    assert {one.seconds for one in allot(due, 4.0, 60.0)} == {0.0}
    capped = {one.problem: one.seconds for one in allot(due, 40.0, 10.0)}
    assert capped[cubes(3)[1]] == 10.0, "the file's most is kept to"


def test_what_a_problem_needs_is_known_from_its_trials_or_from_its_likes(tmp_path: Path, store: Store) -> None:
    class Verifying(NightBench):
        def measure(self, *what: Any, **how: Any) -> Measurement:
            return replace(super().measure(*what, **how), verify_ms=1000.0)

    small, large = Problem(64, 64, 64), Problem(128, 128, 128)
    assert Costs(store, DEVICE, 2, [small]).least_s(small) == 5.0, "nothing is known"
    Night(tmp_path, [small]).run(store, Verifying())
    costs = Costs(store, DEVICE, 8, [small, large])
    assert costs.least_s(small) == pytest.approx(2 + 1.25 * 6.5, abs=0.1)
    assert costs.least_s(large) == pytest.approx(8 + 1.25 * 21.5, abs=0.1)


class Slow(NightBench):
    """Every measurement takes half a minute of the night's clock, as one that verifies for half of that."""

    def __init__(self, night: Night, time_of: TimeOf = by_size) -> None:
        super().__init__(time_of)
        self._night = night

    def measure(self, *what: Any, **how: Any) -> Measurement:
        self._night.slept.append(30.0)
        return replace(super().measure(*what, **how), verify_ms=15_000.0)


def know(store: Store, night: Night, problem: Problem, config: Config) -> None:
    """Have a champion that was measured once, in half a minute."""
    rendered = night.families["grid"].render(config, problem, DEVICE)
    run, found = store.start_run(SILICON, SOFTWARE, problem, {}), Measurement(Verdict.CORRECT, (1.0,) * 5)
    when, found = "2026-11-29T00:00:00.000000+00:00", replace(found, error_ratio=0.1, verify_ms=15_000.0)
    store.add(Record(SILICON, SOFTWARE, problem, config, found, rendered.source_hash, run, when))
    store.promote(SILICON, SOFTWARE, problem, config, rendered, reason="known", time_ms=1.0, noise=0.0)


@pytest.mark.parametrize(("total_s", "measured"), [(600.0, 2), (85.0, 1), (50.0, 0)])
def test_cross_measuring_begins_nothing_that_would_end_after_the_night(
    tmp_path: Path, store: Store, total_s: float, measured: int
) -> None:
    budget, never = NightBudget(total_s, 600.0), Retune(exhaust=False)
    night = Night(tmp_path, cubes(2), budget=budget, retune=never, cross_share=0.5)
    for number, problem in enumerate(cubes(2), 1):
        know(store, night, problem, Config.of("grid", x=number, y=1))
    summary = night.run(store, Slow(night))
    assert (device_of(summary)["cross"]["measured"], summary["night"]["seconds"] <= total_s) == (measured, True)


@pytest.mark.parametrize(("total_s", "new", "unsettled"), [(130.0, 1, 0), (110.0, 0, 1)])
def test_a_later_look_that_would_end_after_the_night_is_left_to_the_next(
    tmp_path: Path, store: Store, total_s: float, new: int, unsettled: int
) -> None:
    (problem,) = cubes(1)
    night = Night(tmp_path, [problem], budget=NightBudget(total_s, 600.0), retune=Retune(exhaust=False))
    know(store, night, problem, Config.of("grid", x=2, y=1))
    summary = night.run(store, Slow(night, lambda config, problem: 1.9))
    found = device_of(summary)
    assert (len(found["regressions"]["new"]), len(found["looks_slower"])) == (new, unsettled)
    assert summary["night"]["seconds"] <= total_s


def test_a_device_without_the_type_is_left_out(tmp_path: Path, store: Store) -> None:
    poor = replace(DEVICE, facts=replace(DEVICE.facts, fp64=False))
    night = Night(tmp_path, [Problem(64, 64, 64, dtype="float64")])
    bench = NightBench(device=poor)
    assert night.run(store, bench)["status"] == 0
    assert bench.measured == []


# Libraries and peaks


def test_each_champion_meets_a_library_once_and_again_only_when_that_changed(tmp_path: Path, store: Store) -> None:
    night = Night(tmp_path, cubes(2), libraries=None)
    library = FakeLibrary()
    summary = night.run(store, NightBench(), libraries=[library])
    assert sorted(problem.m for problem in library.raced) == [16, 32]
    records = store.baselines(SILICON, SOFTWARE, cubes(1)[0])
    assert [(r.config.family, r.config["version"]) for r in records] == [(f"{LIBRARY_PREFIX}clblast", "1.6")]
    assert "ours_ms" in records[0].extra
    (met, _) = device_of(summary)["baselines"]
    assert [(one["library"], one["version"], one["failed"]) for one in met["libraries"]] == [("CLBlast", "1.6", "")]
    again = FakeLibrary()
    night.run(store, NightBench(), libraries=[again])
    newer = FakeLibrary(version="1.7")
    night.run(store, NightBench(), libraries=[newer])
    assert again.raced == [] and len(newer.raced) == 2
    assert any("clblast" in line for line in lines(summary))


class TwoClocks(NightBench):
    """Turns are timed by the host's clock, here a quarter slower than the device's, which times measurements."""

    def rounds(self, *what: Any) -> list[tuple[float, ...]]:
        return [tuple(1.25 * ms for ms in times) for times in super().rounds(*what)]


def test_what_is_said_beside_a_library_is_the_ratio_in_turns(tmp_path: Path, store: Store) -> None:
    night = Night(tmp_path, [Problem(64, 16, 16)], libraries=None)
    summary = night.run(store, TwoClocks(), libraries=[FakeLibrary()])
    (champion,) = device_of(summary)["champions"]
    beside = champion["libraries"]["clblast"]
    assert champion["gflops"] / beside["gflops"] == pytest.approx(1.0), "by two clocks they look alike"
    assert (beside["ratio"], beside["noise"], beside["of_champion"]) == (pytest.approx(0.8), 0.0, True)
    assert device_of(summary)["baselines"][0]["libraries"][0]["ratio"] == pytest.approx(0.8)
    assert any("clblast: 0.80 times its rate in turns, geometric mean of 1" in line for line in lines(summary))
    assert "| 0.80 | grid x=2 y=1 |" in markdown(summary)


def test_a_ratio_with_the_champion_before_says_so(tmp_path: Path, store: Store) -> None:
    problem = Problem(64, 16, 16)
    night = Night(tmp_path, [problem], libraries=None)
    night.run(store, TwoClocks(), libraries=[FakeLibrary()])
    store.withdraw(SILICON, SOFTWARE, problem, reason="a person says so")
    summary = night.run(store, TwoClocks(), libraries=[FakeLibrary()])
    (champion,) = device_of(summary)["champions"]
    assert champion["libraries"]["clblast"]["of_champion"] is False
    assert "0.80 (champion before)" in markdown(summary)
    assert any("1 of them with the champion before" in line for line in lines(summary))


def test_peaks_are_measured_once_and_arm_the_bench(tmp_path: Path, store: Store) -> None:
    night = Night(tmp_path, cubes(1))
    first, second = NightBench(), NightBench()
    night.run(store, first)
    night.run(store, second)
    assert first.armed == second.armed == {"float32": 1000.0}
    (rate,) = [peak for peak in store.peaks(SILICON, SOFTWARE) if peak.what == "gflops"]
    assert rate.value == 1000.0


# What users of other tuners met


def test_the_cost_of_the_defaults_is_in_the_summary(tmp_path: Path, store: Store) -> None:
    summary = Night(tmp_path, cubes(4)).run(store, NightBench())
    defaults = device_of(summary)["defaults"]
    assert defaults == {
        "problems": 4,
        "over_10_percent_slower": 0.0,
        "median_gain": pytest.approx(1.1),
        "largest_gain": pytest.approx(1.1),
    }
    worse = NightBench(lambda config, problem: 4.4 if config["x"] == 1 else 1.0, device=of_driver("3"))
    found = device_of(Night(tmp_path, cubes(2)).run(store, worse))["defaults"]
    assert (found["over_10_percent_slower"], found["largest_gain"]) == (1.0, pytest.approx(4.4))
    assert any("over 10 % slower than the champion on 100% of 2 problems" in line for line in lines(summary_of(found)))


def summary_of(defaults: Any) -> dict[str, Any]:
    """A summary that says nothing but this."""
    night = {"id": 1, "name": "n", "seconds": 1.0, "budget_s": 2.0, "started": "", "interrupted": False}
    kinds = ("withdrawn", "promoted", "renewed", "searched", "champions", "due")
    device: dict[str, Any] = {kind: [] for kind in kinds}
    device |= {"device": {"name": "d", "software": {"driver": "1"}}, "defaults": defaults, "software": None}
    device |= {"regressions": {"new": [], "open": [], "recovered": []}, "conditions": {}, "confirmed": 0}
    device |= {"failures": {"verdicts": {}, "examples": {}, "axes": []}, "skipped": "", "failed": ""}
    return {"night": night, "status": 0, "attention": [], "devices": [device], "report": None}


def test_a_champion_that_is_seventeen_times_slower_than_stored_is_told(tmp_path: Path, store: Store) -> None:
    night = Night(tmp_path, cubes(1))
    night.run(store, NightBench())
    best = Config.of("grid", x=2, y=1)
    summary = night.run(store, NightBench(lambda config, problem: 17.0 if config == best else by_size(config, problem)))
    assert summary["status"] == 3 and "slower by" in summary["attention"][0]


def test_a_pinned_champion_survives_the_night(tmp_path: Path, store: Store) -> None:
    night, problem = Night(tmp_path, cubes(1)), cubes(1)[0]
    pinned = Config.of("grid", x=3, y=2)
    rendered = night.families["grid"].render(pinned, problem, DEVICE)
    store.pin(SILICON, SOFTWARE, problem, pinned, rendered, reason="proven in production")
    night.run(store, NightBench())
    champion = store.champion(SILICON, SOFTWARE, problem)
    assert champion is not None and champion.config == pinned and champion.pinned


def test_when_all_fail_the_night_fails_and_says_which_value_is_to_blame(tmp_path: Path, store: Store) -> None:
    summary = Night(tmp_path, cubes(2)).run(store, NightBench(verdict_of=lambda config: Verdict.WRONG_RESULT))
    assert summary["status"] == 1 and store.champions() == []
    assert device_of(summary)["failures"]["verdicts"] == {"wrong_result": 12}
    assert "no configuration gave a correct result" in summary["attention"][0]


# Interruptions


def test_told_to_stop_it_ends_in_order_and_the_next_goes_on(tmp_path: Path, store: Store) -> None:
    stop = threading.Event()
    night = Night(tmp_path, cubes(3))
    stopping: NightBench = NightBench(on_measure=lambda config: stop.set() if len(stopping.measured) == 8 else None)
    summary = night.run(store, stopping, stop=stop)
    assert summary["night"]["interrupted"] and store.nights(1)[0].state == "interrupted"
    bench = NightBench()
    resumed = night.run(store, bench)
    assert resumed["night"]["id"] == summary["night"]["id"]
    assert len(stopping.measured) + len(bench.measured) == 18, "nothing twice"
    assert len(device_of(resumed)["promoted"]) == 3
    assert any("going on with night" in line for line in night.said)


@pytest.mark.parametrize("evaluations", [3, None], ids=["searched on", "exhausted"])
def test_a_confirmation_that_was_shot_stays_in_no_flight(tmp_path: Path, evaluations: int | None) -> None:
    place, problem = str(tmp_path / "tuner.db"), cubes(1)[0]
    night, me = Night(tmp_path, [problem], budget=NightBudget(3600.0, 600.0, evaluations)), Process.current()
    with open_store(place, upgrade=True, process=Process("here", "boot", me.pid, me.started)) as store:
        night.run(store, NightBench())
        champion = store.champion(SILICON, SOFTWARE, problem)
    assert champion is not None
    key, source = (SILICON, SOFTWARE, problem), champion.rendered.source_hash
    with open_store(place, upgrade=True, process=Process("here", "boot", 4_000_000, "1")) as shot:
        shot.begin(shot.start_run(*key, {"stage": "confirm"}), *key, champion.config, source, "launch")
    with open_store(place, upgrade=True, process=Process("here", "boot", me.pid, me.started)) as store:
        night.run(store, NightBench())
        assert store.stats()["tables"]["in_flight"] == 0


def test_a_failing_device_is_a_status_and_the_next_night_begins_anew(tmp_path: Path, store: Store) -> None:
    def broken(config: Config) -> None:
        raise RuntimeError("the moon is full")

    night = Night(tmp_path, cubes(1))
    summary = night.run(store, NightBench(on_measure=broken))
    assert summary["status"] == 1
    assert store.nights(1)[0].state == "failed"
    assert "the moon is full" in summary["attention"][0]
    assert night.run(store, NightBench())["night"]["id"] != summary["night"]["id"]


def test_a_store_removed_in_the_night_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "gone.db"
    store = open_store(str(path), upgrade=True)
    summary = Night(tmp_path, cubes(1)).run(store, NightBench(on_measure=lambda config: path.unlink(missing_ok=True)))
    store.close()
    assert summary["status"] == 1
    assert "gone.db was removed or replaced" in summary["attention"][0]


def test_the_summary_is_plain_values_and_safe_markdown(tmp_path: Path, store: Store) -> None:
    night = Night(tmp_path, cubes(2), libraries=None)
    summary = night.run(store, NightBench(), libraries=[FakeLibrary(name="<script>|x")])
    assert json.loads(json.dumps(summary, allow_nan=False)) == store.nights(1)[0].summary
    text = markdown(summary)
    assert "<script>" not in text.replace("\\<script>", "")
    assert "16x16x16 float32" in text
