"""NDJSON: one object a row, its names those of the columns."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

from service.errors import MAX_FAULTS, Fault, InvalidContent, InvalidRequest
from service.rows.cell_texts.text import check_lengths, slices
from service.rows.columns import Columns
from service.rows.faults import Faults, refuse, shown
from service.rows.json_reading import numbers as json_numbers
from service.rows.json_reading.cells import explained, in_order, plain_table
from service.rows.json_reading.stream import MAX_DEPTH, loads
from service.rows.kinds.feature import Batch
from service.rows.kinds.typed_tables import PLACEHOLDER, build, may_be_plain
from service.rows.spec import ParseSpec, RowLimits, Rows
from service.rows.table.layout import check_columns
from service.rows.table.writers import Table
from service.web.bodies.strict_json import decode_json

ROW_HINT = 'a row is an object, such as {"a": 1, "b": 2}'


def read(spec: ParseSpec) -> Table:
    """Write `X.npy`. Raises ServiceError with every fault of the rows."""
    return read_objects(spec, partial(_batches, spec))


def read_objects(spec: ParseSpec, read_all: Callable[[], Iterator[list[Any]]]) -> Table:
    """The table of rows that are objects, read from their beginning as often as needed.

    The first row says which columns there are; the others have the same, in any order.
    """
    batches = read_all()
    first = next(batches, None)
    if first is None:
        raise InvalidContent("empty-data", "there is no row")
    if not isinstance(first[0], dict):
        raise refuse("invalid-field", "row 1 is not an object", row=1, hint=ROW_HINT)
    keys = list(first[0])
    if not keys:
        raise InvalidContent("empty-data", "the first row has no columns")
    check_columns(len(keys), spec.limits)
    if may_be_plain(spec):
        rows = (_rows(batch, keys) for batch in chain([first], batches))
        table = plain_table(spec, len(keys), keys, rows)
        if table is not None:
            return table

    def passes(faults: Faults) -> Iterator[Batch]:
        done = 0
        for batch in read_all():
            rows = _rows(batch, keys)
            if None in rows:
                _examine_keys(batch, keys, done + 1, faults)
                rows = [[PLACEHOLDER] * len(keys) if row is None else row for row in rows]
            done += len(batch)
            yield list(zip(*rows, strict=True))

    return build(spec, len(keys), keys, passes)


def read_rows(body: bytes, columns: Columns, limits: RowLimits) -> Rows:
    """Rows to predict: a list or an object on each line, in a whole body.

    Raises InvalidRequest, TooLarge, and InvalidContent with every bad row.
    """
    text = body.strip()
    ignored: tuple[str, ...] = ()
    X = None
    if columns.table is None:
        X = json_numbers.read_lines(text, columns.n_features, limits.rows, _as_lists)
    if X is None:
        read = json_numbers.read_any_lines(_lines(text), columns, limits.rows)
        X, ignored = read or explained(_decoded(text), columns, limits.rows, None)
    if not len(X):
        raise InvalidContent("empty-data", "the body holds no row")
    return Rows(X, ignored=ignored, again=lambda: in_order(_decoded(text), columns))


def _as_lists(lines: bytes) -> bytes | None:
    """None if a row may begin in another one's line."""
    n_ends = lines.count(b"\n")
    return b"[%b]" % lines.replace(b"\n", b",") if lines.count(b"\n[") == n_ends else None


def _lines(text: bytes) -> Iterator[bytes]:
    return (line for line in io.BytesIO(text) if not line.isspace())


def _decoded(text: bytes) -> Iterator[list[Any]]:
    for number, line in enumerate(_lines(text), 1):
        with _in_row(number):
            yield [decode_json(line)]


@contextmanager
def _in_row(row: int) -> Iterator[None]:
    try:
        yield
    except InvalidRequest as error:
        message = f"row {row}: {error.detail}"
        hint = error.faults[0].hint if error.faults else None
        fault = Fault(code=error.code, message=message, row=row, hint=hint)
        raise InvalidRequest(error.code, message, (fault,)) from None


def _batches(spec: ParseSpec) -> Iterator[list[Any]]:
    """The values of the lines, some MiB at a time."""
    row = 0
    for part in slices(Path(spec.data), quotes=False):
        lines = [line for line in part.text.split("\n") if line and not line.isspace()]
        check_lengths(lines, spec.limits.line_bytes, row + 1)
        batch = [_value(line, number) for number, line in enumerate(lines, row + 1)]
        row += len(batch)
        if batch:
            yield batch


def _value(line: str, row: int) -> Any:
    with _in_row(row):
        value = loads(line.encode())
        # A name has one colon: if there are no more, no name comes twice.
        colons = line.count(":") > (len(value) if isinstance(value, dict) else 0)
        if colons or line.count("{") + line.count("[") > MAX_DEPTH:
            decode_json(line.encode())
    return value


def _rows(batch: list[Any], keys: list[str]) -> list[Any]:
    """The cells in the order of the columns; None for a row that has not exactly these."""
    names = set(keys)
    cells = itemgetter(*keys, keys[0])  # of two names or more it gives a tuple
    return [
        list(cells(row)[:-1]) if type(row) is dict and row.keys() == names else None
        for row in batch
    ]


def _examine_keys(batch: list[Any], keys: list[str], first_row: int, faults: Faults) -> None:
    """Add each row that has not exactly the columns of the first one. Raises InvalidContent for the
    first one after a hundred faults."""
    names = set(keys)
    for row, value in enumerate(batch, first_row):
        if faults.total > MAX_FAULTS and not (isinstance(value, dict) and value.keys() == names):
            faults.check()
        if not isinstance(value, dict):
            message = f"the row is {shown(value)}, not an object"
            faults.add("invalid-field", message, row=row, hint=ROW_HINT)
            continue
        hint = "all rows have the columns of the first one; write null for a missing value"
        for key in keys:
            if key not in value:
                faults.add("missing-value", "the value is missing", row=row, column=key, hint=hint)
        for name in value.keys() - names:
            message = "the first row has no such column"
            faults.add("ragged-row", message, row=row, column=name[:64], hint=hint)
