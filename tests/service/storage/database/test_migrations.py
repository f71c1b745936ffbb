"""The migrations build the schema that the code uses."""

from __future__ import annotations

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

from service.storage.database import Database, NewerTables, present_revision, revisions
from service.storage.database.tables import metadata


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


def test_migrated_schema_equals_the_tables(empty_database_url: str) -> None:
    """Alembic finds no difference, types included, between a migrated database and `tables`."""
    database = Database(empty_database_url)
    database.migrate()
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    database.close()


def test_rows_of_the_first_schema_are_kept(empty_database_url: str) -> None:
    """A service that is brought up to date goes on with the jobs that it had."""
    database = Database(empty_database_url)
    database.migrate("0001")
    with database.write() as connection:
        first = sa.MetaData()
        first.reflect(connection)
        fill: dict[type, Any] = {str: "x", int: 1, float: 1.0, bool: True}
        for name in ("datasets", "jobs", "models", "model_versions", "model_aliases", "job_trace"):
            table = first.tables[name]
            row = {column.name: fill.get(column.type.python_type, {}) for column in table.columns}
            connection.execute(table.insert().values(row))
    database.migrate()
    with database.read() as connection:
        for table in first.tables.values():
            if table.name != "alembic_version":
                assert connection.execute(sa.select(table)).all() != [], table.name
        job = connection.execute(sa.select(metadata.tables["jobs"])).one()
        dataset = connection.execute(sa.select(metadata.tables["datasets"])).one()
    assert (job.id, job.caller, job.pause_requested) == ("x", "", False)
    assert dataset.uploaded_at == dataset.created_at
    database.close()


def test_models_know_whether_they_give_probabilities(empty_database_url: str) -> None:
    """Of those trained before the column there was, too: asking for it alone did not make them."""
    database = Database(empty_database_url)
    database.migrate("0014")
    measured: list[dict[str, Any]] = [{}, {"validation": {}}, {"validation": {"calibration": {}}}]
    with database.write() as connection:
        tables = sa.MetaData()
        tables.reflect(connection)
        connection.execute(
            tables.tables["models"].insert().values(name="iris", created_at=0, last_version=3)
        )
        versions = tables.tables["model_versions"]
        fill: dict[type, Any] = {str: "x", int: 1, float: 1.0}
        row = {
            column.name: fill.get(column.type.python_type, {})
            for column in versions.columns
            if not column.nullable
        }
        for number, metrics in enumerate(measured, start=1):
            given = {
                "model_name": "iris",
                "version": number,
                "spec": {"calibration": "isotonic"},
                "result": {"metrics": metrics},
            }
            connection.execute(versions.insert().values({**row, **given}))
    database.migrate()
    columns = metadata.tables["model_versions"].c
    with database.read() as connection:
        found = connection.scalars(sa.select(columns.calibration).order_by(columns.version))
        assert list(found) == [None, None, "isotonic"]
    database.close()


def test_labels_of_before_can_be_filtered_by(empty_database_url: str) -> None:
    """Those of jobs and datasets that had none in rows of their own."""
    database = Database(empty_database_url)
    database.migrate("0015")
    with database.write() as connection:
        tables = sa.MetaData()
        tables.reflect(connection)
        fill: dict[type, Any] = {str: "x", int: 1, float: 1.5, bool: True}
        for name in ("datasets", "jobs"):
            table = tables.tables[name]
            row = {
                column.name: fill.get(column.type.python_type, {})
                for column in table.columns
                if not column.nullable
            }
            connection.execute(table.insert().values({**row, "labels": {"team": "a", "n": "1"}}))
    database.migrate()
    with database.read() as connection:
        for name in ("dataset_labels", "job_labels"):
            table = metadata.tables[name]
            found = {tuple(row) for row in connection.execute(sa.select(table))}
            assert found == {("x", "team", "a", 1.5), ("x", "n", "1", 1.5)}
    database.close()


def test_tables_of_a_newer_version_are_left_alone(empty_database_url: str) -> None:
    """Whoever goes back a version is told what to do, by a sentence."""
    database = Database(empty_database_url)
    database.migrate()
    with database.write() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(NewerTables, match="install that version, or restore a backup"):
        database.migrate()
    assert present_revision(database) == "9999"
    database.close()


def test_a_start_without_anything_to_migrate_has_no_use_for_alembic(tmp_path: Path) -> None:
    """Which takes a tenth of a second and megabytes; the names of the files say what is newest."""
    url = f"sqlite:///{tmp_path / 'service.db'}"
    database = Database(url)
    database.migrate()
    assert present_revision(database) == revisions()[0]
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
