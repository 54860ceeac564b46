"""The bench: right kernels are timed, wrong ones never, and every failure is the verdict it should be."""

from __future__ import annotations

import errno
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.bench_kernels import (
    dying_compiler,
    endless_compiler,
    mistaken_compiler,
    naive,
    rendered,
    signing_compiler,
    source,
    talkative_compiler,
)
from tuner.bench import Bench, BenchError, Case, CheckOutcome, ContenderFailed, DeviceReport, OutOfTime, choose
from tuner.bench.bench import launch_deadline_s
from tuner.bench.certificate import DISTRIBUTIONS, run_case
from tuner.bench.compile import CompilePool, worker_count
from tuner.bench.messages import CaseRun, Race, Stage, Trial
from tuner.bench.race import run_race
from tuner.bench.scratch import cache_folder, scratch_folder, vendors_folder
from tuner.bench.trial import run_trial
from tuner.bench.words import last_words
from tuner.model import (
    Built,
    Device,
    Facts,
    MachineError,
    Measurement,
    Problem,
    Rendered,
    Silicon,
    Software,
    Step,
    UserError,
    Verdict,
)
from tuner.opencl.refusal import Refused
from tuner.search.certify import own_case
from tuner.verify import KINDS, CheckResult

ROOT = Path(__file__).parent.parent
SMALL = Problem.packed(33, 40, 24)


_builds: dict[tuple[Device, Rendered], Built] = {}


def build(bench: Bench, of: Rendered) -> Built:
    """A build of `of`, kept for other tests: PoCL takes half a second for each."""
    key = (bench.device, of)
    if key not in _builds:
        _builds[key] = bench.build(of).result()
    return _builds[key]


def trial(bench: Bench, problem: Problem, of: Rendered, best_ms: float | None = None) -> Measurement:
    return bench.measure(problem, of, build(bench, of), best_ms=best_ms)


# Right kernels


@pytest.mark.parametrize(
    "problem",
    [
        SMALL,
        Problem.packed(1, 1, 1),
        Problem.packed(127, 129, 131),
        Problem.packed(20, 24, 9, dtype="float64"),
        Problem.packed(16, 16, 16, batch=3),
        Problem(30, 32, 32, align=4),
    ],
    ids=str,
)
def test_a_right_kernel_is_correct_and_timed(bench: Bench, problem: Problem) -> None:
    measured = trial(bench, problem, naive(problem))
    assert (measured.verdict, measured.message) == (Verdict.CORRECT, "")
    assert measured.time_ms is not None and all(sample > 0 for sample in measured.samples_ms)
    assert measured.error_ratio is not None and 0 <= measured.error_ratio < 1
    assert measured.compile_ms > 0 and measured.verify_ms > 0


def test_a_candidate_much_slower_than_the_best_is_cut_short(bench: Bench) -> None:
    measured = trial(bench, SMALL, naive(SMALL), best_ms=1e-6)
    assert measured.verdict is Verdict.CORRECT
    assert len(measured.samples_ms) == 2


def test_scratch_is_passed_and_may_be_used_to_its_end(bench: Bench) -> None:
    of = naive(SMALL, "SCRATCH=9", scratch=(("work", 40),))
    assert trial(bench, SMALL, of).verdict is Verdict.CORRECT


def test_the_candidate_is_announced_before_its_launch(bench: Bench) -> None:
    stages: list[str] = []
    of = naive(SMALL)
    bench.measure(SMALL, of, build(bench, of), best_ms=None, on_stage=stages.append)
    assert stages == ["launch"]


def test_nothing_is_launched_if_the_announcement_fails(bench: Bench) -> None:
    def refuse(_: str) -> None:
        raise TimeoutError("the database is gone")

    of = naive(SMALL)
    built = build(bench, of)
    with pytest.raises(TimeoutError, match="the database is gone"):
        bench.measure(SMALL, of, built, best_ms=None, on_stage=refuse)
    assert bench.measure(SMALL, of, built, best_ms=None).verdict is Verdict.CORRECT


def test_a_driver_that_refuses_its_own_binary_gets_the_source(bench: Bench) -> None:
    of = naive(SMALL)
    built = replace(build(bench, of), binary=b"")
    assert bench.measure(SMALL, of, built, best_ms=None).verdict is Verdict.CORRECT


# Wrong kernels


@pytest.mark.parametrize("mistake", ["LOSE_LAST", "SKIP_EDGE", "NO_EDGE", "EMPTY"])
def test_a_wrong_kernel_has_no_time(bench: Bench, mistake: str) -> None:
    measured = trial(bench, SMALL, naive(SMALL, mistake))
    assert measured.verdict is Verdict.WRONG_RESULT
    assert measured.time_ms is None and measured.message
    assert trial(bench, SMALL, naive(SMALL)).verdict is Verdict.CORRECT


def test_writing_to_an_operand_is_found_out_and_harms_nobody_else(bench: Bench) -> None:
    spoils = naive(SMALL, "WRITE_A")
    trial(bench, SMALL, spoils)  # on a GPU C may have been computed before A was spoiled, and be right
    assert trial(bench, SMALL, naive(SMALL)).verdict is Verdict.CORRECT
    assert bench.check([Case(SMALL, spoils)]).verdict is Verdict.WRONG_RESULT
    assert trial(bench, SMALL, naive(SMALL)).verdict is Verdict.CORRECT


