"""Build, load and launch on one device; OpenCL's errors become verdicts here and nowhere else."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyopencl as cl

from tuner.model import Built, CompilerInfo, Device, Rendered, Step, Verdict
from tuner.opencl.describe import find
from tuner.opencl.hold import ROOM, Hold
from tuner.opencl.logs import first_error, one_line, read_compiler_log, trim
from tuner.opencl.refusal import Refused

_COMPARING_ITEMS = 64 * 1024
"""Work-items of a comparison: enough to fill any device of today."""

_OUR_MISTAKES = frozenset(
    {
        cl.status_code.INVALID_KERNEL_NAME,
        cl.status_code.INVALID_KERNEL_ARGS,
        cl.status_code.INVALID_ARG_INDEX,
        cl.status_code.INVALID_ARG_VALUE,
        cl.status_code.INVALID_ARG_SIZE,
    }
)
_NO_MEMORY = frozenset(
    {
        cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE,
        cl.status_code.INVALID_BUFFER_SIZE,
        cl.status_code.OUT_OF_HOST_MEMORY,
    }
)


@contextmanager
def refusals(verdict: Verdict = Verdict.LAUNCH_FAILED) -> Iterator[None]:
    """Turn OpenCL's errors, except our own mistakes, into `Refused` with `verdict` (`unsupported`: no memory)."""
    try:
        yield
    except cl.Error as error:
        if error.code in _OUR_MISTAKES:
            raise
        if error.code in _NO_MEMORY:
            raise Refused(Verdict.UNSUPPORTED, f"not enough memory: {one_line(str(error))}", poisoned=True) from error
        raise Refused(verdict, one_line(str(error)), poisoned=verdict is not Verdict.COMPILE_FAILED) from error


Buffer = cl.Buffer
Event = cl.Event
Queue = cl.CommandQueue


OVERSTATED_LOCAL_BYTES = 256
"""NVIDIA counts room for alignment: what it says needs 49,216 bytes it launches within its limit of 49,152."""


@dataclass(frozen=True)
class Program:
    """A loaded configuration: its kernels in launch order, each made once."""

    steps: tuple[tuple[cl.Kernel, Step], ...]
    scratch: Mapping[str, int]
    """Bytes of each scratch buffer."""
    zeroed: frozenset[str] = frozenset()
    """Those that are all zeros before the first product, and after every one."""


