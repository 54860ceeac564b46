"""Configurations worth trying first: what won before on this silicon, then what the families declare."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from tuner.model import Champion, Config, Device, Problem
from tuner.search.known import restored
from tuner.search.ports import Family

MOST = 8
"""Champions of other problems or drivers to start from; what they have to teach, a few of them teach."""


def known_good(
    champions: Iterable[Champion], families: Mapping[str, Family], problem: Problem, device: Device
) -> list[Config]:
    """Legal configurations to try before searching: champions of this silicon, nearest problem first, then defaults."""
    mine = [champion for champion in champions if champion.silicon == device.silicon and _alike(champion, problem)]
    mine.sort(key=lambda champion: _distance(champion.problem, problem))

    def legal(configs: Iterable[Config]) -> dict[Config, None]:
        found = (restored(families.get(config.family), config, problem, device) for config in configs)
        return dict.fromkeys(config for config in found if config is not None)

    won = list(legal(champion.config for champion in mine))[:MOST]
    declared = legal(config for family in families.values() for config in family.defaults)
    return list({**dict.fromkeys(won), **declared})


def _alike(champion: Champion, problem: Problem) -> bool:
    theirs = champion.problem
    return (theirs.dtype, theirs.trans_a, theirs.trans_b, theirs.math) == (
        problem.dtype,
        problem.trans_a,
        problem.trans_b,
        problem.math,
    )


def _distance(one: Problem, other: Problem) -> float:
    pairs = ((one.m, other.m), (one.n, other.n), (one.k, other.k), (one.batch, other.batch))
    return math.hypot(*(math.log2(a / b) for a, b in pairs))
