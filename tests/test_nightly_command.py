"""`gemm-tuner nightly` as it is typed: a real night, the plan, the status, hooks, signals, what is checked first."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.fakes import DEVICE, PROBLEM, SILICON, SOFTWARE
from tuner.bench import DeviceReport
from tuner.cli import device_commands, nightly_command, wiring
from tuner.cli.app import run
from tuner.cli.nightly_command import check_first, signals_stop
from tuner.model import Config, Device, MachineError
from tuner.nightly import finish as nightly_finish
from tuner.nightly.finish import finish
from tuner.nightly.morning import lines
from tuner.nightly.settings import NightSettings, Outputs
from tuner.store import Night, NightState, Store, open_store, vigil

ROOT = Path(__file__).parents[1]


class Said(NamedTuple):
    status: int
    out: str
    err: str


Cli = Callable[..., Said]


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setenv("GEMM_TUNER_DB", str(tmp_path / "tuner.db"))
    monkeypatch.setattr(nightly_command, "list_devices", lambda: [DeviceReport(DEVICE, works=True)])

    def call(*arguments: str) -> Said:
        capsys.readouterr()
        return Said(run(list(arguments)), *capsys.readouterr())

    return call


def write(folder: Path, text: str) -> str:
    path = folder / "small.toml"
    path.write_text(text)
    return str(path)


def test_a_real_night(any_device: Device, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nightly_command, "list_devices", lambda: [DeviceReport(any_device, works=True)])
    text = f"""
