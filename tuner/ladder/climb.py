"""One size after the other: every rung is built, verified, and then timed in turns with the libraries."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tuner.baselines.compare import REST_S, Opponent, prepare_all
from tuner.ladder.builds import Builds
from tuner.ladder.champion import Champions, Chosen
from tuner.ladder.level import Level, Taken
from tuner.ladder.ports import Bench
from tuner.ladder.rungs import Rung, fit
from tuner.ladder.turns import SECONDS_EACH, Side, library_side, rung_side, take_turns
from tuner.lookup import Answer
from tuner.model import Problem, Verdict
from tuner.search.ports import Family

LIMIT_S = 1.0
"""A product that would take longer, by what the rung did at the size before, is not run."""
ROUNDS = 5


@dataclass(frozen=True)
class Settings:
    """What bounds the time: of one product, of all turns of a rung or library at one size, and how many those are."""

    limit_s: float = LIMIT_S
    rounds: int = ROUNDS
    seconds_each: float = SECONDS_EACH


class Climb:
    """A ladder on one device. Sizes come in ascending order: the limit rests on what a rung did at the one before."""

    def __init__(
        self,
        rungs: tuple[Sequence[Rung], Sequence[Rung]],
        families: Mapping[str, Family],
        bench: Bench,
        libraries: Sequence[Opponent],
        answer: Callable[[Problem], Answer],
        settings: Settings,
        *,
        say: Callable[[str], None] = lambda text: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`rungs` are all there are, and those to run; `answer` looks a product up."""
        self._ladder, self._rungs = rungs
        self._families, self._bench, self._libraries = families, bench, libraries
        self._settings, self._say, self._sleep = settings, say, sleep
        self._builds = Builds(bench)
        self._champions = Champions(bench, families, self._builds, answer)
        self._flop_per_ms: dict[str, float] = {}

    def level(self, problem: Problem) -> Level:
        """All rungs and libraries at one size."""
        failures = prepare_all(problem, self._libraries)
        declared = {rung.name: self._declared(rung, problem) for rung in self._rungs if rung.family}
        rungs: dict[str, Taken] = {}
        sides: list[Side] = []
        for number, rung in enumerate(self._rungs, 1):
            self._say(f"{problem}: verifying {rung.name} ({number} of {len(self._rungs)})")
            found = declared[rung.name] if rung.family else self._champions.of(problem)
            rungs[rung.name], side = self._verified(rung.name, found, problem)
            sides += [side] if side else []
        playing = [library for library in self._libraries if not library.absent and library.name not in failures]
        beside = [library_side(library) for library in playing]
        self._say(f"{problem}: {len(sides)} rungs and {len(beside)} libraries take turns")
        take_turns([*sides, *beside], self._settings.rounds, self._rest, self._settings.seconds_each)
        for side in sides:
            rungs[side.name] = _timed(rungs[side.name], side)
            if side.ms:
                self._flop_per_ms[side.name] = problem.flop / side.last_ms
        played = {side.name: side for side in beside}
        libraries = [_library(library, failures.get(library.name, ""), played) for library in self._libraries]
        return Level(problem, tuple(rungs.values()), tuple(libraries))

    def _declared(self, rung: Rung, problem: Problem) -> Chosen | str:
        """The configuration that the ladder declares, its build begun; or why the rung is not run."""
        known = self._flop_per_ms.get(rung.name)
        if known is not None and problem.flop / known > self._settings.limit_s * 1e3:
            seconds = problem.flop / known / 1e3
            return f"not run: one product would take about {seconds:.1f} s, the limit is {self._settings.limit_s:g} s"
        config = fit(rung, self._ladder, self._families, problem, self._bench.device)
        if isinstance(config, str):
            return f"not run: {config}"
        chosen = Chosen(config, self._families[config.family].render(config, problem, self._bench.device), "")
        self._builds.ask(chosen.rendered)
        return chosen

    def _verified(self, name: str, found: Chosen | str, problem: Problem) -> tuple[Taken, Side | None]:
        """Right or wrong, before any time that counts."""
        if isinstance(found, str):
            return Taken(name, message=found), None
        built = self._builds.ask(found.rendered).result()
        measured = self._bench.measure(problem, found.rendered, built, best_ms=None)
        taken = Taken(name, {}, measured.verdict, found.config, found.note, measured.message)
        if measured.verdict is not Verdict.CORRECT:
            return taken, None
        return taken, rung_side(name, problem, (found.rendered, built), self._bench)

    def _rest(self) -> None:
        """On a CPU the threads of a finished product spin for a while, waiting for the next."""
        if self._bench.shares_cores:
            self._sleep(REST_S)


def _timed(taken: Taken, side: Side) -> Taken:
    """With its times; or without any, if it failed in the end."""
    if side.verdict is not None:
        return replace(taken, verdict=side.verdict, message=side.failed)
    return replace(taken, ms=dict(side.ms))


def _library(library: Opponent, failed: str, played: Mapping[str, Side]) -> Taken:
    side = played.get(library.name)
    why = library.absent or failed or (side.failed if side else "")
    note = f"{library.version} ({library.how})" if library.version else ""
    return Taken(library.name, {} if why or side is None else dict(side.ms), note=note, message=why)