@pytest.mark.parametrize(
    ("element", "words"),
    [(10, "past the end of"), (16393, "past the end of"), (-1, "before the start of"), (-16384, "before the start of")],
)
def test_writing_outside_of_scratch_is_wrong(bench: Bench, element: int, words: str) -> None:
    of = naive(SMALL, f"SCRATCH=({element})", scratch=(("before", 12), ("work", 40)))
    measured = trial(bench, SMALL, replace(of, steps=(replace(of.steps[0], scratch=("work",)),)))
    assert measured.verdict is Verdict.WRONG_RESULT
    assert measured.message == f"it writes {words} the scratch buffer 'work'"


# Refusals


def test_a_refused_build_carries_the_compilers_words(bench: Bench) -> None:
    built = bench.build(rendered("__kernel void naive(undefined_type x) {}", "", Step("naive", (1,), (1,)))).result()
    assert built.verdict is Verdict.COMPILE_FAILED
    assert "undefined_type" in built.compiler.log and "undefined_type" in built.message
    measured = bench.measure(SMALL, naive(SMALL), built, best_ms=None)
    assert (measured.verdict, measured.message) == (Verdict.COMPILE_FAILED, built.message)


@pytest.mark.parametrize("local", [(2**14, 1, 1), (7, 7, 1), (0, 1, 1)])
def test_an_impossible_work_group_fails_to_launch(bench: Bench, local: tuple[int, ...]) -> None:
    of = rendered(source("naive"), "", Step("naive", (2**14, 40, 1), local))
    measured = trial(bench, SMALL, of)
    assert (measured.verdict, measured.time_ms) == (Verdict.LAUNCH_FAILED, None)
    assert trial(bench, SMALL, naive(SMALL)).verdict is Verdict.CORRECT


def test_too_much_local_memory_is_never_launched(bench: Bench) -> None:
    floats = bench.device.facts.local_mem_bytes // 4 + 1
    uses = (
        f"__local REAL tile[{floats}]; tile[row * 97] = k; barrier(CLK_LOCAL_MEM_FENCE); REAL sum = tile[column * 89];"
    )
    text = source("naive").replace("REAL sum = 0;", uses)
    stages: list[str] = []
    of = rendered(text, "", Step("naive", (40, 40, 1), (8, 8, 1)))
    built = build(bench, of)
    if built.verdict is Verdict.CORRECT and not built.compiler.local_bytes:
        pytest.skip("this driver does not say how much local memory a kernel takes")
    measured = bench.measure(SMALL, of, built, best_ms=None, on_stage=stages.append)
    # A compiler may see it as well, and then says so first.
    assert measured.verdict in (Verdict.LAUNCH_FAILED, Verdict.COMPILE_FAILED)
    assert stages == []


def test_an_unknown_kernel_name_is_our_mistake(bench: Bench) -> None:
    of = rendered(source("naive"), "", Step("nobody", (8,), (8,)))
    built = build(bench, of)
    with pytest.raises(BenchError, match="INVALID_KERNEL_NAME"):
        bench.measure(SMALL, of, built, best_ms=None)
    assert trial(bench, SMALL, naive(SMALL)).verdict is Verdict.CORRECT


def test_an_empty_product_is_not_measured(bench: Bench) -> None:
    for problem in (Problem(0, 8, 8), Problem(8, 8, 0), Problem(8, 8, 8, batch=0)):
        with pytest.raises(ValueError, match="empty"):
            bench.measure(problem, naive(SMALL), Built(Verdict.CORRECT), best_ms=None)


@pytest.fixture
def poor_bench(any_device: Device) -> Iterator[Bench]:
    """A device that lacks nearly everything."""
    facts = replace(any_device.facts, fp64=False, max_alloc_bytes=2**20)
    with Bench.open(replace(any_device, facts=facts)) as opened:
        yield opened


def test_what_the_device_lacks_is_unsupported(poor_bench: Bench) -> None:
    double = Problem.packed(8, 8, 8, dtype="float64")
    large = Problem.packed(2048, 2048, 8)
    for problem, words in ((double, "float64"), (large, "GiB")):
        of = naive(SMALL)
        measured = poor_bench.measure(problem, of, build(poor_bench, of), best_ms=None)
        assert measured.verdict is Verdict.UNSUPPORTED
        assert words in measured.message


# Builds


def test_cancelled_builds_end_at_once_and_the_pool_goes_on(any_device: Device) -> None:
    with Bench.open(any_device, compilers=1, build_function=endless_compiler) as bench:
        futures = [bench.build(naive(SMALL)) for _ in range(3)]
        bench.cancel_builds()
        for future in futures:
            with pytest.raises(CancelledError):
                future.result(timeout=30)
        assert bench.build(naive(SMALL)).cancelled() is False


def test_cancelled_builds_cost_no_worker(any_device: Device) -> None:
    with Bench.open(any_device, compilers=2, build_function=signing_compiler) as bench:
        workers = {bench.build(naive(SMALL)).result(timeout=30).message for _ in range(8)}
        for _ in range(3):
            futures = [bench.build(naive(SMALL)) for _ in range(6)]
            bench.cancel_builds()
            assert all(future.cancelled() for future in futures)
        after = {bench.build(naive(SMALL)).result(timeout=30).message for _ in range(8)}
    assert len(workers | after) <= 2


