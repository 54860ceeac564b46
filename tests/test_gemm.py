"""gemm() on every device: `gemm/cases.py` in a process of its own, for no test here may import pyopencl."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.model import Device
from tuner.opencl import drivers

CASES = Path(__file__).parent / "gemm" / "cases.py"


@pytest.mark.timeout(600)
def test_gemm_on(device: Device, tmp_path: Path) -> None:
    drivers.write_icd_files(tmp_path / "icd")
    environment = {
        **os.environ,
        "OCL_ICD_VENDORS": str(tmp_path / "icd"),
        "POCL_CACHE_DIR": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path),
        "GEMM_TEST_DEVICE": device.address,
        "GEMM_TEST_EXPECTED": json.dumps(device.to_json()),
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        str(CASES),
        f"--basetemp={tmp_path / 'cases'}",
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=CASES.parents[2])
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
