"""Intel's MKL as `pip install mkl` brings it, through its C interface."""

from __future__ import annotations

import ctypes
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tuner.baselines.adapter import ROW_MAJOR, WIDE, Absent, Array, Parameters, transposition
from tuner.model import Device, Problem, leading_dimensions

_SYSTEM_NAMES = ("libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.so.1", "libmkl_rt.so")


class Mkl:
    """cblas_sgemm and cblas_dgemm, or their batched forms."""

    name = "MKL"
    dtypes = WIDE
    products = 1

    def __init__(self, device: Device, parameters: Parameters | None = None) -> None:
        """Load the library. Raises Absent."""
        self._library = _load()
        text = ctypes.create_string_buffer(256)
        self._library.mkl_get_version_string(text, len(text))
        said = text.value.decode(errors="replace").strip()
        number = re.search(r"Version ([\w.-]+)", said)
        self.version = number[1] if number else said
        self.how = f"{self._library.MKL_Get_Max_Threads()} threads"

    def prepare(self, problem: Problem, a: Array, b: Array) -> None:
        """Put the call's arguments together."""
        p = problem
        self._c = np.zeros((p.batch, p.m, p.n), p.dtype)
        self._operands = (a, b, self._c)
        letter, real = ("s", ctypes.c_float) if p.dtype == "float32" else ("d", ctypes.c_double)
        number, whole = ctypes.c_int, ctypes.c_int  # the default interface of mkl_rt is LP64
        flags = [number(ROW_MAJOR), number(transposition(p.trans_a)), number(transposition(p.trans_b))]
        arguments: list[Any] = [*flags, whole(p.m), whole(p.n), whole(p.k), real(1)]
        for operand, ld in zip(self._operands, leading_dimensions(p), strict=True):
            arguments += [real(0)] if operand is self._c else []
            arguments += [operand.ctypes.data_as(ctypes.c_void_p), whole(ld)]
            arguments += [whole(operand[0].size)] if p.batch > 1 else []
        self._arguments = [*arguments, whole(p.batch)] if p.batch > 1 else arguments
        self._function = getattr(self._library, f"cblas_{letter}gemm" + "_batch_strided" * (p.batch > 1))
        self._function.restype = None

    def call(self) -> None:
        """Compute the product."""
        self._function(*self._arguments)

    def finish(self) -> None:
        """Nothing is left to wait for."""

    def result(self) -> Array:
        """C."""
        return self._c


def _load() -> ctypes.CDLL:
    folders = {Path(sys.prefix, "lib"), *(Path(entry).parents[1] for entry in sys.path if entry.endswith("-packages"))}
    for path in (path for folder in sorted(folders) for path in sorted(folder.glob("libmkl_rt.so*"))):
        # MKL looks for the thread library by name, and pip puts it where no linker looks.
        for threads in path.parent.glob("libiomp5.so"):
            ctypes.CDLL(str(threads), ctypes.RTLD_GLOBAL)
        return ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
    for name in _SYSTEM_NAMES:
        try:
            return ctypes.CDLL(name, ctypes.RTLD_GLOBAL)
        except OSError:
            continue
    raise Absent("libmkl_rt is not installed (pip install mkl)")
