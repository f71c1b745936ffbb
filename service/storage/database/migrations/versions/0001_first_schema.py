"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "datasets",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String()),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("format", sa.String(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("n_samples", sa.BigInteger(), nullable=False),
        sa.Column("n_features", sa.BigInteger(), nullable=False),
        sa.Column("sparse", sa.Boolean(), nullable=False),
        sa.Column("target", sa.String()),
        sa.Column("columns", sa.JSON()),
        sa.Column("classes", sa.JSON()),
        sa.Column("class_counts", sa.JSON()),
        sa.Column("statistics", sa.JSON(), nullable=False),
        sa.Column("warnings", sa.JSON(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("matrix_digest", sa.String(), nullable=False),
        sa.Column("upload_key", sa.String(), nullable=False),
        sa.Column("arrays", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_datasets")),
        sa.UniqueConstraint("upload_key", name=op.f("uq_datasets_upload_key")),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("dataset_id", sa.String(), nullable=False),
        sa.Column("dataset_digest", sa.String(), nullable=False),
        sa.Column("model_name", sa.String()),
        sa.Column("model_version", sa.Integer()),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("started_at", sa.Float()),
        sa.Column("finished_at", sa.Float()),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("fruitless_attempts", sa.Integer(), nullable=False),
        sa.Column("lease_expires_at", sa.Float()),
        sa.Column("worker", sa.String()),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("keep_model", sa.Boolean(), nullable=False),
        sa.Column("progress", sa.JSON(), nullable=False),
        sa.Column("elapsed_s", sa.Float(), nullable=False),
        sa.Column("checkpoint_key", sa.String()),
        sa.Column("checkpoint_sha256", sa.String()),
        sa.Column("stop_reason", sa.String()),
        sa.Column("converged", sa.Boolean()),
        sa.Column("result", sa.JSON()),
        sa.Column("warnings", sa.JSON(), nullable=False),
        sa.Column("error", sa.JSON()),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
    )
    op.create_index(op.f("ix_jobs_dataset_id"), "jobs", ["dataset_id"])
    op.create_index(op.f("ix_jobs_model_name"), "jobs", ["model_name"])
    op.create_index(
        op.f("ix_jobs_state_priority_created_at_id"),
        "jobs",
        ["state", "priority", "created_at", "id"],
    )
    op.create_table(
        "models",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("last_version", sa.Integer(), nullable=False),
        sa.Column("deleted_at", sa.Float()),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_models")),
    )
    op.create_table(
        "job_trace",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("pair", sa.Integer(), nullable=False),
        sa.Column("updates", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("classes", sa.JSON(), nullable=False),
        sa.Column("elapsed_s", sa.Float(), nullable=False),
        sa.Column("primal", sa.Float(), nullable=False),
        sa.Column("dual", sa.Float(), nullable=False),
        sa.Column("gap", sa.Float(), nullable=False),
        sa.Column("train_error", sa.Float(), nullable=False),
        sa.Column("validation_error", sa.Float()),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_job_trace_job_id_jobs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "pair", "updates", name=op.f("pk_job_trace")),
    )
    op.create_table(
        "model_aliases",
        sa.Column("model_name", sa.String(), nullable=False),
        sa.Column("alias", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("updated_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["model_name"], ["models.name"], name=op.f("fk_model_aliases_model_name_models")
        ),
        sa.PrimaryKeyConstraint("model_name", "alias", name=op.f("pk_model_aliases")),
    )
    op.create_table(
        "model_versions",
        sa.Column("model_name", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("artifact_key", sa.String(), nullable=False),
        sa.Column("artifact_sha256", sa.String(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("classes", sa.JSON(), nullable=False),
        sa.Column("columns", sa.JSON()),
        sa.Column("n_features", sa.BigInteger(), nullable=False),
        sa.Column("n_support_vectors", sa.BigInteger()),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("dataset_id", sa.String(), nullable=False),
        sa.Column("dataset_digest", sa.String(), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("result", sa.JSON(), nullable=False),
        sa.Column("quarantined_at", sa.Float()),
        sa.ForeignKeyConstraint(
            ["model_name"], ["models.name"], name=op.f("fk_model_versions_model_name_models")
        ),
        sa.PrimaryKeyConstraint("model_name", "version", name=op.f("pk_model_versions")),
    )
