"""The checker on a machine of plain memory: what is judged, and what is only compared with what was judged before."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import numpy as np
import pytest

from tests.fakes import DEVICE
from tuner.bench.checker import MOST_ACCEPTED_ON_HOST, Checker
from tuner.bench.operands import Bound, Loaded
from tuner.model import Problem
from tuner.opencl.run import Machine
from tuner.verify import Reference

PROBLEM = Problem.packed(24, 20, 16)
Kernel = Any
"""A function of the layout's views of A, B and C."""


class Memory:
    """What the checker needs of a machine; buffers are arrays of bytes, and a program is a function."""

    specialises_at_launch = False

    def __init__(self) -> None:
        facts = replace(DEVICE.facts, shares_cores=True, global_mem_bytes=2**30)
        self.device = replace(DEVICE, facts=facts)

    def buffer(self, size: int, host: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        return np.zeros(size, np.uint8) if host is None else host.view(np.uint8).copy()

    def fill(
        self, buffer: np.ndarray[Any, Any], pattern: np.ndarray[Any, Any], size: int, byte_offset: int = 0
    ) -> None:
        buffer[byte_offset : byte_offset + size].view(pattern.dtype)[:] = pattern

    def write(self, buffer: np.ndarray[Any, Any], host: np.ndarray[Any, Any], byte_offset: int = 0) -> None:
        buffer[byte_offset : byte_offset + host.nbytes] = np.ascontiguousarray(host).view(np.uint8).ravel()

    def read(self, buffer: np.ndarray[Any, Any], host: np.ndarray[Any, Any], byte_offset: int = 0) -> None:
        host.view(np.uint8)[...] = buffer[byte_offset : byte_offset + host.nbytes]

    def launch(self, program: Any) -> list[object]:
        program()
        return [object()]

    def wait(self, event: object) -> None: ...

    def finish(self) -> None: ...

    def interval_ns(self, first: object, last: object) -> tuple[int, int]:
        return 0, 1000


class Call:
    """A bound program that computes C by a function of float32 matrices."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def point_at(self, loaded: Loaded) -> None:
        self._loaded = loaded

    def program(self) -> None:
        loaded = cast(Any, self._loaded)
        a, b, c = (
            slab.view(buffer.view(np.float32))
            for slab, buffer in zip(
                (loaded.layout.a, loaded.layout.b, loaded.layout.c), (loaded.a, loaded.b, loaded.c), strict=True
            )
        )
        self._kernel(a, b, c)

    def reset_scratch(self, kind: object) -> None: ...

    def misused_scratch(self) -> None:
        return None


def forwards(a: Any, b: Any, c: Any) -> None:
    """Sums in order of k, one multiply-add after the other."""
    total = np.zeros(c.shape, np.float32)
    for i in range(PROBLEM.k):
        total += a[..., :, i, None] * b[..., i, None, :]
    c[...] = total


def backwards(a: Any, b: Any, c: Any) -> None:
    """The same sums from the other end, so with other roundings."""
    forwards(a[..., ::-1], b[..., ::-1, :], c)


def wrong(a: Any, b: Any, c: Any) -> None:
    """Right but for one element that is a little too large."""
    forwards(a, b, c)
    c[..., 3, 5] *= np.float32(1.001)


@pytest.fixture
def judged() -> Any:
    """Counts how often a whole result was judged on the host."""
    counted = SimpleNamespace(times=0)
    judge = Reference.accept

    def accept(self: Reference, *args: Any) -> Any:
        counted.times += 1
        return judge(self, *args)

    with mock.patch.object(Reference, "accept", accept):
        yield counted


def checker() -> tuple[Checker, Loaded]:
    found = Checker(cast(Machine, Memory()), lambda stage: None)
    return found, found.load(PROBLEM, "floats", pad_rows=False)


def check(found: Checker, loaded: Loaded, kernel: Kernel) -> Any:
    return found.check(cast(Bound, Call(kernel)), loaded, 1.0)


def test_a_result_that_was_judged_right_is_not_judged_again(judged: Any) -> None:
    found, loaded = checker()
    first, second, other = (check(found, loaded, kernel) for kernel in (forwards, forwards, backwards))
    assert first.ok and first == second and first.error_ratio is not None
    assert other.ok and judged.times == 2 and check(found, loaded, backwards) == other and judged.times == 2


def test_a_wrong_result_beside_a_right_one_is_judged_and_is_wrong(judged: Any) -> None:
    found, loaded = checker()
    assert check(found, loaded, forwards).ok
    assert not check(found, loaded, wrong).ok and judged.times == 2
    assert not check(found, found.load(PROBLEM, "floats", pad_rows=False), wrong).ok  # it was not remembered


def test_a_kernel_that_does_nothing_is_not_right_because_another_was() -> None:
    found, loaded = checker()
    assert check(found, loaded, forwards).ok
    assert not check(found, loaded, lambda a, b, c: None).ok


def test_only_a_few_results_are_kept(judged: Any) -> None:
    found, loaded = checker()
    for step in range(2, 8):  # each adds in another order

        def kernel(a: Any, b: Any, c: Any, step: int = step) -> None:
            forwards(np.roll(a, step, axis=-1), np.roll(b, step, axis=-2), c)

        assert check(found, loaded, kernel).ok
    assert len(loaded.accepted) <= MOST_ACCEPTED_ON_HOST and judged.times >= 2
