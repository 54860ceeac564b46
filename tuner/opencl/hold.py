"""A device kept busy while commands are queued behind: short kernels timed at the device's pace, not the host's.

Enqueuing costs the host some microseconds, from Python ten and more. Kernels shorter than that would wait for it, and
all would seem to take the same time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl

_SOURCE = """
__kernel void hold(const int rounds, __global uint* x)
{
    uint y = x[0];
    for (int i = 0; i < rounds; i++)
        y = (y ^ (uint)i) * 1664525u + 1013904223u;
    x[0] = y;
}
"""
_FIRST_ROUNDS = 1_000
_MOST_ROUNDS = 100_000_000
_CALIBRATING_MS = 2.0
ROOM = 1.5
"""A device is kept busy for longer by this factor than enqueuing what is to run behind takes the host."""
_TRIES = 4
_LONGEST_MS = 200.0


class Hold:
    """Kernels of one work-item that last as long as they are asked to."""

    def __init__(self, context: cl.Context, handle: cl.Device) -> None:
        """Build the kernel. Raises pyopencl.Error if the driver refuses."""
        self._kernel = cl.Kernel(cl.Program(context, _SOURCE).build(devices=[handle]), "hold")
        self._buffer = cl.Buffer(
            context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=np.zeros(1, "u4")
        )
        self._queue = cl.CommandQueue(context, handle)
        self._ms: dict[int, float] = {}
        self._round_ms = 0.0
        self._in_vain = False

    def prepare(self) -> None:
        """See how long rounds take, once, where it disturbs no timing."""
        if not self._round_ms:
            self._round_ms = self._calibrate(self._queue)

    def enqueue(self, queue: Any, ms: float) -> cl.Event:
        """Keep the device busy for about `ms` milliseconds."""
        self.prepare()
        self._kernel.set_args(np.int32(min(ms / self._round_ms, _MOST_ROUNDS)), self._buffer)
        return cl.enqueue_nd_range_kernel(queue, self._kernel, (1,), (1,))

    def seconds(self, queue: Any, calls: int, enqueue: Callable[[], object]) -> float:
        """The host's time from when the device turns to what `enqueue` queues, `calls` calls, until all is done.

        Where enqueuing waits for the device itself, which no hold outlasts, it is the time from the first call on.
        """
        for _ in range(0 if self._in_vain else _TRIES):
            begun = time.perf_counter()
            held = self.enqueue(queue, self._ms.get(calls, 1.0))
            enqueue()
            queue.flush()
            took_ms = (time.perf_counter() - begun) * 1e3
            if not _is_done(held):
                while not _is_done(held):
                    pass
                before = time.perf_counter()
                queue.finish()
                return time.perf_counter() - before
            queue.finish()
            self._ms[calls] = min(ROOM * max(took_ms, self._ms.get(calls, 1.0)), _LONGEST_MS)
        self._in_vain = True
        before = time.perf_counter()
        enqueue()
        queue.finish()
        return time.perf_counter() - before

    def _calibrate(self, queue: Any) -> float:
        """Milliseconds of one round, by the host's clock: ever more rounds, until starting them hardly counts."""
        self._round_ms = 1.0  # so that milliseconds are rounds
        rounds = _FIRST_ROUNDS
        self.enqueue(queue, 1.0)  # some drivers compile now
        queue.finish()
        while True:
            before = time.perf_counter()
            self.enqueue(queue, float(rounds))
            queue.finish()
            took_ms = (time.perf_counter() - before) * 1e3
            if took_ms >= _CALIBRATING_MS or rounds >= _MOST_ROUNDS:
                return max(took_ms, _CALIBRATING_MS) / rounds
            rounds *= 4


def _is_done(event: cl.Event) -> bool:
    return bool(event.command_execution_status <= cl.command_execution_status.COMPLETE)
