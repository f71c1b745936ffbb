"""XLSX: one sheet of a workbook, read like a text file.

Its parts are inflated once to see how large they are. Another process writes the sheet as CSV.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from service.errors import InvalidContent, InvalidRequest, ServiceError
from service.rows.faults import inflates_too_much, refuse, too_many, warning
from service.rows.formats import text_table, xlsx_process
from service.rows.formats.archive import Archive, BadArchive
from service.rows.spec import CSV, MOST_OTHERS, ConvertSpec, ParseSpec, ReadLimits, SentFile
from service.rows.table.layout import has_header
from service.rows.table.writers import Table

MAX_PARTS = 2000
"""Sheets, pictures and other parts of one workbook."""
MEMORY_BYTES = 32 * 1024 * 1024
"""Of the process that reads, for any small workbook: it begins with a third."""
MEMORY_RATIO = 64
"""Memory for each byte that was sent: a cell takes two or more of them, in memory 64 or less."""
MOST_MEMORY_BYTES = 3 * 1024**3 // 2
HINT = "save the workbook again as .xlsx, without a password, or the sheet as CSV"


def read(spec: ParseSpec) -> Table:
    """Write the arrays. Raises ServiceError with every fault of the sheet."""
    text = Path(spec.out) / "sheet"
    found = _convert(spec.file.path, text, spec.limits, spec.asked.sheet)
    name = str(found["sheet"])
    as_csv = replace(spec, file=SentFile(str(text), CSV)).asking(delimiter=",", encoding="utf-8")
    try:
        table = text_table.read(as_csv, padded=found["padded"])
    except ServiceError as error:
        raise _of_sheet(error, name) from None
    reading = table.reading or {}
    parts = ("header", "first_line", "decimal", "thousands", "missing", "columns")
    reading = {part: reading[part] for part in parts if part in reading}
    return replace(
        table,
        reading={"sheet": name, "range": found["range"], **reading},
        warnings=[*_warnings(found), *table.warnings],
    )


def _warnings(found: dict[str, Any]) -> list[dict[str, Any]]:
    """What was not read of the workbook, though the caller did not say so."""
    left_out = found["left_out"] + [
        f"the sheet {name[:64]!r}, which has no table" for name in found["without"]
    ]
    if not left_out:
        return []
    message = (
        f"the table {found['range']} of the sheet {found['sheet'][:64]!r} was read; left out: "
    )
    return [warning("left-out-cells", message + ", ".join(left_out))]


def as_csv(spec: ConvertSpec) -> bool:
    """Write rows to predict; whether the first row seems to have names. Raises ServiceError."""
    out = Path(spec.out)
    _convert(spec.file.path, out, spec.limits)
    asked = ParseSpec(file=spec.file, out=spec.out, limits=spec.limits)
    with out.open(encoding="utf-8", newline="") as file:
        try:
            return has_header(asked, next(csv.reader(file), []), "")
        except InvalidContent:  # it may be either
            return False


def _check_archive(path: Path, limits: ReadLimits) -> None:
    """Raises InvalidContent for what is not an archive of XML, and TooLarge."""
    try:
        archive = Archive(path, MAX_PARTS)
        if not {"[Content_Types].xml", "content.xml"}.intersection(archive.names):
            raise BadArchive("the archive is not a workbook")
        archive.check_inflated(limits.inflated_bytes)
    except BadArchive as error:
        raise refuse("archive-unsupported", error.message, value=error.member, hint=HINT) from None


def _convert(data: str, text: Path, limits: ReadLimits, sheet: str | None = None) -> dict[str, Any]:
    """Write the sheet as CSV; its name, and the range of the table. Raises ServiceError."""
    path = Path(data)
    with path.open("rb") as file:
        packed = file.read(2) == b"PK"
    if packed:
        _check_archive(path, limits)
    sent = path.stat().st_size
    task = {
        "path": data,
        "out": str(text),
        "sheet": sheet,
        "rows": limits.rows,
        "columns": limits.columns + MOST_OTHERS,
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
    reply: dict[str, Any] = json.loads(done.stdout)
    if "error" in reply:
        raise _error(reply, limits, sheet)
    return reply


def _error(reply: dict[str, Any], limits: ReadLimits, sheet: str | None) -> ServiceError:
    error, sheets = reply["error"], reply.get("sheets", [])
    if error == "rows":
        return too_many("rows", limits.rows)
    if error == "columns":
        return too_many("columns", limits.columns)
    if error == "inflated":
        return inflates_too_much("file", limits.inflated_bytes)
    if error == "sheet":
        listed = ", ".join(repr(name[:64]) for name in sheets[:20])
        message = f"the workbook has no sheet {sheet!r}; it has {listed}"
        if not sheets:
            return refuse("empty-data", "the workbook has no sheet with cells")
        return InvalidRequest("invalid-parameter", message)
    if error == "empty":
        hint = None
        if len(sheets) > 1:
            others = [repr(name[:64]) for name in sheets if name != reply["sheet"]]
            hint = f"say sheet= to read another one: {', '.join(others[:20])}"
        return refuse("empty-data", f"the sheet {reply['sheet']!r} is empty", hint=hint)
    message = "the workbook is encrypted" if error == "encrypted" else "the workbook is damaged"
    return refuse("archive-unsupported", message, hint=HINT)


def _of_sheet(error: ServiceError, sheet: str) -> ServiceError:
    """The error with the name of the sheet."""
    if not isinstance(error, InvalidContent):
        return error
    where = f"sheet {sheet[:64]!r}: "
    faults = tuple(replace(fault, message=where + fault.message) for fault in error.faults)
    return InvalidContent(
        error.code, where + error.detail, faults, error.faults_total, extra=error.extra
    )
