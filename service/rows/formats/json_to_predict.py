"""Rows to predict in JSON: `instances`, or a layout of an upload; and in NDJSON, a row a line.

Rows are read at once if that is possible, else one by one, to say what is wrong.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple

from service.common.strict_json import decode_json
from service.errors import MAX_FAULTS, Fault, InvalidContent, InvalidRequest, pointer_to_member
from service.rows.cell_faults import fault_of_value, ragged
from service.rows.cell_values import BadCell, read_cell
from service.rows.columns import Columns
from service.rows.faults import Faults, invalid_field, shown, too_many
from service.rows.json_reading import numbers
from service.rows.json_reading.numbers import MOST_NAMES, ROWS
from service.rows.json_reading.stream import (
    VALUE_BYTES,
    Span,
    beginning,
    check_object_bytes,
    members,
    raw_elements,
    value,
    whole,
)
from service.rows.spec import RowLimits, Rows
from svm.data.matrices import Vector

WHOLE_BYTES = 64 * 1024
"""A longer body is read some rows at a time: as objects they take up to fifty times its length."""
BLOCK_BYTES = 32 * 1024
ROWS_AT_ONCE = 1024
CELL_BYTES = 32
"""More than a cell of a usual row takes: a row of this many for each feature is read."""
MOST_MEMBERS = 20_000
EXAMPLE = f'{{"{ROWS}": [{{"a": 1, "b": "x"}}]}}'
RECORDS = "records"
SPLIT = frozenset({"columns", "index", "data"})
"""What `DataFrame.to_json(orient="split")` writes."""
UPLOADED = ("columns", "rows", "labels", "target")
"""What the service's own layout of an upload may have."""
NAMELESS_HINT = "leave the names out; text/x-libsvm names those features that are not 0"
_HEAD_BYTES = 1024


def read_document(body: bytes, columns: Columns, limits: RowLimits) -> Rows:
    """The rows of `{"instances": [[…], …] or [{…}, …], …}`, and its other members.

    Raises InvalidRequest, TooLarge, and InvalidContent with every bad row.
    """
    if columns.is_plain and body.find(b"{", 1, _HEAD_BYTES) < 0:  # not objects
        plain = numbers.read_document(body, columns.n_features, limits.rows)
        if plain is not None:
            return Rows(*plain)
    read = numbers.read_any_document(body, columns, limits.rows)
    if read is None:
        return explained_rows(body, columns, limits)
    return Rows(*read, partial(_cells, body, columns))


def explained_rows(body: bytes, columns: Columns, limits: RowLimits) -> Rows:
    """The same, slowly."""
    found = _rows_of(body, columns)
    X, ignored = explained_matrix(found.batches, columns, limits.rows, found.pointer)
    if not len(X):
        what = "the body" if found.pointer is None else f"`{ROWS}`"
        raise InvalidContent("empty-data", f"{what} holds no row")
    return Rows(X, found.others, ignored, partial(_cells, body, columns))


def _cells(body: bytes, columns: Columns) -> Iterator[list[Any]]:
    return _in_order(_rows_of(body, columns).batches, columns)


def read_lines(body: bytes, columns: Columns, limits: RowLimits) -> Rows:
    """A list or an object on each line. Raises as `read_document`."""
    text = body.strip()
    ignored: tuple[str, ...] = ()
    X = None
    if columns.is_plain:
        X = numbers.read_lines(text, columns.n_features, limits.rows, _as_lists)
    if X is None:
        read = numbers.read_any_lines(_lines(text), columns, limits.rows)
        X, ignored = read or explained_matrix(_decoded(text), columns, limits.rows, None)
    if not len(X):
        raise InvalidContent("empty-data", "the body holds no row")
    return Rows(X, ignored=ignored, again=lambda: _in_order(_decoded(text), columns))


def _as_lists(lines: bytes) -> bytes | None:
    """None if a row may begin in another one's line."""
    n_ends = lines.count(b"\n")
    return b"[%b]" % lines.replace(b"\n", b",") if lines.count(b"\n[") == n_ends else None


def _lines(text: bytes) -> Iterator[bytes]:
    return (line for line in io.BytesIO(text) if not line.isspace())


def _decoded(text: bytes) -> Iterator[list[Any]]:
    for number, line in enumerate(_lines(text), 1):
        with in_row(number):
            yield [decode_json(line)]


@contextmanager
def in_row(row: int) -> Iterator[None]:
    """An error of a row on a line of its own says which one it is."""
    try:
        yield
    except InvalidRequest as error:
        message = f"row {row}: {error.detail}"
        hint = error.faults[0].hint if error.faults else None
        fault = Fault(code=error.code, message=message, row=row, hint=hint)
        raise InvalidRequest(error.code, message, (fault,)) from None


