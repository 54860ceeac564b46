"""Runs, trials, what is in flight, sources, the log of champions and the certificates."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def _key(table: str) -> list[sa.schema.SchemaItem]:
    return [
        item
        for name in ("problem", "silicon", "software")
        for item in (
            sa.Column(f"{name}_id", sa.Integer(), nullable=False),
            sa.ForeignKeyConstraint([f"{name}_id"], [f"{name}.id"], name=f"fk_{table}_{name}_id"),
        )
    ]


def _nouns() -> None:
    op.create_table(
        "silicon",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("vendor", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("compute_units", sa.Integer(), nullable=False),
        sa.Column("memory_gib", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_silicon"),
        sa.UniqueConstraint("vendor", "name", "kind", "compute_units", "memory_gib", name="uq_silicon"),
    )
    op.create_table(
        "software",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("driver", sa.Text(), nullable=False),
        sa.Column("c_version", sa.Text(), nullable=False),
        sa.Column("device_string", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_software"),
        sa.UniqueConstraint("platform", "driver", "c_version", "device_string", name="uq_software"),
    )
    op.create_table(
        "problem",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("m", sa.Integer(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("k", sa.Integer(), nullable=False),
        sa.Column("batch", sa.Integer(), nullable=False),
        sa.Column("dtype", sa.String(16), nullable=False),
        sa.Column("trans_a", sa.Boolean(), nullable=False),
        sa.Column("trans_b", sa.Boolean(), nullable=False),
        sa.Column("math", sa.String(32), nullable=False),
        sa.Column("align", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_problem"),
        sa.UniqueConstraint("m", "n", "k", "batch", "dtype", "trans_a", "trans_b", "math", "align", name="uq_problem"),
    )


def _texts() -> None:
    for table in ("source", "compile_log"):
        op.create_table(
            table,
            sa.Column("hash", sa.String(64), nullable=False),
            sa.Column("text", sa.Text(), nullable=False),
            sa.PrimaryKeyConstraint("hash", name=f"pk_{table}"),
        )


def _runs() -> None:
    op.create_table(
        "run",
        sa.Column("id", sa.Integer(), nullable=False),
        *_key("run"),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text()),
        sa.Column("started", sa.String(32), nullable=False),
        sa.Column("finished", sa.String(32)),
        sa.PrimaryKeyConstraint("id", name="pk_run"),
    )
    op.create_table(
        "trial",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        *_key("trial"),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("family_hash", sa.String(64), nullable=False),
        sa.Column("source_hash", sa.String(64), nullable=False),
        sa.Column("verdict", sa.String(32), nullable=False),
        sa.Column("samples", sa.LargeBinary(), nullable=False),
        sa.Column("compile_ms", sa.Double(), nullable=False),
        sa.Column("verify_ms", sa.Double(), nullable=False),
        sa.Column("error_ratio", sa.Double()),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("registers", sa.Integer()),
        sa.Column("spill_bytes", sa.Integer()),
        sa.Column("local_bytes", sa.Integer()),
        sa.Column("log_hash", sa.String(64)),
        sa.Column("when", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_trial"),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_trial_run_id"),
        sa.ForeignKeyConstraint(["log_hash"], ["compile_log.hash"], name="fk_trial_log_hash"),
    )
    op.create_index("ix_trial_problem_id_silicon_id_software_id", "trial", ["problem_id", "silicon_id", "software_id"])
    op.create_index("ix_trial_verdict", "trial", ["verdict"])
    op.create_table(
        "in_flight",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        *_key("in_flight"),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("family_hash", sa.String(64), nullable=False),
        sa.Column("source_hash", sa.String(64), nullable=False),
        sa.Column("stage", sa.String(32), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("boot", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("process_started", sa.Text(), nullable=False),
        sa.Column("began", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_in_flight"),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_in_flight_run_id"),
        sa.UniqueConstraint("run_id", "family", "config", name="uq_in_flight"),
    )


def _champions() -> None:
    op.create_table(
        "champion_log",
        sa.Column("id", sa.Integer(), nullable=False),
        *_key("champion_log"),
        sa.Column("action", sa.String(16), nullable=False),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("source_hash", sa.String(64), nullable=False),
        sa.Column("text_hash", sa.String(64), nullable=False),
        sa.Column("build_options", sa.Text(), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("time_ms", sa.Double()),
        sa.Column("noise", sa.Double()),
        sa.Column("run_id", sa.Integer()),
        sa.Column("checks", sa.Text()),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("when", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_champion_log"),
        sa.ForeignKeyConstraint(["text_hash"], ["source.hash"], name="fk_champion_log_text_hash"),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_champion_log_run_id"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_champion_log_problem_id_silicon_id_software_id",
        "champion_log",
        ["problem_id", "silicon_id", "software_id"],
    )
    op.create_table(
        "certificate",
        sa.Column("id", sa.Integer(), nullable=False),
        *_key("certificate"),
        sa.Column("source_hash", sa.String(64), nullable=False),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("checks", sa.Text(), nullable=False),
        sa.Column("when", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_certificate"),
        sa.UniqueConstraint("problem_id", "silicon_id", "software_id", "source_hash", name="uq_certificate"),
        sqlite_autoincrement=True,
    )


def upgrade() -> None:
    """Make every table."""
    _nouns()
    _texts()
    _runs()
    _champions()
