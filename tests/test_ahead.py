"""The look-ahead: how many proposals are in the dark, and one sequence of them however long things take."""

from __future__ import annotations

import math
import random
from concurrent.futures import Future

import pytest

from tuner.model import Built, Config, Measurement, Rendered, Verdict
from tuner.search.ahead import GROWTH, LEAST_SPARE, MOST_EACH, Lookahead

RENDERED = Rendered("", "", (), ())
COMPILERS = 6


class Run:
    """A look-ahead that notes how much was told when each proposal was made."""

    def __init__(self, *, in_batches: bool = False, hurried: bool = False) -> None:
        self.told = 0
        self.told_before: list[int] = []
        self.ahead = Lookahead(
            COMPILERS, self._propose, self._build, self._tell, in_batches=in_batches, hurried=hurried
        )

    def _propose(self) -> tuple[Config, Rendered]:
        self.told_before.append(self.told)
        return Config.of("family", {"x": len(self.told_before)}), RENDERED

    def _build(self, rendered: Rendered) -> Future[Built]:
        built: Future[Built] = Future()
        built.set_result(Built(Verdict.CORRECT))
        return built

    def _tell(self, config: Config, measurement: Measurement) -> None:
        self.told += 1

    def measure(self, count: int, luck: random.Random) -> list[int]:
        """The sizes of the window while `count` candidates are measured, each time any of those that wait."""
        seen = []
        self.ahead.advance(lambda: math.inf)
        for _ in range(count):
            luck.choice(self.ahead.unmeasured).measurement = Measurement(Verdict.CORRECT, (1.0,))
            self.ahead.advance(lambda: math.inf)
            seen.append(self.ahead.window)
        return seen


def test_a_window_is_constant_unless_time_is_the_limit() -> None:
    for run in (Run(), Run(in_batches=True, hurried=True)):
        assert set(run.measure(100, random.Random(0))) == {COMPILERS + LEAST_SPARE}


def test_where_time_is_the_limit_a_window_grows_with_what_is_known_up_to_a_bound() -> None:
    run = Run(hurried=True)
    seen = run.measure(200, random.Random(0))
    assert seen == sorted(seen)
    assert seen[0] == COMPILERS + LEAST_SPARE and seen[-1] == MOST_EACH * COMPILERS
    dark = [number - told for number, told in enumerate(run.told_before)]
    assert all(
        len_ <= COMPILERS + LEAST_SPARE + told // GROWTH for len_, told in zip(dark, run.told_before, strict=True)
    )


@pytest.mark.parametrize("hurried", [False, True])
def test_what_is_known_at_a_proposal_does_not_depend_on_the_order_of_measuring(hurried: bool) -> None:
    sequences = []
    for seed in range(5):
        run = Run(hurried=hurried)
        run.measure(150, random.Random(seed))
        sequences.append(run.told_before)
    shortest = min(len(sequence) for sequence in sequences)
    assert shortest > 60
    assert len({tuple(sequence[:shortest]) for sequence in sequences}) == 1
