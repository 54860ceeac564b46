"""optuna-dashboard on what `gemm-tuner study` writes: over its HTTP API, and as a browser shows it."""

from __future__ import annotations

import importlib.util
import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest

from tests.fakes import DEVICE, PROBLEM, FakeBench, small_family, tuned, valley
from tuner.cli.app import run
from tuner.model import Config, Verdict
from tuner.store import open_store

DASHBOARD = Path(sys.executable).with_name("optuna-dashboard")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(not DASHBOARD.exists(), reason="optuna-dashboard is not installed")


@dataclass(frozen=True)
class Served:
    """A dashboard that answers."""

    address: str

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.address}/api/{path}", timeout=20) as answer:
            return json.load(answer)


def _verdict(config: Config) -> Verdict:
    """One column of the grid is wrong, one crashes."""
    x = config.as_dict()["x"]
    return {2: Verdict.WRONG_RESULT, 7: Verdict.CRASHED}.get(int(x), Verdict.CORRECT)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A search's store, written as a study, and a dashboard on it in a process of its own."""
    folder = tmp_path_factory.mktemp("dashboard")
    families = {"grid": small_family(folder), "late": small_family(folder, name="late")}
    with open_store(str(folder / "tuner.db"), upgrade=True) as store:
        tuned(FakeBench(verdict_of=_verdict), store, {"grid": families["grid"]}, evaluations=60, seed=1)
        dead = FakeBench(verdict_of=lambda config: Verdict.COMPILE_FAILED)
        tuned(dead, store, {"late": families["late"]}, evaluations=5, seed=1)
    assert run(["study", "--db", str(folder / "tuner.db"), "--out", str(folder / "study.db")]) == 0
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(DASHBOARD), f"sqlite:///{folder / 'study.db'}", "--port", str(port), "--quiet"]
    with (folder / "said").open("w") as said, subprocess.Popen(command, stdout=said, stderr=said) as process:
        try:
            found = Served(f"http://127.0.0.1:{port}")
            _wait_for(found, process, folder / "said")
            yield found
        finally:
            process.terminate()


def _wait_for(served: Served, process: subprocess.Popen[bytes], said: Path) -> None:
    for _ in range(300):
        assert process.poll() is None, said.read_text()
        try:
            served.get("meta")
        except (URLError, ConnectionError):
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"the dashboard does not answer: {said.read_text()}")


def _studies(served: Served) -> dict[str, dict[str, Any]]:
    """By the name of their family."""
    return {one["study_name"].split(" | ")[1]: one for one in served.get("studies")["study_summaries"]}


def test_each_study_is_listed_with_what_it_is_of(served: Served) -> None:
    studies = _studies(served)
    assert set(studies) == {"grid", "late"}
    for family, study in studies.items():
        assert study["study_name"] == f"{PROBLEM} | {family} | {DEVICE.silicon.name} | {DEVICE.software.driver}"
        assert study["directions"] == ["minimize"]
        assert served.get(f"studies/{study['study_id']}")["objective_names"] == ["time (ms)"]


def test_trials_are_there_and_failures_are_failed(served: Served) -> None:
    study = served.get(f"studies/{_studies(served)['grid']['study_id']}")
    states = Counter(one["state"] for one in study["trials"])
    assert set(states) == {"Complete", "Fail"} and sum(states.values()) == len(study["trials"]) > 50
    for trial in study["trials"]:
        config = Config.of("grid", {one["name"]: int(one["param_external_value"]) for one in trial["params"]})
        noted = {one["key"]: one["value"] for one in trial["user_attrs"]}
        wanted = _verdict(config)
        assert noted["verdict"] == wanted.value
        assert trial["state"] == ("Complete" if wanted is Verdict.CORRECT else "Fail")
        if wanted is Verdict.CORRECT:
            assert trial["values"] == [pytest.approx(valley(config))] and len(json.loads(noted["samples_ms"])) == 5
        else:
            assert not trial.get("values") and noted["message"] == "as told"
    (best,) = study["best_trials"]
    assert best["values"] == [min(trial["values"][0] for trial in study["trials"] if trial.get("values"))]
    (weights,) = served.get(f"studies/{_studies(served)['grid']['study_id']}/param_importances")["param_importances"]
    assert {one["name"] for one in weights} == {"x", "y"}


def test_a_study_with_nothing_but_failures_is_served(served: Served) -> None:
    study = served.get(f"studies/{_studies(served)['late']['study_id']}")
    assert {one["state"] for one in study["trials"]} == {"Fail"} and len(study["trials"]) == 5
    assert study["best_trials"] == []


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")
@pytest.mark.skipif(importlib.util.find_spec("playwright") is None, reason="not installed: playwright")
def test_a_browser_draws_the_history_without_an_error(served: Served) -> None:
    from playwright.sync_api import sync_playwright

    study = _studies(served)["grid"]
    correct = sum(one["state"] == "Complete" for one in served.get(f"studies/{study['study_id']}")["trials"])
    wrong: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("console", lambda one: wrong.append(one.text) if one.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("response", lambda one: wrong.append(f"{one.status} {one.url}") if one.status >= 400 else None)
        page.goto(f"{served.address}/dashboard")
        page.get_by_text(study["study_name"]).first.wait_for()
        page.goto(f"{served.address}/dashboard/studies/{study['study_id']}")
        page.locator("#plot-history .scatterlayer .point").first.wait_for()
        assert page.locator("#plot-history .scatterlayer .trace").first.locator(".point").count() == correct
        assert page.locator("#plot-history .ytitle").text_content() == "time (ms)"
        page.goto(f"{served.address}/dashboard/studies/{study['study_id']}/trials")
        page.get_by_text("Fail", exact=True).first.wait_for()
        browser.close()
    assert not wrong
