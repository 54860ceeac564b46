"""What a library's adapter is: a few lines over an existing library that is used if it is there."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tuner.model import Device, Problem

Array = np.ndarray[Any, Any]
Parameters = Mapping[str, Mapping[str, Mapping[str, int]]]
"""What a library's own tuner found: dtype -> kernel -> parameter -> value."""

ROW_MAJOR, NO_TRANS, TRANS = 101, 111, 112
"""CBLAS's numbers for layout and transposition; CLBlast has the same."""


WIDE = frozenset(("float32", "float64"))
"""Element types that every BLAS has."""


class Absent(Exception):
    """The library is not here, or not for this device; the message says which, for people."""


class Adapter(Protocol):
    """One library, ready to compute. Lives in a child process and is used by one thread."""

    name: str
    version: str
    how: str
    """How it runs, for people: threads, kernels, modes. May change with each `prepare`."""
    dtypes: frozenset[str]
    """Element types it multiplies."""
    products: int
    """Products that one `call` computes, one after another."""

    def prepare(self, problem: Problem, a: Array, b: Array) -> None:
        """Take over operands as they lie in memory, (batch, rows, columns) without gaps; let earlier ones go."""

    def call(self) -> None:
        """Begin to compute C = op(A)·op(B); may return before it is done. Operands are never copied or turned."""

    def finish(self) -> None:
        """Return when every call is done."""

    def result(self) -> Array:
        """C, (batch, m, n)."""


Factory = Callable[[Device, Parameters | None], Adapter]
"""Opens the library for a device. Raises Absent."""


def loaded_library(part: str) -> Path | None:
    """The file of a shared library of this process whose name contains `part`; None where that cannot be told."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    paths = (Path(fields[5]) for line in lines if len(fields := line.split(maxsplit=5)) == 6)
    return next((path for path in paths if part in path.name and ".so" in path.name), None)


def first_symbol(library: ctypes.CDLL, *names: str) -> Any:
    """The first of these functions that the library has; None without any."""
    return next((getattr(library, name) for name in names if hasattr(library, name)), None)


def transposition(transposed: bool) -> int:
    """CBLAS's number."""
    return TRANS if transposed else NO_TRANS
