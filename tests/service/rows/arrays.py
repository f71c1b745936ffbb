"""Arrays as files of their formats."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow


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


def arrow(table: pyarrow.Table, compression: str | None = None, rows: int | None = None) -> bytes:
    """A stream, of batches of this many rows."""
    out = io.BytesIO()
    options = pyarrow.ipc.IpcWriteOptions(compression=compression)
    with pyarrow.ipc.new_stream(out, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows)
    return out.getvalue()
