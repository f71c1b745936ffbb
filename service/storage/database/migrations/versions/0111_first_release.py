"""The schema of the first release, as `tables` had it."""

from __future__ import annotations

from alembic import op
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Integer,
    LargeBinary,
    String,
    text,
)

revision = "0111"
down_revision = None

INDEXES = {
    "audit": (
        "created_at id",
        "number id",
        *(f"{of} number id" for of in ("actor", "key_id", "action", "subject")),
    ),
    "dataset_tags": ("key value number id",),
    "datasets": ("number id", "last_upload id"),
    "deliveries": ("job_id", "next_at"),
    "derived_files": ("dataset_id",),
    "idempotency_keys": ("created_at",),
    "job_tags": ("key value number id",),
    "jobs": (
        "number id",
        "dataset_id number id kind state",
        "finished_at",
        "kind number id",
        "kind state number id",
        "model_name number id kind state",
        "state number id",
        "state priority number id",
    ),
    "model_changes": ("number",),
    "models": ("number",),
}
"""Columns of each, in the order in which they are created: PostgreSQL's choice between two that
cost the same depends on it, and `Table.indexes` has no order."""


def upgrade() -> None:
    op.create_table(
        "datasets",
        Column("id", String, primary_key=True),
        Column("number", BigInteger, nullable=False),
        Column("name", String),
        Column("created_at", Float, nullable=False),
        Column("format", String, nullable=False),
        Column("size_bytes", BigInteger, nullable=False),
        Column("n_samples", BigInteger, nullable=False),
        Column("n_features", BigInteger, nullable=False),
        Column("sparse", Boolean, nullable=False),
        Column("target", String),
        Column("columns", JSON),
        Column("classes", JSON),
        Column("class_counts", JSON),
        Column("statistics", JSON, nullable=False),
        Column("table", JSON),
        Column("reading", JSON),
        Column("ignored", JSON, nullable=False),
        Column("weight", String),
        Column("warnings", JSON, nullable=False),
        Column("tags", JSON, nullable=False),
        Column("matrix_digest", String, nullable=False),
        Column("upload_key", String, nullable=False, unique=True),
        Column("arrays", JSON, nullable=False),
        Column("parent", String),
        Column("inherited_rows", BigInteger),
        Column("last_upload", BigInteger, nullable=False),
    )
    op.create_table(
        "jobs",
        Column("id", String, primary_key=True),
        Column("number", BigInteger, nullable=False),
        Column("kind", String, nullable=False),
        Column("state", String, nullable=False),
        Column("priority", Integer, nullable=False),
        Column("caller", String, nullable=False),
        Column("request_id", String),
        Column("callback", String),
        Column("spec", JSON, nullable=False),
        Column("tags", JSON, nullable=False),
        Column("dataset_id", String, nullable=False),
        Column("dataset_digest", String, nullable=False),
        Column("model_name", String),
        Column("model_version", Integer),
        Column("created_at", Float, nullable=False),
        Column("started_at", Float),
        Column("finished_at", Float),
        Column("attempt", Integer, nullable=False),
        Column("attempts_without_progress", Integer, nullable=False),
        Column("lease_expires_at", Float),
        Column("worker", String),
        Column("worker_memory_bytes", BigInteger),
        Column("worker_memory_limit_bytes", BigInteger),
        Column("cancel_requested", Boolean, nullable=False),
        Column("keep_model", Boolean, nullable=False),
        Column("pause_requested", Boolean, nullable=False),
        Column("progress", JSON, nullable=False),
        Column("elapsed_s", Float, nullable=False),
        Column("checkpoint_key", String),
        Column("checkpoint_sha256", String),
        Column("stop_reason", String),
        Column("converged", Boolean),
        Column("result", JSON),
        Column("warnings", JSON, nullable=False),
        Column("error", JSON),
        Column("results_key", String),
        Column("results_sha256", String),
        Column("results_bytes", BigInteger),
        Column("revision", Integer, nullable=False),
    )
    for owner in ("dataset", "job"):
        op.create_table(
            f"{owner}_tags",
            Column("id", String, ForeignKey(f"{owner}s.id", ondelete="CASCADE"), primary_key=True),
            Column("key", String, primary_key=True),
            Column("value", String, nullable=False),
            Column("number", BigInteger, nullable=False),
        )
    op.create_table(
        "job_events",
        Column("job_id", String, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
        Column("number", Integer, primary_key=True),
        Column("kind", String, nullable=False),
        Column("created_at", Float, nullable=False),
        Column("data", JSON, nullable=False),
    )
    op.create_table(
        "deliveries",
        Column("id", String, primary_key=True),
        Column("job_id", String, nullable=False),
        Column("created_at", Float, nullable=False),
        Column("url", String, nullable=False),
        Column("body", String, nullable=False),
        Column("attempts", Integer, nullable=False),
        Column("next_at", Float),
        Column("delivered_at", Float),
        Column("last_error", String),
    )
    op.create_table(
        "job_parts",
        Column("job_id", String, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
        Column("number", Integer, primary_key=True),
        Column("attempt", Integer, nullable=False),
        Column("failures", Integer, nullable=False),
        Column("worker", String),
        Column("lease_expires_at", Float),
        Column("progress", JSON, nullable=False),
        Column("elapsed_s", Float, nullable=False),
        Column("checkpoint_key", String),
        Column("checkpoint_sha256", String),
        Column("result_key", String),
        Column("result_sha256", String),
    )
    op.create_table(
        "job_trace",
        Column("job_id", String, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
        Column("pair", Integer, primary_key=True),
        Column("updates", BigInteger, primary_key=True),
        Column("epoch", Integer, nullable=False),
        Column("classes", JSON, nullable=False),
        Column("elapsed_s", Float, nullable=False),
        Column("primal", Float, nullable=False),
        Column("dual", Float, nullable=False),
        Column("gap", Float, nullable=False),
        Column("solver_objective", Float, nullable=False),
        Column("train_error", Float, nullable=False),
        Column("validation_error", Float),
    )
    op.create_table(
        "models",
        Column("name", String, primary_key=True),
        Column("number", BigInteger, nullable=False),
        Column("created_at", Float, nullable=False),
        Column("last_version", Integer, nullable=False),
        Column("deleted_at", Float),
    )
    op.create_index(
        op.f("ix_models_number_name"),
        "models",
        ["number", "name"],
        sqlite_where=text("deleted_at IS NULL"),
        postgresql_where=text("deleted_at IS NULL"),
    )
    op.create_table(
        "model_versions",
        Column("model_name", String, ForeignKey("models.name"), primary_key=True),
        Column("version", Integer, primary_key=True),
        Column("created_at", Float, nullable=False),
        Column("digest", String, nullable=False),
        Column("artifact_key", String, nullable=False),
        Column("artifact_sha256", String, nullable=False),
        Column("size_bytes", BigInteger, nullable=False),
        Column("classes", JSON, nullable=False),
        Column("columns", JSON),
        Column("n_features", BigInteger, nullable=False),
        Column("n_support_vectors", BigInteger),
        Column("calibration", String),
        Column("job_id", String),
        Column("dataset_id", String),
        Column("dataset_digest", String),
        Column("seed", BigInteger),
        Column("spec", JSON, nullable=False),
        Column("result", JSON, nullable=False),
        Column("quarantined_at", Float),
        Column("warm_start_key", String),
        Column("warm_start_sha256", String),
        Column("imported", JSON),
    )
    op.create_table(
        "model_files",
        Column("model_name", String, primary_key=True),
        Column("version", Integer, primary_key=True),
        Column("name", String, primary_key=True),
        Column("content", LargeBinary, nullable=False),
        ForeignKeyConstraint(
            ["model_name", "version"],
            ["model_versions.model_name", "model_versions.version"],
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "idempotency_keys",
        Column("caller", String, primary_key=True),
        Column("key", String, primary_key=True),
        Column("fingerprint", String, nullable=False),
        Column("holder", String, nullable=False),
        Column("created_at", Float, nullable=False),
        Column("lease_expires_at", Float, nullable=False),
        Column("status", Integer),
        Column("headers", JSON),
        Column("body", LargeBinary),
    )
    op.create_table(
        "derived_files",
        Column("model_name", String, primary_key=True),
        Column("version", Integer, primary_key=True),
        Column("name", String, primary_key=True),
        Column("created_at", Float, nullable=False),
        Column("dataset_id", String, ForeignKey("datasets.id", ondelete="CASCADE")),
        Column("file_key", String, nullable=False),
        Column("file_sha256", String, nullable=False),
        Column("size_bytes", BigInteger, nullable=False),
        Column("about", JSON, nullable=False),
        ForeignKeyConstraint(
            ["model_name", "version"],
            ["model_versions.model_name", "model_versions.version"],
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "api_keys",
        Column("id", String, primary_key=True),
        Column("number", BigInteger, nullable=False),
        Column("name", String, nullable=False),
        Column("scopes", JSON, nullable=False),
        Column("sha256", String, nullable=False),
        Column("requests_per_s", Float),
        Column("created_at", Float, nullable=False),
        Column("revoked_at", Float),
    )
    op.create_table(
        "audit",
        Column("id", String, primary_key=True),
        Column("number", BigInteger, nullable=False),
        Column("created_at", Float, nullable=False),
        Column("actor", String, nullable=False),
        Column("key_id", String),
        Column("address", String),
        Column("request_id", String),
        Column("action", String, nullable=False),
        Column("resource", String, nullable=False),
        Column("subject", String, nullable=False),
        Column("result", JSON, nullable=False),
    )
    op.create_table(
        "identity",
        Column("id", String, primary_key=True),
        Column("secret", String, nullable=False),
    )
    op.create_table(
        "model_aliases",
        Column("model_name", String, ForeignKey("models.name"), primary_key=True),
        Column("alias", String, primary_key=True),
        Column("version", Integer, nullable=False),
        Column("revision", Integer, nullable=False),
        Column("updated_at", Float, nullable=False),
    )
    op.create_table(
        "model_changes",
        Column("model_name", String, primary_key=True),
        Column("number", BigInteger, nullable=False),
    )
    for table, indexes in INDEXES.items():
        for columns in indexes:
            name = f"ix_{table}_{columns.replace(' ', '_')}"
            op.create_index(op.f(name), table, columns.split())
