"""Imported trials and champions beside our own; misses, nights, calibrations, regressions and measured peaks."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def _reference(table: str, name: str, *, optional: bool = False) -> list[sa.schema.SchemaItem]:
    return [
        sa.Column(f"{name}_id", sa.Integer(), nullable=optional),
        sa.ForeignKeyConstraint([f"{name}_id"], [f"{name}.id"], name=f"fk_{table}_{name}_id"),
    ]


def _device(table: str) -> list[sa.schema.SchemaItem]:
    return [item for name in ("silicon", "software") for item in _reference(table, name)]


def _key(table: str) -> list[sa.schema.SchemaItem]:
    return [*_reference(table, "problem"), *_device(table)]


def _index(table: str, *columns: str) -> None:
    op.create_index(f"ix_{table}_{'_'.join(columns)}", table, list(columns))


def _imports() -> None:
    op.add_column("trial", sa.Column("imported_from", sa.Text()))
    op.add_column("trial", sa.Column("extra", sa.Text()))
    op.create_table(
        "imported",
        sa.Column("id", sa.Integer(), nullable=False),
        *_key("imported"),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("source_hash", sa.String(64), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("body_hash", sa.String(64), nullable=False),
        sa.Column("imported_from", sa.Text(), nullable=False),
        sa.Column("when", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_imported"),
        sa.UniqueConstraint("kind", "body_hash", name="uq_imported"),
    )
    _index("imported", "problem_id", "silicon_id", "software_id")


def _misses() -> None:
    op.create_table(
        "miss",
        sa.Column("id", sa.Integer(), nullable=False),
        *_key("miss"),
        sa.Column("origin", sa.String(32), nullable=False),
        sa.Column("asked", sa.Integer(), nullable=False),
        sa.Column("first", sa.String(32), nullable=False),
        sa.Column("last", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_miss"),
        sa.UniqueConstraint("problem_id", "silicon_id", "software_id", name="uq_miss"),
    )


def _nights() -> None:
    op.create_table(
        "night",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("boot", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("process_started", sa.Text(), nullable=False),
        sa.Column("started", sa.String(32), nullable=False),
        sa.Column("finished", sa.String(32)),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("progress", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="pk_night"),
    )
    _index("night", "name")
    op.create_table(
        "calibration",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("instance", sa.Text(), nullable=False),
        *_device("calibration"),
        *_reference("calibration", "night", optional=True),
        sa.Column("stage", sa.String(32), nullable=False),
        sa.Column("reading", sa.Text(), nullable=False),
        sa.Column("when", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_calibration"),
    )
    _index("calibration", "instance")


def _findings() -> None:
    op.create_table(
        "regression",
        sa.Column("id", sa.Integer(), nullable=False),
        *_key("regression"),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("source_hash", sa.String(64), nullable=False),
        *_reference("regression", "night", optional=True),
        sa.Column("before_ms", sa.Double(), nullable=False),
        sa.Column("now_ms", sa.Double(), nullable=False),
        sa.Column("noise", sa.Double(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("opened", sa.String(32), nullable=False),
        sa.Column("closed", sa.String(32)),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("acknowledged", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_regression"),
    )
    _index("regression", "problem_id", "silicon_id", "software_id")
    op.create_table(
        "peak",
        sa.Column("id", sa.Integer(), nullable=False),
        *_device("peak"),
        sa.Column("what", sa.String(16), nullable=False),
        sa.Column("dtype", sa.String(16), nullable=False),
        sa.Column("math", sa.String(32), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("noise", sa.Double(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("when", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_peak"),
        sa.UniqueConstraint("silicon_id", "software_id", "what", "dtype", "math", name="uq_peak"),
    )


def upgrade() -> None:
    """Add the columns and make the tables."""
    _imports()
    _misses()
    _nights()
    _findings()