class _RowsFound(NamedTuple):
    """Where the rows of a body are."""

    batches: Iterable[list[Any]]
    """Some rows each; iterating raises InvalidRequest, and InvalidContent for a wrong layout."""
    others: dict[str, Any]
    """The other members of a document of `instances`."""
    pointer: str | None
    """To the rows of such a document."""


def _rows_of(body: bytes, columns: Columns) -> _RowsFound:
    """Where the rows are, which are decoded some at a time. Raises InvalidRequest, InvalidContent.

    A short body is decoded as a whole before, so that an error says the line that is wrong.
    """
    if len(body) <= WHOLE_BYTES:
        decode_json(body)
    document = whole(body)
    if beginning(body, document).startswith(b"["):
        return _RowsFound(_objects(_batches(body, document, columns)), {}, None)
    if not beginning(body, document).startswith(b"{"):
        raise _no_object(value(body, document))
    parts = members(body, block_bytes=BLOCK_BYTES, most=MOST_MEMBERS)
    lists = {name for name, part in parts.items() if beginning(body, part).startswith(b"[")}
    if ROWS in parts:
        rows = parts.pop(ROWS)
        if ROWS not in lists:
            message = f"give a list of rows, not {shown(value(body, rows))}"
            raise invalid_field(f"/{ROWS}", message)
        others = {name: value(body, part) for name, part in islice(parts.items(), 3)}
        return _RowsFound(_batches(body, rows, columns), others, f"/{ROWS}")
    # A layout has just these members.
    for name, layout in ((RECORDS, {RECORDS}), ("data", SPLIT), ("rows", set(UPLOADED))):
        if name in lists and parts.keys() <= layout:
            names = value(body, parts["columns"]) if "columns" in parts else None
            named = _named(_batches(body, parts[name], columns), names, name, columns)
            return _RowsFound(named, {}, None)
    if not columns.names_set.isdisjoint(columns.without_blanks(parts)):
        check_object_bytes(body)
        by_column = decode_json(body)
        if set(map(type, by_column.values())) in ({list}, {dict}):
            return _RowsFound(_across(by_column), {}, None)
    raise invalid_field(f"/{ROWS}", f"missing; give the rows to predict, such as {EXAMPLE}")


def _batches(body: bytes, span: Span, columns: Columns) -> Iterator[list[Any]]:
    most_bytes = max(VALUE_BYTES, CELL_BYTES * columns.n_features)
    return map(decode_json, raw_elements(body, span, BLOCK_BYTES, most_bytes))


def _objects(batches: Iterable[list[Any]]) -> Iterator[list[Any]]:
    for batch in batches:
        if not all(type(row) is dict for row in batch):
            raise _no_object(batch)
        yield batch


def _no_object(document: Any) -> Exception:
    return invalid_field("", f"give an object with `{ROWS}`, not {shown(document)}")


