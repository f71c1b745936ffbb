"""Arrow: what pyarrow, pandas and polars write, and streams that lie."""

from __future__ import annotations

import importlib
import io
import json
import multiprocessing
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import service.rows.formats.arrow
from service.errors import ServiceError, UnsupportedFormat
from service.predictions import wire_format
from service.rows.columns import Columns
from service.rows.formats.arrow import MOST_BATCHES, read_rows
from service.rows.formats.json_to_predict import read_document
from service.rows.spec import ARROW, PARQUET, RowLimits
from svm.data.columns import Column
from svm.data.texts import texts_of
from tests.mutation import mutated
from tests.seeds import seed_from
from tests.service.rows.arrays import arrow
from tests.service.rows.reading import places, refusal, upload

LIMITS = RowLimits(1000, 4096, 1 << 20)
LONG = "a level that is longer than twelve bytes"
N = 40
TABLE = (
    Column("x", "number"),
    Column("n", "number"),
    Column("b", "boolean"),
    Column("c", "category", ("l0", "l1", "l2", LONG)),
    Column("t", "text"),
    Column("d", "date"),
)
NAMES = [column.name for column in TABLE]
FEATURES = Columns(len(TABLE), NAMES, TABLE)
NUMBERS = Columns(2, ["a", "b"])


def matrix(body: bytes, columns: Columns, limits: RowLimits = LIMITS) -> NDArray[np.float64]:
    X = read_rows(body, columns, limits).X
    assert isinstance(X, np.ndarray)
    return X


def cells(seed: int = 0) -> dict[str, list[Any]]:
    """Columns with gaps."""
    draw = np.random.default_rng(seed)
    columns: dict[str, list[Any]] = {
        "x": draw.normal(size=N).tolist(),
        "n": draw.integers(-9, 2**40, N).tolist(),
        "b": (draw.random(N) < 0.5).tolist(),
        "c": [("l0", "l1", "l2", LONG, "other")[k] for k in draw.integers(0, 5, N)],
        "t": [f"{LONG} number {k}" for k in draw.integers(0, 9, N)],
        "d": [date(2024, 1, 1 + int(k)) for k in draw.integers(0, 9, N)],
    }
    for column in columns.values():
        for k in draw.integers(0, N, 4):
            column[k] = None
    return columns


def pandas(columns: dict[str, list[Any]], compression: str | None = None, **types: str) -> bytes:
    frame = pd.DataFrame(columns).astype(types)
    return arrow(pa.Table.from_pandas(frame, preserve_index=False), compression)


def polars(columns: dict[str, list[Any]], compression: Any = "uncompressed", **types: Any) -> bytes:
    file = io.BytesIO()
    kinds: Any = types
    pl.DataFrame(columns).cast(kinds).write_ipc_stream(file, compression=compression)
    return file.getvalue()


def written(columns: dict[str, list[Any]]) -> dict[str, bytes]:
    """The same table by every library and in every way."""
    table = pa.table(columns)
    views = table.set_column(3, "c", table["c"].cast(pa.string_view()))
    return {
        "pyarrow": arrow(table),
        "in batches": arrow(table, rows=7),
        "dictionaries": arrow(table.set_column(3, "c", table["c"].dictionary_encode()), rows=7),
        "views": arrow(views, "lz4"),
        "turned": arrow(table.select(NAMES[::-1])),
        "pandas": pandas(columns),
        "pandas, lz4": pandas(columns, "lz4"),
        "pandas, categories": pandas(columns, "zstd", c="category"),
        "polars": polars(columns),
        "polars, zstd": polars(columns, "zstd"),
        "polars, lz4": polars(columns, "lz4", c=pl.Categorical),
        "polars, enum": polars(columns, c=pl.Enum(["other", "l2", "l1", "l0", LONG])),
    }


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_every_library_are_those_of_json(seed: int) -> None:
    """To the bit, with their gaps, unknown levels and texts."""
    columns = cells(seed)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    expected = read_document(
        json.dumps({"instances": rows}, default=str).encode(), FEATURES, LIMITS
    )
    position = NAMES.index("t")
    for name, body in written(columns).items():
        read = read_rows(body, FEATURES, LIMITS)
        assert isinstance(read.X, np.ndarray)
        assert isinstance(expected.X, np.ndarray)
        X, other = np.array(read.X), np.array(expected.X)
        for row in range(N):
            one, same = X[row, position], other[row, position]
            if np.isnan(one) or np.isnan(same):
                assert np.isnan(one), name
                assert np.isnan(same), name
            else:
                assert texts_of(read.X).take([int(one)]) == texts_of(expected.X).take([int(same)])
        X[:, position] = other[:, position] = 0
        assert X.tobytes() == other.tobytes(), name
        assert read.again is not None
        assert expected.again is not None
        again = [[None if cell != cell else cell for cell in row] for row in read.again()]
        assert again == list(expected.again()), name


