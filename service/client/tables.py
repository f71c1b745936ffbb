"""Tables of callers as named columns of plain cells: frames of pandas and polars, Arrow tables,
records, dictionaries of columns.

None of these libraries is imported: an object is known by its methods.
"""

from __future__ import annotations

import csv
import datetime
import decimal
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

_PLAIN = (str, int, float, bool, list, tuple, dict, type(None))
"""Types of JSON."""

Columns: TypeAlias = dict[str, list[Any]]
"""Cells by name: numbers, booleans, texts, None for a missing one."""


def columns_of(data: Any) -> Columns | None:
    """The columns of a table; None if the data are not one.

    Raises ValueError for a name that comes twice, cells that JSON does not have, and columns of
    several lengths.
    """
    pairs = _pairs(data)
    if pairs is None:
        return None
    columns: Columns = {}
    for name, cells in pairs:
        if str(name) in columns:
            raise ValueError(f"the column {str(name)!r} comes twice")
        columns[str(name)] = [plain(cell) for cell in cells]
        _require_plain(str(name), columns[str(name)])
    if len(set(map(len, columns.values()))) > 1:
        raise ValueError("the columns have several lengths")
    return columns


def _require_plain(name: str, cells: list[Any]) -> None:
    other = next((cell for cell in cells if not isinstance(cell, _PLAIN)), None)
    if other is not None:
        raise ValueError(
            f"the column {name!r} has cells of the type {type(other).__name__}: "
            "give numbers, booleans, texts or dates, such as their str()"
        )


def _pairs(data: Any) -> Iterable[tuple[Any, Iterable[Any]]] | None:
    if hasattr(data, "to_pydict") and hasattr(data, "column_names"):  # Arrow
        return zip(data.column_names, (one.to_pylist() for one in data.columns), strict=True)
    if hasattr(data, "get_columns"):  # polars
        return [(one.name, one.to_list()) for one in data.get_columns()]
    if hasattr(data, "columns") and hasattr(data, "to_numpy"):  # pandas
        return [(name, one.tolist()) for name, one in data.items()]
    if names := getattr(getattr(data, "dtype", None), "names", None):  # a structured array
        return [(name, data[name].tolist()) for name in names]
    if isinstance(data, Mapping):
        return [(name, _cells(name, cells)) for name, cells in data.items()]
    if isinstance(data, Sequence) and data and all(isinstance(row, Mapping) for row in data):
        names = dict.fromkeys(name for row in data for name in row)
        return [(name, [row.get(name) for row in data]) for name in names]
    return None


def _cells(name: Any, cells: Any) -> list[Any]:
    if isinstance(cells, (str, bytes, Mapping)) or not hasattr(cells, "__iter__"):
        raise ValueError(f"{name!r} is one cell, not a column: give a list of records instead")
    return list(cells)


def plain(cell: Any) -> Any:
    """A cell as JSON has it: NaN, NaT and NA are None, dates ISO texts, infinity a text."""
    kind = type(cell)
    if cell is None or kind is str or kind is int or kind is bool:
        return cell
    if kind is float:
        if math.isfinite(cell):
            return cell
        return None if math.isnan(cell) else str(cell)
    if kind.__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(cell, (datetime.datetime, datetime.date)):
        return cell.isoformat()
    if kind.__name__ == "datetime64":
        text = str(cell)
        return None if text == "NaT" else text
    if isinstance(cell, decimal.Decimal):
        return plain(float(cell))
    if hasattr(cell, "item"):  # a scalar of NumPy
        return plain(cell.item())
    return cell


def is_numeric(columns: Columns, but: str | None = None) -> bool:
    """Whether all cells are finite numbers or booleans, except those of the column `but`."""
    return all(
        type(cell) in (int, float, bool)
        for name, cells in columns.items()
        if name != but
        for cell in cells
    )


def categories_of(data: Any) -> list[str]:
    """The names of the columns that the caller's library has as categories."""
    types: Iterable[tuple[Any, Any]]
    if hasattr(data, "schema") and hasattr(data, "to_pydict"):
        types = zip(data.column_names, data.schema.types, strict=True)
    elif hasattr(data, "get_columns"):
        types = ((one.name, one.dtype) for one in data.get_columns())
    elif hasattr(data, "dtypes") and hasattr(data, "items"):
        types = ((name, one.dtype) for name, one in data.items())
    else:
        return []
    known = ("category", "dictionary", "categorical", "enum")
    return [str(name) for name, kind in types if str(kind).lower().startswith(known)]


def as_csv(columns: Columns) -> bytes:
    """With a header; a missing cell is empty, a boolean true or false."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow([_csv_cell(cell) for cell in row])
    return text.getvalue().encode()


def as_records(columns: Columns) -> bytes:
    """The body of a prediction."""
    names = list(columns)
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return json.dumps({"instances": rows}).encode()


def _csv_cell(cell: Any) -> Any:
    if type(cell) is bool:
        return "true" if cell else "false"
    return "" if cell is None else cell
