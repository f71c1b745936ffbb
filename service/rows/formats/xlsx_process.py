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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
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
MOST_TITLES = 20
"""Rows of one cell above a table."""
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
    """Write the table of a sheet to the file `out`. Returns the name of the `sheet` and the `range`
    of the table, or `error`, with what more is known."""
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
    candidates = [task["sheet"]] if task["sheet"] else [*visible, *names][: len(visible) or 1]
    if not candidates or candidates[0] not in names:
        return {"error": "sheet", "sheets": names}
    best: tuple[str, CalamineSheet, Area] | None = None
    without: list[str] = []
    for name in candidates:
        sheet = workbook.get_sheet_by_name(name)
        area = area_of(sheet, task["columns"])
        if area is not None and (best is None or area.is_table):
            best = name, sheet, area
            if area.is_table:
                break
        without.append(name)
    if best is None:
        return {"error": "empty", "sheet": candidates[0], "sheets": names}
    name, sheet, area = best
    if len(area.columns) > task["columns"]:
        return {"error": "columns"}
    if area.n_rows > task["rows"] + 1:
        return {"error": "rows"}
    described = {
        "sheet": name,
        "sheets": names,
        "range": area.range(sheet),
        "left_out": area.left_out,
    }
    return (
        described | {"without": [one for one in without if one != name]} | _write(sheet, area, task)
    )


@dataclass(slots=True)
class Area:
    """Rows of a sheet up to a blank one, or a table of several such."""

    first: int
    last: int = 0
    n_rows: int = 0
    ends: dict[int, int] = field(default_factory=dict)
    """The last row with a cell in each column that has any."""
    named: bool = False
    """All cells of its first row are texts."""
    left_out: list[str] = field(default_factory=list)
    """What is near the table, and not in it."""

    @property
    def columns(self) -> list[int]:
        return sorted(self.ends)

    @property
    def is_table(self) -> bool:
        return len(self.ends) > 1 and self.n_rows > 1

    def join(self, other: Area) -> None:
        self.last, self.n_rows = other.last, self.n_rows + other.n_rows
        self.ends |= other.ends

    def range(self, sheet: CalamineSheet) -> str:
        """Such as A1:D31."""
        row, column = sheet.start or (0, 0)
        first, last = self.columns[0] + column, self.columns[-1] + column
        return f"{_letters(first)}{self.first + row + 1}:{_letters(last)}{self.last + row + 1}"


def area_of(sheet: CalamineSheet, most_columns: int) -> Area | None:
    """The table of a sheet: without a title above it, and another table below or beside it."""
    area: Area | None = None
    title: Area | None = None
    for block in _blocks(sheet):
        alone = len(block.ends) == 1 and block.n_rows <= MOST_TITLES
        if area is None and title is None and alone:
            title = block
        elif area is None:
            area = block
            if title is not None and len(block.ends) > 1:
                area.left_out.append("a title above it")
            elif title is not None:
                title.join(block)
                area = title
        elif block.is_table and block.named and block.ends.keys() != area.ends.keys():
            area.left_out.append("another table below it")
            break
        else:
            area.join(block)
    area = area or title
    if area is not None and len(area.ends) <= most_columns:
        _leave_out_beside(area)
    return area


def _blocks(sheet: CalamineSheet) -> Iterator[Area]:
    block: Area | None = None
    for number, row in enumerate(sheet.iter_rows()):
        cells = [i for i, cell in enumerate(row) if cell not in ("", None)]
        if not cells:
            if block is not None:
                yield block
            block = None
            continue
        if block is None:
            block = Area(number, named=all(isinstance(row[i], str) for i in cells))
        block.last, block.n_rows = number, block.n_rows + 1
        block.ends.update(dict.fromkeys(cells, number))
    if block is not None:
        yield block


def _leave_out_beside(table: Area) -> None:
    """A table beside a blank column is another one if it is much shorter."""
    groups: list[list[int]] = []
    for i in table.columns:
        if groups and groups[-1][-1] == i - 1:
            groups[-1].append(i)
        else:
            groups.append([i])
    middle = (table.first + table.last) / 2
    for group in groups:
        if 1 < len(group) < len(table.ends) and max(table.ends[i] for i in group) < middle:
            for i in group:
                del table.ends[i]
            table.left_out.append("another table beside it")


def _letters(column: int) -> str:
    name = ""
    while column >= 0:
        name = chr(ord("A") + column % 26) + name
        column = column // 26 - 1
    return name


def _write(sheet: CalamineSheet, area: Area, task: Mapping[str, Any]) -> dict[str, Any]:
    """Rows and columns without a cell are left out. `padded`: whether cells have blanks around
    them."""
    columns, size, padded = area.columns, 0, False
    with Path(task["out"]).open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\r\n")  # cells with either are quoted
        for row in islice(sheet.iter_rows(), area.first, area.last + 1):
            texts = [_text(row[i]) for i in columns]
            stripped = list(map(str.strip, texts))
            if any(stripped):
                size += writer.writerow(texts)
                padded |= stripped != texts
            if size > task["inflated_bytes"]:
                return {"error": "inflated"}
    return {"padded": padded}


def _text(cell: Any) -> str:
    """As a text file has it: decimal points, ISO dates, times as parts of a day."""
    if isinstance(cell, str):
        return cell
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
