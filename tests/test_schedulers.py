"""What schedulers are given: units, a cron line and a batch script, checked as far as this machine can."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "scripts" / "schedulers"
UNITS = sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".service", ".timer"))


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("no systemd-analyze here")
    for name in UNITS:  # where the program lies is the site's business
        text = (FOLDER / name).read_text().replace("/opt/gemm-tuner/bin/gemm-tuner", "/bin/true")
        (tmp_path / name).write_text(text)
    names = [name.replace("@.", "@x.") for name in UNITS]
    environment = {**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"}
    done = subprocess.run([program, "verify", *names], cwd=tmp_path, env=environment, capture_output=True, text=True)
    ours = [line for line in (done.stdout + done.stderr).splitlines() if "gemm-tuner" in line]
    assert ours == []


def test_a_failure_is_told_and_a_stop_gets_ninety_seconds() -> None:
    text = (FOLDER / "gemm-tuner-nightly.service").read_text()
    assert "OnFailure=gemm-tuner-alert@" in text
    assert "TimeoutStopSec=90s" in text and "SuccessExitStatus=130" in text


def test_cron_lines_have_their_five_fields_a_user_and_a_command() -> None:
    lines = [line for line in (FOLDER / "gemm-tuner.cron").read_text().splitlines() if re.match(r"[\d*]", line)]
    assert len(lines) == 2
    for line in lines:
        assert re.fullmatch(r"(?:[\d*/,-]+ ){5}[a-z][\w-]* /\S+ .+", line)
        assert "%" not in line, "cron would make a new line of it"


def test_bash_and_shellcheck_accept_the_batch_script() -> None:
    script = FOLDER / "nightly.slurm"
    assert subprocess.run(["bash", "-n", str(script)]).returncode == 0
    shellcheck = shutil.which("shellcheck") or str(Path(sys.executable).with_name("shellcheck"))
    if not Path(shellcheck).exists():
        pytest.skip("no shellcheck here")
    done = subprocess.run([shellcheck, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("status", [0, 3])
def test_the_batch_script_gives_the_nights_status(tmp_path: Path, status: int) -> None:
    program = tmp_path / "gemm-tuner"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/said\nexit {status}\n')
    program.chmod(0o755)
    environment = {**os.environ, "GEMM_TUNER": str(program)}
    done = subprocess.run(["bash", str(FOLDER / "nightly.slurm"), "x.toml"], env=environment)
    assert done.returncode == status
    assert (tmp_path / "said").read_text() == "nightly x.toml\n"


def test_the_batch_script_passes_term_on_and_waits(tmp_path: Path) -> None:
    program = tmp_path / "gemm-tuner"
    program.write_text(
        f"#!/bin/bash\ntrap 'sleep 0.5; touch {tmp_path}/ended; exit 130' TERM\ntouch {tmp_path}/begun\n"
    )
    with program.open("a") as file:
        file.write("while true; do sleep 0.1; done\n")
    program.chmod(0o755)
    environment = {**os.environ, "GEMM_TUNER": str(program)}
    with subprocess.Popen(["bash", str(FOLDER / "nightly.slurm"), "x.toml"], env=environment) as job:
        while not (tmp_path / "begun").exists():
            time.sleep(0.02)
        job.send_signal(signal.SIGTERM)
        assert job.wait(30) == 130
    assert (tmp_path / "ended").exists()
