from __future__ import annotations

import ctypes
import itertools
import json
import os
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import fakes
from tests.fakes import DEVICE, PROBLEM, small_family, valley
from tuner.baselines import Entry, Library, LibraryFailed, Standing, compare, mkl, open_libraries, read_parameters
from tuner.baselines.adapter import Absent, Array
from tuner.baselines.child import turn
from tuner.baselines.compare import FEWEST_ROUNDS
from tuner.baselines.openblas import OpenBlas
from tuner.baselines.torch_blas import GRAPH_PRODUCTS, CuBlas
from tuner.bench import ContenderFailed
from tuner.cli import app, bench_command
from tuner.lookup import Snapshot, snapshot_path
from tuner.model import Built, Device, Problem, Rendered, UserError, Verdict
from tuner.verify import Reference

ROOT = Path(__file__).resolve().parents[1]
BUILT = (Rendered("", "", ()), Built(Verdict.CORRECT))
PRODUCTS = [
    Problem.packed(20 + 3 * trans_a, 31, 17, trans_a=trans_a, trans_b=trans_b, batch=batch, dtype=dtype)
    for trans_a, trans_b in itertools.product((False, True), repeat=2)
    for batch, dtype in ((1, "float32"), (3, "float64"))
]


def _computes_right(adapter: Any, problem: Problem) -> bool:
    reference = Reference(problem, 0, "floats")
    a, b = reference.operands.a, reference.operands.b
    assert a is not None and b is not None
    adapter.prepare(problem, a, b)
    adapter.call()
    adapter.finish()
    return reference.check.accept(adapter.result()).ok


# Adapters by which a child process goes wrong in every way.


class Right:
    """numpy's product; `how` tells what the process sees of its environment."""

    name, version, products = "Right", "1", 1
    dtypes = frozenset(("float32", "float64"))

    def __init__(self, device: Device, parameters: object = None) -> None:
        self.how = f"core type {os.environ.get('OPENBLAS_CORETYPE')}"

    def prepare(self, problem: Problem, a: Array, b: Array) -> None:
        self.c = a @ b

    def call(self) -> None:
        pass

    def finish(self) -> None:
        time.sleep(0.0001)

    def result(self) -> Array:
        return self.c


class Wrong(Right):
    def result(self) -> Array:
        self.c[0, -1, -1] += 1
        return self.c


class Dying(Right):
    def result(self) -> Array:
        os.abort()


class Raising(Right):
    def call(self) -> None:
        raise RuntimeError("out of memory\nand much more")


class Hanging(Right):
    def __init__(self, device: Device, parameters: object = None) -> None:
        super().__init__(device)
        self._calls = 0

    def call(self) -> None:
        self._calls += 1
        if self._calls > 1:
            time.sleep(60)


class Elsewhere(Right):
    def __init__(self, device: Device, parameters: object = None) -> None:
        raise Absent("it is not installed")


def _entry(adapter: type) -> Entry:
    return Entry(adapter.__name__, f"{__name__}:{adapter.__name__}", prefixes=("OPENBLAS",))


@pytest.fixture(scope="module")
def library(request: pytest.FixtureRequest) -> Iterator[Library]:
    """The adapter that the test's parameter names, in its process."""
    with open_libraries(DEVICE, entries=[_entry(request.param)]) as (opened,):
        yield opened


def only(adapter: type) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("library", [adapter], indirect=True)


def _prepare(library: Library) -> None:
    library.ask_prepare(PROBLEM)
    library.prepared()


def test_a_library_does_not_see_what_would_slow_it_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Prescott")
    with open_libraries(DEVICE, entries=[_entry(Right)]) as (library,):
        assert library.how == "core type None; set aside: " + ", ".join(
            name for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OPENBLAS_NUM_THREADS") if name in os.environ
        )
        assert os.environ["OPENBLAS_CORETYPE"] == "Prescott"
        _prepare(library)
        assert all(ms > 0 for ms in library.turn(2))


@only(Wrong)
def test_a_wrong_library_has_no_time(library: Library) -> None:
    with pytest.raises(LibraryFailed, match="its result is wrong: 1 elements"):
        _prepare(library)


