"""The published snapshot as a look-up reads it: listed once, checked for a newer one at most once a second."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tuner.lookup.near import Near
from tuner.model import Certificate, Device, Problem, Silicon, Software, log_sizes
from tuner.store.contents import Contents, ProblemKey, Where, open_contents, problem_key
from tuner.store.keys import Key, text_hash
from tuner.store.place import SUFFIX
from tuner.store.published import FORMAT, Entry, Published, certificate_of, entry_of, read, text_of
from tuner.store.valid import UNREADABLE

CHECK_SECONDS = 1.0

_log = logging.getLogger("tuner.lookup")

Kind = tuple[str, bool, bool, str]
"""What must be the same for two problems to be near each other: dtype, transposes and math."""


class Listed:
    """A champion that is listed, and read when it is asked for."""

    __slots__ = ("_load", "_loaded", "order", "pinned", "problem", "silicon", "software")

    def __init__(
        self,
        silicon: Silicon,
        software: Software,
        problem: ProblemKey,
        pinned: bool,
        order: int,
        load: Callable[[], Entry | None],
    ) -> None:
        self.silicon = silicon
        self.software = software
        self.problem = problem
        self.pinned = pinned
        self.order = order
        self._load = load
        self._loaded: list[Entry | None] = []

    @property
    def entry(self) -> Entry | None:
        """The champion; None if its row is damaged, which is told once."""
        if not self._loaded:
            self._loaded.append(self._load())
        return self._loaded[0]


class Index:
    """What one snapshot says, by what a look-up asks for; rows and sources are read when they are needed."""

    def __init__(self, listed: list[Listed], certificates: Callable[[Key], Mapping[str, Certificate]]) -> None:
        """Of two for one key the pinned one comes first."""
        self._certificates = certificates
        self._same: dict[Silicon, dict[ProblemKey, list[Listed]]] = {}
        self._by_silicon: dict[Silicon, list[Listed]] = defaultdict(list)
        for one in sorted(listed, key=lambda one: (not one.pinned, one.order)):
            self._by_silicon[one.silicon].append(one)
        self._near: dict[tuple[Silicon, Kind], Near[Listed]] = {}

    @property
    def silicons(self) -> list[Silicon]:
        """Whatever has champions."""
        return list(self._by_silicon)

    @property
    def devices(self) -> dict[tuple[Silicon, Software], int]:
        """How many champions there are for each."""
        return dict(Counter((one.silicon, one.software) for many in self._by_silicon.values() for one in many))

    @property
    def listed(self) -> list[Listed]:
        """Every champion; of two for one key the pinned one comes first."""
        return [one for many in self._by_silicon.values() for one in many]

    def latest(self, silicon: Silicon, software: Software) -> str:
        """When something was published there last; empty if never."""
        found = (one.entry for one in self._by_silicon.get(silicon, ()) if one.software == software)
        return max((entry.champion.when for entry in found if entry is not None), default="")

    def same_problem(self, silicon: Silicon, problem: Problem) -> list[Entry]:
        """Entries of this very problem on this silicon, whatever the software."""
        if silicon not in self._same:
            found: dict[ProblemKey, list[Listed]] = defaultdict(list)
            for one in self._by_silicon.get(silicon, ()):
                found[one.problem].append(one)
            self._same[silicon] = found
        listed = self._same[silicon].get(problem_key(problem), ())
        return [entry for one in listed if (entry := one.entry) is not None]

    def nearest(
        self, device: Device, problem: Problem, silicon: Silicon | None = None
    ) -> Iterator[tuple[float, Entry]]:
        """Entries of other sizes or alignment on this silicon with their distance, the nearest first.

        Data type, transposes and math are the same; of equally near ones that of this software comes first. On another
        `silicon`, if one is given, the problem may be the same, too.
        """
        key = problem_key(problem)
        for far, one in self._of_kind(silicon or device.silicon, problem).around(
            log_sizes(problem), lambda one: (one.software != device.software, one.order)
        ):
            if (silicon is not None or one.problem != key) and (entry := one.entry) is not None:
                yield far, entry

    def certificates(self, key: Key) -> Mapping[str, Certificate]:
        """Certificates of a key by `source_hash`."""
        return self._certificates(key)

    def _of_kind(self, silicon: Silicon, problem: Problem) -> Near[Listed]:
        kind = (problem.dtype, problem.trans_a, problem.trans_b, problem.math)
        if (silicon, kind) not in self._near:
            alike = [one for one in self._by_silicon.get(silicon, ()) if _kind(one.problem) == kind]
            self._near[silicon, kind] = Near((_point(one.problem), one) for one in alike)
        return self._near[silicon, kind]


def _kind(problem: ProblemKey) -> Kind:
    return problem[4], problem[5], problem[6], problem[7]


def _point(problem: ProblemKey) -> tuple[float, ...]:
    return tuple(math.log2(size) for size in problem[:4])


def index_of(published: Published) -> Index:
    """The index of a snapshot that was read whole."""
    none: Mapping[str, Certificate] = {}

    def listed(number: int, entry: Entry) -> Listed:
        silicon, software, problem = entry.key
        return Listed(silicon, software, problem_key(problem), entry.champion.pinned, number, lambda: entry)

    found = [listed(number, entry) for number, entry in enumerate(published.entries)]
    return Index(found, lambda key: published.certificates.get(key, none))


def index_of_table(contents: Contents, tell: Callable[[str], None]) -> Index:
    """The index of a snapshot's table; `tell` is told of each row that turns out to be damaged."""
    listed: list[Listed] = []
    certified: dict[tuple[Silicon, Software], dict[ProblemKey, list[Where]]] = {}
    for group in contents.groups:
        about = silicon, software = Silicon(**group.silicon), Software(**group.software)
        for problem, pinned, row, source in group.champions:
            load = _Loader(contents, about, problem, row, source, tell)
            listed.append(Listed(silicon, software, problem, pinned, len(listed), load))
        places = certified.setdefault(about, defaultdict(list))
        for problem, row in group.certificates:
            places[problem].append(row)
    kept: dict[Key, Mapping[str, Certificate]] = {}

    def certificates(key: Key) -> Mapping[str, Certificate]:
        if key not in kept:
            places = certified.get((key[0], key[1]), {}).get(problem_key(key[2]), [])
            kept[key] = dict(_certificates(contents, key, places, tell))
        return kept[key]

    return Index(listed, certificates)


