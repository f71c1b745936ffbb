"""JSON and NDJSON as people have them: rows as lists or objects, or columns.

The service's own layout is `{"columns": […], "rows": [[…], …], "labels": […], "target": …}`,
where `target` names the labels; only `rows` is required. pandas and other programs write records,
columns, or `split`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

from service.common.encodings import MAX_RATIO
from service.common.strict_json import decode_json
from service.errors import MAX_FAULTS, InvalidContent, pointer_to_member
from service.rows.cell_texts.text import check_lengths, slices
from service.rows.faults import (
    Faults,
    inflates_too_much,
    invalid_field,
    listed,
    refuse,
    shown,
    warning,
)
from service.rows.formats.json_to_predict import (
    RECORDS,
    SPLIT,
    UPLOADED,
    check_names,
    columns_of,
    in_row,
    is_row,
)
from service.rows.json_reading.stream import (
    MAX_DEPTH,
    Span,
    beginning,
    check_object_bytes,
    elements,
    loads,
    members,
    raw_elements,
    value,
    whole,
)
from service.rows.kinds.blocks import ValueRows
from service.rows.kinds.building import batches_of_lists, build
from service.rows.kinds.feature import Batch
from service.rows.spec import MOST_OTHERS, ParseSpec
from service.rows.table.labels import Labels, Target
from service.rows.table.layout import (
    NO_TARGET,
    check_columns,
    distinct_names,
)
from service.rows.table.left_out import OF_LISTS, ignoring
from service.rows.table.writers import Table

COLUMNS_BYTES = 64 * 1024 * 1024
"""Of a body of columns, which is in memory as a whole."""
ROWS_AT_ONCE = 4096
CELLS_AT_ONCE = 500_000
NESTED = frozenset({list, dict})
FREE_BYTES = 64 * 1024 * 1024
"""Up to this size of the table its ratio to the file does not matter."""
EXAMPLE = '{"rows": [[1, 2], [3, 4]], "labels": ["a", "b"]}'
ROW_HINT = 'a row is an object, such as {"a": 1, "b": 2}'


def read(spec: ParseSpec) -> Table:
    """Write the arrays of a document. Raises ServiceError with every fault of the rows.

    The labels are `labels`, or with named columns the target column, or there are none.
    """
    path = Path(spec.file.path)
    document = whole(path)
    if beginning(path, document).startswith(b"["):
        return _read_records(spec, document)
    parts = members(path, most=spec.limits.columns + MOST_OTHERS)
    starts = {name: beginning(path, span) for name, span in parts.items()}
    lists = {name: start[1:].lstrip()[:1] for name, start in starts.items() if start[:1] == b"["}
    if {"columns", "data"} <= parts.keys() <= SPLIT and lists.get("data") in (b"[", b"]"):
        names = value(path, parts["columns"])
        if isinstance(names, list):  # numbers, if the frame has no names
            names = [str(name) if type(name) is int else name for name in names]
        check_names(names)
        return _noted(_read_parts(spec, {"rows": parts["data"]}, names), "split")
    if "rows" not in parts:
        if list(lists.values()) == [b"{"]:  # such as {"data": […], "page": 1}
            return _read_records(spec, parts[next(iter(lists))])
        alike = {start[:1] for start in starts.values()} in ({b"["}, {b"{"})
        if alike and parts.keys() - SPLIT - {"labels"}:
            return _read_columns(spec)
    for name in parts:
        if name not in UPLOADED:
            message = f"there is no such field; known are {', '.join(UPLOADED)}"
            raise invalid_field(pointer_to_member((), name), message)
    if "rows" not in parts:
        raise invalid_field("/rows", f"missing; the body is such as {EXAMPLE}")
    names = None
    if "columns" in parts:
        names = value(path, parts["columns"])
        check_names(names)
    return _read_parts(spec, parts, names)


def read_lines(spec: ParseSpec) -> Table:
    """Write the arrays of NDJSON: one object a row. Raises ServiceError with every fault."""
    return _read_objects(spec, lambda: _lines(spec))


def _read_parts(spec: ParseSpec, parts: dict[str, Span], names: list[str] | None) -> Table:
    """The table of `rows` that are lists, and of `labels`."""
    path = Path(spec.file.path)
    batches = elements(path, parts["rows"])
    if batches is None:
        raise invalid_field("/rows", "should be an array of arrays; a single row is [[1, 2]]")
    first = next(batches, None)
    if first is None:
        raise InvalidContent("empty-data", "`rows` is empty")
    labeled = "labels" in parts
    spec = _with_target(spec, names, labeled=labeled)
    if not isinstance(first[0], list):
        raise invalid_field("/rows/0", "should be an array of numbers; a single row is [[1, 2]]")
    n_cells = len(first[0]) if names is None else len(names)
    if n_cells == 0:
        raise InvalidContent("empty-data", "there is no column")
    check_columns(n_cells, spec.limits)

    def passes(faults: Faults, texts: Collection[int]) -> Iterator[Batch]:
        rows = map(loads, raw_elements(path, parts["rows"]))
        return batches_of_lists(rows, n_cells, faults)

    target = _target_name(value(path, parts["target"]), names) if "target" in parts else None
    if target is not None and not labeled:
        raise invalid_field("/target", "names the `labels`, which are missing")
    table = build(spec, n_cells, names, passes)
    if labeled:
        labels = _read_labels(spec, parts["labels"], table.n_samples)
        table = replace(table, labels=labels, target=target)
    return table


def _target_name(given: Any, names: list[str] | None) -> str | None:
    """What the labels are called."""
    if not isinstance(given, str | None):
        raise invalid_field("/target", f"should be a text, not {shown(given)}")
    distinct_names([] if given is None else [given])  # raises for one that is too long
    if given is not None and given in (names or ()):
        raise invalid_field("/target", f"{given[:64]!r} is one of `columns`")
    return given or None


def _with_target(spec: ParseSpec, names: list[str] | None, *, labeled: bool) -> ParseSpec:
    """Without names or with `labels` no column holds the labels, unless the caller names one."""
    if labeled and spec.labels is not None:
        raise invalid_field("/labels", "the labels are in a file of their own; leave one out")
    if labeled and spec.asked.target not in (None, NO_TARGET):
        raise invalid_field("/labels", "a target column is given as well; leave out `target`")
    said = any(column.get("role") == "label" for column in spec.asked.schema.values())
    no_names = names is None and spec.asked.target is None and spec.labels is None
    return spec.asking(target=NO_TARGET) if labeled or (no_names and not said) else spec


def _read_labels(spec: ParseSpec, span: Span, n_samples: int) -> Target:
    batches = elements(Path(spec.file.path), span)
    if batches is None:
        raise invalid_field("/labels", "should be an array; one label for each row")
    labels = Labels(Faults(), kind=spec.label_kind)
    for batch in batches:
        labels.add_json(batch)
        if labels.count > n_samples:
            break
    return labels.finish(n_samples)


def _read_records(spec: ParseSpec, span: Span) -> Table:
    path = Path(spec.file.path)
    if beginning(path, span)[1:].lstrip()[:1] not in (b"{", b"]", b""):
        what = "a list should be one of objects, such as"
        raise invalid_field("", f'{what} [{{"a": 1, "b": 2}}]; lists are {{"rows": [[1, 2]]}}')

    def records() -> Iterator[list[Any]]:
        for text in raw_elements(path, span):
            rows: list[Any] = loads(text)
            _check_repeated(text, sum(len(row) for row in rows if isinstance(row, dict)))
            if rows:
                yield rows

    return _noted(_read_objects(spec, records), RECORDS)


def _check_repeated(text: bytes, n_members: int) -> None:
    """Raises InvalidRequest for a name that comes twice in an object. A name has one colon: if
    there are more, one may come twice, or an object is in another."""
    if text.count(b":") > n_members:
        decode_json(text, with_nan=True)


def _read_columns(spec: ParseSpec) -> Table:
    path = Path(spec.file.path)
    if path.stat().st_size > COLUMNS_BYTES:
        message = f"columns of more than {COLUMNS_BYTES >> 20} MiB"
        raise invalid_field("", f'{message}; send records, or {{"columns": […], "rows": […]}}')
    check_object_bytes(path)
    text = path.read_bytes()[whole(path).start :]
    document: dict[str, Any] = loads(text)
    n_members = sum(len(column) for column in document.values() if isinstance(column, dict))
    _check_repeated(text, n_members + len(document))
    del text
    names = list(document)
    check_columns(len(names), spec.limits)
    if _has_rows(document):
        rows = list(document.values())
        starts = range(0, len(rows), ROWS_AT_ONCE)
        table = _read_objects(spec, lambda: (rows[i : i + ROWS_AT_ONCE] for i in starts))
        return _noted(table, "index")
    columns = columns_of(document)
    document.clear()
    n_rows = len(columns[0])
    if n_rows == 0:
        raise InvalidContent("empty-data", "there is no row")

    def passes(faults: Faults, texts: Collection[int]) -> Iterator[Batch]:
        for start in range(0, n_rows, ROWS_AT_ONCE):
            yield [column[start : start + ROWS_AT_ONCE] for column in columns]

    return _noted(build(spec, len(names), names, passes), "columns")


def _has_rows(document: dict[str, Any]) -> bool:
    """Whether the members are rows by their names, not columns: they have the same few keys."""
    rows = list(document.values())
    if not isinstance(rows[0], dict) or all(map(is_row, rows[0])):
        return False
    return all(map(is_row, document)) or len(document) > len(set().union(*rows))


def _noted(table: Table, layout: str) -> Table:
    return replace(table, reading={**(table.reading or {}), "layout": layout})


def _lines(spec: ParseSpec) -> Iterator[list[Any]]:
    """The values of the lines, some MiB at a time."""
    row = 0
    for part in slices(Path(spec.file.path), quotes=False):
        lines = [line for line in part.text.split("\n") if line and not line.isspace()]
        check_lengths(lines, spec.limits.line_bytes, row + 1)
        batch = []
        for line in lines:
            row += 1
            with in_row(row):
                text = line.encode()
                cells = loads(text)
                deep = text.count(b"{") + text.count(b"[") > MAX_DEPTH
                n_members = len(cells) if isinstance(cells, dict) else 0
                _check_repeated(text, -1 if deep else n_members)
            batch.append(cells)
        if batch:
            yield batch


def _read_objects(spec: ParseSpec, read_all: Callable[[], Iterator[list[Any]]]) -> Table:
    """The table of rows that are objects, read from their beginning as often as needed.

    The columns are the names of all rows: what a row does not have is missing in it. An object in a
    cell is columns of its own, `a.b`.
    """
    first = next(read_all(), None)
    if first is None:
        raise InvalidContent("empty-data", "there is no row")
    if not isinstance(first[0], dict):
        raise refuse("invalid-field", "row 1 is not an object", row=1, hint=ROW_HINT)
    keys = list(first[0])
    if not keys:
        raise InvalidContent("empty-data", "the first row has no columns")
    check_columns(len(keys), spec.limits)
    try:
        return _build(spec, read_all, _Names(keys))
    except _OtherNames:
        return _build(spec, read_all, _Names.of_all(spec, read_all()))


class _OtherNames(Exception):
    """Rows have other names than the first one, or objects or lists in their cells."""


@dataclass(frozen=True, slots=True)
class _Names:
    """The columns of rows that are objects."""

    keys: list[str]
    some: list[str] = field(default_factory=list)
    """Those that not all rows have."""
    lists: list[str] = field(default_factory=list)
    """Those with lists, which are no columns."""
    of_first: bool = True
    """All rows have to have those of the first one."""

    @classmethod
    def of_all(cls, spec: ParseSpec, batches: Iterator[list[Any]]) -> _Names:
        order: list[str] = []
        counts: Counter[str] = Counter()
        groups: set[str] = set()
        lists: Counter[str] = Counter()
        there: Counter[str] = Counter()
        n_rows = 0
        allowed = max(FREE_BYTES, MAX_RATIO * Path(spec.file.path).stat().st_size)
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


def _build(spec: ParseSpec, read_all: Callable[[], Iterator[list[Any]]], names: _Names) -> Table:
    """Raises _OtherNames if all rows were to have those of the first one, and do not."""
    keys = names.keys

    def passes(faults: Faults, texts: Collection[int]) -> Iterator[Batch]:
        done = 0
        for batch in read_all():
            if names.of_first:
                rows = _rows(batch, keys)
                if None in rows or not NESTED.isdisjoint(map(type, chain.from_iterable(rows))):
                    raise _OtherNames
                yield ValueRows(rows)
                continue
            _check_objects(batch, done + 1, faults)
            done += len(batch)
            at_once = max(1, CELLS_AT_ONCE // len(keys))
            for start in range(0, len(batch), at_once):
                rows = [_cells(row, keys) for row in batch[start : start + at_once]]
                yield list(zip(*rows, strict=True))

    table = build(spec, len(keys), keys, passes)
    ignored = [{"name": name, "reason": OF_LISTS} for name in names.lists]
    warnings = [ignoring(one["name"], one["reason"]) for one in ignored]
    if names.some:
        message = f"not all rows have these, and they are missing there: {listed(names.some)}"
        warnings.append(warning("other-names", message, names.some))
    return replace(table, ignored=[*ignored, *table.ignored], warnings=[*warnings, *table.warnings])


def _insert(order: list[str], names: list[str], new: set[str]) -> None:
    """Add new names where they are in a row: after the name before them."""
    for before, name in zip([None, *names], names, strict=False):
        if name in new:
            order.insert(0 if before is None else order.index(before) + 1, name)


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


def _rows(batch: list[Any], keys: list[str]) -> list[Any]:
    """The cells in the order of the columns, then that of the first one again; None for a row that
    has not exactly these."""
    names = set(keys)
    cells = itemgetter(*keys, keys[0])  # of two names or more it gives a tuple
    return [cells(row) if type(row) is dict and row.keys() == names else None for row in batch]


def _check_objects(batch: list[Any], first_row: int, faults: Faults) -> None:
    """Add each row that is not an object. Raises InvalidContent after a hundred faults."""
    for row, cells in enumerate(batch, first_row):
        if not isinstance(cells, dict):
            if faults.total > MAX_FAULTS:
                faults.check()
            message = f"the row is {shown(cells)}, not an object"
            faults.add("invalid-field", message, row=row, hint=ROW_HINT)
