"""Kernels that hang, crash or poison, and processes shot from outside: the right verdict, and the bench goes on."""

from __future__ import annotations

import os
import signal

import pytest

from tests.bench_kernels import naive, single
from tuner.bench import Bench, Case, ContenderFailed
from tuner.model import Problem, Verdict

SMALL = Problem.packed(33, 40, 24)


def assert_heals(bench: Bench) -> None:
    of = naive(SMALL)
    assert bench.measure(SMALL, of, bench.build(of).result(), best_ms=None).verdict is Verdict.CORRECT


def shoot_measurer(bench: Bench) -> None:
    pid = bench._measurer._active.process.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def test_a_hanging_kernel_is_killed_at_its_deadline(bench: Bench) -> None:
    hanging = single("hang")
    stages: list[str] = []
    measured = bench.measure(SMALL, hanging, bench.build(hanging).result(), best_ms=None, on_stage=stages.append)
    assert (measured.verdict, measured.time_ms) == (Verdict.TIMED_OUT, None)
    assert "2 s" in measured.message
    assert stages == ["launch", "launch"]
    assert_heals(bench)


def test_a_kernel_that_writes_far_outside_ends_its_process_only(bench: Bench) -> None:
    far = single("far")
    measured = bench.measure(SMALL, far, bench.build(far).result(), best_ms=None)
    if bench.device.silicon.kind == "cpu":
        assert measured.verdict is Verdict.CRASHED
        assert "SIGSEGV" in measured.message or "SIGABRT" in measured.message
    else:
        assert measured.verdict in (Verdict.CRASHED, Verdict.LAUNCH_FAILED)
    assert_heals(bench)


def test_a_crashing_case_of_a_certificate_and_a_crashing_contender(bench: Bench) -> None:
    far, right = single("far"), naive(SMALL)
    outcome = bench.check([Case(SMALL, right), Case(SMALL, far)])
    assert outcome.verdict in (Verdict.CRASHED, Verdict.LAUNCH_FAILED)
    assert outcome.checks
    contenders = [(right, bench.build(right).result()), (far, bench.build(far).result())]
    with pytest.raises(ContenderFailed) as failed:
        bench.rounds(SMALL, contenders, 2)
    assert (failed.value.index, failed.value.verdict) == (1, outcome.verdict)
    assert_heals(bench)


def test_a_measuring_process_shot_once_is_no_verdict(bench: Bench) -> None:
    shots: list[int] = []

    def shoot_once(_: str) -> None:
        if not shots:
            shoot_measurer(bench)
        shots.append(1)

    of = naive(SMALL)
    measured = bench.measure(SMALL, of, bench.build(of).result(), best_ms=None, on_stage=shoot_once)
    assert measured.verdict is Verdict.CORRECT
    assert len(shots) == 2


def test_two_strikes_are_final(bench: Bench) -> None:
    of = naive(SMALL)
    measured = bench.measure(
        SMALL, of, bench.build(of).result(), best_ms=None, on_stage=lambda _: shoot_measurer(bench)
    )
    assert measured.verdict is Verdict.CRASHED
    assert "SIGKILL" in measured.message
    assert_heals(bench)


def test_a_measuring_process_that_dies_between_requests_costs_nothing(bench: Bench) -> None:
    assert_heals(bench)
    shoot_measurer(bench)
    assert_heals(bench)


def test_a_compile_worker_that_dies_idle_costs_nothing(bench: Bench) -> None:
    assert_heals(bench)
    pool = bench._pool._pool
    assert pool is not None
    for pid in list(pool._pool_manager.worker_manager.workers):
        os.kill(pid, signal.SIGKILL)
    assert_heals(bench)
