"""XLSX: one sheet of a workbook, its first row the names of the columns.

Its parts are inflated once to see how large they are. Another process reads the sheet.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from service.errors import InvalidContent, InvalidRequest, ServiceError
from service.rows.cell_texts.words import MISSING_TEXTS
from service.rows.faults import Faults, inflates_too_much, refuse, too_many
from service.rows.formats import xlsx_process
from service.rows.formats.archive import Archive, BadArchive
from service.rows.kinds.building import Builder
from service.rows.kinds.dialect import is_title, title
from service.rows.kinds.feature import Batch
from service.rows.kinds.roles import arranged
from service.rows.spec import ParseSpec
from service.rows.table.writers import Table

MAX_PARTS = 2000
"""Sheets, pictures and other parts of one workbook."""
MEMORY_BYTES = 32 * 1024 * 1024
"""Of the process that reads, for any small workbook: it begins with a third."""
MEMORY_RATIO = 64
"""Memory for each byte that was sent: a cell takes two or more of them, in memory 64 or less."""
MOST_MEMORY_BYTES = 3 * 1024**3 // 2
ROWS_AT_ONCE = 4096
HINT = "save the workbook again as .xlsx, or the sheet as CSV"


def read(spec: ParseSpec) -> Table:
    """Write the arrays. Raises ServiceError with every fault of the sheet."""
    rows = Path(spec.out) / "rows"
    _check_archive(spec)
    found = _converted(spec, rows)
    try:
        return _read_rows(spec, found, rows)
    except ServiceError as error:
        raise _of_sheet(error, found["sheet"]) from None


def _read_rows(spec: ParseSpec, found: dict[str, Any], rows: Path) -> Table:
    width: int = found["width"]
    with rows.open("rb") as file:
        first = _cells(file.readline(), width)
    header = _has_header(spec, first)
    if header and is_title(texts := [str(cell or "") for cell in first], width):
        raise title(texts, width)
    names: list[str] | None = None
    if header:
        names = ["" if cell is None else str(cell) for cell in first]
    unnamed = [i for i, name in enumerate(names or []) if not name and width > 1]
    columns = arranged(spec, width, names, unnamed)

    def passes(_: Faults) -> Iterator[Batch]:
        with rows.open("rb") as file:
            if header:
                file.readline()
            while lines := file.readlines(ROWS_AT_ONCE * 16):
                yield list(zip(*(_cells(line, width) for line in lines), strict=True))

    table = Builder(spec, columns, passes, typed=True).build(comma_likely=False)
    reading = {
        "sheet": found["sheet"],
        "header": "present" if header else "absent",
        "missing": found["missing"],
        "columns": (table.reading or {}).get("columns", {}),
    }
    return replace(table, reading=reading)


def _has_header(spec: ParseSpec, first: list[Any]) -> bool:
    """As in CSV: the first row names the columns if it holds texts only."""
    if spec.header == "auto":
        return all(cell is None or isinstance(cell, str) for cell in first)
    return spec.header == "present"


def _cells(line: bytes, width: int) -> list[Any]:
    cells: list[Any] = orjson.loads(line)
    return cells[:width] + [None] * (width - len(cells))


def _check_archive(spec: ParseSpec) -> None:
    """Raises InvalidContent for what is not an archive of XML, and TooLarge."""
    try:
        archive = Archive(Path(spec.data), MAX_PARTS)
        if "[Content_Types].xml" not in archive.names:
            raise BadArchive("the archive is not a workbook")
        archive.check_inflated(spec.limits.inflated_bytes)
    except BadArchive as error:
        raise refuse("archive-unsupported", error.message, value=error.member, hint=HINT) from None


def _converted(spec: ParseSpec, rows: Path) -> dict[str, Any]:
    """What the process found. Raises ServiceError."""
    limits, sent = spec.limits, Path(spec.data).stat().st_size
    task = {
        "path": spec.data,
        "out": str(rows),
        "sheet": spec.sheet,
        "missing": sorted(MISSING_TEXTS | frozenset(spec.missing)),
        "rows": limits.rows,
        "columns": limits.columns + 2,  # of labels and weights
        "cell_bytes": limits.cell_bytes,
        "inflated_bytes": limits.inflated_bytes,
        "memory_bytes": min(MEMORY_BYTES + MEMORY_RATIO * sent, MOST_MEMORY_BYTES),
    }
    done = subprocess.run(
        [sys.executable, "-m", xlsx_process.__name__],
        input=json.dumps(task).encode(),
        capture_output=True,
        check=False,
        # To print a trace without memory may take forever.
        env={**os.environ, "RUST_BACKTRACE": "0"},
    )
    if done.returncode != 0:  # of many rows and columns between few cells, or a file that lies
        message = "the sheet needs too much memory or time"
        hint = "delete what lies far outside of the table, or save the sheet as CSV"
        raise refuse("parsing-failed", message, hint=hint)
    found: dict[str, Any] = json.loads(done.stdout)
    if "error" in found:
        raise _error(found, spec)
    return found


def _error(found: dict[str, Any], spec: ParseSpec) -> ServiceError:
    error, sheets = found["error"], found.get("sheets", [])
    if error == "rows":
        return too_many("rows", spec.limits.rows)
    if error == "columns":
        return too_many("columns", spec.limits.columns)
    if error == "inflated":
        return inflates_too_much("file", spec.limits.inflated_bytes)
    if error == "sheet":
        listed = ", ".join(repr(name[:64]) for name in sheets[:20])
        message = f"the workbook has no sheet {spec.sheet!r}; it has {listed}"
        if not sheets:
            return refuse("empty-data", "the workbook has no sheet with cells")
        return InvalidRequest("invalid-parameter", message)
    if error == "empty":
        hint = None
        if len(sheets) > 1:
            others = [repr(name[:64]) for name in sheets if name != found["sheet"]]
            hint = f"say sheet= to read another one: {', '.join(others[:20])}"
        return refuse("empty-data", f"the sheet {found['sheet']!r} is empty", hint=hint)
    if error == "cell":
        place = f"row {found['row']}, column {found['column']}"
        message = f"{place}: the cell has more than {spec.limits.cell_bytes:,} bytes"
        return refuse(
            "csv-cell-too-large",
            message,
            row=found["row"],
            column=found["column"],
            value=found["value"],
            hint="shorten it, or delete the column",
        )
    message = "the workbook is encrypted" if error == "encrypted" else "the workbook is damaged"
    return refuse("archive-unsupported", message, hint=HINT)


def _of_sheet(error: ServiceError, sheet: str) -> ServiceError:
    """The same error, which names the sheet."""
    if not isinstance(error, InvalidContent):
        return error
    where = f"sheet {sheet[:64]!r}: "
    faults = tuple(replace(fault, message=where + fault.message) for fault in error.faults)
    return InvalidContent(
        error.code, where + error.detail, faults, error.faults_total, extra=error.extra
    )
