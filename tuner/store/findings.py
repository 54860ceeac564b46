"""What nights find out about a device: regressions, each open until closed, and its peaks."""

from __future__ import annotations

import math
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from tuner.model import Config, Silicon, Software, UserError
from tuner.store import rows
from tuner.store.keys import Key
from tuner.store.nouns import Peak, Regression
from tuner.store.schema import peak, regression


def open_regression(
    connection: Connection, key: Key, config: Config, source_hash: str, number: int | None, **found: Any
) -> int:
    """Note a regression, or the latest figures of one that is open already; returns its number."""
    _require_positive(found["before_ms"], found["now_ms"])
    found["detail"] = rows.clean(found["detail"], rows.MESSAGE_BYTES)
    about = rows.conditions(connection, regression, silicon=key[0], software=key[1], problem=key[2])
    still_open = [*about, regression.c.source_hash == source_hash, regression.c.closed.is_(None)]
    present = connection.execute(select(regression.c.id).where(*still_open)).scalar()
    if present is not None:
        latest = {name: found[name] for name in ("now_ms", "noise", "detail")}
        connection.execute(update(regression).where(regression.c.id == present).values(**latest))
        return int(present)
    values = {
        **rows.key_ids(connection, *key),
        **rows.config_columns(config),
        "source_hash": source_hash,
        "night_id": number,
        **found,
        "opened": rows.now(),
        "reason": "",
        "acknowledged": False,
    }
    return int(connection.execute(insert(regression).values(**values).returning(regression.c.id)).scalar_one())


def close_regression(connection: Connection, number: int, reason: str, *, acknowledged: bool) -> None:
    """Close an open regression with its reason. Raises UserError if there is none of that number."""
    values = {"closed": rows.now(), "reason": rows.clean(reason, rows.MESSAGE_BYTES), "acknowledged": acknowledged}
    is_open = regression.c.id == number, regression.c.closed.is_(None)
    if connection.execute(update(regression).where(*is_open).values(**values)).rowcount != 1:
        raise UserError(f"there is no open regression {number}.")


def regressions(connection: Connection, open_only: bool) -> list[Regression]:
    """Regressions, oldest first."""
    query = select(regression).order_by(regression.c.id)
    if open_only:
        query = query.where(regression.c.closed.is_(None))
    nouns = rows.Nouns(connection)

    def read(row: Row[Any]) -> Regression:
        figures = (row.before_ms, row.now_ms, row.noise, row.detail)
        end = (row.opened, row.closed, row.reason, row.acknowledged)
        key = nouns.key(row)
        return Regression(row.id, *key, rows.config_of(row), row.source_hash, row.night_id, *figures, *end)

    return rows.readable(connection.execute(query), read, "regressions")


def set_peak(connection: Connection, found: Peak) -> None:
    """Keep a measured peak in place of the one before. Raises ValueError unless its value is positive and finite."""
    _require_positive(found.value)
    ids = rows.device_ids(connection, found.silicon, found.software)
    where = {**ids, "what": found.what, "dtype": found.dtype, "math": found.math}
    connection.execute(delete(peak).where(*(peak.c[name] == value for name, value in where.items())))
    figures = {"value": found.value, "noise": found.noise, "method": found.method, "when": found.when}
    connection.execute(insert(peak).values(**where, **figures))


def peaks(connection: Connection, silicon: Silicon, software: Software) -> list[Peak]:
    """What was measured for a device on one software, ordered by what, dtype and math."""
    about = rows.conditions(connection, peak, silicon=silicon, software=software)
    query = select(peak).where(*about).order_by(peak.c.what, peak.c.dtype, peak.c.math)

    def read(row: Row[Any]) -> Peak:
        which = (row.what, row.dtype, row.math)
        return Peak(silicon, software, *which, row.value, row.noise, row.method, row.when)

    return rows.readable(connection.execute(query), read, "peaks")


def _require_positive(*values: float) -> None:
    for value in values:
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{value} is no time or rate")
