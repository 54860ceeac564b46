"""Make the snapshot anew from one consistent state of the database, and put it in place in one step."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy import Connection, Engine, func, select

from tuner.store import certificates, champions, published
from tuner.store.engine import exclusive, transact
from tuner.store.place import Place
from tuner.store.schema import certificate, champion_log


def publish(engine: Engine, place: Place) -> Path:
    """Publish what stands now; returns the snapshot's path.

    Under the lock file, so that of several publishers the last one read last. Raises OSError if it cannot be written.
    """
    with exclusive(place):
        contents = transact(place, engine, collect)
        replace_text(place.snapshot, published.write(contents))
    return place.snapshot


def state(connection: Connection) -> tuple[int, int]:
    """What changes whenever a snapshot would: the last line of the log and the last certificate."""
    last = [connection.execute(select(func.max(table.c.id))).scalar() for table in (champion_log, certificate)]
    return last[0] or 0, last[1] or 0


def collect(connection: Connection) -> published.Published:
    """Everything that stands, ordered by key so that other devices' data moves nothing."""
    held = certificates.every(connection)
    standings = champions.standings(champions.lines(connection)).values()
    pinned = [one.pinned for one in standings if one.pinned is not None]
    promoted = [one.promoted for one in standings if one.promoted is not None]
    entries = [
        published.Entry(champions.champion_of(event, is_pinned, held.get(event.key, {})), event.run)
        for events, is_pinned in ((pinned, True), (promoted, False))
        for event in champions.with_sources(connection, events)
    ]
    entries.sort(key=lambda entry: (entry.key, not entry.champion.pinned))
    return published.Published(tuple(entries), dict(sorted(held.items())), state(connection))


def is_current(engine: Engine, place: Place) -> bool:
    """Whether the snapshot says what the database does, to the letter: a certificate revoked leaves no new line."""
    present = transact(place, engine, collect)
    try:
        return published.text_of(place.snapshot) == published.write(present)
    except OSError:
        return present.state == (0, 0) and not place.snapshot.exists()


def replace_text(path: Path, text: str) -> None:
    """Write a file that readers see whole, the old or the new one, also after a power cut. One writer at a time."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        unfinished.unlink(missing_ok=True)  # whatever a kill left there, or another program put there
        with unfinished.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
