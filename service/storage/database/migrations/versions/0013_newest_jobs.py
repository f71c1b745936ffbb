"""The newest jobs are found by an index, however many there are."""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.create_index(op.f("ix_jobs_created_at_id"), "jobs", ["created_at", "id"])
