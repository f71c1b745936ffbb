"""Arrays as files of their formats."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt


def npy(array: npt.NDArray[Any], version: tuple[int, int] | None = None) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version, allow_pickle=True)
    return file.getvalue()


def parquet(columns: dict[str, Any], options: str = "") -> bytes:
    """Each column an array, masked where it is NULL; `options` are those of DuckDB's COPY."""
    with tempfile.TemporaryDirectory() as folder, duckdb.connect(":memory:") as connection:
        path = Path(folder) / "file"
        connection.register("columns", {f"c{i}": array for i, array in enumerate(columns.values())})
        names = (f"""c{i} AS "{name.replace('"', '""')}\"""" for i, name in enumerate(columns))
        connection.execute(
            f"COPY (SELECT {', '.join(names)} FROM columns) TO '{path}' (FORMAT parquet{options})"
        )
        return path.read_bytes()
