"""The schema of the first release: all tables, as `tables` has them.

Until the release, a change of the schema is a change of `tables` alone. On the day of the release
this file is frozen: it gets the tables as they are then, and later changes are migrations.
"""

from __future__ import annotations

from alembic import op
from sqlalchemy.schema import CreateIndex, CreateTable

from service.storage.database.tables import INDEXES, metadata

revision = "0111"
down_revision = None


def upgrade() -> None:
    for table in metadata.sorted_tables:
        op.execute(CreateTable(table))
    for index in INDEXES:
        op.execute(CreateIndex(index))
