"""The tables, in types that SQLite and PostgreSQL share; db/migrations makes them, a test holds both equal.

Times are UTC text of fixed width, so that they sort; JSON is text made by `canonical_json`, so that equal values are
equal text.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

VERSION_TABLE = "gemm_tuner_schema"
"""Holds the revision; its name also tells our database from another program's."""

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)


def _id() -> Column[int]:
    return Column("id", Integer, primary_key=True)


def _key() -> list[Column[int]]:
    """What every trial, champion and certificate is about; the problem, which tells most apart, leads each index."""
    return [
        Column("problem_id", ForeignKey("problem.id"), nullable=False),
        Column("silicon_id", ForeignKey("silicon.id"), nullable=False),
        Column("software_id", ForeignKey("software.id"), nullable=False),
    ]


silicon = Table(
    "silicon",
    metadata,
    _id(),
    Column("vendor", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("compute_units", Integer, nullable=False),
    Column("memory_gib", Integer, nullable=False),
    UniqueConstraint("vendor", "name", "kind", "compute_units", "memory_gib"),
)

software = Table(
    "software",
    metadata,
    _id(),
    Column("platform", Text, nullable=False),
    Column("driver", Text, nullable=False),
    Column("c_version", Text, nullable=False),
    Column("device_string", Text, nullable=False),
    UniqueConstraint("platform", "driver", "c_version", "device_string"),
)

problem = Table(
    "problem",
    metadata,
    _id(),
    Column("m", Integer, nullable=False),
    Column("n", Integer, nullable=False),
    Column("k", Integer, nullable=False),
    Column("batch", Integer, nullable=False),
    Column("dtype", String(16), nullable=False),
    Column("trans_a", Boolean, nullable=False),
    Column("trans_b", Boolean, nullable=False),
    Column("math", String(32), nullable=False),
    Column("align", Integer, nullable=False),
    UniqueConstraint("m", "n", "k", "batch", "dtype", "trans_a", "trans_b", "math", "align"),
)

source = Table(
    "source",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("text", Text, nullable=False),
)

compile_log = Table(
    "compile_log",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("text", Text, nullable=False),
)

run = Table(
    "run",
    metadata,
    _id(),
    *_key(),
    Column("settings", Text, nullable=False),
    Column("summary", Text),
    Column("started", String(32), nullable=False),
    Column("finished", String(32)),
)

trial = Table(
    "trial",
    metadata,
    _id(),
    Column("run_id", ForeignKey("run.id"), nullable=False),
    *_key(),
    Column("family", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("family_hash", String(64), nullable=False),
    Column("source_hash", String(64), nullable=False),
    Column("verdict", String(32), nullable=False),
    Column("samples", LargeBinary, nullable=False),
    Column("compile_ms", Double, nullable=False),
    Column("verify_ms", Double, nullable=False),
    Column("error_ratio", Double),
    Column("message", Text, nullable=False),
    Column("registers", Integer),
    Column("spill_bytes", Integer),
    Column("local_bytes", Integer),
    Column("log_hash", ForeignKey("compile_log.hash")),
    Column("when", String(32), nullable=False),
    Column("time_ms", Double),
    Column("imported_from", Text),
    Column("extra", Text),
    Index(None, "problem_id", "silicon_id", "software_id"),
    Index(None, "problem_id", "silicon_id", "software_id", "time_ms"),
    Index(None, "verdict"),
)
"""`samples` are little-endian float64, of a pruned trial the median alone; `time_ms` is their median, NULL when there
is none. A family that starts with `lib:` is a library, measured as a baseline."""

in_flight = Table(
    "in_flight",
    metadata,
    _id(),
    Column("run_id", ForeignKey("run.id"), nullable=False),
    *_key(),
    Column("family", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("family_hash", String(64), nullable=False),
    Column("source_hash", String(64), nullable=False),
    Column("stage", String(32), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("host", Text, nullable=False),
    Column("boot", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("process_started", Text, nullable=False),
    Column("began", String(32), nullable=False),
    UniqueConstraint("run_id", "family", "config"),
)

champion_log = Table(
    "champion_log",
    metadata,
    _id(),
    *_key(),
    Column("action", String(16), nullable=False),
    Column("family", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("source_hash", String(64), nullable=False),
    Column("text_hash", ForeignKey("source.hash"), nullable=False),
    Column("build_options", Text, nullable=False),
    Column("plan", Text, nullable=False),
    Column("time_ms", Double),
    Column("noise", Double),
    Column("run_id", ForeignKey("run.id")),
    Column("checks", Text),
    Column("reason", Text, nullable=False),
    Column("when", String(32), nullable=False),
    Index(None, "problem_id", "silicon_id", "software_id"),
    sqlite_autoincrement=True,
)
"""Append-only. `plan` is the launch steps and scratch buffers; `checks` those certified when the line was written."""

certificate = Table(
    "certificate",
    metadata,
    _id(),
    *_key(),
    Column("source_hash", String(64), nullable=False),
    Column("family", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("checks", Text, nullable=False),
    Column("when", String(32), nullable=False),
    UniqueConstraint("problem_id", "silicon_id", "software_id", "source_hash"),
    sqlite_autoincrement=True,
)

imported = Table(
    "imported",
    metadata,
    _id(),
    *_key(),
    Column("kind", String(16), nullable=False),
    Column("source_hash", String(64), nullable=False),
    Column("body", Text, nullable=False),
    Column("body_hash", String(64), nullable=False),
    Column("imported_from", Text, nullable=False),
    Column("when", String(32), nullable=False),
    UniqueConstraint("kind", "body_hash"),
    Index(None, "problem_id", "silicon_id", "software_id"),
)
"""Other machines' champions and certificates, `body` as it was read: here they are candidates and no more."""

miss = Table(
    "miss",
    metadata,
    _id(),
    *_key(),
    Column("origin", String(32), nullable=False),
    Column("asked", Integer, nullable=False),
    Column("first", String(32), nullable=False),
    Column("last", String(32), nullable=False),
    UniqueConstraint("problem_id", "silicon_id", "software_id"),
)

night = Table(
    "night",
    metadata,
    _id(),
    Column("name", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("boot", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("process_started", Text, nullable=False),
    Column("started", String(32), nullable=False),
    Column("finished", String(32)),
    Column("state", String(16), nullable=False),
    Column("plan", Text, nullable=False),
    Column("progress", Text, nullable=False),
    Column("summary", Text),
    Index(None, "name"),
)

calibration = Table(
    "calibration",
    metadata,
    _id(),
    Column("instance", Text, nullable=False),
    Column("silicon_id", ForeignKey("silicon.id"), nullable=False),
    Column("software_id", ForeignKey("software.id"), nullable=False),
    Column("night_id", ForeignKey("night.id")),
    Column("stage", String(32), nullable=False),
    Column("reading", Text, nullable=False),
    Column("when", String(32), nullable=False),
    Index(None, "instance"),
)

regression = Table(
    "regression",
    metadata,
    _id(),
    *_key(),
    Column("family", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("source_hash", String(64), nullable=False),
    Column("night_id", ForeignKey("night.id")),
    Column("before_ms", Double, nullable=False),
    Column("now_ms", Double, nullable=False),
    Column("noise", Double, nullable=False),
    Column("detail", Text, nullable=False),
    Column("opened", String(32), nullable=False),
    Column("closed", String(32)),
    Column("reason", Text, nullable=False),
    Column("acknowledged", Boolean, nullable=False),
    Index(None, "problem_id", "silicon_id", "software_id"),
)

peak = Table(
    "peak",
    metadata,
    _id(),
    Column("silicon_id", ForeignKey("silicon.id"), nullable=False),
    Column("software_id", ForeignKey("software.id"), nullable=False),
    Column("what", String(16), nullable=False),
    Column("dtype", String(16), nullable=False),
    Column("math", String(32), nullable=False),
    Column("value", Double, nullable=False),
    Column("noise", Double, nullable=False),
    Column("method", Text, nullable=False),
    Column("when", String(32), nullable=False),
    UniqueConstraint("silicon_id", "software_id", "what", "dtype", "math"),
)
