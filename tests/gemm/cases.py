"""What gemm() promises, on the device that GEMM_TEST_DEVICE names; run by test_gemm.py."""

from __future__ import annotations

import atexit
import json
import logging
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pyopencl.tools
import pytest
from hypothesis import HealthCheck, given, reject, settings

import tuner
from tests.gemm.arrays import Host, Layout, Placed, Product, check, operands, products
from tuner.bench import Bench, Case, CheckOutcome
from tuner.family import BuiltIn
from tuner.gemm import call as gemm_call
from tuner.gemm.choose import Chooser
from tuner.gemm.launcher import Programs
from tuner.gemm.operands import describe_call
from tuner.gemm.prove import Prover
from tuner.lookup import Answer, Finder, Misses, Snapshot, snapshot
from tuner.model import DTYPES as KNOWN
from tuner.model import Config, Device, Problem, Rendered, Silicon, Software, UserError, Verdict
from tuner.store import open_store, snapshot_path

HANDLE = cl.get_platforms()[int(os.environ["GEMM_TEST_DEVICE"].split(":")[0])].get_devices()[
    int(os.environ["GEMM_TEST_DEVICE"].split(":")[1])
]
DEVICE = tuner.describe(HANDLE)
CONTEXT = cl.Context([HANDLE])
QUEUE = cl.CommandQueue(CONTEXT)
FAMILIES = BuiltIn()
DTYPES = [name for name in KNOWN if DEVICE.has(name)]
SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


class Trusting(Prover):
    """Proves nothing: these tests check every product themselves."""

    def refusal(self, device: Device, problem: Problem, answer: Answer) -> str | None:
        return None


def use(monkeypatch: pytest.MonkeyPatch, chosen: Chooser) -> None:
    monkeypatch.setattr(gemm_call, "chooser", lambda db: chosen)
    monkeypatch.setattr(gemm_call, "_kept", gemm_call._Kept())


def trusting(tmp_path: Path, *families: str) -> Chooser:
    known = {name: FAMILIES[name] for name in families or FAMILIES}
    return Chooser(Finder(Snapshot(tmp_path / "none"), known), Trusting(None))


@pytest.fixture
def any_family(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Kernels come from a family that builds quickly, unproven."""
    use(monkeypatch, trusting(tmp_path, "naive"))


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every source that is built in this process."""
    built: list[str] = []
    before = Programs.get

    def get(self: Programs, queue: cl.CommandQueue, rendered: Rendered) -> cl.Program:
        built.append(rendered.source)
        return before(self, queue, rendered)

    monkeypatch.setattr(Programs, "get", get)
    return built


def multiply(p: Product, queue: cl.CommandQueue = QUEUE) -> None:
    """Multiply and check."""
    a, b, c = operands(queue, p)
    arrays = a.array, b.array, c.array
    found = tuner.gemm(queue, *arrays, alpha=p.alpha, beta=p.beta, trans_a=p.trans_a, trans_b=p.trans_b)
    assert found is c.array
    check(queue, p, a, b, c)


PLAIN = (Layout(), Layout(), Layout())


def product(m: int, n: int, k: int, **rest: Any) -> Product:
    usual = {"batch": None, "dtype": "float32", "trans_a": False, "trans_b": False, "alpha": 1.0, "beta": 0.0}
    return Product(m, n, k, **{**usual, "layouts": PLAIN, "seed": 0, **rest})


# Right for whatever is multiplied


@pytest.mark.parametrize(("family", "examples"), [(name, 80 if name == "naive" else 3) for name in FAMILIES])
def test_any_product_is_right(family: str, examples: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(monkeypatch, trusting(tmp_path, family))

    @settings(SETTINGS, max_examples=examples)
    @given(products(DTYPES))
    def right(p: Product) -> None:
        try:
            multiply(p)
        except tuner.UserError as error:
            assert "no family has a default that is legal" in str(error)
            reject()  # not every family serves every product

    right()


@pytest.mark.parametrize("trans", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("turned", [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)])
def test_every_order_in_memory_is_right(any_family: None, trans: tuple[bool, bool], turned: tuple[int, ...]) -> None:
    layouts = tuple(Layout(turned=bool(each), between_rows=3) for each in turned)
    multiply(product(7, 5, 6, trans_a=trans[0], trans_b=trans[1], layouts=layouts, alpha=0.5, beta=-1.0))


@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)])
@pytest.mark.parametrize("batch", [None, 0, 2])
@pytest.mark.parametrize("beta", [0.0, -2.0])
def test_empty_products_mean_what_blas_says(
    any_family: None, shape: tuple[int, int, int], batch: int | None, beta: float
) -> None:
    multiply(product(*shape, batch=batch, beta=beta))


