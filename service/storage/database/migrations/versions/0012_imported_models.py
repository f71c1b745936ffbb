"""Model versions that were imported: trained by no job and on no data of this service."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    with op.batch_alter_table("model_versions") as table:
        table.add_column(sa.Column("imported", sa.JSON()))
        for name in ("job_id", "dataset_id", "dataset_digest"):
            table.alter_column(name, existing_type=sa.String(), nullable=True)
        table.alter_column("seed", existing_type=sa.BigInteger(), nullable=True)