@only(Dying)
def test_a_library_that_dies_is_named_and_started_again(library: Library) -> None:
    for _ in range(2):
        with pytest.raises(LibraryFailed, match="SIGABRT"):
            _prepare(library)


@only(Raising)
def test_what_a_library_says_is_kept(library: Library) -> None:
    with pytest.raises(LibraryFailed, match=r"^RuntimeError: out of memory$"):
        _prepare(library)


@only(Hanging)
def test_a_library_that_hangs_meets_its_deadline(library: Library) -> None:
    _prepare(library)
    with pytest.raises(LibraryFailed, match=r"no answer within 0\.5 s"):
        library.turn(1, deadline_s=0.5)


@only(Elsewhere)
def test_an_absent_library_says_why(library: Library) -> None:
    assert library.absent == "it is not installed"


def test_libraries_of_other_devices_are_absent() -> None:
    with open_libraries(DEVICE, ["OpenBLAS", "cublas"]) as libraries:
        reasons = [library.absent for library in libraries]
    assert reasons == [f"it computes on {what}, not on Anvil 9" for what in ("CPUs", "NVIDIA GPUs")]


def test_an_unknown_library_is_a_user_error() -> None:
    with pytest.raises(UserError, match="no library 'ATLAS'"), open_libraries(DEVICE, ["ATLAS"]):
        pass


def test_the_libraries_here_are_right_or_say_why_not(device: Device) -> None:
    with open_libraries(device) as libraries:
        for library in libraries:
            assert library.absent or library.version
            for problem in [] if library.absent else PRODUCTS[3:5]:
                library.ask_prepare(problem)
                library.prepared()
                assert library.turn(1)[0] > 0


def test_the_parent_imports_no_library() -> None:
    code = "import sys, tuner.baselines; print({'pyopencl', 'torch', 'cupy'} & sys.modules.keys())"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True)
    assert found.stdout.strip() == "set()"


# The adapters themselves.


@pytest.mark.parametrize("problem", PRODUCTS, ids=str)
def test_openblas(problem: Problem) -> None:
    assert _computes_right(OpenBlas(DEVICE), problem)


class FakeMkl:
    """CBLAS's calling convention over numpy, for row-major operands."""

    def __init__(self) -> None:
        self.cblas_sgemm: Callable[..., None] = lambda *arguments: self._gemm(np.float32, False, *arguments)
        self.cblas_dgemm_batch_strided: Callable[..., None] = lambda *x: self._gemm(np.float64, True, *x)

    def mkl_get_version_string(self, text: Any, length: int) -> None:
        text.value = b"Intel(R) oneAPI Math Kernel Library Version 2026.1-Product Build 20260101"

    def MKL_Get_Max_Threads(self) -> int:
        return 2

    def _gemm(self, real: type, batched: bool, *arguments: Any) -> None:
        given = iter(arguments)

        def take() -> Any:
            return next(given).value

        layout, trans_a, trans_b, m, n, k, alpha = (take() for _ in range(7))
        assert (layout, alpha) == (101, 1)
        a = take(), take(), take() if batched else 0
        b = take(), take(), take() if batched else 0
        assert take() == 0
        c = take(), take(), take() if batched else 0
        for index in range(take() if batched else 1):
            left, right = _matrix(a, index, m, k, trans_a, real), _matrix(b, index, k, n, trans_b, real)
            _matrix(c, index, m, n, 111, real)[...] = left @ right
        assert next(given, None) is None


def _matrix(where: tuple[int, int, int], index: int, rows: int, columns: int, flag: int, real: Any) -> Array:
    address, ld, stride = where
    stored = (columns, rows) if flag == 112 else (rows, columns)
    size = np.dtype(real).itemsize
    kind = ctypes.c_float if size == 4 else ctypes.c_double
    flat = ctypes.cast(address + index * stride * size, ctypes.POINTER(kind))
    matrix = np.ctypeslib.as_array(flat, (stored[0], ld))[:, : stored[1]]
    return matrix.T if flag == 112 else matrix


