"""Rows to predict in JSON that is written as an upload may be."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from service.errors import InvalidContent
from service.rows.columns import Columns
from service.rows.format_table import FORMATS
from service.rows.spec import JSON, RowLimits, Rows
from svm.data.columns import Column

COLUMNS = Columns(2, ["a", "b"], (Column("a", "number"), Column("b", "category", ("x", "y"))))
LAYOUTS: dict[str, Any] = {
    "list": [{"b": "y", "a": 1, "c": 0}, {"a": None, "b": "x", "c": 0}],
    "records": {"records": [{"b": "y", "a": 1, "c": 0}, {"a": None, "b": "x", "c": 0}]},
    "columns": {"c": [0, 0], "a": [1, None], "b": ["y", "x"]},
    "columns with an index": {
        "c": {"0": 0, "1": 0},
        "a": {"0": 1, "1": None},
        "b": {"1": "x", "0": "y"},
    },
    "split": {
        "columns": ["c", "b", "a"],
        "index": [0, 1],
        "data": [[0, "y", 1], [0, "x", None]],
    },
    "ours": {
        "columns": ["c", "b", "a"],
        "rows": [[0, "y", 1], [0, "x", None]],
        "labels": ["p", "q"],
    },
}


def read(document: Any, columns: Columns = COLUMNS) -> Rows:
    reader = FORMATS[JSON].read_rows
    assert reader is not None
    return reader(json.dumps(document).encode(), columns, RowLimits(100, 1000, 10_000))


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_of_uploads_are_rows_to_predict(name: str) -> None:
    rows = read(LAYOUTS[name])
    np.testing.assert_array_equal(rows.X, [[1.0, 1.0], [np.nan, 0.0]])
    assert rows.ignored == ("c",)


def test_rows_without_names_are_in_column_order() -> None:
    np.testing.assert_array_equal(read({"rows": [[1, "x"]]}).X, [[1.0, 0.0]])


def test_null_in_place_of_an_object_is_a_missing_cell_of_each_of_its_columns() -> None:
    """As in an upload: the object comes with other rows."""
    nested = Columns(
        3, ["id", "user.age", "user.x.y"], tuple(map(Column, ("id", "user.age", "user.x.y")))
    )
    rows = read([{"id": 1, "user": {"age": 5, "x.y": 7}}, {"id": 2, "user": None}], nested)
    np.testing.assert_array_equal(rows.X, [[1.0, 5.0, 7.0], [2.0, np.nan, np.nan]])
    with pytest.raises(InvalidContent, match="lacks 'user\\.age'"):
        read([{"id": 1, "user": {"age": 5, "x.y": 7}}, {"id": 2, "users": None}], nested)


@pytest.mark.parametrize(
    ("document", "code", "words"),
    [
        ({"a": [1, 2], "b": ["x"]}, "invalid-field", "all columns have one cell a row"),
        ({"columns": ["a", "b"], "data": [[1]]}, "invalid-field", "a list of 2 cells"),
        ({"columns": ["a", "a", "b"], "rows": [[1, 2, "x"]]}, "feature-mismatch", "repeats 'a'"),
        ({"columns": ["a"], "rows": [[1]]}, "feature-mismatch", "lacks 'b'"),
        ([{"a": 1, "b": "x"}, {"a": 2}], "feature-mismatch", "row 2 lacks 'b'"),
        ({"a": [], "b": []}, "empty-data", "no row"),
        ({"instance": [[1, "x"]]}, "invalid-field", "give the rows to predict"),
        ({"a": 1, "b": "x"}, "invalid-field", "such as"),
        ([[1, "x"]], "invalid-field", "give an object with `instances`"),
    ],
)
def test_other_layouts_are_one_clear_error(document: Any, code: str, words: str) -> None:
    with pytest.raises(InvalidContent, match=words) as caught:
        read(document)
    assert caught.value.code == code
