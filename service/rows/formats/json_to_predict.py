"""Rows to predict in JSON whose faults are looked for: `instances`, or a layout of an upload."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from service.common.strict_json import decode_json
from service.rows.columns import Columns
from service.rows.faults import invalid_field, shown
from service.rows.formats.json_layouts import RECORDS, SPLIT, UPLOADED, columns_of
from service.rows.json_reading.numbers import ROWS
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

WHOLE_BYTES = 64 * 1024
"""A longer body is read some rows at a time: as objects they take up to fifty times its length."""
BLOCK_BYTES = 32 * 1024
ROWS_AT_ONCE = 1024
CELL_BYTES = 32
"""More than a cell of a usual row takes: a row of this many for each feature is read."""
MOST_MEMBERS = 20_000
EXAMPLE = f'{{"{ROWS}": [{{"a": 1, "b": "x"}}]}}'


class RowsFound(NamedTuple):
    """Where the rows of a body are."""

    batches: Iterable[list[Any]]
    """Some rows each; iterating raises InvalidRequest, and InvalidContent for a wrong layout."""
    others: dict[str, Any]
    """The other members of a document of `instances`."""
    pointer: str | None
    """To the rows of such a document."""


def rows_of_document(body: bytes, columns: Columns) -> RowsFound:
    """The rows of a body that is decoded as a whole. Raises InvalidRequest and InvalidContent."""
    document = decode_json(body)
    if type(document) is list and document and all(type(row) is dict for row in document):
        return RowsFound([document], {}, None)
    if type(document) is not dict:
        raise _no_object(document)
    if ROWS in document:
        rows = document.pop(ROWS)
        if type(rows) is not list:
            raise _no_list(rows)
        return RowsFound([rows], document, f"/{ROWS}")
    for name, names in _layouts(document):
        if isinstance(document[name], list):
            rows = _named([document[name]], document.get(names), name, columns)
            return RowsFound(rows, {}, None)
    if not _are_columns(document, columns):
        raise _no_rows()
    return RowsFound(_across(document), {}, None)


def rows_of_large(body: bytes, columns: Columns) -> RowsFound:
    """The same of a body that is decoded a few rows at a time."""
    span = whole(body)
    if beginning(body, span).startswith(b"["):
        return RowsFound(_objects(_batches(body, span, columns)), {}, None)
    if not beginning(body, span).startswith(b"{"):
        raise _no_object(value(body, span))
    parts = members(body, block_bytes=BLOCK_BYTES, most=MOST_MEMBERS)
    if ROWS in parts:
        rows = parts.pop(ROWS)
        if not beginning(body, rows).startswith(b"["):
            raise _no_list(value(body, rows))
        others = {name: value(body, part) for name, part in islice(parts.items(), 2)}
        return RowsFound(_batches(body, rows, columns), others, f"/{ROWS}")
    for name, names in _layouts(parts):
        if beginning(body, parts[name]).startswith(b"["):
            given = value(body, parts[names]) if names in parts else None
            rows_named = _named(_batches(body, parts[name], columns), given, name, columns)
            return RowsFound(rows_named, {}, None)
    if columns.names_set.isdisjoint(columns.without_blanks(parts)):
        raise _no_rows()
    check_object_bytes(body)
    document = decode_json(body)
    if not _are_columns(document, columns):
        raise _no_rows()
    return RowsFound(_across(document), {}, None)


def _layouts(given: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The members that hold the rows, and their names, in layouts that have just these members."""
    names = set(given)
    for rows, layout in ((RECORDS, {RECORDS}), ("data", SPLIT), ("rows", set(UPLOADED))):
        if rows in names and names <= layout:
            yield rows, "columns"


def _batches(body: bytes, span: Span, columns: Columns) -> Iterator[list[Any]]:
    most_bytes = max(VALUE_BYTES, CELL_BYTES * columns.n_features)
    return map(decode_json, raw_elements(body, span, BLOCK_BYTES, most_bytes))


def _objects(batches: Iterable[list[Any]]) -> Iterator[list[Any]]:
    for batch in batches:
        if not all(type(row) is dict for row in batch):
            raise _no_object(batch)
        yield batch


def _named(
    batches: Iterable[list[Any]], names: Any, member: str, columns: Columns
) -> Iterable[list[Any]]:
    """The rows with these names, if they and the model have names."""
    if names is None or columns.names is None:
        return batches
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise invalid_field("/columns", "should be an array of texts; without names leave it out")
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


def _are_columns(document: dict[str, Any], columns: Columns) -> bool:
    values = list(document.values())
    alike = all(type(each) is list for each in values) or all(type(each) is dict for each in values)
    return alike and not columns.names_set.isdisjoint(columns.without_blanks(document))


def _across(document: dict[str, Any]) -> Iterator[list[Any]]:
    """The rows of columns."""
    rows = zip(*columns_of(document), strict=True)
    while batch := [
        dict(zip(document, cells, strict=True)) for cells in islice(rows, ROWS_AT_ONCE)
    ]:
        yield batch


def _no_object(document: Any) -> Exception:
    return invalid_field("", f"give an object with `{ROWS}`, not {shown(document)}")


def _no_list(rows: Any) -> Exception:
    return invalid_field(f"/{ROWS}", f"give a list of rows, not {shown(rows)}")


def _no_rows() -> Exception:
    return invalid_field(f"/{ROWS}", f"missing; give the rows to predict, such as {EXAMPLE}")
