"""Which pages a report has, and the models of all but the problems' pages; what matters most comes first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from tuner.family import load_families
from tuner.model import Problem
from tuner.report import device, failures, misses, overview, problem, regret
from tuner.report.blocks import Page
from tuner.report.changes import changes
from tuner.report.gather import DeviceFacts, Facts, FailureFacts, gather
from tuner.report.labels import device_name, device_page, problem_page
from tuner.report.rungs import Ladder
from tuner.store import Store
from tuner.store.reading import Reading

MOST_IMPORTANT = 20
"""Problems in a report of one file."""
NAMED_DEVICES = 6
"""Devices with a place in the navigation; the overview links to all."""


@dataclass(frozen=True)
class Contents:
    """Facts, and what is made of them."""

    facts: Facts
    before: Mapping[str, Any] | None
    ladders: tuple[Ladder, ...] = ()

    @property
    def navigation(self) -> list[tuple[str, str]]:
        """(name, path) of the pages that every page links to."""
        devices = [(device_name(one.id), device_page(one.id)) for one in self.facts.devices[:NAMED_DEVICES]]
        rest = [("Failures", "failures"), ("Regret", "regret"), ("Misses", "misses")]
        return [("Overview", "index"), *rest, *devices]

    def index(self) -> Page:
        """The overview."""
        return overview.page(self.facts, changes(self.facts, self.before))

    def front(self, logs: Mapping[str, str], *, log_link: bool, regrets: bool = True) -> list[Page]:
        """Every page that is not about one problem; with `regrets` the shape regret of each device."""
        pages = [self.index(), *(device.page(self.facts, one, self.ladders) for one in self.facts.devices)]
        pages += [failures.page(self.facts, logs, log_link), regret.page(self.facts), misses.page(self.facts)]
        return pages + [regret.device_regret_page(self.facts, one) for one in self.facts.devices if regrets]

    def devices_of(self, one: Problem) -> list[DeviceFacts]:
        """The devices that know a problem, cut down to it, so that they travel light."""
        empty = FailureFacts({}, {}, {}, {})
        return [
            replace(
                found,
                tuned={one: found.tuned[one]},
                failures=empty,
                standings={key: value for key, value in found.standings.items() if key[0] == one},
            )
            for found in self.facts.devices
            if one in found.tuned
        ]

    def important(self) -> list[Problem]:
        """The problems that matter most: open regressions, then changed champions, most asked for, furthest behind a
        library, most often measured.
        """
        asked = {miss.problem: miss.count for miss in self.facts.misses}
        regressed = {one.problem for one in self.facts.regressions if one.closed is None}
        changed = self._changed()

        def order(one: Problem) -> tuple[object, ...]:
            known = [found for found in self.facts.devices if one in found.tuned]
            ratios = [s.ratio for found in known for (p, _), s in found.standings.items() if p == one and s.ratio]
            trials = sum(found.tuned[one].trials for found in known)
            behind = min(ratios, default=math.inf)
            return one not in regressed, one not in changed, -asked.get(one, 0), behind, -trials, one

        return sorted(self.facts.problems, key=order)[:MOST_IMPORTANT]

    def _changed(self) -> set[Problem]:
        """Published anew since the report before, or on the last day on which anything was."""
        events = self.facts.events
        if not events:
            return set()
        since = str(self.before.get("when", "")) if self.before else events[-1].when[:10]
        return {event.problem for event in events if event.when >= since}


def read_contents(
    store: Store, before: Mapping[str, Any] | None, ladders: Sequence[Ladder] = (), now: datetime | None = None
) -> Contents:
    """Read the store once; `before` is the manifest of the report before."""
    moment = (now or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="seconds")
    return Contents(gather(store, moment, load_families()), before, tuple(ladders))


def read_logs(store: Store, facts: Facts) -> dict[str, str]:
    """The compile logs that the failures' page shows."""
    return Reading(store).logs(failures.logs_wanted(facts))


def problem_model(store: Store, one: Problem, devices: Sequence[DeviceFacts]) -> Page:
    """The page of one problem."""
    return problem.page(problem.read(store, one), devices)


def path_of(one: Problem) -> str:
    """The path of a problem's page."""
    return problem_page(one)
