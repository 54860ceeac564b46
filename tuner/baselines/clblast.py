"""CLBlast on the same OpenCL device and driver as our kernels, as installed or with parameters its own tuner found."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from tuner.baselines.adapter import ROW_MAJOR, WIDE, Absent, Array, Parameters, loaded_library, transposition
from tuner.model import Device, Problem, leading_dimensions

_PRECISIONS = {"float32": 32, "float64": 64}
_NAMES = ("libclblast.so.1", "libclblast.so")


class ClBlast:
    """CLBlastSgemm and CLBlastDgemm, or their batched forms, on a queue of PyOpenCL's."""

    name = "CLBlast"
    dtypes = WIDE
    products = 1

    def __init__(self, device: Device, parameters: Parameters | None = None) -> None:
        """Load the library and open the device. Raises Absent, and RuntimeError if it refuses `parameters`."""
        self._library = _load()
        import pyopencl as cl

        from tuner.opencl.describe import find
        from tuner.opencl.hold import Hold

        self._cl: Any = cl
        handle = find(device)
        self._context = cl.Context([handle])
        self._queue = cl.CommandQueue(self._context)
        self._hold = None if device.facts.shares_cores else Hold(self._context, handle)
        self._queue_handle = ctypes.c_void_p(self._queue.int_ptr)
        path = loaded_library("libclblast")
        number = re.search(r"\.so\.(\d[\d.]*)$", os.path.realpath(path)) if path else None
        self.version = number[1] if number else "unknown"
        self.how = "as installed"
        for dtype, kernels in (parameters or {}).items():
            for kernel, values in kernels.items():
                self._override(handle, dtype, kernel, values)
                self.how = "with its tuner's parameters"

    def _override(self, handle: Any, dtype: str, kernel: str, values: Mapping[str, int]) -> None:
        names = (ctypes.c_char_p * len(values))(*(name.encode() for name in values))
        numbers = (ctypes.c_size_t * len(values))(*values.values())
        device, precision = ctypes.c_void_p(handle.int_ptr), ctypes.c_int(_PRECISIONS[dtype])
        count = ctypes.c_size_t(len(values))
        status = self._library.CLBlastOverrideParameters(device, kernel.encode(), precision, count, names, numbers)
        if status:
            raise RuntimeError(f"CLBlast refuses the parameters of {kernel} for {dtype} with status {status}")

    def prepare(self, problem: Problem, a: Array, b: Array) -> None:
        """Copy the operands to the device and put the call's arguments together."""
        p, flags = problem, self._cl.mem_flags
        c = np.zeros((p.batch, p.m, p.n), p.dtype)
        self._buffers: list[Any] = []  # the earlier ones go first
        self._buffers += [
            self._cl.Buffer(self._context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=x) for x in (a, b, c)
        ]
        self._c = c
        letter, real = ("S", ctypes.c_float) if p.dtype == "float32" else ("D", ctypes.c_double)
        number, size = ctypes.c_int, ctypes.c_size_t
        arguments: list[Any] = [number(ROW_MAJOR), number(transposition(p.trans_a)), number(transposition(p.trans_b))]
        arguments += [size(p.m), size(p.n), size(p.k), real(1)]
        for operand, buffer, ld in zip((a, b, c), self._buffers, leading_dimensions(p), strict=True):
            arguments += [real(0)] if operand is c else []
            arguments += [ctypes.c_void_p(buffer.int_ptr), size(0), size(ld)]
            arguments += [size(operand[0].size)] if p.batch > 1 else []
        arguments += [size(p.batch)] if p.batch > 1 else []
        self._arguments = [*arguments, ctypes.byref(self._queue_handle), None]
        self._function = getattr(self._library, f"CLBlast{letter}gemm" + "StridedBatched" * (p.batch > 1))

    def call(self) -> None:
        """Enqueue the product. Raises RuntimeError with the library's status."""
        status = self._function(*self._arguments)
        if status:
            raise RuntimeError(f"CLBlast returned status {status}")

    def seconds(self, calls: int) -> float | None:
        """The host's time of that many products, queued while a device of its own is kept busy; None on a CPU."""
        if self._hold is None:
            return None
        return self._hold.seconds(self._queue, calls, lambda: self._calls(calls))

    def _calls(self, count: int) -> None:
        for _ in range(count):
            self.call()

    def finish(self) -> None:
        """Wait for the queue."""
        self._queue.finish()

    def result(self) -> Array:
        """C, read back."""
        self._cl.enqueue_copy(self._queue, self._c, self._buffers[2])
        return self._c


def _load() -> ctypes.CDLL:
    reasons = []
    for name in _NAMES:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            reasons.append(str(error))
    raise Absent(f"it can't be loaded ({reasons[0]}); on Debian: apt-get install libclblast1")
