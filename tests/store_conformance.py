"""What every store owes its callers: one suite, inherited by a test class for each kind of database."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tuner.family import rendered as with_hash
from tuner.model import (
    CompilerInfo,
    Config,
    Measurement,
    Problem,
    Record,
    Rendered,
    Silicon,
    Software,
    Step,
    UserError,
    Verdict,
)
from tuner.store import Process, Store, Superseded

SILICON = Silicon("NVIDIA", "NVIDIA H200", "gpu", 132, 140)
SOFTWARE = Software("NVIDIA CUDA", "580.159.04", "OpenCL C 1.2", "NVIDIA H200")
NEWER = replace(SOFTWARE, driver="590.1")
PROBLEM = Problem(64, 96, 128)
KEY = (SILICON, SOFTWARE, PROBLEM)

HERE = Process.current()
DEAD = replace(HERE, started="1")
"""A process of this boot that had our process id before us."""
REBOOTED = replace(HERE, boot="another boot")
ELSEWHERE = replace(HERE, host="another machine", boot="its boot")


def config(number: int = 0) -> Config:
    """One of many configurations."""
    return Config.of("tiled", ts=number)


def rendered(number: int = 0) -> Rendered:
    """What `config(number)` renders to."""
    step = Step("gemm", (96, 64, 1), (8, 8, 1), ("packed",))
    source = f"__kernel void gemm() {{ int number = {number}; }}"
    return with_hash(source, "-cl-mad-enable", (step,), (("packed", 64),))


def hash_of(number: int = 0) -> str:
    """The source hash of `config(number)`."""
    return rendered(number).source_hash


def record(number: int = 0, verdict: Verdict = Verdict.CORRECT, run: int = 1, **rest: Any) -> Record:
    """The trial of `config(number)`."""
    samples = (1.0 + number, 2.0 + number, 1.5 + number) if verdict is Verdict.CORRECT else ()
    found = Measurement(verdict, samples, **rest)
    return Record(*KEY, config(number), found, hash_of(number), run, "2026-11-29T22:00:00.000000+00:00", "family")


def promote(store: Store, number: int, key: tuple[Silicon, Software, Problem] = KEY, *, certify: bool = True) -> None:
    """As the tuning loop does: certify, then promote."""
    if certify:
        store.certify(*key, config(number), hash_of(number), ["odd sizes"])
    store.promote(*key, config(number), rendered(number), reason=f"won {number}", time_ms=1.5, noise=0.01)


class StoreConformance:
    """Subclasses provide `reopen`: the same database opened once more, as the process given."""

    @pytest.fixture
    def reopen(self) -> Callable[..., Store]:
        """To be overridden."""
        raise NotImplementedError

    @pytest.fixture
    def store(self, reopen: Callable[..., Store]) -> Iterator[Store]:
        """A fresh store, with a run."""
        with reopen() as opened:
            assert opened.start_run(*KEY, {"seed": 1}) == 1
            yield opened

    # Runs and trials

    def test_start_run_numbers_runs(self, store: Store) -> None:
        assert store.start_run(*KEY, {}) == 2

    def test_finish_run_refuses_a_run_that_never_was(self, store: Store) -> None:
        with pytest.raises(ValueError, match="no run 99"):
            store.finish_run(99, {})

    def test_history_is_empty_at_first(self, store: Store) -> None:
        assert store.history(*KEY) == []

    def test_add_keeps_order_and_every_field(self, store: Store) -> None:
        compiler = CompilerInfo(registers=128, spill_bytes=0, local_bytes=49152)
        records = [record(3, compile_ms=12.5, error_ratio=0.1, verify_ms=7.0, compiler=compiler), record(1), record(2)]
        for one in records:
            store.add(one)
        assert store.history(*KEY) == records

    @pytest.mark.parametrize("verdict", Verdict)
    def test_add_takes_every_verdict(self, store: Store, verdict: Verdict) -> None:
        store.add(record(verdict=verdict, message="why"))
        assert store.history(*KEY) == [record(verdict=verdict, message="why")]

    def test_samples_come_back_bit_for_bit(self, store: Store) -> None:
        samples = (0.1 + 0.2, 5e-324, 1e300)
        store.add(replace(record(), measurement=Measurement(Verdict.CORRECT, samples)))
        assert store.history(*KEY)[0].measurement.samples_ms == samples

    @pytest.mark.parametrize("sample", [math.nan, math.inf, 0.0, -1.0])
    def test_add_refuses_a_sample_that_is_no_time(self, store: Store, sample: float) -> None:
        with pytest.raises(ValueError, match="no time"):
            store.add(replace(record(), measurement=Measurement(Verdict.CORRECT, (1.0, sample))))
        assert store.history(*KEY) == []

    def test_an_error_that_is_no_number_is_infinite(self, store: Store) -> None:
        store.add(record(verdict=Verdict.WRONG_RESULT, error_ratio=math.nan))
        assert store.history(*KEY)[0].measurement.error_ratio == math.inf

    def test_the_compilers_log_is_kept_for_failures_only(self, store: Store) -> None:
        for verdict in (Verdict.CORRECT, Verdict.COMPILE_FAILED):
            store.add(record(verdict=verdict, compiler=CompilerInfo(log="line 7: error")))
        assert [one.measurement.compiler.log for one in store.history(*KEY)] == ["", "line 7: error"]

    def test_a_log_is_kept_once_and_cut(self, store: Store) -> None:
        for number in range(3):
            store.add(record(number, Verdict.COMPILE_FAILED, compiler=CompilerInfo(log="é\0\ud800" * 10_000)))
        logs = {one.measurement.compiler.log for one in store.history(*KEY)}
        assert (store.stats()["tables"]["compile_log"], len(logs)) == (1, 1)
        assert 16_000 < len(logs.pop().encode()) <= 16 * 1024

    def test_history_tells_silicon_software_and_problem_apart(self, store: Store) -> None:
        store.add(record())
        others = [
            (replace(SILICON, compute_units=66), SOFTWARE, PROBLEM),
            (replace(SILICON, memory_gib=80), SOFTWARE, PROBLEM),
            (SILICON, NEWER, PROBLEM),
            (SILICON, SOFTWARE, replace(PROBLEM, trans_a=True)),
            (SILICON, SOFTWARE, replace(PROBLEM, align=4)),
        ]
        assert [store.history(*key) for key in others] == [[]] * 5

    def test_history_of_any_software(self, store: Store) -> None:
        records = [record(), replace(record(), software=NEWER)]
        for one in records:
            store.add(one)
        assert store.history(SILICON, None, PROBLEM) == store.history() == records

    def test_fastest_leaves_out_what_is_not_correct(self, store: Store) -> None:
        for one in (record(3), record(0, Verdict.WRONG_RESULT), record(1), record(2)):
            store.add(one)
        assert store.fastest(*KEY, 2) == [record(1), record(2)]

    # What is in flight

    def test_add_lands_what_was_in_flight(self, store: Store) -> None:
        store.begin(1, *KEY, config(), hash_of(0), "verify")
        store.add(record())
        assert store.stats()["tables"]["in_flight"] == 0

    def test_the_living_are_not_interrupted(self, store: Store, reopen: Callable[..., Store]) -> None:
        store.begin(1, *KEY, config(), hash_of(0), "verify")
        with reopen() as other:
            run = other.start_run(*KEY, {})
            assert other.interrupted(*KEY) == []
            assert other.settle(run, *KEY) == type(other.settle(run, *KEY))((), ())

    def test_another_machine_is_left_alone(self, store: Store, reopen: Callable[..., Store]) -> None:
        with reopen(ELSEWHERE) as other:
            other.begin(1, *KEY, config(), hash_of(0), "verify")
        assert store.interrupted(*KEY) == []

    def test_a_process_id_used_again_is_another_process(self, store: Store, reopen: Callable[..., Store]) -> None:
        with reopen(DEAD) as dead:
            dead.begin(1, *KEY, config(), hash_of(0), "verify")
            dead.stage(1, config(), "time")
        (found,) = store.interrupted(*KEY)
        assert (found.config, found.source_hash, found.stage, found.attempts) == (config(), hash_of(0), "time", 1)
        assert found.same_boot

    def test_a_first_death_is_tried_once_more(self, store: Store, reopen: Callable[..., Store]) -> None:
        with reopen(DEAD) as dead:
            dead.begin(1, *KEY, config(), hash_of(0), "verify")
        run = store.start_run(*KEY, {})
        settled = store.settle(run, *KEY)
        assert [one.config for one in settled.again] == [config()]
        assert (settled.given_up, store.history(*KEY), store.interrupted(*KEY)) == ((), [], [])

    def test_a_second_death_is_a_crash(self, store: Store, reopen: Callable[..., Store]) -> None:
        with reopen(DEAD) as dead:
            dead.begin(1, *KEY, config(), hash_of(0), "verify")
        with reopen(DEAD) as dead:
            run = dead.start_run(*KEY, {})
            dead.settle(run, *KEY)
            dead.begin(run, *KEY, config(), hash_of(0), "verify")
        settled = store.settle(store.start_run(*KEY, {}), *KEY)
        assert [one.measurement.verdict for one in settled.given_up] == [Verdict.CRASHED]
        assert store.history(*KEY) == list(settled.given_up)
        assert (settled.again, store.stats()["tables"]["in_flight"]) == ((), 0)

    def test_a_death_before_its_second_attempt_changes_nothing(
        self, store: Store, reopen: Callable[..., Store]
    ) -> None:
        with reopen(DEAD) as dead:
            dead.begin(1, *KEY, config(), hash_of(0), "verify")
        for process in (DEAD, DEAD, REBOOTED):
            with reopen(process) as dead:
                dead.settle(dead.start_run(*KEY, {}), *KEY)
        settled = store.settle(store.start_run(*KEY, {}), *KEY)
        assert [(one.config, one.attempts) for one in settled.again] == [(config(), 1)]

    def test_a_restart_of_the_machine_is_a_crash_at_once(self, store: Store, reopen: Callable[..., Store]) -> None:
        with reopen(REBOOTED) as before:
            before.begin(1, *KEY, config(), hash_of(0), "time", "family")
        settled = store.settle(store.start_run(*KEY, {}), *KEY)
        (found,) = settled.given_up
        assert settled.again == ()
        assert (found.config, found.measurement.verdict, found.software) == (config(), Verdict.CRASHED, SOFTWARE)
        assert "restarted" in found.measurement.message

    def test_settle_leaves_other_problems_alone(self, store: Store, reopen: Callable[..., Store]) -> None:
        with reopen(DEAD) as dead:
            dead.begin(1, *KEY, config(), hash_of(0), "verify")
        other = replace(PROBLEM, m=1)
        settled = store.settle(store.start_run(SILICON, SOFTWARE, other, {}), SILICON, SOFTWARE, other)
        assert (settled.again, len(store.interrupted(*KEY))) == ((), 1)

    def test_settle_takes_a_candidate_once(self, store: Store, reopen: Callable[..., Store]) -> None:
        with reopen(DEAD) as dead:
            dead.begin(1, *KEY, config(), hash_of(0), "verify")
            dead.begin(dead.start_run(*KEY, {}), *KEY, config(), hash_of(0), "verify")
        settled = store.settle(store.start_run(*KEY, {}), *KEY)
        assert (len(settled.again), store.stats()["tables"]["in_flight"]) == (1, 1)

    def test_a_run_that_ends_in_order_blames_nobody(self, store: Store, reopen: Callable[..., Store]) -> None:
        with reopen(DEAD) as dead:
            dead.begin(1, *KEY, config(), hash_of(0), "verify")
            dead.finish_run(1, {})
        assert store.interrupted(*KEY) == []

    def test_stage_refuses_what_is_not_in_flight(self, store: Store) -> None:
        with pytest.raises(ValueError, match="no such candidate"):
            store.stage(1, config(), "time")

    # Champions and certificates

    def test_no_champion_at_first(self, store: Store) -> None:
        assert (store.champion(*KEY), store.champions(), store.log()) == (None, [], [])

    def test_promote_makes_a_champion(self, store: Store) -> None:
        promote(store, 1)
        found = store.champion(*KEY)
        assert found is not None
        assert (found.config, found.rendered, found.time_ms, found.noise) == (config(1), rendered(1), 1.5, 0.01)
        assert found.certificate is not None
        assert (found.certificate.checks, found.reason, found.pinned) == (("odd sizes",), "won 1", False)

    def test_a_champion_without_certificate_says_so(self, store: Store) -> None:
        promote(store, 1, certify=False)
        assert [one.certificate for one in store.champions()] == [None]

    def test_the_last_promotion_stands(self, store: Store) -> None:
        promote(store, 1)
        promote(store, 2)
        assert [one.config for one in store.champions()] == [config(2)]

    def test_each_problem_has_its_own_champion(self, store: Store) -> None:
        other = (SILICON, SOFTWARE, replace(PROBLEM, m=65))
        promote(store, 1)
        promote(store, 2, other)
        assert [store.champion(*key).config for key in (KEY, other)] == [config(1), config(2)]  # type: ignore[union-attr]

    # A race takes minutes, in which another tuner may have changed what stands

    def test_a_promotion_over_what_was_raced_goes_through(self, store: Store) -> None:
        rest: dict[str, Any] = {"reason": "won", "time_ms": 1.0, "noise": 0.0}
        store.promote(*KEY, config(1), rendered(1), expected=None, checks=["odd sizes"], record=record(1), **rest)
        found = store.promote(*KEY, config(2), rendered(2), expected=hash_of(1), checks=iter(["fresh"]), **rest)
        assert found.certificate is not None
        assert (found.config, found.certificate.checks, store.history()) == (config(2), ("fresh",), [record(1)])
        assert [line.checks for line in store.log()] == [("odd sizes",), ("fresh",)]

    @pytest.mark.parametrize("expected", [None, hash_of(2), hash_of(7)])
    def test_a_promotion_over_anything_else_changes_nothing(self, store: Store, expected: str | None) -> None:
        promote(store, 1)
        store.pin(*KEY, config(7), rendered(7), reason="known good")
        before = store.log(), store.champions(), store.snapshot.read_bytes()
        self._superseded(store, 3, expected)
        assert (store.log(), store.champions(), store.snapshot.read_bytes()) == before
        assert (store.history(), store.certificate(*KEY, hash_of(3))) == ([], None)

    def _superseded(self, store: Store, number: int, expected: str | None) -> None:
        checks, trial = ["odd sizes"], record(number)
        with pytest.raises(Superseded):
            store.promote(
                *KEY,
                config(number),
                rendered(number),
                reason="won",
                time_ms=1.0,
                noise=0.0,
                expected=expected,
                checks=checks,
                record=trial,
            )

    def test_a_pin_is_not_what_was_raced(self, store: Store) -> None:
        store.pin(*KEY, config(7), rendered(7), reason="known good")
        self._superseded(store, 1, hash_of(7))
        found = store.promote(*KEY, config(1), rendered(1), reason="won", time_ms=1.0, noise=0.0, expected=None)
        assert (found.config, found.pinned) == (config(7), True)

    def test_what_was_raced_may_be_withdrawn_meanwhile(self, store: Store) -> None:
        promote(store, 1)
        store.withdraw(*KEY, reason="wrong")
        self._superseded(store, 2, hash_of(1))

    @pytest.mark.parametrize("stood", [True, False])
    def test_a_nominee_withdrawn_meanwhile_does_not_come_back(self, store: Store, stood: bool) -> None:
        promote(store, 1)
        if not stood:
            promote(store, 2)
        store.withdraw(*KEY, reason="wrong", source_hash=hash_of(1))
        self._superseded(store, 1, None if stood else hash_of(2))

    def test_a_nominee_certified_since_its_withdrawal_may_come_back(self, store: Store) -> None:
        promote(store, 1)
        store.withdraw(*KEY, reason="wrong")
        store.certify(*KEY, config(1), hash_of(1), ["checked again"])
        found = store.promote(*KEY, config(1), rendered(1), reason="won", time_ms=1.0, noise=0.0, expected=None)
        assert found.config == config(1)

    def test_who_does_not_say_what_was_raced_is_not_asked(self, store: Store) -> None:
        promote(store, 1)
        store.withdraw(*KEY, reason="wrong")
        promote(store, 1, certify=False)
        assert [one.config for one in store.champions()] == [config(1)]

    def test_a_promotion_lands_its_candidate(self, store: Store) -> None:
        store.begin(1, *KEY, config(1), hash_of(1), "race")
        store.promote(*KEY, config(1), rendered(1), reason="won", time_ms=1.0, noise=0.0, record=record(1))
        assert store.stats()["tables"]["in_flight"] == 0

    def test_a_reason_that_is_no_text_is_kept_as_far_as_it_is(self, store: Store) -> None:
        odd = "caf\udce9 \ud800\0!"
        store.pin(*KEY, config(1), rendered(1), reason=odd)
        store.unpin(*KEY, reason=odd)
        promote(store, 1)
        store.withdraw(*KEY, reason=odd)
        assert {line.reason for line in store.log()} == {"won 1", "caf? ?\ufffd!"}

    def test_settings_that_are_no_text_are_kept_as_far_as_they_are(self, store: Store) -> None:
        store.finish_run(store.start_run(*KEY, {"families": ["caf\udce9"]}), {"best": "\udce9"})

    def test_a_configuration_that_is_no_text_is_refused(self, store: Store) -> None:
        with pytest.raises(UserError, match="no valid Unicode"):
            store.add(replace(record(), config=Config.of("caf\udce9")))

    def test_a_pin_survives_promotions(self, store: Store) -> None:
        store.pin(*KEY, config(7), rendered(7), reason="known good")
        promote(store, 1)
        found = store.champion(*KEY)
        assert found is not None
        assert (found.config, found.pinned, found.reason) == (config(7), True, "known good")

    def test_unpin_serves_what_was_promoted(self, store: Store) -> None:
        store.pin(*KEY, config(7), rendered(7), reason="known good")
        promote(store, 1)
        found = store.unpin(*KEY, reason="enough")
        assert found is not None
        assert (found.config, found.pinned) == (config(1), False)

    def test_unpin_refuses_where_nothing_is_pinned(self, store: Store) -> None:
        with pytest.raises(UserError, match="nothing is pinned"):
            store.unpin(*KEY, reason="enough")

    def test_withdraw_takes_champion_and_certificate(self, store: Store) -> None:
        promote(store, 1)
        assert store.withdraw(*KEY, reason="wrong at 2x") is None
        assert (store.champion(*KEY), store.certificate(*KEY, hash_of(1))) == (None, None)

    def test_withdraw_brings_back_the_certified_predecessor(self, store: Store) -> None:
        for number in (1, 2, 3):
            promote(store, number)
        store.withdraw(*KEY, reason="wrong", source_hash=hash_of(2))
        found = store.withdraw(*KEY, reason="wrong")
        assert found is not None
        assert (found.config, found.certificate is not None) == (config(1), True)

    def test_withdraw_does_not_bring_back_what_is_not_certified(self, store: Store) -> None:
        promote(store, 1, certify=False)
        promote(store, 2)
        assert store.withdraw(*KEY, reason="wrong") is None

    def test_withdraw_of_what_is_pinned_serves_what_was_promoted(self, store: Store) -> None:
        promote(store, 1)
        store.pin(*KEY, config(7), rendered(7), reason="known good")
        found = store.withdraw(*KEY, reason="wrong")
        assert found is not None
        assert (found.config, found.pinned) == (config(1), False)

    def test_withdraw_of_another_source_leaves_the_champion(self, store: Store) -> None:
        promote(store, 1)
        promote(store, 2)
        found = store.withdraw(*KEY, reason="wrong", source_hash=hash_of(1))
        assert found is not None
        assert (found.config, store.certificate(*KEY, hash_of(1))) == (config(2), None)

    def test_withdraw_of_what_stood_once_is_in_the_log(self, store: Store) -> None:
        promote(store, 1)
        promote(store, 2)
        store.withdraw(*KEY, reason="wrong", source_hash=hash_of(1))
        assert [(one.action, one.config) for one in store.log()][2:] == [("withdraw", config(1))]

    def test_withdraw_refuses_where_there_is_no_champion(self, store: Store) -> None:
        with pytest.raises(UserError, match="no champion"):
            store.withdraw(*KEY, reason="wrong")

    def test_the_log_only_grows_and_keeps_every_reason(self, store: Store) -> None:
        promote(store, 1)
        store.pin(*KEY, config(7), rendered(7), reason="known good")
        store.unpin(*KEY, reason="enough")
        store.withdraw(*KEY, reason="wrong")
        lines = [(line.action, line.config, line.reason) for line in store.log(*KEY)]
        assert lines == [
            ("promote", config(1), "won 1"),
            ("pin", config(7), "known good"),
            ("unpin", config(7), "enough"),
            ("withdraw", config(1), "wrong"),
        ]

    def test_the_log_keeps_what_was_certified_then(self, store: Store) -> None:
        promote(store, 1)
        store.withdraw(*KEY, reason="wrong")
        assert [line.checks for line in store.log()] == [("odd sizes",), None]

    def test_rollback_restores_by_appending(self, store: Store) -> None:
        promote(store, 1)
        then = datetime.now(UTC)
        promote(store, 2)
        store.pin(*KEY, config(7), rendered(7), reason="known good")
        written = store.rollback(then)
        found = store.champion(*KEY)
        assert found is not None
        assert (found.config, found.pinned, found.certificate is not None) == (config(1), False, True)
        assert [line.action for line in store.log()] == ["promote", "promote", "pin", "unpin", "promote"]
        assert written == store.log()[3:]

    def test_rollback_before_the_first_champion_leaves_none(self, store: Store) -> None:
        then = datetime.now(UTC)
        promote(store, 1)
        store.rollback(then)
        assert (store.champions(), store.certificate(*KEY, hash_of(1)) is not None) == ([], True)

    def test_rollback_to_now_writes_nothing(self, store: Store) -> None:
        promote(store, 1)
        assert store.rollback(datetime.now(UTC)) == []

    def test_rollback_restores_a_pin(self, store: Store) -> None:
        promote(store, 7)
        store.pin(*KEY, config(7), rendered(7), reason="known good")
        then = datetime.now(UTC)
        store.withdraw(*KEY, reason="wrong")
        store.rollback(then)
        found = store.champion(*KEY)
        assert found is not None
        assert (found.config, found.pinned, found.certificate) == (config(7), True, None)

    def test_rollback_to_a_pin_alone(self, store: Store) -> None:
        store.pin(*KEY, config(7), rendered(7), reason="known good")
        then = datetime.now(UTC)
        promote(store, 7)
        store.rollback(then)
        store_after = [one.action for one in store.log()]
        assert (store.champions()[0].pinned, store_after) == (True, ["pin", "promote", "withdraw", "pin"])

    def test_certify_again_replaces_the_checks(self, store: Store) -> None:
        store.certify(*KEY, config(1), hash_of(1), ["odd sizes"])
        store.certify(*KEY, config(1), hash_of(1), ["odd sizes", "fresh build"])
        found = store.certificate(*KEY, hash_of(1))
        assert found is not None
        assert found.checks == ("odd sizes", "fresh build")

    def test_a_certificate_is_of_one_software_and_source(self, store: Store) -> None:
        store.certify(*KEY, config(1), hash_of(1), ["odd sizes"])
        assert store.certificate(SILICON, NEWER, PROBLEM, hash_of(1)) is None
        assert store.certificate(*KEY, hash_of(2)) is None

    # The whole

    def test_everything_is_there_when_opened_again(self, store: Store, reopen: Callable[..., Store]) -> None:
        store.add(record())
        promote(store, 1)
        with reopen() as again:
            assert (again.history(*KEY), again.champions()) == ([record()], store.champions())

    def test_stats_counts(self, store: Store) -> None:
        store.add(record())
        store.add(record(1, Verdict.CRASHED))
        promote(store, 1)
        found = store.stats()
        assert (found["verdicts"], found["champions"]) == ({"correct": 1, "crashed": 1}, 1)
        assert found["tables"]["trial"] == 2
        assert found["schema"] == store.version

    def test_check_finds_nothing_wrong(self, store: Store) -> None:
        store.add(record())
        promote(store, 1)
        assert store.check() == []
