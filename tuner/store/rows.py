"""Between our nouns and rows: one direction and its inverse side by side, so that no row leaves the store."""

from __future__ import annotations

import json
import logging
import math
import statistics
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, RowMapping, Select, Table, bindparam, select, update
from sqlalchemy.dialects import postgresql, sqlite

from tuner.model import (
    CompilerInfo,
    Config,
    Measurement,
    Problem,
    Record,
    Silicon,
    Software,
    Verdict,
    canonical_json,
)
from tuner.store import schema
from tuner.store.keys import Key, checked_config, text_hash

LOG_BYTES = 16 * 1024
MESSAGE_BYTES = 4 * 1024

UNREADABLE = (KeyError, TypeError, ValueError, struct.error)
"""What a damaged row raises when it is read (UserError and JSONDecodeError are ValueErrors)."""

_log = logging.getLogger("tuner.store")
_Noun = TypeVar("_Noun")
_Row = TypeVar("_Row")
_TABLES: Mapping[type, Table] = {Silicon: schema.silicon, Software: schema.software, Problem: schema.problem}
_BY_FIELDS: Mapping[type, Select[Any]] = {
    kind: select(table.c.id).where(*(table.c[one.name] == bindparam(one.name) for one in fields(kind)))
    for kind, table in _TABLES.items()
}
"""What finds a noun's row; made once, as every trial asks for three."""


def now() -> str:
    """This moment as it is stored: UTC with microseconds, so that text sorts as time does."""
    return moment(datetime.now(UTC))


def moment(when: datetime) -> str:
    """A moment as it is stored; one without a time zone is taken in the machine's."""
    return when.astimezone(UTC).isoformat(timespec="microseconds")


def clean(text: str, limit: int) -> str:
    """Text that every database takes, cut to `limit` bytes of UTF-8."""
    data = text.replace("\0", "\ufffd").encode("utf-8", "replace")
    if len(data) <= limit:
        return data.decode()
    mark = "\n[cut]"
    return data[: limit - len(mark)].decode("utf-8", "ignore") + mark


def insert_new(connection: Connection, table: Table, values: Mapping[str, Any]) -> int:
    """Insert a row unless its unique key is there; returns how many were inserted."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    query = dialect.insert(table).values(**values).on_conflict_do_nothing()
    return connection.execute(query.execution_options(preserve_rowcount=True)).rowcount


def noun_id(connection: Connection, noun: Silicon | Software | Problem) -> int | None:
    """The id of a noun's row, if it has one."""
    return connection.execute(_BY_FIELDS[type(noun)], asdict(noun)).scalar()


def _made(connection: Connection, noun: Silicon | Software | Problem) -> int:
    """The id of a noun's row, which is made if it is new."""
    found = noun_id(connection, noun)
    if found is None:
        insert_new(connection, _TABLES[type(noun)], asdict(noun))
        return _made(connection, noun)
    return found


def device_ids(connection: Connection, silicon: Silicon, software: Software) -> dict[str, int]:
    """The ids of a device's two nouns as columns to insert; rows are made as needed."""
    return {"silicon_id": _made(connection, silicon), "software_id": _made(connection, software)}


def key_ids(connection: Connection, silicon: Silicon, software: Software, problem: Problem) -> dict[str, int]:
    """The ids of a key as columns to insert; rows are made as needed."""
    return {**device_ids(connection, silicon, software), "problem_id": _made(connection, problem)}


def conditions(
    connection: Connection,
    table: Table,
    *,
    silicon: Silicon | None = None,
    software: Software | None = None,
    problem: Problem | None = None,
) -> list[Any]:
    """What selects the rows of `table` about the nouns given; a noun never stored matches none."""
    nouns = {"silicon_id": silicon, "software_id": software, "problem_id": problem}
    return [table.c[name] == (noun_id(connection, noun) or -1) for name, noun in nouns.items() if noun is not None]


class Nouns:
    """The nouns that rows refer to by id; each table is read once, unless all three are `known` before."""

    def __init__(self, connection: Connection, *known: Silicon | Software | Problem | None) -> None:
        """Read through `connection`, for as long as it is open."""
        self._connection = connection
        self._known = known if known and None not in known else None
        self._read: dict[type, dict[int, Any]] = {}

    def key(self, row: Row[Any]) -> Key:
        """Silicon, software and problem of a row that has their three ids."""
        if self._known is not None:
            silicon, software, problem = self._known
            return silicon, software, problem  # type: ignore[return-value]
        return *self.device(row), self._noun(Problem, row.problem_id)

    def device(self, row: Row[Any]) -> tuple[Silicon, Software]:
        """Silicon and software of a row that has their two ids."""
        return self._noun(Silicon, row.silicon_id), self._noun(Software, row.software_id)

    def _noun(self, kind: type[_Noun], number: int) -> _Noun:
        if kind not in self._read:
            rows = self._connection.execute(select(_TABLES[kind])).mappings()
            self._read[kind] = {row["id"]: row for row in rows}
        found = self._read[kind][number]
        if not isinstance(found, kind):
            found = kind(**{name: value for name, value in found.items() if name != "id"})
            self._read[kind][number] = found
        return found


