"""The tuning run on a fake bench: what is proposed, remembered, resumed and promoted."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from tests.fakes import DEVICE, PROBLEM, SILICON, SOFTWARE, FakeBench, config_of, small_family, tuned, valley
from tuner.bench import ContenderFailed, OutOfTime
from tuner.family import Family, load_family
from tuner.model import (
    Built,
    Champion,
    CompilerInfo,
    Config,
    Device,
    Facts,
    Measurement,
    Problem,
    Record,
    Rendered,
    Silicon,
    Software,
    Verdict,
)
from tuner.search.outcome import Budget, Clock, Progress
from tuner.search.portfolio import known_good
from tuner.search.proposer import Proposer
from tuner.store import Process, Store, open_store
from tuner.store.reading import Reading

KEY = (SILICON, SOFTWARE, PROBLEM)


@pytest.fixture
def families(tmp_path: Path) -> dict[str, Family]:
    return {"grid": small_family(tmp_path)}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "tuner.db"), upgrade=True) as opened:
        yield opened


def test_finds_the_optimum_and_publishes_it(store: Store, families: dict[str, Family]) -> None:
    outcome = tuned(FakeBench(), store, families, evaluations=40)
    assert outcome.best.measurement.time_ms == 1.0
    assert outcome.promotion.promoted
    champion = store.champion(*KEY)
    assert champion is not None and champion.config == outcome.best.config and champion.certificate is not None


def test_measures_nothing_twice_and_knows_when_it_is_exhausted(store: Store, families: dict[str, Family]) -> None:
    bench = FakeBench()
    first = tuned(bench, store, families, evaluations=40)
    second = tuned(bench, store, families, evaluations=40)
    third = tuned(bench, store, families, evaluations=40)
    assert (first.evaluated, second.evaluated, third.evaluated) == (40, 24, 0)
    assert (first.stopped_by, second.stopped_by, third.stopped_by) == ("evaluations", "exhausted", "exhausted")
    assert max(Counter(bench.measured).values()) == 1
    assert set(bench.measured) == set(families["grid"].space(PROBLEM, DEVICE).enumerate())


def test_two_hundred_asks_in_a_small_space_end_early(store: Store, tmp_path: Path) -> None:
    family = small_family(tmp_path, name="sixty", x=6, y=10)
    outcome = tuned(FakeBench(), store, {"sixty": family}, evaluations=200)
    assert (outcome.evaluated, outcome.stopped_by) == (60, "exhausted")


def test_same_seed_same_proposals(tmp_path: Path, families: dict[str, Family]) -> None:
    proposals = []
    for name in ("one.db", "two.db"):
        bench = FakeBench()
        with open_store(str(tmp_path / name), upgrade=True) as store:
            tuned(bench, store, families, evaluations=30, seed=7)
        proposals.append(bench.measured)
    assert proposals[0] == proposals[1]


def test_a_wrong_configuration_has_no_time_and_is_never_best(store: Store, families: dict[str, Family]) -> None:
    def hundred_times_faster(config: Config) -> float:
        return 0.01 if config["x"] == 8 else valley(config)

    def wrong(config: Config) -> Verdict:
        return Verdict.WRONG_RESULT if config["x"] == 8 else Verdict.CORRECT

    bench = FakeBench(hundred_times_faster, verdict_of=wrong)
    outcome = tuned(bench, store, families, evaluations=64)
    assert outcome.verdicts[Verdict.WRONG_RESULT] == 8
    assert outcome.best.config["x"] != 8
    assert all(record.measurement.time_ms is None for record in store.history(*KEY) if record.config["x"] == 8)


def test_where_all_fail_alike_the_reason_is_said(store: Store, families: dict[str, Family]) -> None:
    bench = FakeBench(verdict_of=lambda config: Verdict.UNSUPPORTED)
    reason = tuned(bench, store, families, evaluations=3).promotion.reason
    assert reason == "no configuration gave a correct result; all are unsupported: as told"


def test_where_they_fail_each_in_its_way_no_reason_is_picked(store: Store, families: dict[str, Family]) -> None:
    kinds = [Verdict.UNSUPPORTED, Verdict.WRONG_RESULT]
    bench = FakeBench(verdict_of=lambda config: kinds[int(config["x"]) % 2])
    reason = tuned(bench, store, families, evaluations=64).promotion.reason
    assert reason == "no configuration gave a correct result"


def test_a_candidate_that_was_cut_short_is_never_the_best_nor_a_nominee(
    store: Store, families: dict[str, Family]
) -> None:
    """It is told as slow, and there it ends: even where all that was better is refused, it is nobody's champion."""
    checked = {Config.of("grid", x=5, y=y) for y in (2, 3, 4)}
    bench = FakeBench(certifies=lambda config: config not in checked)
    whole = bench.measure

    def measure(*arguments: Any, **named: Any) -> Measurement:
        measured = whole(*arguments, **named)
        return measured if config_of(arguments[1]) in checked else replace(measured, error_ratio=None)

    bench.measure = measure  # type: ignore[method-assign]
    outcome = tuned(bench, store, families, evaluations=64)
    assert outcome.verdicts == {Verdict.CORRECT: 61, Verdict.WRONG_RESULT: 3}
    assert outcome.best is None and not outcome.promotion.promoted
    assert store.champion(*KEY) is None
    assert {config_of(case.rendered) for case in bench.checked} == checked


