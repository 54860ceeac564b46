"""Configurations worth trying first: what won on this silicon and on ones like it, then what the families declare."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from tuner.model import Champion, Config, Device, Problem, Record, Silicon, log_sizes
from tuner.search.known import restored
from tuner.search.ports import Family

MOST = 8
"""Of what won or was fastest elsewhere, and of defaults; what they have to teach, a few of them teach."""
MOST_IMPORTED, MOST_SEEDS = 3, 3
OF_ANOTHER_MATH = 2.0
"""How far another math is, in doublings of a size: where less than strict is asked for, what won at a quarter of a size
is faster by far than a strict kernel of the size itself, if the product is large."""


def known_good(
    champions: Iterable[Champion],
    families: Mapping[str, Family],
    problem: Problem,
    device: Device,
    *,
    imported: Iterable[Record] = (),
    seeds: Iterable[Champion] = (),
) -> list[Config]:
    """Legal configurations to try before searching.

    What was fastest for this very product on this silicon on other machines (`imported`); champions of this silicon,
    nearest problem first; then those of other silicon of the same vendor and kind, nearest problem and number of
    compute units first; then `seeds`, what the package knows to be good on such silicon (for a CPU, any CPU), both also
    of strict arithmetic where less is asked for; then the declared defaults: the first few of the family ranked
    highest, and the first of each other. The search does not rest on them: its random start comes all the same.
    """
    fastest = sorted((record for record in imported if record.measurement.time_ms is not None), key=_time_ms)
    useful = [champion for champion in champions if _alike(champion, problem) and _similar(champion.silicon, device)]
    useful.sort(key=lambda champion: (champion.silicon != device.silicon, _distance(champion, problem, device)))
    known = [seed for seed in seeds if _alike(seed, problem) and _comparable(seed.silicon, device)]
    known.sort(key=lambda seed: (seed.silicon.vendor != device.silicon.vendor, _distance(seed, problem, device)))

    def legal(configs: Iterable[Config]) -> dict[Config, None]:
        found = (restored(families.get(config.family), config, problem, device) for config in configs)
        return dict.fromkeys(config for config in found if config is not None)

    of_others = list(legal(record.config for record in fastest))[:MOST_IMPORTED]
    won = list(dict.fromkeys([*of_others, *legal(champion.config for champion in useful)]))[:MOST]
    given = list(legal(seed.config for seed in known))[:MOST_SEEDS]
    ranked = sorted(families.values(), key=lambda family: -family.rank(problem, device))
    declared = [list(legal(family.defaults)) for family in ranked]
    highest = declared[0][:MOST] if declared else []
    firsts = [config for configs in declared[1:] for config in configs[:1]]
    return list(dict.fromkeys([*won, *given, *highest, *firsts]))


def _alike(champion: Champion, problem: Problem) -> bool:
    """A strict kernel serves every math."""
    theirs = champion.problem
    same = (theirs.dtype, theirs.trans_a, theirs.trans_b) == (problem.dtype, problem.trans_a, problem.trans_b)
    return same and theirs.math in (problem.math, "strict")


def _similar(silicon: Silicon, device: Device) -> bool:
    return (silicon.vendor, silicon.kind) == (device.silicon.vendor, device.silicon.kind)


def _comparable(silicon: Silicon, device: Device) -> bool:
    """Processors of different makers are alike; GPUs are not."""
    kind = device.silicon.kind
    return silicon.kind == kind and (kind == "cpu" or silicon.vendor == device.silicon.vendor)


def _time_ms(record: Record) -> float:
    return record.measurement.time_ms or math.inf


def _distance(champion: Champion, problem: Problem, device: Device) -> float:
    """In doublings: how far the champion's product, compute units and math are from these."""
    units = math.log2(max(1, champion.silicon.compute_units) / max(1, device.silicon.compute_units))
    other = OF_ANOTHER_MATH * (champion.problem.math != problem.math)
    return math.hypot(math.dist(log_sizes(champion.problem), log_sizes(problem)), units, other)
