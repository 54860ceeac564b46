"""A process that judges a kernel in one way at a time: left alone, the checker takes the cheapest way that serves."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from enum import StrEnum
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from tuner.bench.devices import prepare_child
from tuner.bench.process import QuietContext, death_of, kill, start
from tuner.bench.words import last_words, words_file
from tuner.model import Device, Problem, Rendered
from tuner.opencl import drivers
from tuner.verify import CheckResult, Values, checks, references

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from tuner.bench.checker import Checker
    from tuner.bench.operands import Bound, Loaded

LAUNCH_S = 60.0


class Way(StrEnum):
    """A path by which the checker may accept a result, by the name of what then judges."""

    HOST = "Whole"
    """C read back and compared with the host's reference."""
    FREIVALDS = "Freivalds"
    """C read back and multiplied by two random vectors."""
    DEVICE = "Buffer"
    """C compared on the device with what a right kernel left there before."""
    FLAT = "ndarray"
    """The same on the host, for devices that share its cores."""
    CLOSE = "Close"
    """All of C within the bound."""
    ROWS = "Close, rows"
    """Sampled rows of C within the bound, the rest never read."""


INTEGER_WAYS = (Way.HOST, Way.FREIVALDS, Way.DEVICE, Way.FLAT)
FLOAT_WAYS = (Way.CLOSE, Way.ROWS)


@dataclass(frozen=True)
class Sample:
    """What kernels are judged on, and in which way."""

    problem: Problem
    way: Way
    kind: str = "plain"

    @property
    def values(self) -> Values:
        return "floats" if self.way in FLOAT_WAYS else "integers"

    @property
    def pad_rows(self) -> bool:
        """As in a trial: integers with guards between rows, floats in the layout that is timed."""
        return self.values == "integers"


@dataclass(frozen=True)
class Judged:
    """What came of one sample."""

    by: str
    """What judged, to be compared with the way that was asked for."""
    right: CheckResult
    """Of a right kernel, run and judged in the same way just before."""
    candidate: CheckResult


Program = tuple[Rendered, bytes | None]


class Laboratory:
    """The parent's end."""

    def __init__(self, process: BaseProcess, pipe: Connection, words: Path) -> None:
        self._process = process
        self._words = words
        self._pipe = pipe

    def judge(self, samples: Sequence[Sample], right: Program, candidate: Program) -> list[Judged]:
        """Judge `candidate` on each sample, after `right` on the same one."""
        self._pipe.send((list(samples), right, candidate))
        try:
            answer = self._pipe.recv()
        except EOFError:
            raise AssertionError(
                f"the laboratory is gone: {death_of(self._process)}{last_words(self._words)}"
            ) from None
        assert isinstance(answer, list)
        return answer


@contextmanager
def laboratory(device: Device) -> Iterator[Laboratory]:
    """A laboratory on `device`."""
    with tempfile.TemporaryDirectory(prefix="gemm-tuner-test-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        drivers.write_icd_files(folder / "drivers")
        pipe, childs_end = QuietContext().Pipe()
        process = start(_serve, childs_end, device, folder / "drivers", folder / "cache")
        childs_end.close()
        try:
            yield Laboratory(process, pipe, words_file(folder / "cache"))
        finally:
            kill(process)
            pipe.close()


def _serve(pipe: Connection, device: Device, vendors: Path, cache: Path) -> None:
    prepare_child(vendors, cache)
    bench = _Workbench(device)
    while True:
        samples, right, candidate = pipe.recv()
        first, second = bench.load(right), bench.load(candidate)
        pipe.send([bench.judge(sample, first, second) for sample in samples])


class _Workbench:
    """The child's end: one machine, and a checker for each way, so that none profits from another's work."""

    def __init__(self, device: Device) -> None:
        from tuner.bench.checker import Checker
        from tuner.opencl.run import Machine

        self._machine = Machine(device)
        self._checkers: dict[Way, Checker] = {way: Checker(self._machine, lambda _: None) for way in Way}

    def load(self, program: Program) -> Bound:
        from tuner.bench.operands import Bound

        return Bound(self._machine, self._machine.load(*program))

    def judge(self, sample: Sample, right: Bound, candidate: Bound) -> Judged:
        checker, device = self._checkers[sample.way], self._machine.device
        facts = replace(device.facts, shares_cores=sample.way is not Way.DEVICE)
        self._machine.device = replace(device, facts=facts)
        with _thresholds(sample.way):
            loaded = checker.load(sample.problem, sample.values, pad_rows=sample.pad_rows, kind=sample.kind)
        loaded.accepted.clear()
        first = checker.check(right, loaded, LAUNCH_S)
        if sample.way not in (Way.DEVICE, Way.FLAT):
            loaded.accepted.clear()
        by = _judge_of(loaded)
        return Judged(by, first, checker.check(candidate, loaded, LAUNCH_S))


def _thresholds(way: Way) -> AbstractContextManager[object]:
    """Make the smallest problem one of those that are too large to be computed whole on the host."""
    if way is Way.FREIVALDS:
        return mock.patch.object(references, "WHOLE_FLOP", 0)
    if way is Way.ROWS:
        return mock.patch.object(checks, "WHOLE_FLOP", 0)
    return nullcontext()


def _judge_of(loaded: Loaded) -> str:
    exact = loaded.accepted if loaded.reference.operands.values == "integers" else []  # floats are judged as well
    judge = exact[0].c if exact else loaded.reference.check
    return type(judge).__name__ + ", rows" * (loaded.reference.rows is not None)