def test_without_c_a_new_array_is_returned(any_family: None) -> None:
    a = cla.to_device(QUEUE, np.arange(6, dtype=np.float32).reshape(2, 3))
    found = tuner.gemm(QUEUE, a, a, trans_b=True)
    assert found.get().tolist() == [[5.0, 14.0], [14.0, 50.0]]
    with pytest.raises(tuner.UserError, match="there must be a c"):
        tuner.gemm(QUEUE, a, a, trans_b=True, beta=1.0)


def test_sliced_views_are_taken_as_they_are(any_family: None) -> None:
    host = np.random.default_rng(1).uniform(-1, 1, (40, 40)).astype(np.float32)
    whole = cla.to_device(QUEUE, host)
    a, b, c = whole[3:10, 1:12], whole[20:31, 2:9], whole[30:37, 30:37]
    tuner.gemm(QUEUE, a, b, c)
    expected = host.copy()
    expected[30:37, 30:37] = host[3:10, 1:12] @ host[20:31, 2:9]
    assert np.allclose(whole.get(), expected, atol=1e-5)


def test_memory_from_a_pool_and_parts_of_buffers(any_family: None) -> None:
    pool = pyopencl.tools.MemoryPool(pyopencl.tools.ImmediateAllocator(QUEUE))
    host = np.random.default_rng(2).uniform(-1, 1, (32, 32)).astype(np.float32)
    a = cla.to_device(QUEUE, host, allocator=pool)
    parent = cl.Buffer(CONTEXT, cl.mem_flags.READ_WRITE, 2 * host.nbytes + 4096)
    c = cla.Array(QUEUE, (32, 32), np.float32, data=parent.get_sub_region(4096, host.nbytes))
    assert np.allclose(tuner.gemm(QUEUE, a, a, c).get(), host @ host, atol=1e-5)


# What is refused, in one sentence


def ones(*shape: int, dtype: Any = np.float32) -> cla.Array:
    return cla.to_device(QUEUE, np.ones(shape, dtype))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: (ones(2, 3), ones(2, 3)), "op.a. is 2x3 and op.b. is 2x3"),
        (lambda: (ones(2, 3), ones(3, 2), ones(3, 3)), "c is 3x3, but op.a..op.b. is 2x2"),
        (lambda: (ones(3), ones(3)), "both be 2-D"),
        (lambda: (ones(2, 2, 2), ones(2, 2)), "both be 2-D"),
        (lambda: (ones(2, 2, 2), ones(3, 2, 2)), "batches must be equal"),
        (lambda: (ones(2, 2), ones(2, 2, dtype=np.float64)), "one dtype"),
        (lambda: (ones(2, 2), ones(2, 2), ones(2, 2, dtype=np.float64)), "the dtype of a and b"),
        (lambda: (ones(2, 2, dtype=np.int32), ones(2, 2, dtype=np.int32)), "does not support int32"),
        (lambda: (ones(4, 8)[:, ::2], ones(4, 4)), "contiguous"),
        (lambda: (ones(4, 4)[::-1], ones(4, 4)), "contiguous"),
    ],
)
def test_what_does_not_fit_is_refused(any_family: None, make: Any, said: str) -> None:
    with pytest.raises(tuner.UserError, match=said):
        tuner.gemm(QUEUE, *make())