def test_the_best_is_found_again_when_the_best_so_far_is_refused(store: Store, families: dict[str, Family]) -> None:
    bench = FakeBench(certifies=lambda config: config["x"] != 5, races=lambda config: config["x"] != 4)
    outcome = tuned(bench, store, families, evaluations=64)
    last = {record.source_hash: record for record in store.history(*KEY)}
    correct = [record.measurement.time_ms for record in last.values() if record.measurement.time_ms is not None]
    assert len(correct) < 64 and outcome.best.measurement.time_ms == min(correct)


def test_what_race_or_certificate_refuses_is_counted_as_what_it_is(store: Store, families: dict[str, Family]) -> None:
    bench = FakeBench(certifies=lambda config: config["x"] != 5, races=lambda config: config["x"] != 4)
    seen: list[tuple[Verdict, Counter[str]]] = []

    def observe(progress: Progress) -> None:
        assert progress.evaluated == progress.verdicts.total()
        if progress.stage == "certify" and progress.latest is not None:
            seen.append((progress.latest.measurement.verdict, Counter(progress.verdicts)))

    outcome = tuned(bench, store, families, evaluations=64, observe=observe)
    last = {record.source_hash: record.measurement.verdict for record in store.history(*KEY)}
    assert outcome.verdicts == Counter(last.values())
    assert outcome.verdicts[Verdict.WRONG_RESULT] and outcome.verdicts[Verdict.CRASHED]
    assert {verdict for verdict, _ in seen} == {Verdict.WRONG_RESULT, Verdict.CRASHED}
    assert seen[-1][1] == outcome.verdicts and outcome.verdicts.total() == outcome.evaluated == 64


class UncertainBench(FakeBench):
    """Its clock fails in a race for one contender."""

    def rounds(
        self, problem: Problem, contenders: Sequence[tuple[Rendered, Built]], count: int
    ) -> list[tuple[float, ...]]:
        for index, (rendered, _) in enumerate(contenders):
            if config_of(rendered)["x"] == 4:
                raise ContenderFailed(index, Verdict.BAD_CLOCK, "as told")
        return super().rounds(problem, contenders, count)


def test_a_clock_that_fails_in_the_race_takes_no_verdict_back(store: Store, families: dict[str, Family]) -> None:
    outcome = tuned(UncertainBench(), store, families, evaluations=64)
    assert outcome.promotion.promoted and outcome.verdicts == {Verdict.CORRECT: 64}
    assert any(record.measurement.verdict is Verdict.BAD_CLOCK for record in store.history(*KEY))


def test_what_an_earlier_run_evaluated_is_in_no_count_of_this_one(store: Store, families: dict[str, Family]) -> None:
    tuned(FakeBench(certifies=lambda _: False), store, families, evaluations=8)
    outcome = tuned(FakeBench(certifies=lambda _: False), store, families, evaluations=2)
    assert outcome.verdicts.total() == outcome.evaluated == 2


def test_when_all_fail_nothing_is_published_and_the_run_goes_to_its_end(store: Store, tmp_path: Path) -> None:
    kinds = [v for v in Verdict if v not in (Verdict.CORRECT, Verdict.ILLEGAL)]
    family = small_family(tmp_path, name="bad", x=8, y=2)
    bench = FakeBench(verdict_of=lambda config: kinds[int(config["x"]) % len(kinds)])
    outcome = tuned(bench, store, {"bad": family}, evaluations=16)
    assert outcome.verdicts.total() == 16 and len(outcome.verdicts) == len(kinds)
    assert outcome.best is None and not outcome.promotion.promoted
    assert store.champion(*KEY) is None and store.log(*KEY) == []


def test_the_winner_that_fails_its_certificate_is_out_and_the_next_is_promoted(
    store: Store, families: dict[str, Family]
) -> None:
    bench = FakeBench(certifies=lambda config: config["x"] != 5)
    outcome = tuned(bench, store, families, evaluations=64)
    assert outcome.promotion.promoted and outcome.promotion.config["x"] != 5
    last = {record.config: record.measurement.verdict for record in store.history(*KEY)}
    assert last[Config.of("grid", x=5, y=3)] is Verdict.WRONG_RESULT
    again = tuned(bench, store, families, evaluations=64)
    assert again.evaluated == 0 and not again.promotion.promoted


def test_a_champion_that_no_longer_runs_is_withdrawn(store: Store, families: dict[str, Family]) -> None:
    tuned(FakeBench(), store, families, evaluations=64)
    best = store.champion(*KEY)
    assert best is not None

    def changed(config: Config) -> float:
        return 0.5 if config == Config.of("late", x=1, y=1) else 2.0

    late = {"late": small_family(Path(families["grid"].path).parent, name="late", x=1, y=1)}
    bench = FakeBench(changed, races=lambda config: config != best.config)
    outcome = tuned(bench, store, late, evaluations=5)
    assert outcome.promotion.promoted
    assert [event.action for event in store.log(*KEY)] == ["promote", "withdraw", "promote"]


