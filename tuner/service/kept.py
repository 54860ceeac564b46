"""Answers ready to send, kept by the text of their question until the snapshot changes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from tuner.lookup import Index, Snapshot

MOST_ANSWERS = 4096
MOST_BYTES = 64 * 2**20
"""Beyond either, all are forgotten and made anew."""
STALE_S = 2.0
"""How long an answer may be sent after its snapshot was replaced."""

Header = tuple[bytes, bytes]
Count = Callable[[], None]


def _nothing() -> None:
    """Nobody counts."""


@dataclass(frozen=True)
class Ready:
    """A response as it goes out."""

    status: int
    body: bytes
    headers: tuple[Header, ...]
    etag: bytes = b""
    """Empty: it has no version, and is sent whole every time."""
    count: Count = _nothing
    """Called each time it is sent."""

    def unchanged_for(self, wanted: bytes) -> bool:
        """The asker, whose If-None-Match is `wanted`, has it already."""
        if not self.etag or not wanted:
            return False
        tags = [tag.strip().removeprefix(b"W/") for tag in wanted.split(b",")]
        return self.etag in tags or tags == [b"*"]

    @property
    def bare_headers(self) -> tuple[Header, ...]:
        """Those that go with a 304."""
        return tuple(header for header in self.headers if header[0] not in (b"content-type", b"content-length"))


def json_bytes(value: Any) -> bytes:
    """JSON in ASCII: whatever text was stored, halves of surrogate pairs too, it can be sent."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


def ready(value: Any, status: int = 200, *, versioned: bool = True, count: Count = _nothing) -> Ready:
    """A JSON response; `versioned`: with an ETag, to be asked for again and again at little cost."""
    return ready_bytes(json_bytes(value), "application/json", status, versioned=versioned, count=count)


def ready_bytes(
    body: bytes, content_type: str, status: int = 200, *, versioned: bool = True, count: Count = _nothing
) -> Ready:
    """A response of any type."""
    etag = b'"' + hashlib.blake2b(body, digest_size=12).hexdigest().encode() + b'"' if versioned else b""
    headers = [
        (b"content-type", content_type.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-cache" if versioned else b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        *([(b"etag", etag)] if etag else []),
    ]
    return Ready(status, body, tuple(headers), etag, count)


def refusal(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Ready:
    """A refusal; it is never kept by anybody."""
    found = ready({"error": sentence}, status, versioned=False)
    more = tuple((name.lower().encode(), value.encode()) for name, value in (headers or {}).items())
    return Ready(status, found.body, found.headers + more)


Asked = tuple[str, bytes]
"""Path and query."""
Make = Callable[[], Ready]


@dataclass
class _Of:
    """The answers of one snapshot."""

    index: Index
    answers: dict[Asked, tuple[Ready, Make]] = field(default_factory=dict)
    size: int = 0


class Kept:
    """Responses by path and query, of one snapshot; safe to use from several threads.

    When a new snapshot is published, an old answer that is asked for again is sent while a thread makes the new one,
    for STALE_S at most: otherwise everybody would wait while everything is made anew.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        """Nothing yet."""
        self._snapshot = snapshot
        self._now = self._before = _Of(snapshot.index)
        self._since = -math.inf
        self._making: set[Asked] = set()
        self._maker = ThreadPoolExecutor(1, thread_name_prefix="gemm-tuner-answers")

    def get(self, path: str, query: bytes) -> Ready | None:
        """What was answered to this very text under the present snapshot, or, for a moment, the one before."""
        index, now = self._snapshot.index, self._now
        if now.index is not index:
            self._before, self._now, self._since = now, _Of(index), time.monotonic()
            self._making.clear()
        asked = (path, query)
        found = self._now.answers.get(asked)
        if found is None and self._before is not self._now:
            found = self._old(asked)
        return None if found is None else found[0]

    def _old(self, asked: Asked) -> tuple[Ready, Make] | None:
        """The answer of the snapshot before, while the new one is made."""
        if time.monotonic() - self._since >= STALE_S:
            self._before = self._now
            return None
        found = self._before.answers.get(asked)
        if found is not None and asked not in self._making:
            self._making.add(asked)
            self._maker.submit(self._make, asked, found[1])
        return found

    def forget(self) -> None:
        """Everything."""
        self._now = self._before = _Of(self._snapshot.index)

    def put(self, path: str, query: bytes, index: Index, found: Ready, make: Make) -> None:
        """Keep what `make` answered from `index`."""
        now = self._now
        if now.index is not index:
            return
        if len(now.answers) >= MOST_ANSWERS or now.size + len(found.body) > MOST_BYTES:
            now.answers.clear()
            now.size = 0
        now.answers[path, query] = found, make
        now.size += len(found.body)

    def _make(self, asked: Asked, make: Make) -> None:
        """An error is for whoever asks next."""
        index = self._snapshot.index
        with contextlib.suppress(Exception):
            self.put(*asked, index, make(), make)
