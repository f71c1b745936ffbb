"""Parquet: columns of numbers and booleans, and labels that may be texts. DuckDB reads them.

The numbers of rows and columns are compared with the limits before DuckDB reads any value. No text
becomes a Python object before it is known how long and how many there are. A directory gets the
memory that its size justifies, whatever it announces.
"""

from __future__ import annotations

import csv
import os
import re
import resource
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from service.common.encodings import MAX_RATIO
from service.errors import InvalidContent
from service.rows.faults import Faults, inflates_too_much, refuse, too_many
from service.rows.formats import npy
from service.rows.kinds.blocks import ValueArrays
from service.rows.kinds.building import build
from service.rows.kinds.feature import Batch
from service.rows.spec import ConvertSpec, ParseSpec, ReadLimits
from service.rows.table.labels import MAX_CLASSES, Labels, too_many_texts
from service.rows.table.layout import make_layout
from service.rows.table.writers import DenseWriter, Table, dense_table, labels_of
from service.storage.locked_duckdb import connect, identifier

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
TEXT_BYTES_AT_ONCE = 32 * 1024 * 1024
LABELS_AT_ONCE = 100_000
ROWS_AT_ONCE = 4096
LEAST_ROWS, MOST_ROWS = 256, 16_384
"""Of a table with texts, in one query."""

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
    path = Path(spec.file.path).resolve()
    with connect(path) as connection, reported(spec.limits):
        file = ParquetFile(connection, str(path))
        with memory_for_directory(path):
            n_samples = file.n_samples()
        columns = file.columns()
        plain = _read_plain(spec, path, file, columns, n_samples)
        return plain or _read_table(spec, path, file, columns, n_samples)


