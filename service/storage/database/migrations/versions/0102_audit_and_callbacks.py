"""Who changed what, and calls to receivers of callbacks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0102"
down_revision = "0101"


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("key_id", sa.String()),
        sa.Column("address", sa.String()),
        sa.Column("request_id", sa.String()),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("resource", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("result", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index(op.f("ix_audit_created_at_id"), "audit", ["created_at", "id"])
    for column in ("actor", "key_id", "action", "subject"):
        op.create_index(
            op.f(f"ix_audit_{column}_created_at_id"), "audit", [column, "created_at", "id"]
        )
    op.add_column("jobs", sa.Column("callback", sa.String()))
    op.create_table(
        "deliveries",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("url", sa.String(), nullable=False),
        sa.Column("body", sa.String(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", sa.Float()),
        sa.Column("delivered_at", sa.Float()),
        sa.Column("last_error", sa.String()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deliveries")),
    )
    for column in ("job_id", "next_at"):
        op.create_index(op.f(f"ix_deliveries_{column}"), "deliveries", [column])
