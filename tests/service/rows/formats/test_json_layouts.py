"""JSON as pandas writes it: the same table in every layout, and what is ambiguous."""

from __future__ import annotations

import json
from math import nan
from typing import Any

import numpy as np
import pandas
import pytest

from service.errors import InvalidRequest
from service.rows.spec import CSV, JSON, NDJSON
from tests.service.rows.reading import places, refusal, upload

FRAME = pandas.DataFrame(
    {"a": [1, 2, 3], "b": [0.5, None, 2.5], "c": ["x:1", "y", None], "k": ["u", "v", "u"]}
)
NUMBERS = pandas.DataFrame({"a": np.arange(9000), "b": np.arange(9000) / 7, "k": [1, 2, 3] * 3000})
ORIENTS: Any = ("records", "list", "columns", "split")


def written(frame: pandas.DataFrame, orient: Any) -> str:
    if orient == "list":
        return json.dumps(frame.replace({np.nan: None}).to_dict(orient="list"))
    text: str = frame.to_json(orient=orient, double_precision=15)
    return text


@pytest.mark.parametrize("orient", ORIENTS)
def test_layouts_of_pandas(orient: Any) -> None:
    """Texts, gaps and numbers, with the last column as the label."""
    result = upload(written(FRAME, orient), JSON)
    assert [(c["name"], c["kind"], c["missing"]) for c in result.parsed.table] == [
        ("a", "number", 0),
        ("b", "number", 1),
        ("c", "category", 1),
    ]
    assert result.rows_of_labels == ["u", "v", "u"]
    assert (result.parsed.reading or {})["layout"] == orient.replace("list", "columns")
    numbers = upload(written(NUMBERS, orient), JSON)
    expected = upload(NUMBERS.to_csv(index=False), CSV)
    np.testing.assert_allclose(numbers.arrays["X"], expected.arrays["X"], rtol=1e-14)
    assert numbers.parsed.columns == ["a", "b"]


def test_records_in_an_object() -> None:
    """And a list of objects after a byte order mark and blanks."""
    records = '[{"a": 1, "k": "x"}, {"k": "y", "a": 2}]'
    for body in (f'{{"records": {records}}}', f"\ufeff \n{records}\n"):
        result = upload(body, JSON)
        assert (result.arrays["X"].tolist(), result.rows_of_labels) == ([[1], [2]], ["x", "y"])
    columns = upload('{"records": [5, 6], "k": ["x", "y"]}', JSON)
    assert columns.parsed.columns == ["records"]


def test_faults_have_their_places() -> None:
    records = '[{"a": 1, "k": "x"}, {"a": "w", "k": "y"}, {"a": 2, "k": "x"}, 5]'
    assert [place[:3] for place in places(refusal(records, JSON, odd_cells="refuse"))] == [
        ("invalid-field", 4, None),
        ("not-a-number", 2, "a"),
    ]
    error = refusal('{"a": [1, 2, "x"], "k": [1, 2, 3]}', JSON, odd_cells="refuse")
    assert places(error) == [("not-a-number", 3, "a", "x")]


ROWS = [{"a": i, "b": i % 3 / 2, "k": "xy"[i % 2]} for i in range(12)]


@pytest.mark.parametrize(
    "document",
    [
        {"data": ROWS},
        {"page": 1, "results": ROWS, "next": None},
        {str(i): row for i, row in enumerate(ROWS)},
        {f"user {i}": row for i, row in enumerate(ROWS)},
        [{"o": {"a": row["a"], "b": row["b"]}, "tags": ["u"], "k": row["k"]} for row in ROWS],
        [{**row, "b": nan} if row["b"] == 1 else row for row in ROWS],
        [{**row, "b": ""} if row["b"] == 1 else row for row in ROWS],
        [{name: row[name] for name in row if row[name] != 1 or name != "b"} for row in ROWS],
    ],
    ids=["data", "page", "index", "names", "nested", "NaN", "empty", "keys"],
)
def test_documents_of_other_programs(document: Any) -> None:
    """As APIs and Python write them, in one body and, if they are a list, a line each."""
    text = json.dumps(document)
    bodies = [(text, JSON)]
    if isinstance(document, list):
        bodies.append(("\n".join(map(json.dumps, document)), NDJSON))
    gaps = "NaN" in text or '""' in text or text.count('"b"') < 12
    for body, media_type in bodies:
        result = upload(body, media_type)
        assert (result.parsed.n_samples, result.parsed.n_features) == (12, 2)
        assert result.rows_of_labels == ["x", "y"] * 6
        X = result.arrays["X"]
        assert X[:, 0].tolist() == list(range(12))
        assert np.isnan(X[:, 1]).sum() == (4 if gaps else 0)


def test_nested_names_and_lists() -> None:
    """An object is columns of its own; a column of lists is ignored, one list is a fault."""
    nested = [{"o": {"a": i} if i % 3 else None, "t": [1], "k": "xy"[i % 2]} for i in range(9)]
    result = upload(json.dumps(nested), JSON)
    assert result.parsed.columns == ["o.a"]
    assert result.parsed.ignored == [{"name": "t", "reason": "its cells are lists"}]
    told = {one["code"]: one["message"] for one in result.parsed.warnings}
    assert "'o.a'" in told["other-names"]
    error = refusal(json.dumps([{"a": 1, "k": "x"}, {"a": [1], "k": "y"}]), JSON)
    assert places(error) == [("not-a-number", 2, "a", "[1]")]


@pytest.mark.parametrize(
    "body",
    [
        "[1, 2]",
        "[[1, 2]]",
        '{"columns": ["a"], "labels": ["x"]}',
        '{"columns": ["a"], "data": [1]}',
        '{"a": [1, 2], "k": [1]}',
        '{"a": [1, 2], "k": {"0": 1}}',
        '{"a": {"0": 1, "1": 2}, "k": {"0": 1, "2": 2}}',
        '{"0": {"0": 1, "1": 2}, "1": {"0": 1, "1": 2}}',
        '{"r": {"a": 1, "b": 2}, "s": {"a": 2, "b": 1}}',
        '{"a": 1, "k": 2}',
    ],
)
def test_what_may_mean_several_things(body: str) -> None:
    """Rows of an index, columns of several lengths, lists without names."""
    assert refusal(body, JSON).code == "invalid-field"


@pytest.mark.parametrize(
    "body",
    [
        '[{"a": 1, "a": 2, "k": 1}]',
        '[{"a": 1, "k": 1}, ',
        '[{"a": 1, "k": 1}] 5',
        '{"a": {"0": 1, "0": 2}, "k": {"0": 1, "1": 2}}',
        '{"a": [1], "a": [2]}',
    ],
)
def test_what_is_not_json(body: str) -> None:
    """Names that come twice, too."""
    error = refusal(body, JSON)
    assert isinstance(error, InvalidRequest)
    assert error.code == "malformed-json"


def test_without_rows() -> None:
    for body in ("[]", '{"records": []}', '{"a": [], "k": []}', '{"columns": ["a"], "data": []}'):
        assert refusal(body, JSON).code in ("empty-data", "invalid-field")
