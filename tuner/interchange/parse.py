"""One line of our own format as a noun: every field of its type and in its range, or a ValueError says which is not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tuner.family import is_sound
from tuner.interchange.lines import CERTIFICATE, CHAMPION, INFINITE, PORTFOLIO
from tuner.interchange.reading import MOST_INT
from tuner.model import CompilerInfo, Measurement, Record, Verdict, canonical_json
from tuner.store import Foreign, Miss, valid
from tuner.store.imports import champion_in
from tuner.store.keys import Key, checked_config

MOST_SAMPLES = 100_000

_TRIAL_FIELDS = frozenset(
    (
        *("kind", "silicon", "software", "problem", "family", "config", "verdict", "samples_ms", "compile_ms"),
        *("verify_ms", "error_ratio", "message", "registers", "spill_bytes", "local_bytes", "log", "source_hash"),
        *("family_hash", "run", "when", "imported_from"),
    )
)


def item(row: Mapping[str, Any], origin: str) -> Record | Foreign | Miss | None:
    """The noun of a line that was exported on `origin`; None for a kind that a newer gemm-tuner added."""
    match row.get("kind"):
        case "trial":
            return _trial(row, origin)
        case "champion" | "portfolio" | "certificate":
            return _foreign(row, origin)
        case "miss":
            return _miss(row)
    return None


def _key(row: Mapping[str, Any]) -> Key:
    silicon, software, problem = valid.key(row)
    short_text(silicon.kind, "the kind of device", 16)
    number(silicon.compute_units, "compute_units")
    number(silicon.memory_gib, "memory_gib")
    return silicon, software, problem


def _trial(row: Mapping[str, Any], origin: str) -> Record:
    verdict = Verdict(valid.text(row["verdict"], "the verdict"))
    samples = tuple(_time(sample) for sample in valid.several(row["samples_ms"], "samples_ms"))
    if len(samples) > MOST_SAMPLES:
        raise ValueError(f"it has {len(samples)} samples; at most {MOST_SAMPLES} are read")
    registers, spill_bytes, local_bytes = (
        None if row[name] is None else number(row[name], name) for name in ("registers", "spill_bytes", "local_bytes")
    )
    compiler = CompilerInfo(registers, spill_bytes, local_bytes, valid.text(row["log"], "the log"))
    measurement = Measurement(
        verdict,
        samples,
        compile_ms=_duration(row["compile_ms"]),
        error_ratio=math.inf if row["error_ratio"] == INFINITE else valid.positive(row["error_ratio"]),
        message=valid.text(row["message"], "the message"),
        compiler=compiler,
        verify_ms=_duration(row["verify_ms"]),
    )
    extra = {name: value for name, value in row.items() if name not in _TRIAL_FIELDS}
    return Record(
        *_key(row),
        config=checked_config(valid.text(row["family"], "the family"), row["config"]),
        measurement=measurement,
        source_hash=short_text(row["source_hash"], "source_hash", 64),
        run=number(row["run"], "the run"),
        when=date(row["when"]),
        family_hash=short_text(row["family_hash"], "family_hash", 64),
        imported_from=valid.text(row.get("imported_from", origin), "imported_from"),
        extra=canonical_json(extra) if extra else "",
    )


def _foreign(row: Mapping[str, Any], origin: str) -> Foreign:
    """Kept as it is, unknown fields and all, once it is known to be readable."""
    kind = str(row["kind"])
    key = _key(row)
    short_text(row["source_hash"], "source_hash", 64)
    if kind != PORTFOLIO or row["when"]:  # another tuner's file has no date
        date(row["when"])
    if kind == CERTIFICATE:
        valid.certificate(row)
    else:
        champion = champion_in(dict(row), key)
        if kind == CHAMPION and champion.rendered.source_hash != row["source_hash"]:
            raise ValueError("its source has another source_hash")
        if kind == CHAMPION and not is_sound(champion.rendered):
            raise ValueError("its source, options or launches do not give its source_hash: one was changed since")
        if champion.time_ms and not math.isfinite(key[2].gflops(champion.time_ms)):
            raise ValueError(f"{champion.time_ms!r} ms is no time for {key[2]}")
    body = {name: value for name, value in row.items() if name not in ("kind", "imported_from")}
    where = valid.text(row.get("imported_from", origin), "imported_from")
    return Foreign(kind, *key, row["source_hash"], canonical_json(body), where)


def _miss(row: Mapping[str, Any]) -> Miss:
    origin = short_text(row["origin"], "the origin", 32)
    return Miss(*_key(row), origin, number(row["count"], "the count", 1), date(row["first"]), date(row["last"]))


def short_text(value: Any, what: str, most: int) -> str:
    """A text of at most `most` characters."""
    if len(valid.text(value, what)) > most:
        raise ValueError(f"{what} is longer than {most} characters")
    return str(value)


def number(value: Any, what: str, least: int = 0) -> int:
    """A whole number that both databases hold."""
    if valid.whole(value, what, least) >= MOST_INT:
        raise ValueError(f"{what} is {value}, too large a number")
    return int(value)


def date(value: Any) -> str:
    """A date as it is stored: ISO 8601."""
    text = short_text(value, "a date", 32)
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no date") from None
    return text


def _time(value: Any) -> float:
    found = valid.positive(value)
    if not found:
        raise ValueError(f"{value!r} is no time")
    return found


def _duration(value: Any) -> float:
    found = valid.positive(value)
    if found is None:
        raise ValueError("a duration is missing")
    return found
