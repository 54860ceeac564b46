"""`tuner.lookup`: the look-up with nothing to set up, on the store that everything else uses."""

from __future__ import annotations

import functools
import os

from tuner.family import BuiltIn
from tuner.lookup.answer import Answer
from tuner.lookup.finder import Finder
from tuner.lookup.misses import Misses
from tuner.lookup.seeds import seed_index
from tuner.lookup.snapshot import Snapshot
from tuner.model import Device, Problem
from tuner.store.place import Place


def lookup(device: Device, problem: Problem, *, db: str | None = None) -> Answer:
    """The best configuration known for `problem` on `device`, and why that one; there always is one.

    `db` is a path or URL as `--db` takes it; without, GEMM_TUNER_DB as it was at the first look-up, else the user's
    data folder. Nothing is opened but the published snapshot, so that the store may be missing, in use, or read-only.
    Raises UserError for an empty product and for a dtype that the device lacks.
    """
    return finder(db).lookup(device, problem)


@functools.cache
def finder(db: str | None = None) -> Finder:
    """The process's finder on a store."""
    place = Place.of(db or os.environ.get("GEMM_TUNER_DB"))
    return Finder(Snapshot(place.snapshot), BuiltIn(), seeds=seed_index, misses=Misses(place.spool))
