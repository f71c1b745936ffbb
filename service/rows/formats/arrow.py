"""Arrow: streams of record batches, which pyarrow reads. An upload may also be a file of Arrow.

An upload becomes a Parquet file, whose columns mean the same. Rows to predict are read in the
process of the API. A stream can announce what it does not have, and some functions of pyarrow trust
columns that pass its full validation: here it reads the messages, after the sizes that these
announce were checked, and makes numbers and dictionaries of columns that it has validated.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum, auto
from functools import cache
from importlib.util import find_spec
from itertools import chain
from math import inf, isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.common.encodings import MAX_RATIO
from service.errors import InvalidContent, UnsupportedFormat
from service.rows.cell_faults import CellFault
from service.rows.cell_values import BadCell, read_cell
from service.rows.columns import Columns
from service.rows.faults import Faults, inflates_too_much, refuse, too_many
from service.rows.formats import parquet
from service.rows.spec import (
    MOST_OTHERS,
    PARQUET,
    ParseSpec,
    RowLimits,
    Rows,
    SentFile,
    longest_text,
)
from service.rows.table.writers import Table
from svm.data.texts import TextList, with_texts

if TYPE_CHECKING:
    import pyarrow

INSTALLED = find_spec("pyarrow") is not None
FILE, STREAM = b"ARROW1", b"\xff\xff\xff\xff"
"""How both forms begin."""
_END = STREAM + bytes(4)
MOST_BATCHES = 1000
"""Of rows to predict: each takes as long as some rows."""
FREE_BYTES = 64 * 1024 * 1024
"""Up to this size what a body becomes is not compared with it."""
ROWS_AT_ONCE = 65_536
_VIEW_BYTES = 16
_AGAIN = "write the stream again"
_TYPES = "columns hold numbers, booleans, texts or dates, or dictionaries of these"

Codes: TypeAlias = NDArray[np.integer[Any]]
Part: TypeAlias = tuple[Codes, list[Any]] | NDArray[np.float64]
"""The cells of a column in a batch: codes and their cells, of which the last is null; or numbers.
"""


def write(names: Sequence[str], columns: Sequence[Sequence[Any]]) -> bytes:
    """A stream of one batch."""
    import pyarrow

    batch = pyarrow.record_batch(list(map(pyarrow.array, columns)), names=list(names))
    out = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(out, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(out.getvalue())


def read(spec: ParseSpec) -> Table:
    """Write the arrays. Raises ServiceError with every fault of the file."""
    require_pyarrow()
    import pyarrow.parquet

    limits, path = spec.limits, Path(spec.out) / "columns.parquet"
    n_rows = n_bytes = 0
    with _reported(), pyarrow.memory_map(spec.file.path) as source:
        schema, batches = _batches(source)
        if len(schema) > limits.columns + MOST_OTHERS:
            raise too_many("columns", limits.columns)
        _check_types(schema, range(len(schema)))
        plain = pyarrow.schema([field.with_type(_plain(field.type)) for field in schema])
        with pyarrow.parquet.ParquetWriter(
            path, plain, compression="none", use_dictionary=False, store_schema=False
        ) as writer:
            for batch in batches:
                batch.validate(full=True)
                n_rows += batch.num_rows
                n_bytes += sum(map(_decoded_bytes, batch.columns))
                if n_rows > limits.rows:
                    raise too_many("rows", limits.rows)
                if n_bytes > limits.inflated_bytes:
                    raise inflates_too_much("file", limits.inflated_bytes)
                becomes = max(n_bytes, 8 * n_rows * len(schema))
                parquet.check_inflated(Path(spec.file.path), becomes, limits)
                arrays = list(map(_decoded, batch.columns))
                writer.write_batch(pyarrow.record_batch(arrays, schema=plain), ROWS_AT_ONCE)
    table = parquet.read(replace(spec, file=SentFile(str(path), PARQUET)))
    path.unlink()
    return table


def _batches(
    source: pyarrow.MemoryMappedFile,
) -> tuple[pyarrow.Schema, Iterator[pyarrow.RecordBatch]]:
    import pyarrow

    if source.read(len(FILE)) == FILE:
        file = pyarrow.ipc.open_file(source)
        return file.schema, map(file.get_batch, range(file.num_record_batches))
    source.seek(max(0, source.size() - len(_END)))
    _check_end(source.read())
    source.seek(0)
    stream = pyarrow.ipc.open_stream(source)
    return stream.schema, iter(stream)


def _plain(kind: Any) -> Any:
    """Without dictionaries; of texts in these, a type that can be taken from them."""
    import pyarrow

    if not hasattr(kind, "index_type"):
        return kind
    return pyarrow.large_string() if _is_text(kind.value_type) else kind.value_type


def _is_text(kind: Any) -> bool:
    return _kinds().get(kind.id) in (_Kind.TEXT, _Kind.VIEW)


def _decoded_bytes(array: Any) -> int:
    """What a column takes if each row has a text of its own."""
    import pyarrow.compute

    rows, texts = getattr(array, "indices", array), getattr(array, "dictionary", array)
    if not _is_text(texts.type) or len(texts) == 0:
        return int(rows.nbytes)
    if _kinds()[texts.type.id] is _Kind.VIEW:
        n_numbers, start = _VIEW_BYTES // 4 * len(texts), _VIEW_BYTES * texts.offset
        views = np.frombuffer(texts.buffers()[1], np.int32, n_numbers, start)
        valid = texts.is_valid().to_numpy(zero_copy_only=False)
        sizes = np.where(valid, views[:: _VIEW_BYTES // 4], 0)
    else:
        sizes = pyarrow.compute.binary_length(texts).fill_null(0).to_numpy()
    if rows is not texts:
        sizes = np.append(sizes, 0).take(_codes(rows))
    return int(sizes.sum(dtype=np.int64))


def _decoded(array: Any) -> Any:
    import pyarrow

    if not hasattr(array, "dictionary"):
        return array
    values = array.dictionary
    if _is_text(values.type):
        values = pyarrow.array(values.to_pylist(), pyarrow.large_string())
    return values.take(array.indices)


def _check_end(tail: bytes) -> None:
    """Raises InvalidContent if a stream does not say that it ends, as it does after each batch."""
    if not tail.endswith(_END):
        raise parquet.unsupported("the stream does not end: was it cut off?", _AGAIN)


def require_pyarrow() -> None:
    """Raises UnsupportedFormat if it is not installed."""
    if not INSTALLED:
        raise UnsupportedFormat(
            "unsupported-format",
            "this service cannot read Arrow, because pyarrow is not installed: send Parquet or "
            "JSON, or ask the operator to install svm-service[arrow]",
        )


@contextmanager
def _reported() -> Iterator[None]:
    """What pyarrow cannot read is an error of the body."""
    import pyarrow

    try:
        yield
    except pyarrow.ArrowMemoryError:
        message = "the data say that they take more memory than there is"
        raise parquet.unsupported(message, _AGAIN) from None
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        what = str(error).partition("\n")[0][:200]
        raise parquet.unsupported(f"the Arrow data are damaged: {what}", _AGAIN) from None
    except struct.error:
        raise parquet.unsupported("the Arrow data are damaged", _AGAIN) from None


class _Kind(Enum):
    """How a column is read."""

    NUMBER = auto()
    DECIMAL = auto()
    BOOLEAN = auto()
    TEXT = auto()
    VIEW = auto()
    """A text as the place where it is."""
    MOMENT = auto()
    NULL = auto()


@cache
def _kinds() -> dict[int, _Kind]:
    """By the number of pyarrow's type."""
    import pyarrow.lib as of

    numbers = (
        *(of.Type_INT8, of.Type_INT16, of.Type_INT32, of.Type_INT64),
        *(of.Type_UINT8, of.Type_UINT16, of.Type_UINT32, of.Type_UINT64),
        *(of.Type_HALF_FLOAT, of.Type_FLOAT, of.Type_DOUBLE),
    )
    decimals = of.Type_DECIMAL32, of.Type_DECIMAL64, of.Type_DECIMAL128, of.Type_DECIMAL256
    return {
        **dict.fromkeys(numbers, _Kind.NUMBER),
        **dict.fromkeys(decimals, _Kind.DECIMAL),
        **dict.fromkeys((of.Type_STRING, of.Type_LARGE_STRING), _Kind.TEXT),
        **dict.fromkeys((of.Type_DATE32, of.Type_DATE64, of.Type_TIMESTAMP), _Kind.MOMENT),
        of.Type_STRING_VIEW: _Kind.VIEW,
        of.Type_BOOL: _Kind.BOOLEAN,
        of.Type_NA: _Kind.NULL,
    }


