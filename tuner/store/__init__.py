"""The store: the only truth about what was measured, promoted and certified, behind a few verbs.

Names load on first use, so that a look-up that needs only the snapshot's format never imports a database.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuner.store.champions import Event, Superseded
    from tuner.store.flights import Interrupted, Settled
    from tuner.store.nouns import (
        LIBRARY_PREFIX,
        Calibration,
        Foreign,
        Miss,
        Night,
        NightState,
        Nominee,
        Peak,
        Regression,
        TakenIn,
    )
    from tuner.store.opening import open_store
    from tuner.store.place import snapshot_path
    from tuner.store.process import Process
    from tuner.store.prune import Pruned
    from tuner.store.store import Store

_HOMES = {
    "Calibration": "nouns",
    "Event": "champions",
    "Foreign": "nouns",
    "Interrupted": "flights",
    "LIBRARY_PREFIX": "nouns",
    "Miss": "nouns",
    "Night": "nouns",
    "NightState": "nouns",
    "Nominee": "nouns",
    "Peak": "nouns",
    "Process": "process",
    "Pruned": "prune",
    "Regression": "nouns",
    "Settled": "flights",
    "Store": "store",
    "Superseded": "champions",
    "TakenIn": "nouns",
    "open_store": "opening",
    "snapshot_path": "place",
}

__all__ = [
    "LIBRARY_PREFIX",
    "Calibration",
    "Event",
    "Foreign",
    "Interrupted",
    "Miss",
    "Night",
    "NightState",
    "Nominee",
    "Peak",
    "Process",
    "Pruned",
    "Regression",
    "Settled",
    "Store",
    "Superseded",
    "TakenIn",
    "open_store",
    "snapshot_path",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
