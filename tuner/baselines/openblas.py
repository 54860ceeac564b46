"""OpenBLAS as numpy brings it, through numpy's own product, which passes transposed views on as BLAS flags."""

from __future__ import annotations

import ctypes

import numpy as np

from tuner.baselines.adapter import WIDE, Absent, Array, Parameters, first_symbol, loaded_library
from tuner.model import Device, Problem


class OpenBlas:
    """numpy.matmul into a given C."""

    name = "OpenBLAS"
    dtypes = WIDE
    products = 1

    def __init__(self, device: Device, parameters: Parameters | None = None) -> None:
        """Ask numpy and the library itself what they are. Raises Absent if numpy computes with another library."""
        blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        if "openblas" not in blas["name"].lower():
            raise Absent(f"numpy {np.__version__} computes with {blas['name']}")
        self.version = str(blas["version"])
        self.how = f"numpy {np.__version__}"
        library = loaded_library("openblas")
        if library is not None:
            self.how += _kernels_and_threads(ctypes.CDLL(str(library)))

    def prepare(self, problem: Problem, a: Array, b: Array) -> None:
        """Views of the operands as numpy takes them."""
        left = a.transpose(0, 2, 1) if problem.trans_a else a
        right = b.transpose(0, 2, 1) if problem.trans_b else b
        self._c = np.zeros((problem.batch, problem.m, problem.n), problem.dtype)
        one = problem.batch == 1
        self._arguments = (left[0], right[0], self._c[0]) if one else (left, right, self._c)

    def call(self) -> None:
        """Compute the product."""
        left, right, c = self._arguments
        np.matmul(left, right, out=c)

    def finish(self) -> None:
        """Nothing is left to wait for."""

    def result(self) -> Array:
        """C."""
        return self._c


def _kernels_and_threads(library: ctypes.CDLL) -> str:
    """Which processor's kernels it chose, and how many threads, in the spellings of numpy's and of others' builds."""
    spellings = ("scipy_openblas_{}64_", "scipy_openblas_{}", "openblas_{}64_", "openblas_{}")
    core = first_symbol(library, *(name.format("get_corename") for name in spellings))
    threads = first_symbol(library, *(name.format("get_num_threads") for name in spellings))
    said = ""
    if core is not None:
        core.restype = ctypes.c_char_p
        said += f", {core().decode()} kernels"
    return said if threads is None else f"{said}, {threads()} threads"