def _check_types(schema: pyarrow.Schema, positions: Sequence[int]) -> None:
    """Raises InvalidContent for a column that is not of single values."""
    known, kinds = _kinds(), schema.types
    for i in positions:
        if kinds[i].id not in known and _plain(kinds[i]).id not in known:
            name = schema.names[i][:64]
            message = f"the column {name!r} is of type {str(kinds[i])[:64]}"
            raise refuse("columnar-unsupported", message, column=name, hint=_TYPES)


def read_rows(body: bytes, columns: Columns, limits: RowLimits) -> Rows:
    """Rows to predict. Raises ServiceError, InvalidContent with every bad cell."""
    require_pyarrow()
    import pyarrow

    if body.startswith(FILE):
        hint = "write it with new_stream or write_ipc_stream"
        raise parquet.unsupported("this is a file of Arrow, not a stream", hint)
    _check_end(body)
    with _reported():
        most = max(FREE_BYTES, MAX_RATIO * len(body))
        n_bytes = sum(map(_announced, pyarrow.ipc.MessageReader.open_stream(body)))
        if n_bytes > most:
            raise inflates_too_much("body", most)
        options = pyarrow.ipc.IpcReadOptions(use_threads=False)
        stream = pyarrow.ipc.open_stream(body, options=options)
        names = stream.schema.names
        ignored: tuple[str, ...] = ()
        order = list(range(len(names)))
        if columns.names is None:
            columns.check_width(len(names))
        elif columns.names != names:
            order, ignored = columns.select("the stream", names)
        _check_types(stream.schema, order)
        batches: list[pyarrow.RecordBatch] = []
        n_rows = 0
        for batch in stream:
            n_rows += batch.num_rows
            if n_rows > limits.rows:
                raise too_many("rows to predict", limits.rows)
            if len(batches) == MOST_BATCHES:
                message = f"the stream has more than {MOST_BATCHES:,} batches"
                raise parquet.unsupported(message, "write fewer, longer ones")
            if batch.num_rows:
                batches.append(batch)
        if n_rows == 0:
            raise InvalidContent("empty-data", "the stream holds no row")
        if 8 * n_rows * columns.n_features > most:
            raise inflates_too_much("body", most)
        reader = _Reader(columns, most, limits.body_bytes)
        X = np.empty((n_rows, columns.n_features))
        done = 0
        for batch in batches:
            for j, i in enumerate(order):
                array = batch.column(i)
                array.validate(full=True)
                X[done : done + len(array), j] = reader.column(array, j, done)
            done += batch.num_rows
    reader.check()
    if columns.text_columns:
        X = with_texts(X, TextList(reader.texts))
        columns.check_texts(X, longest_text(limits.line_bytes))
    return Rows(X, ignored=ignored, again=reader.rows)


