"""Parts of jobs that other workers may do, and the files of small models."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0101"
down_revision = "0100"


def upgrade() -> None:
    op.create_table(
        "job_parts",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("worker", sa.String()),
        sa.Column("lease_expires_at", sa.Float()),
        sa.Column("progress", sa.JSON(), nullable=False),
        sa.Column("elapsed_s", sa.Float(), nullable=False),
        sa.Column("checkpoint_key", sa.String()),
        sa.Column("checkpoint_sha256", sa.String()),
        sa.Column("result_key", sa.String()),
        sa.Column("result_sha256", sa.String()),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_job_parts_job_id_jobs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "number", name=op.f("pk_job_parts")),
    )
    op.create_table(
        "model_files",
        sa.Column("model_name", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["model_name", "version"],
            ["model_versions.model_name", "model_versions.version"],
            name=op.f("fk_model_files_model_name_model_versions"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("model_name", "version", "name", name=op.f("pk_model_files")),
    )
