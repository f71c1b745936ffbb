"""Files made of model versions, such as plots, kept until the version or its data go."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
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
            ["model_name", "version"],
            ["model_versions.model_name", "model_versions.version"],
            name=op.f("fk_derived_files_model_name_model_versions"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["dataset_id"],
            ["datasets.id"],
            name=op.f("fk_derived_files_dataset_id_datasets"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("model_name", "version", "name", name=op.f("pk_derived_files")),
    )
    op.create_index(op.f("ix_derived_files_dataset_id"), "derived_files", ["dataset_id"])