class _Reader:
    """Reads columns, batch after batch, with the readers of values of JSON."""

    def __init__(self, columns: Columns, most_bytes: int, most_text_bytes: int) -> None:
        self._columns = columns
        self._readers = columns.value_readers
        self._of_columns = columns.kinds
        self._most_bytes, self._most_text_bytes = most_bytes, most_text_bytes
        self._n_bytes = self._n_text_bytes = 0
        self._cells: list[list[Part]] = [[] for _ in self._readers]
        self._bad: list[tuple[int, int, CellFault]] = []
        self.texts: list[str] = []

    def column(self, array: Any, j: int, done: int) -> NDArray[np.float64]:
        """The raw values of feature `j` in a batch after `done` rows."""
        if self._of_columns[j] == "number" and _kinds().get(array.type.id) is _Kind.NUMBER:
            return self._numbers(array, j, done)
        codes, cells = self._coded(array)
        cells.append(None)
        self._cells[j].append((codes, cells))
        if self._of_columns[j] == "text":
            self._count_texts(codes, cells)
        try:
            raw = list(map(self._readers[j], cells))
            if isfinite(sum(raw[:-1])):
                return np.array(raw, np.float64).take(codes)
        except (BadCell, TypeError, OverflowError):
            pass
        values = np.full(len(cells), nan)
        bad: dict[int, CellFault] = {}
        for code in np.unique(codes).tolist():
            try:
                values[code] = self._raw(cells[code], j)
            except BadCell as error:
                bad[code] = error.fault
        if bad:
            rows = enumerate(codes.tolist(), done)
            self._bad += [(row, j, bad[code]) for row, code in rows if code in bad]
        return values.take(codes)

    def _numbers(self, array: Any, j: int, done: int) -> NDArray[np.float64]:
        values: NDArray[np.float64] = array.to_numpy(zero_copy_only=False)
        values = values.astype(np.float64, copy=False)
        self._cells[j].append(values)
        if not np.isfinite(values).all():
            for cell in (None, inf, -inf):
                rows = np.flatnonzero(np.isnan(values) if cell is None else values == cell)
                try:
                    self._raw(cell, j)
                except BadCell as error:
                    self._bad += [(row, j, error.fault) for row in (done + rows).tolist()]
        return values

    def _raw(self, cell: Any, j: int) -> float:
        """The raw value of a cell. Raises BadCell."""
        value = read_cell(self._readers[j], cell)
        if isinstance(value, str):
            self.texts.append(value)
            return len(self.texts) - 1
        return value

    def _coded(self, array: Any) -> tuple[Codes, list[Any]]:
        """A code for each row, -1 if it is null, and the cells of the codes."""
        import pyarrow

        if hasattr(array, "dictionary"):
            codes, dictionary = _codes(array.indices), array.dictionary
            if len(dictionary) > len(codes):
                used, codes = np.unique(codes, return_inverse=True)
                if _is_text(dictionary.type):
                    return codes, [self._text(dictionary, i) for i in used.tolist()]
                dictionary = dictionary.take(pyarrow.array(used, mask=used < 0))
            return codes, self._json_values(dictionary)
        kind = _kinds()[array.type.id]
        if kind is _Kind.NULL:
            return np.full(len(array), -1), []
        if kind is not _Kind.VIEW:
            encoded = array.dictionary_encode()
            return _codes(encoded.indices), self._json_values(encoded.dictionary)
        # A view is a short text, or length and place of a long one. That of a null may be anything:
        # functions for texts would follow it.
        validity, views, *more = array.buffers()
        octets = pyarrow.binary(_VIEW_BYTES)
        encoded = pyarrow.Array.from_buffers(octets, len(array), [validity, views])
        encoded = encoded.dictionary_encode()
        buffers = [*encoded.dictionary.buffers(), *more]
        texts = pyarrow.Array.from_buffers(array.type, len(encoded.dictionary), buffers)
        return _codes(encoded.indices), self._json_values(texts)

    def _json_values(self, values: Any) -> list[Any]:
        """As a Parquet file gives them: dates as ISO texts, NaN as null."""
        kind = _kinds()[values.type.id]
        if kind is _Kind.VIEW and len(values.buffers()) > 2:
            lengths = np.frombuffer(values.buffers()[1], np.int32)[:: _VIEW_BYTES // 4]
            self._count(int(lengths.clip(0).sum(dtype=np.int64)))
        elif kind is _Kind.TEXT:
            self._count(values.nbytes)
        if kind is _Kind.MOMENT:
            zone = "" if getattr(values.type, "tz", None) is None else "+00"
            moments = values.to_numpy(zero_copy_only=False)
            if not hasattr(values.type, "unit"):
                moments = moments.astype("datetime64[D]")
            return [_moment(text, zone) for text in np.datetime_as_string(moments).tolist()]
        if kind is _Kind.NUMBER and np.dtype(values.type.to_pandas_dtype()).kind == "f":
            numbers = values.to_numpy(zero_copy_only=False).astype(np.float64).tolist()
            return [None if number != number else number for number in numbers]
        cells: list[Any] = values.to_pylist()
        if kind is _Kind.DECIMAL:
            return [None if cell is None else float(cell) for cell in cells]
        return cells

    def _text(self, dictionary: Any, i: int) -> str | None:
        text: str | None = dictionary[i].as_py() if i >= 0 else None
        self._count(len(text or ""))
        return text

    def _count(self, n_bytes: int) -> None:
        self._n_bytes += n_bytes
        if self._n_bytes > self._most_bytes:
            raise inflates_too_much("body", self._most_bytes)

    def _count_texts(self, codes: Codes, cells: list[Any]) -> None:
        """Each as often as rows have it: a model works with all of them."""
        sizes = np.array([len(cell) if isinstance(cell, str) else 0 for cell in cells])
        self._n_text_bytes += int(sizes.take(codes).sum())
        if self._n_text_bytes > self._most_text_bytes:
            raise inflates_too_much("body", self._most_text_bytes)

    def check(self) -> None:
        """Raises InvalidContent with every bad cell, row by row."""
        faults = Faults()
        for row, j, fault in sorted(self._bad, key=lambda one: one[:2]):
            faults.add(*fault, row=row + 1, column=self._columns.column(j))
        faults.check()

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The cells of each row as JSON has them."""
        columns = (chain.from_iterable(map(_cells_of, parts)) for parts in self._cells)
        return zip(*columns, strict=True)


def _cells_of(part: Part) -> Iterable[Any]:
    if isinstance(part, tuple):
        codes, cells = part
        return map(cells.__getitem__, codes.tolist())
    values: list[float] = part.tolist()
    return values


def _codes(indices: Any) -> Codes:
    """-1 for null."""
    codes: NDArray[Any] = indices.to_numpy(zero_copy_only=False)
    return codes if indices.null_count == 0 else np.nan_to_num(codes, nan=-1).astype(np.int64)


def _moment(text: str, zone: str) -> str | None:
    """As DuckDB writes it."""
    if text == "NaT":
        return None
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.replace("T", " ") + zone


def _announced(message: Any) -> int:
    """The bytes that the compressed buffers of a message say they become."""
    data = memoryview(message.metadata)
    batch = _follow(data, _member(data, _follow(data, 0), 2)) if message.type != "schema" else 0
    if message.type == "dictionary":
        batch = _follow(data, _member(data, batch, 1))
    if not batch or not _member(data, batch, 3):
        return 0
    buffers = _follow(data, _member(data, batch, 2))
    (count,) = struct.unpack_from("<I", data, buffers)
    places = struct.unpack_from(f"<{2 * count}q", data, buffers + 4)
    body, total = memoryview(message.body), 0
    for start, length in zip(places[::2], places[1::2], strict=True):
        if length:
            total += max(0, *struct.unpack_from("<q", body, start))
    return total


def _member(data: memoryview, table: int, number: int) -> int:
    """Where a member of a table of FlatBuffers is; 0 if it is left out."""
    (back,) = struct.unpack_from("<i", data, table)
    (size,) = struct.unpack_from("<H", data, table - back)
    at = 4 + 2 * number
    (offset,) = struct.unpack_from("<H", data, table - back + at) if at < size else (0,)
    return table + offset if offset else 0


def _follow(data: memoryview, position: int) -> int:
    (offset,) = struct.unpack_from("<I", data, position)
    return position + int(offset)