@pytest.mark.parametrize("problem", PRODUCTS, ids=str)
def test_mkl(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mkl, "_load", FakeMkl)
    adapter = mkl.Mkl(DEVICE)
    assert (adapter.version, adapter.how) == ("2026.1-Product", "2 threads")
    assert _computes_right(adapter, problem)


def test_mkl_is_absent_without_its_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(mkl, "_SYSTEM_NAMES", ("libno-such-library.so.1",))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(Absent, match="pip install mkl"):
        mkl.Mkl(DEVICE)


class FakeTensor:
    """What the adapter uses of a tensor, over numpy."""

    def __init__(self, array: Array) -> None:
        self.array, self.dtype = array, array.dtype

    def __getitem__(self, index: int) -> FakeTensor:
        return FakeTensor(self.array[index])

    def to(self, gpu: object) -> FakeTensor:
        return FakeTensor(self.array.copy())

    def transpose(self, one: int, other: int) -> FakeTensor:
        return FakeTensor(self.array.swapaxes(one, other))

    def cpu(self) -> FakeTensor:
        return self

    def numpy(self) -> Array:
        return self.array


class FakeGraph:
    def __init__(self, log: list[str]) -> None:
        self._log = log

    def replay(self) -> None:
        self._log.append("replay")


class Within:
    """A context that writes to the log when it is entered and left."""

    def __init__(self, log: list[str], name: str) -> None:
        self._log, self._name = log, name

    def __enter__(self) -> None:
        self._log.append(f"<{self._name}")

    def __exit__(self, *error: object) -> None:
        self._log.append(f"{self._name}>")

    def wait_stream(self, other: object) -> None:
        self._log.append(f"{self._name} waits")


def fake_torch(log: list[str], product_s: float = 0.0) -> Any:
    """A module that computes with numpy and writes down what was called."""
    torch: Any = types.ModuleType("torch")

    def multiply(name: str) -> Callable[..., None]:
        def call(left: FakeTensor, right: FakeTensor, *, out: FakeTensor) -> None:
            log.append(name)
            time.sleep(product_s)
            out.array[...] = left.array @ right.array

        return call

    def zeros(shape: tuple[int, ...], *, dtype: Any, device: object) -> FakeTensor:
        return FakeTensor(np.zeros(shape, dtype))

    name = DEVICE.name
    torch.__version__ = "2.11.0+cu130"
    torch.version = types.SimpleNamespace(cuda="13.0", hip=None)
    torch.backends = types.SimpleNamespace(cuda=types.SimpleNamespace(matmul=types.SimpleNamespace(allow_tf32=True)))
    torch.device = lambda kind, index: f"{kind}:{index}"
    torch.set_float32_matmul_precision = log.append
    torch.from_numpy, torch.zeros = FakeTensor, zeros
    torch.mm, torch.bmm = multiply("mm"), multiply("bmm")
    torch.cuda = types.SimpleNamespace(
        is_available=lambda: True,
        device_count=lambda: 2,
        get_device_properties=lambda index: types.SimpleNamespace(name=["another", name][index], uuid=f"00-{index}"),
        set_device=log.append,
        empty_cache=lambda: None,
        synchronize=lambda: log.append("synchronize"),
        Stream=lambda: Within(log, "side"),
        current_stream=lambda: Within(log, "main"),
        stream=lambda stream: stream,
        CUDAGraph=lambda: FakeGraph(log),
        graph=lambda graph: Within(log, "graph"),
    )
    return torch


