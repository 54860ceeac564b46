"""What a library's stored record says of a champion beside it: the ratio within rounds, in turns and by one clock."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tuner.baselines.compare import Standing
from tuner.model import Device, Problem, Record, Verdict
from tuner.nightly.words import problem_json
from tuner.store import LIBRARY_PREFIX, Store
from tuner.store.reading import Reading

Values = dict[str, Any]


@dataclass(frozen=True)
class Raced:
    """One race of a champion with a library."""

    problem: Problem
    standing: Standing
    source_hash: str
    """Of the champion that was raced."""
    night: int | None

    def to_json(self) -> Values:
        """`ratio` is the library's time / ours, the median over the rounds, None if there are no pairs."""
        found = self.standing
        return {
            "library": found.name,
            "version": found.version,
            "failed": found.failed,
            "gflops": None if found.time_ms is None else self.problem.gflops(found.time_ms),
            "ratio": found.ratio,
            "noise": found.noise,
        }


def raced(record: Record) -> Raced:
    """A library's record as the race it came from."""
    extra = _extra(record)
    correct, said = record.measurement.verdict is Verdict.CORRECT, record.measurement.message
    family = record.config.family.removeprefix(LIBRARY_PREFIX)
    standing = Standing(
        str(extra.get("name", family)),
        str(record.config.as_dict().get("version", "")),
        str(extra.get("how", "")),
        failed="" if correct else said,
        pairs_ms=_pairs(record.measurement.samples_ms, extra.get("ours_ms")),
    )
    return Raced(record.problem, standing, str(extra.get("ours_source", "")), extra.get("night"))


def _extra(record: Record) -> Values:
    try:
        found = json.loads(record.extra or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _pairs(theirs: Sequence[float], ours: Any) -> tuple[tuple[float, float], ...]:
    """Both sides of every round; none where they are not all there, as in a store that was pruned."""
    if not isinstance(ours, list) or len(ours) != len(theirs):
        return ()
    plain = all(isinstance(ms, int | float) and 0 < ms < math.inf for ms in ours)
    return tuple(zip(theirs, ours, strict=True)) if plain else ()


def races_of_night(store: Store, device: Device, night: int) -> list[Values]:
    """The problems whose champions met libraries in a night, each with those, in the order in which they did."""
    found: dict[Problem, list[Values]] = {}
    for record in Reading(store).baselines():
        if (record.silicon, record.software) == (device.silicon, device.software):
            race = raced(record)
            if race.night == night:
                found.setdefault(record.problem, []).append(race.to_json())
    return [{"problem": problem_json(problem), "libraries": libraries} for problem, libraries in found.items()]


def libraries_beside(records: Sequence[Record], source_hash: str) -> dict[str, Values]:
    """The last race with each library that has a time, by the library's key; `source_hash` is the champion's.

    `gflops` is the library's rate by the host's clock, not to be divided by a rate by the device's: for that there is
    `ratio`. `of_champion` is false if it was measured with a champion before this one.
    """
    found = {}
    for record in records:
        race = raced(record)
        if record.measurement.time_ms is not None:
            name = record.config.family.removeprefix(LIBRARY_PREFIX)
            figures = {key: value for key, value in race.to_json().items() if key not in ("library", "failed")}
            gflops = record.problem.gflops(record.measurement.time_ms)
            found[name] = {**figures, "gflops": gflops, "of_champion": race.source_hash == source_hash}
    return found
