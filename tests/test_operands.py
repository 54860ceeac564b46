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

    def __init__(self, *, own: bool) -> None:
        self.device = SimpleNamespace(facts=SimpleNamespace(global_mem_bytes=2**30, shares_cores=not own))
        self.reads = 0
        self.blind = False

    def comparison(self, source: str, word: int, *, signed_zeros: bool) -> Any:
        assert signed_zeros

        def count(expected: Any, found: Any, elements: int, size: int) -> int:
            bits = (buffer[: elements * size].view(f"u{size}") for buffer in (expected, found))
            return 0 if self.blind else int(np.count_nonzero(np.not_equal(*bits)))

        return SimpleNamespace(count=count)

    def buffer(self, size: int) -> Any:
        return np.full(size, 0x5A, np.uint8)

    def duplicate(self, buffer: Any, size: int) -> Any:
        return buffer[:size].copy()

    def fill(self, buffer: Any, pattern: Any, size: int) -> None:
        buffer[:size].view(pattern.dtype)[...] = pattern

    def write(self, buffer: Any, host: Any, byte_offset: int = 0) -> None:
        buffer[byte_offset : byte_offset + host.nbytes] = host.view(np.uint8)

    def read(self, buffer: Any, host: Any, byte_offset: int = 0) -> None:
        self.reads += 1
        host.view(np.uint8)[...] = buffer[byte_offset : byte_offset + host.nbytes]

    def copy(self, source: Any, target: Any, size: int) -> None:
        target[:size] = source[:size]


@pytest.fixture(params=[(2**20, False), (300, False), (20, False), (300, True)])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> OperandStore:
    """With pieces of all matrices at once, of some, and of single rows; on a device with memory of its own."""
    elements, own = request.param
    monkeypatch.setattr(layout, "PIECE_ELEMENTS", elements)
    monkeypatch.setattr(bench_operands, "PIECE_ELEMENTS", elements)
    return OperandStore(cast(Machine, _Memory(own=own)))


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


def test_a_device_with_memory_of_its_own_compares_there() -> None:
    memory = _Memory(own=True)
    store = OperandStore(cast(Machine, memory))
    loaded = store.get(PROBLEMS[0], 3, "integers", "add", False)
    assert set(loaded.copies) == {"a", "b", "c"}
    assert store.is_intact(loaded)
    memory.reads = 0
    assert store.is_intact(loaded) and memory.reads == 0
    spoiled = cast(Any, loaded.copies["b"])
    spoiled[5] ^= 1
    assert not store.is_intact(loaded)
    store.restore(loaded)
    assert store.is_intact(loaded)
    memory.device.facts.global_mem_bytes = 2**19  # no room for copies
    assert not store.get(PROBLEMS[0], 4, "integers", "plain", False).copies


def test_a_blind_comparison_is_found_out() -> None:
    memory = _Memory(own=True)
    memory.blind = True
    store = OperandStore(cast(Machine, memory))
    with pytest.raises(RuntimeError, match="turned bit"):
        store.is_intact(store.get(PROBLEMS[0], 3, "integers", "add", False))


@pytest.mark.parametrize("own", [False, True])
def test_kinds_of_call_share_what_they_have_in_common(own: bool) -> None:
    store = OperandStore(cast(Machine, _Memory(own=own)))
    one, other, alone, lonely, padded = (
        store.get(PROBLEMS[0], 3, "integers", kind, pad)
        for kind, pad in (("add", False), ("update", False), ("plain", False), ("twice", False), ("add", True))
    )
    assert one.a is other.a is not alone.a is lonely.a and one.b is other.b is not alone.b is lonely.b
    assert one.before is other.before and alone.before is None
    assert one.c is not other.c and padded.before is not one.before
    assert all(one.copies[name] is other.copies[name] for name in one.copies)
    store.reset_c(one)
    assert cast(Any, one.c).tobytes() == one.reference.operands.flat_c(one.layout).tobytes()