@pytest.mark.parametrize("problem", PRODUCTS, ids=str)
def test_cublas(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    torch = fake_torch(log, product_s=0.001)
    monkeypatch.setitem(sys.modules, "torch", torch)
    adapter = CuBlas(DEVICE)
    assert log == ["cuda:1", "highest"]
    assert torch.backends.cuda.matmul.allow_tf32 is False
    assert adapter.version == "of CUDA 13.0"
    assert _computes_right(adapter, problem)
    assert adapter.how == "PyTorch 2.11.0+cu130, TF32 off, launched one by one"
    assert set(log[2:]) == {"mm" if problem.batch == 1 else "bmm", "synchronize"}


def test_cublas_captures_short_products_in_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    monkeypatch.setitem(sys.modules, "torch", fake_torch(log))
    monkeypatch.setattr("tuner.baselines.torch_blas.GRAPH_BELOW_MS", 1000.0)
    adapter = CuBlas(DEVICE)
    assert _computes_right(adapter, PROBLEM)
    start = log.index("side waits")
    inside = ["<graph", *["mm"] * GRAPH_PRODUCTS, "graph>"]
    before = ["side waits", "<side", "mm", "mm", "mm", "side>", "main waits"]
    assert log[start:] == [*before, *inside, "replay", "synchronize"]
    assert adapter.products == GRAPH_PRODUCTS
    assert adapter.how.endswith(f"in a graph of {GRAPH_PRODUCTS}")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda torch: setattr(torch.version, "cuda", None), "built without CUDA"),
        (lambda torch: setattr(torch.cuda, "is_available", lambda: False), "finds no GPU"),
        (lambda torch: setattr(torch.cuda, "get_device_properties", lambda i: types.SimpleNamespace(name="B")), "show"),
    ],
)
def test_cublas_is_absent(change: Callable[[Any], None], why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = fake_torch([])
    change(torch)
    monkeypatch.setitem(sys.modules, "torch", torch)
    with pytest.raises(Absent, match=why):
        CuBlas(DEVICE)


def test_cublas_is_absent_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(Absent, match="PyTorch can't be imported"):
        CuBlas(DEVICE)


class Clocked(Right):
    """Each call takes a millisecond of a clock of its own and computes `products`."""

    products = 4

    def __init__(self) -> None:
        super().__init__(DEVICE)
        self.now = 0.0
        self.waiting = 0

    def call(self) -> None:
        self.waiting += 1

    def finish(self) -> None:
        self.now += 0.5 + 0.001 * self.waiting
        self.waiting = 0


def test_time_is_of_one_product_and_without_what_each_finish_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = Clocked()
    monkeypatch.setattr("tuner.baselines.child.time.perf_counter", lambda: adapter.now)
    assert turn(adapter, 2) == pytest.approx((0.25, 0.25))


# The comparison.


class FakeBench:
    shares_cores = True

    def __init__(self, log: list[str], ms: float = 2.0, failures: Sequence[Verdict] = ()) -> None:
        self.log, self.ms, self.failures = log, ms, list(failures)

    def rounds(self, problem: Problem, contenders: Sequence[Any], count: int) -> list[tuple[float, ...]]:
        if self.failures:
            raise ContenderFailed(0, self.failures.pop(), "as told")
        self.log.append(f"ours {count}")
        return [(self.ms,)] * count


class MeasuringBench(fakes.FakeBench):
    """As a bench is used by commands: in a `with`."""

    def __enter__(self) -> MeasuringBench:
        return self

    def __exit__(self, *error: object) -> None:
        pass


class FakeLibrary:
    def __init__(self, log: list[str], name: str, ms: float = 3.0, *, fails_at: int = 99, absent: str = "") -> None:
        self.name, self.version, self.how, self.absent = name, "1", "alone", absent
        self._log, self._ms, self._fails_at = log, ms, fails_at
        self._turns = 0

    def ask_prepare(self, problem: Problem) -> None:
        self._log.append(f"{self.name} asked")

    def prepared(self) -> None:
        if self._fails_at < 0:
            raise LibraryFailed("wrong")

    def turn(self, count: int) -> tuple[float, ...]:
        if self._turns == self._fails_at:
            raise LibraryFailed("gone")
        self._turns += 1
        self._log.append(f"{self.name} {count}")
        return (self._ms,) * count


def test_all_take_turns_and_rest_between() -> None:
    log: list[str] = []
    libraries = [FakeLibrary(log, "one"), FakeLibrary(log, "two", 12.0), FakeLibrary(log, "none", absent="not here")]
    found = compare(PROBLEM, BUILT, FakeBench(log), libraries, rounds=3, sleep=lambda s: log.append("-"))
    assert log[:2] == ["one asked", "two asked"]
    assert [x for x in log[2:] if x != "-"] == [
        *("ours 1", "one 1", "two 1"),
        *("two 1", "one 3", "ours 3"),
        *("ours 3", "one 3", "two 1"),
    ]
    assert log[2::2] == ["-"] * 9
    one, two, none = found.libraries
    assert (one.time_ms, one.ratio, one.interval, one.noise) == (3.0, 1.5, (1.5, 1.5), 0.0)
    assert two.ratio == 6.0
    assert (none.absent, none.time_ms, none.ratio, none.interval, none.noise) == ("not here", *[None] * 4)
    assert json.dumps([standing.to_json(PROBLEM) for standing in found.libraries])


def test_a_library_that_fails_has_no_time_and_the_others_go_on() -> None:
    log: list[str] = []
    libraries = [FakeLibrary(log, "a", fails_at=-1), FakeLibrary(log, "b", fails_at=2), FakeLibrary(log, "c")]
    a, b, c = compare(PROBLEM, BUILT, FakeBench(log), libraries, rounds=5, sleep=lambda s: None).libraries
    assert (a.failed, a.time_ms) == ("wrong", None)
    assert (b.failed, b.time_ms) == ("gone", None)
    assert len(c.pairs_ms) == 5


def test_a_slow_library_sits_out_after_a_few_rounds() -> None:
    slow = FakeLibrary([], "slow")
    found = compare(PROBLEM, BUILT, FakeBench([]), [slow], rounds=9, seconds_each=0.0, sleep=lambda s: None)
    assert len(found.libraries[0].pairs_ms) == FEWEST_ROUNDS
    assert len(found.ours_ms) == 9


def test_an_impossible_time_of_ours_is_taken_again() -> None:
    bench = FakeBench([], failures=[Verdict.BAD_CLOCK] * 2)
    assert compare(PROBLEM, BUILT, bench, [], rounds=1, sleep=lambda s: None).time_ms == 2.0


def test_our_own_failure_is_raised() -> None:
    with pytest.raises(ContenderFailed):
        compare(PROBLEM, BUILT, FakeBench([], failures=[Verdict.CRASHED]), [], rounds=1, sleep=lambda s: None)


def test_the_ratio_is_the_median_over_rounds() -> None:
    standing = Standing("x", "1", "", pairs_ms=tuple((ratio * ours, ours) for ratio, ours in ((1, 9), (3, 1), (2, 5))))
    assert (standing.ratio, standing.time_ms) == (2.0, 9.0)


def test_parameters_of_clblast(tmp_path: Path) -> None:
    path = tmp_path / "tuned.json"
    path.write_text('{"float32": {"Xgemm": {"MWG": 64}}}')
    assert read_parameters(path) == {"float32": {"Xgemm": {"MWG": 64}}}


def result_of_a_tuner(time_ms: str, precision: str = "32") -> str:
    """As clblast_tuner_xgemm 1.5.3 writes it, without its measurements."""
    return (
        f'{{"kernel_family": "xgemm_1", "precision": "{precision}", "best_kernel": "Xgemm", "best_time": "{time_ms}",'
        ' "best_parameters": "GEMMK=0 MWG=64 PRECISION=32 VWN=4", "results": []}'
    )


def test_parameters_as_the_tuners_of_clblast_write_them(tmp_path: Path) -> None:
    (tmp_path / "clblast_xgemm_1_32.json").write_text(result_of_a_tuner("0.74"))
    (tmp_path / "clblast_xgemm_2_32.json").write_text(result_of_a_tuner("1.50").replace("GEMMK=0", "GEMMK=1"))
    (tmp_path / "clblast_xgemm_1_64.json").write_text(result_of_a_tuner("2.00", "64"))
    direct = result_of_a_tuner("3.00", "64").replace('"Xgemm"', '"XgemmDirectTN"')
    (tmp_path / "clblast_xgemm_direct_1_64.json").write_text(direct)
    found = {"Xgemm": {"GEMMK": 0, "MWG": 64, "VWN": 4}}
    assert read_parameters(tmp_path) == {"float32": found, "float64": {**found, "XgemmDirect": found["Xgemm"]}}
    assert read_parameters(tmp_path / "clblast_xgemm_1_32.json") == {"float32": found}


@pytest.mark.parametrize("spoil", [("0.74", "soon"), ("32", "3232"), ("GEMMK=0 MWG=64 PRECISION=32 VWN=4", "")])
def test_what_no_tuner_of_clblast_writes(spoil: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "clblast_xgemm_1_32.json"
    path.write_text(result_of_a_tuner("0.74").replace(*spoil))
    with pytest.raises(UserError, match="does not hold CLBlast's parameters"):
        read_parameters(path)


def test_a_folder_without_results(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no results of CLBlast's tuners"):
        read_parameters(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"Xgemm": {"MWG": 64}}', '{"float32": {"Xgemm": {"MWG": "64"}}}'])
def test_other_parameters_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "tuned.json"
    path.write_text(text)
    with pytest.raises(UserError, match=r"tuned\.json"):
        read_parameters(path)


# The command and the suite.


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """Runs `bench` on a fake device beside two fake libraries; returns status and store."""
    family = small_family(tmp_path)

    @contextmanager
    def libraries(*arguments: object, **options: object) -> Iterator[list[FakeLibrary]]:
        yield [FakeLibrary([], "CLBlast", 2 * valley(config)), FakeLibrary([], "MKL", absent="not here")]

    config = family.default(PROBLEM, DEVICE)
    monkeypatch.setattr(bench_command, "the_device", lambda text: DEVICE)
    monkeypatch.setattr(bench_command, "the_families", lambda names, folders: {family.name: family})
    monkeypatch.setattr(bench_command, "open_libraries", libraries)

    def run(*options: str, certifies: bool = True) -> tuple[int, str]:
        fake = MeasuringBench(certifies=lambda config: certifies)
        monkeypatch.setattr("tuner.bench.Bench.open", lambda device: fake)
        db = str(tmp_path / "a.db")
        return app.run(["bench", "64", "64", "64", "--db", db, *options]), db

    return run


def _certified(db: str) -> bool:
    return bool(Snapshot(snapshot_path(db)).index.certificates((DEVICE.silicon, DEVICE.software, PROBLEM)))


def test_bench_certifies_what_it_times(served: Any, capsys: pytest.CaptureFixture[str]) -> None:
    status, db = served("--json")
    found = json.loads(capsys.readouterr().out)
    assert status == 0
    assert found["ours"]["origin"] == "default"
    assert [(x["name"], x["absent"], x["ratio"]) for x in found["libraries"]] == [
        ("CLBlast", None, pytest.approx(2.0)),
        ("MKL", "not here", None),
    ]
    assert _certified(db)


def test_bench_prints_a_line_for_each(served: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert served()[0] == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines] == ["name", "gemm-tuner", "CLBlast", "MKL"]
    assert lines[2][4] == "2.00 ± 0.0%"
    assert lines[3][5] == "absent: not here"


def test_bench_times_nothing_that_is_wrong(served: Any, capsys: pytest.CaptureFixture[str]) -> None:
    status, db = served(certifies=False)
    assert status == 1
    assert "wrong_result, as told. Tune the product first." in capsys.readouterr().err
    assert not _certified(db)


def test_the_suite_goes_on_after_a_failure(any_device: Device, tmp_path: Path) -> None:
    shapes = tmp_path / "shapes.txt"
    shapes.write_text("999999999x99999x99999  # no device holds it\n16x17x18\n")
    options = ["--shapes", str(shapes), "--evals", "1", "--rounds", "5", "--libraries", "-", "--name", "short"]
    command = [sys.executable, "scripts/bench_suite", *options, "--out", str(tmp_path), "--device", any_device.address]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    failed, done = json.loads((tmp_path / "short.json").read_text())["shapes"]
    assert failed["failed"]
    assert done["evaluated"] == 1 and done["time_ms"] > 0
    assert "| 16×17×18 |" in (tmp_path / "short.md").read_text()
