"""Frames, and arrays of objects, as the raw values of a table (`svm.data.columns`).

A frame of pandas, polars or Arrow is known by its columns: none of these libraries is imported.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np

from svm.data.columns import UNKNOWN, Column, Columns, Kind, in_order
from svm.data.matrices import Vector
from svm.data.texts import TextList, with_texts
from svm.errors import InvalidData

Cells: TypeAlias = Sequence[Any]
Frame: TypeAlias = "dict[str, tuple[Any, bool]]"
"""The cells of each column, and whether the caller's library has it as categories."""

_NUMBER = re.compile(r"[+-]?([1-9][0-9]*|0)(\.[0-9]*)?([eE][+-]?[0-9]+)?|[+-]?\.[0-9]+")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?")
_CATEGORIES = ("category", "dictionary", "categorical", "enum")
_BOOLEANS = {"true": 1.0, "false": 0.0}
_CELLS = (str, bool, int, float, Decimal, date, np.bool_, np.integer, np.floating, np.datetime64)
_KINDS = ("number", "boolean", "date", "category", "text")
MANY_LEVELS = 100
"""Of which a column should be one of texts, if most rows have one of their own."""


def frame_of(X: Any, *, plain: bool) -> Frame | None:
    """The columns of a frame, or of an array, where they are named by their position.

    None of what has finite numbers alone, unless `plain`; and of what is no table: a sparse matrix,
    an array of another shape, cells of other types. Raises InvalidData for equal names.
    """
    if hasattr(X, "column_names") and hasattr(X, "to_pydict"):  # Arrow
        cells = [column.to_pylist() for column in X.columns]
        names, types = X.column_names, X.schema.types
    elif hasattr(X, "columns") and hasattr(X, "dtypes") and hasattr(X, "to_numpy"):
        names, types = list(X.columns), list(X.dtypes)
        if len(set(map(str, names))) < len(names):
            raise InvalidData("bad-column-name", "two columns have the same name")
        cells = [X[name] for name in names]
    else:
        columns = _columns_of_array(X)
        if columns is None:
            return None
        names, types, cells = range(len(columns)), [None] * len(columns), columns
    frame = {
        str(name): (_array(column), str(kind).lower().startswith(_CATEGORIES))
        for name, column, kind in zip(names, cells, types, strict=True)
    }
    return frame if plain or not all(_is_plain(*column) for column in frame.values()) else None


def _columns_of_array(X: Any) -> list[Any] | None:
    if hasattr(X, "tocsr") or isinstance(X, str) or not hasattr(X, "__len__"):
        return None
    array = np.asarray(X) if hasattr(X, "__array__") else np.asarray(X, dtype=object)
    if array.ndim != 2 or array.dtype.kind == "c":
        return None
    if array.dtype.kind == "O":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            if not all(_is_missing(cell) or isinstance(cell, _CELLS) for cell in array.flat):
                return None  # scikit-learn explains it
    return list(array.T)


def _is_plain(cells: Any, categorical: bool) -> bool:
    numbers = isinstance(cells, np.ndarray) and cells.dtype.kind in "iuf" and not categorical
    return numbers and not (cells.dtype.kind == "f" and bool(np.isnan(cells).any()))


def learn_columns(frame: Frame, kinds: Mapping[str, Kind]) -> tuple[Column, ...]:
    """What the columns are: as `kinds` says, else by their types and, of texts, by their cells.

    Numbers, booleans and dates are themselves, also as texts (`1.5`, `true`, `2024-12-31`) if all
    texts of the column are; other texts are categories. Raises InvalidData, if `kinds` names no
    column or no kind, and for a cell that is none of these.
    """
    for name, kind in kinds.items():
        if name not in frame:
            raise InvalidData("feature-mismatch", f"kinds: there is no column {name!r}")
        if kind not in _KINDS:
            raise InvalidData("bad-shape", f"kinds: {kind!r} is none of {', '.join(_KINDS)}")
    return tuple(_learned(name, *one, kinds.get(name)) for name, one in frame.items())


def raw_values(frame: Frame, columns: Columns) -> Vector:
    """(n_samples, n_columns) raw values of rows with these columns, in this order; NaN for missing
    cells, `UNKNOWN` for levels that a column does not have. Raises InvalidData."""
    if len(frame) != len(columns):
        message = f"expected {len(columns)} columns, got {len(frame)}"
        raise InvalidData("feature-mismatch", message)
    texts: list[str] = []
    values = [
        _values(column, cells, texts)
        for column, (cells, _) in zip(columns, frame.values(), strict=True)
    ]
    raw: Vector = np.ascontiguousarray(np.column_stack(values), dtype=np.float64)
    return with_texts(raw, TextList(texts)) if texts else raw


def _array(column: Any) -> Any:
    """Its cells; of numbers, booleans and times as NumPy has them."""
    array = np.asarray(column)
    if array.dtype.kind in "iufbM":
        return array
    return column.tolist() if hasattr(column, "tolist") else list(column)