def test_a_withdrawn_configuration_is_not_promoted_again(store: Store, families: dict[str, Family]) -> None:
    tuned(FakeBench(), store, families, evaluations=64)
    store.withdraw(*KEY, reason="distrusted")
    outcome = tuned(FakeBench(), store, families, evaluations=1)
    assert outcome.promotion.promoted
    assert outcome.promotion.config not in (None, Config.of("grid", x=5, y=3))


def test_a_pinned_champion_survives(store: Store, families: dict[str, Family]) -> None:
    pinned = Config.of("grid", x=1, y=1)
    rendered = families["grid"].render(pinned, PROBLEM, DEVICE)
    store.pin(*KEY, pinned, rendered, reason="ours")
    outcome = tuned(FakeBench(), store, families, evaluations=64)
    champion = store.champion(*KEY)
    assert not outcome.promotion.promoted and champion is not None and champion.config == pinned


def test_interrupt_keeps_what_was_found(store: Store, families: dict[str, Family]) -> None:
    seen: list[Config] = []

    def press(config: Config) -> None:
        seen.append(config)
        if len(seen) == 11:
            raise KeyboardInterrupt

    outcome = tuned(FakeBench(on_measure=press), store, families, evaluations=40)
    assert outcome.stopped_by == "interrupted" and outcome.evaluated == 10
    assert [record.config for record in store.history(*KEY)] == seen[:10]
    assert store.interrupted(*KEY) == []  # it ended in order: nothing is blamed
    assert tuned(FakeBench(), store, families, evaluations=64).evaluated == 54


def test_added_choices_keep_old_trials(store: Store, tmp_path: Path) -> None:
    tuned(FakeBench(), store, {"grid": small_family(tmp_path, x=4, y=4)}, evaluations=16)
    bench = FakeBench()
    outcome = tuned(bench, store, {"grid": small_family(tmp_path, x=6, y=4)}, evaluations=64)
    assert outcome.evaluated == 8 and {config["x"] for config in bench.measured} == {5, 6}


def test_an_axis_added_with_before_keeps_old_trials(store: Store, tmp_path: Path) -> None:
    tuned(FakeBench(), store, {"grid": small_family(tmp_path, x=4, y=4)}, evaluations=16)
    family = small_family(tmp_path, x=4, y=4, z=[1, 2])
    text = family.path.read_text().replace("meaning = 'a number' }", "meaning = 'a number', before = 1 }")
    family.path.write_text(text)
    template = family.path.with_name("grid.cl.j2")
    template.write_text("kernel grid x={{ x }} y={{ y }}{% if z != 1 %} z={{ z }}{% endif %}\n")
    bench = FakeBench()
    outcome = tuned(bench, store, {"grid": load_family(family.path)}, evaluations=64)
    assert outcome.evaluated == 16 and all(config["z"] == 2 for config in bench.measured)


def test_a_changed_source_is_measured_again(store: Store, tmp_path: Path) -> None:
    family = small_family(tmp_path, x=4, y=4)
    tuned(FakeBench(), store, {"grid": family}, evaluations=16)
    family.path.with_name("grid.cl.j2").write_text("kernel grid x={{ x }} y={{ y }} // same\n")
    commented = tuned(FakeBench(), store, {"grid": load_family(family.path)}, evaluations=16)
    assert commented.evaluated == 0
    family.path.with_name("grid.cl.j2").write_text("kernel grid x={{ x }} y={{ y }} improved\n")
    improved = tuned(FakeBench(), store, {"grid": load_family(family.path)}, evaluations=16)
    assert improved.evaluated == 16


def test_new_software_starts_from_what_won_before(store: Store, families: dict[str, Family]) -> None:
    tuned(FakeBench(), store, families, evaluations=64)
    newer = Software("Acme OpenCL", "2.0", "OpenCL C 1.2", "Anvil 9 (LLVM 17)")
    updated = Device(SILICON, newer, "anvil:0", DEVICE.facts)
    bench = FakeBench(device=updated)
    tuned(bench, store, families, evaluations=5)
    assert bench.measured[0] == Config.of("grid", x=5, y=3)


def test_each_family_is_tried_and_the_better_gets_the_evaluations(store: Store, tmp_path: Path) -> None:
    families = {name: small_family(tmp_path, name=name, x=20, y=20) for name in ("slow", "fast")}

    def time_of(config: Config) -> float:
        return valley(config) * (10.0 if config.family == "slow" else 1.0)

    bench = FakeBench(time_of)
    tuned(bench, store, families, evaluations=80)
    counts = Counter(config.family for config in bench.measured)
    assert counts["slow"] >= 1 and counts["fast"] > 10 * counts["slow"]