class Machine:
    """One device opened in this process: its context, queues and what runs on them."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._handle = find(device)
        self.context = cl.Context([self._handle])
        profiling = cl.command_queue_properties.PROFILING_ENABLE
        self.queue: Queue = cl.CommandQueue(self.context, properties=profiling)
        self.plain_queue = cl.CommandQueue(self.context)
        """Without profiling, whose bookkeeping a caller's queue does not pay: for times by the host's clock."""
        self.specialises_at_launch = "Portable Computing Language" in device.software.platform
        """PoCL compiles a kernel for its work-group only when it first runs it: 3.1 took 0.3 to 0.7 s then, from
        source, from a binary and with reqd_work_group_size alike. It does so in a thread of its own once the command is
        ready, so neither an enqueue that waits for an event nor a fetched binary brings it forward, and the compile
        pool runs no candidates. The event tells compiling and running apart: it stays SUBMITTED until the compiler is
        done. Intel's and NVIDIA's drivers have compiled when the build returns."""

    def build(self, rendered: Rendered) -> Built:
        """Compile from source; a refusal is a value with the driver's log."""
        before = time.perf_counter()
        program = cl.Program(self.context, rendered.source)
        try:
            with refusals(Verdict.COMPILE_FAILED):
                program.build(self._options(rendered))
                binary = self._binary(program)
        except Refused as refused:
            log = self._log(program) or str(refused)
            return Built(Verdict.COMPILE_FAILED, _ms_since(before), None, CompilerInfo(log=log), first_error(log))
        compile_ms = _ms_since(before)
        said = read_compiler_log(self._log(program), self._local_bytes(program))
        return Built(Verdict.CORRECT, compile_ms, binary, said)

    def load(self, rendered: Rendered, binary: bytes | None) -> Program:
        """The program of `binary`, or of the source if there is none or the driver does not take its own binary."""
        if binary is not None:
            try:
                return self._loaded(cl.Program(self.context, [self._handle], [binary]), rendered)
            except (cl.Error, Refused):
                pass  # told apart by building from source, once: only that decides
        with refusals(Verdict.COMPILE_FAILED):
            program = cl.Program(self.context, rendered.source)
        return self._loaded(program, rendered)

    def _loaded(self, program: cl.Program, rendered: Rendered) -> Program:
        with refusals(Verdict.COMPILE_FAILED):
            program.build(self._options(rendered))
        # A kernel that is launched twice with different arguments (scratch, say) needs an object for each launch.
        steps = tuple((cl.Kernel(program, step.kernel), step) for step in rendered.steps)
        for kernel, step in steps:
            self._refuse_early(kernel, step)
        return Program(steps, dict(rendered.scratch), frozenset(rendered.zeroed))

    def _refuse_early(self, kernel: cl.Kernel, step: Step) -> None:
        """What PoCL would answer by aborting the process, or by choosing another work-group than was asked for."""
        needed = kernel.get_work_group_info(cl.kernel_work_group_info.LOCAL_MEM_SIZE, self._handle)
        limit = self.device.facts.local_mem_bytes
        overstated = OVERSTATED_LOCAL_BYTES if self.device.silicon.kind == "gpu" else 0
        if needed > limit + overstated:
            message = f"{step.kernel} needs {needed} bytes of local memory, the device has {limit}"
            raise Refused(Verdict.LAUNCH_FAILED, message)
        if 0 in step.local_size:
            raise Refused(Verdict.LAUNCH_FAILED, f"{step.kernel} has a work-group of size {step.local_size}")

    def buffer(self, size: int, host: np.ndarray[Any, Any] | None = None) -> Buffer:
        """A read-write buffer of `size` bytes (at least one), filled from `host` if given."""
        facts = self.device.facts
        if size > facts.max_alloc_bytes:
            wanted, limit = size / 2**30, facts.max_alloc_bytes / 2**30
            message = f"a buffer needs {wanted:.2f} GiB, the device gives at most {limit:.2f} GiB"
            raise Refused(Verdict.UNSUPPORTED, message)
        with refusals():
            buffer = cl.Buffer(self.context, cl.mem_flags.READ_WRITE, max(1, size))
            if host is not None:
                cl.enqueue_copy(self.queue, buffer, _raw(host))
        return buffer

    def duplicate(self, buffer: Buffer, size: int) -> Buffer:
        """Another buffer with the first `size` bytes of `buffer`, copied on the device."""
        other = self.buffer(size)
        self.copy(buffer, other, size)
        return other

    def region(self, buffer: Buffer, offset: int, size: int) -> Buffer:
        """`size` bytes of `buffer` (at least one), from `offset` on, which must be a multiple of the base alignment."""
        with refusals():
            return buffer.get_sub_region(offset, max(1, size))

    def fill(self, buffer: Buffer, pattern: np.ndarray[Any, Any], size: int, byte_offset: int = 0) -> None:
        """Overwrite `size` bytes with `pattern`, from `byte_offset` on, which is a multiple of the pattern's size."""
        if size:
            with refusals():
                cl.enqueue_fill_buffer(self.queue, buffer, pattern, byte_offset, size)

    def write(self, buffer: Buffer, host: np.ndarray[Any, Any], byte_offset: int = 0) -> None:
        """Copy `host` into `buffer`, from `byte_offset` on."""
        with refusals():
            cl.enqueue_copy(self.queue, buffer, _raw(host), dst_offset=byte_offset)

    def read(self, buffer: Buffer, host: np.ndarray[Any, Any], byte_offset: int = 0) -> None:
        """Copy from `buffer`, from `byte_offset` on, to all of `host`."""
        with refusals():
            cl.enqueue_copy(self.queue, _raw(host), buffer, src_offset=byte_offset)

    def copy(self, source: Buffer, target: Buffer, size: int) -> Event:
        """Enqueue a copy of `size` bytes on the device; the caller waits."""
        with refusals():
            return cl.enqueue_copy(self.queue, target, source, byte_count=size)

    def launch(self, program: Program, queue: Queue | None = None) -> list[Event]:
        """Enqueue every step once; the caller waits."""
        queue = queue or self.queue
        with refusals():
            return [
                cl.enqueue_nd_range_kernel(queue, kernel, step.global_size, step.local_size)
                for kernel, step in program.steps
            ]

    def keep_busy(self, ms: float) -> None:
        """Give the device something to do while the host enqueues for `ms`, so that what it enqueues need not wait."""
        with refusals():
            self.hold.enqueue(self.queue, ROOM * ms)

    def seconds(self, program: Program, calls: int, *, held: bool) -> float:
        """The host's time of that many back-to-back products; `held`: however long it takes to enqueue them."""
        if held:
            with refusals():
                return self.hold.seconds(self.plain_queue, calls, lambda: self._launch_plain(program, calls))
        before = time.perf_counter()
        self._launch_plain(program, calls)
        self.finish(self.plain_queue)
        return time.perf_counter() - before

    def _launch_plain(self, program: Program, calls: int) -> None:
        for _ in range(calls):
            self.launch(program, self.plain_queue)

    @cached_property
    def hold(self) -> Hold:
        """What keeps the device busy while short kernels are enqueued."""
        with refusals():
            return Hold(self.context, self._handle)

    def wait(self, event: Event) -> None:
        """Return when the command has ended."""
        with refusals():
            event.wait()

    def finish(self, queue: Queue | None = None) -> None:
        """Wait for all that was enqueued."""
        with refusals():
            (queue or self.queue).finish()

    def wait_until_running(self, event: Event) -> None:
        """Return when the device has begun (or ended) the command, that is, after any compiling the driver put off."""
        with refusals():
            self.queue.flush()
            while event.command_execution_status > cl.command_execution_status.RUNNING:
                time.sleep(0.001)

    def interval_ns(self, first: Event, last: Event) -> tuple[int, int]:
        """(START of the first, END of the last) by the device's clock; (0, 0) if it has none."""
        try:
            return int(first.profile.start), int(last.profile.end)
        except cl.Error:
            return 0, 0

    def comparison(self, source: str, word: int = 4, *, signed_zeros: bool = False) -> Comparison:
        """The kernel `count_differences` of `source` (templates/check/compare.cl) for words of `word` bytes.

        With `signed_zeros` 0.0 and -0.0 differ.
        """
        with refusals(Verdict.UNSUPPORTED):
            program = cl.Program(self.context, source).build(f"-DWORD={_WORDS[word]}" + " -DSIGN=0u" * signed_zeros)
            kernel = cl.Kernel(program, "count_differences")
        return Comparison(self, kernel, self.buffer(4))

    def _options(self, rendered: Rendered) -> str:
        """The same for source and binary: to NVIDIA's cache of assembled programs other options are another program."""
        verbose = " -cl-nv-verbose" if self.device.silicon.vendor == "NVIDIA" else ""
        return rendered.build_options + verbose

    def _binary(self, program: cl.Program) -> bytes | None:
        binaries = program.get_info(cl.program_info.BINARIES)
        assert isinstance(binaries, Sequence)
        return bytes(binaries[0]) if binaries and binaries[0] else None

    def _local_bytes(self, program: cl.Program) -> int | None:
        what = cl.kernel_work_group_info.LOCAL_MEM_SIZE
        try:
            sizes = [kernel.get_work_group_info(what, self._handle) for kernel in program.all_kernels()]
            return max((int(size) for size in sizes if isinstance(size, int)), default=None)
        except cl.Error:
            return None

    def _log(self, program: cl.Program) -> str:
        try:
            log = program.get_build_info(self._handle, cl.program_build_info.LOG)  # type: ignore[no-untyped-call]
        except cl.Error:
            return ""
        return trim(str(log))


@dataclass(frozen=True)
class Comparison:
    """Compares two buffers on the device, for results that are slow to fetch."""

    machine: Machine
    kernel: cl.Kernel
    counter: Buffer

    def count(self, expected: Buffer, found: Buffer, elements: int, element_bytes: int) -> int:
        """Elements that differ in any bit."""
        self.machine.fill(self.counter, np.zeros(1, np.uint32), 4)
        sizes = np.uint64(0), np.uint64(elements), np.uint32(element_bytes // word_bytes(element_bytes))
        self.kernel.set_args(expected, found, *sizes, self.counter)
        with refusals():
            cl.enqueue_nd_range_kernel(self.machine.queue, self.kernel, (_COMPARING_ITEMS,), None)
        differing = np.zeros(1, np.uint32)
        self.machine.read(self.counter, differing)
        return int(differing[0])


_WORDS = {2: "ushort", 4: "uint"}


def word_bytes(element_bytes: int) -> int:
    """Size of the words in which elements are compared."""
    return min(4, element_bytes)


def _raw(host: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bytes of a contiguous array: bfloat16 is no type that buffers are handed over in."""
    return host.view(np.uint8) if host.ndim else host


def _ms_since(before: float) -> float:
    return (time.perf_counter() - before) * 1e3