def test_an_unknown_math_is_refused(any_family: None) -> None:
    with pytest.raises(tuner.UserError, match="unknown math"):
        tuner.gemm(QUEUE, ones(2, 2), ones(2, 2), math="sloppy")


def test_arrays_of_another_context_are_refused(any_family: None) -> None:
    other = cl.Context([HANDLE])
    with pytest.raises(tuner.UserError, match="one context"):
        tuner.gemm(cl.CommandQueue(other), ones(2, 2), ones(2, 2), ones(2, 2))


def test_a_result_that_overlaps_an_operand_is_refused(any_family: None) -> None:
    whole = ones(8, 8)
    for a, b, c in (
        (whole, ones(8, 8), whole),
        (ones(8, 8), whole, whole),
        (whole[:4, :4], ones(4, 4), whole[3:7, 3:7]),
        (whole[:4, :4], ones(4, 4), whole[:4, 3:7]),
    ):
        with pytest.raises(tuner.UserError, match="c overlaps"):
            tuner.gemm(QUEUE, a, b, c)
    buffer: Any = whole.base_data
    part = buffer.get_sub_region(0, 128)
    inside = cla.Array(QUEUE, (4, 4), np.float32, data=part)
    with pytest.raises(tuner.UserError, match="c overlaps a"):
        tuner.gemm(QUEUE, whole[:4, :4], ones(4, 4), inside)


def test_blocks_side_by_side_in_one_array_do_not_overlap(any_family: None) -> None:
    whole = ones(8, 8)
    tuner.gemm(QUEUE, whole[:4, :4], whole[4:, :4], whole[:4, 4:])
    assert (whole.get()[:4, 4:] == 4).all()


# Alignment is what the arrays have


def align(a: Placed, b: Placed, c: Placed, base: int = 16) -> int:
    return describe_call(a.array, b.array, c.array, False, False, "strict", base).problem.align


@pytest.mark.parametrize(
    ("layouts", "expected"),
    [
        (PLAIN, 16),
        ((Layout(between_rows=1), Layout(), Layout()), 4),
        ((Layout(between_rows=2), Layout(), Layout()), 8),
        ((Layout(), Layout(before=1), Layout()), 4),
        ((Layout(), Layout(before=2), Layout()), 8),
        ((Layout(), Layout(), Layout(between_rows=3)), 4),
        ((Layout(before=4), Layout(between_rows=4), Layout(before=8)), 16),
    ],
)
def test_alignment_comes_from_the_arrays(layouts: tuple[Layout, Layout, Layout], expected: int) -> None:
    a, b, c = operands(QUEUE, product(16, 16, 16, layouts=layouts))
    assert align(a, b, c) == expected
    assert align(a, b, c, base=4) == 4


def test_alignment_of_a_batch_counts_its_stride() -> None:
    for between, expected in ((0, 16), (1, 4), (2, 8)):
        layouts = (Layout(between_products=between), Layout(), Layout())
        assert align(*operands(QUEUE, product(16, 16, 16, batch=2, layouts=layouts))) == expected


