"""JSON uploads."""

from __future__ import annotations

import json
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import InvalidContent, InvalidRequest
from service.rows.json_reading.stream import elements, members
from service.rows.spec import JSON
from tests.service.rows.reading import places, refusal, upload


def test_rows_labels_and_columns_in_any_order() -> None:
    """Names and labels may come after the rows."""
    result = upload(
        '{"labels": ["x", "y"], "rows": [[1, 2], [3, 4.5]], "columns": ["a", "b"]}', JSON
    )
    assert result.parsed.columns == ["a", "b"]
    assert result.arrays["X"].tolist() == [[1, 2], [3, 4.5]]
    assert result.rows_of_labels == ["x", "y"]


def test_rows_alone_have_no_labels() -> None:
    """Without names and labels nothing says that the last column is special."""
    assert upload('{"rows": [[1, 2]]}', JSON).parsed.classes is None


def test_label_column_among_the_rows() -> None:
    """With names the last column, or the target, holds the labels, as in CSV."""
    body = '{"columns": ["a", "k", "b"], "rows": [[1, "x", 2], [3, "y", 4]]}'
    result = upload(body, JSON, target="k")
    assert result.parsed.columns == ["a", "b"]
    assert result.rows_of_labels == ["x", "y"]
    assert upload(body, JSON, target="1").rows_of_labels == ["x", "y"]
    table = upload(body, JSON).parsed.table  # b is the target, k holds words
    assert [(column["name"], column["kind"]) for column in table] == [
        ("a", "number"),
        ("k", "category"),
    ]


def test_labels_in_a_file_of_their_own() -> None:
    """The form's second file serves JSON, too; not beside labels in the body."""
    assert upload('{"rows": [[1], [2]]}', JSON, labels="x\ny\n").rows_of_labels == ["x", "y"]
    both = '{"rows": [[1], [2]], "labels": [1, 2]}'
    assert refusal(both, JSON, labels="x\ny\n").code == "invalid-field"


def test_every_fault_is_listed_with_its_place() -> None:
    """Numbers are numbers: texts do not pass. Rows of a wrong form come first."""
    rows = '[[1, 2], ["3", []], [null, 1e999], [1], 5, [[1], {"a": 1}]]'
    error = refusal(f'{{"rows": {rows}}}', JSON)
    assert places(error) == [
        ("ragged-row", 4, None, None),
        ("invalid-field", 5, None, None),
        ("not-a-number", 2, 0, "3"),
        ("not-a-number", 2, 1, "[]"),
        ("non-finite-value", 3, 1, "1e999"),
        ("not-a-number", 6, 0, "[1]"),
        ("not-a-number", 6, 1, '{"a": 1}'),
    ]


@pytest.mark.parametrize(
    "body",
    [
        "",
        "nonsense",
        '{"rows": [[1]]',
        '{"rows": [[1]]} x',
        '{"rows": [[1]]}}',
        '{"rows": [[1],]}',
        '{"rows": [,[1]]}',
        '{"rows": [[1] [2]]}',
        '{"rows": [[1]}',
        '{"rows": [[1}]}',
        '{"rows": [[1]],}',
        '{"rows" [[1]]}',
        "{rows: [[1]]}",
        '{"rows": [[1]], "rows": [[2]]}',
        '{"rows": [[01]]}',
        '{"rows": [[1]], "labels": ["\\ud800"]}',
        '{"rows": [[1e999]], "columns": ["\\ud800"]}',
        '{"rows": [["\\ud800", 1e999]]}',
        '{"rows": ' + 20 * "[" + 20 * "]" + "}",
        '{"rows": [[1]]} {',
        '{"a": 1, , "rows": [[1]]}',
    ],
)
def test_what_is_not_json(body: str) -> None:
    """Syntax is a matter of the request (400), wherever in the file it goes wrong."""
    error = refusal(body, JSON)
    assert isinstance(error, InvalidRequest), error
    assert error.code == "malformed-json"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("{}", "invalid-field"),
        ("[[1]]", "invalid-field"),
        ('{"rows": 5}', "invalid-field"),
        ('{"rows": {"a": [1]}}', "invalid-field"),
        ('{"rows": [5]}', "invalid-field"),
        ('{"rows": [[1]], "extra": 1}', "invalid-field"),
        ('{"rows": [[1]], "columns": "a"}', "invalid-field"),
        ('{"rows": [[1]], "columns": [1]}', "invalid-field"),
        ('{"rows": [[1]], "labels": "x"}', "invalid-field"),
        ('{"rows": [[1]], "labels": [[1]]}', "invalid-field"),
        ('{"rows": [[1]], "labels": [null]}', "missing-value"),
        ('{"rows": [[1]], "labels": [1e999]}', "non-finite-value"),
        ('{"rows": [[1]], "labels": [1, 2]}', "label-count"),
        ('{"rows": [[1]], "labels": []}', "label-count"),
        ('{"rows": []}', "empty-data"),
        ('{"rows": [[]]}', "empty-data"),
        ('{"rows": [[1, 2]], "columns": ["a"], "labels": [1]}', "ragged-row"),
        ('{"rows": [[1, 2]], "columns": ["a", "\\u0000"], "labels": [1]}', "bad-column-name"),
    ],
)
def test_json_that_is_no_dataset(body: str, code: str) -> None:
    """What the body says is wrong (422), not how it says it."""
    error = refusal(body, JSON)
    assert isinstance(error, InvalidContent), error
    assert error.code == code


