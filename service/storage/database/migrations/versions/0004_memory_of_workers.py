"""What a worker took when it was last heard of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("worker_memory_bytes", sa.BigInteger()))
    op.add_column("jobs", sa.Column("worker_memory_limit_bytes", sa.BigInteger()))
