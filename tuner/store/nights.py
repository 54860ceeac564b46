"""Nights: each run of the nightly job with its plan and progress, and what the calibration kernel said in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from tuner.model import Silicon, Software, UserError
from tuner.store import rows
from tuner.store.nouns import Calibration, Night, NightState
from tuner.store.process import Process
from tuner.store.schema import calibration, night

_ENDS = (NightState.COMPLETE, NightState.INTERRUPTED, NightState.FAILED)


def start(connection: Connection, process: Process, name: str, host: str, plan: Mapping[str, Any]) -> int:
    """Note that a night began in this process; returns its number."""
    values = {
        "name": name,
        "started": rows.now(),
        "state": NightState.RUNNING.value,
        "plan": rows.json_text(plan),
        "progress": "{}",
        **_owner(process),
        "host": host,
    }
    return int(connection.execute(insert(night).values(**values).returning(night.c.id)).scalar_one())


def resume(connection: Connection, process: Process, number: int) -> Night:
    """Go on in this process with a night that was interrupted or died. Raises UserError for any other."""
    found = _one(connection, process, number)
    if found.state not in (NightState.INTERRUPTED, NightState.DIED):
        raise UserError(f"night {number} ({found.name}) is {found.state}; only one that was cut short can be resumed.")
    values = {**_owner(process), "state": NightState.RUNNING.value, "finished": None, "summary": None}
    connection.execute(update(night).where(night.c.id == number).values(**values))
    return _one(connection, process, number)


def note(connection: Connection, number: int, progress: Mapping[str, Any]) -> None:
    """Keep how far a night has come. Raises ValueError if there is no such night at work."""
    _change(connection, number, progress=rows.json_text(progress))


def finish(connection: Connection, number: int, state: str, summary: Mapping[str, Any]) -> None:
    """Close a night: `complete`, `interrupted` or `failed`. Raises ValueError if there is no such night at work."""
    ended = NightState(state)
    if ended not in _ENDS:
        raise ValueError(f"a night does not end as {state}")
    _change(connection, number, state=ended.value, summary=rows.json_text(summary), finished=rows.now())


def _change(connection: Connection, number: int, **values: Any) -> None:
    at_work = night.c.id == number, night.c.state == NightState.RUNNING.value
    if connection.execute(update(night).where(*at_work).values(**values)).rowcount != 1:
        raise ValueError(f"there is no night {number} at work")


def listed(connection: Connection, process: Process, limit: int | None, name: str | None) -> list[Night]:
    """Nights of a name (None: any), newest first, at most `limit`."""
    query = select(night).order_by(night.c.id.desc()).limit(limit)
    if name is not None:
        query = query.where(night.c.name == name)
    return rows.readable(connection.execute(query), lambda row: _night_of(row, process), "nights")


def _one(connection: Connection, process: Process, number: int) -> Night:
    row = connection.execute(select(night).where(night.c.id == number)).first()
    if row is None:
        raise UserError(f"there is no night {number}.")
    return _night_of(row, process)


def _night_of(row: Row[Any], process: Process) -> Night:
    state = NightState(row.state)
    if state is NightState.RUNNING and _is_gone(row, process):
        state = NightState.DIED
    summary = None if row.summary is None else _object(row.summary)
    contents = (_object(row.plan), _object(row.progress), summary)
    return Night(row.id, row.name, row.host, row.started, row.finished, state, *contents)


def _is_gone(row: Row[Any], process: Process) -> bool:
    """Whether the night's process is known to be dead; of another machine's nothing is known."""
    if row.host != process.host:
        return False
    return row.boot != process.boot or not Process(row.host, row.boot, row.pid, row.process_started).lives()


def _object(text: str) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"{text!r:.40} is no JSON object")
    return found


def _owner(process: Process) -> dict[str, Any]:
    return {"host": process.host, "boot": process.boot, "pid": process.pid, "process_started": process.started}


def calibrate(
    connection: Connection,
    instance: str,
    silicon: Silicon,
    software: Software,
    number: int | None,
    stage: str,
    reading: Mapping[str, float],
) -> None:
    """Keep one reading of the calibration kernel and the sensors."""
    values = {
        "instance": instance,
        **rows.device_ids(connection, silicon, software),
        "night_id": number,
        "stage": stage,
        "reading": rows.json_text(reading),
        "when": rows.now(),
    }
    connection.execute(insert(calibration).values(**values))


def calibrations(
    connection: Connection, instance: str | None, software: Software | None, limit: int | None
) -> list[Calibration]:
    """The last `limit` readings of a device instance on a software (None: any), oldest first."""
    about = rows.conditions(connection, calibration, software=software)
    if instance is not None:
        about.append(calibration.c.instance == instance)
    query = select(calibration).where(*about)
    found = connection.execute(query.order_by(calibration.c.id.desc()).limit(limit)).all()
    nouns = rows.Nouns(connection)

    def read(row: Row[Any]) -> Calibration:
        reading = {name: float(value) for name, value in _object(row.reading).items()}
        return Calibration(row.instance, *nouns.device(row), row.night_id, row.stage, reading, row.when)

    return rows.readable(reversed(found), read, "calibrations")
