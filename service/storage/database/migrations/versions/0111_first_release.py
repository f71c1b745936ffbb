"""The schema before the first release: all tables, as `tables` has them but for later revisions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.schema import CreateIndex, CreateTable

from service.storage.database.tables import INDEXES, metadata

revision = "0111"
down_revision = None


def upgrade() -> None:
    for table in metadata.sorted_tables:
        op.execute(CreateTable(table))
    op.drop_column("datasets", "beside")  # as it was before 0112
    op.add_column("datasets", sa.Column("weight", sa.String))
    for index in INDEXES:
        op.execute(CreateIndex(index))
