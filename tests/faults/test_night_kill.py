"""A night is shot at any moment: the next goes on, nothing is lost, nothing is measured twice, the lock is free."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import DEVICE
from tuner.bench import device_lock
from tuner.store import open_store

ROOT = Path(__file__).parents[2]
PROBLEMS, SPACE = 4, 6

NIGHT = """
import json
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from tests.fakes import DEVICE
from tests.night_fakes import FakeLibrary, Night, NightBench, cubes
from tuner.bench import device_lock
from tuner.store import open_store

folder = Path(sys.argv[1])
trials = (folder / "launched").open("a")


def on_measure(config):
    trials.write(f"{config}\\n")
    trials.flush()
    time.sleep(0.01)


@contextmanager
def open_bench(device, compilers, wait_s):
    with device_lock(device, folder / "locks", command="a night"):
        yield NightBench(on_measure=on_measure)


night = Night(folder, cubes(int(sys.argv[2])), libraries=None)
with open_store(str(folder / "tuner.db"), upgrade=True) as store:
    print("begun", flush=True)
    summary = night.run(store, NightBench(), libraries=[FakeLibrary()], open_bench=open_bench)
(folder / "summary.json").write_text(json.dumps(summary))
"""


def spawn(folder: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    command = [sys.executable, "-c", NIGHT, str(folder), str(PROBLEMS)]
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def rows(folder: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(f"file:{folder / 'tuner.db'}?mode=ro", uri=True, timeout=30)) as connection:
        return connection.execute(query).fetchall()


def shoot(folder: Path, seconds: float) -> bool:
    """Kill a night after so long; False if it had ended before."""
    with spawn(folder) as night:
        assert night.stdout is not None and night.stdout.readline() == "begun\n"
        time.sleep(seconds)
        alive = night.poll() is None
        night.kill()
        print(night.communicate()[1])
    return alive


def check_between(folder: Path) -> None:
    assert rows(folder, "PRAGMA integrity_check") == [("ok",)]
    with device_lock(DEVICE, folder / "locks"):
        pass


def assert_whole(folder: Path, kills: int) -> None:
    """One night in the end, complete; every configuration measured once in it, but what a kill took down in flight."""
    found = json.loads((folder / "summary.json").read_text())
    with open_store(str(folder / "tuner.db"), upgrade=False) as store:
        (night,) = store.nights()
        assert night.state == "complete" and night.summary == found, found["attention"]
        assert len(store.champions()) == PROBLEMS
        assert store.check() == []
        assert all(len(store.baselines(c.silicon, c.software, c.problem)) == 1 for c in store.champions())
    (device,) = found["devices"]
    assert len(device["promoted"]) == PROBLEMS
    trials = rows(folder, "SELECT problem_id, source_hash, count(*) FROM trial WHERE family = 'grid' GROUP BY 1, 2")
    assert len(trials) == PROBLEMS * SPACE
    again = [count for _, _, count in trials if count > 1]
    assert len(again) <= PROBLEMS + kills and max(again) <= 2, "champions are confirmed as they are published"
    launches = Counter((folder / "launched").read_text().split("\n"))
    assert sum(launches.values()) - 1 <= PROBLEMS * SPACE + kills, "at most what was in flight is launched again"
    assert rows(folder, "SELECT count(*) FROM in_flight") == [(0,)]


def survive(folder: Path, kills: int, seed: int) -> None:
    rng, hits = random.Random(seed), 0
    for _ in range(kills):
        hits += shoot(folder, rng.uniform(0.0, 0.5))
        check_between(folder)
        if (folder / "summary.json").exists():
            break
    if not (folder / "summary.json").exists():
        with spawn(folder) as night:
            _, said = night.communicate(timeout=120)
            assert night.returncode == 0, said
            print(said)  # shown if the night failed
    assert hits > 0
    assert_whole(folder, hits)


@pytest.mark.timeout(170)
def test_kill_9_at_some_moments_of_a_night(tmp_path: Path) -> None:
    survive(tmp_path, 3, seed=5)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_kill_9_at_thirty_moments_of_nights(tmp_path: Path) -> None:
    for seed in range(10):
        folder = tmp_path / str(seed)
        folder.mkdir()
        survive(folder, 3, seed=100 + seed)