@pytest.mark.parametrize("part", [False, True])
def test_memory_of_the_host_is_as_aligned_as_it_is(
    part: bool, any_family: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Problem] = []
    before = Chooser.choose

    def choose(self: Chooser, device: Device, problem: Problem) -> Answer:
        asked.append(problem)
        return before(self, device, problem)

    monkeypatch.setattr(Chooser, "choose", choose)
    skipped = DEVICE.facts.base_align_bytes // 4 if part else 0
    room = np.zeros(64 + skipped + 256, np.float32)
    start = (-room.ctypes.data // 4) % 16 + 1  # one element beyond a multiple of 64 bytes
    host = room[start : start + skipped + 256]
    host[:] = 1
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
    whole = cl.Buffer(CONTEXT, flags, hostbuf=host)
    buffer = whole.get_sub_region(4 * skipped, 4 * 256) if part else whole
    a = cla.Array(QUEUE, (16, 16), np.float32, data=buffer)
    assert (tuner.gemm(QUEUE, a, ones(16, 16)).get() == 16).all()
    assert [problem.align for problem in asked] == [4]


# Events and queues


def test_it_waits_for_what_it_is_told_and_its_event_is_the_results(any_family: None) -> None:
    gate = cl.UserEvent(CONTEXT)
    a = ones(16, 16)
    tuner.gemm(QUEUE, a, a)  # builds
    c = tuner.gemm(QUEUE, a, a, wait_for=[gate])
    QUEUE.flush()
    assert len(c.events) == 1
    assert c.events[0].command_execution_status > cl.command_execution_status.RUNNING
    gate.set_status(cl.command_execution_status.COMPLETE)
    assert (c.get() == 16).all()


@pytest.mark.parametrize("which", ["a", "b", "c"])
def test_it_waits_for_the_events_of_its_arrays(any_family: None, which: str) -> None:
    arrays = {"a": ones(16, 16), "b": ones(16, 16), "c": ones(16, 16)}
    tuner.gemm(QUEUE, arrays["a"], arrays["b"], arrays["c"])
    gate = cl.UserEvent(CONTEXT)
    arrays[which].add_event(gate)
    c = tuner.gemm(QUEUE, arrays["a"], arrays["b"], arrays["c"])
    QUEUE.flush()
    assert c.events[-1].command_execution_status > cl.command_execution_status.RUNNING
    gate.set_status(cl.command_execution_status.COMPLETE)
    assert (c.get() == 16).all()


@pytest.mark.parametrize("out_of_order", [False, True])
def test_scratch_is_used_by_one_call_after_another(
    out_of_order: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use(monkeypatch, trusting(tmp_path, "vector"))
    any_order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    queue = cl.CommandQueue(CONTEXT, properties=any_order) if out_of_order else cl.CommandQueue(CONTEXT)
    rng = np.random.default_rng(5)
    hosts = [rng.uniform(-1, 1, (96, 96)).astype(np.float32) for _ in range(6)]
    on_device = [cla.to_device(queue, host) for host in hosts]
    queue.finish()
    found = [tuner.gemm(queue, one, other) for one in on_device for other in on_device]
    expected = [one @ other for one in hosts for other in hosts]
    for c, host in zip(found, expected, strict=True):
        assert np.allclose(c.get(queue), host, atol=1e-4)


@pytest.mark.parametrize("shared", [True, False], ids=["one queue", "a queue each"])
def test_several_threads_at_once(shared: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(monkeypatch, trusting(tmp_path, "vector"))
    common = cl.CommandQueue(CONTEXT)
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            queue = common if shared else cl.CommandQueue(CONTEXT)
            rng = np.random.default_rng(seed)
            for _ in range(12):
                host: Host = rng.uniform(-1, 1, (64, 64)).astype(np.float32)
                a = cla.to_device(queue, host)
                c = tuner.gemm(queue, a, a, alpha=float(seed))
                assert np.allclose(c.get(queue), seed * (host @ host), atol=1e-3)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


# What is made is kept


def test_a_warm_call_makes_no_kernel_and_asks_nobody(any_family: None, monkeypatch: pytest.MonkeyPatch) -> None:
    a, c = ones(32, 32), ones(32, 32)
    tuner.gemm(QUEUE, a, a, c)
    monkeypatch.setattr(cl, "Kernel", lambda *_: pytest.fail("made a kernel"))
    monkeypatch.setattr(cl, "Program", lambda *_: pytest.fail("made a program"))
    monkeypatch.setattr(Chooser, "choose", lambda *_: pytest.fail("asked for a choice"))
    for _ in range(3):
        tuner.gemm(QUEUE, a, a, c, alpha=2.0)
    assert (c.get() == 64).all()


def test_one_source_is_built_once_for_all_shapes_it_serves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(monkeypatch, trusting(tmp_path, "naive"))
    monkeypatch.setattr(gemm_call, "_programs", Programs())
    built: list[str] = []
    before = cl.Program

    def program(context: cl.Context, source: str) -> cl.Program:
        built.append(source)
        return before(context, source)

    monkeypatch.setattr(cl, "Program", program)
    for size in (4, 8, 12):
        tuner.gemm(QUEUE, ones(size, size), ones(size, size))
    assert len(built) == 1


# Only what is certified is run


def key(problem: Problem) -> tuple[Silicon, Software, Problem]:
    return DEVICE.silicon, DEVICE.software, problem


def naive(problem: Problem, change: tuple[str, str] = ("", "")) -> tuple[Config, Rendered]:
    """The default of `naive`, with a change in its source under a hash of its own."""
    config = FAMILIES["naive"].default(problem, DEVICE)
    right = FAMILIES["naive"].render(config, problem, DEVICE)
    assert change[0] in right.source
    source = right.source.replace(*change) if change[0] else right.source
    return config, tuner.family.rendered(source, right.build_options, right.steps, right.scratch)


WRONG = ("sum += A_AT(row, i) * B_AT(i, column)", "sum -= A_AT(row, i) * B_AT(i, column)")
SAME = ("sum += A_AT(row, i) * B_AT(i, column)", "sum = sum + A_AT(row, i) * B_AT(i, column)")
PROBLEM = Problem(24, 24, 24)


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "tuner.db")


class Shared:
    """A bench that stays open when a prover closes it, so that its processes start once for all tests."""

    bench: Bench | None = None

    def __call__(self, device: Device) -> Shared:
        return self

    def check(self, cases: list[Case]) -> CheckOutcome:
        if Shared.bench is None:
            Shared.bench = Bench.open(DEVICE)
            atexit.register(Shared.bench.close)
        return Shared.bench.check(cases)

    def close(self) -> None:
        pass


class Counting(Prover):
    """Counts what is asked of the isolated processes."""

    proofs = 0
    chooser: Chooser

    def __init__(self, db: str) -> None:
        super().__init__(db, open_bench=Shared())

    def _check(self, device: Device, problem: Problem, answer: Answer) -> CheckOutcome:
        self.proofs += 1
        return super()._check(device, problem, answer)


@pytest.fixture
def proving(db: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counting]:
    """gemm() on a store of its own, with real proofs, and `naive` alone as default."""
    prover = Counting(db)
    misses = Misses(Path(f"{db}.misses"))
    finder = Finder(Snapshot(snapshot_path(db)), {"naive": FAMILIES["naive"]}, misses=misses)
    prover.chooser = Chooser(finder, prover)
    use(monkeypatch, prover.chooser)
    yield prover
    prover.close()


def eye_times(scale: float = 1.0) -> Host:
    a = cla.to_device(QUEUE, scale * np.eye(24, dtype=np.float32))
    found: Host = tuner.gemm(QUEUE, a, ones(24, 24)).get()
    return found


def test_a_planted_wrong_champion_is_never_run(proving: Counting, db: str, sources: list[str]) -> None:
    with open_store(db, upgrade=True) as store:
        config, wrong = naive(PROBLEM, WRONG)
        store.promote(*key(PROBLEM), config, wrong, reason="planted", time_ms=0.001, noise=0.0)
        assert (eye_times() == 1).all()
        assert wrong.source not in sources
        assert [event.action for event in store.log(problem=PROBLEM)] == ["promote", "withdraw"]
        assert [record.measurement.verdict for record in store.history()] == [Verdict.WRONG_RESULT]


def test_a_certificate_under_a_borrowed_hash_proves_nothing(proving: Counting, db: str, sources: list[str]) -> None:
    with open_store(db, upgrade=True) as store:
        (config, right), (_, wrong) = naive(PROBLEM), naive(PROBLEM, WRONG)
        forged = replace(wrong, source_hash=right.source_hash)
        store.certify(*key(PROBLEM), config, right.source_hash, ["all"])
        store.promote(*key(PROBLEM), config, forged, reason="planted", time_ms=0.001, noise=0.0)
    assert (eye_times() == 1).all()
    assert wrong.source not in sources


def test_an_unproven_champion_is_proven_once_and_that_is_kept(proving: Counting, db: str, sources: list[str]) -> None:
    with open_store(db, upgrade=True) as store:
        config, rendered = naive(PROBLEM, SAME)
        store.promote(*key(PROBLEM), config, rendered, reason="imported", time_ms=0.001, noise=0.0)
        for scale in (1, 2):
            assert (eye_times(scale) == scale).all()
        assert (proving.proofs, sources) == (1, [rendered.source])
        held = store.certificate(*key(PROBLEM), rendered.source_hash)
        assert held is not None and any("exact" in check for check in held.checks)
    answer = Finder(Snapshot(snapshot_path(db)), FAMILIES).lookup(DEVICE, PROBLEM)
    assert (answer.origin, answer.certified) == ("exact", True)


def test_what_was_found_wrong_is_not_tried_again_by_the_next_process(proving: Counting, db: str) -> None:
    other = replace(DEVICE.software, driver="another")
    with open_store(db, upgrade=True) as store:
        config, wrong = naive(PROBLEM, WRONG)
        about = (DEVICE.silicon, other, PROBLEM)
        store.promote(*about, config, wrong, reason="imported", time_ms=0.001, noise=0.0)
        assert (eye_times() == 1).all()
        assert store.champion(*about) is not None, "it may be right on its own driver"
    next_process = Counting(db)
    answer = next(Finder(Snapshot(snapshot_path(db)), FAMILIES).answers(DEVICE, PROBLEM))
    assert answer.origin == "other_driver"
    assert "wrong_result" in (next_process.refusal(DEVICE, PROBLEM, answer) or "")
    assert next_process.proofs == 0


def test_a_certified_champion_is_run_from_its_stored_source_at_once(
    proving: Counting, db: str, sources: list[str]
) -> None:
    """Whatever the templates say now, and with the very options and launch plan that were certified."""
    with open_store(db, upgrade=True) as store:
        config, rendered = naive(PROBLEM, SAME)
        store.certify(*key(PROBLEM), config, rendered.source_hash, ["all"])
        store.promote(*key(PROBLEM), config, rendered, reason="won", time_ms=0.001, noise=0.0)
    assert (eye_times() == 1).all()
    assert (proving.proofs, sources) == (0, [rendered.source])


def test_a_champion_of_another_driver_is_proven_here_first(proving: Counting, db: str, sources: list[str]) -> None:
    with open_store(db, upgrade=True) as store:
        config, rendered = naive(PROBLEM, SAME)
        about = (DEVICE.silicon, replace(DEVICE.software, driver="before the update"), PROBLEM)
        store.promote(*about, config, rendered, reason="won", time_ms=0.001, noise=0.0, checks=["all"])
    assert (eye_times() == 1).all()
    assert (proving.proofs, sources) == (1, [rendered.source])


def test_what_is_pinned_is_what_is_run_whatever_is_promoted_after(
    proving: Counting, db: str, sources: list[str]
) -> None:
    with open_store(db, upgrade=True) as store:
        (config, pinned), (_, faster) = naive(PROBLEM, SAME), naive(PROBLEM)
        for rendered in (pinned, faster):
            store.certify(*key(PROBLEM), config, rendered.source_hash, ["all"])
        store.pin(*key(PROBLEM), config, pinned, reason="by hand")
        store.promote(*key(PROBLEM), config, faster, reason="won", time_ms=0.001, noise=0.0)
    answer = proving.chooser.finder.lookup(DEVICE, PROBLEM)
    assert (answer.origin, answer.config, answer.source()) == ("pinned", config, pinned.source)
    assert (eye_times() == 1).all()
    assert (proving.proofs, sources) == (0, [pinned.source])


def test_a_withdrawn_champion_is_not_run_again(
    proving: Counting, db: str, sources: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "CHECK_SECONDS", 0.0)
    with open_store(db, upgrade=True) as store:
        config, rendered = naive(PROBLEM, SAME)
        store.certify(*key(PROBLEM), config, rendered.source_hash, ["all"])
        store.promote(*key(PROBLEM), config, rendered, reason="won", time_ms=0.001, noise=0.0)
        eye_times()
        store.withdraw(*key(PROBLEM), reason="wrong at 2x")
        eye_times()
    assert sources == [rendered.source, naive(PROBLEM)[1].source]


def test_without_a_store_to_write_to_a_proof_lasts_as_long_as_the_process(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    prover = Counting("/proc/nowhere/tuner.db")
    finder = Finder(Snapshot(tmp_path / "none"), {"naive": FAMILIES["naive"]})
    use(monkeypatch, Chooser(finder, prover))
    with caplog.at_level(logging.WARNING):
        for scale in (1, 2):
            assert (eye_times(scale) == scale).all()
            gemm_call._kept.ready.clear()
    assert prover.proofs == 1
    assert "proofs of kernels are not kept" in caplog.text
    prover.close()


def test_if_nothing_is_right_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Refusing(Trusting):
        def refusal(self, device: Device, problem: Problem, answer: Answer) -> str | None:
            return "wrong_result: as told"

    use(monkeypatch, Chooser(Finder(Snapshot(tmp_path / "none"), FAMILIES), Refusing(None)))
    with pytest.raises(tuner.MachineError, match="no kernel gives a right result for 2x2x2 float32"):
        tuner.gemm(QUEUE, ones(2, 2), ones(2, 2))


def test_every_call_of_what_nobody_tuned_is_a_miss(proving: Counting, db: str) -> None:
    for _ in range(3):
        eye_times()
    misses = proving.chooser.finder._misses
    assert misses is not None
    misses.flush()
    with open_store(db, upgrade=True) as store:
        store.take_in_misses()
        assert [(miss.problem, miss.count) for miss in store.misses()] == [(PROBLEM, 3)]


# The device it describes is the one the tuner stores


def test_a_device_is_described_as_the_tuner_describes_it() -> None:
    same = Device.from_json(json.loads(os.environ["GEMM_TEST_EXPECTED"]))
    assert (DEVICE, DEVICE.facts) == (same, same.facts)


def test_what_is_no_array_queue_flag_or_number_is_refused_in_one_sentence(any_family: None) -> None:
    a, swapped = ones(4, 4), cla.to_device(QUEUE, np.ones((4, 4), np.dtype("=f4").newbyteorder()))
    short = cla.Array(QUEUE, (64, 64), np.float32, data=cl.Buffer(CONTEXT, cl.mem_flags.READ_WRITE, 64))
    event = cl.UserEvent(CONTEXT)
    strange: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
        ((QUEUE, np.ones((4, 4)), a), {}, "a must be a pyopencl.array.Array"),
        ((QUEUE, a, a, np.ones((4, 4))), {}, "c must be a pyopencl.array.Array"),
        ((None, a, a), {}, "queue"),
        ((QUEUE, swapped, swapped), {}, "byte order"),
        ((QUEUE, a, a), {"alpha": None}, "alpha must be a real number"),
        ((QUEUE, a, a), {"alpha": "2"}, "alpha must be a real number"),
        ((QUEUE, a, a), {"alpha": 1j}, "alpha must be a real number"),
        ((QUEUE, a, a), {"alpha": 1e300}, "too large for float32"),
        ((QUEUE, a, a), {"trans_a": "N"}, "trans_a must be True or False"),
        ((QUEUE, a, a), {"math": ["strict"]}, "math must be a name"),
        ((QUEUE, a, a), {"wait_for": event}, "wait_for must be a list"),
        ((QUEUE, short, short), {}, "a ends 16384 bytes into a buffer of 64"),
    ]
    for arguments, rest, sentence in strange:
        with pytest.raises(UserError, match=sentence):
            tuner.gemm(*arguments, **rest)
    event.set_status(cl.command_execution_status.COMPLETE)
    assert (tuner.gemm(QUEUE, a, a, alpha=np.float64(2), trans_a=True).get() == 8).all()