@pytest.mark.parametrize("role", ["label", "weight", "group", "time"])
def test_uploads_are_those_of_parquet(role: str) -> None:
    """Kinds, gaps, roles, labels and values are the same; so is what is reported."""
    import pyarrow.parquet

    columns = {**cells(), "role": [float(k % 7) for k in range(N)], "k": ["p", "q"] * (N // 2)}
    file = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), file)
    asked: dict[str, Any] = {"target": "k", "schema": {"role": {"role": role}}}
    if role == "label":
        asked = {"target": "role"}
    expected = upload(file.getvalue(), PARQUET, **asked)
    frame = pa.table(columns)
    for body in (arrow(frame), polars(columns, "zstd", c=pl.Categorical), pandas(columns, "lz4")):
        result = upload(body, ARROW, **asked)
        assert result.parsed.matrix_digest == expected.parsed.matrix_digest
        assert result.parsed.table == expected.parsed.table
        assert result.parsed.beside == expected.parsed.beside
        assert result.parsed.warnings == expected.parsed.warnings


def test_files_are_uploads() -> None:
    """Feather, and the files of polars; rows to predict are streams."""
    columns = {"a": [1.5, 2.5, 3.5], "k": ["p", "q", "p"]}
    feather, ipc = io.BytesIO(), io.BytesIO()
    pd.DataFrame(columns).to_feather(feather)
    pl.DataFrame(columns).write_ipc(ipc, compression="zstd")
    expected = upload(arrow(pa.table(columns)), ARROW)
    for file in (feather.getvalue(), ipc.getvalue()):
        assert upload(file, ARROW).parsed.matrix_digest == expected.parsed.matrix_digest
        assert refused(file).code == "columnar-unsupported"