def test_what_nobody_waits_for_is_ended_in_a_while(any_device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.bench.compile.LEFT_S", 0.1)
    with Bench.open(any_device, compilers=1, build_function=endless_compiler) as bench:
        bench.build(naive(SMALL))
        bench.cancel_builds()
        bench._pool.wait_idle()


def test_an_endless_compiler_meets_its_deadline(any_device: Device) -> None:
    with Bench.open(any_device, compilers=1, build_function=endless_compiler, build_deadline_s=0.5) as bench:
        built = bench.build(naive(SMALL)).result(timeout=60)
        assert built.verdict is Verdict.COMPILE_TIMED_OUT
        assert "0.5 s" in built.message


def test_a_compiler_that_kills_its_process_is_a_verdict(any_device: Device) -> None:
    with Bench.open(any_device, compilers=1, build_function=dying_compiler) as bench:
        for _ in range(2):
            built = bench.build(naive(SMALL)).result(timeout=60)
            assert built.verdict is Verdict.CRASHED
            assert "SIGABRT" in built.message


def test_a_mistake_of_ours_in_a_worker_is_raised(any_device: Device) -> None:
    with (
        Bench.open(any_device, compilers=1, build_function=mistaken_compiler) as bench,
        pytest.raises(KeyError, match="a mistake of ours"),
    ):
        bench.build(naive(SMALL)).result(timeout=60)


# Certificates


def test_a_right_kernel_is_certified(bench: Bench) -> None:
    cases = [
        Case(SMALL, naive(SMALL), tuple(KINDS), fresh=True, repeats=2),
        Case(replace(SMALL, k=1), naive(SMALL)),
    ]
    outcome = bench.check(cases)
    assert (outcome.verdict, outcome.message) == (Verdict.CORRECT, "")
    assert len(outcome.checks) == (2 * len(KINDS) + 8) + 8
    assert any("agree bit for bit" in check for check in outcome.checks)


def test_a_certificate_stops_at_the_first_failure(bench: Bench) -> None:
    forgets_beta = source("naive").replace("beta == 0 ? 0 : beta * *out", "0")
    of = rendered(forgets_beta, "", Step("naive", (40, 40, 1), (8, 8, 1)))
    outcome = bench.check([Case(SMALL, of, ("plain", "add")), Case(SMALL, naive(SMALL))])
    assert outcome.verdict is Verdict.WRONG_RESULT
    assert "add" in outcome.message
    assert any("plain" in check for check in outcome.checks)
    assert not any("add" in check for check in outcome.checks)


SLY = {
    "skips what C holds": ("beta == 0 && *out == *out", "return;"),
    "skips zeros in C": ("beta == 0 && *out == 0", "return;"),
    "wrong for an update": ("alpha == -1 && beta == 1", "sum = 0;"),
    "wrong for a difference": ("alpha == 1 && beta == -1", "sum = 0;"),
    "wrong for twice": ("alpha == 2", "sum = 0;"),
    "wrong for large alpha": ("fabs(alpha) > 20", "sum = 0;"),
    "wrong for small beta": ("beta != 0 && fabs(beta) < 0.05f", "sum += 1;"),
    "clips": ("fabs(a_row[0]) > 200", "sum = 0;"),
    "loses small numbers": ("fabs(a_row[0]) < 1e-10f", "sum -= a_row[0] * b_column[0];"),
    "changes what lies before A": ("row + column == 0", "a[a_offset - 1] *= 2;"),
    "changes what lies behind a row of A": ("lda > k && row + column == 0", "a[a_offset + k] += 1;"),
    "changes what lies before B": ("row + column == 0", "((__global REAL*)b)[b_offset - 1] *= 2;"),
    "updates what lies before C": ("row + column == 0 && beta != 0", "out[-1] = alpha * sum + beta * out[-1];"),
    "updates a row too many": ("row == m - 1 && beta != 0", "out[ldc] = alpha * sum + beta * out[ldc];"),
    "updates what lies behind a row": (
        "column == n - 1 && row < m - 1 && ldc > n && beta != 0",
        "out[1] = alpha * sum + beta * out[1];",
    ),
    "adds to B where alpha is 0": ("alpha == 0 && row + column == 0", "((__global REAL*)b)[b_offset] += 1;"),
    "wrong where only C is added": ("alpha == 0 && beta == 1", "*out = 12345; return;"),
    "loses a NaN of C": ("beta != 0 && *out != *out", "*out = 0;"),
    "loses an infinity of C": ("beta != 0 && isinf(*out)", "*out = 0;"),
    "loses a NaN of A where C is added": ("beta != 0 && sum != sum", "sum = 0;"),
    "wrong over a zero": ("beta != 0 && *out == 0", "sum += 8;"),
}
"""When it is wrong, and how."""


def before_writing(what: str) -> str:
    """The naive kernel with something that each work-item does before it writes its element of C."""
    return source("naive").replace("    *out = alpha", f"    {what}\n    *out = alpha")


@pytest.mark.parametrize("how", SLY)
def test_a_kernel_that_is_wrong_only_now_and_then_is_not_certified(bench: Bench, how: str) -> None:
    when, what = SLY[how]
    text = before_writing(f"if ({when}) {{ {what} }}")
    problem = Problem.packed(40, 40, 40)
    of = rendered(text, "-DREAL=float", Step("naive", (40, 40, 1), (8, 8, 1)))
    verdicts = (bench.check([own_case(problem, of, seed)]).verdict for seed in range(12))
    assert Verdict.WRONG_RESULT in verdicts, how  # what depends on drawn numbers is found sooner or later


def test_a_kernel_that_leaves_out_zeros_loses_a_nan(bench: Bench) -> None:
    text = source("naive").replace("sum += a_row[i]", "if (a_row[i] != 0) sum += a_row[i]")
    of = rendered(text, "-DREAL=float", Step("naive", (40, 40, 1), (8, 8, 1)))
    outcome = bench.check([own_case(Problem.packed(40, 40, 40), of)])
    assert outcome.verdict is Verdict.WRONG_RESULT and "specials" in outcome.message


def test_what_is_timed_may_not_do_nothing_because_c_is_full(bench: Bench) -> None:
    text = before_writing("if (*out == *out) return;")
    measured = trial(bench, SMALL, rendered(text, "", Step("naive", (40, 40, 1), (8, 8, 1))))
    assert measured.verdict is Verdict.WRONG_RESULT and "changes after" in measured.message


def test_a_kernel_that_goes_wrong_once_in_many_launches_is_not_certified(bench: Bench) -> None:
    text = before_writing("if (row == 0 && column == 0 && (*(__global uint*)scratch)++ == 40) return;")
    of = rendered(text, "-DSCRATCH=1", Step("naive", (40, 40, 1), (8, 8, 1), ("work",)), scratch=(("work", 8),))
    outcome = bench.check([own_case(SMALL, of)])
    assert outcome.verdict is Verdict.WRONG_RESULT


@pytest.mark.parametrize("wrong", ["u == 0", "u != 0xffffffffu", "u != 0xffffffffu && u != 0"])
def test_whatever_scratch_holds_a_kernel_must_be_right(bench: Bench, wrong: str) -> None:
    spoils = f"const uint u = *(__global uint*)scratch; if ({wrong}) sum += 1;"
    text = before_writing(spoils).replace("scratch[SCRATCH] = sum;", "")
    of = rendered(text, "-DSCRATCH=1", Step("naive", (40, 40, 1), (8, 8, 1), ("work",)), scratch=(("work", 8),))
    assert bench.check([own_case(SMALL, of)]).verdict is Verdict.WRONG_RESULT


@pytest.mark.parametrize("place", [-1, 40])
def test_what_lies_around_scratch_is_not_changed(bench: Bench, place: int) -> None:
    changes = f"if (row + column == 0) scratch[{place}] *= 2;"
    text = before_writing(changes).replace("scratch[SCRATCH] = sum;", "")
    of = rendered(text, "-DSCRATCH=1", Step("naive", (40, 40, 1), (8, 8, 1), ("work",)), scratch=(("work", 160),))
    outcome = bench.check([own_case(SMALL, of)])
    assert outcome.verdict is Verdict.WRONG_RESULT and "scratch" in outcome.message


def test_scratch_that_is_promised_to_be_zeros_is_left_so(bench: Bench) -> None:
    of = replace(naive(SMALL, "SCRATCH=3", scratch=(("work", 40),)), zeroed=("work",))
    measured = trial(bench, SMALL, of)
    assert measured.verdict is Verdict.WRONG_RESULT and "all zeros" in measured.message


@pytest.fixture
def remote_bench(any_device: Device) -> Iterator[Bench]:
    """The device as if its memory were not the host's: results and operands are compared there."""
    with Bench.open(replace(any_device, facts=replace(any_device.facts, shares_cores=False))) as opened:
        yield opened


def test_a_device_with_memory_of_its_own_sees_what_the_host_sees(remote_bench: Bench) -> None:
    problem = Problem(37, 41, 43, align=4)
    kinds = ("plain", "alpha_beta", "update")
    outcome = remote_bench.check([Case(problem, naive(problem), kinds, fresh=True, repeats=2)])
    assert outcome.verdict is Verdict.CORRECT, outcome.message
    for mistake, words in (("WRITE_BEFORE_A", "it writes to A or B"), ("LOSE_LAST", "wrong")):
        outcome = remote_bench.check([Case(problem, naive(problem, mistake), kinds)])
        assert outcome.verdict is Verdict.WRONG_RESULT and words in outcome.message, outcome


@pytest.mark.parametrize(("fresh", "repeats"), [(False, 2), (True, 1)])
def test_two_runs_or_builds_that_differ_are_wrong(fresh: bool, repeats: int) -> None:
    bits = iter([b"one", b"other"])
    checker = SimpleNamespace(
        load=lambda *_, **__: SimpleNamespace(a=None),
        check=lambda *_, **__: CheckResult(True),
        is_intact=lambda _: True,
        bits=lambda _: next(bits),
        forget=lambda: None,
    )
    desk: Any = SimpleNamespace(load=lambda *_: None, leave=lambda _: None, checker=checker)
    outcome = run_case(desk, CaseRun(Case(SMALL, naive(SMALL), fresh=fresh, repeats=repeats), None, 2.0))
    assert outcome.verdict is Verdict.WRONG_RESULT
    assert "differs" in outcome.message


def test_a_certificate_ends_with_the_time_there_is(bench: Bench) -> None:
    cases = [Case(problem, naive(problem)) for problem in (SMALL, Problem.packed(9, 7, 5), Problem.packed(3, 3, 3))]
    left = iter([1e3] * 4 + [0.0] * 9)
    with pytest.raises(OutOfTime):
        bench.check(cases, seconds_left=lambda: next(left))
    with pytest.raises(OutOfTime):
        bench.check(cases, seconds_left=lambda: 0.0)
    assert bench.check(cases, seconds_left=lambda: 1e3).verdict is Verdict.CORRECT


def test_a_certificate_of_what_cannot_be_built(bench: Bench) -> None:
    outcome = bench.check([Case(SMALL, rendered("nonsense", "", Step("naive", (1,), (1,))))])
    assert outcome == CheckOutcome(Verdict.COMPILE_FAILED, (), outcome.message)


def test_operands_are_looked_at_after_the_last_run_that_uses_them() -> None:
    """Kinds of call share A and B on the device: they are looked at once for all, and after all."""
    used: dict[int, object] = {}
    looked_at: list[object] = []
    shared: dict[str, object] = {values: object() for values in ("integers", "floats", *DISTRIBUTIONS["strict"])}

    def load(_: object, values: str, **rest: object) -> Any:
        loaded = SimpleNamespace(a=shared[values] if "zero" not in str(rest["kind"]) else object(), rest=rest)
        used[id(loaded.a)] = loaded.a
        return loaded

    def check(_: object, loaded: Any, *__: object, **___: object) -> CheckResult:
        assert loaded.a not in looked_at
        return CheckResult(True)

    def look(loaded: Any) -> bool:
        looked_at.append(loaded.a)
        return True

    checker = SimpleNamespace(load=load, check=check, is_intact=look, bits=lambda _: b"same")
    desk: Any = SimpleNamespace(load=lambda *_: None, leave=lambda _: None, checker=checker)
    case = Case(SMALL, naive(SMALL), tuple(KINDS), fresh=True, repeats=3)
    assert run_case(desk, CaseRun(case, None, 2.0)).verdict is Verdict.CORRECT
    assert len(looked_at) == len(used) and {id(a) for a in looked_at} == set(used)
    assert len(looked_at) < len(KINDS) * 3


# Races


def test_rounds_of_two_contenders(bench: Bench) -> None:
    of = naive(SMALL)
    built = build(bench, of)
    rounds = bench.rounds(SMALL, [(of, built), (of, built)], 5)
    assert len(rounds) == 5
    assert all(len(times) == 2 and min(times) > 0 for times in rounds)


def test_a_contender_that_fails_is_named(bench: Bench) -> None:
    of = naive(SMALL)
    bad = rendered(source("naive"), "", Step("naive", (40, 40, 1), (7, 7, 1)))
    contenders = [(of, build(bench, of)), (bad, build(bench, bad))]
    with pytest.raises(ContenderFailed) as failed:
        bench.rounds(SMALL, contenders, 3)
    assert (failed.value.index, failed.value.verdict) == (1, Verdict.LAUNCH_FAILED)
    assert len(bench.rounds(SMALL, contenders[:1], 1)) == 1


def test_a_contender_without_a_build_is_named(bench: Bench) -> None:
    unbuilt = (naive(SMALL), Built(Verdict.COMPILE_TIMED_OUT, message="too slow"))
    with pytest.raises(ContenderFailed, match="too slow"):
        bench.rounds(SMALL, [unbuilt], 1)


# Clocks


class FakeClockDesk:
    """A desk whose device and checks are perfect, but for a clock that says what a test tells it to (ns)."""

    def __init__(
        self, *intervals: tuple[int, int], checked: tuple[int, int] = (0, 0), shares_cores: bool = True
    ) -> None:
        self._intervals = list(intervals)
        self.said: list[str] = []
        self.checks = 0
        self.launches = 0
        self.after_timing = CheckResult(True, 0.1)
        self.machine: Any = SimpleNamespace(
            device=SimpleNamespace(facts=Facts(shares_cores=shares_cores)),
            launch=self._launch,
            keep_busy=lambda ms: self.said.append("busy" if ms > 0 else "idle"),
            finish=lambda *_: None,
            interval_ns=lambda *_: self._intervals.pop(0),
            seconds=lambda *_, **__: 0.0,
        )
        self.checker: Any = SimpleNamespace(
            load=lambda *_, **__: SimpleNamespace(a=None),
            check=self._check,
            run=lambda *_, **__: None,
            last_interval_ns=checked,
        )

    def _check(self, *_: object, again: bool = False, **__: object) -> CheckResult:
        if again:
            return self.after_timing
        self.checks += 1
        return CheckResult(True, 0.1)

    def _launch(self, *_: object) -> list[None]:
        self.launches += 1
        self.said.append("launch")
        return [None]

    def load(self, *_: object) -> Any:
        return SimpleNamespace(point_at=lambda _: None, program=SimpleNamespace(steps=(None,)))

    def say(self, _: Stage) -> None:
        pass

    def leave(self, _: str) -> None:
        pass


MS = (1_000_000, 2_000_000)
BACKWARDS = (2_000_000, 1_000_000)
UNDERFLOW = (0, 18_446_744_073_709_551_615)
ZERO = (5, 5)


def timed(*intervals: tuple[int, int], peak_gflops: float | None = None) -> Measurement:
    desk: Any = FakeClockDesk(*intervals)
    return run_trial(desk, Trial(SMALL, naive(SMALL), None, None, 2.0, peak_gflops))


@pytest.mark.parametrize("impossible", [BACKWARDS, UNDERFLOW, ZERO])
def test_one_impossible_time_is_taken_again(impossible: tuple[int, int]) -> None:
    measured = timed(impossible, *[MS] * 30)
    assert measured.verdict is Verdict.CORRECT
    assert set(measured.samples_ms) == {1.0}


@pytest.mark.parametrize("impossible", [BACKWARDS, UNDERFLOW, ZERO])
def test_two_impossible_times_are_a_bad_clock(impossible: tuple[int, int]) -> None:
    with pytest.raises(Refused) as refused:
        timed(MS, impossible, impossible)
    assert refused.value.verdict is Verdict.BAD_CLOCK and not refused.value.poisoned


def test_faster_than_the_device_can_be_is_a_bad_clock() -> None:
    rate = SMALL.gflops(1.0)
    assert timed(*[MS] * 30, peak_gflops=rate).verdict is Verdict.CORRECT
    with pytest.raises(Refused, match="GFLOP/s"):
        timed(MS, MS, peak_gflops=rate / 2)


def test_short_kernels_are_timed_in_batches() -> None:
    desk: Any = FakeClockDesk((0, 10_000), *[(0, 1_000_000)] * 40)
    measured = run_trial(desk, Trial(SMALL, naive(SMALL), None, None, 2.0, None))
    assert set(measured.samples_ms) == {0.01}
    assert desk.launches == 1 + 100 * (1 + len(measured.samples_ms))


def test_a_batch_on_a_device_of_its_own_is_queued_behind_other_work() -> None:
    """Else every kernel shorter than the host takes to enqueue it would seem to take the same time."""
    desk: Any = FakeClockDesk((0, 10_000), *[(0, 1_000_000)] * 40, shares_cores=False)
    run_trial(desk, Trial(SMALL, naive(SMALL), None, None, 2.0, None))
    assert desk.said[:3] == ["launch", "busy", "launch"] and desk.said.count("busy") > 1
    shared: Any = FakeClockDesk((0, 10_000), *[(0, 1_000_000)] * 40)
    run_trial(shared, Trial(SMALL, naive(SMALL), None, None, 2.0, None))
    assert "busy" not in shared.said


def test_a_batch_is_no_larger_than_a_queue() -> None:
    desk: Any = FakeClockDesk((0, 1_000), *[(0, 1_000_000)] * 40, shares_cores=False)
    desk.load = lambda *_: SimpleNamespace(point_at=lambda _: None, program=SimpleNamespace(steps=(None,) * 4))
    run_trial(desk, Trial(SMALL, naive(SMALL), None, None, 2.0, None))
    assert max(len(batch) for batch in " ".join(desk.said).split("busy")) <= len("launch ") * 100 + 2


HELD = """
import sys, tempfile
from pathlib import Path
from tuner.bench import choose, list_devices
from tuner.search.certify import own_case
from tuner.model import Rendered, Step
from tuner.opencl import drivers

if __name__ == "__main__":
    device = choose(list_devices(), sys.argv[1])
    with tempfile.TemporaryDirectory() as vendors:
        drivers.write_icd_files(Path(vendors, "icd"))
        drivers.install(Path(vendors, "icd"))
        import numpy as np
        from tuner.opencl.run import Machine

        machine = Machine(device)
        source = "__kernel void one_more(__global int* x) { x[0]++; }"
        program = machine.load(Rendered(source, "", (Step("one_more", (1,), (1,)),)), None)
        count = np.zeros(1, np.int32)
        buffer = machine.buffer(4, count)
        program.steps[0][0].set_args(buffer)
        times = [machine.seconds(program, calls, held=held) for calls in (1, 50) for held in (False, True)]
        machine.keep_busy(1.0)
        machine.read(buffer, count)
        print(int(count[0]), all(time >= 0 for time in times))
"""


def test_calls_behind_a_device_kept_busy_are_all_made(device: Device, tmp_path: Path) -> None:
    """A call may be made again if the device was not kept busy for long enough; none is left out."""
    script = tmp_path / "held.py"
    script.write_text(HELD)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    command = [sys.executable, str(script), device.address]
    found = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    made, timed_right = found.stdout.split()
    assert int(made) >= 102 and timed_right == "True"


def test_a_result_that_is_wrong_after_the_last_sample_has_no_time() -> None:
    desk: Any = FakeClockDesk(*[MS] * 40)
    desk.after_timing = CheckResult(False, 1e9, "one element is wrong")
    measured = run_trial(desk, Trial(SMALL, naive(SMALL), None, None, 2.0, None))
    assert (measured.verdict, measured.samples_ms) == (Verdict.WRONG_RESULT, ())
    assert measured.message == f"its result changes after {desk.launches} calls: one element is wrong"


def test_a_hopeless_candidate_costs_one_launch() -> None:
    desk: Any = FakeClockDesk(checked=(0, 60_000_000))
    measured = run_trial(desk, Trial(SMALL, naive(SMALL), None, 5.0, 2.0, None))
    assert (measured.verdict, measured.samples_ms) == (Verdict.CORRECT, (60.0,))
    assert (desk.checks, desk.launches) == (1, 0) and "cut short" in measured.message and not measured.is_checked


@pytest.mark.parametrize("checked", [(0, 40_000_000), (0, 15_000_000), BACKWARDS])
def test_a_candidate_with_hope_is_checked_and_timed(checked: tuple[int, int]) -> None:
    desk: Any = FakeClockDesk(*[MS] * 40, checked=checked)
    run_trial(desk, Trial(SMALL, naive(SMALL), None, 5.0 if checked[1] > 20_000_000 else 0.1, 2.0, None))
    assert desk.checks == 3 and desk.launches > 1


@pytest.mark.parametrize(("shares_cores", "held"), [(False, True), (True, False)])
def test_a_short_kernel_races_at_the_devices_pace_however_slow_the_host_is(shares_cores: bool, held: bool) -> None:
    """A host that takes half a millisecond to see that a kernel of eight microseconds has ended."""
    desk: Any = FakeClockDesk(checked=(0, 8_000), shares_cores=shares_cores)
    asked: list[tuple[int, bool]] = []

    def seconds(_: object, calls: int, *, held: bool) -> float:
        asked.append((calls, held))
        return 5e-4 + 8e-6 * calls

    desk.machine.seconds = seconds
    answer = run_race(desk, Race(SMALL, ((naive(SMALL), None),), 2, 2.0))
    assert [ms for together in answer.ms for ms in together] == pytest.approx([0.008, 0.008])
    assert all(way is held for _, way in asked[1:])
    assert (max(calls for calls, _ in asked) > 100) is held


def test_what_can_wait_is_done_while_a_candidate_is_loaded(bench: Bench) -> None:
    done: list[str] = []
    of = naive(SMALL)
    how: Any = {"on_stage": done.append, "meanwhile": lambda: done.append("meanwhile")}
    assert bench.measure(SMALL, of, build(bench, of), best_ms=None, **how).verdict is Verdict.CORRECT
    assert done == ["meanwhile", "launch"]


def test_no_build_goes_on_beside_a_race(any_device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[bool] = []
    with Bench.open(any_device, compilers=2) as bench:
        contender = (naive(SMALL), build(bench, naive(SMALL)))
        assert bench.measure(SMALL, *contender, best_ms=None).verdict is Verdict.CORRECT
        monkeypatch.setattr(bench._pool, "wait_idle", lambda: waited.append(True))
        bench.shares_cores = False
        assert bench.rounds(SMALL, [contender], 1) and waited


def test_a_race_on_a_clock_that_stands_still_names_its_contender() -> None:
    desk: Any = FakeClockDesk()
    answer = run_race(desk, Race(SMALL, ((naive(SMALL), None),), 3, 2.0))
    assert (answer.failed, answer.verdict) == (0, Verdict.BAD_CLOCK)


# Processes


def test_a_crash_comes_with_the_last_words_and_prints_nothing(
    any_device: Device, capfd: pytest.CaptureFixture[str]
) -> None:
    with Bench.open(any_device, compilers=1, build_function=talkative_compiler) as bench:
        for _ in range(2):
            built = bench.build(naive(SMALL)).result(timeout=60)
            assert built.verdict is Verdict.CRASHED
            assert built.message == f"the compiler's process: killed by SIGABRT: [31mAssertion failed; {'x' * 270}"
    assert capfd.readouterr() == ("", "")


def test_a_kernel_that_kills_its_process_prints_nothing(any_device: Device, capfd: pytest.CaptureFixture[str]) -> None:
    if any_device.silicon.kind != "cpu":
        pytest.skip("only on a CPU does a kernel's bad pointer kill the process")
    with Bench.open(any_device) as bench:
        measured = trial(bench, SMALL, naive(SMALL, "CRASH"))
    assert measured.verdict is Verdict.CRASHED
    assert measured.message.startswith("the measuring process (")
    assert capfd.readouterr() == ("", "")


def test_last_words(tmp_path: Path) -> None:
    file = tmp_path / "words"
    assert last_words(file) == ""
    file.write_bytes(b" \n\x00\n")
    assert last_words(file) == ""
    file.write_bytes(b"first\nsecond\x1b[0m \xff\n\n")
    assert last_words(file) == ": first; second [0m \ufffd"
    file.write_bytes(b"first\n" + b"y" * 10_000)
    assert last_words(file) == ": " + "y" * 300


@pytest.mark.parametrize("place", ["scratch_folder", "vendors_folder", "cache_folder"])
def test_a_full_temporary_folder_is_named(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("tempfile.mkdtemp" if place == "scratch_folder" else "pathlib.Path.mkdir", full)
    with pytest.raises(MachineError, match=f"temporary files in {tmp_path}: No space left on device"), ExitStack() as e:
        if place == "scratch_folder":
            e.enter_context(scratch_folder())
        elif place == "vendors_folder":
            vendors_folder(tmp_path)
        else:
            cache_folder(tmp_path, "one")


def test_no_room_for_a_compilers_cache_ends_the_run(any_device: Device, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    pool = CompilePool(any_device, tmp_path, gone, workers=1)
    try:
        with pytest.raises(MachineError, match="temporary files"):
            pool.submit(naive(SMALL)).result(timeout=60)
    finally:
        pool.close()


ALONE = """
import sys
from tests.test_bench import SMALL, naive, trial
from tuner.bench import Bench, choose, list_devices

if __name__ == "__main__":
    with Bench.open(choose(list_devices(), sys.argv[1])) as bench:
        print(trial(bench, SMALL, naive(SMALL)).verdict.value, "pyopencl" in sys.modules)
"""


def test_the_tuners_process_never_imports_pyopencl(any_device: Device, tmp_path: Path) -> None:
    """In one of its own: other tests import it in theirs."""
    script = tmp_path / "alone.py"
    script.write_text(ALONE, encoding="utf-8")
    root = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, str(script), any_device.address],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": root},
        check=False,
    )
    assert done.stdout.split() == ["correct", "False"], done.stdout + done.stderr


def test_nothing_is_left_behind(any_device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = set(multiprocessing.active_children())
    with Bench.open(any_device) as bench:
        assert bench.build(naive(SMALL)).result().verdict is Verdict.CORRECT
        assert trial(bench, SMALL, naive(SMALL)).verdict is Verdict.CORRECT
        assert list(tmp_path.iterdir())
    assert list(tmp_path.iterdir()) == []
    assert set(multiprocessing.active_children()) <= before


def test_what_a_killed_tuner_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    orphan = tmp_path / "gemm-tuner-orphan"
    orphan.mkdir()
    (orphan / "in-use").touch()
    os.utime(orphan / "in-use", (0, 0))
    with scratch_folder() as one:
        os.utime(one / "in-use", (0, 0))
        with scratch_folder() as other:
            assert one.exists() and other.exists() and not orphan.exists()
    assert list(tmp_path.iterdir()) == []


# Choosing


def a_device(name: str, kind: str = "gpu", units: int = 10, platform: str = "Vendor", **rest: str) -> Device:
    silicon = Silicon(name.split()[0], name, kind, units, 8 if kind == "gpu" else 0)
    return Device(
        silicon, Software(platform, rest.get("driver", "1.0"), "OpenCL C 1.2", name), name, address=rest["at"]
    )


CPU_POCL_OLD = a_device("AMD EPYC", "cpu", 64, "Portable Computing Language", driver="3.1", at="0:0")
CPU_POCL_NEW = a_device("AMD EPYC", "cpu", 64, "Portable Computing Language", driver="6.0", at="1:0")
CPU_INTEL = a_device("AMD EPYC", "cpu", 64, "Intel(R) OpenCL", driver="2026.1", at="2:0")
SMALL_GPU = a_device("NVIDIA T4", units=40, at="3:0")
LARGE_GPU = a_device("NVIDIA H200", units=132, at="3:1")


def reports(*devices: Device, broken: tuple[Device, ...] = ()) -> list[DeviceReport]:
    return [DeviceReport(d, True) for d in devices] + [DeviceReport(d, False, "it fails") for d in broken]


@pytest.mark.parametrize(
    ("among", "best"),
    [
        (reports(CPU_POCL_OLD, SMALL_GPU, LARGE_GPU), LARGE_GPU),
        (reports(CPU_POCL_OLD, SMALL_GPU, broken=(LARGE_GPU,)), SMALL_GPU),
        (reports(CPU_POCL_OLD, CPU_POCL_NEW, CPU_INTEL), CPU_INTEL),
        (reports(CPU_POCL_OLD, CPU_POCL_NEW, broken=(CPU_INTEL, LARGE_GPU)), CPU_POCL_NEW),
    ],
)
def test_the_default_device(among: list[DeviceReport], best: Device) -> None:
    assert choose(among).address == best.address
    assert choose(among[::-1]).address == best.address


@pytest.mark.parametrize(
    ("text", "meant"),
    [("h200", LARGE_GPU), ("T4", SMALL_GPU), ("epyc", CPU_INTEL), ("portable", CPU_POCL_NEW), ("0:0", CPU_POCL_OLD)],
)
def test_a_device_by_part_of_its_name(text: str, meant: Device) -> None:
    every = reports(CPU_POCL_OLD, CPU_POCL_NEW, CPU_INTEL, SMALL_GPU, LARGE_GPU)
    assert choose(every, text).address == meant.address


@pytest.mark.parametrize(
    ("among", "text", "words"),
    [
        ([], None, r'No OpenCL device.*pip install "gemm-tuner\[pocl\]"'),
        (reports(SMALL_GPU), "H100", "No device is called 'H100'; there is: 3:0 NVIDIA T4"),
        (reports(SMALL_GPU, LARGE_GPU), "nvidia", "more than one device"),
        (reports(SMALL_GPU, broken=(LARGE_GPU,)), "H200", "does not work .it fails."),
        (reports(broken=(LARGE_GPU,)), None, "does not work"),
    ],
)
def test_no_such_device(among: list[DeviceReport], text: str | None, words: str) -> None:
    with pytest.raises(UserError, match=words):
        choose(among, text)


# Limits


def test_the_launch_deadline_follows_the_best() -> None:
    assert launch_deadline_s(SMALL, SMALL_GPU, None) == 2.0
    assert launch_deadline_s(SMALL, SMALL_GPU, 1.0) == 2.0
    assert launch_deadline_s(SMALL, SMALL_GPU, 500.0) == 10.0
    assert 2.0 < launch_deadline_s(Problem(4096, 4096, 4096), SMALL_GPU, None) <= 60.0
    assert launch_deadline_s(Problem(16384, 16384, 16384), SMALL_GPU, None) == 60.0


def test_the_pool_leaves_a_core_unless_the_device_needs_all() -> None:
    plenty = 2**40
    gpu = replace(SMALL_GPU, facts=Facts(global_mem_bytes=2**34))
    cpu = replace(CPU_INTEL, facts=Facts(shares_cores=True))
    assert worker_count(gpu, 8, plenty) == 7
    assert worker_count(cpu, 8, plenty) == 8
    assert worker_count(gpu, 1, plenty) == 1
    assert worker_count(gpu, 64, 3 * 2**30) == 3
    assert worker_count(gpu, 64, 0) == 1
    assert worker_count(gpu, 64, plenty) == 8  # a quarter of 16 GiB, 512 MiB each


def test_the_processes_of_a_bench_share_nvidias_cache_and_leave_the_users_alone(tmp_path: Path) -> None:
    """The measuring process depends on what the pool has compiled, also where the user has switched the cache off."""
    seen = []
    for name in ("measurer-0", "compiler-1"):
        told, cache = tmp_path / f"{name}.txt", tmp_path / name
        cache.mkdir()
        code = (
            "import os, pathlib; from tuner.bench.devices import prepare_child; "
            f"prepare_child(pathlib.Path({str(tmp_path / 'drivers')!r}), pathlib.Path({str(cache)!r})); "
            f"open({str(told)!r}, 'w').write(os.environ['CUDA_CACHE_PATH'] + ' ' + os.environ['CUDA_CACHE_DISABLE'])"
        )
        environment = {**os.environ, "CUDA_CACHE_DISABLE": "1", "CUDA_CACHE_PATH": "/the/users"}
        subprocess.run([sys.executable, "-c", code], check=True, env=environment)
        seen.append(told.read_text())
    assert seen == [f"{tmp_path / 'nvidia'} 0"] * 2
