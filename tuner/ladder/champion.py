"""The highest rung: what is stored for a product, or the fastest default of all families."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tuner.ladder.builds import Builds
from tuner.ladder.ports import Bench
from tuner.lookup import Answer
from tuner.model import Config, Problem, Rendered, Verdict
from tuner.search.known import restored
from tuner.search.ports import Family

HOPELESS, HOPELESS_LEAST_MS = 10.0, 20.0
"""A default this many times slower than the best at one size is not tried at larger ones; but a short product tells
nothing: large tiles lose there."""


@dataclass(frozen=True)
class Chosen:
    """A configuration, and where it comes from."""

    config: Config
    rendered: Rendered
    note: str


class Champions:
    """Chooses the champion of each size; what was far too slow at one is left out at the next."""

    def __init__(
        self, bench: Bench, families: Mapping[str, Family], builds: Builds, answer: Callable[[Problem], Answer]
    ) -> None:
        """`answer` looks a product up."""
        self._bench, self._families, self._builds, self._answer = bench, families, builds, answer
        self._hopeless: set[Config] = set()

    def of(self, problem: Problem) -> Chosen | str:
        """The champion, or why there is none."""
        answer = self._answer(problem)
        if not answer.origin.is_miss:
            return Chosen(answer.config, answer.rendered, f"stored ({answer.origin.value})")
        candidates = {
            config: self._families[config.family].render(config, problem, self._bench.device)
            for config in self._defaults(problem)
        }
        times: dict[Config, float] = {}
        for rendered in candidates.values():
            self._builds.ask(rendered)
        for config, rendered in candidates.items():
            found = self._bench.measure(
                problem, rendered, self._builds.ask(rendered).result(), best_ms=min(times.values(), default=None)
            )
            if found.verdict is Verdict.CORRECT and found.time_ms is not None:
                times[config] = found.time_ms
            else:
                self._hopeless.add(config)
        if not times:
            return "nothing is stored for it, and no default is right here"
        best = min(times, key=times.__getitem__)
        self._hopeless |= {
            config for config, ms in times.items() if ms > max(HOPELESS_LEAST_MS, HOPELESS * times[best])
        }
        return Chosen(best, candidates[best], f"nothing is stored; the fastest of {len(candidates)} defaults")

    def _defaults(self, problem: Problem) -> list[Config]:
        declared = [config for family in self._families.values() for config in family.defaults]
        legal = (restored(self._families[c.family], c, problem, self._bench.device) for c in declared)
        return [config for config in dict.fromkeys(legal) if config is not None and config not in self._hopeless]