family_dirs = ["{ROOT / "tests" / "families" / "few"}"]
families = ["few"]
[budget]
total = "90s"
evaluations = 3
[[problems]]
shapes = ["32", "48"]
[machine]
wait = 0
slow = 1.0
noisy = 1.0
[baselines]
libraries = "none"
[report]
json = "night.json"
markdown = "night.md"
html = "pages"
on_finish = "cat > {tmp_path}/hook.json"
"""
    said = cli("nightly", write(tmp_path, text), "--json")
    summary = json.loads(said.out)
    assert (said.status, summary["status"]) == (0, 0), said.err
    assert len(summary["devices"][0]["promoted"]) == 2
    assert summary["night"]["seconds"] <= 90
    for file in ("night.json", "hook.json"):
        assert json.loads((tmp_path / file).read_text()) == summary
    page = (tmp_path / "night.md").read_text()
    assert "32x32x32 float32" in page and f"Report: {summary['report']}" in page
    assert summary["report"] == str(tmp_path / "pages" / "index.html") and Path(summary["report"]).exists()
    assert cli("nightly", "status", "--max-age", "1h").status == 0
    again = cli("nightly", str(tmp_path / "small.toml"), "--dry-run")
    assert again.status == 0 and "not exhausted: 3 configurations measured so far" in again.out


def test_a_plan_without_a_store_makes_none(cli: Cli, tmp_path: Path) -> None:
    file = write(tmp_path, '[[problems]]\nshapes = ["64"]\n')
    said = cli("nightly", file, "--dry-run", "--json")
    (plan,) = json.loads(said.out)["plans"]
    assert (said.status, [due["reason"] for due in plan["due"]]) == (0, ["never tuned"])
    assert not (tmp_path / "tuner.db").exists()


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["nightly", "none.toml"], 2, "cannot be read"),
        (["nightly", "status"], 1, "there is no store"),
        (["nightly", "status", "--max-age", "soon"], 2, "no time"),
        (["nightly", "ack", "7", "--reason", "x"], 2, "no open regression 7"),
        (["nightly", "small.toml", "--device", "quantum"], 2, "No device is called 'quantum'"),
    ],
)
def test_what_goes_wrong_is_one_sentence(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], status: int, words: str
) -> None:
    write(tmp_path, '[[problems]]\nshapes = ["64"]\n')
    monkeypatch.chdir(tmp_path)
    said = cli(*arguments)
    assert words in said.err + said.out
    assert said.status == status


def test_a_regression_is_shown_and_acknowledged(cli: Cli, tmp_path: Path) -> None:
    with open_store(str(tmp_path / "tuner.db"), upgrade=True) as store:
        night = store.start_night("small", "here", {})
        number = store.open_regression(
            SILICON, SOFTWARE, PROBLEM, Config.of("grid", x=1), "h", night, 1.0, 1.2, 0.01, detail=""
        )
        store.finish_night(night, "complete", {"status": 3})
    shown = cli("nightly", "status")
    assert shown.status == 3 and "slower by 20.0%" in shown.out
    assert cli("nightly", "ack", str(number), "--reason", "the new normal").status == 0
    assert cli("nightly", "status").status == 0
    assert cli("nightly", "ack", str(number), "--reason", "again").status == 2


def test_a_night_that_died_or_never_came_is_not_silent() -> None:
    now = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)

    def night(state: NightState, hours: float) -> list[Night]:
        return [Night(1, "n", "here", (now - timedelta(hours=hours)).isoformat(), None, state, {}, {}, None)]

    fates = [
        (NightState.COMPLETE, 8, True),
        (NightState.COMPLETE, 27, False),
        (NightState.RUNNING, 1, True),
        (NightState.INTERRUPTED, 8, True),
        (NightState.FAILED, 8, False),
        (NightState.DIED, 8, False),
    ]
    for state, hours, ok in fates:
        assert vigil.judge(night(state, hours), 26 * 3600.0, now).ok is ok
    assert not vigil.judge([], None, now).ok


def test_no_room_or_a_damaged_store_is_told_before_anything_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(str(tmp_path / "tuner.db"), upgrade=True) as store:
        check_first(store)
        monkeypatch.setattr(Store, "check", lambda self: ["a page is damaged"])
        with pytest.raises(MachineError, match="a page is damaged"):
            check_first(store)
        monkeypatch.setattr(nightly_command, "LEAST_FREE_BYTES", 2**60)
        with pytest.raises(MachineError, match="make room"):
            check_first(store)


def test_hooks_get_the_summary_and_their_failure_fails_nothing(tmp_path: Path) -> None:
    good, bad = f"cat > {tmp_path}/finish", f"cat > {tmp_path}/failure; exit 4"
    settings = NightSettings((), outputs=Outputs(on_finish=good, on_failure=bad))
    summary: dict[str, Any] = {"night": {}, "status": 3, "devices": [], "attention": []}
    summary["night"] = {"id": 1, "name": "n", "seconds": 1.0, "budget_s": 2.0, "started": "x", "interrupted": False}
    said: list[str] = []
    finish(settings, summary, None, said.append)
    assert json.loads((tmp_path / "finish").read_text())["status"] == 3
    assert (tmp_path / "failure").exists() and "exit status 4" in said[0]
    (tmp_path / "failure").unlink()
    finish(settings, {**summary, "status": 0}, None, said.append)
    assert not (tmp_path / "failure").exists()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("import sys; sys.exit('gemm-tuner: reports need plotly; pip install gemm-tuner\\[report].')", "need plotly"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended with -9"),
        ("import time; time.sleep(60)", "timed out after 1"),
    ],
)
def test_a_report_that_cannot_be_made_fails_no_night(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, said: str
) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!{sys.executable}\n{command}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(nightly_finish, "REPORT_S", 1.0)
    outputs = Outputs(markdown=tmp_path / "night.md", html=tmp_path / "pages")
    summary: dict[str, Any] = {"status": 0, "devices": [], "attention": []}
    summary["night"] = {"id": 1, "name": "n", "seconds": 1.0, "budget_s": 2.0, "started": "x", "interrupted": False}
    finish(NightSettings((), outputs=outputs), summary, None, lambda line: None)
    assert summary["report"].startswith("none: ") and said in summary["report"]
    assert "Report: none: " in (tmp_path / "night.md").read_text()
    assert lines(summary)[-1].startswith("report: none: ")


def test_the_help_shows_a_nights_options_and_the_other_commands(cli: Cli) -> None:
    said = cli("nightly", "--help")
    assert said.status == 0
    for word in ("FILE", "--dry-run", "--fresh", "--device", "--db", "--json", "status", "ack"):
        assert word in said.out


def test_the_first_term_asks_and_the_second_insists(capsys: pytest.CaptureFixture[str]) -> None:
    stop = threading.Event()
    with signals_stop(stop):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)
    assert "told to stop" in capsys.readouterr().err


def test_devices_are_measured_on_request(
    any_device: Device, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_commands, "list_devices", lambda: [DeviceReport(any_device, works=True)])
    monkeypatch.setattr(wiring, "list_devices", lambda: [DeviceReport(any_device, works=True)])
    assert run(["devices", "--measure", "--json", "--db", str(tmp_path / "tuner.db")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["peaks"]["float32"]["gflops"] > 0
