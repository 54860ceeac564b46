"""A reading of the machine in the measuring process: a fixed kernel, copies, and multiply-adds alone."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tuner import timing
from tuner.bench.messages import Probe, Pulse, Stage
from tuner.data import template_folder
from tuner.model import Rendered, Step
from tuner.opencl.refusal import Refused
from tuner.opencl.run import Machine, Program

if TYPE_CHECKING:
    from tuner.bench.desk import Desk

SOURCE = "check/probe.cl"
PATIENCE_S = 60.0
"""Deadline of one sample, compiling included where a driver does it at the first launch."""

ITEMS_EACH = {"cpu": 1024}
ITEMS_EACH_OTHER = 2048
"""Work-items of the fixed kernel for each compute unit: some milliseconds of work, which never change."""
CALIBRATION_ROUNDS = 8
COPY_BYTES = {"cpu": 2**26}
COPY_BYTES_OTHER = 2**28
"""Copied at a time: more than any cache holds, or an eighth of the device's memory."""
SAMPLE_MS = 2.0
"""A sample lasts this long at least."""

WARM_S = 0.4
"""A processor that was idle raises its clock within this time; a reading is not to depend on what ran before."""

PEAK_MS = 5.0
PEAK_REPEATS = 5
CPU_SHAPES = ((16, 12), (16, 8), (8, 12), (4, 8))
OTHER_SHAPES = ((1, 8), (4, 4), (2, 8))
"""(elements of a vector, independent chains): the fastest of these is the peak; which, depends on the processor."""
PEAK_ITEMS_EACH = {"cpu": 16}
PEAK_ITEMS_EACH_OTHER = 4096
PEAK_TYPES = {"float32": "float", "float64": "double"}


def run_probe(desk: Desk, request: Probe) -> Pulse:
    """Samples of the fixed kernel and of copies, in turns, and the peak rates asked for."""
    source = (template_folder() / SOURCE).read_text("utf-8")
    desk.say(Stage("load", PATIENCE_S))
    work = _Work(desk, source)
    desk.leave("time")
    work.warm_up()
    kernel_ms, copy_ms = [], []
    for _ in range(request.samples):
        kernel_ms.append(work.kernel())
        copy_ms.append(work.copy())
    peaks = tuple((dtype, _peak(desk, source, dtype)) for dtype in request.peaks)
    message = "" if all(kernel_ms) and all(copy_ms) else "the device's clock gave impossible times"
    good = [tuple(ms for ms in samples if ms > 0) for samples in (kernel_ms, copy_ms)]
    return Pulse(good[0], good[1], 2 * work.bytes, peaks, message)


