"""Champions beside the vendors' libraries: each raced once, and again only when the library or the driver changed."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from datetime import UTC, datetime
from types import TracebackType

from tuner.baselines.compare import Opponent, Standing, compare
from tuner.bench.messages import ContenderFailed
from tuner.model import Config, Measurement, Problem, Record, Verdict, canonical_json
from tuner.nightly.lane import Lane
from tuner.store import LIBRARY_PREFIX

ROUNDS = 7
SECONDS_EACH = 3.0
"""A library that has used so much sits out the rounds left."""
USUAL_S = 4.0
"""Of one race with all libraries, until tonight's say otherwise."""
OPENING_S = 60.0


class Libraries:
    """The libraries of a device, opened in the background where that disturbs no measurement."""

    def __init__(self, opening: Callable[[], AbstractContextManager[Sequence[Opponent]]], *, background: bool) -> None:
        """`background`: begin at once; else with the first question."""
        self._opening, self._resources = opening, ExitStack()
        self._opened: Sequence[Opponent] = ()
        self._error = ""
        self._thread: threading.Thread | None = None
        if background:
            self._thread = threading.Thread(target=self._open, daemon=True)
            self._thread.start()

    def __enter__(self) -> Libraries:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is not None:
            self._thread.join(OPENING_S)
        self._resources.close()

    def present(self, patience_s: float) -> Sequence[Opponent] | None:
        """The libraries that are here; None if they are still being opened after so long."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._open, daemon=True)
            self._thread.start()
        self._thread.join(max(0.0, patience_s))
        if self._thread.is_alive():
            return None
        return [library for library in self._opened if not library.absent]

    @property
    def error(self) -> str:
        """Why none could be opened; empty if that went well."""
        return self._error

    def _open(self) -> None:
        try:
            self._opened = self._resources.enter_context(self._opening())
        except Exception as error:
            self._error = f"{type(error).__name__}: {error}"


class Rivals:
    """Races champions against libraries, and keeps what they reached."""

    def __init__(self, lane: Lane, libraries: Libraries) -> None:
        self._lane, self._libraries = lane, libraries
        self._spent: list[tuple[int, float]] = []

    @property
    def usual_s(self) -> float:
        """Seconds a race takes, in the median: the first also waits for libraries to warm up."""
        return statistics.median([USUAL_S, *(seconds for _, seconds in self._spent)])

    def _expected_s(self, problem: Problem) -> float:
        """Of one race: what the slowest took that was not much larger, and no less than usual."""
        alike = [seconds for flop, seconds in self._spent if flop <= 2 * problem.flop]
        return max([self.usual_s, *alike])

    def race(self, problem: Problem, patience_s: float = 0.0) -> bool:
        """Race the champion of `problem` against every library it has not met; False if that must wait."""
        lane = self._lane
        present = self._libraries.present(patience_s)
        if present is None:
            return False
        new = self._unmet(problem, present)
        champion = lane.store.champion(*lane.key(problem))
        if not new or champion is None:
            return True
        if lane.out_of_time(self._expected_s(problem)):
            return False
        before = lane.clock.elapsed
        try:
            built = lane.bench.build(champion.rendered).result()
            contender = (champion.rendered, built)
            found = compare(
                problem, contender, lane.bench, new, rounds=ROUNDS, seconds_each=SECONDS_EACH, sleep=_sleep(lane)
            )
        except ContenderFailed as failure:
            lane.attention.append(f"{problem}: its champion failed beside the libraries: {failure.message}.")
            return True
        self._spent.append((problem.flop, lane.clock.elapsed - before))
        if lane.clock.left > 0:  # what was cut off by the end of the night says nothing of a library
            self._keep(problem, champion.rendered.source_hash, found.libraries, found.ours_ms)
        return True

    def due(self, problems: Sequence[Problem]) -> list[Problem]:
        """Those that have not met every library that is here; all while the libraries are being opened."""
        present = self._libraries.present(0.0)
        return [problem for problem in problems if present is None or self._unmet(problem, present)]

    def _unmet(self, problem: Problem, present: Sequence[Opponent]) -> list[Opponent]:
        met = {
            (record.config.family, record.config.as_dict().get("version"))
            for record in self._lane.store.baselines(*self._lane.key(problem))
        }
        return [library for library in present if (_family(library.name), library.version) not in met]

    def _keep(
        self, problem: Problem, source_hash: str, standings: Sequence[Standing], ours_ms: tuple[float, ...]
    ) -> None:
        lane = self._lane
        for standing in standings:
            config = Config.of(_family(standing.name), version=standing.version)
            samples = tuple(ms for ms, _ in standing.pairs_ms)
            verdict = Verdict.CORRECT if samples else Verdict.LAUNCH_FAILED
            measurement = Measurement(verdict, samples, message=standing.failed or standing.how)
            extra = {
                "name": standing.name,
                "night": lane.ledger.night,
                "ours_ms": [ms for _, ms in standing.pairs_ms],
                "ours_source": source_hash,
                "how": standing.how,
                "rounds": len(ours_ms),
            }
            when = datetime.now(UTC).isoformat()
            key = lane.key(problem)
            lane.store.add_baseline(Record(*key, config, measurement, "", 0, when, extra=canonical_json(extra)))
        lane.ledger.tick()


def _family(name: str) -> str:
    return f"{LIBRARY_PREFIX}{name.casefold().replace(' ', '')}"


def _sleep(lane: Lane) -> Callable[[float], None]:
    def rest(seconds: float) -> None:
        lane.stop.wait(seconds)

    return rest
