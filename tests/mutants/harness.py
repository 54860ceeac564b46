"""Builds shared by the tests of this folder: a driver takes up to half a second for each."""

from __future__ import annotations

from tuner.bench import Bench
from tuner.model import Built, Device, Measurement, Problem, Rendered

_builds: dict[tuple[Device, Rendered], Built] = {}


def build(bench: Bench, of: Rendered) -> Built:
    """A build of `of`, kept for other tests."""
    key = (bench.device, of)
    if key not in _builds:
        _builds[key] = bench.build(of).result()
    return _builds[key]


def measure(bench: Bench, problem: Problem, of: Rendered) -> Measurement:
    """Without a best so far, beside which a candidate may be too slow to be checked in full."""
    return bench.measure(problem, of, build(bench, of), best_ms=None)


def program(bench: Bench, of: Rendered) -> tuple[Rendered, bytes | None]:
    return of, build(bench, of).binary
