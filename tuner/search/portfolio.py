"""Configurations worth trying first: what won on this silicon and on ones like it, then what the families declare."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from tuner.model import Champion, Config, Device, Problem, Silicon, log_sizes
from tuner.search.known import restored
from tuner.search.ports import Family

MOST = 8
"""Champions of other problems or drivers to start from, and defaults: what they have to teach, a few of them teach."""


def known_good(
    champions: Iterable[Champion], families: Mapping[str, Family], problem: Problem, device: Device
) -> list[Config]:
    """Legal configurations to try before searching.

    Champions of this silicon, nearest problem first; then those of other silicon of the same vendor and kind, nearest
    problem and number of compute units first; then the declared defaults: the first few of the family ranked
    highest, and the first of each other. The search does not rest on them: its random start comes all the same.
    """
    useful = [champion for champion in champions if _alike(champion, problem) and _similar(champion.silicon, device)]
    useful.sort(key=lambda champion: (champion.silicon != device.silicon, _distance(champion, problem, device)))

    def legal(configs: Iterable[Config]) -> dict[Config, None]:
        found = (restored(families.get(config.family), config, problem, device) for config in configs)
        return dict.fromkeys(config for config in found if config is not None)

    won = list(legal(champion.config for champion in useful))[:MOST]
    ranked = sorted(families.values(), key=lambda family: -family.rank(problem, device))
    declared = [list(legal(family.defaults)) for family in ranked]
    highest = declared[0][:MOST] if declared else []
    firsts = [config for configs in declared[1:] for config in configs[:1]]
    return list(dict.fromkeys([*won, *highest, *firsts]))


def _alike(champion: Champion, problem: Problem) -> bool:
    theirs = champion.problem
    return (theirs.dtype, theirs.trans_a, theirs.trans_b, theirs.math) == (
        problem.dtype,
        problem.trans_a,
        problem.trans_b,
        problem.math,
    )


def _similar(silicon: Silicon, device: Device) -> bool:
    return (silicon.vendor, silicon.kind) == (device.silicon.vendor, device.silicon.kind)


def _distance(champion: Champion, problem: Problem, device: Device) -> float:
    """In doublings: how far the champion's product and compute units are from these."""
    units = math.log2(max(1, champion.silicon.compute_units) / max(1, device.silicon.compute_units))
    return math.hypot(math.dist(log_sizes(champion.problem), log_sizes(problem)), units)
