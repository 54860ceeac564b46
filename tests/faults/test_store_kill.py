"""SIGKILL while the store writes: what was acknowledged is on disk, the database is whole, and the next run goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tuner.data import data_folder
from tuner.model import Config, Measurement, Problem, Record, Rendered, Silicon, Software, Step, Verdict
from tuner.store import open_store
from tuner.store.published import read

KEY = (Silicon("any", "any", "cpu", 2, 0), Software("any", "any", "OpenCL C 1.2", "any"), Problem(8, 8, 8))
OLD = Path(__file__).parent.parent / "data" / "schema-0001.db"


def write_trials(path: Path) -> None:
    with open_store(str(path), upgrade=True) as store:
        run = store.start_run(*KEY, {})
        for number in range(10_000):
            config = Config.of("tiled", ts=number)
            store.begin(run, *KEY, config, "h", "time")
            store.add(Record(*KEY, config, Measurement(Verdict.CORRECT, (1.0,)), "h", run, "now"))
            print(number + 1, flush=True)


def hang(path: Path) -> None:
    with open_store(str(path), upgrade=True) as store:
        run = store.start_run(*KEY, {})
        store.settle(run, *KEY)
        store.begin(run, *KEY, Config.of("tiled", ts=1), "h", "time")
        print(1, flush=True)
        time.sleep(600)


def write_champions(path: Path) -> None:
    with open_store(str(path), upgrade=True) as store:
        store.start_run(*KEY, {})
        for number in range(10_000):
            rendered = Rendered("x" * 10_000 + str(number), "", (Step("k", (1,), (1,)),), (), f"h{number}")
            config = Config.of("tiled", ts=number)
            store.promote(*KEY, config, rendered, reason="won", time_ms=1.0, noise=0.01)
            print(number + 1, flush=True)


def upgrade(path: Path) -> None:
    with open_store(f"{path}.other", upgrade=True):  # imports everything
        print(1, flush=True)
    open_store(str(path), upgrade=True).close()


def kill_at(work: str, path: Path, count: int, delay: float = 0.0) -> int:
    """Kill a child once it has acknowledged `count` writes; returns how many it had acknowledged in the end."""
    environment = {**os.environ, "PYTHONPATH": str(data_folder("db").parent)}
    command = [sys.executable, __file__, work, str(path)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if int(line) == count:
                time.sleep(delay)
                child.send_signal(signal.SIGKILL)
                break
        return max([count, *map(int, child.stdout.read().split())])


@pytest.mark.parametrize("delay", [0.0, 0.002, 0.005])
def test_whatever_was_acknowledged_is_there(tmp_path: Path, delay: float) -> None:
    path = tmp_path / "tuner.db"
    acknowledged = kill_at("write_trials", path, 50, delay)
    with open_store(str(path), upgrade=True) as store:
        found = store.history(*KEY)
        assert len(found) in (acknowledged, acknowledged + 1)
        assert [record.config["ts"] for record in found] == list(range(len(found)))
        assert store.check() == []


def test_a_killed_tuners_candidate_is_tried_once_more_and_then_given_up(tmp_path: Path) -> None:
    path = tmp_path / "tuner.db"
    kill_at("hang", path, 1)
    with open_store(str(path), upgrade=True) as store:
        assert [one.config for one in store.interrupted(*KEY)] == [Config.of("tiled", ts=1)]
    kill_at("hang", path, 1)
    with open_store(str(path), upgrade=True) as store:
        settled = store.settle(store.start_run(*KEY, {}), *KEY)
        assert settled.again == ()
        assert [(one.config, one.measurement.verdict) for one in store.history(*KEY)] == [
            (Config.of("tiled", ts=1), Verdict.CRASHED)
        ]


@pytest.mark.parametrize("delay", [0.0, 0.002, 0.005, 0.01])
def test_the_snapshot_is_whole_and_catches_up(tmp_path: Path, delay: float) -> None:
    path = tmp_path / "tuner.db"
    acknowledged = kill_at("write_champions", path, 10, delay)
    snapshot = tmp_path / "tuner.db.snapshot.json"
    published = read(snapshot.read_text())
    assert published.messages == ()
    assert published.state[0] >= acknowledged
    with open_store(str(path), upgrade=True) as store:
        (champion,) = store.champions()
        assert read(snapshot.read_text()).entries[0].champion == champion
        assert store.check() == []


@pytest.mark.parametrize("delay", [0.0, 0.005, 0.01, 0.02, 0.04])
def test_an_upgrade_killed_is_done_by_the_next(tmp_path: Path, delay: float) -> None:
    path = tmp_path / "tuner.db"
    path.write_bytes(OLD.read_bytes())
    kill_at("upgrade", path, 1, delay)
    with open_store(str(path), upgrade=True) as store:
        assert (len(store.history()), len(store.champions()), store.check()) == (2, 1, [])


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]))
