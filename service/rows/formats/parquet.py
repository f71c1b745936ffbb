"""Parquet: columns of numbers and booleans, and labels that may be texts. DuckDB reads them.

The numbers of rows and columns are compared with the limits before DuckDB reads any value. No text
becomes a Python object before it is known how long and how many there are. A directory gets the
memory that its size justifies, whatever it announces.
"""

from __future__ import annotations

import math
import os
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from service.common.encodings import MAX_RATIO
from service.errors import Fault, InvalidContent
from service.rows.cell_faults import HINT, CellFault
from service.rows.faults import Faults, inflates_too_much, refuse
from service.rows.formats import npy
from service.rows.kinds.building import build, may_be_plain
from service.rows.kinds.feature import Batch
from service.rows.spec import ParseSpec, ReadLimits
from service.rows.table.labels import MAX_CLASSES, Labels, too_many_texts
from service.rows.table.layout import make_layout
from service.rows.table.writers import DenseWriter, Table, dense_table, labels_of
from service.storage.locked_duckdb import connect, identifier, literal

if TYPE_CHECKING:
    import duckdb

FREE_BYTES = 64 * 1024 * 1024
"""Up to this size of the matrix its ratio to the file does not matter."""
DIRECTORY_BYTES = 24 * 1024 * 1024
"""Memory in which DuckDB reads any directory of some kilobytes."""
DIRECTORY_RATIO = 32
"""Memory for each further byte of it."""
VALUES_AT_ONCE = 2 * 1024 * 1024
"""Read in one query; more if one column has more."""
VECTOR_ROWS = 2048
"""DuckDB takes memory for this many rows of a column, even if it has few."""
LABELS_AT_ONCE = 100_000
ROWS_AT_ONCE = 4096
MISSING = np.uint64(0x7FF8_0000_0000_0A11)
"""The bits of the NaN that means NULL in the file of columns."""

_SOURCE = "read_parquet($1, hive_partitioning = false)"
TEXT = "VARCHAR"
_NUMBER = re.compile(
    r"U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|FLOAT|DOUBLE|BOOLEAN|DECIMAL\(.*\)"
    r'|"NULL"'  # of a column without any value
)
_DATE = re.compile(r"DATE$|TIMESTAMP")
_INDEX_OF_PANDAS = re.compile(r"__index_level_[0-9]+__")


def read(spec: ParseSpec) -> Table:
    """Write the arrays. Raises ServiceError with every fault of the file."""
    path = Path(spec.data).resolve()
    with connect(path) as connection, reported(spec):
        file = ParquetFile(connection, str(path))
        with memory_for_directory(path):
            n_samples = file.n_samples()
        columns = file.columns()
        kinds = (column.is_date or column.is_index or column.is_boolean for column in columns)
        plain = not any(kinds)
        if plain and may_be_plain(spec):
            try:
                return _read_plain(spec, path, file, columns.copy(), n_samples)
            except InvalidContent as error:
                if error.code not in ("not-a-number", "missing-value", "too-many-classes"):
                    raise
        return _read_table(spec, path, file, columns, n_samples)


def _read_table(
    spec: ParseSpec, path: Path, file: ParquetFile, columns: list[_Column], n_samples: int
) -> Table:
    """Columns with texts, dates or NULL."""
    n_bytes = n_samples * 8 * len(columns)
    n_bytes += sum(file.text_bytes(column) for column in columns if column.type == TEXT)
    if n_bytes > max(FREE_BYTES, MAX_RATIO * path.stat().st_size):
        raise inflates_too_much("file", spec.limits.inflated_bytes)
    names = [column.name for column in columns]
    longest = spec.limits.cell_bytes

    def has_inf(cells: tuple[Any, ...]) -> bool:
        return math.inf in cells or -math.inf in cells

    def passes(faults: Faults) -> Iterator[Batch]:
        for rows in file.rows([column.cell(longest) for column in columns]):
            cells = zip(*rows, strict=True)
            yield [list(map(_written, one)) if has_inf(one) else one for one in cells]

    index = [i for i, column in enumerate(columns) if column.is_index]
    return build(spec, len(columns), names, passes, index)


def _written(cell: Any) -> Any:
    """Infinity as it is called: in JSON it is a number that is too large."""
    return str(cell) if cell in (math.inf, -math.inf) else cell


