"""The whole tuner is shot or interrupted at any moment: nothing found is lost, nothing innocent is blamed."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.fakes import FakeBench, small_family, tuned
from tests.faults.test_parent import assert_all_gone
from tuner.bench import DeviceReport
from tuner.cli import wiring
from tuner.cli.app import run
from tuner.family import load_family
from tuner.model import Device, Verdict
from tuner.store import open_store

ROOT = Path(__file__).parents[2]
FEW = ROOT / "tests" / "families" / "few"
SPACE = 20
"""Configurations of the family `few`."""
DAWDLER = '{"group_m":8,"group_n":16}'
GRID = 64


class Trial(NamedTuple):
    """A row of the table `trial`, in order."""

    config: str
    source_hash: str
    verdict: str
    run: int


class Folder:
    """The files of one store, looked at from outside while a tuner works on them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.database = path / "tuner.db"
        self.tmp = path / "tmp"
        self.tmp.mkdir()

    def sql(self, query: str) -> list[Any]:
        """Rows; none as long as the database or its tables are being made."""
        try:
            with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=30)) as connection:
                return connection.execute(query).fetchall()
        except sqlite3.OperationalError:
            return []

    def trials(self) -> list[Trial]:
        return [Trial(*row) for row in self.sql("SELECT config, source_hash, verdict, run_id FROM trial ORDER BY id")]

    def in_flight(self) -> dict[str, int]:
        """Attempts by configuration of what is being measured, not of what waits for a second attempt."""
        return dict(self.sql("SELECT config, attempts FROM in_flight WHERE stage <> 'queued'"))

    def assert_whole(self) -> None:
        assert self.sql("PRAGMA integrity_check") == [("ok",)]

    def leftovers(self) -> set[str]:
        return {path.name for path in self.tmp.iterdir()}

    def spawn(self, *command: str) -> subprocess.Popen[str]:
        """A tuner in a process group of its own, as a terminal's foreground job has one."""
        paths = [str(ROOT), *sys.path]
        return subprocess.Popen(
            [sys.executable, *command],
            env={**os.environ, "TMPDIR": str(self.tmp), "PYTHONPATH": os.pathsep.join(paths)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
def tune(folder: Folder, any_device: Device) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start the command on a real device; whatever a failing test leaves running ends with it."""
    started = []

    def start(*more: str) -> subprocess.Popen[str]:
        what = ["-m", "tuner", "tune", "32", "32", "32", "--family", "few", "--family-dir", str(FEW), "--json"]
        where = ["--device", any_device.address, "--db", str(folder.database)]
        started.append(folder.spawn(*what, *where, *(more or ("--evals", "1000"))))
        return started[-1]

    yield start
    for tuner in started:
        tuner.kill()
        tuner.communicate()


def wait_for(condition: Callable[[], object], tuner: subprocess.Popen[str]) -> bool:
    """Whether it came true before the tuner's end."""
    deadline = time.monotonic() + 120
    while not condition():
        if tuner.poll() is not None:
            return False
        assert time.monotonic() < deadline, "nothing happens"
        time.sleep(0.002)
    return True


def finished(tuner: subprocess.Popen[str], status: int = 0) -> dict[str, Any]:
    """What a tuner printed that ended by itself."""
    printed, said = tuner.communicate(timeout=120)
    assert tuner.returncode == status, said
    assert "Traceback" not in said
    assert_all_gone(tuner.pid)
    found: dict[str, Any] = json.loads(printed)
    return found


# SIGKILL of the tuner


class Kills:
    """What is known from outside after each kill."""

    def __init__(self, folder: Folder, seed: int) -> None:
        self.folder = folder
        self.deaths: Counter[str] = Counter()
        """By configuration: how often a tuner died while it was in flight."""
        self.after_search = 0
        self._random = random.Random(seed)

    def kill(self, tuner: subprocess.Popen[str], space: int, ahead: int) -> None:
        """Let it get up to `ahead` trials further, then shoot it; check what it leaves."""
        folder = self.folder
        goal = len(folder.trials()) + self._random.randint(0, ahead)
        old = folder.leftovers()
        # From the first launch on at the earliest, or from the end of the search on at the latest.
        wait_for(lambda: (folder.in_flight() and len(folder.trials()) >= goal) or self._complete(space), tuner)
        time.sleep(self._random.random() * 0.1)
        seen = folder.trials()
        tuner.kill()
        tuner.communicate()
        assert_all_gone(tuner.pid)
        folder.assert_whole()
        assert folder.trials()[: len(seen)] == seen
        assert len(folder.in_flight()) <= 1
        assert len(folder.leftovers() - old) <= 2
        self.deaths.update(folder.in_flight().keys())
        self.after_search += self._complete(space)

    def _complete(self, space: int) -> bool:
        return len({trial.config for trial in self.folder.trials()}) == space

    def assert_right(self, space: int) -> None:
        """Each configuration has its verdict, and had it once; only one that two tuners died with is blamed."""
        trials = self.folder.trials()
        verdicts = {trial.config: trial.verdict for trial in trials}
        assert len(verdicts) == len({trial.source_hash for trial in trials}) == space
        assert {config for config, verdict in verdicts.items() if verdict != Verdict.CORRECT} == {
            config for config, count in self.deaths.items() if count >= 2
        }
        [(promotions,)] = self.folder.sql("SELECT count(*) FROM champion_log WHERE action = 'promote'")
        assert promotions >= 1
        # The winner is measured again; a kill between that and its promotion leaves one more line.
        assert len(trials) - space <= promotions + self.after_search
        assert self.folder.sql("SELECT * FROM in_flight") == []


def kill_again_and_again(
    folder: Folder, start: Callable[[], subprocess.Popen[str]], space: int, kills: int, seed: int
) -> Kills:
    shots = Kills(folder, seed)
    for _ in range(kills):
        shots.kill(start(), space, ahead=2 * space // kills)
    return shots


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=[pytest.mark.soak, pytest.mark.timeout(600)])])
def test_kill_9_of_the_tuner_on_a_device(folder: Folder, tune: Callable[..., Any], kills: int) -> None:
    shots = kill_again_and_again(folder, tune, SPACE, kills, seed=kills)
    left = folder.leftovers()
    outcome = finished(tune())
    assert (outcome["stopped_by"], outcome["valid_space"]["size"]) == ("exhausted", SPACE)
    shots.assert_right(SPACE)
    assert folder.leftovers() <= left