class _Loader:
    """Reads one champion from its line."""

    __slots__ = ("_about", "_contents", "_problem", "_row", "_source", "_tell")

    def __init__(
        self,
        contents: Contents,
        about: tuple[Silicon, Software],
        problem: ProblemKey,
        row: Where,
        source: Where,
        tell: Callable[[str], None],
    ) -> None:
        self._contents, self._about, self._problem = contents, about, problem
        self._row, self._source, self._tell = row, source, tell

    def __call__(self) -> Entry | None:
        try:
            sources = self._contents.source(self._source)
            if any(text_hash(text) != key for key, text in sources.items()):
                raise ValueError("its source is not what its hash says")
            entry = entry_of(self._contents.row(self._row), sources)
            silicon, software, problem = entry.key
            if ((silicon, software), problem_key(problem)) != (self._about, self._problem):
                raise ValueError("it is not the one that the table names")
        except (*UNREADABLE, OSError) as error:
            self._tell(f"a champion of the snapshot is damaged and was ignored: {_reason(error)}")
            return None
        return entry


def _certificates(
    contents: Contents, key: Key, places: list[Where], tell: Callable[[str], None]
) -> Iterator[tuple[str, Certificate]]:
    for place in places:
        try:
            found, source_hash, held = certificate_of(contents.row(place))
            if found != key:
                raise ValueError("it is not the one that the table names")
        except (*UNREADABLE, OSError) as error:
            tell(f"a certificate of the snapshot is damaged and was ignored: {_reason(error)}")
            continue
        yield source_hash, held


def _reason(error: BaseException) -> Any:
    return f"no {error}" if isinstance(error, KeyError) else error


class Snapshot:
    """A snapshot file, which may be missing, damaged, read-only, or replaced at any moment by a newer one."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Read `path` when first asked; `clock` is in seconds."""
        self.path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._checked = -math.inf
        self._seen: tuple[int, ...] | None = None
        self._index = index_of(Published())
        self._missed = False

    @property
    def index(self) -> Index:
        """What the file says, at most a second late; nothing if there is none."""
        now = self._clock()
        if now - self._checked >= CHECK_SECONDS:
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
            index = self._read()
        except (FileNotFoundError, NotADirectoryError):
            self._seen, self._index = None, index_of(Published())
            self._tell_missing()
            return
        except OSError as error:
            _log.warning("the snapshot %s cannot be read: %s", self.path, error.strerror)
            return
        self._seen, self._index = seen, index

    def _read(self) -> Index:
        contents = open_contents(self.path, FORMAT)
        if contents is not None:
            try:
                return index_of_table(contents, self._tell)
            except UNREADABLE:
                pass  # a table that names no processor is believed in nothing
        published = read(text_of(self.path))
        for message in published.messages:
            self._tell(message)
        return index_of(published)

    def _tell_missing(self) -> None:
        """Once, where the store lies there alone: a copy, say."""
        store = self.path.with_name(self.path.name.removesuffix(SUFFIX))
        if self._missed or store == self.path or not store.is_file():
            return
        self._missed = True
        _log.warning(
            "there is no snapshot beside the store %s, and look-ups read nothing else; gemm-tuner db upgrade writes it",
            store,
        )

    def _tell(self, message: str) -> None:
        _log.warning("%s: %s", self.path, message)
