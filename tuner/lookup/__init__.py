"""Look-up: the best configuration known for a device and a problem, from the snapshot alone, with its reasons."""

from tuner.lookup.answer import Answer, Origin
from tuner.lookup.ask import Family, lookup
from tuner.lookup.finder import Finder
from tuner.lookup.misses import Misses
from tuner.lookup.seeds import seed_index
from tuner.lookup.snapshot import Index, Snapshot
from tuner.store.place import snapshot_path

__all__ = [
    "Answer",
    "Family",
    "Finder",
    "Index",
    "Misses",
    "Origin",
    "Snapshot",
    "lookup",
    "seed_index",
    "snapshot_path",
]
