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
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeAlias

_PLAIN = (str, int, float, bool, list, tuple, dict, type(None))
"""Types of JSON."""

_ARROW_KINDS = re.compile(
    r"(dictionary<values=)?(u?int|float|double|halffloat|decimal|bool|(large_)?string|date|"
    "timestamp|null)"
)
"""How types begin that mean what cells of JSON do."""

Columns: TypeAlias = dict[str, list[Any]]
"""Cells by name: numbers, booleans, texts, None for a missing one."""


class Texts(list[str | None]):
    """A column of texts, None for a missing one."""


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


def is_numeric(columns: Columns) -> bool:
    """Whether all cells are finite numbers or booleans."""
    return all(type(cell) in (int, float, bool) for cells in columns.values() for cell in cells)


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
    writer = csv.writer(text, lineterminator="\r\n")  # cells with either are quoted
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow([_csv_cell(cell) for cell in row])
    return text.getvalue().encode()


def as_records(columns: Columns) -> bytes:
    """The body of a prediction."""
    names = list(columns)
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return json.dumps({"instances": rows}).encode()


def as_arrow(data: Any) -> tuple[list[str], bytes] | None:
    """The names of a frame's columns, and the frame as a stream of Arrow; None if pyarrow is not
    installed, and for other data and those that `columns_of` refuses or reads in another way."""
    if not _is_frame(data) or hasattr(data, "tocsr") or find_spec("pyarrow") is None:
        return None
    pyarrow = import_module("pyarrow")
    try:
        if hasattr(data, "items") and hasattr(data, "dtypes"):  # pandas
            table = pyarrow.Table.from_pandas(data, preserve_index=False)
        else:
            table = pyarrow.table(data)
    except (pyarrow.ArrowException, TypeError, ValueError):
        return None
    names = table.column_names
    kinds = [str(field.type) for field in table.schema]
    if len(set(names)) < len(names) or not all(map(_ARROW_KINDS.match, kinds)):
        return None
    stream = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return names, bytes(stream.getvalue())


def _csv_cell(cell: Any) -> Any:
    if type(cell) is bool:
        return "true" if cell else "false"
    return "" if cell is None else cell


def load(data: Any) -> Any:
    """The data in memory: a lazy frame of polars is collected, an iterator read to its end, a
    stream of Arrow (such as a relation of DuckDB) made a table, and a column of texts `Texts`.

    Raises ValueError for data that cannot be rows, with what to give instead.
    """
    if hasattr(data, "collect") and hasattr(data, "collect_schema"):
        data = data.collect()  # a lazy frame
    if hasattr(data, "read") and not hasattr(data, "read_all"):
        raise _not_rows(data, "give the path, or `.read()` of it with `media_type`")
    if hasattr(data, "compute") and hasattr(data, "dask"):
        raise _not_rows(data, "it is not computed yet: give the result of its `.compute()`")
    if (texts := _texts(data)) is not None:
        return texts
    if hasattr(data, "to_frame") and hasattr(data, "name"):  # a series or index
        raise _not_rows(data, "one column is not rows: give its `.to_frame()`")
    if _is_column(data):
        raise _not_rows(data, "one column is not rows: give a table with this column")
    if hasattr(data, "__arrow_c_stream__") and not _is_frame(data):
        if find_spec("pyarrow") is None:
            raise _not_rows(data, "install pyarrow, which makes a table of it")
        return import_module("pyarrow").table(data)
    if isinstance(data, Iterator):
        return load(list(data))
    if isinstance(data, (bytes, set, frozenset)) or not _has_rows(data):
        raise _not_rows(data, "give rows: an array, a frame, lists, or the path of a file")
    return data


def _texts(data: Any) -> Texts | None:
    """A list, array or series of texts and missing ones; None if it is another thing."""
    if hasattr(data, "to_list"):
        data = data.to_list()
    elif _is_column(data):
        data = data.to_pylist()
    elif getattr(data, "ndim", None) == 1 and data.dtype.kind in "OTU":
        data = data.tolist()
    if not isinstance(data, (list, tuple)) or not any(isinstance(one, str) for one in data):
        return None
    texts = Texts(map(plain, data))
    return texts if all(isinstance(one, (str, type(None))) for one in texts) else None


def matrix(data: Any) -> Any:
    """(n_samples, n_features), float32 or float64; masked values are NaN.

    Raises ValueError for other shapes, and for values that are not numbers.
    """
    import numpy as np

    try:
        X = np.ma.asarray(data) if isinstance(data, np.ma.MaskedArray) else np.asarray(data)
    except ValueError:
        raise ValueError("the rows have several lengths: all need the same columns") from None
    if not X.size:
        raise ValueError("there are no rows")
    if X.ndim == 1 and X.dtype.kind in "fiub":
        raise ValueError(
            "the rows have one dimension, not two: give X.reshape(1, -1) if it is one row, "
            "X.reshape(-1, 1) if it is one column"
        )
    if X.ndim > 2:
        raise ValueError(f"the rows have {X.ndim} dimensions, not two: give X.reshape(len(X), -1)")
    if X.dtype.kind in "cmM":
        raise ValueError(
            f"the values are of the type {X.dtype}: give real numbers, or a frame if they are dates"
        )
    if X.dtype.kind not in "fiub" or X.dtype.itemsize > 8:
        try:
            X = X.astype(np.float64)
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"{error}: an array has numbers; give texts in a frame, or in a list of records"
            ) from None
    if X.ndim != 2:
        raise _not_rows(data, "give rows: an array, a frame, lists, or the path of a file")
    X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
    return X.filled(np.nan) if isinstance(X, np.ma.MaskedArray) else X


def label_array(labels: Any) -> Any:
    """(n_samples,) numbers, booleans or texts, not objects; a frame may have one column.

    Raises ValueError for labels of several types, and for several columns.
    """
    import numpy as np

    if hasattr(labels, "collect") and hasattr(labels, "collect_schema"):
        labels = labels.collect()
    if hasattr(labels, "tocsr"):
        raise _not_rows(labels, "labels are not sparse: give its `.toarray().ravel()`")
    given = labels
    if hasattr(labels, "to_pylist"):  # Arrow
        given = labels.to_pylist()
    elif hasattr(labels, "to_numpy"):
        given = labels.to_numpy()
    y = np.asarray(given if hasattr(given, "__array__") else list(given))
    if y.ndim == 2 and y.shape[1] == 1:
        y = given = y.ravel()
    if y.ndim != 1:
        raise ValueError(f"the labels have the shape {y.shape}: give one column")
    if y.dtype.kind in "OTU":
        if not all(isinstance(label, str) for label in given):
            raise ValueError("labels of several types: give all of them as texts, or as numbers")
        y = y.astype(np.str_)
    return y


def _has_rows(data: Any) -> bool:
    return any(hasattr(data, name) for name in ("__iter__", "__array__")) or _is_frame(data)


def _is_frame(data: Any) -> bool:
    """Whether `tables` knows it."""
    return any(hasattr(data, name) for name in ("get_columns", "to_pydict", "to_numpy", "tocsr"))


def _is_column(data: Any) -> bool:
    """Whether it is an array or a chunked array of Arrow."""
    return hasattr(data, "to_pylist") and not hasattr(data, "to_pydict")


def _not_rows(data: Any, advice: str) -> ValueError:
    return ValueError(f"{_type_of(data)} is not sent: {advice}")


def _type_of(data: Any) -> str:
    kind = type(data)
    room = kind.__module__.partition(".")[0]
    return kind.__name__ if room == "builtins" else f"{room}.{kind.__name__}"