SIX = {"naive": 30.0, "tiled": 8.0, "skinny": 4.0, "vector": 2.0, "register_tiled": 1.3, "matrix_unit": 1.0}
"""Times of the optimum of six families, as multiples of the best."""


def _evaluations_of_each(
    folder: Path, time_of: Callable[[Config], float], ahead: int, evaluations: int, side: int = 20
) -> Counter[str]:
    """What each of six families gets, each beginning with its default, with `ahead` proposals in the dark."""
    families = {name: small_family(folder, name=name, x=side, y=side) for name in SIX}
    spaces = {name: family.space(PROBLEM, DEVICE) for name, family in families.items()}
    proposer = Proposer(spaces, [Config.of(name, x=1, y=1) for name in SIX], seed=1)
    pending, seen = deque[Config](), Counter[str]()
    while seen.total() < evaluations:
        while len(pending) <= ahead:
            config = proposer.propose()
            assert config is not None
            pending.append(config)
        told = pending.popleft()
        seen[told.family] += 1
        proposer.tell(told, time_of(told))
    return seen


@pytest.mark.parametrize("ahead", [0, 18])
def test_families_that_cannot_win_cost_few_evaluations(tmp_path: Path, ahead: int) -> None:
    seen = _evaluations_of_each(tmp_path, lambda config: valley(config) * SIX[config.family], ahead, 50 + ahead)
    hopeless = [seen[name] for name in ("naive", "tiled", "skinny")]
    assert max(hopeless) <= 2 + ahead // 6 and seen["matrix_unit"] >= 20


def test_a_family_whose_default_is_bad_gets_the_chance_to_win(tmp_path: Path) -> None:
    """Its default is 1.9 times slower than that of the family which is nearly at its optimum from the beginning."""

    def time_of(config: Config) -> float:
        flat = 2.0 * (1.0 + 0.01 * valley(config))
        return {"vector": flat, "matrix_unit": 1.2 * valley(config) ** 2}.get(config.family, 20.0 * valley(config))

    seen = _evaluations_of_each(tmp_path, time_of, 0, 50, side=10)
    assert seen["matrix_unit"] > 25 > seen["vector"]


def test_a_family_that_always_fails_is_left_after_a_few(tmp_path: Path) -> None:
    families = {name: small_family(tmp_path, name=name, x=20, y=20) for name in ("bad", "good")}
    proposer = Proposer({name: family.space(PROBLEM, DEVICE) for name, family in families.items()}, [], seed=1)
    seen: Counter[str] = Counter()
    for _ in range(40):
        config = proposer.propose()
        assert config is not None
        seen[config.family] += 1
        proposer.tell(config, None if config.family == "bad" else valley(config), None)
    assert seen["bad"] <= 5


def test_nothing_is_built_while_a_device_that_shares_its_cores_measures(
    store: Store, families: dict[str, Family]
) -> None:
    shared = Device(SILICON, SOFTWARE, "anvil:0", Facts(shares_cores=True))
    bench = FakeBench(device=shared)
    tuned(bench, store, families, evaluations=16)
    batches = "".join(step[0] for step in bench.steps[:32]).replace("mb", "m|b").split("|")
    assert [batch.count("b") for batch in batches] == [batch.count("m") for batch in batches] == [4] * 4


def test_the_next_proposals_are_made_while_the_device_is_busy(store: Store, families: dict[str, Family]) -> None:
    built_meanwhile = threading.Event()

    class Busy(FakeBench):
        def build(self, rendered: Rendered) -> Future[Built]:
            if threading.current_thread() is not threading.main_thread():
                built_meanwhile.set()
            return super().build(rendered)

    def until_something_is_built(config: Config) -> None:
        if bench.steps.count("measure") > 1 and bench.steps.count("build") < 40:
            seen.append(built_meanwhile.wait(20))
            built_meanwhile.clear()

    seen: list[bool] = []
    bench = Busy(on_measure=until_something_is_built)
    tuned(bench, store, families, evaluations=40)
    assert len(seen) > 20 and all(seen)


def test_what_is_built_is_measured_at_once_and_the_seed_still_decides(
    tmp_path: Path, families: dict[str, Family]
) -> None:
    """Builds that end in another order change the order of measuring, and not a single proposal."""

    class Shuffled(FakeBench):
        def __init__(self, hold_back: bool) -> None:
            super().__init__(on_measure=self._release)
            self.proposed: list[Config] = []
            self._hold_back, self._held = hold_back, deque[tuple[Future[Built], Built]]()

        def build(self, rendered: Rendered) -> Future[Built]:
            done = super().build(rendered)
            self.proposed.append(config_of(rendered))
            if not self._hold_back or len(self.proposed) % 3 != 2 or len(self.proposed) > 45:
                return done
            late: Future[Built] = Future()
            self._held.append((late, done.result()))
            return late

        def _release(self, config: Config) -> None:
            """The build held back longest ends as another candidate is measured; one waits while others are built."""
            others = len(self.proposed) - len(self.measured) - len(self._held)
            if len(self._held) > 1 or (self._held and others < 2):
                late, built = self._held.popleft()
                late.set_result(built)

    runs = []
    for hold_back in (False, True):
        bench = Shuffled(hold_back)
        with open_store(str(tmp_path / f"{hold_back}.db"), upgrade=True) as store:
            outcome = tuned(bench, store, families, evaluations=50, seed=3)
        assert outcome.evaluated == 50 and sorted(bench.measured) == sorted(bench.proposed)
        runs.append(bench)
    assert runs[0].proposed == runs[1].proposed and runs[0].measured != runs[1].measured


