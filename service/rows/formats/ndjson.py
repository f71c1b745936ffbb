"""NDJSON: one object a row, its names those of the columns."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

from service.common.encodings import MAX_RATIO
from service.common.strict_json import decode_json
from service.errors import MAX_FAULTS, Fault, InvalidContent, InvalidRequest
from service.rows.cell_texts.text import check_lengths, slices
from service.rows.columns import Columns
from service.rows.faults import Faults, inflates_too_much, listed, refuse, shown
from service.rows.json_reading import numbers as json_numbers
from service.rows.json_reading.cells import explained, in_order, plain_table
from service.rows.json_reading.stream import MAX_DEPTH, loads
from service.rows.kinds.building import build, may_be_plain
from service.rows.kinds.feature import Batch
from service.rows.spec import ParseSpec, RowLimits, Rows
from service.rows.table.layout import check_columns, distinct_names
from service.rows.table.left_out import ignoring
from service.rows.table.writers import Table

CELLS_AT_ONCE = 500_000
FREE_BYTES = 64 * 1024 * 1024
"""Up to this size of the table its ratio to the file does not matter."""
ROW_HINT = 'a row is an object, such as {"a": 1, "b": 2}'


def read(spec: ParseSpec) -> Table:
    """Write `X.npy`. Raises ServiceError with every fault of the rows."""
    return read_objects(spec, partial(_batches, spec))


def read_objects(spec: ParseSpec, read_all: Callable[[], Iterator[list[Any]]]) -> Table:
    """The table of rows that are objects, read from their beginning as often as needed.

    The columns are the names of all rows: what a row does not have is missing in it. An object in a
    cell is columns of its own, `a.b`.
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
    try:
        return _build(spec, read_all, Names(keys))
    except _OtherNames:
        return _build(spec, read_all, Names.of_all(spec, read_all()))


class _OtherNames(Exception):
    """Rows have other names than the first one, or objects or lists in their cells."""


@dataclass(frozen=True, slots=True)
class Names:
    """The columns of rows that are objects."""

    keys: list[str]
    some: list[str] = field(default_factory=list)
    """Those that not all rows have."""
    lists: list[str] = field(default_factory=list)
    """Those with lists, which are no columns."""
    of_first: bool = True
    """All rows have to have those of the first one."""

    @classmethod
    def of_all(cls, spec: ParseSpec, batches: Iterator[list[Any]]) -> Names:
        order: list[str] = []
        counts: Counter[str] = Counter()
        groups: set[str] = set()
        lists: Counter[str] = Counter()
        there: Counter[str] = Counter()
        n_rows = 0
        allowed = max(FREE_BYTES, MAX_RATIO * Path(spec.data).stat().st_size)
        for row in chain.from_iterable(batches):
            n_rows += 1
            if type(row) is dict:
                cells = _flat(row)
                if new := list(cells.keys() - counts.keys()):
                    distinct_names(new, spec.limits.cell_bytes)  # refuses long ones
                    _insert(order, list(cells), set(new))
                counts.update(cells.keys())
                if 8 * n_rows * len(counts) > allowed:
                    raise inflates_too_much("file", spec.limits.inflated_bytes)
                groups.update(name for name, cell in row.items() if type(cell) is dict)
                there.update(name for name, cell in cells.items() if cell is not None)
                lists.update(name for name, cell in cells.items() if type(cell) is list)
                check_columns(len(counts), spec.limits)
        only = [name for name in lists if lists[name] == there[name]]
        nulls = {name for name in groups if not there[name]}  # where others have an object
        keys = [name for name in order if name not in nulls and name not in only]
        some = [name for name in keys if counts[name] < n_rows]
        return cls(keys, some, only, of_first=False)


def _build(spec: ParseSpec, read_all: Callable[[], Iterator[list[Any]]], names: Names) -> Table:
    """Raises _OtherNames if all rows were to have those of the first one, and do not."""
    keys = names.keys

    def passes(faults: Faults) -> Iterator[Batch]:
        done = 0
        for batch in read_all():
            rows = _rows(batch, keys)
            if names.of_first and (None in rows or _is_nested(rows)):
                raise _OtherNames
            if names.of_first:
                done += len(batch)
                yield list(zip(*rows, strict=True))
                continue
            _examine(batch, done + 1, faults)
            done += len(batch)
            at_once = max(1, CELLS_AT_ONCE // len(keys))
            for start in range(0, len(batch), at_once):
                rows = [_cells(row, keys) for row in batch[start : start + at_once]]
                yield list(zip(*rows, strict=True))

    table = build(spec, len(keys), keys, passes)
    ignored = [{"name": name, "reason": "its cells are lists"} for name in names.lists]
    warnings = [ignoring(one["name"], one["reason"]) for one in ignored]
    if names.some:
        message = f"not all rows have these, and they are missing there: {listed(names.some)}"
        warnings.append({"code": "other-names", "message": message, "columns": names.some[:20]})
    return replace(table, ignored=[*ignored, *table.ignored], warnings=[*warnings, *table.warnings])


def _insert(order: list[str], names: list[str], new: set[str]) -> None:
    """Add new names where they are in a row: after the name before them."""
    for before, name in zip([None, *names], names, strict=False):
        if name in new:
            order.insert(0 if before is None else order.index(before) + 1, name)


def _is_nested(rows: list[list[Any]]) -> bool:
    return any(not {list, dict}.isdisjoint(map(type, row)) for row in rows)


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """The cells, those of an object in a cell as `a.b`."""
    cells: dict[str, Any] = {}
    for name, cell in row.items():
        if type(cell) is dict:
            cells |= {f"{name}.{inner}": value for inner, value in cell.items()}
        else:
            cells[name] = cell
    return cells


def _cells(row: Any, keys: list[str]) -> list[Any]:
    if type(row) is not dict:
        return [None] * len(keys)
    cells = _flat(row)
    return [cells.get(key) for key in keys]


def read_rows(body: bytes, columns: Columns, limits: RowLimits) -> Rows:
    """Rows to predict: a list or an object on each line, in a whole body.

    Raises InvalidRequest, TooLarge, and InvalidContent with every bad row.
    """
    text = body.strip()
    ignored: tuple[str, ...] = ()
    X = None
    if columns.is_plain:
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
            decode_json(line.encode(), with_nan=True)
    return value


def _rows(batch: list[Any], keys: list[str]) -> list[Any]:
    """The cells in the order of the columns; None for a row that has not exactly these."""
    names = set(keys)
    cells = itemgetter(*keys, keys[0])  # of two names or more it gives a tuple
    return [
        list(cells(row)[:-1]) if type(row) is dict and row.keys() == names else None
        for row in batch
    ]


def _examine(batch: list[Any], first_row: int, faults: Faults) -> None:
    """Add each row that is not an object. Raises InvalidContent after a hundred faults."""
    for row, value in enumerate(batch, first_row):
        if not isinstance(value, dict):
            if faults.total > MAX_FAULTS:
                faults.check()
            message = f"the row is {shown(value)}, not an object"
            faults.add("invalid-field", message, row=row, hint=ROW_HINT)
