"""DuckDB for data of others: it sees the files it is told of, and nothing can change that."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb

MEMORY = "256MB"


def connect(*paths: Path, memory: str = MEMORY) -> duckdb.DuckDBPyConnection:
    """A database in memory, on one thread, that reads and writes `paths` alone.

    No other file, no extension, no Python variable, no space on disk for what exceeds `memory`.
    """
    import duckdb  # 60 MB, which most processes do without

    config: dict[str, Any] = {
        "threads": 1,
        "memory_limit": memory,
        "temp_directory": "",
        "autoload_known_extensions": False,
        "autoinstall_known_extensions": False,
        "allow_community_extensions": False,
        "python_enable_replacements": False,
    }
    connection = duckdb.connect(":memory:", config=config)
    # In this order: the paths cannot be given any more once access is off.
    allowed = ", ".join(literal(str(path)) for path in paths)
    connection.execute(f"SET allowed_paths = [{allowed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def literal(text: str) -> str:
    """A text in SQL, where no parameter may stand."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'
