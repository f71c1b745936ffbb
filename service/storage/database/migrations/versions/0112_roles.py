"""The columns beside the features in a list: it was the name of the column of weights."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0112"
down_revision = "0111"


def upgrade() -> None:
    beside = sa.Column("beside", sa.JSON, nullable=False, server_default="[]")
    op.add_column("datasets", beside)
    datasets = sa.table(
        "datasets", sa.column("id"), sa.column("weight"), sa.column("beside", sa.JSON)
    )
    weighted = sa.select(datasets.c.id, datasets.c.weight).where(datasets.c.weight.is_not(None))
    for dataset_id, name in op.get_bind().execute(weighted).all():
        roles = [{"role": "weight", "name": name, "kind": "number"}]
        op.execute(datasets.update().where(datasets.c.id == dataset_id).values(beside=roles))
    op.drop_column("datasets", "weight")
