"""The tuner itself is shot or interrupted: no process, no traceback and no folder of its children is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tuner.model import Device

SCRIPT = """
import sys
from tests import bench_kernels
from tuner.bench import Bench, choose, list_devices
from tuner.model import Built, Problem, Verdict

what, address = sys.argv[1:]
problem = Problem.packed(33, 40, 24)
with Bench.open(choose(list_devices(), address), build_function=bench_kernels.endless_compiler) as bench:
    if what == "building":
        waiting = bench.build(bench_kernels.naive(problem))
        print("at work", flush=True)
        waiting.result()
    else:
        say = lambda stage: print("at work", flush=True)
        built = Built(Verdict.CORRECT)
        bench.measure(problem, bench_kernels.single("hang"), built, best_ms=1e6, on_stage=say)
"""
# The measuring process builds from source, and the hanging kernel has hours.


@pytest.fixture(params=["building", "measuring"])
def tuner_at_work(request: pytest.FixtureRequest, any_device: Device, tmp_path: Path) -> subprocess.Popen[str]:
    """A tuner in a process group of its own, as a terminal's foreground job has one."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    (tmp_path / "tmp").mkdir()
    paths = [str(Path(__file__).parents[2]), *sys.path]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": os.pathsep.join(paths)}
    tuner = subprocess.Popen(
        [sys.executable, str(script), request.param, any_device.address],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert tuner.stdout is not None
    assert tuner.stdout.readline() == "at work\n"
    time.sleep(0.5)  # into the compiler, or into the kernel
    return tuner


def living_members(session: int) -> list[int]:
    """Processes of the session that are neither gone nor waiting to be reaped."""
    members = []
    for folder in Path("/proc").iterdir():
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            continue
        if folder.name.isdigit() and fields[3] == str(session) and fields[0] != "Z":
            members.append(int(folder.name))
    return members


def assert_all_gone(session: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if not living_members(session):
            return
        time.sleep(0.05)
    raise AssertionError(f"still alive: {living_members(session)}")


def test_kill_9_leaves_no_process(tuner_at_work: subprocess.Popen[str]) -> None:
    assert len(living_members(tuner_at_work.pid)) >= 3
    tuner_at_work.kill()
    tuner_at_work.wait()
    assert_all_gone(tuner_at_work.pid)


def test_ctrl_c_leaves_no_process_no_folder_and_one_traceback(
    tuner_at_work: subprocess.Popen[str], tmp_path: Path
) -> None:
    os.killpg(tuner_at_work.pid, signal.SIGINT)
    _, said = tuner_at_work.communicate(timeout=60)
    assert said.count("Traceback") == 1 and "KeyboardInterrupt" in said.splitlines()[-1]
    assert_all_gone(tuner_at_work.pid)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_script_without_a_main_guard_runs_once(any_device: Device, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("from tuner.bench import list_devices\nprint('once')\nassert list_devices()\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])}
    ran = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "once\n", "")
