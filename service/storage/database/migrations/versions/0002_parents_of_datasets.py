"""Datasets know what they were made from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("datasets", sa.Column("parent", sa.String()))
    op.add_column("datasets", sa.Column("inherited_rows", sa.BigInteger()))