def tune_fake(path: Path) -> None:
    """The tuner on the fake bench: it writes down what it measures before it does."""
    measured = os.open(path / "measured", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    pause = random.Random(os.getpid())

    def note(config: Any) -> None:
        os.write(measured, (json.dumps(config.as_dict(), separators=(",", ":")) + "\n").encode())
        time.sleep(600 if (path / "hang").exists() else pause.random() * 0.01)

    families = {"grid": load_family(path / "grid.toml")}
    with open_store(str(path / "tuner.db"), upgrade=True) as store:
        outcome = tuned(FakeBench(on_measure=note), store, families, evaluations=1000)
    print(json.dumps({"stopped_by": outcome.stopped_by}))


@pytest.fixture
def tune_grid(folder: Folder) -> Callable[[], subprocess.Popen[str]]:
    small_family(folder.path)
    return lambda: folder.spawn(__file__, str(folder.path))


def measured(folder: Folder) -> Counter[str]:
    return Counter((folder.path / "measured").read_text().splitlines())


@pytest.mark.parametrize("kills", [4, pytest.param(40, marks=[pytest.mark.soak, pytest.mark.timeout(600)])])
def test_kill_9_of_the_tuner_measures_nothing_twice(folder: Folder, tune_grid: Callable[[], Any], kills: int) -> None:
    shots = kill_again_and_again(folder, tune_grid, GRID, kills, seed=kills)
    assert finished(tune_grid())["stopped_by"] == "exhausted"
    shots.assert_right(GRID)
    counts = measured(folder)
    assert len(counts) == GRID
    assert all(count <= 1 + shots.deaths[config] for config, count in counts.items())


def test_what_was_in_flight_when_the_machine_went_down_is_never_launched_again(
    folder: Folder, tune_grid: Callable[[], Any]
) -> None:
    (folder.path / "hang").touch()
    tuner = tune_grid()
    assert wait_for(lambda: (folder.path / "measured").exists() and measured(folder), tuner)
    tuner.kill()
    tuner.communicate()
    (folder.path / "hang").unlink()
    [config] = folder.in_flight()
    with closing(sqlite3.connect(folder.database)) as connection, connection:
        connection.execute("UPDATE in_flight SET boot = 'another'")
    finished(tune_grid())
    [trial] = [trial for trial in folder.trials() if trial.config == config]
    assert trial.verdict == Verdict.CRASHED
    assert measured(folder)[config] == 1
    assert len({trial.config for trial in folder.trials() if trial.verdict == Verdict.CORRECT}) == GRID - 1


# SIGKILL of the measuring process


def measuring_process(folder: Folder, tuner: int) -> int:
    """The oldest child that neither tracks resources nor compiles; the one standing by is younger."""
    compilers = (path for path in folder.tmp.glob("gemm-tuner-*/compiler-*") if path.is_dir())
    compiling = {int(path.name.rpartition("-")[2]) for path in compilers}
    children = []
    for task in Path(f"/proc/{tuner}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            place = Path(f"/proc/{child}")
            if child not in compiling and "spawn_main" in (place / "cmdline").read_text():
                started = (place / "stat").read_text().rpartition(")")[2].split()[19]
                children.append((int(started), child))
    return min(children)[1]


def shoot_measuring_processes(folder: Folder, tuner: subprocess.Popen[str]) -> set[str]:
    """At the seventh trial or a later one once, at both attempts of the dawdler; returns whom it shot at."""
    shot_at: dict[str, str] = {}
    targets: dict[str, str] = {}

    def aim() -> dict[str, str]:
        for config, attempts in folder.in_flight().items():
            if config == DAWDLER:
                targets[f"dawdler, attempt {attempts}"] = config
            elif len(folder.trials()) >= 6:
                targets["seventh"] = config
        for name in targets.keys() & shot_at.keys():
            del targets[name]
        return targets

    while len(shot_at) < 3 and wait_for(aim, tuner):
        shot_at |= targets
        targets.clear()
        os.kill(measuring_process(folder, tuner.pid), signal.SIGKILL)
    return set(shot_at)


def test_kill_9_of_the_measuring_process_costs_no_verdict(folder: Folder, tune: Callable[..., Any]) -> None:
    tuner = tune("--evals", "20")
    shot_at = shoot_measuring_processes(folder, tuner)
    outcome = finished(tuner)
    assert shot_at == {"seventh", "dawdler, attempt 1", "dawdler, attempt 2"}
    # One death may have been an accident, two in a row are the configuration's doing.
    assert (outcome["evaluated"], outcome["verdicts"]) == (20, {"correct": 19, "crashed": 1})
    assert [trial.config for trial in folder.trials() if trial.verdict == Verdict.CRASHED] == [DAWDLER]
    assert outcome["promoted"]
    assert folder.leftovers() == set()


# Ctrl-C and SIGTERM


def compiles(folder: Folder) -> bool:
    return any(folder.tmp.glob("gemm-tuner-*/compiler-*")) and not folder.trials()


def wait_for_stage(stage: str, folder: Folder, tuner: subprocess.Popen[str]) -> None:
    if stage == "compiling":
        assert wait_for(lambda: compiles(folder), tuner)
    elif stage == "searching":
        assert wait_for(lambda: DAWDLER in folder.in_flight(), tuner)
    else:
        assert tuner.stderr is not None
        assert any(stage in line for line in tuner.stderr)


@pytest.mark.parametrize("stage", ["compiling", "searching", "racing", "certifying"])
def test_ctrl_c_keeps_what_was_found(
    stage: str, folder: Folder, tune: Callable[..., Any], any_device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuner = tune("--evals", "20" if stage == "searching" else "4")
    wait_for_stage(stage, folder, tuner)
    seen = folder.trials()
    os.killpg(tuner.pid, signal.SIGINT)
    outcome = finished(tuner, status=130)
    assert outcome["stopped_by"] == "interrupted" and not outcome["promoted"]
    assert outcome["evaluated"] >= len(seen)
    assert folder.trials()[: len(seen)] == seen and len(folder.trials()) == outcome["evaluated"]
    assert folder.sql("SELECT * FROM in_flight") == []  # it ended in order: nothing is to blame
    folder.assert_whole()
    assert folder.leftovers() == set()
    monkeypatch.setattr(wiring, "list_devices", lambda: [DeviceReport(any_device, works=True)])
    assert run(["lookup", "32", "32", "32", "--db", str(folder.database), "--family-dir", str(FEW)]) == 0


def test_sigterm_loses_nothing(folder: Folder, tune: Callable[..., Any]) -> None:
    tuner = tune("--evals", "20")
    assert wait_for(lambda: DAWDLER in folder.in_flight(), tuner)
    seen = folder.trials()
    tuner.terminate()
    _, said = tuner.communicate(timeout=60)
    assert tuner.returncode != 0
    assert "Traceback" not in said
    assert_all_gone(tuner.pid)
    assert folder.trials()[: len(seen)] == seen
    assert {trial.verdict for trial in folder.trials()} == {Verdict.CORRECT}  # what was in flight is not to blame
    folder.assert_whole()


if __name__ == "__main__":
    tune_fake(Path(sys.argv[1]))
