"""Whether a model gives probabilities, which its request alone does not tell."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

versions = sa.table(
    "model_versions",
    sa.column("model_name", sa.String),
    sa.column("version", sa.Integer),
    sa.column("spec", sa.JSON),
    sa.column("result", sa.JSON),
    sa.column("calibration", sa.String),
)


def upgrade() -> None:
    op.add_column("model_versions", sa.Column("calibration", sa.String()))
    connection = op.get_bind()
    for row in connection.execute(sa.select(versions)).all():
        metrics = row.result.get("metrics", {}).get("validation", {})
        if "calibration" in metrics:
            connection.execute(
                versions.update()
                .where(versions.c.model_name == row.model_name, versions.c.version == row.version)
                .values(calibration=row.spec["calibration"])
            )
