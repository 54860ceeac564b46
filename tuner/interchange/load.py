"""Import: a file is read whole and checked before a line of it is stored, and then all of it is stored or nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tuner.interchange import clblast, parse
from tuner.interchange.lines import END, FORMAT, HEADING
from tuner.interchange.reading import File, Malformed, objects
from tuner.model import UserError
from tuner.store import Store, TakenIn, valid
from tuner.store.imports import Item


@dataclass(frozen=True)
class Imported:
    """What an import brought."""

    origin: str
    """Where the file came from."""
    added: TakenIn
    left_out: Counter[str] = field(default_factory=Counter)
    """What this gemm-tuner has no use for: how many of each kind."""


def load(file: File, store: Store) -> Imported:
    """Take in a file of ours or of CLBlast's tuners. Raises UserError, with nothing imported, for any other."""
    if clblast.is_one(file):
        found = clblast.read(file)
        return Imported(found.origin, store.take_in(lambda: found.entries), found.left_out)
    left_out = Counter(f"line of kind {kind!r:.40}" for kind, item in _lines(file) if item is None)
    origin = _origin(file, next(objects(file), None))
    return Imported(origin, store.take_in(lambda: _items(file)), left_out)


def _items(file: File) -> Iterator[Item]:
    return (item for _, item in _lines(file) if item is not None)


def _lines(file: File) -> Iterator[tuple[str, Item | None]]:
    """Kind and noun of each line between heading and end; no noun for a kind that only a newer gemm-tuner knows."""
    rows = objects(file)
    origin = _origin(file, next(rows, None))
    number = 1
    for count, (number, row) in enumerate(rows):
        if row.get("kind") == END:
            if row.get("lines") != count:
                raise Malformed(file, number, f"it counts {row.get('lines')!r:.20} lines, but there are {count}")
            if next(rows, None) is not None:
                raise Malformed(file, number + 1, "it stands after the end")
            return
        yield _read(file, number, row, origin)
    raise Malformed(file, number, "the end is missing, so the file was cut short; export it again")


def _read(file: File, number: int, row: dict[str, Any], origin: str) -> tuple[str, Item | None]:
    try:
        return valid.text(row.get("kind"), "its kind"), parse.item(row, origin)
    except valid.UNREADABLE as error:
        why = f"it has no {error.args[0]!r}" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise Malformed(file, number, why) from None


def _origin(file: File, first: tuple[int, dict[str, Any]] | None) -> str:
    if first is None:
        raise UserError(f"{file} is empty; nothing was imported.")
    number, heading = first
    if heading.get("kind") != HEADING:
        raise Malformed(file, number, "it is no heading of a gemm-tuner export, and no result of CLBlast's tuners")
    if heading.get("format") != FORMAT:
        newer = type(heading.get("format")) is int and heading["format"] > FORMAT
        why = (
            "a newer gemm-tuner wrote it; upgrade this one" if newer else f"{heading.get('format')!r:.20} is no format"
        )
        raise Malformed(file, number, why)
    try:
        return parse.short_text(heading.get("from"), "where it came from", 255)
    except ValueError as error:
        raise Malformed(file, number, str(error)) from None