def test_target_and_labels_contradict() -> None:
    """Labels come from one place."""
    body = '{"rows": [[1, 2]], "columns": ["a", "b"], "labels": [1]}'
    assert refusal(body, JSON, target="b").code == "invalid-field"


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=8,
)


@hypothesis.settings(max_examples=50)
@given(
    content=st.dictionaries(st.text(), st.lists(json_values), max_size=4),
    block_bytes=st.integers(1, 40),
    indent=st.sampled_from([None, 1]),
    ascii=st.booleans(),
)
def test_elements_are_found_wherever_blocks_end(
    tmp_path_factory: pytest.TempPathFactory,
    content: dict[str, list[Any]],
    block_bytes: int,
    indent: int | None,
    ascii: bool,
) -> None:
    """Quotes, brackets, backslashes and letters of several bytes may be cut anywhere."""
    path = tmp_path_factory.mktemp("json") / "body"
    path.write_text(json.dumps(content, indent=indent, ensure_ascii=ascii), encoding="utf-8")
    spans = members(path, block_bytes=block_bytes)
    assert list(spans) == list(content)
    for name, values in content.items():
        batches = elements(path, spans[name], block_bytes)
        assert batches is not None
        assert [value for batch in batches for value in batch] == values


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("number", [1.5, True])
def test_odd_words_among_numbers_are_missing(number: float | bool, first: bool) -> None:
    """As in CSV: the word is named and counted, and missing in this column only, wherever it is."""
    cells: list[Any] = [number, *(float(i) for i in range(59))] if number == 1.5 else [number] * 60
    cells.insert(0 if first else 40, "Unknown")
    rows = [[cell, i, "x" if i % 2 else "y"] for i, cell in enumerate(cells)]
    for body in ({"columns": ["a", "b", "k"], "rows": rows}, [_named(*row) for row in rows]):
        result = upload(json.dumps(body), JSON)
        (column, _) = result.parsed.table
        assert (column["kind"], column["missing"]) == ("boolean" if number is True else "number", 1)
        assert result.parsed.reading is not None
        assert result.parsed.reading["columns"] == {"a": {"odd": ["Unknown"]}}
        (warning,) = [one for one in result.parsed.warnings if one["code"] == "odd-cells"]
        assert "'Unknown' (1 of its cells)" in warning["message"]
        assert "an upload can refuse such cells" in warning["message"]  # pages show it, too
    error = refusal(json.dumps(body), JSON, odd_cells="refuse")
    assert [fault.row for fault in error.faults] == [1 if first else 41]


def test_texts_that_may_be_values_are_no_odd_words() -> None:
    """A number in quotes, in another style, or beyond float64 is an error, as always."""
    for text in ("12", "1,5", "12 USD", "inf", "2024-05-01"):
        rows = [[float(i), "x" if i % 2 else "y"] for i in range(60)]
        error = refusal(json.dumps({"columns": ["a", "k"], "rows": [[text, "x"], *rows]}), JSON)
        assert [fault.row for fault in error.faults] == [1]


def test_texts_after_many_empty_cells_are_levels() -> None:
    """What a column is may show far below its first rows."""
    rows = [_named(None, i, "x" if i % 2 else "y") for i in range(9000)]
    rows += [_named(word, i, "x") for i, word in enumerate(["red", "green"] * 50)]
    (column, _) = upload(json.dumps(rows), JSON).parsed.table
    assert (column["kind"], column["levels"]) == ("category", ["green", "red"])


def _named(*row: Any) -> dict[str, Any]:
    return dict(zip(("a", "b", "k"), row, strict=True))
