"""The dataset that was uploaded last, also where it was there already."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    uploaded_at = sa.Column("uploaded_at", sa.Float(), nullable=False, server_default="0")
    op.add_column("datasets", uploaded_at)
    op.execute("UPDATE datasets SET uploaded_at = created_at")
    op.create_index(op.f("ix_datasets_uploaded_at_id"), "datasets", ["uploaded_at", "id"])
