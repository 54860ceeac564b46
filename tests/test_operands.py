"""Operands on their way to a device and back: sent piece by piece, restored, and every bit of them looked at."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tuner.bench import operands as bench_operands
from tuner.bench.operands import OperandStore
from tuner.model import Problem
from tuner.opencl.run import Machine
from tuner.verify import Name, layout

PROBLEMS = [
    Problem(37, 41, 43, align=4),
    Problem(20, 28, 12, batch=5),
    Problem(9, 1, 5),
    Problem(19, 23, 17, batch=2, dtype="bfloat16", align=2, trans_a=True, trans_b=True),
]


class _Memory:
    """A device that only remembers."""

    device = SimpleNamespace(facts=SimpleNamespace(global_mem_bytes=2**30))

    def buffer(self, size: int) -> Any:
        return np.full(size, 0x5A, np.uint8)

    def fill(self, buffer: Any, pattern: Any, size: int) -> None:
        buffer[:size].view(pattern.dtype)[...] = pattern

    def write(self, buffer: Any, host: Any, byte_offset: int = 0) -> None:
        buffer[byte_offset : byte_offset + host.nbytes] = host.view(np.uint8)

    def read(self, buffer: Any, host: Any, byte_offset: int = 0) -> None:
        host.view(np.uint8)[...] = buffer[byte_offset : byte_offset + host.nbytes]

    def copy(self, source: Any, target: Any, size: int) -> None:
        target[:size] = source[:size]


@pytest.fixture(params=[2**20, 300, 20])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> OperandStore:
    """With pieces of all matrices at once, of some, and of single rows."""
    monkeypatch.setattr(layout, "PIECE_ELEMENTS", request.param)
    monkeypatch.setattr(bench_operands, "PIECE_ELEMENTS", request.param)
    return OperandStore(cast(Machine, _Memory()))


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
@pytest.mark.parametrize("pad_rows", [False, True])
def test_what_is_sent_is_the_flat_buffer(store: OperandStore, problem: Problem, pad_rows: bool) -> None:
    for values, kind in (("integers", "beta"), ("floats", "plain"), ("integers", "alpha_zero")):
        loaded = store.get(problem, 3, values, kind, pad_rows)  # type: ignore[arg-type]
        given = loaded.reference.operands
        store.reset_c(loaded)
        sent = {"a": loaded.a, "b": loaded.b, "c": loaded.c}
        for name, flat in (("a", given.flat_a), ("b", given.flat_b), ("c", given.flat_c)):
            assert cast(Any, sent[name]).tobytes() == flat(loaded.layout).tobytes(), (values, kind, name)
        assert store.is_intact(loaded)


@pytest.mark.parametrize("pad_rows", [False, True])
def test_a_changed_bit_anywhere_is_seen_and_restored(store: OperandStore, pad_rows: bool) -> None:
    problem = Problem(5, 6, 7, batch=3, align=4)
    loaded = store.get(problem, 3, "integers", "add", pad_rows)
    names: list[Name] = [name for name, _ in loaded.given()]
    assert names == ["a", "b", "c"]
    for name, buffer in loaded.given():
        memory = cast(Any, buffer)
        slab = loaded.layout.slab(name)
        second, end = slab.base + slab.stride, slab.elements - slab.ld
        edges = (slab.base - 1, slab.base, slab.base + slab.columns, second - 1, second, second + slab.ld, end)
        for element in (0, *edges, slab.elements - 1):
            memory[4 * element + 1] ^= 4
            assert not store.is_intact(loaded), (name, element)
            memory[4 * element + 1] ^= 4
        memory[:] = 0
        store.restore(loaded)
        assert store.is_intact(loaded)
    assert cast(Any, loaded.a).tobytes() == loaded.reference.operands.flat_a(loaded.layout).tobytes()