def test_an_index_of_pandas_is_no_feature() -> None:
    """As in Parquet: one without a name is ignored; one that counts the rows is not sent."""
    frame = pd.DataFrame({"a": [1.5, 2.5, 4.0], "k": ["p", "q", "p"]}, index=[5, 3, 9])
    result = upload(arrow(pa.Table.from_pandas(frame)), ARROW, target="k")
    assert result.parsed.columns == ["a"]
    frame = pd.DataFrame({"a": [1.5, 2.5], "b": [1, 2]})
    assert read_rows(arrow(pa.Table.from_pandas(frame)), NUMBERS, LIMITS).X.shape == (2, 2)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, 2], pa.int8()),
        pa.array([1, 2], pa.uint64()),
        pa.array(np.array([1, 2], np.float16)),
        pa.array([1, 2], pa.float32()),
        pa.array([Decimal("1.00"), Decimal("2.00")]),
        pa.array([Decimal(1), Decimal(2)], pa.decimal256(50, 3)),
        pa.array(["1", "2.0"]),
        pa.array([1, 2]).dictionary_encode(),
        pa.array(["x", "1", "2", "y"]).dictionary_encode().slice(1, 2),
    ],
    ids=lambda values: str(values.type),
)
def test_numbers_of_any_type(values: Any) -> None:
    """A model of numbers takes what can be one, as in JSON."""
    body = arrow(pa.table({"a": values, "b": [0.5, 0.25]}))
    assert matrix(body, NUMBERS).tolist() == [[1, 0.5], [2, 0.25]]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_moments_of_any_unit(unit: Any, zone: str | None) -> None:
    """A time with a zone is that of UTC."""
    columns = Columns(1, ["d"], (Column("d", "date"),))
    moment = datetime(2024, 5, 1, 18, tzinfo=UTC)
    values = pa.array([moment, None], pa.timestamp(unit, zone))
    X = matrix(arrow(pa.table({"d": values})), columns)
    assert X[0, 0] == (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() / 86400
    assert np.isnan(X[1, 0])


def refused(body: bytes, columns: Columns = NUMBERS, limits: RowLimits = LIMITS) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        read_rows(body, columns, limits)
    return caught.value


def test_bad_cells_have_their_place() -> None:
    """Row by row, with the codes of JSON."""
    table = {"a": [1.5, None, 2.5, float("inf")], "b": ["1", "x", None, "2"]}
    expected = [
        ("missing-value", 2, "a", None),
        ("not-a-number", 2, "b", "x"),
        ("missing-value", 3, "b", None),
        ("non-finite-value", 4, "a"),
    ]
    for rows in (None, 1):
        found = places(refused(arrow(pa.table(table), rows=rows)))
        assert [place[: len(one)] for place, one in zip(found, expected, strict=True)] == expected


@pytest.mark.parametrize(
    ("columns", "code"),
    [
        ({"a": [1.0], "c": [2.0]}, "feature-mismatch"),
        ({"a": [1.0], "b": [[2.0]]}, "columnar-unsupported"),
        ({"a": [1.0], "b": [{"c": 2.0}]}, "columnar-unsupported"),
        ({"a": [1.0], "b": [b"2"]}, "columnar-unsupported"),
        ({"a": [1.0], "b": [datetime(2024, 1, 1) - datetime(2023, 1, 1)]}, "columnar-unsupported"),
        ({"a": pa.array([], pa.float64()), "b": pa.array([], pa.float64())}, "empty-data"),
        ({}, "feature-mismatch"),
    ],
    ids=["other names", "lists", "objects", "bytes", "durations", "no rows", "no columns"],
)
def test_tables_that_are_no_rows(columns: dict[str, Any], code: str) -> None:
    """A column that is not used may be of any type."""
    assert refused(arrow(pa.table(columns))).code == code
    if code == "columnar-unsupported":
        assert "column 'b' is of type" in refused(arrow(pa.table(columns))).detail
        used = Columns(1, ["a"])
        assert read_rows(arrow(pa.table(columns)), used, LIMITS).ignored == ("b",)
        assert refusal(arrow(pa.table(columns)), ARROW).code == code


def test_names_that_come_twice() -> None:
    """Rows to predict cannot have them, uploads number them as in CSV."""
    table = pa.Table.from_arrays([pa.array([1.0, 2.0])] * 3, names=["a", "b", "a"])
    assert "repeats 'a'" in refused(arrow(table)).detail
    assert upload(arrow(table), ARROW, target="none").parsed.columns == ["a", "b", "a.1"]


def test_dictionaries_that_are_longer_than_the_rows() -> None:
    """Only the levels that are used are looked at."""
    columns = Columns(1, ["c"], (Column("c", "category", ("l7", "l8")),))
    for kind in (pa.string(), pa.string_view()):
        levels = pa.array([f"l{k}" for k in range(100)] + [None], kind)
        codes = pa.array([8, None, 7, 100, 9, 8], pa.int8())
        values = pa.DictionaryArray.from_arrays(codes, levels)
        X = matrix(arrow(pa.table({"c": values})), columns)
        assert np.array_equal(X[:, 0], np.array([1, np.nan, 0, np.nan, -1, 1]), equal_nan=True)


def test_dictionaries_that_grow() -> None:
    """A batch may add to the dictionary of those before it, or replace it."""
    first, second = pa.array(["1", "2"]), pa.array(["1", "2", "3"])
    for values in (second, pa.array(["9", "8", "3"])):
        out = io.BytesIO()
        parts = [
            pa.DictionaryArray.from_arrays([0, 1], first),
            pa.DictionaryArray.from_arrays([2, None], values),
        ]
        columns = Columns(1, ["a"], (Column("a", "number"),))
        options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
        schema = pa.schema({"a": parts[0].type})
        with pa.ipc.new_stream(out, schema, options=options) as writer:
            for part in parts:
                writer.write_batch(pa.record_batch([part], schema=schema))
        X = matrix(out.getvalue(), columns)
        assert np.array_equal(X, np.array([[1], [2], [3], [np.nan]]), equal_nan=True)


def test_sizes_are_checked_before_they_are_taken() -> None:
    """Rows, batches, and what buffers, texts and nulls become."""
    small = pa.table({"a": [1.0] * 1001, "b": [1.0] * 1001})
    assert refused(arrow(small)).code == "too-many-rows"
    batches = pa.table({"a": [1.0] * (MOST_BATCHES + 1), "b": [1.0] * (MOST_BATCHES + 1)})
    many = RowLimits(10**6, 4096, 1 << 20)
    error = refused(arrow(batches, rows=1), limits=many)
    assert "batches" in error.detail
    zeros = pa.table({"a": np.zeros(12_000_000), "b": np.zeros(12_000_000)})
    huge = RowLimits(10**9, 4096, 1 << 20)
    assert refused(arrow(zeros, "zstd"), limits=huge).code == "decompression-limit"
    nulls = pa.table({f"c{i}": pa.nulls(10**6) for i in range(20)})
    wide = Columns(20, nulls.column_names, tuple(Column(c, "number") for c in nulls.column_names))
    assert refused(arrow(nulls), wide, huge).code == "decompression-limit"
    texts = pa.array(["x" * 2_000_000]).dictionary_encode()
    same = pa.table({f"c{i}": texts for i in range(60)})
    levels = Columns(60, same.column_names, tuple(Column(c, "text") for c in same.column_names))
    assert refused(arrow(same, "zstd"), levels, huge).code == "decompression-limit"
    views = np.array([[100_000, 0x78787878, 0, 0]] * 2000, np.int32)
    buffers = [None, pa.py_buffer(views.tobytes()), pa.py_buffer(b"x" * 100_000)]
    repeated = pa.Array.from_buffers(pa.string_view(), 300, buffers)
    one = Columns(1, ["t"], (Column("t", "text"),))
    X = matrix(arrow(pa.table({"t": repeated})), one, huge)
    assert len(texts_of(X)) == 1  # a view that comes again is read once


def repeated(n_bytes: int, n_rows: int) -> dict[str, Any]:
    """One text in all rows, in every way; the first row is null."""
    text = "x" * n_bytes
    codes = pa.array([None] + [0] * (n_rows - 1), pa.int16())
    views = np.array([[n_bytes, 0x78787878, 0, 0]] * n_rows, np.int32)
    views[0] = -1  # of a null a view may be anything
    valid = np.packbits([0] + [1] * (n_rows - 1), bitorder="little").tobytes()
    buffers = [pa.py_buffer(valid), pa.py_buffer(views.tobytes()), pa.py_buffer(text.encode())]
    return {
        "dictionary": pa.DictionaryArray.from_arrays(codes, [text]),
        "dictionary of views": pa.DictionaryArray.from_arrays(
            codes, pa.array([text], "string_view")
        ),
        "views": pa.Array.from_buffers(pa.string_view(), n_rows, buffers),
        "texts": pa.array([None] + [text] * (n_rows - 1)),
    }


def test_texts_count_as_often_as_rows_have_them() -> None:
    """In rows to predict, as in JSON: a model works with each."""
    one = Columns(1, ["t"], (Column("t", "text"),))
    category = Columns(1, ["t"], (Column("t", "category", ("a",)),))
    limits = RowLimits(1000, 4096, 1 << 20, body_bytes=2_000_000)
    for name, column in repeated(10_000, 300).items():
        body = arrow(pa.table({"t": column}), "zstd")
        assert refused(body, one, limits).code == "decompression-limit", name
        assert len(matrix(body, one, limits._replace(body_bytes=3_000_000))) == 300, name
        assert len(matrix(body, category, limits)) == 300, name


def test_uploads_are_refused_before_they_are_written() -> None:
    """As Parquet is by what the rows become: each text counts in each row, and nulls count."""
    for name, column in repeated(100_000, 800).items():
        for rows in (None, 100):
            body = arrow(pa.table({"t": column, "k": np.arange(800) % 2}), "zstd", rows=rows)
            assert refusal(body, ARROW).code == "decompression-limit", name
    nulls = pa.table({f"c{i}": pa.nulls(100_000) for i in range(200)})
    assert refusal(arrow(nulls), ARROW).code == "decompression-limit"
    for column in repeated(1000, 800).values():
        table = pa.table({"t": column, "x": np.arange(800) / 7, "k": np.arange(800) % 2})
        assert upload(arrow(table, "zstd", rows=100), ARROW).parsed.n_samples == 800


def test_many_bad_cells_are_counted() -> None:
    table = pa.table({"b": [f"no {k}" for k in range(80_000)]})
    columns = Columns(1, ["b"], (Column("b", "boolean"),))
    error = refused(arrow(table), columns, RowLimits(80_000, 4096, 1 << 20))
    assert error.faults_total == 80_000
    assert [fault.row for fault in error.faults[:3]] == [1, 2, 3]


def test_a_text_that_is_too_long() -> None:
    """However short the body is."""
    one = Columns(1, ["t"], (Column("t", "text"),))
    body = arrow(pa.table({"t": ["x" * 600_000]}), "zstd")
    assert len(body) < 2000
    assert refused(body, one).code == "csv-cell-too-large"


def test_nulls_may_hold_anything() -> None:
    """The view of a null that leads out of the buffers is not followed, which would be a crash."""
    views = np.array([[25, 0x78787878, 0, 0], [-(2**24), 1, 2**30, 2**30]], np.int32)
    buffers = [pa.py_buffer(b"\1"), pa.py_buffer(views.tobytes()), pa.py_buffer(b"x" * 25)]
    values = pa.Array.from_buffers(pa.string_view(), 2, buffers)
    columns = Columns(1, ["t"], (Column("t", "category", ("x" * 25,)),))
    X = matrix(arrow(pa.table({"t": values})), columns)
    assert np.array_equal(X, np.array([[0], [np.nan]]), equal_nan=True)


def test_streams_that_end_early() -> None:
    """At any byte: also between two batches, where only the end is missing."""
    body = arrow(pa.table({"a": [1.0, 2.0], "b": [1.0, 2.0]}), rows=1)
    for end in range(len(body)):
        assert refused(body[:end]).code in ("columnar-unsupported", "format-mismatch")
    for end in range(8, len(body), 40):
        assert refusal(body[:end], ARROW).code in ("columnar-unsupported", "format-mismatch")


def _damaged(seconds: int) -> None:
    """Damaged bodies are read, or refused with a code, until the time is over."""
    draw = np.random.default_rng(seed_from("FUZZ_SEED"))
    bodies = [body for seed in range(5) for body in written(cells(seed)).values()]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        body = mutated(bodies[draw.integers(len(bodies))], draw)
        with suppress(ServiceError):
            read = read_rows(body, FEATURES, LIMITS)
            assert read.again is not None
            assert len(list(read.again())) == len(read.X)


def in_a_fork(target: Callable[..., None], *arguments: Any) -> int | None:
    """How a process that runs a function ends."""
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        process = multiprocessing.get_context("fork").Process(target=target, args=arguments)
        process.start()
    process.join()
    return process.exitcode


@pytest.mark.parametrize("seconds", [1, pytest.param(300, marks=pytest.mark.fuzz)])
@pytest.mark.timeout(600)
def test_damaged_rows_are_no_crash(seconds: int) -> None:
    """Neither of pyarrow nor an error that is not the body's."""
    assert in_a_fork(_damaged, seconds) == 0


def _without_pyarrow() -> None:
    sys.modules["pyarrow"] = None  # type: ignore[assignment]
    without = importlib.reload(service.rows.formats.arrow)
    assert ARROW not in importlib.reload(wire_format).MEDIA_TYPES
    with pytest.raises(UnsupportedFormat, match="ask the operator to install"):
        without.read_rows(b"", NUMBERS, LIMITS)


def test_a_service_without_pyarrow_says_so() -> None:
    """And what to send instead; it does not offer replies in Arrow."""
    assert in_a_fork(_without_pyarrow) == 0
