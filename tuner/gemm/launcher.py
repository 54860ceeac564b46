"""Kernels ready to be enqueued: programs built once a context, kernels made once a thread, scratch once a queue."""

from __future__ import annotations

import math
import threading
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import pyopencl as cl

from tuner.gemm.operands import Call
from tuner.model import DTYPES, MachineError, Problem, Rendered, UserError

A, ALPHA, B, BETA, C, SCRATCH = 4, 3, 8, 12, 13, 17
"""Places in the argument list of every kernel; see `GEMM_ARGUMENTS` in templates/common.cl.j2."""

MOST_PROGRAMS = 512
MOST_QUEUES = 64

Events = Sequence[cl.Event] | None


def real_type(dtype: str) -> np.dtype[Any]:
    """The type of alpha and beta, in which sums are computed."""
    return np.dtype(DTYPES[dtype].real)


class Programs:
    """Built programs by context, source and options; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._built: OrderedDict[tuple[Any, str, str], cl.Program] = OrderedDict()

    def get(self, queue: cl.CommandQueue, rendered: Rendered) -> cl.Program:
        """The program of a source on a queue's device, built at most once. Raises MachineError."""
        device = queue.device
        key = ((queue.context, device), rendered.source, rendered.build_options)
        with self._lock:
            if key not in self._built:
                self._built[key] = _build(queue.context, device, rendered)
            self._built.move_to_end(key)
            if len(self._built) > MOST_PROGRAMS:
                self._built.popitem(last=False)
            return self._built[key]


def _build(context: cl.Context, device: cl.Device, rendered: Rendered) -> cl.Program:
    program = cl.Program(context, rendered.source)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cl.CompilerWarning)  # it was certified with whatever the compiler says
            program.build(rendered.build_options, [device])
    except cl.Error as error:
        first = str(error).strip().splitlines()[0]
        raise MachineError(f"a kernel that was certified on {device.name} does not build here: {first}") from error
    return program


class QueueState:
    """What all calls on one queue share: the scratch buffers, used by one call after another."""

    def __init__(self, queue: cl.CommandQueue) -> None:
        """Allocate nothing yet."""
        self.lock = threading.Lock()
        self.context = queue.context
        self.out_of_order = bool(queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
        self.last: cl.Event | None = None
        """On an out-of-order queue the end of the last call that used scratch."""
        self._scratch: dict[tuple[str, bool], tuple[int, cl.Buffer]] = {}

    def scratch(self, name: str, size: int, *, zeroed: bool) -> cl.Buffer:
        """A buffer of at least `size` bytes, all zeros before its first use if it is to be.

        The driver keeps one that is replaced while commands use it.
        """
        found = self._scratch.get((name, zeroed))
        if found is None or found[0] < size:
            flags = cl.mem_flags.READ_WRITE | (cl.mem_flags.COPY_HOST_PTR if zeroed else 0)
            zeros = np.zeros(size, np.uint8) if zeroed else None
            found = self._scratch[name, zeroed] = (size, cl.Buffer(self.context, flags, size, zeros))
        return found[1]


class Queues:
    """The state of each queue; it keeps the queue, so that no other can take its place."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: OrderedDict[cl.CommandQueue, QueueState] = OrderedDict()

    def state(self, queue: cl.CommandQueue) -> QueueState:
        """The state of `queue`."""
        with self._lock:
            if queue not in self._states:
                self._states[queue] = QueueState(queue)
            self._states.move_to_end(queue)
            if len(self._states) > MOST_QUEUES:
                self._states.popitem(last=False)
            return self._states[queue]


@dataclass(frozen=True)
class _Step:
    kernel: cl.Kernel
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    scratch: tuple[tuple[str, int, bool], ...]
    """Name and bytes of each scratch buffer, in order, and whether it begins as zeros."""


class Launcher:
    """One product on one queue in one thread: kernels whose arguments are set but for buffers, alpha and beta."""

    def __init__(self, program: cl.Program, rendered: Rendered, call: Call, state: QueueState) -> None:
        """Make the kernels: OpenCL lets no two threads set arguments of one."""
        self.source_hash = rendered.source_hash
        sizes = dict(rendered.scratch)
        self._steps = [
            _Step(
                cl.Kernel(program, step.kernel),
                step.global_size,
                step.local_size,
                tuple((name, sizes[name], name in rendered.zeroed) for name in step.scratch),
            )
            for step in rendered.steps
        ]
        self._state = state
        self._real = real_type(call.problem.dtype).type
        self._scalars: tuple[float, float] | None = None
        self._single = len(self._steps) == 1 and not self._steps[0].scratch
        for step in self._steps:
            for place, number in _numbers(call.problem, call):
                step.kernel.set_arg(place, number)

    def enqueue(
        self, queue: cl.CommandQueue, buffers: tuple[Any, Any, Any], alpha: float, beta: float, wait_for: Events
    ) -> cl.Event:
        """Enqueue the product of these buffers; returns the event of its end."""
        if (alpha, beta) != self._scalars:
            self._set_scalars(alpha, beta)
        if self._single:
            return self._launch(queue, self._steps[0], buffers, wait_for)
        state = self._state
        with state.lock:  # on an in-order queue nobody else's steps come between ours, and that is all it takes
            if not state.out_of_order:
                for step in self._steps:
                    event = self._launch(queue, step, buffers, wait_for)
                    wait_for = None
                return event
            waits: list[cl.Event] = [*(wait_for or ()), *((state.last,) if state.last else ())]
            for step in self._steps:
                state.last = self._launch(queue, step, buffers, waits)
                waits = [state.last]
            return waits[0]

    def _launch(self, queue: cl.CommandQueue, step: _Step, buffers: tuple[Any, Any, Any], wait_for: Events) -> cl.Event:
        kernel = step.kernel
        kernel.set_arg(A, buffers[0])
        kernel.set_arg(B, buffers[1])
        kernel.set_arg(C, buffers[2])
        for number, (name, size, zeroed) in enumerate(step.scratch, SCRATCH):
            kernel.set_arg(number, self._state.scratch(name, size, zeroed=zeroed))
        sizes = step.global_size, step.local_size
        event: cl.Event = cl.enqueue_nd_range_kernel(queue, kernel, *sizes, wait_for=wait_for)
        return event

    def _set_scalars(self, alpha: float, beta: float) -> None:
        real_alpha, real_beta = (_scalar(name, value, self._real) for name, value in (("alpha", alpha), ("beta", beta)))
        for step in self._steps:
            step.kernel.set_arg(ALPHA, real_alpha)
            step.kernel.set_arg(BETA, real_beta)
        self._scalars = (alpha, beta)


def _scalar(name: str, value: Any, real: Any) -> Any:
    """alpha or beta as kernels take it. Raises UserError for what is no real number, or too large for its type."""
    if not isinstance(value, (Real, np.floating, np.integer)):
        raise UserError(f"{name} must be a real number, not {value!r}.")
    with np.errstate(over="ignore"):
        converted = real(value)
    if np.isinf(converted) and not math.isinf(value):
        raise UserError(f"{name} = {value} is too large for {converted.dtype.name}.")
    return converted


def _numbers(problem: Problem, call: Call) -> list[tuple[int, Any]]:
    """The arguments that a call's shape decides, with their places."""
    found: list[tuple[int, Any]] = [(0, np.int32(problem.m)), (1, np.int32(problem.n)), (2, np.int32(problem.k))]
    for place, one in ((A, call.a), (B, call.b), (C, call.c)):
        found += [(place + 1, np.int64(one.offset)), (place + 2, np.int32(one.ld)), (place + 3, np.int64(one.stride))]
    return found
