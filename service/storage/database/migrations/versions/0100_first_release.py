"""The schema of the first release."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0100"
down_revision = None

VERSION = ["model_name", "version"], ["model_versions.model_name", "model_versions.version"]


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("requests_per_s", sa.Float()),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("revoked_at", sa.Float()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
    )
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
        sa.Column("table", sa.JSON()),
        sa.Column("reading", sa.JSON()),
        sa.Column("ignored", sa.JSON(), nullable=False),
        sa.Column("weight", sa.String()),
        sa.Column("warnings", sa.JSON(), nullable=False),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("matrix_digest", sa.String(), nullable=False),
        sa.Column("upload_key", sa.String(), nullable=False),
        sa.Column("arrays", sa.JSON(), nullable=False),
        sa.Column("parent", sa.String()),
        sa.Column("inherited_rows", sa.BigInteger()),
        sa.Column("uploaded_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_datasets")),
        sa.UniqueConstraint("upload_key", name=op.f("uq_datasets_upload_key")),
    )
    op.create_index(op.f("ix_datasets_created_at_id"), "datasets", ["created_at", "id"])
    op.create_index(op.f("ix_datasets_uploaded_at_id"), "datasets", ["uploaded_at", "id"])
    op.create_table(
        "idempotency_keys",
        sa.Column("caller", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("holder", sa.String(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("lease_expires_at", sa.Float(), nullable=False),
        sa.Column("status", sa.Integer()),
        sa.Column("headers", sa.JSON()),
        sa.Column("body", sa.LargeBinary()),
        sa.PrimaryKeyConstraint("caller", "key", name=op.f("pk_idempotency_keys")),
    )
    op.create_index(op.f("ix_idempotency_keys_created_at"), "idempotency_keys", ["created_at"])
    op.create_table(
        "identity",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("secret", sa.String()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_identity")),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("caller", sa.String(), nullable=False),
        sa.Column("request_id", sa.String()),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("dataset_id", sa.String(), nullable=False),
        sa.Column("dataset_digest", sa.String(), nullable=False),
        sa.Column("model_name", sa.String()),
        sa.Column("model_version", sa.Integer()),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("started_at", sa.Float()),
        sa.Column("finished_at", sa.Float()),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("attempts_without_progress", sa.Integer(), nullable=False),
        sa.Column("lease_expires_at", sa.Float()),
        sa.Column("worker", sa.String()),
        sa.Column("worker_memory_bytes", sa.BigInteger()),
        sa.Column("worker_memory_limit_bytes", sa.BigInteger()),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("keep_model", sa.Boolean(), nullable=False),
        sa.Column("pause_requested", sa.Boolean(), nullable=False),
        sa.Column("progress", sa.JSON(), nullable=False),
        sa.Column("elapsed_s", sa.Float(), nullable=False),
        sa.Column("checkpoint_key", sa.String()),
        sa.Column("checkpoint_sha256", sa.String()),
        sa.Column("stop_reason", sa.String()),
        sa.Column("converged", sa.Boolean()),
        sa.Column("result", sa.JSON()),
        sa.Column("warnings", sa.JSON(), nullable=False),
        sa.Column("error", sa.JSON()),
        sa.Column("results_key", sa.String()),
        sa.Column("results_sha256", sa.String()),
        sa.Column("results_bytes", sa.BigInteger()),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
    )
    op.create_index(op.f("ix_jobs_created_at_id"), "jobs", ["created_at", "id"])
    op.create_index(
        op.f("ix_jobs_dataset_id_created_at_id_kind_state"),
        "jobs",
        ["dataset_id", "created_at", "id", "kind", "state"],
    )
    op.create_index(op.f("ix_jobs_finished_at"), "jobs", ["finished_at"])
    op.create_index(op.f("ix_jobs_kind_created_at_id"), "jobs", ["kind", "created_at", "id"])
    op.create_index(
        op.f("ix_jobs_kind_state_created_at_id"), "jobs", ["kind", "state", "created_at", "id"]
    )
    op.create_index(
        op.f("ix_jobs_model_name_created_at_id_kind_state"),
        "jobs",
        ["model_name", "created_at", "id", "kind", "state"],
    )
    op.create_index(op.f("ix_jobs_state_created_at_id"), "jobs", ["state", "created_at", "id"])
    op.create_index(
        op.f("ix_jobs_state_priority_created_at_id"),
        "jobs",
        ["state", "priority", "created_at", "id"],
    )
    op.create_table(
        "model_changes",
        sa.Column("model_name", sa.String(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("model_name", name=op.f("pk_model_changes")),
    )
    op.create_index(op.f("ix_model_changes_number"), "model_changes", ["number"])
    op.create_table(
        "models",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("last_version", sa.Integer(), nullable=False),
        sa.Column("deleted_at", sa.Float()),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_models")),
    )
    op.create_index(
        op.f("ix_models_created_at_name"),
        "models",
        ["created_at", "name"],
        sqlite_where=sa.text("deleted_at IS NULL"),
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_table(
        "dataset_tags",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("value", sa.String(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["id"], ["datasets.id"], name=op.f("fk_dataset_tags_id_datasets"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", "key", name=op.f("pk_dataset_tags")),
    )
    op.create_index(
        op.f("ix_dataset_tags_key_value_created_at_id"),
        "dataset_tags",
        ["key", "value", "created_at", "id"],
    )
    op.create_table(
        "job_events",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_job_events_job_id_jobs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "number", name=op.f("pk_job_events")),
    )
    op.create_table(
        "job_tags",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("value", sa.String(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["id"], ["jobs.id"], name=op.f("fk_job_tags_id_jobs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", "key", name=op.f("pk_job_tags")),
    )
    op.create_index(
        op.f("ix_job_tags_key_value_created_at_id"),
        "job_tags",
        ["key", "value", "created_at", "id"],
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
        sa.Column("solver_objective", sa.Float(), nullable=False),
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
        sa.Column("calibration", sa.String()),
        sa.Column("job_id", sa.String()),
        sa.Column("dataset_id", sa.String()),
        sa.Column("dataset_digest", sa.String()),
        sa.Column("seed", sa.BigInteger()),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("result", sa.JSON(), nullable=False),
        sa.Column("quarantined_at", sa.Float()),
        sa.Column("warm_start_key", sa.String()),
        sa.Column("warm_start_sha256", sa.String()),
        sa.Column("imported", sa.JSON()),
        sa.ForeignKeyConstraint(
            ["model_name"], ["models.name"], name=op.f("fk_model_versions_model_name_models")
        ),
        sa.PrimaryKeyConstraint("model_name", "version", name=op.f("pk_model_versions")),
    )
    op.create_index(
        op.f("ix_model_versions_model_name_created_at_version"),
        "model_versions",
        ["model_name", "created_at", "version"],
    )
    op.create_table(
        "model_files",
        sa.Column("model_name", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            *VERSION, name=op.f("fk_model_files_model_name_model_versions"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("model_name", "version", "name", name=op.f("pk_model_files")),
    )
    op.create_table(
        "derived_files",
        sa.Column("model_name", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("dataset_id", sa.String()),
        sa.Column("file_key", sa.String(), nullable=False),
        sa.Column("file_sha256", sa.String(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("about", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"],
            ["datasets.id"],
            name=op.f("fk_derived_files_dataset_id_datasets"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            *VERSION, name=op.f("fk_derived_files_model_name_model_versions"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("model_name", "version", "name", name=op.f("pk_derived_files")),
    )
    op.create_index(op.f("ix_derived_files_dataset_id"), "derived_files", ["dataset_id"])
