"""`import tuner`: a few names, loaded when they are used, and never hidden by the packages they live in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tuner
from tests.fakes import DEVICE, PROBLEM
from tuner.cli.output import device_json

ROOT = Path(__file__).parents[1]
HEAVY = ["numpy", "optuna", "sqlalchemy", "pyopencl", "jinja2", "tuner.model"]


def run(code: str, *arguments: str, **variables: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def test_importing_it_imports_nothing_else() -> None:
    assert run("import sys, tuner; print([name for name in sys.argv[1:] if name in sys.modules])", *HEAVY) == "[]"


def test_a_look_up_imports_no_numpy_no_database_and_no_driver(tmp_path: Path) -> None:
    code = (
        "import json, sys, tuner\n"
        "device = tuner.Device.from_json(json.loads(sys.argv[1]))\n"
        "tuner.lookup(device, tuner.Problem(64, 64, 64))\n"
        "print([name for name in sys.argv[2:] if name in sys.modules])"
    )
    heavy = ["numpy", "optuna", "sqlalchemy", "pyopencl", "jinja2"]
    assert run(code, json.dumps(DEVICE.to_json()), *heavy, GEMM_TUNER_DB=str(tmp_path / "tuner.db")) == "[]"
    assert [path.name for path in tmp_path.iterdir()] == ["tuner.db.misses"]


@pytest.mark.parametrize("name", [name for name in tuner.__all__ if name not in ("gemm", "describe")])
def test_every_name_is_there(name: str) -> None:
    assert getattr(tuner, name).__module__.startswith("tuner.")
    assert name in dir(tuner)


@pytest.mark.parametrize(
    "first", ["import tuner.lookup, tuner.gemm", "from tuner.lookup import Snapshot", "import tuner"]
)
def test_functions_are_not_hidden_by_the_packages_of_their_name(first: str) -> None:
    code = "from tuner import gemm, lookup; import tuner.lookup, tuner.gemm; print(gemm is tuner.gemm, lookup.__name__)"
    assert run(f"{first}\n{code}") == "True lookup"


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tuner.nothing


def test_a_device_survives_json() -> None:
    again = tuner.Device.from_json(json.loads(json.dumps(DEVICE.to_json())))
    assert (again, again.facts, again.address) == (DEVICE, DEVICE.facts, DEVICE.address)


def test_what_the_devices_command_prints_is_a_device() -> None:
    printed = {**device_json(DEVICE), "works": True, "problem": "", "facts": vars(DEVICE.facts)}
    again = tuner.Device.from_json(json.loads(json.dumps(printed)))
    assert (again, again.facts) == (DEVICE, DEVICE.facts)


@pytest.mark.parametrize(
    "data", [{}, {"silicon": 1}, {**DEVICE.to_json(), "facts": None}, {**DEVICE.to_json(), "silicon": {}}]
)
def test_what_is_no_device_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(tuner.UserError, match="no description of a device"):
        tuner.Device.from_json(data)


def test_tune_refuses_what_cannot_be_tuned(tmp_path: Path) -> None:
    db = str(tmp_path / "tuner.db")
    with pytest.raises(tuner.UserError, match="no family 'nothing'"):
        tuner.tune(DEVICE, PROBLEM, families=["nothing"], db=db)
    with pytest.raises(tuner.UserError, match="empty product"):
        tuner.tune(DEVICE, tuner.Problem(0, 1, 1), db=db)
    assert list(tmp_path.iterdir()) == []


def test_looking_up_uses_the_store_that_is_named(tmp_path: Path) -> None:
    answers = [tuner.lookup(DEVICE, PROBLEM, db=str(tmp_path / name)) for name in ("a.db", "b.db", "a.db")]
    assert answers[0] is answers[2] is not answers[1]
    assert not answers[0].certified
