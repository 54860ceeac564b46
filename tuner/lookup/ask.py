"""Which configuration for this device and problem, and why that one: every candidate is checked before it is served."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tuner.lookup.answer import Answer, Origin
from tuner.lookup.evidence import default_evidence, evidence_of
from tuner.lookup.snapshot import Index, Snapshot
from tuner.model import Certificate, Config, Device, Problem, Rendered, Silicon, UserError
from tuner.store.published import Entry


class Family(Protocol):
    """What a look-up needs of a kernel family."""

    def complete(self, values: Mapping[str, Any]) -> Config:
        """The configuration of these axis values; a UserError for an unknown axis or choice."""

    def broken_rule(self, config: Config, problem: Problem, device: Device) -> str | None:
        """The sentence of the first rule it breaks, or None if it is legal."""

    def rank(self, problem: Problem, device: Device) -> int:
        """How promising it is before anything was measured; higher is better."""

    def default(self, problem: Problem, device: Device) -> Config:
        """The first declared default that is legal; a UserError if none is."""

    def render(self, config: Config, problem: Problem, device: Device) -> Rendered:
        """Source and launch plan."""


@dataclass(frozen=True)
class Sources:
    """Where answers come from: what was published, the known-good configurations of the package, and the families."""

    index: Index
    families: Mapping[str, Family]
    seeds: Callable[[], Index] | None = None
    """Asked for only if nothing better is known."""
    now: Callable[[], float] = time.time


@dataclass(frozen=True)
class Candidate:
    """A champion that might do, before it is checked."""

    origin: Origin
    distance: float
    entry: Entry


def lookup(
    snapshot: Snapshot,
    device: Device,
    problem: Problem,
    families: Mapping[str, Family],
    *,
    seeds: Callable[[], Index] | None = None,
    now: Callable[[], float] = time.time,
) -> Answer:
    """The best configuration known for `problem` on `device`; whatever is stored, there is an answer.

    Raises UserError only for an empty product, for a dtype the device lacks, and if `families` has no legal default.
    """
    return next(answers(Sources(snapshot.index, families, seeds, now), device, problem))


def answers(sources: Sources, device: Device, problem: Problem) -> Iterator[Answer]:
    """Every answer that is legal for `problem` on `device`, best first; at least one. Raises as `lookup` does."""
    if problem.emptiness:
        raise UserError(f"{problem} is an empty product ({problem.emptiness}): there is nothing to look up.")
    if not device.has(problem.dtype):
        raise UserError(f"{device.name} does not support {problem.dtype}; use another device or float32.")
    asked = _Question(sources, device, problem)
    for candidate in asked.candidates():
        broken = asked.refusal(candidate)
        if broken is None:
            yield asked.answer(candidate)
        else:
            asked.skipped.append(f"{candidate.origin} {candidate.entry.champion.config}: {broken}")
    yield from asked.defaults()


@dataclass
class _Question:
    sources: Sources
    device: Device
    problem: Problem
    skipped: list[str] = field(default_factory=list)
    """What was passed over so far, and why."""

    def candidates(self) -> Iterator[Candidate]:
        """Whatever might do, best first."""
        index, device, problem = self.sources.index, self.device, self.problem
        same = index.same_problem(device.silicon, problem)
        here = [entry for entry in same if entry.champion.software == device.software]
        for entry in here:
            yield Candidate(Origin.PINNED if entry.champion.pinned else Origin.EXACT, 0.0, entry)
        others = [entry for entry in same if entry.champion.software != device.software]
        issued = index.certificates((device.silicon, device.software, problem)) if others else {}
        others.sort(key=lambda entry: entry.champion.when, reverse=True)
        others.sort(key=lambda entry: (entry.champion.rendered.source_hash not in issued, not entry.champion.pinned))
        for entry in others:
            yield Candidate(Origin.OTHER_DRIVER, 0.0, entry)
        for far, entry in index.nearest(device, problem):
            yield Candidate(Origin.NEAREST, far, entry)
        yield from self._of_others(index, Origin.SIMILAR_DEVICE)
        if self.sources.seeds is not None:
            yield from self._of_others(self.sources.seeds(), Origin.SEED)

    def _of_others(self, index: Index, origin: Origin) -> Iterator[Candidate]:
        """Champions of silicon of the same vendor and kind, the nearest in compute units first, then in shape.

        Seeds are few, and processors of different makers alike: a CPU takes those of any CPU.
        """
        mine, any_maker = self.device.silicon, origin is Origin.SEED and self.device.silicon.kind == "cpu"

        def apart(other: Silicon) -> float:
            return abs(math.log2(max(1, other.compute_units) / max(1, mine.compute_units)))

        def order(other: Silicon) -> tuple[object, ...]:
            return other.vendor != mine.vendor, apart(other), other.name != mine.name, other

        found = [silicon for silicon in index.silicons if silicon.kind == mine.kind]
        found = [silicon for silicon in found if any_maker or silicon.vendor == mine.vendor]
        if origin is Origin.SIMILAR_DEVICE:
            found = [silicon for silicon in found if silicon != mine]
        for silicon in sorted(found, key=order):
            for far, entry in index.nearest(self.device, self.problem, silicon):
                yield Candidate(origin, math.hypot(far, apart(silicon)), entry)

    def refusal(self, candidate: Candidate) -> str | None:
        """Why a candidate cannot be served for the asked problem on this device; None if it can."""
        found = candidate.entry.champion.config
        family = self.sources.families.get(found.family)
        if family is None:
            return f"the family {found.family} is not known here"
        try:
            broken = family.broken_rule(family.complete(found.as_dict()), self.problem, self.device)
        except UserError as error:
            return str(error)
        return broken and f"it breaks the rule: {broken}"

    def answer(self, candidate: Candidate) -> Answer:
        """A candidate as what was asked for: the stored source for the same problem, else rendered when needed."""
        device, problem = self.device, self.problem
        found, origin = candidate.entry.champion, candidate.origin
        config, stored = found.config, found.rendered
        render: Callable[[], Rendered] = lambda: stored  # noqa: E731
        if origin not in (Origin.PINNED, Origin.EXACT, Origin.OTHER_DRIVER):
            family = self.sources.families[config.family]
            config = complete = family.complete(config.as_dict())
            render = _once(lambda: family.render(complete, problem, device))
        held = self._certificate(render)
        here = found.silicon == device.silicon and found.software == device.software
        known = found.time_ms if here and origin in (Origin.PINNED, Origin.EXACT) else None
        skipped, now = tuple(self.skipped), self.sources.now
        return Answer(
            config=config,
            origin=origin,
            certified=held is not None,
            gflops=problem.gflops(known) if known else None,
            distance=candidate.distance,
            tell=lambda: evidence_of(origin, candidate.entry, device, held, skipped, now()),
            render=render,
        )

    def defaults(self) -> Iterator[Answer]:
        """The declared defaults that are legal, the highest rank first. Raises UserError if there is none."""
        families = self.sources.families
        served = 0
        for name in sorted(families, key=lambda name: (-families[name].rank(self.problem, self.device), name)):
            try:
                config = families[name].default(self.problem, self.device)
            except UserError as error:
                self.skipped.append(f"{Origin.DEFAULT} {name}: {error}")
                continue
            yield self._default(families[name], config)
            served += 1
        if not served:
            why = "; ".join(self.skipped)
            raise UserError(f"no family has a default that is legal for {self.problem} on {self.device.name}: {why}")

    def _default(self, family: Family, config: Config) -> Answer:
        render = _once(lambda: family.render(config, self.problem, self.device))
        held, skipped = self._certificate(render), tuple(self.skipped)
        tell = lambda: default_evidence(held, skipped)  # noqa: E731
        return Answer(config, Origin.DEFAULT, held is not None, None, None, tell, render)

    def _certificate(self, render: Callable[[], Rendered]) -> Certificate | None:
        """Of the source that would be served, if it has one here; rendered only if it might have."""
        issued = self.sources.index.certificates((self.device.silicon, self.device.software, self.problem))
        return issued.get(render().source_hash) if issued else None


def _once(render: Callable[[], Rendered]) -> Callable[[], Rendered]:
    kept: list[Rendered] = []

    def rendered() -> Rendered:
        if not kept:
            kept.append(render())
        return kept[0]

    return rendered
