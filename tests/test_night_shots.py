"""A night is shot after each of its writes in turn, and resumed: in the morning it says what one that lived says."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.night_fakes import FakeLibrary, Night, NightBench, by_size, cubes, of_driver
from tuner.model import Config, Problem, Verdict
from tuner.store import Process, Store, open_store
from tuner.store.reading import Reading

BEST = Config.of("grid", x=2, y=1)
WRONG, SLOW, BUSY, FAILING, SAME = cubes(5)
LIVING = Process.current()
DEAD = replace(LIVING, pid=4_000_000, started="1")


class Shot(BaseException):
    """The process is gone; whatever comes after it in this one may change nothing."""


class Gun:
    """Shoots a night after the write `at` that `aims` says counts; until then it only counts."""

    def __init__(self, at: int, aims: Callable[[str], bool]) -> None:
        self.at, self.count, self.hit = at, 0, False
        self._aims, self._shoot = aims, Store._writes

    @contextmanager
    def aimed(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Store, "_writes", lambda store, work: self._after(store, work))
            patch.setattr(threading, "excepthook", lambda arguments: None)
            yield

    def _after(self, store: Store, work: Callable[[Any], Any]) -> Any:
        if self.hit:
            raise Shot
        result = self._shoot(store, work)
        if self._aims(work.__qualname__.split(".")[1]):
            self.count += 1
            self.hit = self.count == self.at
        if self.hit:
            raise Shot
        return result


class Scenario:
    """Nights before, and one that is shot: what it measures depends on what was measured, not on who asked."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.night = folder, Night(folder, cubes(2), libraries=None)
        self.looks: Counter[Problem] = Counter()
        with open_store(str(folder / "before.db"), upgrade=True) as store:
            self.before(store)

    def before(self, store: Store) -> None:
        """Nights that went well."""

    def bench(self) -> NightBench:
        return NightBench()

    def run(self, gun: Gun) -> tuple[dict[str, Any], dict[str, Any]]:
        """(what was said of the night, what it left), after a shot and a resume, if the gun hits."""
        place = self.folder / f"{gun.at}.db"
        shutil.copy(self.folder / "before.db", place)
        self.looks.clear()
        summary = None
        with open_store(str(place), upgrade=True, process=DEAD) as store, gun.aimed(), suppress(Shot):
            summary = self.night.run(store, self.bench(), libraries=[FakeLibrary()])
        with open_store(str(place), upgrade=True, process=LIVING) as store:
            if summary is None:
                assert_nothing_provisional(store)
                summary = self.night.run(store, self.bench(), libraries=[FakeLibrary()])
            (device,) = summary["devices"]
            return device, {"status": summary["status"], **left_by(store)}


class FirstNight(Scenario):
    """Two problems get their first champions, and meet a library."""


class OtherDriver(Scenario):
    """Two champions of another driver are proven again before the rest is searched."""

    def before(self, store: Store) -> None:
        self.night.run(store, NightBench(), libraries=[FakeLibrary()])

    def bench(self) -> NightBench:
        return NightBench(device=of_driver("2.0"))


class BadNight(Scenario):
    """One champion is wrong, one slower for good, one met a busy moment, one fails when looked at later."""

    def before(self, store: Store) -> None:
        self.night = Night(self.folder, cubes(5))
        self.night.run(store, NightBench())

    def bench(self) -> NightBench:
        def time_of(config: Config, problem: Problem) -> float:
            early = problem in (BUSY, FAILING) and self.looks[problem] < 3
            slower = config == BEST and (problem == SLOW or early)
            return by_size(config, problem) * (1.9 if slower else 1.0)

        def verdict_of(config: Config) -> Verdict:
            problem = found._problem
            if config != BEST:
                return Verdict.CORRECT
            late = problem == FAILING and self.looks[problem] >= 3
            return Verdict.WRONG_RESULT if problem == WRONG or late else Verdict.CORRECT

        class Looking(NightBench):
            def measure(inner, problem: Problem, rendered: Any, built: Any, **how: Any) -> Any:
                measured = super().measure(problem, rendered, built, **how)
                self.looks[problem] += f" x={BEST['x']} y={BEST['y']}" in rendered.source
                return measured

        found = Looking(time_of, verdict_of=verdict_of)
        return found


def assert_nothing_provisional(store: Store) -> None:
    """Whatever is claimed while a night is cut short was looked at again."""
    again = {run.problem for run in Reading(store).runs() if run.settings.get("stage") == "later"}
    assert {regression.problem for regression in store.regressions()} <= again


def left_by(store: Store) -> dict[str, Any]:
    regressions = [(str(r.problem), r.closed is None, r.reason) for r in store.regressions(open_only=False)]
    return {"regressions": regressions, "in flight": store.stats()["tables"]["in_flight"], "check": store.check()}


def told(device: dict[str, Any]) -> dict[str, Any]:
    """What a person is told, without figures, which differ from one look to the next."""

    def of(kind: str, *names: str) -> list[tuple[str, ...]]:
        return sorted((str(Problem(**one["problem"])), *(str(one[name]) for name in names)) for one in device[kind])

    promoted = [(str(Problem(**one["problem"])), one["old"] and one["old"]["config"]) for one in device["promoted"]]
    return {
        # A night that is shot after the last look at a champion has time to search for another.
        "promoted": sorted((pair for pair in promoted if pair[0] != str(FAILING)), key=str),
        "renewed": of("renewed", "proven"),
        "withdrawn": of("withdrawn", "config"),
        "looks slower": of("looks_slower", "settled"),
        "regressions": [str(Problem(**one["problem"])) for one in device["regressions"]["new"]],
        "confirmed": device["confirmed"],
        "baselines": of("baselines"),
    }


PUBLISHED = {"promote", "withdraw", "open_regression", "close_regression", "note_night", "finish_run"}


def shots(folder: Path, scenario: type[Scenario], aims: Callable[[str], bool]) -> None:
    whole = Gun(0, aims)
    device, left = (made := scenario(folder)).run(whole)
    expected = told(device)
    for at in range(1, whole.count + 1):
        gun = Gun(at, aims)
        device, after = made.run(gun)
        assert gun.hit
        assert (told(device), after) == (expected, left), f"shot after write {at}"


def test_the_bad_night_as_it_is_told(tmp_path: Path) -> None:
    device, left = BadNight(tmp_path).run(Gun(0, lambda verb: False))
    found = told(device)
    assert {name for name, _ in found["withdrawn"]} == {str(WRONG), str(FAILING)}
    assert found["regressions"] == [str(SLOW)] and found["looks slower"] == []
    assert left["status"] == 3 and left["in flight"] == 0 and left["check"] == []


@pytest.mark.parametrize("scenario", [FirstNight, OtherDriver, BadNight])
def test_shot_after_any_publication_or_mark(tmp_path: Path, scenario: type[Scenario]) -> None:
    shots(tmp_path, scenario, lambda verb: verb in PUBLISHED)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("scenario", [FirstNight, OtherDriver, BadNight])
def test_shot_after_any_write(tmp_path: Path, scenario: type[Scenario]) -> None:
    shots(tmp_path, scenario, lambda verb: verb != "finish_night")
