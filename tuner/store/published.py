"""The snapshot's format: champions and certificates as JSON that a look-up reads with the standard library alone.

One JSON document, one row a line, each source once under the hash of its text, so that whatever a damaged or truncated
file still holds can be read row by row.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuner.model import Certificate, Champion, canonical_json
from tuner.store import valid
from tuner.store.contents import Body, make_table
from tuner.store.keys import Key, checked_config, text_hash
from tuner.store.place import opened

FORMAT = 1


@dataclass(frozen=True)
class Entry:
    """A champion and the run that promoted it."""

    champion: Champion
    run: int | None = None

    @property
    def key(self) -> Key:
        """What it is the champion of."""
        return self.champion.silicon, self.champion.software, self.champion.problem


@dataclass(frozen=True)
class Published:
    """What a snapshot says. A key that is pinned may have two entries: the pinned one, and what was promoted."""

    entries: tuple[Entry, ...] = ()
    certificates: Mapping[Key, Mapping[str, Certificate]] = field(default_factory=dict)
    """By key and `source_hash`."""
    state: tuple[int, int] = (0, 0)
    """Last line of the champions' log and last certificate it was made from."""
    messages: tuple[str, ...] = ()
    """What could not be read, one sentence each."""


def write(published: Published) -> str:
    """The snapshot's text; equal contents give equal text. Raises ValueError for a number JSON cannot hold."""
    sources = {text_hash(entry.champion.rendered.source): entry.champion.rendered.source for entry in published.entries}
    rows = [_champion_row(entry) for entry in published.entries]
    certificates = [
        {**_key_row(key), "source_hash": source_hash, "checks": list(held.checks), "when": held.when}
        for key, by_hash in published.certificates.items()
        for source_hash, held in by_hash.items()
    ]
    body = Body()
    source_lines = [f"{canonical_json(key)}:{canonical_json(text)}" for key, text in sorted(sources.items())]
    source_places = dict(zip(sorted(sources), body.block('"sources":{', source_lines, "},\n"), strict=True))
    row_places = body.block('"champions":[', [canonical_json(row) for row in rows], "],\n")
    certificate_places = body.block('"certificates":[', [canonical_json(row) for row in certificates], "]}\n")
    places = [source_places[row["rendered"]["source"]] for row in rows]
    table = make_table(zip(rows, row_places, places, strict=True), zip(certificates, certificate_places, strict=True))
    return body.after({"format": FORMAT, "state": list(published.state)}, table)


def _key_row(key: Key) -> dict[str, Any]:
    silicon, software, problem = key
    return {"silicon": vars(silicon), "software": vars(software), "problem": vars(problem)}


def _champion_row(entry: Entry) -> dict[str, Any]:
    found = entry.champion
    held = found.certificate
    return {
        **_key_row(entry.key),
        "family": found.config.family,
        "config": found.config.as_dict(),
        "rendered": {**found.rendered.to_json(), "source": text_hash(found.rendered.source)},
        "pinned": found.pinned,
        "time_ms": valid.positive(found.time_ms),
        "noise": valid.positive(found.noise),
        "gflops": found.problem.gflops(found.time_ms) if found.time_ms else None,
        "certificate": {"checks": list(held.checks), "when": held.when} if held else None,
        "reason": found.reason,
        "when": found.when,
        "run": entry.run,
    }


def read(text: str) -> Published:
    """What a snapshot's text says. Whatever cannot be read is left out, with a message; it never raises for content."""
    messages: list[str] = []
    document = _document(text, messages)
    version = document.get("format")
    if version != FORMAT:
        return Published(messages=(*messages, f"the snapshot has format {version!r}, this gemm-tuner reads {FORMAT}"))
    sources = _sources(document.get("sources"), messages)
    entries = list(_rows(document.get("champions"), "champion", lambda row: entry_of(row, sources), messages))
    certificates: dict[Key, dict[str, Certificate]] = {}
    for key, source_hash, held in _rows(document.get("certificates"), "certificate", certificate_of, messages):
        certificates.setdefault(key, {})[source_hash] = held
    return Published(tuple(entries), certificates, _state(document.get("state")), tuple(messages))


def _state(found: Any) -> tuple[int, int]:
    match found:
        case [int(line), int(issued)]:
            return line, issued
    return -1, -1


def _document(text: str, messages: list[str]) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        messages.append(
            f"the snapshot is damaged ({error}); what can still be read is used; gemm-tuner db upgrade writes it anew"
        )
        return _salvage(text)
    return document if isinstance(document, dict) else {}


def _salvage(text: str) -> dict[str, Any]:
    """The rows that stand whole on their lines. Its format is believed only if its first line is whole."""
    found: dict[str, Any] = {"sources": {}, "champions": [], "certificates": []}
    first, *lines = text.split("\n")
    for line in [first.rstrip(",") + "}", *lines]:
        row = _loaded(line.rstrip(","))
        if "table" in row:
            continue
        if "format" in row:
            found.update(row)
        elif "config" in row:
            found["champions"].append(row)
        elif "checks" in row:
            found["certificates"].append(row)
        elif row:
            found["sources"].update(row)
    return found


def _loaded(line: str) -> dict[str, Any]:
    for attempt in (line, f"{{{line}}}"):
        try:
            row = json.loads(attempt)
        except (ValueError, RecursionError):
            continue
        return row if isinstance(row, dict) else {}
    return {}


def _sources(found: Any, messages: list[str]) -> dict[str, str]:
    """Texts by hash, only those that are what their hash says."""
    good = {}
    for key, text in found.items() if isinstance(found, dict) else ():
        if isinstance(text, str) and text_hash(text) == key:
            good[key] = text
        else:
            messages.append(f"source {key} is damaged and was ignored")
    return good


def _rows(found: Any, what: str, convert: Any, messages: list[str]) -> Iterator[Any]:
    for number, row in enumerate(found if isinstance(found, list) else (), 1):
        try:
            yield convert(row)
        except valid.UNREADABLE as error:
            reason = f"no {error}" if isinstance(error, KeyError) else str(error)
            messages.append(f"{what} {number} of the snapshot is damaged and was ignored: {reason}")


def entry_of(row: Mapping[str, Any], sources: Mapping[str, str]) -> Entry:
    """The champion of a row, its source among `sources` by hash. Raises one of `valid.UNREADABLE`."""
    key = valid.key(row)
    time_ms = valid.positive(row["time_ms"])
    if time_ms and not math.isfinite(key[2].gflops(time_ms)):
        raise ValueError(f"{time_ms!r} ms is no time for {key[2]}")
    held, run = row["certificate"], row["run"]
    champion = Champion(
        *key,
        config=checked_config(valid.text(row["family"], "the family"), row["config"]),
        rendered=valid.rendered(row["rendered"], sources),
        time_ms=time_ms,
        noise=valid.positive(row["noise"]),
        certificate=None if held is None else valid.certificate(held),
        reason=valid.text(row["reason"], "the reason"),
        when=valid.text(row["when"], "its date"),
        pinned=valid.flag(row["pinned"], "pinned"),
    )
    return Entry(champion, None if run is None else valid.whole(run, "the run"))


def certificate_of(row: Mapping[str, Any]) -> tuple[Key, str, Certificate]:
    """Key, source hash and certificate of a row. Raises one of `valid.UNREADABLE`."""
    return valid.key(row), valid.text(row["source_hash"], "source_hash"), valid.certificate(row)


def text_of(path: Path) -> str:
    """The text of a snapshot's file, whatever bytes are in it. Raises OSError also for what is no regular file."""
    with os.fdopen(opened(path), encoding="utf-8", errors="replace") as file:
        return file.read()
