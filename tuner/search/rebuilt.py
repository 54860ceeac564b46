"""An Optuna study rebuilt from stored records, for reports and for optuna-dashboard; the search itself uses none."""

from __future__ import annotations

import json
import sqlite3
import warnings
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import CategoricalDistribution
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.storages import RDBStorage
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from tuner.model import Record, Scalar, UserError

DIGITS = 5
"""Significant digits of drawn numbers."""


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
        figure = optuna.visualization.plot_slice(study, params=list(axes), target=_time, target_name="time (ms)")
    drawn = json.loads(figure.to_json(), parse_float=lambda text: float(f"{float(text):.{DIGITS - 1}e}"))
    layout = drawn["layout"]
    layout.pop("template", None)
    layout.pop("title", None)
    for trace in drawn["data"]:
        trace["marker"].get("colorbar", {}).update(xpad=10, thickness=12)
    return {"data": drawn["data"], "layout": layout}


def _time(trial: FrozenTrial) -> float:
    return float(trial.values[0])


def write_storage(path: Path, studies: Sequence[tuple[str, Sequence[Record]]], told: Callable[[str], None]) -> None:
    """Write an Optuna storage (SQLite) with one study for each (name, records); `told` hears of each study begun.

    Raises UserError if the file exists or cannot be written.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if path.exists():
        raise UserError(f"{path} exists; give another name, or move it away.")
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    try:
        storage = RDBStorage(f"sqlite:///{unfinished}", engine_kwargs={"creator": lambda: _hurried(unfinished)})
        for name, records in studies:
            told(name)
            study = storage.create_new_study([StudyDirection.MINIMIZE], name)
            for trial in trials_of(records):
                storage.create_new_trial(study, template_trial=trial)
        storage.remove_session()
        storage.engine.dispose()
        unfinished.replace(path)
    except (OSError, sqlite3.Error) as error:
        raise UserError(f"{path} cannot be written: {error}.") from error
    finally:
        unfinished.unlink(missing_ok=True)


def _hurried(path: Path) -> sqlite3.Connection:
    """A file that is written anew and then moved into place needs no protection from a power cut on the way."""
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute("PRAGMA synchronous=OFF")
    connection.execute("PRAGMA journal_mode=MEMORY")
    return connection
