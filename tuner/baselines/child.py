"""The process of one library: opens it, then prepares and times products until its parent has no more to ask."""

from __future__ import annotations

import importlib
import math
import os
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from tuner import timing
from tuner.baselines.adapter import Absent, Adapter, Factory, Parameters
from tuner.bench.devices import prepare_child
from tuner.bench.race import CALLS_MS, SHORTEST_MS
from tuner.model import Device, Problem
from tuner.verify import Reference

SEED = 0
"""Of the operands; the same that our own kernels are timed with."""

CLOCK_TRIES = 9
"""On a busy machine 2N short calls may seem to take less time than N, again and again."""


@dataclass(frozen=True)
class Prepare:
    """Request: load the operands of a product and check the library's result; answered by `Ready`."""

    problem: Problem


@dataclass(frozen=True)
class Turn:
    """Request: `count` samples of the product prepared last; answered by `Samples`."""

    count: int


@dataclass(frozen=True)
class Lacking:
    """Answer: the library is not here; the process ends."""

    reason: str


@dataclass(frozen=True)
class Ready:
    """Answer: what the library is and how it runs; it is open, or its result was right."""

    version: str
    how: str


@dataclass(frozen=True)
class Samples:
    """Answer: milliseconds of one product, by the slope of the host's time."""

    ms: tuple[float, ...]


@dataclass(frozen=True)
class Failed:
    """Answer: what the library said, or what is wrong with its result; the process ends."""

    reason: str


Reply = Lacking | Ready | Samples | Failed


def main(
    pipe: Connection, adapter: str, device: Device, parameters: Parameters | None, vendors: Path, cache: Path
) -> None:
    """Target of the spawned process. `adapter` is `module:Class`, imported here and nowhere else."""
    prepare_child(vendors, cache)
    try:
        _serve(pipe, adapter, device, parameters)
    except (EOFError, BrokenPipeError):
        pass  # the parent is gone, or has no more to ask
    except Absent as absent:
        pipe.send(Lacking(str(absent)))
    except Exception as error:  # whatever a library raises is its failure, and the end of its process
        pipe.send(Failed(_described(error)))
    os._exit(0)


def _serve(pipe: Connection, name: str, device: Device, parameters: Parameters | None) -> None:
    module, _, attribute = name.partition(":")
    factory: Factory = getattr(importlib.import_module(module), attribute)
    adapter = factory(device, parameters)
    pipe.send(Ready(adapter.version, adapter.how))
    while True:
        request = pipe.recv()
        if isinstance(request, Prepare):
            _prepare(adapter, request.problem)
            pipe.send(Ready(adapter.version, adapter.how))
        else:
            pipe.send(Samples(turn(adapter, request.count)))


def _prepare(adapter: Adapter, problem: Problem) -> None:
    """Correct first, timed after: raises ArithmeticError for a result outside the bound that our kernels must keep."""
    if problem.dtype not in adapter.dtypes:
        raise Absent(f"{adapter.name} multiplies {' and '.join(sorted(adapter.dtypes))} here, not {problem.dtype}")
    reference = Reference(problem, SEED, "floats")
    a, b = reference.operands.a, reference.operands.b
    assert a is not None and b is not None
    adapter.prepare(problem, a, b)
    adapter.call()
    adapter.finish()
    checked = reference.check.accept(adapter.result())
    if not checked.ok:
        raise ArithmeticError(f"its result is wrong: {checked.message}")


def turn(adapter: Adapter, count: int) -> tuple[float, ...]:
    """Milliseconds of one product, `count` times, warmed up as our own kernels are. Raises timing.ClockError."""
    one_ms = _seconds(adapter, 1) * 1e3
    calls = max(1, math.ceil(CALLS_MS / max(one_ms, SHORTEST_MS)))
    if hasattr(adapter, "seconds"):
        calls = min(calls, timing.MOST_HELD_LAUNCHES // 4)  # a call may be several launches
    _seconds(adapter, calls)
    return tuple(_slope_ms(adapter, calls) / adapter.products for _ in range(count))


def _slope_ms(adapter: Adapter, calls: int) -> float:
    """An impossible time is taken again before it is an error."""
    for attempt in range(CLOCK_TRIES):
        single, double = _seconds(adapter, calls), _seconds(adapter, 2 * calls)
        try:
            return timing.slope_ms(single * 1e3, double * 1e3, calls)
        except timing.ClockError:
            if attempt == CLOCK_TRIES - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


def _seconds(adapter: Adapter, calls: int) -> float:
    """The host's time; an adapter whose calls take longer to enqueue than to run takes it itself."""
    held: float | None = adapter.seconds(calls) if hasattr(adapter, "seconds") else None
    if held is not None:
        return held
    before = time.perf_counter()
    for _ in range(calls):
        adapter.call()
    adapter.finish()
    return time.perf_counter() - before


def _described(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return lines[0] if isinstance(error, ArithmeticError) else f"{type(error).__name__}: {lines[0]}"
