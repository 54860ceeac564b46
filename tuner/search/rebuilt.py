"""An Optuna study rebuilt from stored records, for reports and for optuna-dashboard; the search itself uses none."""

from __future__ import annotations

import json
import sqlite3
import warnings
from collections.abc import Iterable, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import CategoricalDistribution, distribution_to_json
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.storages import RDBStorage
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from tuner.model import Record, Scalar, UserError

DIGITS = 5
"""Significant digits of drawn numbers."""
OBJECTIVE = "time (ms)"
"""What Optuna and its dashboard call the value of a trial."""


def rebuild(records: Iterable[Record]) -> Study:
    """A study in memory of the correct ones among one family's trials, oldest first; the objective is ms.

    Every axis is categorical over the values it was tried with, in their order.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    correct = [record for record in records if record.measurement.time_ms is not None]
    study.add_trials(trials_of(correct, described=False))
    return study


def trials_of(records: Sequence[Record], *, described: bool = True) -> list[FrozenTrial]:
    """The records as Optuna's finished trials; a failure has no value. `described`: with verdict, samples and so on."""
    choices: dict[str, set[Scalar]] = {}
    for record in records:
        for axis, value in record.config.values:
            choices.setdefault(axis, set()).add(value)
    space = {axis: CategoricalDistribution(sorted(values, key=_order)) for axis, values in choices.items()}
    return [_trial(record, space, described) for record in records]


def _order(value: object) -> tuple[bool, int, str]:
    return isinstance(value, str), value if isinstance(value, int) else 0, str(value)


def _trial(record: Record, space: dict[str, CategoricalDistribution], described: bool) -> FrozenTrial:
    found = record.measurement
    params = record.config.as_dict()
    trial = create_trial(
        state=TrialState.FAIL if found.time_ms is None else TrialState.COMPLETE,
        value=found.time_ms,
        params=params,
        distributions={axis: space[axis] for axis in params},
        user_attrs=_described(record) if described else {},
    )
    ended = _moment(record.when)
    trial.datetime_start = trial.datetime_complete = ended
    return trial


def _described(record: Record) -> dict[str, Any]:
    found = record.measurement
    return {
        "verdict": found.verdict.value,
        "message": found.message[:500],
        "run": record.run,
        "source_hash": record.source_hash,
        "samples_ms": list(found.samples_ms),
    }


def _moment(when: str) -> datetime:
    try:
        return datetime.fromisoformat(when).replace(tzinfo=None)
    except ValueError:
        return datetime.fromtimestamp(0)


def importances(study: Study) -> dict[str, float]:
    """Axes by their share in what makes a trial fast, most important first; empty where nothing can be said.

    PED-ANOVA: S. Watanabe, A. Bansal, F. Hutter, IJCAI 2023.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())
        except (ValueError, RuntimeError):  # all times equal, or too few trials
            return {}
    return {axis: float(share) for axis, share in found.items()}


def slices(study: Study, axes: Sequence[str]) -> dict[str, Any]:
    """Optuna's slice plot as Plotly's `data` and `layout`, in plain values. Needs plotly (the extra `report`)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        figure = optuna.visualization.plot_slice(study, params=list(axes), target=_time, target_name=OBJECTIVE)
    drawn = json.loads(figure.to_json(), parse_float=lambda text: float(f"{float(text):.{DIGITS - 1}e}"))
    layout = drawn["layout"]
    layout.pop("template", None)
    layout.pop("title", None)
    for trace in drawn["data"]:
        trace.pop("marker")  # its colours are for white paper
        trace["x"] = [_bare(value) for value in trace["x"]]
    for name, panel in layout.items():
        if name.startswith("xaxis") and "categoryarray" in panel:
            panel["categoryarray"] = [_bare(value) for value in panel["categoryarray"]]
    return {"data": drawn["data"], "layout": layout}


def _bare(value: Any) -> Any:
    """A choice without the quotation marks that Optuna shows."""
    return value.strip("'") if isinstance(value, str) else value


def _time(trial: FrozenTrial) -> float:
    return float(trial.values[0])


def write_storage(path: Path, studies: Sequence[tuple[str, Sequence[Record]]]) -> None:
    """Write an Optuna storage (SQLite) with one study for each (name, records).

    Optuna makes the tables and the studies; trials are inserted many at a time, for one by one they take it 75 ms each.
    Raises UserError if the file exists or cannot be written.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if path.exists():
        raise UserError(f"{path} exists; give another name, or move it away.")
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        unfinished.unlink(missing_ok=True)
        storage = RDBStorage(f"sqlite:///{unfinished}")
        numbers = [storage.create_new_study([StudyDirection.MINIMIZE], name) for name, _ in studies]
        storage.remove_session()
        storage.engine.dispose()
        with closing(sqlite3.connect(unfinished)) as connection, connection:
            for number, (_, records) in zip(numbers, studies, strict=True):
                _insert(connection, number, trials_of(records))
        unfinished.replace(path)
    except (OSError, sqlite3.Error) as error:
        raise UserError(f"{path} cannot be written: {error}.") from error
    finally:
        unfinished.unlink(missing_ok=True)


def _insert(connection: sqlite3.Connection, study: int, trials: Sequence[FrozenTrial]) -> None:
    """The rows that Optuna's RDBStorage would write; a test reads them back through Optuna."""
    (last,) = connection.execute("SELECT coalesce(max(trial_id), 0) FROM trials").fetchone()
    texts = {axis: distribution_to_json(one) for trial in trials for axis, one in trial.distributions.items()}
    rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in _INSERTS}
    rows["study_system_attributes"].append((study, "study:metric_names", json.dumps([OBJECTIVE])))
    for number, trial in enumerate(trials):
        id = last + 1 + number
        when = f"{trial.datetime_start:%Y-%m-%d %H:%M:%S.%f}"
        rows["trials"].append((id, number, study, trial.state.name, when, when))
        if trial.value is not None:
            rows["trial_values"].append((id, trial.value))
        for axis, value in trial.params.items():
            rows["trial_params"].append((id, axis, trial.distributions[axis].to_internal_repr(value), texts[axis]))
        for key, attribute in trial.user_attrs.items():
            rows["trial_user_attributes"].append((id, key, json.dumps(attribute)))
    for name, statement in _INSERTS.items():
        connection.executemany(statement, rows[name])


_INSERTS = {
    "study_system_attributes": "INSERT INTO study_system_attributes (study_id, key, value_json) VALUES (?, ?, ?)",
    "trials": "INSERT INTO trials (trial_id, number, study_id, state, datetime_start, datetime_complete)"
    " VALUES (?, ?, ?, ?, ?, ?)",
    "trial_values": "INSERT INTO trial_values (trial_id, objective, value, value_type) VALUES (?, 0, ?, 'FINITE')",
    "trial_params": "INSERT INTO trial_params (trial_id, param_name, param_value, distribution_json)"
    " VALUES (?, ?, ?, ?)",
    "trial_user_attributes": "INSERT INTO trial_user_attributes (trial_id, key, value_json) VALUES (?, ?, ?)",
}
