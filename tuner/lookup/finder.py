"""Look-ups as a program makes them: over and over on one store, answers kept, misses counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tuner.lookup.answer import Answer
from tuner.lookup.ask import Family, Sources, answers
from tuner.lookup.misses import Counter, Misses
from tuner.lookup.snapshot import Index, Snapshot
from tuner.model import Device, Problem

MOST_DEVICES = 64
MOST_ANSWERS = 10_000
"""Answers kept for one device; beyond, all are forgotten and found anew."""

_Kept = dict[int, tuple[Device, dict[Problem, tuple[Answer, Counter | None]]]]
"""By the identity of the Device, quicker to hash than its value; the Device is kept, so that the identity stays its."""


class Finder:
    """Answers questions from one snapshot; safe to use from several threads."""

    def __init__(
        self,
        snapshot: Snapshot,
        families: Mapping[str, Family],
        *,
        seeds: Callable[[], Index] | None = None,
        misses: Misses | None = None,
    ) -> None:
        """`families` must not change."""
        self.snapshot = snapshot
        self.families = families
        self._seeds = seeds
        self._misses = misses
        self._state: tuple[Index | None, _Kept] = (None, {})
        """A snapshot and the answers it gave: replaced together, so that no answer outlives its snapshot."""

    def lookup(self, device: Device, problem: Problem) -> Answer:
        """The best configuration known; raises UserError as `ask.lookup` does.

        The same Device object is the quickest to recognise.
        """
        index = self.snapshot.index
        seen, kept = self._state
        if seen is not index:
            self._state = _, kept = index, {}
        mine = kept.get(id(device))
        if mine is not None and mine[0] is device and (found := mine[1].get(problem)) is not None:
            answer, counter = found
        else:
            answer = next(answers(Sources(index, self.families, self._seeds), device, problem))
            counter = self.counter(device, problem, answer)
            _keep(kept, device, problem, (answer, counter))
        if counter is not None:
            counter.count()
        return answer

    def answers(self, device: Device, problem: Problem) -> Iterator[Answer]:
        """Every legal answer, best first; no miss is counted. Raises UserError as `ask.lookup` does."""
        return answers(Sources(self.snapshot.index, self.families, self._seeds), device, problem)

    def counter(self, device: Device, problem: Problem, answer: Answer) -> Counter | None:
        """What counts a question that got this answer; None if it was no miss, or nobody counts."""
        if self._misses is None or (answer.certified and not answer.origin.is_miss):
            return None
        return self._misses.counter(device, problem, answer.origin)


def _keep(kept: _Kept, device: Device, problem: Problem, found: tuple[Answer, Counter | None]) -> None:
    """Of two threads that meet here both are right; what one keeps the other may overwrite."""
    mine = kept.get(id(device))
    if mine is None or mine[0] is not device:
        if len(kept) >= MOST_DEVICES:
            kept.clear()
        mine = kept[id(device)] = (device, {})
    if len(mine[1]) >= MOST_ANSWERS:
        mine[1].clear()
    mine[1][problem] = found
