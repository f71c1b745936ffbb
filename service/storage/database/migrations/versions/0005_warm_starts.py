"""Model versions keep what a training needs to begin where theirs ended."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("model_versions", sa.Column("warm_start_key", sa.String()))
    op.add_column("model_versions", sa.Column("warm_start_sha256", sa.String()))
