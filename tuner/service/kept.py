"""Answers ready to send, kept by the text of their question until the snapshot changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tuner.lookup import Index, Snapshot

MOST_ANSWERS = 4096
MOST_BYTES = 64 * 2**20
"""Beyond either, all are forgotten and made anew."""

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


class Kept:
    """Responses by path and query, of one snapshot; safe to use from several threads."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Nothing yet."""
        self._snapshot = snapshot
        self._state: tuple[Index | None, dict[tuple[str, bytes], Ready], list[int]] = (None, {}, [0])

    def get(self, path: str, query: bytes) -> Ready | None:
        """What was answered to this very text under the present snapshot."""
        index = self._snapshot.index
        if self._state[0] is not index:
            self._state = (index, {}, [0])
        return self._state[1].get((path, query))

    def forget(self) -> None:
        """Everything."""
        self._state = (None, {}, [0])

    def put(self, path: str, query: bytes, index: Index, found: Ready) -> None:
        """Keep what was answered from `index`."""
        seen, answers, size = self._state
        if seen is not index:
            return
        if len(answers) >= MOST_ANSWERS or size[0] + len(found.body) > MOST_BYTES:
            answers.clear()
            size[0] = 0
        answers[path, query] = found
        size[0] += len(found.body)
