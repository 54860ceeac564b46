"""Builds shared by the tests of this folder: a driver takes up to half a second for each."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future

from tuner.bench import Bench
from tuner.model import Built, Device, Measurement, Problem, Rendered

_HOPELESS_BEST_MS = 1e-6
_builds: dict[tuple[Device, Rendered], Future[Built]] = {}


def build_ahead(bench: Bench, every: Iterable[Rendered]) -> None:
    """Begin builds that will be wanted, on all cores."""
    for of in every:
        key = (bench.device, of)
        if key not in _builds:
            _builds[key] = bench.build(of)


def build(bench: Bench, of: Rendered) -> Built:
    """A build of `of`, kept for other tests."""
    build_ahead(bench, [of])
    return _builds[bench.device, of].result()


def measure(bench: Bench, problem: Problem, of: Rendered, *, often: bool = False) -> Measurement:
    """Verified in full; timed with two samples, or `often`, with as many as a good candidate is.

    Beside a best so far that nothing reaches two samples are enough; but what is slow beside it on a busy machine is
    not verified in full, and then measured once more without.
    """
    built = build(bench, of)
    if not often:
        measured = bench.measure(problem, of, built, best_ms=_HOPELESS_BEST_MS)
        if "cut short" not in measured.message:
            return measured
    return bench.measure(problem, of, built, best_ms=None)


def program(bench: Bench, of: Rendered) -> tuple[Rendered, bytes | None]:
    """What a laboratory is given."""
    return of, build(bench, of).binary
