"""How far a night has come, committed step by step, so that a killed one goes on where it stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tuner.store import Store

Result = dict[str, Any]


class Ledger:
    """A night's finished steps with their results; safe to use from several threads."""

    def __init__(self, store: Store, night: int, elapsed: Callable[[], float], progress: Any = None) -> None:
        """`progress` is what the store kept of a night that is resumed; `elapsed` gives the seconds spent."""
        self.night = night
        self._store, self._elapsed = store, elapsed
        self._lock = threading.Lock()
        self._devices: dict[str, dict[str, Result]] = dict((progress or {}).get("devices", {}))

    def steps(self, device: str) -> dict[str, Result]:
        """What is done on a device, by step, in the order in which it was done."""
        with self._lock:
            return dict(self._devices.get(device, {}))

    def mark(self, device: str, step: str, result: Result) -> None:
        """Commit that a step is done, and with what result: plain values."""
        with self._lock:
            self._devices.setdefault(device, {})[step] = result
            self._note()

    def tick(self) -> None:
        """Commit the time spent."""
        with self._lock:
            self._note()

    def _note(self) -> None:
        self._store.note_night(self.night, {"spent_s": round(self._elapsed(), 3), "devices": self._devices})
