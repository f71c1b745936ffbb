"""Parquet: columns of other programs, and files that lie."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.rows.spec import CSV, JSON, PARQUET
from tests.service.rows.arrays import parquet
from tests.service.rows.parquet_parts import (
    BYTE_ARRAY,
    DATA_PAGE,
    DICTIONARY_PAGE,
    DOUBLE,
    PLAIN,
    RLE_DICTIONARY,
    Announced,
    Chunk,
    always_first,
    file,
    labels,
    numbers,
    page,
    texts,
    thrift,
    with_footer,
)
from tests.service.rows.reading import places, refusal, upload

CASES = Path(__file__).parents[2] / "datasets/cases/tables"
GOLDEN = Path(__file__).parent / "golden"
"""Files written by pyarrow 26."""
KINDS = np.array(["x", "y", "x"], dtype=object)


@pytest.mark.parametrize(
    ("name", "X", "classes"),
    [
        ("dictionary", [[1.5], [2.0], [3.0]], ["x", "y"]),
        ("pages-2", [[1.5], [2.0], [3.0]], ["x", "y"]),
        ("row-groups", [[1.0], [2.0], [3.0]], ["x", "y"]),
        ("decimal", [[0.1], [123456789012345678.123], [3.0]], [1, 2]),
    ],
)
def test_files_of_pyarrow(name: str, X: Any, classes: Any) -> None:
    """Dictionaries, pages of the second version, a row group a row, decimal fractions."""
    result = upload((GOLDEN / f"{name}.parquet").read_bytes(), PARQUET)
    assert result.arrays["X"].tolist() == X
    assert (result.parsed.columns, result.parsed.target) == (["a"], "k")
    assert result.rows_of_labels == [classes[0], classes[1], classes[0]]


@pytest.mark.parametrize("codec", ["snappy", "zstd", "gzip", "brotli", "lz4_raw", "uncompressed"])
def test_every_codec(codec: str) -> None:
    """Whatever the pages are compressed with."""
    content = parquet({"a": np.arange(3.0), "k": KINDS}, f", codec {codec}")
    assert upload(content, PARQUET).arrays["X"].tolist() == [[0], [1], [2]]


@pytest.mark.parametrize(
    "dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "bool"]
)
def test_every_kind_of_number(dtype: str) -> None:
    """As features, and as labels, which keep their kind."""
    column = np.array([1, 0, 1], dtype)
    result = upload(parquet({"a": column, "k": column}), PARQUET)
    assert result.arrays["X"].tolist() == [[1], [0], [1]]
    kind = bool if dtype == "bool" else int
    assert repr(result.parsed.classes) == repr([kind(0), kind(1)])


def test_same_as_in_other_formats() -> None:
    """The same names, classes and digest as from JSON; the target by name or position."""
    content = parquet({"a": np.arange(3.0), "k": KINDS, "b": np.array([1, 0.1, 5e-324])})
    json = '{"columns": ["a", "b"], "rows": [[0, 1], [1, 0.1], [2, 5e-324]], "labels": %s}'
    expected = upload(json % '["x", "y", "x"]', JSON).parsed
    for target in ("k", "1"):
        found = upload(content, PARQUET, target=target).parsed
        assert found.matrix_digest == expected.matrix_digest
        assert (found.columns, found.statistics) == (expected.columns, expected.statistics)


def test_labels_elsewhere_or_not_at_all() -> None:
    """In a file of their own, or none."""
    content = parquet({"a": np.arange(3.0), "b": np.arange(3)})
    assert upload(content, PARQUET, target="none").parsed.classes is None
    assert upload(content, PARQUET, labels="p\nq\np\n").parsed.classes == ["p", "q"]


def test_rows_are_appended() -> None:
    """To those that came as something else."""
    first = upload("b,a,k\n1,2,x\n", CSV)
    content = parquet({"a": np.array([4.0]), "b": np.array([3.0]), "k": np.array(["y"], object)})
    both = upload(content, PARQUET, onto=first)
    whole = upload("b,a,k\n1,2,x\n3,4,y\n", CSV)
    assert both.parsed.matrix_digest == whole.parsed.matrix_digest


def test_names_are_as_the_file_has_them() -> None:
    """Also those that differ in nothing but their case, or hold quotes."""
    columns = {"a": numbers(2, 1.0), "A": numbers(2, 2.0), "q\"u'": numbers(2, 3.0), "k": labels(2)}
    result = upload(file(columns, 2), PARQUET)
    assert result.parsed.columns == ["a", "A", "q\"u'"]
    assert result.arrays["X"].tolist() == [[1, 2, 3], [1, 2, 3]]


def test_wrong_values_are_named() -> None:
    """Infinity, by row and column, in the order of the rows; NULL is missing."""
    a = np.ma.masked_array([1.5, 7.0, np.inf], [False, True, False])
    b = np.ma.masked_array([1, 7, 3], [False, True, False])
    error = refusal(parquet({"a": a, "b": b, "c": np.array([1, 2, -np.inf]), "k": KINDS}), PARQUET)
    assert places(error) == [
        ("non-finite-value", 3, "a", "inf"),
        ("non-finite-value", 3, "c", "-inf"),
    ]


@pytest.mark.parametrize("others", [{}, {"c": np.array(["u", "v", "u"], object)}])
def test_nan_is_a_missing_cell(others: dict[str, Any]) -> None:
    """As in CSV, also if statistics of the file leave it out; infinity is not."""
    a = np.array([1.5, np.nan, 2.5])
    result = upload(parquet({"a": a, **others, "k": KINDS}), PARQUET)
    assert result.parsed.table is not None
    assert result.parsed.table[0]["missing"] == 1
    statistics = upload((CASES / "nan-numbers-only.parquet").read_bytes(), PARQUET)
    assert statistics.parsed.table is not None
    assert statistics.parsed.table[0]["missing"] == 2


@pytest.mark.parametrize(
    "column",
    [
        np.array(["x", None, "y"], dtype=object),
        np.ma.masked_array([1, 2, 3], [False, True, False]),
        np.ma.masked_array([True, False, False], [False, True, False]),
    ],
)
def test_rows_without_a_label_are_left_out(column: Any) -> None:
    """NULL is no label."""
    result = upload(parquet({"a": np.arange(3), "k": column}), PARQUET)
    assert result.arrays["X"].tolist() == [[0], [2]]
    assert result.parsed.reading == {"unlabeled": {"count": 1, "words": {"null": 1}, "rows": [2]}}


def test_column_of_nothing() -> None:
    """Of no type, since it holds no value."""
    error = refusal((GOLDEN / "all-null.parquet").read_bytes(), PARQUET)
    assert error.code == "empty-data"


def test_many_moments_and_nulls() -> None:
    """More moments than a column has levels, some NULL: as in CSV and JSON, in one pass."""
    n = 12_000
    moments = np.datetime64("2020-01-01T00:00:00") + np.arange(n) * 37
    moments[::7] = np.datetime64("NaT")
    texts = [None if one is None else str(one).replace("T", " ") for one in moments.tolist()]
    sides = ["x" if i % 3 else "y" for i in range(n)]
    content = parquet({"at": moments.astype("M8[us]"), "k": np.array(sides, object)})
    rows = "".join(f"{text or ''},{side}\n" for text, side in zip(texts, sides, strict=True))
    as_json = {"columns": ["at"], "rows": [[text] for text in texts], "labels": sides}
    found = [
        upload(content, PARQUET).parsed,
        upload(f"at,k\n{rows}", CSV).parsed,
        upload(json.dumps(as_json), JSON).parsed,
    ]
    assert {one.matrix_digest for one in found} == {found[0].matrix_digest}
    assert found[0].table == [{"name": "at", "kind": "date", "levels": [], "missing": 1715}]


def test_texts_dates_and_nulls() -> None:
    """Texts are levels, dates days since 1970-01-01, NULL is missing."""
    words = np.array([None, "red", "blue"], dtype=object)
    day = np.array(["1970-01-03", "NaT", "1970-01-01T12:00"], "M8[us]")
    null = np.ma.masked_array([1.5, 7.0, 2.0], [False, True, False])
    columns = {"a": words, "b": day, "c": null, "k": np.arange(3)}
    result = upload(parquet(columns), PARQUET)
    kinds = [(one["kind"], one["levels"], one["missing"]) for one in result.parsed.table]
    assert kinds == [("category", ["blue", "red"], 1), ("date", [], 1), ("number", [], 1)]
    assert result.arrays["codes"].tolist() == [[-1], [1], [0]]
    np.testing.assert_array_equal(result.arrays["X"], [[2, 1.5], [np.nan, np.nan], [0.5, 2]])


@pytest.mark.parametrize("name", ["file_row_number", "filename", "number", "value", "fulfilled"])
def test_columns_named_like_those_of_the_reader(name: str) -> None:
    """A name that a query has for something else is a name like any other."""
    result = upload(parquet({name: np.arange(3.0), "k": KINDS}), PARQUET)
    assert (result.parsed.columns, result.arrays["X"].tolist()) == ([name], [[0], [1], [2]])
    assert upload(parquet({"a": np.arange(3.0), name: KINDS}), PARQUET).parsed.target == name
    words = np.array([None, "red", "blue"], dtype=object)
    assert upload(parquet({name: words, "k": np.arange(3)}), PARQUET).parsed.columns == [name]


def test_index_of_pandas_is_ignored() -> None:
    """One without a name, as frames have after a filter; the label is the column before it."""
    columns = {"a": np.arange(3), "k": np.array([1, 2, 1]), "__index_level_0__": np.arange(3) * 7}
    result = upload(parquet(columns), PARQUET)
    assert (result.parsed.columns, result.parsed.target) == (["a"], "k")
    assert result.parsed.ignored == [{"name": "__index_level_0__", "reason": "it has no name"}]


@pytest.mark.parametrize(
    ("columns", "code", "column"),
    [
        ({"a": np.array([1], "m8[us]"), "k": np.arange(1)}, "columnar-unsupported", "a"),
        ({"a": np.arange(1), "k": np.array([b"x"], object)}, "columnar-unsupported", "k"),
    ],
    ids=["duration", "bytes"],
)
def test_columns_that_are_not_read(columns: Any, code: str, column: Any) -> None:
    """Neither numbers nor texts, or with a name that says that they are none of the data."""
    error = refusal(parquet(columns), PARQUET)
    assert error.code == code
    assert error.faults[0].column == (column if column is not None else "__index_level_0__")
    assert error.faults[0].hint is not None


def test_wide_and_short() -> None:
    """DuckDB's memory is for thousands of rows of a column, however few it has."""
    columns = {f"c{j}": np.arange(3.0) + j for j in range(9000)}
    X = upload(parquet(columns), PARQUET, target="none").arrays["X"]
    assert X.shape == (3, 9000)
    assert (X[:, -1] == [8999, 9000, 9001]).all()