def test_seconds_are_kept(store: Store, families: dict[str, Family]) -> None:
    outcome = tuned(FakeBench(), store, families, seconds=0.0)
    assert (outcome.stopped_by, outcome.evaluated) == ("seconds", 0)
    assert not outcome.promotion.promoted


def test_an_interrupted_candidate_comes_last_and_is_given_up_the_second_time(
    tmp_path: Path, families: dict[str, Family]
) -> None:
    place = str(tmp_path / "tuner.db")
    victim = Config.of("grid", x=2, y=2)
    source_hash = families["grid"].render(victim, PROBLEM, DEVICE).source_hash
    for pid in (4_000_000, 4_000_001):  # two tuners, both gone
        with open_store(place, upgrade=True, process=Process("here", "boot-1", pid, "1")) as killed:
            run = killed.start_run(*KEY, {})
            killed.settle(run, *KEY)
            killed.begin(run, *KEY, victim, source_hash, "launch")
    bench = FakeBench()
    with open_store(place, upgrade=True, process=_living("here", "boot-1")) as resumed:
        outcome = tuned(bench, resumed, families, evaluations=64)
        verdicts = {record.config: record.measurement.verdict for record in resumed.history(*KEY)}
    assert victim not in bench.measured and verdicts[victim] is Verdict.CRASHED
    assert outcome.evaluated == 63


def _living(host: str, boot: str) -> Process:
    me = Process.current()
    return Process(host, boot, me.pid, me.started)


def test_a_candidate_of_a_killed_tuner_is_measured_once_more_and_last(
    tmp_path: Path, families: dict[str, Family]
) -> None:
    place = str(tmp_path / "tuner.db")
    victim = Config.of("grid", x=1, y=1)  # the family's default, so otherwise the very first
    source_hash = families["grid"].render(victim, PROBLEM, DEVICE).source_hash
    with open_store(place, upgrade=True, process=Process("here", "boot-1", 4_000_000, "1")) as killed:
        killed.begin(killed.start_run(*KEY, {}), *KEY, victim, source_hash, "launch")
    bench = FakeBench()
    with open_store(place, upgrade=True, process=_living("here", "boot-1")) as resumed:
        tuned(bench, resumed, families, evaluations=10)
        assert resumed.interrupted(*KEY) == []
    assert bench.measured.index(victim) == 9


def test_after_a_reboot_the_candidate_in_flight_is_skipped(tmp_path: Path, families: dict[str, Family]) -> None:
    place = str(tmp_path / "tuner.db")
    victim = Config.of("grid", x=1, y=1)
    source_hash = families["grid"].render(victim, PROBLEM, DEVICE).source_hash
    with open_store(place, upgrade=True, process=Process("here", "boot-1", 4_000_000, "1")) as killed:
        killed.begin(killed.start_run(*KEY, {}), *KEY, victim, source_hash, "launch")
    bench = FakeBench()
    with open_store(place, upgrade=True, process=_living("here", "boot-2")) as resumed:
        tuned(bench, resumed, families, evaluations=64)
        record = next(r for r in resumed.history(*KEY) if r.config == victim)
    assert victim not in bench.measured
    assert record.measurement.verdict is Verdict.CRASHED and "restarted" in record.measurement.message


def test_a_record_without_its_family_is_left_alone(store: Store, families: dict[str, Family]) -> None:
    run = store.start_run(*KEY, {})
    fast = Measurement(Verdict.CORRECT, (0.001,))
    store.add(Record(*KEY, Config.of("gone", a=1), fast, "h" * 32, run, "2026-01-01T00:00:00+00:00"))
    outcome = tuned(FakeBench(), store, families, evaluations=10)
    assert outcome.best.config.family == "grid" and outcome.promotion.config.family == "grid"


def test_the_proposer_never_repeats_itself(tmp_path: Path) -> None:
    space = small_family(tmp_path, x=5, y=5).space(PROBLEM, DEVICE)
    proposer = Proposer({"grid": space}, [], seed=3)
    found = []
    while (config := proposer.propose()) is not None:
        found.append(config)
        if len(found) % 3:  # some stay pending for a while
            proposer.tell(config, valley(config) if len(found) % 5 else None)
    assert len(found) == len(set(found)) == 25


