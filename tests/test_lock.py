"""Device locks: one measurer a device, a sentence that names the holder, and no lock that outlives its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import DEVICE
from tuner.bench import DeviceBusy, device_lock, lock_folder
from tuner.bench.lock import lock_name
from tuner.cli.app import run
from tuner.model import Facts, MachineError

ROOT = Path(__file__).parents[1]
HOLD = """
import sys, time
from pathlib import Path
from tests.fakes import DEVICE
from tuner.bench import device_lock
with device_lock(DEVICE, Path(sys.argv[1]), command="the other job"):
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def held_elsewhere(folder: Path) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_second_job_is_refused_and_told_by_whom(tmp_path: Path) -> None:
    with (
        held_elsewhere(tmp_path) as other,
        pytest.raises(DeviceBusy, match=rf"Anvil 9 is in use by 'the other job' \(process {other.pid} of \w+ on .+"),
        device_lock(DEVICE, tmp_path),
    ):
        pass


def test_it_waits_and_says_for_whom(tmp_path: Path) -> None:
    said: list[str] = []
    with held_elsewhere(tmp_path) as other:
        threading.Timer(0.5, other.kill).start()
        with device_lock(DEVICE, tmp_path, wait_s=30.0, waiting=said.append):
            pass
    assert len(said) == 1 and "the other job" in said[0]


def test_waiting_ends(tmp_path: Path) -> None:
    before = time.monotonic()
    with (
        held_elsewhere(tmp_path),
        pytest.raises(DeviceBusy, match="It was waited for, 1 s"),
        device_lock(DEVICE, tmp_path, wait_s=1.0),
    ):
        pass
    assert time.monotonic() - before >= 1.0


def test_a_killed_holder_lets_go(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as other:
        other.send_signal(signal.SIGKILL)
        other.wait()
        with device_lock(DEVICE, tmp_path):
            pass


def test_afterwards_it_is_free_and_nobodys(tmp_path: Path) -> None:
    for _ in range(2):
        with device_lock(DEVICE, tmp_path):
            assert list(tmp_path.glob("*.holder.json"))
        assert not list(tmp_path.glob("*.holder.json"))


def test_cpu_drivers_of_a_host_share_one_lock_and_gpus_do_not() -> None:
    cpu = replace(DEVICE.silicon, kind="cpu")
    intel = replace(DEVICE, silicon=cpu, instance="here:cpu")
    pocl = replace(intel, software=replace(DEVICE.software, driver="PoCL"), facts=Facts(shares_cores=True))
    second = replace(DEVICE, instance="anvil:1")
    assert lock_name(intel) == lock_name(pocl)
    assert len({lock_name(device) for device in (intel, DEVICE, second)}) == 3


def test_every_user_may_lock(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    with device_lock(DEVICE, folder):
        assert folder.stat().st_mode & 0o1777 == 0o777
        assert (folder / f"{lock_name(DEVICE)}.lock").stat().st_mode & 0o777 == 0o666


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MachineError, match="cannot be made"), device_lock(DEVICE, tmp_path / "file" / "locks"):
        pass


def test_the_folder_is_the_same_for_every_user() -> None:
    assert "gemm-tuner" in lock_folder().name


@pytest.mark.parametrize("command", ["tune", "verify", "bench"])
def test_commands_that_measure_are_refused_while_another_does(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.fakes import PROBLEM, SILICON, SOFTWARE
    from tuner.bench import DeviceReport
    from tuner.cli import wiring
    from tuner.family import load_families
    from tuner.store import open_store

    place = str(tmp_path / "tuner.db")
    with open_store(place, upgrade=True) as store:
        family = load_families()["naive"]
        rendered = family.render(config := family.default(PROBLEM, DEVICE), PROBLEM, DEVICE)
        store.pin(SILICON, SOFTWARE, PROBLEM, config, rendered, reason="a champion to verify")
    monkeypatch.setattr(wiring, "list_devices", lambda: [DeviceReport(DEVICE, works=True)])
    monkeypatch.setenv("GEMM_TUNER_LOCKS", str(tmp_path / "locks"))
    with held_elsewhere(tmp_path / "locks"):
        assert run([command, "64", "64", "64", "--db", place]) == 1
    said = capsys.readouterr().err
    assert "in use by 'the other job'" in said and "--wait" in said
