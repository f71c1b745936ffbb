"""Data of callers that are neither a file nor bytes: what can be sent, and what to give instead.

No library of frames is imported: an object is known by its methods.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def loaded(data: Any) -> Any:
    """The data in memory: a lazy frame of polars is collected, an iterator read to its end, and a
    stream of Arrow (such as a relation of DuckDB) made a table.

    Raises ValueError for data that cannot be rows, with what to give instead.
    """
    if hasattr(data, "collect") and hasattr(data, "collect_schema"):
        data = data.collect()  # a lazy frame
    if hasattr(data, "read") and not hasattr(data, "read_all"):
        raise _not_rows(data, "give the path, or `.read()` of it with `media_type`")
    if hasattr(data, "compute") and hasattr(data, "dask"):
        raise _not_rows(data, "it is not computed yet: give the result of its `.compute()`")
    if hasattr(data, "to_frame") and hasattr(data, "name"):  # a series or index
        raise _not_rows(data, "one column is not rows: give its `.to_frame()`")
    if _is_column(data):
        raise _not_rows(data, "one column is not rows: give a table with this column")
    if hasattr(data, "__arrow_c_stream__") and not _is_frame(data):
        if find_spec("pyarrow") is None:
            raise _not_rows(data, "install pyarrow, which makes a table of it")
        return import_module("pyarrow").table(data)
    if isinstance(data, Iterator):
        data = list(data)
    if isinstance(data, (bytes, set, frozenset)) or not _has_rows(data):
        raise _not_rows(data, "give rows: an array, a frame, lists, or the path of a file")
    return data


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
