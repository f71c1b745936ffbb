"""Every list and every filter has an index; labels are rows of their own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

AT_ONCE = 1000
INDEXES = {
    "datasets": (("created_at", "id"),),
    "jobs": (
        ("kind", "created_at", "id"),
        ("kind", "state", "created_at", "id"),
        ("state", "created_at", "id"),
        ("model_name", "created_at", "id", "kind", "state"),
        ("dataset_id", "created_at", "id", "kind", "state"),
    ),
    "model_versions": (("model_name", "created_at", "version"),),
}


def upgrade() -> None:
    for column in ("model_name", "dataset_id"):
        op.drop_index(op.f(f"ix_jobs_{column}"), "jobs")
    for table, indexes in INDEXES.items():
        for columns in indexes:
            op.create_index(op.f(f"ix_{table}_{'_'.join(columns)}"), table, list(columns))
    there = sa.text("deleted_at IS NULL")
    name = op.f("ix_models_created_at_name")
    op.create_index(
        name, "models", ["created_at", "name"], sqlite_where=there, postgresql_where=there
    )
    for owner in ("datasets", "jobs"):
        _make_labels(owner)


def _make_labels(owner: str) -> None:
    name = f"{owner[:-1]}_labels"
    table = op.create_table(
        name,
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("value", sa.String(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["id"], [f"{owner}.id"], name=op.f(f"fk_{name}_id_{owner}"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", "key", name=op.f(f"pk_{name}")),
    )
    made = _labels(owner)
    while rows := list(islice(made, AT_ONCE)):
        op.bulk_insert(table, rows)
    columns = ["key", "value", "created_at", "id"]
    op.create_index(op.f(f"ix_{name}_{'_'.join(columns)}"), name, columns)


def _labels(owner: str) -> Iterator[dict[str, Any]]:
    labels = sa.column("labels", sa.JSON)
    found = sa.select(sa.column("id"), sa.column("created_at"), labels).select_from(sa.table(owner))
    for row in op.get_bind().execute(found):
        for key, value in row.labels.items():
            yield {"id": row.id, "key": key, "value": value, "created_at": row.created_at}
