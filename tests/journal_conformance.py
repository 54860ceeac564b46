"""What every store owes those who keep misses, nights, calibrations, regressions, peaks and baselines in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.store_conformance import (
    DEAD,
    ELSEWHERE,
    HERE,
    KEY,
    NEWER,
    PROBLEM,
    REBOOTED,
    SILICON,
    SOFTWARE,
    config,
    hash_of,
    promote,
    record,
    rendered,
)
from tuner.model import Config, Problem, Record, UserError, Verdict, canonical_json
from tuner.store import Foreign, Miss, Night, NightState, Store, TakenIn
from tuner.store.imports import Item
from tuner.store.reading import Reading

LATER = datetime(2027, 1, 1, tzinfo=UTC)
OTHER = replace(SILICON, compute_units=66)


def miss(count: int = 1, problem: Problem = PROBLEM, **rest: Any) -> Miss:
    """A question that was answered from elsewhere."""
    dates = {"first": "2026-11-29T22:00:00", "last": "2026-11-29T23:00:00"}
    return Miss(SILICON, SOFTWARE, problem, **{"origin": "nearest", "count": count, **dates, **rest})


def baseline(version: str = "12.4", run: int = 0) -> Record:
    """What a library reached, faster than any of `record`'s."""
    library = Config.of("lib:cublas", version=version)
    fast = replace(record().measurement, samples_ms=(0.01, 0.02, 0.03))
    return replace(record(), config=library, measurement=fast, source_hash="", run=run)


def elsewhere(number: int = 0, **rest: Any) -> Record:
    """Another machine's trial, faster than any of ours."""
    fast = replace(record().measurement, samples_ms=(0.001,))
    return replace(record(number), measurement=fast, imported_from="another machine", **rest)


def foreign(kind: str = "champion", when: str = "2026-11-29T22:00:00+00:00") -> Foreign:
    """Another machine's champion or certificate."""
    certificate = {"checks": ["odd sizes"], "when": when}
    champion = {
        "family": "tiled",
        "config": {"ts": 7},
        "rendered": rendered(7).to_json(),
        **{"time_ms": 0.5, "noise": None, "certificate": certificate, "reason": "won", "when": when},
    }
    body = canonical_json(champion if kind == "champion" else certificate)
    return Foreign(kind, *KEY, hash_of(7), body, "another machine")


def opened(store: Store, number: int = 0, **rest: Any) -> int:
    """An open regression of `config(number)`."""
    figures: dict[str, Any] = {"before_ms": 1.0, "now_ms": 1.2, "noise": 0.02, "detail": "20 % slower", "night": None}
    return store.open_regression(*KEY, config(number), hash_of(number), **{**figures, **rest})