def test_the_search_beats_random(tmp_path: Path) -> None:
    family = small_family(tmp_path, x=30, y=30)
    space = family.space(PROBLEM, DEVICE)

    def found(seed: int) -> float:
        proposer = Proposer({"grid": space}, [], seed)
        times = []
        for _ in range(40):
            config = proposer.propose()
            assert config is not None
            times.append(valley(config))
            proposer.tell(config, times[-1])
        return min(times)

    ours = np.median([found(seed) for seed in range(11)])
    lucky = np.median([min(map(valley, space.sample(np.random.default_rng(seed), 40))) for seed in range(11)])
    assert ours < lucky


def test_every_sample_of_the_races_is_kept(store: Store, families: dict[str, Family]) -> None:
    slow = families["grid"].default(PROBLEM, DEVICE)
    rendered = families["grid"].render(slow, PROBLEM, DEVICE)
    store.promote(*KEY, slow, rendered, reason="first", time_ms=2.0, noise=0.0, checks=("as told",))
    outcome = tuned(FakeBench(noise=0.01), store, families, evaluations=40)
    (run,) = Reading(store).runs(PROBLEM)
    assert run.summary is not None and run.summary["promoted"] and run.summary["reason"] == outcome.promotion.reason
    ranking, race = run.summary["races"]
    assert len(ranking["contenders"]) == 5 and {len(times) for times in ranking["rounds_ms"]} == {5}
    assert [one["config"] for one in race["contenders"]] == [slow.as_dict(), outcome.promotion.config.as_dict()]
    assert race["decided"]["gain"] == outcome.promotion.gain
    assert race["decided"]["gain"] == pytest.approx(np.median([a / b for a, b in race["rounds_ms"]]) - 1)


def test_an_interrupt_while_the_winner_is_certified_is_one_too(store: Store, families: dict[str, Family]) -> None:
    def press(config: Config) -> bool:
        raise KeyboardInterrupt

    outcome = tuned(FakeBench(certifies=press), store, families, evaluations=20)
    assert outcome.stopped_by == "interrupted" and not outcome.promotion.promoted
    assert outcome.evaluated == 20 and store.champion(*KEY) is None
    assert tuned(FakeBench(), store, families, evaluations=1).promotion.promoted


def _champion(silicon: Silicon, problem: Problem, x: int) -> Champion:
    rendered = Rendered("source", "", (), source_hash=f"{x:032d}")
    config = Config.of("grid", x=x, y=1)
    return Champion(silicon, SOFTWARE, problem, config, rendered, 1.0, 0.01, None, "won", "2026-01-01T00:00:00+00:00")


def test_the_portfolio_has_this_silicon_first_then_its_like(families: dict[str, Family]) -> None:
    sibling, twice = replace(SILICON, name="Anvil 8"), replace(SILICON, name="Anvil 8 Max", compute_units=16)
    stranger = replace(SILICON, vendor="Other")
    champions = [
        _champion(stranger, PROBLEM, 7),
        _champion(twice, PROBLEM, 6),
        _champion(sibling, PROBLEM, 5),
        _champion(SILICON, Problem(4096, 4096, 4096), 4),
        _champion(SILICON, Problem(128, 64, 64), 3),
        _champion(SILICON, Problem(64, 64, 64, dtype="float64"), 8),
    ]
    first = known_good(champions, families, PROBLEM, DEVICE)
    assert [config["x"] for config in first] == [3, 4, 5, 6, 1]  # the family's default comes last


def test_the_portfolio_has_strict_champions_where_less_is_asked_for(families: dict[str, Family]) -> None:
    loose = Problem(64, 64, 64, math="tf32")
    champions = [
        _champion(SILICON, Problem(64, 64, 64), 4),
        _champion(SILICON, replace(loose, m=4096), 5),
        _champion(SILICON, replace(loose, math="fp32_equivalent"), 6),
        _champion(SILICON, replace(loose, m=128, n=128), 7),
    ]
    assert [config["x"] for config in known_good(champions, families, loose, DEVICE)][:3] == [7, 4, 5]
    assert [config["x"] for config in known_good(champions[1:], families, PROBLEM, DEVICE)] == [1]


def test_the_first_measured_is_the_first_proposed_however_long_its_build(
    store: Store, families: dict[str, Family]
) -> None:
    """Where time is short it may be the only one, and what compiles soonest is the slowest kernel."""

    class LateFirst(FakeBench):
        def build(self, rendered: Rendered) -> Future[Built]:
            done = super().build(rendered)
            if self.steps.count("build") > 1:
                return done
            late: Future[Built] = Future()
            threading.Timer(0.3, late.set_result, [done.result()]).start()
            self.first = config_of(rendered)
            return late

    bench = LateFirst()
    tuned(bench, store, families, evaluations=5)
    assert bench.measured[0] == bench.first


def test_the_portfolio_ends_with_defaults_of_the_family_ranked_highest(tmp_path: Path) -> None:
    families = {name: small_family(tmp_path, name=name) for name in ("first", "second")}
    toml = families["second"].path
    toml.write_text('rank = "2 if problem.m > 1 else -1"\n' + toml.read_text() + "\n[[default]]\nx = 2\ny = 1\n")
    families["second"] = load_family(toml)
    expected = [*families["second"].defaults, families["first"].defaults[0]]
    assert known_good([], families, PROBLEM, DEVICE) == expected and len(expected) == 3
    thin = replace(PROBLEM, m=1)
    assert known_good([], families, thin, DEVICE)[0].family == "first"


