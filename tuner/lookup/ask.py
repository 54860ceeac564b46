"""Which configuration for this device and problem, and why that one: every candidate is checked before it is served."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from tuner.lookup.answer import Answer, Origin
from tuner.lookup.snapshot import Index, Snapshot
from tuner.model import Config, Device, Problem, Rendered, UserError
from tuner.store.published import Entry

DEFAULT_ORDER = ("register_tiled", "tiled", "naive")
"""Families whose declared default is tried first, fastest first; the others follow by name."""

_MOST_SKIPPED = 10


class Family(Protocol):
    """What a look-up needs of a kernel family."""

    def complete(self, values: Mapping[str, Any]) -> Config:
        """The configuration of these axis values; a UserError for an unknown axis or choice."""

    def broken_rule(self, config: Config, problem: Problem, device: Device) -> str | None:
        """The sentence of the first rule it breaks, or None if it is legal."""

    def default(self, problem: Problem, device: Device) -> Config:
        """The first declared default that is legal; a UserError if none is."""

    def render(self, config: Config, problem: Problem, device: Device) -> Rendered:
        """Source and launch plan."""


@dataclass(frozen=True)
class _Candidate:
    origin: Origin
    distance: float
    entry: Entry


def lookup(
    snapshot: Snapshot,
    device: Device,
    problem: Problem,
    families: Mapping[str, Family],
    *,
    now: Callable[[], float] = time.time,
) -> Answer:
    """The best configuration known for `problem` on `device`; whatever is stored, there is an answer.

    Raises UserError only for an empty product, for a dtype the device lacks, and if `families` has no legal default.
    """
    if min(problem.m, problem.n, problem.k, problem.batch) == 0:
        raise UserError(f"{problem} is an empty product: there is nothing to look up.")
    if problem.dtype == "float64" and not device.facts.fp64:
        raise UserError(f"{device.name} does not support float64; use another device or float32.")
    index = snapshot.index
    skipped: list[str] = []
    for candidate in _candidates(index, device, problem):
        broken = _refusal(candidate, device, problem, families)
        if broken is None:
            return _answer(candidate, index, device, problem, families, skipped, now())
        skipped.append(f"{candidate.origin} {candidate.entry.champion.config}: {broken}")
    return _default(index, device, problem, families, skipped)


def _candidates(index: Index, device: Device, problem: Problem) -> Iterator[_Candidate]:
    """Whatever might do, best first."""
    same = index.same_problem(device.silicon, problem)
    here = [entry for entry in same if entry.champion.software == device.software]
    for entry in here:
        yield _Candidate(Origin.PINNED if entry.champion.pinned else Origin.EXACT, 0.0, entry)
    issued = index.certificates((device.silicon, device.software, problem))
    others = [entry for entry in same if entry.champion.software != device.software]
    others.sort(key=lambda entry: entry.champion.when, reverse=True)
    others.sort(key=lambda entry: (entry.champion.rendered.source_hash not in issued, not entry.champion.pinned))
    for entry in others:
        yield _Candidate(Origin.OTHER_DRIVER, 0.0, entry)
    for far, entry in index.nearest(device, problem):
        yield _Candidate(Origin.NEAREST, far, entry)


def _refusal(candidate: _Candidate, device: Device, problem: Problem, families: Mapping[str, Family]) -> str | None:
    """Why a candidate cannot be served for the asked problem on this device; None if it can."""
    found = candidate.entry.champion.config
    family = families.get(found.family)
    if family is None:
        return f"the family {found.family} is not known here"
    try:
        broken = family.broken_rule(family.complete(found.as_dict()), problem, device)
    except UserError as error:
        return str(error)
    return broken and f"it breaks the rule: {broken}"


def _answer(
    candidate: _Candidate,
    index: Index,
    device: Device,
    problem: Problem,
    families: Mapping[str, Family],
    skipped: list[str],
    now: float,
) -> Answer:
    found = candidate.entry.champion
    config, stored = found.config, found.rendered
    render: Callable[[], Rendered] = lambda: stored  # noqa: E731
    if candidate.origin is Origin.NEAREST:
        family = families[config.family]
        config = family.complete(config.as_dict())
        render = _once(lambda: family.render(config, problem, device))
    checks = _checks(index, device, problem, render)
    here = found.software == device.software
    known = found.time_ms if here and candidate.origin is not Origin.NEAREST else None
    evidence = _evidence(candidate, device, checks, now)
    return Answer(
        config=config,
        origin=candidate.origin,
        certified=checks is not None,
        gflops=problem.gflops(known) if known else None,
        distance=candidate.distance,
        evidence={**evidence, "skipped": _shortened(skipped)},
        render=render,
    )


def _checks(index: Index, device: Device, problem: Problem, render: Callable[[], Rendered]) -> tuple[str, ...] | None:
    """What the source that would be served was certified for; it is rendered only if it might have a certificate."""
    issued = index.certificates((device.silicon, device.software, problem))
    held = issued.get(render().source_hash) if issued else None
    return held.checks if held else None


def _evidence(candidate: _Candidate, device: Device, checks: tuple[str, ...] | None, now: float) -> dict[str, Any]:
    found = candidate.entry.champion
    rate = found.problem.gflops(found.time_ms) if found.time_ms else None
    return {
        "why": _WHY[candidate.origin].format(problem=found.problem, driver=found.software.driver),
        "problem": str(found.problem),
        "driver": found.software.driver,
        "same_driver": found.software == device.software,
        "time_ms": found.time_ms,
        "noise": found.noise,
        "gflops": rate,
        "when": found.when,
        "age_seconds": _age(found.when, now),
        "run": candidate.entry.run,
        "reason": found.reason,
        "checks": list(checks or ()),
    }


_WHY = {
    Origin.PINNED: "it was pinned for this problem on this device and driver",
    Origin.EXACT: "it is the champion of this problem on this device and driver",
    Origin.OTHER_DRIVER: "it is the champion of this problem on this device with another driver, {driver}",
    Origin.NEAREST: "nothing was tuned for this problem; this was for the nearest one, {problem}",
    Origin.DEFAULT: "nothing that was tuned on this device fits; this is what the family declares as its default",
}


def _age(when: str, now: float) -> float | None:
    try:
        return max(0.0, round(now - datetime.fromisoformat(when).timestamp(), 1))
    except ValueError:
        return None


def _default(
    index: Index, device: Device, problem: Problem, families: Mapping[str, Family], skipped: list[str]
) -> Answer:
    first = [name for name in DEFAULT_ORDER if name in families]
    for name in (*first, *sorted(families.keys() - first)):
        family = families[name]
        try:
            config = family.default(problem, device)
        except UserError as error:
            skipped.append(f"{Origin.DEFAULT} {name}: {error}")
            continue
        return _default_answer(family, config, index, device, problem, skipped)
    raise UserError(f"no family has a default that is legal for {problem} on {device.name}: {'; '.join(skipped)}")


def _default_answer(
    family: Family, config: Config, index: Index, device: Device, problem: Problem, skipped: list[str]
) -> Answer:
    render = _once(lambda: family.render(config, problem, device))
    checks = _checks(index, device, problem, render)
    evidence = {"why": _WHY[Origin.DEFAULT], "checks": list(checks or ()), "skipped": _shortened(skipped)}
    return Answer(config, Origin.DEFAULT, checks is not None, None, None, evidence, render)


def _once(render: Callable[[], Rendered]) -> Callable[[], Rendered]:
    kept: list[Rendered] = []

    def rendered() -> Rendered:
        if not kept:
            kept.append(render())
        return kept[0]

    return rendered


def _shortened(skipped: list[str]) -> list[str]:
    rest = len(skipped) - _MOST_SKIPPED
    return skipped if rest <= 0 else [*skipped[:_MOST_SKIPPED], f"and {rest} more"]