def check_names(names: Any) -> None:
    """Raises InvalidContent if the names of the columns of a document are not texts."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise invalid_field("/columns", "should be an array of texts; without names leave it out")


def _named(
    batches: Iterable[list[Any]], names: Any, member: str, columns: Columns
) -> Iterable[list[Any]]:
    """The rows with these names, if they and the model have names."""
    if names is None or columns.names is None:
        return batches
    check_names(names)
    columns.select("`columns`", names)
    return _with_names(batches, names, member)


def _with_names(batches: Iterable[list[Any]], names: list[str], member: str) -> Iterator[list[Any]]:
    done = 0
    for batch in batches:
        for i, row in enumerate(batch, done):
            if type(row) is not list or len(row) != len(names):
                message = f"should be a list of {len(names)} cells, as many as `columns` has"
                raise invalid_field(f"/{member}/{i}", message)
        yield [dict(zip(names, row, strict=True)) for row in batch]
        done += len(batch)


def _across(document: dict[str, Any]) -> Iterator[list[Any]]:
    """The rows of columns."""
    rows = zip(*columns_of(document), strict=True)
    while batch := [
        dict(zip(document, cells, strict=True)) for cells in islice(rows, ROWS_AT_ONCE)
    ]:
        yield batch


def columns_of(document: dict[str, Any]) -> list[list[Any]]:
    """Cells in the order of the rows. Raises InvalidContent for columns of other rows."""
    (first, rows), *_ = document.items()
    if isinstance(rows, dict) and (all(map(is_row, document)) or not all(map(is_row, rows))):
        message = "objects in an object may be rows or columns"
        raise invalid_field("", f"{message}; send a list of objects, one a row")
    columns = []
    for name, cells in document.items():
        pointer = pointer_to_member((), name)
        if len(cells) != len(rows):
            message = f"has {len(cells):,} cells, {first[:64]!r} has {len(rows):,}"
            raise invalid_field(pointer, f"{message}; all columns have one cell a row")
        if isinstance(cells, dict):
            if cells.keys() != rows.keys():
                key = next(key for key in rows if key not in cells)
                raise invalid_field(pointer, f"has no cell {key[:64]!r}, which {first[:64]!r} has")
            cells = [cells[key] for key in rows]
        columns.append(cells)
    return columns


def is_row(key: str) -> bool:
    """Whether a key is the number of a row, as in an index of pandas."""
    return key.isdecimal()


def _in_order(batches: Iterable[list[Any]], columns: Columns) -> Iterator[list[Any]]:
    """The cells of rows that were read, in the order of the features."""
    for row in chain.from_iterable(batches):
        yield list(columns.take(columns.named(row))) if type(row) is dict else row


def explained_matrix(
    batches: Iterable[list[Any]], columns: Columns, row_limit: int, pointer: str | None
) -> tuple[Vector, tuple[str, ...]]:
    """Rows to predict, lists or objects: (n_samples, n_features), and the names that are not of
    features. `pointer`: to the list of rows, if there is one.

    Raises TooLarge, and InvalidContent with the first fault of each bad row; after a hundred of
    them, the next row of another width is the last one that is looked at.
    """
    parts: list[Vector] = []
    rows: list[list[Any]] = []
    faults, names = Faults(), _Names(columns)
    widths: set[int | None] = set()
    number = 0
    for batch in batches:
        if number + len(batch) > row_limit:
            raise too_many("rows to predict", row_limit)
        for given in columns.as_rows(batch):
            row = columns.named(given) if type(given) is dict else given
            number += 1
            widths.add(len(row) if type(row) is list else None)
            names.look_at(row, number)
            cells = _explained_row(row, number, columns, pointer, faults)
            if cells is None and faults.total + names.n_lacking > MAX_FAULTS:
                break
            if cells and not faults.total:
                rows.append(cells)
        else:
            if len(rows) >= ROWS_AT_ONCE:
                parts.append(columns.matrix(rows))
                rows = []
            continue
        break
    if len(widths) == 1 and (width := widths.pop()) is not None:
        columns.check_width(width)
    names.report(faults)
    faults.check()
    return columns.joined([*parts, columns.matrix(rows)]), names.ignored


class _Names:
    """The names in objects. All that are missing are one fault."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._given: dict[str, None] = {}
        self._missing: set[str] = set()
        self._first = 0
        self.n_lacking = 0
        """Rows that lack some."""

    def look_at(self, row: Any, number: int) -> None:
        if self._columns.names is None or type(row) is not dict:
            return
        if len(self._given) < MOST_NAMES:
            self._given.update(dict.fromkeys(row))
        absent = self._columns.names_set - row.keys()
        if absent:
            self._missing |= absent
            self._first = self._first or number
            self.n_lacking += 1

    def report(self, faults: Faults) -> None:
        if not self.n_lacking:
            return
        what = f"row {self._first} lacks"
        if self.n_lacking > 1:
            what = f"row {self._first} and {self.n_lacking - 1:,} more lack"
        names = [name for name in self._columns.names or () if name in self._missing]
        faults.put_first(*self._columns.lacking(what, names, list(self._given), self._first))

    @property
    def ignored(self) -> tuple[str, ...]:
        """Those that are not of features."""
        return tuple(name for name in self._given if name not in self._columns.names_set)


def _explained_row(
    row: Any, number: int, columns: Columns, pointer: str | None, faults: Faults
) -> list[Any] | None:
    """The values of a row; none if one is wrong, and None if the row has another width."""
    cells: list[Any] = row
    if type(row) is dict:
        if columns.names is None:
            message = f"the row has names, {columns.n_features} numbers without names are expected"
            faults.add("feature-mismatch", message, row=number, hint=NAMELESS_HINT)
            return None
        if columns.names_set - row.keys():  # a fault already
            return None
        cells = [row[name] for name in columns.names]
    elif type(row) is not list:
        single = "[1.4, 0.2], alone on its line" if pointer is None else "[[1.4, 0.2]]"
        expected, hint = "a list of numbers or an object", f"a single row is {single}"
        if columns.is_text:
            expected, hint = "a text", "a row may be the text itself, a list of it, or an object"
        faults.add(
            "invalid-field",
            f"the row is {shown(row)}, not {expected}",
            hint=hint,
            row=number,
            pointer=None if pointer is None else f"{pointer}/{number - 1}",
        )
        return None
    elif len(row) != columns.n_features:
        faults.add(*ragged(len(row), columns.n_features), row=number)
        return None
    values = []
    for position, cell in enumerate(cells):
        try:
            values.append(_value(cell, position, columns))
        except BadCell as error:
            faults.add(*error.fault, row=number, column=columns.column(position))
            return []
    return values


def _value(cell: Any, position: int, columns: Columns) -> Any:
    """Raises BadCell."""
    if not columns.is_plain or type(cell) is str:
        return read_cell(columns.value_readers[position], cell)
    fault = fault_of_value(cell)
    if fault is not None:
        raise BadCell(fault)
    return cell