def readable(rows: Iterable[_Row], read: Callable[[_Row], _Noun], what: str) -> list[_Noun]:
    """Every row that can be read; the damaged ones are left out with one warning."""
    good, bad = [], 0
    for row in rows:
        try:
            good.append(read(row))
        except UNREADABLE:
            bad += 1
    if bad:
        _log.warning("%d %s cannot be read and were left out; gemm-tuner db check names them.", bad, what)
    return good


def json_text(values: Mapping[str, Any]) -> str:
    """As JSON that every database takes; what is no Unicode, a file's odd name say, is kept as a question mark."""
    return canonical_json(values).encode("utf-8", "replace").decode()


def config_columns(config: Config) -> dict[str, str]:
    """A configuration as columns."""
    return {"family": config.family, "config": canonical_json(config.as_dict())}


def samples_of(packed: bytes) -> tuple[float, ...]:
    """The samples in a column, in ms. Raises struct.error if it is damaged."""
    return struct.unpack(f"<{len(packed) // 8}d", packed)


def config_of(row: Row[Any] | RowMapping) -> Config:
    """The configuration in a row. Raises ValueError if it is damaged."""
    mapping = row._mapping if isinstance(row, Row) else row
    return checked_config(mapping["family"], json.loads(mapping["config"]))


def keep_text(connection: Connection, table: Table, text: str) -> str:
    """Keep one copy of a text, in place of one that was damaged; returns its hash."""
    key = text_hash(text)
    insert_new(connection, table, {"hash": key, "text": text})
    connection.execute(update(table).where(table.c.hash == key, table.c.text != text).values(text=text))
    return key


def trial_columns(connection: Connection, record: Record) -> dict[str, Any]:
    """A record as columns of `trial`."""
    ids = key_ids(connection, record.silicon, record.software, record.problem)
    return {**ids, "run_id": record.run, **measured_columns(connection, record)}


def measured_columns(connection: Connection, record: Record) -> dict[str, Any]:
    """As `trial_columns`, without ids; the compiler's log is kept for failures, and where it warns."""
    found = record.measurement
    if not all(math.isfinite(sample) and sample > 0 for sample in found.samples_ms):
        raise ValueError(f"a sample is no time: {found.samples_ms}")
    telling = found.verdict is not Verdict.CORRECT or "warning" in found.compiler.log.lower()
    log = clean(found.compiler.log, LOG_BYTES) if telling else ""
    ratio = found.error_ratio
    return {
        **config_columns(record.config),
        "family_hash": record.family_hash,
        "source_hash": record.source_hash,
        "verdict": found.verdict.value,
        "samples": struct.pack(f"<{len(found.samples_ms)}d", *found.samples_ms),
        "time_ms": statistics.median(found.samples_ms) if found.samples_ms else None,
        "compile_ms": found.compile_ms,
        "verify_ms": found.verify_ms,
        # SQLite has no NaN; an error that is no number is as wrong as an infinite one.
        "error_ratio": math.inf if ratio is not None and math.isnan(ratio) else ratio,
        "message": clean(found.message, MESSAGE_BYTES),
        "registers": found.compiler.registers,
        "spill_bytes": found.compiler.spill_bytes,
        "local_bytes": found.compiler.local_bytes,
        "log_hash": keep_text(connection, schema.compile_log, log) if log else None,
        "when": record.when,
        "imported_from": record.imported_from,
        "extra": record.extra or None,
    }


def record_of(row: Row[Any], key: Key) -> Record:
    """The record in a row of `trial` joined to its log as `log_text`. Raises one of UNREADABLE if it is damaged."""
    compiler = CompilerInfo(row.registers, row.spill_bytes, row.local_bytes, row.log_text or "")
    measurement = Measurement(
        verdict=Verdict(row.verdict),
        samples_ms=samples_of(row.samples),
        compile_ms=row.compile_ms,
        error_ratio=row.error_ratio,
        message=row.message,
        compiler=compiler,
        verify_ms=row.verify_ms,
    )
    return Record(
        *key,
        config_of(row),
        measurement,
        row.source_hash,
        row.run_id,
        row.when,
        row.family_hash,
        row.imported_from,
        row.extra or "",
        row.id,
    )
