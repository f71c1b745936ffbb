"""One sheet of a workbook as CSV: a process of its own.

The library keeps a sheet as a grid as large as its farthest cell. If there is not the memory, the
process is aborted, and the one that started it says why.
"""

from __future__ import annotations

import csv
import datetime
import json
import re
import resource
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from python_calamine import (
    CalamineError,
    CalamineSheet,
    CalamineWorkbook,
    PasswordError,
    SheetTypeEnum,
    SheetVisibleEnum,
)

TIME_LIMIT_S = 240
"""A little less than an upload may take in all."""
_LIKE_THOUSANDS = re.compile(r"-?[1-9][0-9]{0,2}\.[0-9]{3}")
"""In a text 1.234 has two readings. Cells of numbers have one."""


def main() -> None:
    """Standard input is the task in JSON, standard output what was found."""
    task = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(TIME_LIMIT_S)  # ends the process, whatever it does
    memory = int(task["memory_bytes"])
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    print(json.dumps(convert(task)))


def convert(task: Mapping[str, Any]) -> dict[str, Any]:
    """Write the sheet to the file `out`. Returns the name of the `sheet`, or `error` with what more
    is known."""
    try:
        with CalamineWorkbook.from_path(task["path"]) as workbook:
            return _convert(workbook, task)
    except PasswordError:
        return {"error": "encrypted"}
    except (CalamineError, OSError, ValueError):
        return {"error": "damaged"}


def _convert(workbook: CalamineWorkbook, task: Mapping[str, Any]) -> dict[str, Any]:
    sheets = [one for one in workbook.sheets_metadata if one.typ == SheetTypeEnum.WorkSheet]
    names = [one.name for one in sheets]
    visible = [one.name for one in sheets if one.visible == SheetVisibleEnum.Visible]
    name = task["sheet"] or next(iter([*visible, *names]), None)
    if name not in names:
        return {"error": "sheet", "sheets": names}
    sheet = workbook.get_sheet_by_name(name)
    if sheet.width > task["columns"]:
        return {"error": "columns"}
    return {"sheet": name, "sheets": names, **_write(sheet, task)}


def _write(sheet: CalamineSheet, task: Mapping[str, Any]) -> dict[str, Any]:
    """Rows and columns without a cell are left out."""
    used: set[int] = set()
    n_rows = size = 0
    for row in sheet.iter_rows():
        cells = {i for i, cell in enumerate(row) if cell not in ("", None)}
        used |= cells
        n_rows += bool(cells)
    if n_rows == 0:
        return {"error": "empty"}
    if n_rows > task["rows"] + 1:
        return {"error": "rows"}
    columns = sorted(used)
    with Path(task["out"]).open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        for row in sheet.iter_rows():
            texts = [_text(row[i]) for i in columns]
            if any(texts):
                size += writer.writerow(texts)
            if size > task["inflated_bytes"]:
                return {"error": "inflated"}
    return {}


def _text(cell: Any) -> str:
    """As a text file has it: decimal points, ISO dates, times as parts of a day."""
    if isinstance(cell, str):
        return cell.strip()
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, datetime.timedelta):
        cell = cell / datetime.timedelta(days=1)
    if isinstance(cell, datetime.time):
        since = datetime.datetime.combine(datetime.date.min, cell) - datetime.datetime.min
        cell = since / datetime.timedelta(days=1)
    if isinstance(cell, datetime.date):
        return cell.isoformat()
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    text = "" if cell is None else repr(cell)
    return f"{text}0" if _LIKE_THOUSANDS.fullmatch(text) else text


if __name__ == "__main__":
    main()
