"""The migrations build the schema that the code uses."""

from __future__ import annotations

from pathlib import Path

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from service.storage.database import Database
from service.storage.tables import metadata


def test_migrated_schema_equals_the_tables(tmp_path: Path) -> None:
    """Alembic finds no difference, types included, between a migrated database and `tables`."""
    database = Database(f"sqlite:///{tmp_path / 'service.db'}")
    database.migrate()
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    database.close()


def test_migrating_again_changes_nothing(tmp_path: Path) -> None:
    """A second start finds the schema in place."""
    database = Database(f"sqlite:///{tmp_path / 'service.db'}")
    revisions = []
    for _ in range(2):
        database.migrate()
        with database.read() as connection:
            revisions.append(MigrationContext.configure(connection).get_current_revision())
    assert revisions[0] is not None
    assert revisions[0] == revisions[1]
    database.close()
