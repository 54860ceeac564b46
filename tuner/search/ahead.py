"""Proposals that run ahead of the device: built early, measured as soon as that is done, told in order of proposal."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass

from tuner.model import Built, Config, Measurement, Rendered

SPARE_SHARE, LEAST_SPARE = 0.25, 2
"""Proposals in the dark beyond one for each compiler: a part of these, and at least so many.

They hide that builds take unequal times; more of them make the search blinder."""
GROWTH, MOST_EACH = 3, 3
"""Where time is the limit, one more for every so many results, up to so many for each compiler.

Results are told in order, so one slow build keeps the compilers waiting: with the build times of an H200's host, 15
compilers and 18 proposals in the dark reach 55 % of the pool's rate, 45 reach 90 %. On recorded spaces 45 from the
beginning lose 2 % of the optimum at 100 evaluations, and 45 by and by 1 %, for one and a half times the evaluations."""


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

    @property
    def window(self) -> int:
        """How many candidates may be without an outcome now."""
        return min(self._most, self._least + self._told // GROWTH)

    @property
    def unmeasured(self) -> list[Candidate]:
        """Candidates without a measurement, in the order of proposal."""
        return [candidate for candidate in self._untold if candidate.measurement is None]

    def advance(self, evaluations: float) -> None:
        """Tell what can be told, and propose, until the window is full or there are `evaluations` unmeasured ones."""
        while not self._stopping:
            if not (self._in_batches and self._untold):
                self._fill(evaluations)
            if not self._untold or self._untold[0].measurement is None:
                return
            told = self._untold.popleft()
            assert told.measurement is not None
            self._told += 1
            self._tell(told.config, told.measurement)

    def _fill(self, evaluations: float) -> None:
        while len(self._untold) < self.window and len(self.unmeasured) < evaluations and not self._stopping:
            proposal = self._propose()
            if proposal is None:
                return
            config, rendered = proposal
            self._untold.append(Candidate(config, rendered, self._build(rendered)))

    def wait(self, seconds: float, *, foremost: bool = False) -> Candidate | None:
        """The earliest candidate that is built, or None after `seconds`; with batches once all of them are.

        `foremost`: the earliest of all, whatever else is built before it.
        """
        waiting = self.unmeasured
        if foremost and not self._in_batches:
            waiting = waiting[:1]
        limit = None if math.isinf(seconds) else max(0.0, seconds)
        building = [candidate.building for candidate in waiting]
        if self._in_batches:
            return waiting[0] if not wait(building, limit).not_done else None
        wait(building, limit, FIRST_COMPLETED)
        return next((candidate for candidate in waiting if candidate.building.done()), None)

    @contextmanager
    def advancing(self, helper: ThreadPoolExecutor, evaluations: float) -> Iterator[Future[None] | None]:
        """`advance` in the `helper` while the block measures; only begun, so that the caller may wait for its end.

        Where the device computes on our cores (`in_batches`), nothing else may run, and None is handed over.
        """
        if self._in_batches:
            yield None
            return
        going = helper.submit(self.advance, evaluations)
        try:
            yield going
        except BaseException:
            self._stopping = True
            raise
        finally:
            going.result()
