"""Studies rebuilt from stored records: what Optuna, and so its dashboard, reads back."""

from __future__ import annotations

import json
from pathlib import Path

import optuna
import pytest

from synthetic_store import Size, make
from tests.fakes import PROBLEM, SILICON, SOFTWARE
from tuner.cli.app import run
from tuner.model import Config, Measurement, Record, UserError, Verdict
from tuner.search.rebuilt import importances, rebuild, slices, trials_of, write_storage


def _record(number: int, ms: float | None, **axes: int | str) -> Record:
    measured = Measurement(Verdict.CORRECT, (ms,) * 5) if ms else Measurement(Verdict.CRASHED, message="it died")
    when = f"2026-01-01T00:00:{number:02d}.5+00:00"
    return Record(SILICON, SOFTWARE, PROBLEM, Config.of("f", axes), measured, f"{number:032d}", 1, when)


def _time(number: int) -> float | None:
    return None if number % 5 == 4 else 1.0 + abs(number % 7 - 3)


RECORDS = [_record(n, _time(n), x=2 ** (n % 7), y=n % 2, s="ab"[n % 2]) for n in range(40)]


def test_optuna_reads_back_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    write_storage(path, [("one", RECORDS), ("two", RECORDS[:3])])
    study = optuna.load_study(study_name="one", storage=f"sqlite:///{path}")
    wanted = trials_of(RECORDS)
    for number, (found, made) in enumerate(zip(study.trials, wanted, strict=True)):
        assert found.number == number and found.state == made.state and found.values == made.values
        assert found.params == made.params and found.distributions == made.distributions
        assert found.user_attrs == made.user_attrs and found.datetime_complete == made.datetime_complete
    assert study.best_value == 1.0 and study.best_params["x"] == 8 and study.metric_names == ["time (ms)"]
    assert len(optuna.load_study(study_name="two", storage=f"sqlite:///{path}").trials) == 3


def test_it_is_what_optuna_itself_would_have_written(tmp_path: Path) -> None:
    write_storage(tmp_path / "ours.db", [("one", RECORDS[:6])])
    theirs = optuna.create_study(study_name="one", storage=f"sqlite:///{tmp_path / 'theirs.db'}")
    theirs.add_trials(trials_of(RECORDS[:6]))
    ours = optuna.load_study(study_name="one", storage=f"sqlite:///{tmp_path / 'ours.db'}")
    assert [replace_id(trial) for trial in ours.trials] == [replace_id(trial) for trial in theirs.trials]


def replace_id(trial: optuna.trial.FrozenTrial) -> tuple[object, ...]:
    return trial.number, trial.state, trial.values, trial.params, trial.distributions, trial.user_attrs


def test_a_file_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(UserError, match="exists"):
        write_storage(tmp_path / "mine", [("one", RECORDS)])
    assert (tmp_path / "mine").read_text() == "mine"


def test_the_axis_that_makes_the_difference_matters_most() -> None:
    found = importances(rebuild(RECORDS))
    assert next(iter(found)) == "x" and set(found) == {"x", "y", "s"}
    assert sum(found.values()) == pytest.approx(1.0)


def test_slices_have_one_panel_an_axis_and_every_correct_trial() -> None:
    drawn = slices(rebuild(RECORDS), ["x", "y"])
    assert len(drawn["data"]) == 2 and "template" not in drawn["layout"]
    assert len(drawn["data"][0]["x"]) == sum(one.measurement.time_ms is not None for one in RECORDS)
    json.dumps(drawn, allow_nan=False)


def test_the_command_writes_one_study_a_search_space(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path / "big.db", Size(trials=60, problems=2, devices=2, nights=2))
    asked = ["study", "--db", str(tmp_path / "big.db"), "--json"]
    assert run([*asked, "--out", str(tmp_path / "study.db")]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["trials"] == 60 and len(said["studies"]) == 4
    assert len(optuna.get_all_study_names(f"sqlite:///{tmp_path / 'study.db'}")) == 4
    assert run([*asked, "--out", str(tmp_path / "other.db"), "--device", "no such device"]) == 2