def _read_plain(
    spec: ParseSpec, path: Path, file: ParquetFile, columns: list[_Column], n_samples: int
) -> Table:
    """Columns of finite numbers. Raises InvalidContent for others."""
    layout = make_layout(spec, len(columns), [column.name for column in columns])
    if n_samples == 0:
        raise InvalidContent("empty-data", "the file has no row")
    with DenseWriter(Path(spec.out), layout.n_features, spec.limits) as writer:
        writer.check(n_samples)
        inflated = 8 * n_samples * len(columns)
        if inflated > max(FREE_BYTES, MAX_RATIO * path.stat().st_size):
            raise inflates_too_much("file", spec.limits.inflated_bytes)
        faults = Faults()
        labels = labels_of(layout, faults)
        if layout.target is not None and labels is not None:
            _read_labels(file, columns.pop(layout.target), labels, spec)
        _read_features(file, columns, n_samples, writer, faults)
        faults.check()
        writer.finish()
    return dense_table(layout, n_samples, labels)


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    """As the file has it."""
    sql: str
    """As it is called in queries, which know no difference between `a` and `A`."""
    type: str

    @property
    def is_number(self) -> bool:
        return self.type != TEXT and not self.is_date

    @property
    def is_date(self) -> bool:
        return _DATE.match(self.type) is not None

    @property
    def is_boolean(self) -> bool:
        return self.type == "BOOLEAN"

    @property
    def is_index(self) -> bool:
        """Whether it is an index of pandas without a name."""
        return _INDEX_OF_PANDAS.fullmatch(self.name) is not None

    def cell(self, longest: int) -> str:
        """In SQL, as a value of JSON; dates as ISO texts, of a long text the beginning."""
        if self.is_date:
            return f"{self.sql}::VARCHAR"
        if self.type == TEXT:
            return f"left({self.sql}, {longest})"
        return self.sql if self.is_boolean else self.number

    @property
    def number(self) -> str:
        """In SQL, as a float64. Decimal fractions by their digits: the nearest one; NaN is NULL, as
        in CSV."""
        through = "::VARCHAR" if self.type.startswith("DECIMAL") else ""
        number = f"{self.sql}{through}::DOUBLE"
        return f"nullif({number}, 'nan'::DOUBLE)" if self.is_float else number

    @property
    def is_float(self) -> bool:
        return self.type in ("FLOAT", "DOUBLE")


@dataclass(frozen=True, slots=True)
class ParquetFile:
    connection: duckdb.DuckDBPyConnection
    path: str

    def columns(self) -> list[_Column]:
        """Raises InvalidContent if one holds neither features nor labels."""
        described = self._all(f"DESCRIBE SELECT * FROM {_SOURCE}")
        for name, kind, *_ in described:
            _check_flat(name, kind)
        # None of them has parts: the schema is the root, and they.
        _, *names = self._all("SELECT name FROM parquet_schema($1) ORDER BY column_id")
        if len(names) != len(described):
            raise unsupported("the columns of the file have parts", "write it with plain columns")
        return [
            _Column(name, identifier(sql), kind)
            for (name,), (sql, kind, *_) in zip(names, described, strict=True)
        ]

    def n_samples(self) -> int:
        ((count,),) = self._all("SELECT num_rows FROM parquet_file_metadata($1)")
        return int(count)

    def first(self, expression: str, condition: str) -> tuple[int, Any] | None:
        """Number and value of the first row that fulfills the condition."""
        # Not by DuckDB's `file_row_number`, which a column of the file may be called, too.
        numbered = (
            f"SELECT row_number() OVER () AS number, {expression} AS value, "
            f"{condition} AS fulfilled FROM {_SOURCE}"
        )
        rows = self._all(f"SELECT number, value FROM ({numbered}) WHERE fulfilled LIMIT 1")
        return (int(rows[0][0]), rows[0][1]) if rows else None

    def text_bytes(self, column: _Column) -> int:
        ((total,),) = self._all(f"SELECT coalesce(sum(strlen({column.sql})), 0) FROM {_SOURCE}")
        return int(total)

    def distinct(self, column: _Column, limit: int) -> list[str]:
        """Texts of a column, at most `limit`."""
        rows = self._all(
            f"SELECT DISTINCT {column.sql} FROM {_SOURCE} WHERE {column.sql} IS NOT NULL "
            f"LIMIT {limit}"
        )
        return [text for (text,) in rows]

    def arrays(self, *expressions: str) -> list[npt.NDArray[Any]]:
        """(n_samples,) each; masked if something is NULL."""
        named = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(expressions))
        result = self.connection.execute(f"SELECT {named} FROM {_SOURCE}", [self.path])
        columns = result.fetchnumpy()
        return [columns[f"c{i}"] for i in range(len(expressions))]

    def rows(self, expressions: list[str]) -> Iterator[list[tuple[Any, ...]]]:
        """All rows, some at a time."""
        query = f"SELECT {', '.join(expressions)} FROM {_SOURCE}"
        result = self.connection.execute(query, [self.path])
        while rows := result.fetchmany(ROWS_AT_ONCE):
            yield rows

    def _all(self, query: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(query, [self.path]).fetchall()


@contextmanager
def reported(spec: ParseSpec) -> Iterator[None]:
    """What DuckDB cannot read is an error of the file."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException:
        raise inflates_too_much("file", spec.limits.inflated_bytes) from None
    except duckdb.Error:
        message = "the file is not complete, damaged or encrypted"
        raise unsupported(message, "write the file again, without encryption") from None


@contextmanager
def memory_for_directory(path: Path) -> Iterator[None]:
    """DuckDB allocates all that a directory announces before it reads it."""
    import duckdb

    with path.open("rb") as file:
        file.seek(-min(8, path.stat().st_size), os.SEEK_END)
        directory_bytes = int.from_bytes(file.read(4), "little")
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    allowed = _data_bytes() + DIRECTORY_BYTES + DIRECTORY_RATIO * directory_bytes
    if soft == resource.RLIM_INFINITY or allowed < soft:
        resource.setrlimit(resource.RLIMIT_DATA, (allowed, hard))
    try:
        yield
    except duckdb.OutOfMemoryException:
        message = "the file announces more columns or parts than it has"
        raise unsupported(message, "write the file again") from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_bytes() -> int:
    """What RLIMIT_DATA counts, of this process now."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmData:")[2].split()[0])


