"""One sheet of a workbook as lines of JSON, a list each: a process of its own.

The library keeps a sheet as a grid as large as its farthest cell. If there is not the memory, the
process is aborted, and the one that started it says why.
"""

from __future__ import annotations

import datetime
import json
import resource
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
from python_calamine import (
    CalamineError,
    CalamineWorkbook,
    PasswordError,
    SheetTypeEnum,
    SheetVisibleEnum,
)

TIME_LIMIT_S = 240
"""A little less than an upload may take in all."""


def main() -> None:
    """Standard input is the task in JSON, standard output what was found."""
    task = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(TIME_LIMIT_S)  # ends the process, whatever it does
    memory = int(task["memory_bytes"])
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    print(json.dumps(convert(task)))


def convert(task: Mapping[str, Any]) -> dict[str, Any]:
    """Write the sheet's rows to the file `out`. Returns `sheet`, `width` and `first_row`, or
    `error` with what more is known."""
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
    return {"sheet": name, "sheets": names, **_write(sheet.iter_rows(), task)}


def _write(rows: Iterator[list[Any]], task: Mapping[str, Any]) -> dict[str, Any]:
    words = frozenset(task["missing"])
    width = n_rows = size = 0
    used: set[str] = set()
    with Path(task["out"]).open("wb") as out:
        for row in rows:
            cells = [_plain(cell) for cell in row]
            for position, cell in enumerate(cells):
                if isinstance(cell, str) and cell in words:
                    if cell:
                        used.add(cell)
                    cells[position] = None
                elif isinstance(cell, str) and len(cell.encode()) > task["cell_bytes"]:
                    place = {"row": n_rows, "column": position, "value": cell[:64]}
                    return {"error": "cell", **place}
            last = max((i for i, cell in enumerate(cells) if cell is not None), default=-1)
            if last == -1:
                continue
            width = max(width, last + 1)
            n_rows += 1
            if n_rows > task["rows"] + 1:
                return {"error": "rows"}
            size += out.write(orjson.dumps(cells) + b"\n")
            if size > task["inflated_bytes"]:
                return {"error": "inflated"}
    if n_rows == 0:
        return {"error": "empty"}
    return {"width": width, "n_rows": n_rows, "missing": sorted(used)}


def _plain(cell: Any) -> Any:
    """A value of JSON: dates as texts, times as parts of a day."""
    if isinstance(cell, float):
        return int(cell) if cell.is_integer() and abs(cell) < 2**53 else cell
    if isinstance(cell, str):
        return cell.strip()
    if isinstance(cell, datetime.timedelta):
        return cell / datetime.timedelta(days=1)
    if isinstance(cell, datetime.time):
        since = datetime.datetime.combine(datetime.date.min, cell) - datetime.datetime.min
        return since / datetime.timedelta(days=1)
    if isinstance(cell, datetime.date):
        return cell.isoformat()
    return cell


if __name__ == "__main__":
    main()
