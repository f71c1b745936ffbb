"""NDJSON: one object a row, its names those of the columns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

from service.errors import Fault, InvalidContent, InvalidRequest
from service.rows.faults import Faults, refuse
from service.rows.formats.json_rows import examine, matrix
from service.rows.formats.json_stream import MAX_DEPTH, loads, malformed
from service.rows.spec import ParseSpec
from service.rows.table.labels import Labels
from service.rows.table.layout import Layout, make_layout
from service.rows.table.writers import DenseWriter, Table
from service.rows.text import check_lengths, slices


def read(spec: ParseSpec) -> Table:
    """Write `X.npy`. Raises ServiceError with every fault of the rows.

    The first row says which columns there are; the others have the same, in any order.
    """
    batches = _batches(spec)
    first = next(batches, None)
    if first is None:
        raise InvalidContent("empty-data", "there is no row")
    if not isinstance(first[0], dict):
        hint = 'a row is an object, such as {"a": 1, "b": 2}'
        raise refuse("invalid-field", "row 1 is no object", row=1, hint=hint)
    keys = list(first[0])
    if not keys:
        raise InvalidContent("empty-data", "the first row has no columns")
    layout = make_layout(spec, len(keys), keys)
    faults = Faults()
    labels = None
    if layout.target is not None:
        labels = Labels(faults, layout.column(layout.target))
    with DenseWriter(Path(spec.out), layout.n_features, spec.limits) as writer:
        done = 0
        batch: list[Any] | None = first
        while batch is not None:
            X = matrix(_rows(batch, keys), layout, labels)
            if X is None:
                _examine(batch, keys, layout, done + 1, faults)
            elif faults.total == 0:
                writer.add(X)
            done += len(batch)
            batch = next(batches, None)
        faults.check()
        writer.finish()
    return Table(
        n_samples=done,
        n_features=layout.n_features,
        sparse=False,
        columns=layout.feature_names,
        target_name=layout.target_name,
        target=None if labels is None else labels.finish(),
    )


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
    try:
        value = loads(line.encode())
        # A name has one colon: where there are no more, no name stands twice.
        if isinstance(value, dict) and line.count(":") > len(value):
            json.loads(line, object_pairs_hook=_unique)
        if line.count("{") + line.count("[") > MAX_DEPTH:
            _check_depth(value)
    except InvalidRequest as error:
        message = f"row {row}: {error.detail}"
        fault = Fault(code=error.code, message=message, row=row)
        raise InvalidRequest(error.code, message, (fault,)) from None
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        malformed(f"{twice[:64]!r} stands twice in one object")
    return found


def _rows(batch: list[Any], keys: list[str]) -> list[Any]:
    """The cells in the order of the columns; None for a row that has not exactly these."""
    names = set(keys)
    cells = itemgetter(*keys, keys[0])  # of two names or more it gives a tuple
    return [
        list(cells(row)[:-1]) if type(row) is dict and row.keys() == names else None
        for row in batch
    ]


def _examine(
    batch: list[Any], keys: list[str], layout: Layout, first_row: int, faults: Faults
) -> None:
    names = set(keys)
    for row, value in enumerate(batch, first_row):
        if not isinstance(value, dict):
            hint = 'a row is an object, such as {"a": 1, "b": 2}'
            faults.add("invalid-field", "the row is no object", row=row, hint=hint)
            continue
        hint = "all rows have the columns of the first one"
        for position, key in enumerate(keys):
            if key not in value:
                column = layout.column(position)
                faults.add("missing-value", "is not there", row=row, column=column, hint=hint)
        for name in value.keys() - names:
            message = "is not in the first row"
            faults.add("ragged-row", message, row=row, column=name[:64], hint=hint)
        if value.keys() == names:
            examine([[value[key] for key in keys]], layout, row, faults)


def _check_depth(value: Any) -> None:
    level, depth = [value], 0
    while level := [item for item in level if isinstance(item, (dict, list))]:
        depth += 1
        if depth > MAX_DEPTH:
            malformed(f"more than {MAX_DEPTH} levels")
        level = [
            entry for item in level for entry in (item.values() if isinstance(item, dict) else item)
        ]
