"""Events of jobs, callers that share the workers, and pausing."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("caller", sa.String(), nullable=False, server_default=""))
    op.add_column("jobs", sa.Column("request_id", sa.String()))
    op.add_column(
        "jobs",
        sa.Column("pause_requested", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
    op.create_index(op.f("ix_jobs_finished_at"), "jobs", ["finished_at"])
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
