"""Queries in the locked DuckDB can use only the allowed files."""

from __future__ import annotations

import ast
from pathlib import Path

import duckdb
import pytest

from service.storage.locked_duckdb import connect, identifier, literal

SERVICE = Path(__file__).parents[3] / "service"


@pytest.fixture
def allowed(tmp_path: Path) -> Path:
    path = tmp_path / "it's allowed.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT 1 AS a) TO {literal(str(path))} (FORMAT parquet)")
        connection.execute(f"COPY (SELECT 2 AS a) TO {literal(str(tmp_path / 'other'))}")
    return path


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_blob('/proc/self/environ')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM read_parquet('{folder}/*')",
        "SELECT * FROM read_parquet('{folder}/../{name}/other')",
        "SELECT * FROM read_csv('{folder}/other')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM read_parquet('http://127.0.0.1:9/x')",
        "SELECT * FROM sniff_csv('/etc/passwd')",
        "COPY (SELECT 1) TO '{folder}/new'",
        "COPY (SELECT 1) TO '/dev/stderr'",
        "EXPORT DATABASE '{folder}/all'",
        "ATTACH '{folder}/new.db'",
        "ATTACH 'sqlite:{folder}/other'",
        "INSTALL httpfs",
        "INSTALL '{folder}/other'",
        "LOAD httpfs",
        "LOAD '{folder}/other'",
        "LOAD sqlite",
        "FORCE INSTALL spatial FROM community",
        "SET enable_external_access = true",
        "SET allowed_paths = ['/etc/passwd']",
        "SET allowed_directories = ['/']",
        "SET lock_configuration = false",
        "RESET lock_configuration",
        "RESET allowed_paths",
        "SET memory_limit = '100GB'",
        "SET threads = 8",
        "SET temp_directory = '{folder}'",
        "SET autoinstall_known_extensions = true",
        "SET python_enable_replacements = true",
        "PRAGMA enable_profiling = 'json'",
        "PRAGMA profiling_output = '{folder}/new'",
        "SELECT * FROM allowed",
        "CREATE SECRET (TYPE s3, KEY_ID 'a', SECRET 'b')",
    ],
)
def test_forbidden_queries_fail(allowed: Path, query: str) -> None:
    """Access to files, network, extensions, settings and Python variables."""
    folder = allowed.parent
    before = sorted(folder.iterdir())
    with connect(allowed) as connection, pytest.raises(duckdb.Error):
        connection.execute(query.format(folder=folder, name=folder.name)).fetchall()
    assert sorted(folder.iterdir()) == before


def test_allowed_file_is_read_and_written(allowed: Path) -> None:
    """With any name."""
    with connect(allowed) as connection:
        query = "SELECT a FROM read_parquet($1)"
        assert connection.execute(query, [str(allowed)]).fetchall() == [(1,)]
        options = "(FORMAT parquet, USE_TMP_FILE false)"
        connection.execute(f"COPY (SELECT 3 AS a) TO {literal(str(allowed))} {options}")
        assert connection.execute(query, [str(allowed)]).fetchall() == [(3,)]


def test_memory_is_bounded() -> None:
    """Data beyond the limit are not written to disk."""
    with connect(memory="20MB") as connection, pytest.raises(duckdb.OutOfMemoryException):
        connection.execute("SELECT count(DISTINCT range) FROM range(10_000_000)").fetchall()


def test_names_and_texts_are_quoted() -> None:
    """They are never parsed as SQL."""
    hostile = """a"; DROP TABLE t; --'"\\"""
    with connect() as connection:
        query = f"SELECT {literal(hostile)} AS {identifier(hostile)}"
        result = connection.execute(query)
        assert [column[0] for column in result.description or ()] == [hostile]
        assert result.fetchall() == [(hostile,)]


def test_no_other_module_opens_duckdb() -> None:
    """`locked_duckdb` is the only module that connects."""
    connecting = {
        path.relative_to(SERVICE).as_posix()
        for path in SERVICE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "duckdb"
        and node.attr not in ("DuckDBPyConnection", "Error", "OutOfMemoryException")
    }
    assert connecting == {"storage/locked_duckdb.py"}
