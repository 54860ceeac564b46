"""Questions answered from the published snapshot, with no database: configurations, kernels, champions, devices."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.family import is_sound
from tuner.lookup import Answer, Family, Finder, Index, Misses, Snapshot, seed_index
from tuner.lookup.misses import Counter
from tuner.lookup.snapshot import Listed
from tuner.model import Champion, Config, Device, Problem, Rendered, Silicon, Software
from tuner.service.asked import Listing, Question, Report
from tuner.service.devices import Directory, FactsFrom, Known, shown
from tuner.service.settings import Settings
from tuner.store.contents import ProblemKey
from tuner.store.place import Place

MOST_TRIED = 64
"""Answers that a certified one is sought among."""


class Uncertified(LookupError):
    """Nothing that could be served is certified on the asked device and driver; the message is a sentence."""


@dataclass(frozen=True)
class _Believed:
    """A family whose rules are not asked: what is certified on a driver was legal there."""

    family: Family

    def complete(self, values: Mapping[str, Any]) -> Config:
        return self.family.complete(values)

    def broken_rule(self, config: Config, problem: Problem, device: Device) -> str | None:
        return None

    def rank(self, problem: Problem, device: Device) -> int:
        return self.family.rank(problem, device)

    def default(self, problem: Problem, device: Device) -> Config:
        return self.family.default(problem, device)

    def render(self, config: Config, problem: Problem, device: Device) -> Rendered:
        return self.family.render(config, problem, device)


@dataclass(frozen=True)
class Found:
    """An answer, and for which device."""

    known: Known
    problem: Problem
    answer: Answer


class Answers:
    """All that is answered from one snapshot; safe to use from several threads."""

    def __init__(self, settings: Settings) -> None:
        """Nothing is read before the first question."""
        place = Place.of(settings.db)
        self.snapshot = Snapshot(place.snapshot)
        self.misses = Misses(place.spool)
        families = settings.families
        self._finder = Finder(self.snapshot, families, seeds=seed_index, misses=self.misses)
        self._believing = Finder(self.snapshot, {name: _Believed(one) for name, one in families.items()})
        self._here: Sequence[Device] = ()
        self._described = settings.described
        self._directory: tuple[Index | None, Directory | None] = (None, None)

    def see(self, here: Sequence[Device]) -> None:
        """These are the devices of this machine."""
        self._here, self._directory = here, (None, None)

    def directory(self) -> Directory:
        """The devices known now."""
        index = self.snapshot.index
        seen, found = self._directory
        if found is None or seen is not index:
            found = Directory(index, self._here, self._described)
            self._directory = index, found
        return found

    def lookup(self, question: Question) -> Found:
        """The best configuration known. Raises NotOne, and UserError for a type that the device lacks."""
        known, problem = self._meant(question)
        return Found(known, problem, next(self._answers(known, problem)))

    def kernel(self, question: Question) -> tuple[Found, list[str]]:
        """The best answer that is certified on the asked driver, and what was passed over.

        Raises Uncertified if there is none, and as `lookup`.
        """
        known, problem = self._meant(question)
        device = known.device
        passed: list[Answer] = []
        some = self.snapshot.index.certificates((device.silicon, device.software, problem))
        for answer in itertools.islice(self._answers(known, problem), MOST_TRIED if some else 1):
            if answer.certified and is_sound(answer.rendered):
                return Found(known, problem, answer), [_named(one) for one in passed]
            passed.append(answer)
        raise Uncertified(
            f"no kernel for {problem} is certified on {device.name} with driver {device.software.driver},"
            f" and an unproven one is never served; the best answer has the origin {passed[0].origin}."
            f" {self._way_out(device, problem)}"
        )

    def _way_out(self, device: Device, problem: Problem) -> str:
        """What to do where nothing can be served: a champion may be of a family that only whoever tuned it has."""
        same = self.snapshot.index.same_problem(device.silicon, problem)
        here = [one.champion.config.family for one in same if one.champion.software == device.software]
        unknown = [family for family in here if family not in self._finder.families]
        if not unknown:
            return "Run gemm-tuner tune there for this product."
        return (
            f"Its champion is of the family {shown(unknown[0])}, which this server does not know: start it with"
            " --family-dir and the folder that holds the family."
        )

    def counter(self, found: Found) -> Counter | None:
        """What counts this question each time it is asked; None if it is no miss."""
        return self._finder.counter(found.known.device, found.problem, found.answer)

    def report(self, report: Report) -> tuple[int, int]:
        """Count misses; returns how many questions were counted, and how many have a certified champion.

        Raises as `lookup`, before anything is counted.
        """
        counters = [(self.counter(self.lookup(miss)), miss.count) for miss in report.misses]
        for counter, times in counters:
            if counter is not None:
                counter.count(times)
        known = sum(times for counter, times in counters if counter is None)
        return sum(times for _, times in counters) - known, known

    def champions(self, listing: Listing) -> tuple[int, list[Champion]]:
        """How many champions fit, and those asked for; damaged ones are left out. Raises NotOne."""
        device = None
        if listing.device is not None:
            device = self.directory().find(listing.device, listing.driver).device
        listed = _standing(self.snapshot.index, device, listing.dtype)
        chosen = listed[listing.offset : listing.offset + listing.limit]
        return len(listed), [entry.champion for one in chosen if (entry := one.entry) is not None]

    def _meant(self, question: Question) -> tuple[Known, Problem]:
        problem = question.problem()
        return self.directory().find(question.device, question.driver), problem

    def _answers(self, known: Known, problem: Problem) -> Iterator[Answer]:
        """As a look-up on the device itself, where its limits are known.

        Where they are not, what is certified there is believed, and anything else must be legal on every device.
        """
        if known.facts_from is FactsFrom.ASSUMED:
            first = next(self._believing.answers(known.device, problem))
            if first.certified and not first.origin.is_miss:
                yield first
        yield from self._finder.answers(known.device, problem)


def _standing(index: Index, device: Device | None, dtype: str | None) -> list[Listed]:
    """What stands for each key, pinned before promoted: on a device (None: all) for an element type (None: all)."""
    found: dict[tuple[Silicon, Software, ProblemKey], Listed] = {}
    for one in index.listed:
        if device is not None and (one.silicon, one.software) != (device.silicon, device.software):
            continue
        if dtype is None or one.problem[4] == dtype:
            found.setdefault((one.silicon, one.software, one.problem), one)
    return list(found.values())


def _named(answer: Answer) -> str:
    return f"{answer.origin} {answer.config}"
