"""The published snapshot as a look-up reads it: parsed once, checked for a newer one at most once a second."""

from __future__ import annotations

import heapq
import logging
import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tuner.model import Certificate, Device, Problem, Silicon
from tuner.store.keys import Key
from tuner.store.published import Entry, Published, read, text_of

CHECK_SECONDS = 1.0

Shape = tuple[float, float, float, float]

_log = logging.getLogger("tuner.lookup")
_NONE: Mapping[str, Certificate] = {}


class Index:
    """What one snapshot says, by what a look-up asks for."""

    def __init__(self, published: Published) -> None:
        """Sort the entries; of two for one key the pinned one comes first."""
        self.messages = published.messages
        self._certificates = published.certificates
        self._same: dict[tuple[Silicon, Problem], list[Entry]] = defaultdict(list)
        self._alike: dict[tuple[object, ...], list[tuple[Shape, Entry]]] = defaultdict(list)
        for entry in sorted(published.entries, key=lambda entry: (not entry.champion.pinned, entry.key)):
            silicon, _, problem = entry.key
            self._same[silicon, problem].append(entry)
            self._alike[_kind(silicon, problem)].append((shape(problem), entry))

    def same_problem(self, silicon: Silicon, problem: Problem) -> list[Entry]:
        """Entries of this very problem on this silicon, whatever the software."""
        return self._same.get((silicon, problem), [])

    def nearest(self, device: Device, problem: Problem) -> Iterator[tuple[float, Entry]]:
        """Entries of other sizes or alignment on this silicon with their distance, the nearest first.

        Data type, transposes and math are the same; of equally near ones that of this software comes first.
        """
        asked = shape(problem)
        found = [
            (math.dist(asked, known), entry.champion.software != device.software, number, entry)
            for number, (known, entry) in enumerate(self._alike.get(_kind(device.silicon, problem), []))
        ]
        heapq.heapify(found)
        while found:
            far, _, _, entry = heapq.heappop(found)
            if entry.champion.problem != problem:
                yield far, entry

    def certificates(self, key: Key) -> Mapping[str, Certificate]:
        """Certificates of a key by `source_hash`."""
        return self._certificates.get(key, _NONE)


def shape(problem: Problem) -> Shape:
    """m, n, k and batch as powers of two, so that the distance of two shapes counts doublings."""
    return math.log2(problem.m), math.log2(problem.n), math.log2(problem.k), math.log2(problem.batch)


def _kind(silicon: Silicon, problem: Problem) -> tuple[object, ...]:
    return silicon, problem.dtype, problem.trans_a, problem.trans_b, problem.math


class Snapshot:
    """A snapshot file, which may be missing, damaged, read-only, or replaced at any moment by a newer one."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Read `path` when first asked; `clock` is in seconds."""
        self.path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._checked: float | None = None
        self._seen: tuple[int, ...] | None = None
        self._index = Index(Published())

    @property
    def index(self) -> Index:
        """What the file says, at most a second late; nothing if there is none."""
        now = self._clock()
        if self._checked is None or now - self._checked >= CHECK_SECONDS:
            with self._lock:
                self._refresh()
                self._checked = now
        return self._index

    def _refresh(self) -> None:
        try:
            status = self.path.stat()
            seen = (status.st_mtime_ns, status.st_size, status.st_ino)
            if seen == self._seen:
                return
            text = text_of(self.path)
        except (FileNotFoundError, NotADirectoryError):
            self._seen, self._index = None, Index(Published())
            return
        except OSError as error:
            _log.warning("the snapshot %s cannot be read: %s", self.path, error.strerror)
            return
        self._seen, self._index = seen, Index(read(text))
        for message in self._index.messages:
            _log.warning("%s: %s", self.path, message)