def test_the_portfolio_ends_with_seeds_of_comparable_silicon(families: dict[str, Family]) -> None:
    twice = replace(SILICON, name="Anvil 8 Max", compute_units=16)
    seeds = [
        _champion(replace(SILICON, vendor="Other"), PROBLEM, 7),
        _champion(twice, Problem(1024, 64, 64), 6),
        _champion(twice, PROBLEM, 5),
        _champion(replace(SILICON, kind="cpu"), PROBLEM, 8),
    ]
    first = known_good([_champion(SILICON, Problem(128, 64, 64), 3)], families, PROBLEM, DEVICE, seeds=seeds)
    assert [config["x"] for config in first] == [3, 5, 6, 1]
    processor = replace(DEVICE, silicon=replace(SILICON, kind="cpu", vendor="Third"))
    assert [config["x"] for config in known_good([], families, PROBLEM, processor, seeds=seeds)] == [8, 1]


def test_what_was_fastest_on_other_machines_is_tried_first_but_never_taken_for_measured(
    store: Store, families: dict[str, Family]
) -> None:
    run = store.start_run(*KEY, {})
    for x, time_ms in ((7, 0.2), (6, 0.1), (8, None)):
        verdict = Verdict.CRASHED if time_ms is None else Verdict.CORRECT
        measured = Measurement(verdict, () if time_ms is None else (time_ms,), error_ratio=0.1)
        config = Config.of("grid", x=x, y=8)
        source_hash = families["grid"].render(config, PROBLEM, DEVICE).source_hash
        when = "2026-01-01T00:00:00+00:00"
        store.add(Record(*KEY, config, measured, source_hash, run, when, imported_from="elsewhere"))
    bench = FakeBench()
    outcome = tuned(bench, store, families, evaluations=30)
    assert [config["x"] for config in bench.measured[:2]] == [6, 7]
    assert outcome.best.measurement.time_ms is not None and outcome.best.measurement.time_ms >= 1.0


def test_a_misleading_portfolio_does_not_replace_the_random_start(tmp_path: Path) -> None:
    space = small_family(tmp_path, x=20, y=20).space(PROBLEM, DEVICE)
    first = [Config.of("grid", x=20, y=y) for y in range(13, 21)]
    proposer = Proposer({"grid": space}, first, seed=1)
    seen = []
    for _ in range(40):
        config = proposer.propose()
        assert config is not None
        seen.append(config)
        proposer.tell(config, valley(config))
    assert seen[:8] == first
    assert len({config["x"] for config in seen[8:18]}) >= 5
    assert min(valley(config) for config in seen) <= 1.2


def test_a_source_under_another_name_is_not_measured_again(store: Store, tmp_path: Path) -> None:
    first = {"one": small_family(tmp_path, name="one", x=4, y=2)}
    tuned(FakeBench(), store, first, evaluations=8)
    renamed = small_family(tmp_path, name="two", x=4, y=3)
    renamed.path.with_name("two.cl.j2").write_text("kernel one x={{ x }} y={{ y }}\n")
    bench = FakeBench(lambda config: valley(config))
    outcome = tuned(bench, store, {"two": load_family(renamed.path)}, evaluations=50)
    assert (outcome.evaluated, outcome.stopped_by) == (4, "exhausted")
    assert {config["y"] for config in bench.measured} == {3}
    assert outcome.best.config == Config.of("two", x=4, y=3)
    assert {record.config.family for record in store.history(*KEY)} == {"one", "two"}


def test_a_champion_that_another_tuner_published_meanwhile_is_raced(store: Store, families: dict[str, Family]) -> None:
    theirs = Config.of("grid", x=1, y=1)
    published: list[Champion] = []

    def while_certifying(config: Config) -> bool:
        if not published:
            rendered = families["grid"].render(theirs, PROBLEM, DEVICE)
            store.certify(*KEY, theirs, rendered.source_hash, ["given"])
            published.append(store.promote(*KEY, theirs, rendered, reason="theirs", time_ms=1.8, noise=None))
        return True

    outcome = tuned(FakeBench(certifies=while_certifying), store, families, evaluations=64)
    assert outcome.promotion.promoted and outcome.promotion.gain is not None
    assert [event.action for event in store.log(*KEY)] == ["promote", "promote"]


def test_the_builds_of_the_fastest_are_kept_for_the_race(store: Store, families: dict[str, Family]) -> None:
    bench = FakeBench()
    tuned(bench, store, families, evaluations=40)
    assert bench.steps.count("build") == 40


def test_a_race_that_time_does_not_allow_is_left_out(store: Store, families: dict[str, Family]) -> None:
    slow = FakeBench(lambda config: 1e6 * valley(config))
    outcome = tuned(slow, store, families, evaluations=10, seconds=300.0)
    assert outcome.promotion.promoted and valley(outcome.promotion.config) == valley(outcome.best.config)