def _is_missing(cell: Any) -> bool:
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(cell, str):
        return not cell or cell.isspace()
    return isinstance(cell, (float, np.floating, np.datetime64, Decimal)) and cell != cell


def _learned(name: str, cells: Any, categorical: bool, kind: Kind | None) -> Column:
    there = None if isinstance(cells, np.ndarray) else [c for c in cells if not _is_missing(c)]
    if kind is None and categorical:
        kind = "category"
    if kind is None:
        kind = _kind_of_array(cells) if there is None else _kind_of_cells(name, there)
    if kind != "category":
        return Column(name, kind)
    known = [c for c in (cells.tolist() if there is None else there) if not _is_missing(c)]
    levels = in_order({_level(cell) for cell in known})
    if not categorical and len(levels) > max(MANY_LEVELS, len(known) // 2):
        warnings.warn(
            f"column {name!r}: {len(levels):,} different texts in {len(known):,} rows; if they are "
            f"sentences, give kinds={{{name!r}: 'text'}}",
            stacklevel=6,
        )
    return Column(name, "category", tuple(levels))


def _kind_of_array(cells: Any) -> Kind:
    kinds: dict[str, Kind] = {"b": "boolean", "M": "date"}
    return kinds.get(cells.dtype.kind, "number")


def _kind_of_cells(name: str, there: Cells) -> Kind:
    for cell in there:
        if not isinstance(cell, _CELLS):
            raise InvalidData(
                "not-a-number",
                f"column {name!r}: {type(cell).__name__} is not a number, text, boolean or date",
            )
    if not there:
        return "number"
    readers: dict[Kind, Callable[[Any], float | None]] = {
        "boolean": _boolean,
        "number": _number,
        "date": _date,
    }
    return next(
        (kind for kind, read in readers.items() if all(read(one) is not None for one in there)),
        "category",
    )


def _values(column: Column, cells: Any, texts: list[str]) -> Vector:
    """(n_samples,); texts are added to `texts`."""
    if isinstance(cells, np.ndarray):
        if cells.dtype.kind == "M" and column.kind == "date":
            return _days(cells)
        if column.kind == "number" and cells.dtype.kind in "iuf":
            return cells.astype(np.float64)
        cells = cells.tolist() if cells.dtype.kind != "M" else list(cells)
    if column.kind == "category":
        places = {level: float(place) for place, level in enumerate(column.levels)}
        return _read(column, cells, lambda cell: places.get(_level(cell), UNKNOWN))
    if column.kind == "text":

        def added(cell: Any) -> float | None:
            if not isinstance(cell, str):
                return None
            texts.append(cell)
            return len(texts) - 1.0

        return _read(column, cells, added)
    readers = {"number": _number, "boolean": _boolean, "date": _date}
    return _read(column, cells, readers[column.kind])


def _read(column: Column, cells: Cells, read: Callable[[Any], float | None]) -> Vector:
    values = np.full(len(cells), np.nan)
    for i, cell in enumerate(cells):
        if _is_missing(cell):
            continue
        value = read(cell)
        if value is None:
            code = f"not-a-{column.kind}" if column.kind != "text" else "bad-shape"
            where = f"row {i} (counted from 0), column {column.name!r}"
            raise InvalidData(code, f"{where}: {cell!r} is not a {column.kind}")
        values[i] = value
    return values


def _number(cell: Any) -> float | None:
    if isinstance(cell, str):
        return float(cell) if _NUMBER.fullmatch(cell := cell.strip()) else None
    if isinstance(cell, (int, float, Decimal, np.integer, np.floating)):
        return float(cell)
    return float(cell) if isinstance(cell, np.bool_) else None


def _boolean(cell: Any) -> float | None:
    if isinstance(cell, (bool, np.bool_)):
        return float(cell)
    if isinstance(cell, str):
        return _BOOLEANS.get(cell.strip().lower())
    return None


def _date(cell: Any) -> float | None:
    if isinstance(cell, str):
        if not _DATE.fullmatch(cell := cell.strip()):
            return None
        try:
            cell = datetime.fromisoformat(cell)
        except ValueError:
            return None
    if isinstance(cell, datetime) and cell.tzinfo is not None:
        cell = cell.astimezone(UTC).replace(tzinfo=None)
    if isinstance(cell, (date, np.datetime64)):
        return float(_days(np.array([cell], dtype="datetime64[us]"))[0])
    return None


def _days(times: Any) -> Vector:
    """Days since 1970-01-01, with a fraction for the time of day."""
    micros = times.astype("datetime64[us]")
    days: Vector = micros.astype(np.int64) / 86_400_000_000.0
    days[np.isnat(micros)] = np.nan
    return days


def _level(cell: Any) -> str:
    """The text of a cell of a category."""
    if isinstance(cell, (bool, np.bool_)):
        return "true" if cell else "false"
    if isinstance(cell, (float, np.floating)) and float(cell).is_integer():
        return str(int(cell))
    return cell.strip() if isinstance(cell, str) else str(cell)