def unsupported(message: str, hint: str) -> InvalidContent:
    return refuse("columnar-unsupported", message, hint=hint)


def _check_flat(name: str, kind: str) -> None:
    if kind != TEXT and not _NUMBER.fullmatch(kind) and not _DATE.match(kind):
        message = f"the column {name[:64]!r} is of type {kind[:64]}"
        hint = "columns hold numbers, booleans, texts or dates"
        raise refuse("columnar-unsupported", message, column=name[:64], hint=hint)


def _read_labels(file: ParquetFile, column: _Column, labels: Labels, spec: ParseSpec) -> None:
    if not column.is_number:
        _read_texts(file, column, labels, spec.limits)
        return
    as_float = column.is_float or column.type.startswith("DECIMAL")
    expression = column.number if as_float else column.sql
    (values,) = file.arrays(expression)
    for start in range(0, len(values), LABELS_AT_ONCE):
        block = values[start : start + LABELS_AT_ONCE]
        if np.ma.is_masked(block):
            labels.add_json(block.tolist())
        else:
            labels.add_numbers(np.ma.getdata(block))


def _read_texts(file: ParquetFile, column: _Column, labels: Labels, limits: ReadLimits) -> None:
    long = file.first(f"left({column.sql}, 64)", f"strlen({column.sql}) > {limits.cell_bytes}")
    if long is not None:
        row, value = long
        message = f"row {row}: the label has more than {limits.cell_bytes:,} bytes"
        raise refuse(
            "csv-cell-too-large",
            message,
            row=row,
            column=column.name,
            value=value,
            hint="shorten it",
        )
    if file.text_bytes(column) > limits.inflated_bytes:
        raise inflates_too_much("file", limits.inflated_bytes)
    texts = file.distinct(column, MAX_CLASSES + 1)
    if len(texts) > MAX_CLASSES:
        raise too_many_texts(column.name)
    if not texts:
        texts = [""]
    file.connection.execute(f"CREATE TYPE labels AS ENUM ({', '.join(map(literal, texts))})")
    (codes,) = file.arrays(f"enum_code({column.sql}::labels)")
    known: list[str | None] = [*texts, None]
    places = np.ma.filled(codes.astype(np.int64), len(texts))
    for start in range(0, len(places), LABELS_AT_ONCE):
        labels.add_json([known[i] for i in places[start : start + LABELS_AT_ONCE].tolist()])


def _read_features(
    file: ParquetFile, columns: list[_Column], n_samples: int, writer: DenseWriter, faults: Faults
) -> None:
    """Column by column to a file, which is then read row by row."""
    for column in columns:
        if not column.is_number:
            raise _text_among_numbers(file, column)
    spool = Path(writer.folder) / "columns"
    at_once = max(1, VALUES_AT_ONCE // max(n_samples, VECTOR_ROWS))
    with spool.open("wb") as out:
        for start in range(0, len(columns), at_once):
            some = columns[start : start + at_once]
            for array in file.arrays(*(column.number for column in some)):
                values = np.array(np.ma.getdata(array), dtype=np.float64)
                values[np.isnan(values)] = np.nan
                values.view(np.uint64)[np.ma.getmaskarray(array)] = MISSING
                if len(values) != n_samples:
                    raise unsupported("the columns differ in length", "write the file again")
                out.write(values.data)
    header = npy.Header((n_samples, len(columns)), True, np.dtype(np.float64), 0)
    for block in npy.blocks(spool, header, (n_samples, len(columns))):
        _add(block, columns, writer, faults)
    spool.unlink()


def _add(
    block: npt.NDArray[Any], columns: list[_Column], writer: DenseWriter, faults: Faults
) -> None:
    missing = block.view(np.uint64) == MISSING
    for i, j in np.argwhere(~np.isfinite(block)):
        fault = CellFault("non-finite-value", "is not finite", str(block[i, j]), HINT)
        if missing[i, j]:
            fault = CellFault("missing-value", "the value is NULL", None, HINT)
        faults.add(*fault, row=writer.n_samples + int(i) + 1, column=columns[j].name)
    writer.add(block)


def _text_among_numbers(file: ParquetFile, column: _Column) -> InvalidContent:
    row, value = file.first(f"left({column.sql}, 64)", f"{column.sql} IS NOT NULL") or (1, None)
    message = f"the column {column.name[:64]!r} holds texts, such as {value!r} in row {row}"
    fault = Fault(
        code="not-a-number",
        message=message,
        row=row,
        column=column.name,
        value=value,
        hint="encode words as numbers, or name the column as `target`",
    )
    return InvalidContent("not-a-number", f"{message}; {fault.hint}", (fault,))
