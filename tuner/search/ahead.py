"""Proposals that run ahead of the device: built early, measured as soon as that is done, told in order of proposal."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass

from tuner.model import Built, Config, Measurement, Rendered

SPARE_SHARE, LEAST_SPARE = 0.25, 2
"""Proposals in the dark beyond one for each compiler: a part of these, and at least so many.

They hide that builds take unequal times; more of them make the search blinder."""
GROWTH, MOST_EACH = 2, 3
"""Where time is the limit, one more for every so many results, up to so many for each compiler.

Results are told in order, so one slow build keeps the compilers waiting: with the build times of an H200's host, 15
compilers and 18 proposals in the dark reach 55 % of the pool's rate, 45 reach 90 %. On recorded spaces 45 from the
beginning lose 4 % of the optimum at 100 evaluations, and 45 by and by 1 %, for one and a half times the evaluations."""


@dataclass(eq=False)
class Candidate:
    """A proposal that is being built, or was; its measurement once there is one."""

    config: Config
    rendered: Rendered
    building: Future[Built]
    measurement: Measurement | None = None


Propose = Callable[[], tuple[Config, Rendered] | None]
Build = Callable[[Rendered], Future[Built]]
Tell = Callable[[Config, Measurement], None]


class Lookahead:
    """A bounded number of candidates whose outcome the search does not know yet.

    Each proposal is made when exactly those before the window are told, in order. So a seed gives one sequence of
    proposals however long builds and measurements take, as long as the measurements agree.
    """

    def __init__(
        self, compilers: int, propose: Propose, build: Build, tell: Tell, *, in_batches: bool, hurried: bool
    ) -> None:
        """`in_batches`: nothing is proposed or built until every candidate before is measured.

        `hurried`: time is the limit, not evaluations, and the window grows with what is known.
        """
        self._least = compilers + max(LEAST_SPARE, int(SPARE_SHARE * compilers))
        self._most = max(self._least, MOST_EACH * compilers) if hurried and not in_batches else self._least
        self._told = 0
        self._propose, self._build, self._tell = propose, build, tell
        self._in_batches = in_batches
        self._untold: deque[Candidate] = deque()
        self._stopping = False
        self._changed = threading.Condition()
        """Guards what is below and the candidates; notified when one is built and when a helper is done."""
        self._helping = 0
        self._mistake: BaseException | None = None

    @property
    def window(self) -> int:
        """How many candidates may be without an outcome now."""
        return min(self._most, self._least + self._told // GROWTH)

    @property
    def unmeasured(self) -> list[Candidate]:
        """Candidates without a measurement, in the order of proposal."""
        with self._changed:
            return [candidate for candidate in self._untold if candidate.measurement is None]

    @property
    def exhausted(self) -> bool:
        """There is nothing to measure, and the helper is not about to propose anything."""
        with self._changed:
            return not self._helping and not self.unmeasured

    def advance(self, evaluations: Callable[[], float]) -> None:
        """Tell what can be told, and propose, until the window is full or there are `evaluations()` unmeasured ones."""
        while not self._stopping:
            if not (self._in_batches and self._untold):
                self._fill(evaluations)
            if not self._untold or self._untold[0].measurement is None:
                return
            with self._changed:
                told = self._untold.popleft()
            assert told.measurement is not None
            self._told += 1
            self._tell(told.config, told.measurement)

    def _fill(self, evaluations: Callable[[], float]) -> None:
        while len(self._untold) < self.window and len(self.unmeasured) < evaluations() and not self._stopping:
            proposal = self._propose()
            if proposal is None:
                return
            config, rendered = proposal
            candidate = Candidate(config, rendered, self._build(rendered))
            with self._changed:
                self._untold.append(candidate)
            candidate.building.add_done_callback(self._notify)

    def advance_in(self, helper: Executor, evaluations: Callable[[], float]) -> None:
        """Begin to `advance` in the one thread of `helper`; what goes wrong there is raised by those who wait."""
        with self._changed:
            self._helping += 1
        helper.submit(self.advance, evaluations).add_done_callback(self._helped)

    def stop(self) -> None:
        """Propose no more: a helper is done after what it is just at."""
        self._stopping = True

    def _helped(self, done: Future[None]) -> None:
        with self._changed:
            self._helping -= 1
            self._mistake = self._mistake or done.exception()
            self._changed.notify_all()

    def _notify(self, _: Future[Built]) -> None:
        with self._changed:
            self._changed.notify_all()

    def wait_for_proposals(self, seconds: float, *, foremost: bool = False) -> None:
        """Return when the helper is done or a candidate is built as for `wait`, after `seconds` at the latest."""
        self._wait_for(lambda: not self._helping or self.ready(foremost) is not None, seconds)

    def wait(self, seconds: float, *, foremost: bool = False) -> Candidate | None:
        """The earliest candidate that is built, or None after `seconds` or if there is none; with batches once all are.

        `foremost`: the earliest of all, whatever else is built before it.
        """
        with self._changed:
            self._wait_for(lambda: self.exhausted or self.ready(foremost) is not None, seconds)
            return self.ready(foremost)

    def _wait_for(self, condition: Callable[[], bool], seconds: float) -> None:
        limit = None if math.isinf(seconds) else max(0.0, seconds)
        with self._changed:
            self._changed.wait_for(lambda: self._mistake is not None or condition(), limit)
            if self._mistake is not None:
                raise self._mistake

    def ready(self, foremost: bool) -> Candidate | None:
        """What `wait` would return at once."""
        waiting = self.unmeasured
        if self._in_batches:
            return waiting[0] if waiting and all(candidate.building.done() for candidate in waiting) else None
        return next((candidate for candidate in waiting[: 1 if foremost else None] if candidate.building.done()), None)
