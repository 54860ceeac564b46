"""Opening a store: the one place that decides what is made, upgraded, read or refused."""

from __future__ import annotations

from tuner.store import migrate, schema
from tuner.store.engine import empty_engine
from tuner.store.place import Place
from tuner.store.process import Process
from tuner.store.store import Store


def open_store(url: str | None = None, *, upgrade: bool, process: Process | None = None) -> Store:
    """The store at `url`: a path, sqlite:///path or postgresql://...; by default a file in the user's data folder.

    With `upgrade` (commands that tune, `db upgrade`) it is made if missing, and an older schema is brought up to date
    after a copy. Without, nothing is made or changed on opening: an older schema is refused, and where nothing is
    stored yet every question has an empty answer and every change is refused. Raises UserError for whatever is no
    database of ours, was written by a newer gemm-tuner, or cannot be read or written.
    """
    place = Place.of(url)
    process = process or Process.current()
    if upgrade:
        store = Store(migrate.upgraded(place), place, process)
        store.catch_up()
        return store
    engine = migrate.current(place)
    if engine is not None:
        return Store(engine, place, process)
    engine = empty_engine()
    schema.metadata.create_all(engine)
    return Store(engine, place, process, missing=True)
