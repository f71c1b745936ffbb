"""JSON as pandas and other programs write tables: records, columns, `split`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from service.common.strict_json import decode_json
from service.errors import InvalidContent, pointer_to_member
from service.rows.faults import Faults, invalid_field
from service.rows.formats.ndjson import read_objects
from service.rows.json_reading.stream import (
    Span,
    beginning,
    check_object_bytes,
    loads,
    raw_elements,
    whole,
)
from service.rows.kinds.building import build
from service.rows.kinds.feature import Batch
from service.rows.spec import ParseSpec
from service.rows.table.layout import check_columns
from service.rows.table.writers import Table

COLUMNS_BYTES = 64 * 1024 * 1024
"""Of a body of columns, which is in memory as a whole."""
ROWS_AT_ONCE = 4096
RECORDS = "records"
SPLIT = frozenset({"columns", "index", "data"})
"""What `DataFrame.to_json(orient="split")` writes."""
UPLOADED = ("columns", "rows", "labels")
"""What the service's own layout may have."""
_RESERVED = SPLIT | {"labels"}


def read_list(spec: ParseSpec) -> Table | None:
    """The table of a body that is a list of objects; None if it is an object."""
    path = Path(spec.data)
    span = whole(path)
    if not beginning(path, span).startswith(b"["):
        return None
    return _read_records(spec, span)


def read_members(spec: ParseSpec, parts: dict[str, Span]) -> Table | None:
    """The table of an object of records or columns; None if it is neither."""
    path = Path(spec.data)
    lists = [span for span in parts.values() if beginning(path, span).startswith(b"[")]
    if len(lists) == 1 and _inner(path, lists[0]).startswith(b"{"):
        return _read_records(spec, lists[0])  # such as {"data": […], "page": 1}
    if not parts or parts.keys() <= _RESERVED:
        return None
    beginnings = {beginning(path, span)[:1] for span in parts.values()}
    if beginnings not in ({b"["}, {b"{"}):
        return None
    return _read_columns(spec)


def is_split(path: Path, parts: dict[str, Span]) -> bool:
    """Whether the object has `columns`, and lists in `data`."""
    return (
        {"columns", "data"} <= parts.keys() <= SPLIT
        and _inner(path, parts["data"])[:1] in (b"[", b"]")
        and beginning(path, parts["data"]).startswith(b"[")
    )


def _inner(path: Path, span: Span) -> bytes:
    """How the first element of an array begins."""
    return beginning(path, span)[1:].lstrip()


def _read_records(spec: ParseSpec, span: Span) -> Table:
    path = Path(spec.data)
    if _inner(path, span)[:1] not in (b"{", b"]", b""):
        what = "a list should be one of objects, such as"
        raise invalid_field("", f'{what} [{{"a": 1, "b": 2}}]; lists are {{"rows": [[1, 2]]}}')
    table = read_objects(spec, lambda: _records(path, span))
    return _noted(table, RECORDS)


def _records(path: Path, span: Span) -> Iterator[list[Any]]:
    for text in raw_elements(path, span):
        rows: list[Any] = loads(text)
        members = sum(len(row) for row in rows if isinstance(row, dict))
        _check_names(text, members)
        if rows:
            yield rows


def _check_names(text: bytes, members: int) -> None:
    """A name has one colon: if there are more, one may come twice, or an object is in another."""
    if text.count(b":") > members:
        decode_json(text, with_nan=True)


def _read_columns(spec: ParseSpec) -> Table:
    path = Path(spec.data)
    if path.stat().st_size > COLUMNS_BYTES:
        message = f"columns of more than {COLUMNS_BYTES >> 20} MiB"
        raise invalid_field("", f'{message}; send records, or {{"columns": […], "rows": […]}}')
    check_object_bytes(path)
    span = whole(path)
    text = path.read_bytes()[span.start :]
    document: dict[str, Any] = loads(text)
    members = sum(len(column) for column in document.values() if isinstance(column, dict))
    _check_names(text, members + len(document))
    del text
    names = list(document)
    check_columns(len(names), spec.limits)
    if _has_rows(document):
        rows = list(document.values())
        starts = range(0, len(rows), ROWS_AT_ONCE)
        table = read_objects(spec, lambda: (rows[i : i + ROWS_AT_ONCE] for i in starts))
        return _noted(table, "index")
    columns = columns_of(document)
    document.clear()
    n_rows = len(columns[0])
    if n_rows == 0:
        raise InvalidContent("empty-data", "there is no row")

    def passes(_: Faults) -> Iterator[Batch]:
        for start in range(0, n_rows, ROWS_AT_ONCE):
            yield [column[start : start + ROWS_AT_ONCE] for column in columns]

    return _noted(build(spec, len(names), names, passes), "columns")


def columns_of(document: dict[str, Any]) -> list[list[Any]]:
    """Cells in the order of the rows. Raises InvalidContent for columns of other rows."""
    (first, rows), *_ = document.items()
    if isinstance(rows, dict) and (all(map(_is_row, document)) or not all(map(_is_row, rows))):
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


def _has_rows(document: dict[str, Any]) -> bool:
    """Whether the members are rows by their names, not columns: they have the same few keys."""
    rows = list(document.values())
    if not isinstance(rows[0], dict) or all(map(_is_row, rows[0])):
        return False
    return all(map(_is_row, document)) or len(document) > len(set().union(*rows))


def _is_row(key: str) -> bool:
    """Whether a key is the number of a row, as in an index of pandas."""
    return key.isdecimal()


def _noted(table: Table, layout: str) -> Table:
    return replace(table, reading={**(table.reading or {}), "layout": layout})