def test_other_files_that_are_not_read() -> None:
    """Lists in cells, and no rows."""
    assert refusal((GOLDEN / "nested.parquet").read_bytes(), PARQUET).code == "columnar-unsupported"
    empty = parquet({"a": np.zeros(0), "k": np.zeros(0)})
    assert refusal(empty, PARQUET).code == "empty-data"
    assert refusal(parquet({"k": np.arange(3)}), PARQUET).code == "empty-data"


def broken_page(count: int, says_bytes: int | None = None, content: bytes = b"\0" * 80) -> bytes:
    one = page(DATA_PAGE, content, count=count, encoding=PLAIN, says_bytes=says_bytes)
    return file({"a": Chunk(DOUBLE, [one]), "k": labels(10)}, 10)


def broken_dictionary(kind: int, content: bytes, count: int) -> bytes:
    dictionary = page(DICTIONARY_PAGE, content, count=count, encoding=PLAIN)
    codes = page(DATA_PAGE, always_first(10), count=10, encoding=RLE_DICTIONARY)
    return file({"a": Chunk(kind, [codes], dictionary), "k": labels(10)}, 10)


GOOD = file({"a": numbers(3), "k": labels(3)}, 3)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (file({"a": numbers(10**9), "k": labels(10**9)}, 10**9), "too-many-rows"),
        (
            file({f"a{i}": numbers(900_000) for i in range(11)} | {"k": labels(900_000)}, 900_000),
            "decompression-limit",
        ),
        (
            file({f"a{i}": numbers(900_000) for i in range(12)} | {"k": labels(900_000)}, 900_000),
            "too-many-values",
        ),
        (file({"a": numbers(9), "k": labels(9, b"x" * 5000)}, 9), "csv-cell-too-large"),
        (
            file({"a": numbers(100_000), "k": labels(100_000, b"x" * 4000)}, 100_000),
            "decompression-limit",
        ),
        (broken_page(10, 2**31 - 1), "decompression-limit"),
        (broken_dictionary(DOUBLE, b"\0" * 8, 10**7), "columnar-unsupported"),
        (broken_dictionary(BYTE_ARRAY, texts(b"1"), 10**7), "columnar-unsupported"),
        (file({"a": numbers(5), "k": labels(10)}, 10), "columnar-unsupported"),
        (file({"a": numbers(5), "k": labels(5)}, -5), "columnar-unsupported"),
        (with_footer(b"PAR1", thrift({1: 1, 2: Announced(2**31 - 1)})), "columnar-unsupported"),
        (with_footer(b"PAR1", thrift({1: 1, 2: Announced(20_000)})), "columnar-unsupported"),
        (with_footer(b"PAR1", b"\x19" * 100 + b"\0"), "columnar-unsupported"),
        (with_footer(b"PAR1", b"\x1c" * 100 + b"\0"), "columnar-unsupported"),
        (with_footer(b"PAR1", b"\x18\xff\xff\xff\xff\x0f"), "columnar-unsupported"),
        (with_footer(b"PAR1", b"\x15" + b"\xff" * 20), "columnar-unsupported"),
        (with_footer(b"PAR1" + bytes(2**24), bytes(2**24 + 1)), "columnar-unsupported"),
        (GOOD[:-4] + b"PARE", "columnar-unsupported"),
        (GOOD[:-1], "columnar-unsupported"),
        (b"PAR1", "columnar-unsupported"),
        (b"PAR1" + b"\xff" * 8 + b"PAR1", "columnar-unsupported"),
        (b"a,b\n1,2\n", "format-mismatch"),
        (b"", "columnar-unsupported"),
    ],
)
def test_files_that_lie(content: bytes, code: str) -> None:
    """About how much there is, or what it is."""
    error = refusal(content, PARQUET, limits={"rows": 5_000_000})
    assert error.code == code
    assert "duckdb" not in error.detail.lower()
    assert "/tmp" not in error.detail


def test_page_that_becomes_large() -> None:
    """Not among the cases above, which are made whenever tests are collected: it takes a second."""
    test_files_that_lie(broken_page(10, content=b"\0" * 300_000_000), "decompression-limit")


def test_columns_of_one_name() -> None:
    """Each keeps its own cells; the second one gets a number."""
    content = (GOLDEN / "same-name.parquet").read_bytes()
    result = upload(content, PARQUET, target="none")
    assert result.parsed.columns == ["a", "a.1", "k"]
    assert result.arrays["X"].tolist() == [[1, 3, 5], [2, 4, 6]]
