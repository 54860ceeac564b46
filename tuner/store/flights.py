"""What is being measured right now, and what becomes of it when the tuner that measured it is gone.

Died in the same boot: queued once more, last; the second death is a `crashed` verdict. The machine was restarted
meanwhile: `crashed` at once, for the candidate may have taken the machine down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from tuner.model import Config, Measurement, Record, Verdict
from tuner.store import rows, trials
from tuner.store.keys import Key
from tuner.store.process import Process
from tuner.store.schema import in_flight

QUEUED = "queued"
"""The stage of a candidate that waits for its second attempt."""

MAX_ATTEMPTS = 2

_AGAIN = (
    update(in_flight)
    .where(in_flight.c.run_id == bindparam("of_run"), in_flight.c.source_hash == bindparam("of_source"))
    .values(attempts=in_flight.c.attempts + 1)
)


@dataclass(frozen=True)
class Interrupted:
    """A candidate whose tuner is gone."""

    config: Config
    source_hash: str
    stage: str
    attempts: int
    same_boot: bool
    """The machine was not restarted since."""


@dataclass(frozen=True)
class Settled:
    """What became of interrupted candidates."""

    again: tuple[Interrupted, ...]
    """To be measured once more, after everything else."""
    given_up: tuple[Record, ...]
    """Recorded as crashed just now."""


def begin(
    connection: Connection,
    process: Process,
    number: int,
    key: Key,
    config: Config,
    source_hash: str,
    stage: str,
    family_hash: str,
) -> None:
    """Note that run `number` is about to launch a candidate; a repeated call counts as another attempt."""
    values = {"stage": stage, "family_hash": family_hash, **rows.config_columns(config), **_owner(process)}
    values["began"] = rows.now()
    if connection.execute(_AGAIN, {**values, "of_run": number, "of_source": source_hash}).rowcount == 0:
        first = {"run_id": number, **rows.key_ids(connection, *key), "source_hash": source_hash, "attempts": 1}
        connection.execute(insert(in_flight), {**first, **values})


def stage(connection: Connection, number: int, config: Config, name: str) -> None:
    """Note how far a candidate in flight has come."""
    query = update(in_flight).where(in_flight.c.run_id == number, *_is(config)).values(stage=name)
    if connection.execute(query).rowcount != 1:
        raise ValueError(f"run {number} has no such candidate in flight: {config}")


def land(connection: Connection, number: int, source_hash: str) -> None:
    """A candidate of run `number` has its verdict, whatever it is, or is not wanted any more."""
    mine = in_flight.c.run_id == number, in_flight.c.source_hash == source_hash
    connection.execute(delete(in_flight).where(*mine))


def release(connection: Connection, number: int) -> None:
    """Run `number` ended in order: what it was measuring is not at fault. What waits for its second attempt stays."""
    connection.execute(delete(in_flight).where(in_flight.c.run_id == number, in_flight.c.stage != QUEUED))


def interrupted(connection: Connection, process: Process, key: Key) -> list[tuple[Row[Any], Interrupted]]:
    """Candidates whose tuner on this machine is gone, with their rows, oldest first."""
    about = rows.conditions(connection, in_flight, silicon=key[0], software=key[1], problem=key[2])
    here = in_flight.c.host == process.host
    ours = connection.execute(select(in_flight).where(here, *about).order_by(in_flight.c.id))
    gone = [row for row in ours if row.boot != process.boot or not _process_of(row).lives()]

    def read(row: Row[Any]) -> tuple[Row[Any], Interrupted]:
        same_boot = row.boot == process.boot
        return row, Interrupted(rows.config_of(row), row.source_hash, row.stage, row.attempts, same_boot)

    return rows.readable(gone, read, "candidates in flight")


def forget(connection: Connection, process: Process, key: Key, source_hash: str) -> None:
    """An interrupted candidate of this source needs no second attempt and no verdict: it is known, and comes again."""
    gone = [row.id for row, candidate in interrupted(connection, process, key) if candidate.source_hash == source_hash]
    connection.execute(delete(in_flight).where(in_flight.c.id.in_(gone)))


def _process_of(row: Row[Any]) -> Process:
    return Process(row.host, row.boot, row.pid, row.process_started)


def settle(connection: Connection, process: Process, number: int, key: Key) -> Settled:
    """Take over every interrupted candidate for run `number`, or record that it crashed."""
    again, given_up = [], []
    for row, candidate in interrupted(connection, process, key):
        if _may_try_again(candidate):
            if _adopt(connection, process, number, row):
                again.append(candidate)
            continue
        given_up.append(_crashed(row, candidate, key))
        trials.add(connection, given_up[-1])
        connection.execute(delete(in_flight).where(in_flight.c.id == row.id))
    return Settled(tuple(again), tuple(given_up))


def _may_try_again(candidate: Interrupted) -> bool:
    if candidate.stage == QUEUED:
        return True
    return candidate.same_boot and candidate.attempts < MAX_ATTEMPTS


def _adopt(connection: Connection, process: Process, number: int, row: Row[Any]) -> bool:
    """Hand a row to run `number`; False, and the row goes, if that run has the same candidate already."""
    same = (in_flight.c.run_id == number, in_flight.c.family == row.family, in_flight.c.config == row.config)
    if connection.execute(select(in_flight.c.id).where(*same, in_flight.c.id != row.id)).first() is not None:
        connection.execute(delete(in_flight).where(in_flight.c.id == row.id))
        return False
    values: Mapping[str, Any] = {"run_id": number, "stage": QUEUED, **_owner(process)}
    connection.execute(update(in_flight).where(in_flight.c.id == row.id).values(**values))
    return True


def _crashed(row: Row[Any], candidate: Interrupted, key: Key) -> Record:
    if candidate.same_boot:
        message = f"the tuner died {candidate.attempts} times while it was at: {candidate.stage}"
    else:
        message = f"the machine was restarted while it was at: {candidate.stage}"
    crashed = Measurement(Verdict.CRASHED, message=message)
    return Record(*key, candidate.config, crashed, row.source_hash, row.run_id, rows.now(), row.family_hash)


def _owner(process: Process) -> dict[str, Any]:
    return {
        "host": process.host,
        "boot": process.boot,
        "pid": process.pid,
        "process_started": process.started,
    }


def _is(config: Config) -> tuple[Any, ...]:
    columns = rows.config_columns(config)
    return in_flight.c.family == columns["family"], in_flight.c.config == columns["config"]
