"""The certificate: which further checks a configuration must pass before it is published or executed for a caller."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable

from tuner.bench.messages import Case
from tuner.model import Config, Device, Problem, Record, Rendered
from tuner.search.known import restored
from tuner.search.ports import Family
from tuner.verify import DRAWN, FAR

LARGEST_SIDE = 2048
"""Sides of the doubled shape are cut to this, so that a certificate costs seconds."""
ODD_SIDE = 515
"""Odd, and beyond the largest tile of 256, so that whole tiles and edges meet."""
REPEATS = 3

EVERY_KIND = (
    "plain",
    "alpha",
    "add",
    "beta",
    "alpha_beta",
    "alpha_add",
    "beta_zero_nan_c",
    "alpha_zero",
    "alpha_zero_add",
    "both_zero",
    "update",
    "difference",
    "twice",
)
"""Every kind of alpha and beta that BLAS gives a meaning of its own."""

OTHER_SHAPES = 5
VERIFICATIONS = 5.0
"""A certificate's checks, as multiples of the slowest verification on its problem: that of the first candidate, which
makes operands and references. Over 13 products of a night on an NVIDIA H200 whole certificates, builds included, took
2.6 to 6.3 verifications, and 0.2 to 1.01 of what `expected_s` said with 4 and 1 s. Since then verification has become
cheaper, and a certificate looks at a quarter more operands and goes on for half a second."""
LEAST_S = 1.5


def expected_s(records: Iterable[Record], compilers: int) -> float:
    """About what a certificate takes, in seconds, by what is known of a problem's candidates; 0 if nothing is.

    The other shapes are compiled by all `compilers` at once, then the source itself once more.
    """
    known = [record.measurement for record in records if record.measurement.is_checked]
    if not known:
        return 0.0
    fastest = min(known, key=lambda measurement: measurement.time_ms or math.inf)
    builds = math.ceil(OTHER_SHAPES / compilers) + 1
    verify_ms = max(measurement.verify_ms or 0.0 for measurement in known)
    return LEAST_S + (VERIFICATIONS * verify_ms + builds * (fastest.compile_ms or 0.0)) / 1e3


def other_shapes(problem: Problem) -> list[Problem]:
    """The shapes beside its own that a configuration must be right on: odd, doubled, k of 3 and 1, and 1x1x1."""

    def like(m: int, n: int, k: int) -> Problem:
        p = problem
        return Problem.packed(m, n, k, dtype=p.dtype, trans_a=p.trans_a, trans_b=p.trans_b, math=p.math)

    def odd(side: int) -> int:
        return min(side, ODD_SIDE) | 1

    def twice(side: int) -> int:
        return max(1, min(2 * side, LARGEST_SIDE))

    m, n, k = problem.m, problem.n, problem.k
    shapes = [
        like(odd(m), odd(n) + 2, odd(k) + 4),  # no two sides alike, so that none can stand in for another
        like(twice(m), twice(n), twice(k)),
        like(min(m, LARGEST_SIDE), min(n, LARGEST_SIDE), 3),
        like(min(m, LARGEST_SIDE), min(n, LARGEST_SIDE), 1),
        like(1, 1, 1),
    ]
    return [shape for shape in dict.fromkeys(shapes) if shape != problem]


def own_case(problem: Problem, rendered: Rendered, seed: int | None = None) -> Case:
    """The source itself, on its own problem: enough for whoever runs it on that problem and nothing else.

    Beside the kinds with a meaning of their own it is called with two pairs of alpha and beta that each certificate
    draws anew, or by `seed`: one near 1, one far from it.
    """
    drawn = secrets.randbits(32) if seed is None else seed
    kinds = (*EVERY_KIND, f"{DRAWN}{drawn}", f"{FAR}{drawn}")
    return Case(problem, rendered, kinds, fresh=True, repeats=REPEATS)


def cases(config: Config, family: Family | None, problem: Problem, device: Device, rendered: Rendered) -> list[Case]:
    """What `Bench.check` has to run for a certificate of `rendered`, cheapest first.

    The source itself in every kind of alpha and beta, from a fresh and from a cached build, run repeatedly; then the
    configuration on other shapes, where its rules allow them. Of a family that is gone, or has other
    axes now, only the source itself can be checked.
    """
    own = [own_case(problem, rendered)]
    others = []
    for shape in other_shapes(problem):
        here = restored(family, config, shape, device)
        if family is not None and here is not None:
            others.append(Case(shape, family.render(here, shape, device), ("plain", "alpha_beta")))
    return sorted(others, key=lambda case: case.problem.flop) + own
