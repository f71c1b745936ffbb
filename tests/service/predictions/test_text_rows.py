"""Rows of tables with columns of texts."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from math import nan
from typing import Any

import numpy as np
import pytest

from service.errors import InvalidContent, ServiceError
from service.rows.cell_texts.reading import Reading
from service.rows.columns import Columns
from service.rows.format_table import FORMATS
from service.rows.spec import CSV, JSON, NDJSON, TSV, RowLimits
from svm.data.columns import Column
from svm.data.matrices import Vector
from svm.data.texts import texts_of

LIMITS = RowLimits(100_000, 4096, 1 << 20)
MESSAGE = Columns(1, ["message"], (Column("message", "text"),))
TICKET = Columns(
    4,
    ["hours", "subject", "body", "urgent"],
    (
        Column("hours", "number"),
        Column("subject", "text"),
        Column("body", "text"),
        Column("urgent", "boolean"),
    ),
)
TEXTS = [
    "Free entry, win £100!",
    "a",
    "NA",
    "None",
    "?",
    "0.5",
    "true",
    "# not a comment",
    '="kept"',
    'he said: "yes", twice',
    "],[ },{ \\ \\u003a",
    "نص من اليمين",
    "Ｆｕｌｌ ﬁ e\u0301 👩‍👩‍👧",
    "two\nlines",
]


def read(media_type: str, body: bytes, columns: Columns) -> Vector:
    reader = FORMATS[media_type].read_rows
    assert reader is not None
    X = reader(body, columns, LIMITS).X
    assert isinstance(X, np.ndarray)
    return X


def cells(X: Vector, column: int) -> list[str | None]:
    """The texts of a column, None for missing ones."""
    texts = texts_of(X)
    return [None if cell != cell else texts.take([int(cell)])[0] for cell in X[:, column].tolist()]


def delimited(rows: Sequence[Sequence[Any]], delimiter: str) -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def bodies(names: list[str], rows: list[list[Any]]) -> dict[str, tuple[str, bytes]]:
    """The rows in every format that is a text."""
    objects = [dict(zip(names, row, strict=True)) for row in rows]
    return {
        "lists": (JSON, json.dumps({"instances": rows}).encode()),
        "objects": (JSON, json.dumps({"instances": objects}, ensure_ascii=False).encode()),
        "records": (JSON, json.dumps(objects).encode()),
        "columns": (
            JSON,
            json.dumps({name: [row[name] for row in objects] for name in names}).encode(),
        ),
        "lines": (NDJSON, "\n".join(map(json.dumps, objects)).encode()),
        "csv": (CSV, delimited([names, *rows], ",")),
        "tsv": (TSV, delimited([names, *rows], "\t")),
    }


def test_texts_are_read_as_they_came() -> None:
    """In every format: words for missing cells, marks and scripts of all kinds are texts."""
    for name, (media_type, body) in bodies(["message"], [[text] for text in TEXTS]).items():
        assert cells(read(media_type, body, MESSAGE), 0) == TEXTS, name


def test_texts_beside_other_columns() -> None:
    """Each of several text columns has its own texts."""
    rows: list[list[Any]] = [[i / 2, text, text[::-1], True] for i, text in enumerate(TEXTS)]
    rows[3][0] = None
    for name, (media_type, body) in bodies(TICKET.names or [], rows).items():
        X = read(media_type, body, TICKET)
        assert cells(X, 1) == TEXTS, name
        assert cells(X, 2) == [text[::-1] for text in TEXTS], name
        assert np.array_equal(X[:, 0], [nan if r[0] is None else r[0] for r in rows], True), name


@pytest.mark.parametrize("n", [1, 5000])
def test_rows_keep_their_order_in_long_bodies(n: int) -> None:
    """They are read in pieces, with missing cells between them."""
    texts = [None if i % 7 == 3 else f"text {i}: \u00e9 " + "x" * (i % 200) for i in range(n)]
    for name, (media_type, body) in bodies(["message"], [[text] for text in texts]).items():
        assert cells(read(media_type, body, MESSAGE), 0) == texts, name


@pytest.mark.parametrize("blank", [None, "", " ", " \t\n", "\u00a0\u3000"])
def test_blank_cells_are_missing(blank: str | None) -> None:
    """Null, empty, or blanks of any kind only."""
    for name, (media_type, body) in bodies(["message"], [["x"], [blank], ["y"]]).items():
        assert cells(read(media_type, body, MESSAGE), 0) == ["x", None, "y"], name


def test_words_for_missing_cells_are_those_of_the_caller() -> None:
    """Named when the training file was uploaded."""
    columns = Columns(1, ["message"], MESSAGE.table, reading=Reading(missing=frozenset({"leer"})))
    X = read(JSON, b'{"instances": [["leer"], [" leer "], ["NA"], ["leerer"]]}', columns)
    assert cells(X, 0) == [None, None, "NA", "leerer"]


def test_numbers_and_booleans_count_as_their_texts() -> None:
    """As those of levels do."""
    X = read(JSON, b'{"instances": [[5], [1.0], [1.50], [true], [-0.25]]}', MESSAGE)
    assert cells(X, 0) == ["5", "1", "1.5", "true", "-0.25"]


@pytest.mark.parametrize("cell", [[], ["a"], {}, {"a": 1}])
@pytest.mark.parametrize("named", [False, True])
def test_lists_and_objects_are_no_texts(cell: Any, named: bool) -> None:
    """The error names row and column."""
    rows = [["x"], [cell]]
    body = json.dumps({"instances": [{"message": row[0]} for row in rows] if named else rows})
    with pytest.raises(InvalidContent) as caught:
        read(JSON, body.encode(), MESSAGE)
    (fault,) = caught.value.faults
    assert (fault.row, fault.column, fault.code) == (2, "message", "invalid-field")


def test_a_lone_surrogate_is_refused() -> None:
    """It is no text; in NDJSON with its row."""
    for media_type, body in (
        (JSON, b'{"instances": [["x"], ["\\ud800"]]}'),
        (NDJSON, b'["x"]\n["\\ud800"]'),
    ):
        with pytest.raises(ServiceError, match="lone surrogate") as caught:
            read(media_type, body, MESSAGE)
    assert caught.value.faults[0].row == 2


def test_a_csv_of_texts_needs_its_header() -> None:
    """Any text may be a row: a first line that is no header would be one silently."""
    with pytest.raises(InvalidContent, match="the header lacks 'message'"):
        read(CSV, b"msg\nhello\n", MESSAGE)
    X = read(CSV, b"2,hello,you,true\n", TICKET)  # no header has a number
    assert cells(X, 1) == ["hello"]


def test_missing_numbers_keep_the_texts_of_their_rows() -> None:
    """A number that means a missing cell is replaced in a copy."""
    columns = Columns(4, TICKET.names, TICKET.table, reading=Reading(missing=frozenset({"-999"})))
    X = read(JSON, b'{"instances": [[-999, "a", "b", true]]}', columns)
    marked = columns.marked(X)
    assert isinstance(marked, np.ndarray)
    assert np.isnan(marked[0, 0])
    assert cells(marked, 2) == ["b"]