class _Work:
    """The fixed kernel and its operands, and two buffers to copy between."""

    def __init__(self, desk: Desk, source: str) -> None:
        self._desk, self._machine = desk, desk.machine
        device = self._machine.device
        kind = device.silicon.kind
        items = device.silicon.compute_units * ITEMS_EACH.get(kind, ITEMS_EACH_OTHER)
        group = min(64, device.facts.max_group_size)
        self._program = _loaded(self._machine, source, Step("calibrate", (items,), (group,)))
        operand = np.linspace(-1.0, 1.0, 64 * 256, dtype=np.float32)
        a, b = (self._machine.buffer(operand.nbytes, operand) for _ in range(2))
        out = self._machine.buffer(items * 16)
        self._keep = (a, b, out)
        self._program.steps[0][0].set_args(a, b, out, np.int32(CALIBRATION_ROUNDS))
        most = min(device.facts.max_alloc_bytes, device.facts.global_mem_bytes // 8)
        self.bytes = min(COPY_BYTES.get(kind, COPY_BYTES_OTHER), most)
        self._source, self._target = (self._machine.buffer(self.bytes) for _ in range(2))
        for buffer in (self._source, self._target):
            self._machine.fill(buffer, np.zeros(1, np.uint32), self.bytes)
        self._times = {"kernel": 1, "copy": 1}

    def warm_up(self) -> None:
        """Whatever the driver puts off to the first use; how often each must run to fill a sample; clocks at work."""
        for what in ("kernel", "copy"):
            sample = getattr(self, what)
            sample()
            once = sample()
            self._times[what] = max(1, min(1000, round(SAMPLE_MS / once))) if once > 0 else 1
        began = time.perf_counter()
        while time.perf_counter() - began < WARM_S:
            self.kernel()

    def kernel(self) -> float:
        """Milliseconds of one launch; 0 if the clock failed."""
        return self._sample(self._times["kernel"], lambda: self._machine.launch(self._program)[0])

    def copy(self) -> float:
        """Milliseconds of one copy; 0 if the clock failed."""
        return self._sample(self._times["copy"], lambda: self._machine.copy(self._source, self._target, self.bytes))

    def _sample(self, count: int, enqueue: Callable[[], object]) -> float:
        self._desk.say(Stage("time", PATIENCE_S))
        return _timed(self._machine, count, enqueue)


@functools.lru_cache(maxsize=1)
def _loaded(machine: Machine, source: str, step: Step) -> Program:
    """Built once in each process: a reading between two searches is to cost little."""
    return _load(machine, source, "", step)


def _timed(machine: Machine, count: int, enqueue: Callable[[], object]) -> float:
    events = [enqueue() for _ in range(count)]
    machine.finish()
    try:
        return timing.event_ms(*machine.interval_ns(events[0], events[-1])) / count  # type: ignore[arg-type]
    except timing.ClockError:
        return 0.0


def _load(machine: Machine, source: str, options: str, step: Step) -> Program:
    return machine.load(Rendered(source, options, (step,)), None)


def _peak(desk: Desk, source: str, dtype: str) -> tuple[float, ...]:
    """GFLOP/s of multiply-adds alone by the fastest shape, best repeat last; nothing where the type is lacking."""
    device = desk.machine.device
    if dtype not in PEAK_TYPES or (dtype == "float64" and not device.facts.fp64):
        return ()
    shapes = CPU_SHAPES if device.silicon.kind == "cpu" else OTHER_SHAPES
    rates: list[tuple[float, ...]] = []
    for width, chains in shapes:
        desk.say(Stage("load", PATIENCE_S))
        try:
            rates.append(_multiply_adds(desk, source, dtype, width, chains))
        except Refused as refused:
            if refused.poisoned:
                raise
    return max(rates, key=max, default=())


def _multiply_adds(desk: Desk, source: str, dtype: str, width: int, chains: int) -> tuple[float, ...]:
    machine = desk.machine
    device, kind = machine.device, machine.device.silicon.kind
    real = PEAK_TYPES[dtype]
    vector = real if width == 1 else f"{real}{width}"
    options = f"-D REAL={real} -D VECTOR={vector} -D CHAINS={chains}" + (" -D DOUBLE" if dtype == "float64" else "")
    items = device.silicon.compute_units * PEAK_ITEMS_EACH.get(kind, PEAK_ITEMS_EACH_OTHER)
    group = 1 if kind == "cpu" else min(256, device.facts.max_group_size)
    program = _load(machine, source, options, Step("multiply_add", (items,), (group,)))
    number = np.float64 if dtype == "float64" else np.float32
    out = machine.buffer(items * width * np.dtype(number).itemsize)

    def rate(rounds: int) -> tuple[float, float]:
        program.steps[0][0].set_args(out, number(0.5), number(1.0), np.int32(rounds))
        desk.say(Stage("time", PATIENCE_S))
        ms = _timed(machine, 1, lambda: machine.launch(program)[0])
        return ms, 2.0 * items * width * chains * rounds / ms / 1e6 if ms > 0 else 0.0

    rounds = 256
    while (ms := rate(rounds)[0]) < PEAK_MS and rounds < 2**26:
        rounds *= 2 if ms <= 0 else max(2, min(64, round(PEAK_MS / ms)))
    return tuple(sorted(found for _, found in (rate(rounds) for _ in range(PEAK_REPEATS)) if found > 0))
