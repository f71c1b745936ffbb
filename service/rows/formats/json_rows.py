"""JSON: `{"columns": […], "rows": [[…], …], "labels": […]}`; only `rows` is required.

Or in a layout of other programs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from service.errors import InvalidContent, pointer_to_member
from service.rows.columns import Columns
from service.rows.faults import Faults, invalid_field
from service.rows.formats.json_layouts import (
    UPLOADED,
    is_split,
    read_list,
    read_members,
)
from service.rows.formats.json_to_predict import (
    WHOLE_BYTES,
    RowsFound,
    rows_of_document,
    rows_of_large,
)
from service.rows.json_reading import numbers as json_numbers
from service.rows.json_reading.cells import explained, in_order, plain_table
from service.rows.json_reading.numbers import ROWS
from service.rows.json_reading.stream import Span, elements, members, value
from service.rows.kinds.building import batches_of_lists, build, may_be_plain
from service.rows.kinds.feature import Batch
from service.rows.spec import ParseSpec, RowLimits, Rows
from service.rows.table.labels import Labels, Target, wrong_count
from service.rows.table.layout import NO_TARGET, check_columns
from service.rows.table.writers import Table

EXAMPLE = '{"rows": [[1, 2], [3, 4]], "labels": ["a", "b"]}'
_HEAD_BYTES = 1024


def read(spec: ParseSpec) -> Table:
    """Write the arrays. Raises ServiceError with every fault of the rows.

    The labels are `labels`, or with named columns the target column, or there are none.
    """
    path = Path(spec.data)
    table = read_list(spec)
    if table is not None:
        return table
    parts = members(path, most=spec.limits.columns + 2)
    if is_split(path, parts):
        return _read_split(spec, path, parts)
    if "rows" not in parts:
        table = read_members(spec, parts)
        if table is not None:
            return table
    for name in parts:
        if name not in UPLOADED:
            raise invalid_field(
                pointer_to_member((), name),
                f"there is no such field; known are {', '.join(UPLOADED)}",
            )
    if "rows" not in parts:
        raise invalid_field("/rows", f"missing; the body is such as {EXAMPLE}")
    return _read_parts(spec, path, parts, _names(path, parts))


def _read_split(spec: ParseSpec, path: Path, parts: dict[str, Span]) -> Table:
    """As pandas writes it: `data` are the rows, and `index` is not kept."""
    names = value(path, parts["columns"])
    if isinstance(names, list):  # numbers, if the frame has no names
        names = [str(name) if type(name) is int else name for name in names]
    _check_names(names)
    table = _read_parts(spec, path, {"rows": parts["data"]}, names)
    return replace(table, reading={**(table.reading or {}), "layout": "split"})


def _read_parts(
    spec: ParseSpec, path: Path, parts: dict[str, Span], names: list[str] | None
) -> Table:
    batches = elements(path, parts["rows"])
    if batches is None:
        raise invalid_field("/rows", "should be an array of arrays; a single row is [[1, 2]]")
    first = next(batches, None)
    if first is None:
        raise InvalidContent("empty-data", "`rows` is empty")
    labeled = "labels" in parts
    spec = _with_target(spec, names, labeled=labeled)
    n_cells = _n_cells(first[0], names)
    check_columns(n_cells, spec.limits)
    table = None
    if may_be_plain(spec):
        table = plain_table(spec, n_cells, names, chain([first], batches))
    if table is None:

        def passes(faults: Faults) -> Iterator[Batch]:
            return batches_of_lists(_elements(path, parts["rows"]), n_cells, faults)

        table = build(spec, n_cells, names, passes)
    if labeled:
        table = replace(table, labels=_read_labels(path, parts["labels"], table.n_samples))
    return table


def _elements(path: Path, span: Span) -> Iterator[list[Any]]:
    batches = elements(path, span)
    assert batches is not None
    return batches


def _names(path: Path, parts: dict[str, Span]) -> list[str] | None:
    if "columns" not in parts:
        return None
    names: list[str] = value(path, parts["columns"])
    _check_names(names)
    return names


def _check_names(names: Any) -> None:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise invalid_field("/columns", "should be an array of texts; without names leave it out")


def _with_target(spec: ParseSpec, names: list[str] | None, *, labeled: bool) -> ParseSpec:
    """Without names or with `labels` no column holds the labels, unless the caller names one."""
    if labeled and spec.labels is not None:
        raise invalid_field("/labels", "the labels are in a file of their own; leave one out")
    if labeled and spec.target not in (None, NO_TARGET):
        raise invalid_field("/labels", "a target column is given as well; leave out `target`")
    said = any(column.get("role") == "label" for column in spec.roles.values())
    no_names = names is None and spec.target is None and spec.labels is None
    return replace(spec, target=NO_TARGET) if labeled or (no_names and not said) else spec


def _n_cells(first: Any, names: list[str] | None) -> int:
    if not isinstance(first, list):
        raise invalid_field("/rows/0", "should be an array of numbers; a single row is [[1, 2]]")
    n_cells = len(first) if names is None else len(names)
    if n_cells == 0:
        raise InvalidContent("empty-data", "there is no column")
    return n_cells


def _read_labels(path: Path, span: Span, n_samples: int) -> Target:
    batches = elements(path, span)
    if batches is None:
        raise invalid_field("/labels", "should be an array; one label for each row")
    labels = Labels(Faults())
    for batch in batches:
        labels.add_json(batch)
        if labels.count > n_samples:
            break
    if labels.count != n_samples:
        raise wrong_count(labels.count, n_samples)
    return labels.finish()


def read_rows(body: bytes, columns: Columns, limits: RowLimits) -> Rows:
    """The rows of `{"instances": [[…], …] or [{…}, …], …}`, and its other members.

    Raises InvalidRequest, TooLarge, and InvalidContent with every bad row.
    """
    if columns.is_plain and body.find(b"{", 1, _HEAD_BYTES) < 0:  # not objects
        numbers = json_numbers.read_document(body, columns.n_features, limits.rows)
        if numbers is not None:
            return Rows(*numbers)
    read = json_numbers.read_any_document(body, columns, limits.rows)
    if read is None:
        return explained_rows(body, columns, limits)
    return Rows(*read, partial(_cells, body, columns))


def _cells(body: bytes, columns: Columns) -> Iterator[list[Any]]:
    return in_order(_rows_of(body, columns).batches, columns)


def _rows_of(body: bytes, columns: Columns) -> RowsFound:
    return (rows_of_large if len(body) > WHOLE_BYTES else rows_of_document)(body, columns)


def explained_rows(body: bytes, columns: Columns, limits: RowLimits) -> Rows:
    """The same, slowly."""
    found = _rows_of(body, columns)
    X, ignored = explained(found.batches, columns, limits.rows, found.pointer)
    if not len(X):
        what = "the body" if found.pointer is None else f"`{ROWS}`"
        raise InvalidContent("empty-data", f"{what} holds no row")
    return Rows(X, found.others, ignored, partial(_cells, body, columns))
