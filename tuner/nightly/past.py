"""What the store knows of a device's problems that a plan needs: how far each was searched, what nearness costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tuner.model import Champion, Config, Device, Problem, log_sizes
from tuner.store import LIBRARY_PREFIX, Store
from tuner.store.reading import Reading, Run


@dataclass(frozen=True)
class Searched:
    """How far one problem was searched on this silicon and software."""

    evaluated: int = 0
    exhausted: bool = False
    last: str = ""
    """When its last search began; empty for never."""


@dataclass(frozen=True)
class Past:
    """One device's problems on its present software."""

    problems: Mapping[Problem, Searched] = field(default_factory=dict)
    regrets: tuple[tuple[float, float], ...] = ()
    """(doublings, time / best - 1) of champions measured on other problems than their own."""

    def evaluated(self, problem: Problem) -> int:
        """Configurations measured so far."""
        return self.problems.get(problem, Searched()).evaluated

    def exhausted(self, problem: Problem) -> bool:
        """The last search, with the families as they are, measured all there is."""
        return self.problems.get(problem, Searched()).exhausted

    def searched(self, problem: Problem, champion_since: str) -> datetime:
        """When it was last searched; its champion's day if that is not known."""
        when = max(self.problems.get(problem, Searched()).last, champion_since)
        found = datetime.fromisoformat(when)
        return found if found.tzinfo else found.replace(tzinfo=UTC)

    def nearest(self, problem: Problem, champions: Mapping[Problem, Champion]) -> tuple[float, Problem] | None:
        """(doublings, problem) of the nearest tuned one a look-up would take."""
        alike = [(distance(problem, other), other) for other in champions if _alike(problem, other)]
        return min(alike, default=None, key=lambda pair: pair[0])


def distance(one: Problem, other: Problem) -> float:
    """In doublings, as look-ups measure it."""
    return math.dist(log_sizes(one), log_sizes(other))


def _alike(one: Problem, other: Problem) -> bool:
    keys = ("dtype", "trans_a", "trans_b", "math")
    return all(getattr(one, key) == getattr(other, key) for key in keys)


def read_past(store: Store, device: Device, hashes: Mapping[str, str], champions: Iterable[Champion]) -> Past:
    """Read the store once. `hashes` are the families' names and hashes: with others, no space is exhausted."""
    reading = Reading(store)
    owners: dict[Config, list[Problem]] = {}
    for champion in champions:
        if (champion.silicon, champion.software) == (device.silicon, device.software):
            owners.setdefault(champion.config, []).append(champion.problem)
    searched: dict[Problem, Searched] = {}
    last = _last_searches(reading.runs(), device)
    regrets: list[tuple[float, float]] = []
    for (silicon, software, problem), lines in reading.trials_by_key():
        if (silicon, software) != (device.silicon, device.software):
            continue
        lines = [line for line in lines if not line.config.family.startswith(LIBRARY_PREFIX)]
        sources = {line.source_hash for line in lines}
        run = last.get(problem)
        searched[problem] = Searched(len(sources), _is_exhausted(run, hashes), "" if run is None else run.started)
        times = {line.config: line.time_ms for line in lines if line.time_ms is not None}
        best = min(times.values(), default=math.inf)
        for config, time_ms in times.items():
            for owner in owners.get(config, ()):
                if owner != problem and _alike(owner, problem):
                    regrets.append((distance(owner, problem), time_ms / best - 1))
    return Past(searched, tuple(regrets))


def _last_searches(runs: Iterable[Run], device: Device) -> dict[Problem, Run]:
    found = {}
    for run in runs:
        here = (run.silicon, run.software) == (device.silicon, device.software)
        if here and "budget" in run.settings:  # others confirm, cross-measure or race a library
            found[run.problem] = run
    return found


def _is_exhausted(run: Run | None, hashes: Mapping[str, str]) -> bool:
    if run is None or run.summary is None:
        return False
    return run.summary.get("stopped_by") == "exhausted" and run.settings.get("hashes") == dict(hashes)
