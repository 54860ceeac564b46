"""Making room: raw samples of long ago give way to their median, where nothing else is lost by it."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, exists, func, select, update

from tuner.store.schema import champion_log, night, trial

BATCH = 1000
"""Trials changed in one transaction, few enough that no other writer notices."""

_ONE_SAMPLE_BYTES = 8


@dataclass(frozen=True)
class Pruned:
    """What gave way, or would."""

    before: str | None
    """Older trials than this moment, UTC, ISO 8601; None if there are too few nights to tell."""
    trials: int
    bytes: int
    """Of raw samples."""


def start_of(connection: Connection, nights: int) -> str | None:
    """When the last `nights` nights began; None if there were fewer. Several jobs of one date (UTC) are one night."""
    date = func.substr(night.c.started, 1, 10)
    query = select(func.min(night.c.started)).group_by(date).order_by(date.desc()).offset(nights - 1).limit(1)
    found = connection.execute(query).scalar()
    return None if found is None else str(found)


def count(connection: Connection, before: str) -> Pruned:
    """What `batch` will change, in all."""
    query = select(func.count(), func.coalesce(func.sum(func.length(trial.c.samples) - _ONE_SAMPLE_BYTES), 0))
    trials, size = connection.execute(query.where(*_goes(before))).one()
    return Pruned(before, int(trials), int(size))


def batch(connection: Connection, before: str) -> int:
    """Put the median in place of the samples of some trials; returns how many, 0 at the end."""
    query = select(trial.c.id, trial.c.time_ms).where(*_goes(before)).order_by(trial.c.id).limit(BATCH)
    found = [{"row": row.id, "median": struct.pack("<d", row.time_ms)} for row in connection.execute(query)]
    if found:
        change = update(trial).where(trial.c.id == bindparam("row")).values(samples=bindparam("median"))
        connection.execute(change, found)
    return len(found)


def _goes(before: str) -> list[Any]:
    """Correct trials of long ago; not those of a source that was ever a champion, whose samples a report shows."""
    same = [trial.c[name] == champion_log.c[name] for name in ("problem_id", "silicon_id", "software_id")]
    published = exists().where(*same, trial.c.source_hash == champion_log.c.source_hash)
    has_more = func.length(trial.c.samples) > _ONE_SAMPLE_BYTES
    return [trial.c.when < before, trial.c.time_ms.is_not(None), has_more, ~published]
