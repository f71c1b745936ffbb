"""What Alembic runs: migrations inside the transaction that `Database.migrate` opened."""

from __future__ import annotations

from alembic import context

from service.storage.database.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite cannot alter a table: Alembic copies it instead.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