def _read_table(
    spec: ParseSpec, path: Path, file: ParquetFile, columns: list[_Column], n_samples: int
) -> Table:
    """Columns with texts, dates or NULL."""
    n_bytes = n_samples * 8 * len(columns)
    n_bytes += sum(file.text_bytes(column) for column in columns if column.type == TEXT)
    check_inflated(path, n_bytes, spec.limits)
    names = [column.name for column in columns]

    def passes(faults: Faults, texts: Collection[int]) -> Iterator[Batch]:
        limits = spec.limits
        most = limits.cell_bytes, limits.text_bytes + 1
        cells = [
            column.cell(most[i in texts], is_text=i in texts) for i, column in enumerate(columns)
        ]
        average = n_bytes // max(1, n_samples) if texts else 1
        yield from map(ValueArrays, file.batches(cells, n_samples, TEXT_BYTES_AT_ONCE // average))

    index = [i for i, column in enumerate(columns) if column.is_index]
    return build(spec, len(columns), names, passes, index)


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

    def cell(self, longest: int, *, is_text: bool = False) -> str:
        """In SQL, as a value of JSON; dates as ISO texts, of a long text the beginning. `is_text`:
        whole numbers with all their digits."""
        if self.is_date or (is_text and self.type.endswith(("INT", "INTEGER"))):
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

    def text_bytes(self, column: _Column) -> int:
        ((total,),) = self._all(f"SELECT coalesce(sum(strlen({column.sql})), 0) FROM {_SOURCE}")
        return int(total)

    def n_distinct(self, expression: str, most: int) -> int:
        """How many values there are besides NULL, counted up to `most`."""
        values = f"SELECT DISTINCT {expression} AS value FROM {_SOURCE}"
        ((count,),) = self._all(
            f"SELECT count(*) FROM (SELECT value FROM ({values}) WHERE value IS NOT NULL "
            f"LIMIT {most})"
        )
        return int(count)

    def arrays(self, *expressions: str) -> list[npt.NDArray[Any]]:
        """(n_samples,) each; masked if something is NULL."""
        named = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(expressions))
        result = self.connection.execute(f"SELECT {named} FROM {_SOURCE}", [self.path])
        columns = result.fetchnumpy()
        return [columns[f"c{i}"] for i in range(len(expressions))]

    def batches(
        self, expressions: list[str], n_samples: int, most: int
    ) -> Iterator[list[npt.NDArray[Any]]]:
        """All columns, `most` rows at a time or fewer; masked where something is NULL."""
        named = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(expressions))
        at_once = max(LEAST_ROWS, min(MOST_ROWS, most, VALUES_AT_ONCE // len(expressions)))
        for start in range(0, n_samples, at_once):
            query = f"SELECT {named} FROM {_SOURCE} LIMIT {at_once} OFFSET {start}"
            columns = self.connection.execute(query, [self.path]).fetchnumpy()
            yield [columns[f"c{i}"] for i in range(len(expressions))]

    def rows(self, expressions: list[str]) -> Iterator[list[tuple[Any, ...]]]:
        """All rows, some at a time."""
        query = f"SELECT {', '.join(expressions)} FROM {_SOURCE}"
        result = self.connection.execute(query, [self.path])
        while rows := result.fetchmany(ROWS_AT_ONCE):
            yield rows

    def _all(self, query: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(query, [self.path]).fetchall()


@contextmanager
def reported(limits: ReadLimits) -> Iterator[None]:
    """What DuckDB cannot read is an error of the file."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException:
        raise inflates_too_much("file", limits.inflated_bytes) from None
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


def _read_plain(
    spec: ParseSpec, path: Path, file: ParquetFile, columns: list[_Column], n_samples: int
) -> Table | None:
    """The table of columns of finite numbers, column by column to a file, which is then read row by
    row; None for any other. Raises TooLarge."""
    try:
        layout = make_layout(spec, len(columns), [column.name for column in columns])
        labels = labels_of(spec, layout, Faults())
        features = [one for i, one in enumerate(columns) if i != layout.target]
        asked = layout.label_kind is not None or not layout.may_be_plain
        if n_samples == 0 or asked or any(one.is_index for one in columns):
            return None
        if not all(one.is_number and not one.is_boolean for one in features):
            return None
        with DenseWriter(Path(spec.out), len(features), spec.limits) as writer:
            writer.check(n_samples)
            check_inflated(path, 8 * n_samples * len(columns), spec.limits)
            if layout.target is not None and labels is not None:
                _read_labels(file, columns[layout.target], labels, spec.limits)
            spool = Path(spec.out) / "columns"
            if not _write_columns(spool, file, features, n_samples):
                return None
            header = npy.Header((n_samples, len(features)), True, np.dtype(np.float64), 0)
            for block in npy.blocks(spool, header, (n_samples, len(features))):
                writer.add(block.astype(np.float64, copy=False))
            spool.unlink()
            writer.finish()
        return dense_table(layout, n_samples, None if labels is None else labels.finish())
    except InvalidContent:
        return None


def check_inflated(path: Path, n_bytes: int, limits: ReadLimits) -> None:
    if n_bytes > max(FREE_BYTES, MAX_RATIO * path.stat().st_size):
        raise inflates_too_much("file", limits.inflated_bytes)


def _read_labels(file: ParquetFile, column: _Column, labels: Labels, limits: ReadLimits) -> None:
    if column.is_number:
        as_float = column.is_float or column.type.startswith("DECIMAL")
        (values,) = file.arrays(column.number if as_float else column.sql)
        for start in range(0, len(values), LABELS_AT_ONCE):
            block = values[start : start + LABELS_AT_ONCE]
            if np.ma.is_masked(block):
                labels.add_json(block.tolist())
            else:
                labels.add_numbers(np.ma.getdata(block))
        return
    text = column.cell(limits.cell_bytes + 1)  # a longer one is refused in the end
    if file.text_bytes(column) > limits.inflated_bytes:
        raise inflates_too_much("file", limits.inflated_bytes)
    if file.n_distinct(text, MAX_CLASSES + 1) > MAX_CLASSES:
        raise too_many_texts(column.name)
    for rows in file.rows([text]):
        labels.add_json([label for (label,) in rows])


def _write_columns(spool: Path, file: ParquetFile, columns: list[_Column], n_samples: int) -> bool:
    """False if a value is not a finite number."""
    at_once = max(1, VALUES_AT_ONCE // max(n_samples, VECTOR_ROWS))
    with spool.open("wb") as out:
        for start in range(0, len(columns), at_once):
            some = columns[start : start + at_once]
            for array in file.arrays(*(column.number for column in some)):
                if np.ma.is_masked(array) or not np.isfinite(array).all():
                    return False
                values = np.array(np.ma.getdata(array), dtype=np.float64)
                if len(values) != n_samples:
                    raise unsupported("the columns differ in length", "write the file again")
                out.write(values.data)
    return True


def as_csv(spec: ConvertSpec) -> bool:
    """Write rows to predict; True, since they have names. Raises ServiceError."""
    limits, path = spec.limits, Path(spec.file.path).resolve()
    with connect(path) as connection, reported(limits):
        file = ParquetFile(connection, str(path))
        with memory_for_directory(path):
            n_samples = file.n_samples()
        if n_samples > limits.rows:
            raise too_many("rows", limits.rows)
        columns = file.columns()
        wanted = spec.columns if spec.columns is None else {name.strip() for name in spec.columns}
        used = [one for one in columns if wanted is None or one.name.strip() in wanted]
        n_bytes = n_samples * 8 * len(used)
        n_bytes += sum(file.text_bytes(column) for column in used if column.type == TEXT)
        if n_bytes > limits.inflated_bytes:
            raise inflates_too_much("file", limits.inflated_bytes)
        cells = [one.cell(limits.cell_bytes) if one in used else "NULL" for one in columns]
        with Path(spec.out).open("w", encoding="utf-8", newline="") as out:
            writer = csv.writer(out, lineterminator="\r\n")  # cells with either are quoted
            writer.writerow([column.name for column in columns])
            for rows in file.rows(cells):
                writer.writerows(map(_text, row) for row in rows)
    return True


def _text(cell: Any) -> str:
    """A value of JSON as a text file has it."""
    if type(cell) is float and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    return "" if cell is None else str(cell).lower() if type(cell) is bool else str(cell)
