"""A snapshot's table of contents: which row and source stands where, so that a look-up reads only what it asks for.

The table is one line near the start of the file. It gives, for each silicon and software, the champions and the
certificates by problem, with the place of their line in bytes from the end of the table. It is believed only if its
checksum and the length of the file are right; whoever does not believe it reads the whole file.
"""

from __future__ import annotations

import json
import os
import weakref
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.model import Problem, canonical_json
from tuner.store import valid
from tuner.store.place import opened

PROBLEM_FIELDS = ("m", "n", "k", "batch", "dtype", "trans_a", "trans_b", "math", "align")
_HEAD_BYTES = 4096

Where = tuple[int, int]
"""Offset and length of a line in bytes."""
ProblemKey = tuple[Any, ...]
"""The values of PROBLEM_FIELDS: quicker to make than a Problem."""


def problem_key(problem: Problem) -> ProblemKey:
    """A problem as the table lists it."""
    p = problem
    return p.m, p.n, p.k, p.batch, p.dtype, p.trans_a, p.trans_b, p.math, p.align


class Body:
    """The part of a snapshot after its table: lines in blocks, each with its place."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._bytes = 0

    def block(self, start: str, lines: Sequence[str], end: str) -> list[Where]:
        """Append a block of JSON with one value a line; returns the places of the lines."""
        self._append(f"{start}\n")
        places = []
        for number, line in enumerate(lines, 1):
            offset = self._bytes
            self._append(line)
            places.append((offset, self._bytes - offset))
            self._append(",\n" if number < len(lines) else "\n")
        self._append(end)
        return places

    def after(self, head: Mapping[str, Any], table: Sequence[Mapping[str, Any]]) -> str:
        """The whole document."""
        line = f'"table":{canonical_json(table)},\n'
        encoded = line.encode("utf-8", "surrogatepass")
        sizes = {"table_bytes": len(encoded), "table_crc": zlib.crc32(encoded), "body_bytes": self._bytes}
        first = ",".join(f"{canonical_json(key)}:{canonical_json(value)}" for key, value in {**head, **sizes}.items())
        return "".join([f"{{{first},\n", line, *self._texts])

    def _append(self, text: str) -> None:
        self._texts.append(text)
        self._bytes += len(text.encode("utf-8", "surrogatepass"))


def make_table(
    champions: Iterable[tuple[Mapping[str, Any], Where, Where]], certificates: Iterable[tuple[Mapping[str, Any], Where]]
) -> list[dict[str, Any]]:
    """The table of rows with the places of row and source, and of certificates."""
    groups: dict[str, dict[str, Any]] = {}

    def group(row: Mapping[str, Any]) -> dict[str, Any]:
        about = {"silicon": row["silicon"], "software": row["software"]}
        return groups.setdefault(canonical_json(about), {**about, "champions": [], "certificates": []})

    for row, place, source in champions:
        problem = [row["problem"][name] for name in PROBLEM_FIELDS]
        group(row)["champions"].append([problem, row["pinned"], *place, *source])
    for row, place in certificates:
        group(row)["certificates"].append([[row["problem"][name] for name in PROBLEM_FIELDS], *place])
    return list(groups.values())


@dataclass(frozen=True)
class Group:
    """What is listed for one silicon and software."""

    silicon: Mapping[str, Any]
    software: Mapping[str, Any]
    champions: Sequence[tuple[ProblemKey, bool, Where, Where]]
    """Problem, pinned, and where its row and its source stand."""
    certificates: Sequence[tuple[ProblemKey, Where]]


class Contents:
    """An open snapshot of which only the table has been read; the file stays readable when a newer one replaces it."""

    def __init__(self, descriptor: int, start: int, groups: Sequence[Group]) -> None:
        """Take over `descriptor`; `start` is where the body begins."""
        self._descriptor = descriptor
        self._start = start
        self.groups = groups
        weakref.finalize(self, os.close, descriptor)

    def row(self, where: Where) -> dict[str, Any]:
        """The JSON object on a line. Raises ValueError if it is none, OSError if the file cannot be read."""
        found = json.loads(self._text(where))
        if not isinstance(found, dict):
            raise ValueError("it is no JSON object")
        return found

    def source(self, where: Where) -> dict[str, Any]:
        """The source on a line, by its hash. Raises as `row`."""
        found = json.loads(f"{{{self._text(where)}}}")
        return dict(found)

    def _text(self, where: Where) -> str:
        offset, length = where
        return _read(self._descriptor, self._start + offset, length).decode("utf-8", "surrogatepass")


def open_contents(path: Path, known_format: int) -> Contents | None:
    """The snapshot at `path`, or None if it has no table that can be believed. Raises OSError as `opened` does."""
    descriptor = opened(path)
    try:
        found = _believed(descriptor, known_format)
    except (*valid.UNREADABLE, RecursionError):
        found = None
    if found is None:
        os.close(descriptor)
        return None
    return Contents(descriptor, *found)


def _believed(descriptor: int, known_format: int) -> tuple[int, list[Group]] | None:
    first, newline, _ = os.pread(descriptor, _HEAD_BYTES, 0).partition(b"\n")
    head = json.loads(first.rstrip(b",") + b"}")
    if not newline or head["format"] != known_format:
        return None
    start, size = len(first) + 1, valid.whole(head["table_bytes"], "its size")
    if os.fstat(descriptor).st_size != start + size + valid.whole(head["body_bytes"], "its size"):
        return None
    line = _read(descriptor, start, size)
    if zlib.crc32(line) != head["table_crc"]:
        return None
    (table,) = json.loads(b"{" + line.rstrip(b",\n") + b"}").values()
    return start + size, [_group(found) for found in table]


def _group(found: Mapping[str, Any]) -> Group:
    return Group(
        found["silicon"],
        found["software"],
        [(tuple(key), pinned, (row, size), (at, length)) for key, pinned, row, size, at, length in found["champions"]],
        [(tuple(key), (row, size)) for key, row, size in found["certificates"]],
    )


def _read(descriptor: int, offset: int, length: int) -> bytes:
    parts = []
    while length > 0:
        part = os.pread(descriptor, length, offset)
        if not part:
            raise ValueError("the file ends too early")
        parts.append(part)
        offset, length = offset + len(part), length - len(part)
    return b"".join(parts)