def test_a_restless_confirmation_is_taken_again_and_the_steadiest_counts(
    store: Store, families: dict[str, Family]
) -> None:
    bench = FakeBench()
    restless = [(2.0, 1.0, 3.0, 2.0, 1.0), (1.5, 1.0, 1.2, 1.4, 1.0), (1.1, 1.1, 1.101, 1.1, 1.1)]
    trials = bench.measure

    def measure(*arguments: Any, **named: Any) -> Measurement:
        measured = trials(*arguments, **named)
        return measured if "on_stage" in named else Measurement(Verdict.CORRECT, restless.pop(0))

    bench.measure = measure  # type: ignore[method-assign]
    tuned(bench, store, families, evaluations=64)
    champion = store.champion(*KEY)
    assert champion is not None and champion.time_ms == 1.1 and restless == []


def test_a_certificate_that_time_does_not_allow_promotes_nobody(store: Store, families: dict[str, Family]) -> None:
    bench = FakeBench()

    def late(*arguments: Any, **named: Any) -> Any:
        raise OutOfTime

    bench.check = late  # type: ignore[method-assign]
    outcome = tuned(bench, store, families, evaluations=20)
    assert not outcome.promotion.promoted and "time ran out" in outcome.promotion.reason
    assert store.champion(*KEY) is None and tuned(FakeBench(), store, families, evaluations=1).promotion.promoted


def test_the_search_computes_in_one_thread_and_leaves_the_callers_setting(
    store: Store, families: dict[str, Family]
) -> None:
    def threads() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    with threadpool_limits(limits=2, user_api="blas"):
        before, seen = threads(), list[int]()
        tuned(FakeBench(on_measure=lambda config: seen.extend(threads())), store, families, evaluations=5)
        assert threads() == before and len(seen) >= 5 and set(seen) == {1}


# Builds that are not worth a launch


class SpillingBench(FakeBench):
    """Its compiler spills 64 bytes for each step of x beyond 5."""

    def build(self, rendered: Rendered) -> Future[Built]:
        future: Future[Built] = Future()
        spilled = 64 * max(0, int(config_of(rendered)["x"]) - 5)
        future.set_result(replace(super().build(rendered).result(), compiler=CompilerInfo(spill_bytes=spilled)))
        return future


def test_a_build_that_spills_more_than_its_family_allows_is_never_run(tmp_path: Path, store: Store) -> None:
    small_family(tmp_path)
    declared = tmp_path / "grid.toml"
    declared.write_text("most_spill_bytes = 64\n" + declared.read_text())
    bench = SpillingBench()
    outcome = tuned(bench, store, {"grid": load_family(declared)}, evaluations=64)
    assert outcome.verdicts[Verdict.ILLEGAL] == 16 and all(int(config["x"]) <= 6 for config in bench.measured)
    spilled = [r for r in store.history(SILICON, SOFTWARE, PROBLEM) if r.measurement.verdict is Verdict.ILLEGAL]
    assert {r.measurement.message for r in spilled} == {
        "128 bytes of registers spill, grid allows 64",
        "192 bytes of registers spill, grid allows 64",
    }


class SlowChecks(FakeBench):
    """On a clock of its own: the first candidate takes a second to verify, all take 0.1 s, a certificate takes 4.5."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def measure(self, *what: Any, **how: Any) -> Measurement:
        verify_ms = 100.0 if self.measured else 1000.0
        self.now += verify_ms / 1e3
        return replace(super().measure(*what, **how), verify_ms=verify_ms)

    def check(self, cases: Any, *, seconds_left: Callable[[], float] = lambda: 1e9) -> Any:
        self.now += 4.5
        if seconds_left() <= 0:
            raise OutOfTime
        return super().check(cases, seconds_left=seconds_left)


@pytest.mark.parametrize("seconds", [8.0, 12.0])
def test_a_search_of_little_time_keeps_what_its_certificate_takes(
    store: Store, families: dict[str, Family], monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    bench = SlowChecks()
    monkeypatch.setattr("tuner.search.loop.Clock", lambda budget: Clock(budget, lambda: bench.now))
    outcome = tuned(bench, store, families, seconds=seconds)
    assert outcome.promotion.promoted and bench.now <= seconds
    assert outcome.evaluated >= 10
    again = tuned(bench, store, families, seconds=seconds)
    assert again.evaluated > 0


def test_the_reserve_is_a_share_until_the_certificate_is_known() -> None:
    clock = Clock(Budget(None, 20.0), lambda: 0.0)
    assert (clock.left_to_search, clock.spare(0.5)) == (14.0, 10.0)
    clock.certificate_s = 8.0
    assert (clock.left_to_search, clock.spare(0.5)) == (10.0, 10.0)
    clock.certificate_s = 18.0
    assert clock.left_to_search == pytest.approx(6.0) and clock.spare(0.5) == 2.5
    assert Clock(Budget(10, None)).left_to_search == float("inf")
