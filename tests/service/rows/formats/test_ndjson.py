"""NDJSON: one object a row."""

from __future__ import annotations

import re
from typing import Any

import pytest

from service.rows.spec import NDJSON
from tests.service.rows.reading import places, refusal, upload


def test_first_row_names_the_columns() -> None:
    """The last one holds the labels; other rows may have another order; blank lines are ignored."""
    result = upload(
        '{"a": 1, "b": 2.5, "k": "x"}\r\n\n'
        '{"k": "y", "b": -1e3, "a": 0}\n  \n'
        '{"a":3,"b":4,"k":"x"}',
        NDJSON,
    )
    assert (result.parsed.columns, result.parsed.target) == (["a", "b"], "k")
    assert result.arrays["X"].tolist() == [[1, 2.5], [0, -1000], [3, 4]]
    assert result.rows_of_labels == ["x", "y", "x"]


@pytest.mark.parametrize(
    ("options", "columns", "labels"),
    [
        ({"target": "a"}, ["b"], [1, 3]),
        ({"target": "none"}, ["a", "b"], None),
        ({"labels": "x\ny\n"}, ["a", "b"], ["x", "y"]),
    ],
)
def test_target(options: Any, columns: list[str], labels: Any) -> None:
    """A column, none, or a file of its own."""
    result = upload('{"a": 1, "b": 2}\n{"a": 3, "b": 4}\n', NDJSON, **options)
    assert result.parsed.columns == columns
    assert (result.rows_of_labels if labels else None) == labels


def test_one_column() -> None:
    """Without labels."""
    assert upload('{"a": 1}\n{"a": 2}\n', NDJSON, target="none").arrays["X"].tolist() == [[1], [2]]


def test_many_batches_are_read_like_one() -> None:
    """A file of some slices."""
    rows = "".join(f'{{"a": {i}, "b": {i / 7}, "k": {i % 3}}}\n' for i in range(150_000))
    result = upload(rows, NDJSON)
    assert result.parsed.n_samples == 150_000
    assert result.arrays["X"][:, 1].tolist() == [i / 7 for i in range(150_000)]
    assert result.arrays["y"].tolist() == [i % 3 for i in range(150_000)]


GOOD = '{"a": 1, "b": 2, "k": "x"}\n'


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ('{"a": "true", "b": 2, "k": "x"}', ("not-a-number", 2, "a", "true")),
        ('{"a": "1", "b": 2, "k": "x"}', ("not-a-number", 2, "a", "1")),
        ('{"a": 1e999, "b": 2, "k": "x"}', ("non-finite-value", 2, "a", "1e999")),
        ('{"a": [1], "b": 2, "k": "x"}', ("not-a-number", 2, "a", "[1]")),
        ('{"a": 1, "b": 2, "k": ["x"]}', ("invalid-field", 2, None, None)),
        ("[1, 2]", ("invalid-field", 2, None, None)),
        ("5", ("invalid-field", 2, None, None)),
    ],
)
def test_wrong_rows_are_named(line: str, place: Any) -> None:
    """With row, column and value; the rows after them, too."""
    lines = GOOD + line + "\n" + GOOD + '{"a": "w", "b": 2, "k": "x"}\n'
    error = refusal(lines, NDJSON, odd_cells="refuse")
    assert places(error) == [place, ("not-a-number", 4, "a", "w")]


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (
            GOOD + '{"a": 1, "a": 1, "b": 2, "k": "x"}',
            "malformed-json",
            "row 2: .*a.* twice",
        ),
        (
            GOOD + '{"a": 1, "a": 1, "b": 2, "k": ":"}',
            "malformed-json",
            "row 2: .*a.* twice",
        ),
        (GOOD + '{"a": {"b": 1, "b": 2}}', "malformed-json", "b.* twice"),
        (GOOD + '{"a": 1', "malformed-json", "row 2"),
        (GOOD + GOOD.strip() + GOOD, "malformed-json", "row 2"),
        (GOOD + '{"a": ' + "[" * 16 + "]" * 16 + "}", "malformed-json", "16 levels"),
        (
            GOOD + '{"a": 1, "b": 2, "k": ' + "[" * 17 + "]" * 17 + "}",
            "malformed-json",
            "16 levels",
        ),
        (GOOD + "[" * 100_000, "malformed-json", "row 2"),
        (GOOD + '{"a": "\\ud800"}', "malformed-json", "row 2"),
        (GOOD + '{"a": "\x00"}', "bad-encoding", "NUL"),
        ("", "empty-data", "no row"),
        ("\n \n", "empty-data", "no row"),
        ("{}\n{}\n", "empty-data", "no columns"),
        ('{"k": 1}\n', "empty-data", "no feature"),
        ("[1, 2]\n", "invalid-field", "row 1 is not an object"),
        ('{"a": 1, "k": "' + "x" * 1_048_576 + '"}\n', "csv-cell-too-large", "row 1"),
    ],
)
def test_files_that_cannot_be_read(content: str, code: str, said: str) -> None:
    """With the reason, and the row where there is one."""
    error = refusal(content, NDJSON)
    assert error.code == code
    assert re.search(said, error.detail), error.detail
