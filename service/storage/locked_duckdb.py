"""DuckDB for untrusted data: access only to given files, with a locked configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb

MEMORY = "256MB"


def connect(*paths: Path, memory: str = MEMORY) -> duckdb.DuckDBPyConnection:
    """A database in memory, on one thread, that can read and write only `paths`.

    It cannot use other files, extensions, Python variables, or the disk beyond `memory`.
    """
    import duckdb  # 60 MB, and most processes do not need it

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
    # In this order: paths cannot be allowed after access is disabled.
    allowed = ", ".join(literal(str(path)) for path in paths)
    connection.execute(f"SET allowed_paths = [{allowed}]")
    connection.execute("SET enable_external_access = false")
    # It takes statistics without NaN, as they are written, for those of a column without NaN.
    connection.execute("SET disabled_optimizers = 'statistics_propagation'")
    connection.execute("SET lock_configuration = true")
    return connection


def literal(text: str) -> str:
    """A quoted text, for SQL without parameters."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """A quoted name."""
    return '"' + name.replace('"', '""') + '"'
