"""Misses: what was asked for and not tuned, and how often."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from tuner.model import Silicon
from tuner.store import rows, valid
from tuner.store.keys import Key
from tuner.store.nouns import Miss
from tuner.store.schema import miss


def add(connection: Connection, misses: Iterable[Miss]) -> None:
    """Add counts to what is there; the origin of the later question stands. Raises ValueError for a count below 1."""
    for one in misses:
        if one.count < 1:
            raise ValueError(f"a miss was counted {one.count} times")
        ids = rows.key_ids(connection, one.silicon, one.software, one.problem)
        same = [miss.c[name] == value for name, value in ids.items()]
        present = connection.execute(select(miss).where(*same)).first()
        if present is None:
            values = {"origin": one.origin, "asked": one.count, "first": one.first, "last": one.last}
            connection.execute(insert(miss).values(**ids, **values))
        else:
            connection.execute(update(miss).where(miss.c.id == present.id).values(**_joined(present, one)))


def _joined(present: Row[Any], more: Miss) -> dict[str, Any]:
    return {
        "origin": more.origin if more.last >= present.last else present.origin,
        "asked": present.asked + more.count,
        "first": min(present.first, more.first),
        "last": max(present.last, more.last),
    }


def listed(connection: Connection, silicon: Silicon | None) -> list[Miss]:
    """The misses on a silicon (None: any), most asked first."""
    about = rows.conditions(connection, miss, silicon=silicon)
    found = connection.execute(select(miss).where(*about).order_by(miss.c.asked.desc(), miss.c.id))
    nouns = rows.Nouns(connection)

    def read(row: Row[Any]) -> Miss:
        return Miss(*nouns.key(row), row.origin, valid.whole(row.asked, "the count", 1), row.first, row.last)

    return rows.readable(found, read, "misses")


def forget(connection: Connection, key: Key) -> None:
    """What was asked for has been tuned."""
    about = rows.conditions(connection, miss, silicon=key[0], software=key[1], problem=key[2])
    connection.execute(delete(miss).where(*about))
