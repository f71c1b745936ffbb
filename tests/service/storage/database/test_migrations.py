"""The migrations build the schema that the code uses."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from service.storage.backups import back_up, restore
from service.storage.blobs import LocalBlobs
from service.storage.database import Database, UnusableDatabase, present_revision
from service.storage.database.database import MIGRATIONS
from service.storage.database.tables import datasets, metadata


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Of a database without any table."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'service.db'}"
        return
    server = sa.make_url(request.getfixturevalue("postgres_url"))
    with psycopg.connect(server.render_as_string(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE empty")
        yield server.set(database="empty").render_as_string()
        connection.execute("DROP DATABASE empty WITH (FORCE)")


def test_first_release_has_few_migrations() -> None:
    """Their numbers are higher than any from before it, which are refused."""
    names = [path.name[:4] for path in (MIGRATIONS / "versions").glob("[0-9]*.py")]
    assert sorted(names) == ["0111", "0112"]


def test_migrated_schema_equals_the_tables(empty_database_url: str) -> None:
    """Alembic finds no difference, types included, between a migrated database and `tables`."""
    database = Database(empty_database_url)
    database.migrate()
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    database.close()


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_database_that_cannot_hold_every_text_is_refused(postgres_url: str, encoding: str) -> None:
    """Before there is any table, and with what to do."""
    server = sa.make_url(postgres_url)
    with psycopg.connect(server.render_as_string(), autocommit=True) as connection:
        connection.execute(
            f"CREATE DATABASE other ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
        )
        database = Database(server.set(database="other").render_as_string())
        try:
            with pytest.raises(UnusableDatabase, match=f"has the encoding {encoding}, .* UTF8"):
                database.migrate()
            assert present_revision(database) is None
        finally:
            database.close()
            connection.execute("DROP DATABASE other WITH (FORCE)")


NEXT = """
import sqlalchemy as sa
from alembic import op

revision = "0113"
down_revision = "0112"


def upgrade() -> None:
    with op.batch_alter_table("datasets") as table:
        table.add_column(sa.Column("color", sa.String(), nullable=False, server_default="red"))
"""


@pytest.fixture
def next_migrations(tmp_path: Path) -> Path:
    """Those of a version after this one."""
    folder = tmp_path / "migrations"
    shutil.copytree(MIGRATIONS, folder)
    (folder / "versions" / "0113_color.py").write_text(NEXT)
    return folder


def add_dataset(database: Database) -> None:
    fill: dict[type, Any] = {str: "x", int: 1, float: 1.5, bool: True}
    row = {column.name: fill.get(column.type.python_type, {}) for column in datasets.columns}
    with database.write() as connection:
        connection.execute(datasets.insert().values(row))


def colors(database: Database) -> list[tuple[str, str]]:
    with database.read() as connection:
        rows = connection.execute(sa.text("SELECT id, color FROM datasets"))
        return [(row.id, row.color) for row in rows]


def test_rows_are_kept_by_an_upgrade(empty_database_url: str, next_migrations: Path) -> None:
    database = Database(empty_database_url)
    database.migrate()
    add_dataset(database)
    database.close()
    newer = Database(empty_database_url, next_migrations)
    newer.migrate()
    assert (present_revision(newer), colors(newer)) == ("0113", [("x", "red")])
    newer.close()


def test_column_of_weights_becomes_a_role(empty_database_url: str) -> None:
    """Of datasets from before there were groups and times."""
    database = Database(empty_database_url)
    database.migrate("0111")
    with database.write() as connection:
        names = [one["name"] for one in sa.inspect(connection).get_columns("datasets")]
        types = {column.name: column.type.python_type for column in datasets.columns}
        kinds = {str: "'x'", int: "1", float: "1.5", bool: "true"}
        cells = [kinds.get(types.get(name, str), "'[]'") for name in names]
        for key, weight in (("a", "'w'"), ("b", "NULL")):
            own = {"id": f"'{key}'", "upload_key": f"'{key}'", "weight": weight}
            own["number"] = str(ord(key))
            row = [own.get(name, cell) for name, cell in zip(names, cells, strict=True)]
            quoted = ", ".join(f'"{name}"' for name in names)
            insert = f"INSERT INTO datasets ({quoted}) VALUES ({', '.join(row)})"
            connection.execute(sa.text(insert))
    database.migrate()
    with database.read() as connection:
        rows = connection.execute(sa.select(datasets.c.beside).order_by(datasets.c.id)).scalars()
        assert list(rows) == [[{"role": "weight", "name": "w", "kind": "number"}], []]
    database.close()


def test_backup_is_restored_by_a_newer_version(
    empty_database_url: str, next_migrations: Path, tmp_path: Path
) -> None:
    """The tables are made as they were, filled, and then upgraded."""
    older = Database(f"sqlite:///{tmp_path / 'older.db'}")
    older.migrate()
    add_dataset(older)
    back_up(older, LocalBlobs(tmp_path / "older"), tmp_path / "backup.tar")
    older.close()
    newer = Database(empty_database_url, next_migrations)
    restore(newer, LocalBlobs(tmp_path / "newer"), tmp_path / "backup.tar")
    assert (present_revision(newer), colors(newer)) == ("0113", [("x", "red")])
    newer.close()


@pytest.mark.parametrize("revision", ["0017", "0102", "0110"])
def test_tables_from_before_the_first_release_are_refused(
    empty_database_url: str, revision: str
) -> None:
    database = Database(empty_database_url)
    database.migrate()
    with database.write() as connection:
        connection.execute(sa.text(f"UPDATE alembic_version SET version_num = '{revision}'"))
    with pytest.raises(UnusableDatabase, match=r"made before 0\.1\.0"):
        database.migrate()
    database.close()


def test_tables_of_a_newer_version_are_left_alone(empty_database_url: str) -> None:
    """The error says what to do."""
    database = Database(empty_database_url)
    database.migrate()
    with database.write() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(UnusableDatabase, match="install that version, or restore an older backup"):
        database.migrate()
    assert present_revision(database) == "9999"
    database.close()


def test_a_start_without_anything_to_migrate_has_no_use_for_alembic(tmp_path: Path) -> None:
    """Which takes a tenth of a second and megabytes; the names of the files say what is newest."""
    url = f"sqlite:///{tmp_path / 'service.db'}"
    database = Database(url)
    database.migrate()
    assert present_revision(database) == database.revisions[0]
    database.close()
    code = (
        "import sys; from service.storage.database.database import Database; "
        f"Database({url!r}).migrate(); assert 'alembic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_services_that_start_together_migrate_once(empty_database_url: str) -> None:
    """They wait for each other; a later start finds the schema in place."""
    databases = [Database(empty_database_url) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(Database.migrate, databases[:3]))
    databases[3].migrate()
    with databases[0].read() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM alembic_version")) == 1
    for database in databases:
        database.close()