class JournalConformance:
    """Inherited beside `StoreConformance`, which provides `store` and `reopen`."""

    # Baselines and imported trials

    def test_a_search_never_sees_a_library_or_another_machine(self, store: Store) -> None:
        for one in (record(3), elsewhere(1), record(2)):
            store.add(one)
        store.add_baseline(baseline())
        assert store.history() == store.history(*KEY) == [record(3), record(2)]
        assert store.fastest(*KEY, 9) == [record(2), record(3)]

    def test_imported_trials_come_if_asked_for(self, store: Store) -> None:
        store.add(record(1))
        store.add(elsewhere(2, extra='{"new":1}'))
        store.add_baseline(baseline())
        assert store.history(*KEY, imported=True) == [record(1), elsewhere(2, extra='{"new":1}')]

    def test_baselines_come_back_with_their_version(self, store: Store) -> None:
        store.add(record())
        for one in (baseline("12.4", run=1), baseline("12.6", run=1)):
            store.add_baseline(one)
        assert store.baselines(*KEY) == [baseline("12.4", run=1), baseline("12.6", run=1)]
        assert store.baselines(SILICON, NEWER, PROBLEM) == []

    def test_a_baseline_without_a_run_gets_one(self, store: Store) -> None:
        store.add_baseline(baseline())
        assert [one.run for one in store.baselines(*KEY)] == [2]

    def test_only_a_library_is_a_baseline(self, store: Store) -> None:
        with pytest.raises(ValueError, match="no library"):
            store.add_baseline(record())

    @pytest.mark.parametrize("batch", [1, 2, 3, 100])
    def test_records_come_in_order_whatever_the_batch(self, store: Store, batch: int) -> None:
        for one in (record(3), elsewhere(1), record(2, Verdict.CRASHED)):
            store.add(one)
        store.add_baseline(baseline(run=1))
        found = list(store.records(batch))
        assert found == [record(3), elsewhere(1), record(2, Verdict.CRASHED), baseline(run=1)]
        assert [one.number for one in found] == [1, 2, 3, 4]
        assert list(store.records(batch, after=2)) == found[2:]

    def test_what_is_written_while_records_are_read_comes_too(self, store: Store) -> None:
        store.add(record(1))
        found = []
        for one in store.records(batch=1):
            found.append(one)
            if len(found) < 3:
                store.add(record(10 + len(found)))
        assert found == [record(1), record(11), record(12)]

    def test_stats_count_libraries_and_other_machines(self, store: Store) -> None:
        store.add(elsewhere())
        store.add_baseline(baseline())
        found = store.stats()
        assert (found["baselines"], found["imported"], found["tables"]["trial"]) == (1, 1, 2)

    # What came from other stores

    def test_take_in_adds_once_and_keeps_apart(self, store: Store) -> None:
        store.add(record(1))
        items: list[Item] = [
            elsewhere(2, run=5),
            elsewhere(3, run=5),
            elsewhere(1),
            foreign(),
            foreign("certificate"),
            miss(4),
        ]
        first, second = store.take_in(lambda: items), store.take_in(lambda: items)
        assert (first, second) == (TakenIn(2, 1, 1, 0, 1), TakenIn())
        assert store.history(*KEY) == [record(1)]
        runs = {one.run for one in store.history(*KEY, imported=True)[1:]}
        assert (len(runs), store.stats()["tables"]["run"]) == (1, 2)
        assert [one.number for one in Reading(store).runs()] == [1]
        assert (store.foreign(), [one.pending for one in store.nominees()]) == (items[3:5], [True])
        assert (store.champions(), store.certificate(*KEY, hash_of(7)), store.check()) == ([], None, [])

    def test_take_in_takes_all_or_nothing(self, store: Store) -> None:
        def breaks_off() -> Iterator[Record | Foreign]:
            yield from (elsewhere(number, source_hash=hash_of(number)) for number in range(600))
            yield foreign()
            raise UserError("line 602 is no line")

        with pytest.raises(UserError, match="line 602"):
            store.take_in(breaks_off)
        assert (list(store.records()), store.foreign()) == ([], [])

    def test_what_we_have_ourselves_is_not_taken_in(self, store: Store) -> None:
        promote(store, 7)
        line = store.log()[0]
        assert store.take_in(lambda: [foreign(when=line.when)]) == TakenIn()

    # Pruning

    def test_prune_keeps_the_median(self, store: Store) -> None:
        store.add(record(1))
        store.add(record(2, Verdict.WRONG_RESULT, message="off by 5"))
        found = store.prune(30, before=LATER)
        (first, second) = store.history(*KEY)
        assert (found.trials, found.bytes) == (1, 16)
        assert (first.measurement.samples_ms, first.measurement.time_ms) == ((2.5,), record(1).measurement.time_ms)
        assert (second, store.check()) == (record(2, Verdict.WRONG_RESULT, message="off by 5"), [])
        assert store.prune(30, before=LATER).trials == 0

    def test_prune_keeps_what_was_ever_published_and_what_is_young(self, store: Store) -> None:
        young = replace(record(3), when="2026-12-01T00:00:00.000000+00:00")
        for one in (record(1), record(2), young):
            store.add(one)
        for number in (1, 2):
            promote(store, number)
        before = store.log(), store.champions()
        assert store.prune(30, before=datetime(2026, 11, 30, tzinfo=UTC)).trials == 0
        assert (store.history(*KEY), store.log(), store.champions()) == ([record(1), record(2), young], *before)

    def test_a_dry_run_says_the_same_and_changes_nothing(self, store: Store) -> None:
        for number in range(5):
            store.add(record(number))
        found = store.prune(30, before=LATER, dry_run=True)
        assert store.history(*KEY) == [record(number) for number in range(5)]
        assert store.prune(30, before=LATER) == found

    def test_prune_keeps_the_samples_of_the_last_nights(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        for date in (1, 2, 3):
            began, ended = (f"2026-11-0{date}T0{hour}:00:00.000000+00:00" for hour in (1, 5))
            monkeypatch.setattr("tuner.store.rows.now", lambda began=began: began)
            for host in ("one", "other"):
                store.start_night("lab", host, {})
            store.add(replace(record(date), when=ended))
        assert store.prune(4).before is None
        assert (store.prune(2).trials, store.prune(2).trials) == (1, 0)
        assert [len(one.measurement.samples_ms) for one in store.history(*KEY)] == [1, 3, 3]

    def test_prune_goes_through_more_than_one_batch(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tuner.store.prune.BATCH", 2)
        for number in range(5):
            store.add(record(number))
        assert store.prune(1, before=LATER).trials == 5
        assert [len(one.measurement.samples_ms) for one in store.history(*KEY)] == [1] * 5

    # Misses

    def test_misses_add_up(self, store: Store) -> None:
        store.add_misses([miss(2, origin="default"), miss(3, last="2026-11-30T00:00:00")])
        store.add_misses([miss(1, origin="seed", first="2026-11-28T00:00:00", last="2026-11-28T01:00:00")])
        assert store.misses() == [miss(6, first="2026-11-28T00:00:00", last="2026-11-30T00:00:00")]

    def test_misses_come_most_asked_first(self, store: Store) -> None:
        problems = [replace(PROBLEM, m=m) for m in (1, 2, 3)]
        store.add_misses([miss(count, problem) for count, problem in zip((2, 9, 4), problems, strict=True)])
        assert [one.count for one in store.misses()] == [9, 4, 2]

    def test_misses_of_one_silicon(self, store: Store) -> None:
        store.add_misses([miss(2), replace(miss(3), silicon=OTHER)])
        assert [one.count for one in store.misses(OTHER)] == [3]

    def test_forget_misses_of_what_was_tuned(self, store: Store) -> None:
        store.add_misses([miss(), miss(problem=replace(PROBLEM, m=1))])
        store.forget_misses(*KEY)
        store.forget_misses(*KEY)
        assert [one.problem.m for one in store.misses()] == [1]

    def test_a_count_below_one_is_refused_and_changes_nothing(self, store: Store) -> None:
        with pytest.raises(ValueError, match="counted 0 times"):
            store.add_misses([miss(5), miss(0)])
        assert store.misses() == []

    # Nights

    def test_a_night_from_start_to_end(self, store: Store) -> None:
        number = store.start_night("lab", HERE.host, {"due": [1, 2]})
        store.note_night(number, {"done": 1})
        (running,) = store.nights()
        assert (running.id, running.state, running.progress) == (number, NightState.RUNNING, {"done": 1})
        store.finish_night(number, "complete", {"promoted": 3})
        (night,) = store.nights()
        assert (night.name, night.host, night.plan) == ("lab", HERE.host, {"due": [1, 2]})
        assert (night.state, night.summary) == (NightState.COMPLETE, {"promoted": 3})
        assert night.finished is not None and night.started <= night.finished

    def test_nights_come_newest_first(self, store: Store) -> None:
        numbers = [store.start_night(name, HERE.host, {}) for name in ("a", "b", "a")]
        assert [night.id for night in store.nights()] == numbers[::-1]
        assert [night.id for night in store.nights(limit=1, name="a")] == [numbers[2]]

    @pytest.mark.parametrize("gone", [DEAD, REBOOTED])
    def test_a_night_whose_process_is_gone_has_died(self, reopen: Callable[..., Store], gone: Any) -> None:
        with reopen(gone) as before:
            before.start_night("lab", gone.host, {})
        with reopen() as store:
            assert [night.state for night in store.nights()] == [NightState.DIED]

    def test_another_machines_night_is_not_dead(self, reopen: Callable[..., Store]) -> None:
        with reopen(ELSEWHERE) as there:
            there.start_night("lab", ELSEWHERE.host, {})
        with reopen() as store:
            assert [night.state for night in store.nights()] == [NightState.RUNNING]

    def test_a_night_that_died_is_resumed_with_its_progress(self, reopen: Callable[..., Store]) -> None:
        with reopen(REBOOTED) as before:
            number = before.start_night("lab", HERE.host, {"due": 2})
            before.note_night(number, {"done": 1})
        with reopen() as store:
            night = store.resume_night(number)
            assert (night.state, night.plan, night.progress) == (NightState.RUNNING, {"due": 2}, {"done": 1})
            assert store.nights() == [night]

    def test_an_interrupted_night_is_resumed(self, store: Store) -> None:
        number = store.start_night("lab", HERE.host, {})
        store.finish_night(number, "interrupted", {"by": "SIGTERM"})
        night = store.resume_night(number)
        assert (night.state, night.finished, night.summary) == (NightState.RUNNING, None, None)

    def test_a_night_at_work_or_complete_is_not_resumed(self, store: Store) -> None:
        number = store.start_night("lab", HERE.host, {})
        with pytest.raises(UserError, match="is running"):
            store.resume_night(number)
        store.finish_night(number, "complete", {})
        with pytest.raises(UserError, match="is complete"):
            store.resume_night(number)
        with pytest.raises(UserError, match="no night 99"):
            store.resume_night(99)

    @pytest.mark.parametrize("state", ["running", "died", "over"])
    def test_a_night_ends_in_one_of_three_ways(self, store: Store, state: str) -> None:
        number = store.start_night("lab", HERE.host, {})
        with pytest.raises(ValueError, match=state):
            store.finish_night(number, state, {})

    def test_a_night_that_ended_takes_no_more(self, store: Store) -> None:
        number = store.start_night("lab", HERE.host, {})
        store.finish_night(number, "failed", {})
        with pytest.raises(ValueError, match=f"no night {number} at work"):
            store.note_night(number, {})
        with pytest.raises(ValueError, match=f"no night {number} at work"):
            store.finish_night(number, "complete", {})

    def test_calibrations_come_oldest_first(self, store: Store) -> None:
        night: int | None = store.start_night("lab", HERE.host, {})
        for stage, ms in (("start", 1.0), ("between", 2.0), ("end", 3.0)):
            store.add_calibration("GPU-1", SILICON, SOFTWARE, night, stage, {"kernel_ms": ms})
        store.add_calibration("GPU-2", SILICON, SOFTWARE, None, "start", {"kernel_ms": 9.0})
        store.add_calibration("GPU-1", SILICON, NEWER, None, "start", {"kernel_ms": 8.0})
        found = store.calibrations("GPU-1", SOFTWARE, limit=2)
        assert [(one.stage, one.reading, one.night) for one in found] == [
            ("between", {"kernel_ms": 2.0}, night),
            ("end", {"kernel_ms": 3.0}, night),
        ]
        assert [one.software for one in store.calibrations("GPU-1")] == [SOFTWARE] * 3 + [NEWER]

    # Regressions

    def test_a_regression_stays_open_until_closed(self, store: Store) -> None:
        number = opened(store)
        (found,) = store.regressions()
        assert (found.id, found.config, found.source_hash, found.problem) == (number, config(), hash_of(0), PROBLEM)
        assert (found.before_ms, found.now_ms, found.noise, found.detail) == (1.0, 1.2, 0.02, "20 % slower")
        store.close_regression(number, "recovered")
        assert store.regressions() == []
        (closed,) = store.regressions(open_only=False)
        assert (closed.reason, closed.acknowledged, closed.closed is not None) == ("recovered", False, True)

    def test_a_regression_is_opened_once_with_the_latest_figures(self, store: Store) -> None:
        first = opened(store)
        assert opened(store, now_ms=1.5, detail="50 % slower") == first
        assert opened(store, 7) != first
        (found, _) = store.regressions()
        assert (found.before_ms, found.now_ms, found.detail) == (1.0, 1.5, "50 % slower")

    def test_an_acknowledged_regression_may_come_again(self, store: Store) -> None:
        first = opened(store)
        store.acknowledge_regression(first, "ann: known since the driver update")
        assert opened(store) != first
        assert [one.acknowledged for one in store.regressions(open_only=False)] == [True, False]

    def test_only_an_open_regression_can_be_closed(self, store: Store) -> None:
        number = opened(store)
        store.close_regression(number, "recovered")
        for close in (store.close_regression, store.acknowledge_regression):
            with pytest.raises(UserError, match=f"no open regression {number}"):
                close(number, "again")

    @pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
    def test_a_regression_has_times(self, store: Store, bad: float) -> None:
        with pytest.raises(ValueError, match="no time"):
            opened(store, now_ms=bad)

    # Peaks

    def test_the_last_measured_peak_stands(self, store: Store) -> None:
        device = (SILICON, SOFTWARE)
        store.set_bandwidth(*device, 4000.0, 0.01, "copy")
        for gflops in (1.0, 60_000.0):
            store.set_peak(*device, "float32", "strict", gflops, 0.02, "fma chain")
        store.set_peak(*device, "float64", "strict", 30_000.0, 0.02, "fma chain")
        found = [(one.what, one.dtype, one.value, one.method) for one in store.peaks(*device)]
        assert found == [
            ("gb_per_s", "", 4000.0, "copy"),
            ("gflops", "float32", 60_000.0, "fma chain"),
            ("gflops", "float64", 30_000.0, "fma chain"),
        ]
        assert store.peaks(SILICON, NEWER) == []

    @pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
    def test_a_peak_is_a_rate(self, store: Store, bad: float) -> None:
        with pytest.raises(ValueError, match="rate"):
            store.set_bandwidth(SILICON, SOFTWARE, bad, 0.0, "copy")

    def test_check_finds_nothing_wrong_in_a_full_journal(self, store: Store) -> None:
        night = store.start_night("lab", HERE.host, {})
        store.add_calibration("GPU-1", SILICON, SOFTWARE, night, "start", {"kernel_ms": 1.0})
        store.add_misses([miss()])
        store.add_baseline(baseline())
        opened(store, night=night)
        assert (store.check(), isinstance(store.nights()[0], Night)) == ([], True)
