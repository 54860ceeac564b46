"""The process that `scripts/bench_accuracy` measures in: kernels and libraries on the same operands."""

from __future__ import annotations

import importlib
import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tuner.baselines.adapter import Absent
from tuner.bench.devices import prepare_child
from tuner.model import DTYPES, Device, Problem, Rendered
from tuner.verify import Values, element_type, make_operands
from tuner.verify.accept import accept_specials
from tuner.verify.accuracy import Errors
from tuner.verify.operands import Operands
from tuner.verify.products import product_and_magnitude
from tuner.verify.sampling import sample_rows

if TYPE_CHECKING:
    from tuner.bench.checker import Checker
    from tuner.opencl.run import Machine

Array = np.ndarray[Any, Any]
LAUNCH_S = 300.0
SEED = 3


@dataclass(frozen=True)
class Contender:
    """What is measured: a rendered kernel, or a library's adapter as `module:Class`."""

    name: str
    problem: Problem
    """As it was rendered for; its math is the kernel's own."""
    rendered: Rendered | None = None
    adapter: str = ""


@dataclass(frozen=True)
class Line:
    """One line of the table. Errors are in units of u·|A||B|, over 64 rows of C and all its columns."""

    values: str
    name: str
    maximum: float | None = None
    rms: float | None = None
    said: str = ""
    """Of infinities and NaN, or of what failed."""
    absent: bool = False
    """A library that is not here, or does not have such a product: no failure."""


def main(
    pipe: Connection,
    device: Device,
    vendors: Path,
    cache: Path,
    contenders: Sequence[Contender],
    distributions: Sequence[Values],
) -> None:
    """Target of the spawned process: sends each `Line`, then None."""
    prepare_child(vendors, cache)
    try:
        for line in _lines(device, contenders, distributions):
            pipe.send(line)
    except Exception:
        pipe.send(traceback.format_exc())
    pipe.send(None)
    os._exit(0)


def _lines(device: Device, contenders: Sequence[Contender], distributions: Sequence[Values]) -> Iterator[Line]:
    from tuner.bench.checker import Checker
    from tuner.opencl.run import Machine

    machine = Machine(device)
    checker = Checker(machine, lambda _: None)
    runs = []
    for contender in contenders:
        try:
            runs.append((contender, _runner(contender, device, machine, checker)))
        except Absent as absent:
            yield Line("any", contender.name, said=f"absent: {absent}", absent=True)
    for values in distributions:
        operands = make_operands(contenders[0].problem, SEED, values)
        index, row = sample_rows(operands.problem, SEED).T
        with np.errstate(invalid="ignore"):
            exact, magnitude = _rows(operands, index, row)
        for contender, run in runs:
            try:
                c = run(values, operands)[index, row]
            except NotImplementedError as error:
                yield Line(values, contender.name, said=str(error), absent=True)
                continue
            except Exception as error:
                yield Line(values, contender.name, said=f"failed: {type(error).__name__}: {str(error).splitlines()[0]}")
                continue
            yield _line(values, contender, c, exact, magnitude)


def _line(values: Values, contender: Contender, c: Array, exact: Array, magnitude: Array) -> Line:
    finite = np.isfinite(exact)
    said = ""
    if not finite.all():
        shown = accept_specials(c, exact)
        said = "infinities and NaN propagate" if shown.ok else shown.message
    c, exact, magnitude = (np.where(finite, array, 0) for array in (c, exact, magnitude))
    unit = DTYPES[contender.problem.dtype].unit_roundoff
    errors = Errors.of(c[finite], exact[finite], magnitude[finite], unit) if finite.any() else Errors(0.0, 0.0)
    return Line(values, contender.name, errors.maximum, errors.rms, said)


def _runner(
    contender: Contender, device: Device, machine: Machine, checker: Checker
) -> Callable[[Values, Operands], Array]:
    """What computes C, (batch, m, n), from operands."""
    if contender.rendered is not None:
        return _kernel(contender.problem, contender.rendered, machine, checker)
    module, _, name = contender.adapter.partition(":")
    adapter = getattr(importlib.import_module(module), name)(device, None)

    def call(values: Values, operands: Operands) -> Array:
        if contender.problem.dtype not in adapter.dtypes:
            raise NotImplementedError(f"it does not multiply {contender.problem.dtype}")
        adapter.prepare(contender.problem, operands.a, operands.b)
        adapter.call()
        adapter.finish()
        return np.array(adapter.result())

    return call


def _kernel(
    problem: Problem, rendered: Rendered, machine: Machine, checker: Checker
) -> Callable[[Values, Operands], Array]:
    from tuner.bench.operands import Bound

    bound = Bound(machine, machine.load(rendered, None))

    def call(values: Values, operands: Operands) -> Array:
        loaded = checker.load(problem, values, pad_rows=False, seed=SEED)
        checker.run(bound, loaded, LAUNCH_S, first=True)
        flat = np.frombuffer(checker.bits(loaded), element_type(problem.dtype))
        return np.array(loaded.layout.c.view(flat))

    return call


def _rows(operands: Operands, index: Array, row: Array) -> tuple[Array, Array]:
    """Sampled rows of (A·B, |A|·|B|) in float64, (rows, n)."""
    exact = np.empty((len(row), operands.problem.n))
    magnitude = np.empty_like(exact)
    for matrix in np.unique(index):
        here = index == matrix
        both = product_and_magnitude(operands.left[None, matrix, row[here]], operands.right[None, matrix])
        exact[here], magnitude[here] = both[0][0], both[1][0]
    return exact, magnitude
