"""Misses: what was asked for and not tuned, counted in memory and written to the spool behind the look-up's back."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from tuner.lookup.answer import Origin
from tuner.model import Device, Problem, Silicon, Software
from tuner.store.nouns import Miss

FLUSH_SECONDS = 1.0
"""The spool is written this long after a miss, so at most once in this time."""
MOST = 10_000
"""Different misses that one process remembers; a program that asks for more is no candidate for tuning each of them."""

_log = logging.getLogger("tuner.lookup")
_Key = tuple[Silicon, Software, Problem]


class Counter:
    """How often one thing was asked for since the spool was written."""

    __slots__ = ("_misses", "fresh", "origin")

    def __init__(self, misses: Misses, origin: Origin) -> None:
        self._misses = misses
        self.origin = origin
        self.fresh = 0

    def count(self, times: int = 1) -> None:
        """So many times more."""
        misses = self._misses
        with misses.lock:
            self.fresh += times
        if not misses.awake:
            misses.wake()


class Misses:
    """Counts misses; a thread that starts with the first one, and the end of the process, write them to `folder`.

    Whatever keeps the folder from being written is no reason to fail: then nothing is remembered.
    """

    def __init__(self, folder: Path) -> None:
        """`folder` need not exist."""
        self.folder = folder
        self.lock = threading.Lock()
        self.awake = False
        self._something = threading.Event()
        self._flushing = threading.Lock()
        self._thread: threading.Thread | None = None
        self._counters: dict[_Key, Counter] = {}
        self._written: dict[_Key, Miss] = {}
        _all.add(self)
        atexit.register(self.flush)

    def counter(self, device: Device, problem: Problem, origin: Origin) -> Counter:
        """The counter of one question; beyond MOST, one that is never written."""
        key = (device.silicon, device.software, problem)
        with self.lock:
            found = self._counters.get(key)
            if found is None:
                found = Counter(self, origin)
                if len(self._counters) < MOST:
                    self._counters[key] = found
            found.origin = origin
            return found

    def wake(self) -> None:
        """Make sure that what was counted is written soon."""
        with self.lock:
            self.awake = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="gemm-tuner-misses", daemon=True)
                self._thread.start()
        self._something.set()

    def flush(self) -> None:
        """Write what was counted since the last time, now."""
        from tuner.store.process import Process
        from tuner.store.spool import replace_misses, spool_file

        with self._flushing:
            fresh = list(self._taken_from_counters())
            if not fresh:
                return
            try:
                path = spool_file(self.folder, Process.current())
                replace_misses(path, lambda taken: self._joined(fresh, taken).values())
            except OSError as error:
                _log.debug("misses cannot be written to %s: %s", self.folder, error)

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            self._something.wait()
            self._something.clear()
            pause.wait(FLUSH_SECONDS)
            self.awake = False  # what is counted from here on wakes us again
            self.flush()

    def _taken_from_counters(self) -> Iterator[Miss]:
        now = datetime.now(UTC).isoformat()
        with self.lock:
            asked = [(key, counter.origin, counter.fresh) for key, counter in self._counters.items() if counter.fresh]
            for key, _, _ in asked:
                self._counters[key].fresh = 0
        for key, origin, count in asked:
            yield Miss(*key, origin.value, count, now, now)

    def _joined(self, fresh: list[Miss], taken: bool) -> dict[_Key, Miss]:
        """What the file is to hold: what it held, unless that was taken in, and the new counts."""
        if taken:
            self._written = {}
        for miss in fresh:
            key = (miss.silicon, miss.software, miss.problem)
            before = self._written.get(key)
            first, count = (miss.first, 0) if before is None else (before.first, before.count)
            self._written[key] = Miss(*key, miss.origin, count + miss.count, first, miss.last)
        return self._written

    def after_fork(self) -> None:
        """In a child: the parent writes what it counted; locks and thread are new."""
        self.lock, self._flushing = threading.Lock(), threading.Lock()
        self._something = threading.Event()
        self._thread, self.awake, self._written = None, False, {}
        for counter in self._counters.values():
            counter.fresh = 0


_all: weakref.WeakSet[Misses] = weakref.WeakSet()


def _after_fork() -> None:
    for misses in list(_all):
        misses.after_fork()


os.register_at_fork(after_in_child=_after_fork)
