"""Which models have changed, in the order of the changes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.create_table(
        "model_changes",
        sa.Column("model_name", sa.String(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("model_name", name=op.f("pk_model_changes")),
    )
    op.create_index(op.f("ix_model_changes_number"), "model_changes", ["number"])
