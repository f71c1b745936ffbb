"""The file that a job made: a batch prediction's results."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("results_key", sa.String()))
    op.add_column("jobs", sa.Column("results_sha256", sa.String()))
    op.add_column("jobs", sa.Column("results_bytes", sa.BigInteger()))
