"""Rows to predict in Parquet, which the parsing process writes as CSV."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from service.rows.faults import inflates_too_much, too_many
from service.rows.formats.parquet import TEXT, ParquetFile, memory_for_directory, reported
from service.rows.spec import ConvertSpec
from service.storage.locked_duckdb import connect


def as_csv(spec: ConvertSpec, text: Path) -> None:
    """Write rows to predict. Raises ServiceError."""
    limits, path = spec.file.limits, Path(spec.file.data).resolve()
    with connect(path) as connection, reported(spec.file):
        file = ParquetFile(connection, str(path))
        with memory_for_directory(path):
            n_samples = file.n_samples()
        if n_samples > limits.rows:
            raise too_many("rows", limits.rows)
        columns = file.columns()
        wanted = spec.columns if spec.columns is None else {name.strip() for name in spec.columns}
        used = [one for one in columns if wanted is None or one.name.strip() in wanted]
        n_bytes = n_samples * 8 * len(used)
        n_bytes += sum(file.text_bytes(column) for column in used if column.type == TEXT)
        if n_bytes > limits.inflated_bytes:
            raise inflates_too_much("file", limits.inflated_bytes)
        cells = [one.cell(limits.cell_bytes) if one in used else "NULL" for one in columns]
        with text.open("w", encoding="utf-8", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow([column.name for column in columns])
            for rows in file.rows(cells):
                writer.writerows(map(_text, row) for row in rows)


def _text(cell: Any) -> str:
    """A value of JSON as a text file has it."""
    if type(cell) is float and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    return "" if cell is None else str(cell).lower() if type(cell) is bool else str(cell)
