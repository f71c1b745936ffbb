"""JSON: `{"columns": […], "rows": [[…], …], "labels": […]}`; only `rows` is required."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from service.errors import Fault, InvalidContent, pointer_to_member
from service.rows.faults import Faults
from service.rows.formats.json_stream import Span, elements, members, value
from service.rows.number_text import number_hint
from service.rows.spec import ParseSpec
from service.rows.table.labels import Labels, Target, wrong_count
from service.rows.table.layout import NO_TARGET, Layout, make_layout
from service.rows.table.writers import DenseWriter, Table

EXAMPLE = '{"rows": [[1, 2], [3, 4]], "labels": ["a", "b"]}'
NUMBERS = {int, float, bool}
"""Types of a feature: true and false are 1 and 0."""
_KNOWN = ("columns", "rows", "labels")


def read(spec: ParseSpec) -> Table:
    """Write `X.npy`. Raises ServiceError with every fault of the rows.

    The labels are `labels`, or with named columns the target column, or there are none.
    """
    path = Path(spec.data)
    parts = members(path)
    for name in parts:
        if name not in _KNOWN:
            raise _wrong(
                pointer_to_member((), name),
                "there is no such field",
                f"known are {', '.join(_KNOWN)}",
            )
    if "rows" not in parts:
        raise _wrong("/rows", "field required", "the body is such as " + EXAMPLE)
    names = _names(path, parts)
    faults = Faults()
    labels: Labels | None = None
    batches = elements(path, parts["rows"])
    if batches is None:
        raise _wrong("/rows", "should be an array of arrays", "a single row is [[1, 2]]")
    first = next(batches, None)
    if first is None:
        raise InvalidContent("empty-data", "`rows` is empty")
    layout = _layout(spec, first[0], names, labelled="labels" in parts)
    if layout.target is not None:
        labels = Labels(faults, layout.column(layout.target))
    with DenseWriter(Path(spec.out), layout.n_features, spec.limits) as writer:
        done = 0
        for batch in chain([first], batches):
            X = matrix(batch, layout, labels)
            if X is None:
                examine(batch, layout, done + 1, faults)
            elif faults.total == 0:
                writer.add(X)
            done += len(batch)
        faults.check()
        writer.finish()
    target = labels.finish() if labels is not None else None
    if "labels" in parts:
        target = _read_labels(path, parts["labels"], done)
    return Table(
        n_samples=done,
        n_features=layout.n_features,
        sparse=False,
        columns=layout.feature_names,
        target_name=layout.target_name,
        target=target,
    )


def _names(path: Path, parts: dict[str, Span]) -> list[str] | None:
    if "columns" not in parts:
        return None
    names = value(path, parts["columns"])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _wrong(
            "/columns", "should be an array of texts", "leave it out if there are no names"
        )
    return names


def _layout(spec: ParseSpec, first: Any, names: list[str] | None, *, labelled: bool) -> Layout:
    if labelled and spec.labels is not None:
        raise _wrong("/labels", "the labels are in a file of their own already", "leave one out")
    if labelled and spec.target not in (None, NO_TARGET):
        message = "labels are given here, and a target column as well"
        raise _wrong("/labels", message, "leave out `target`")
    if labelled or (names is None and spec.target is None and spec.labels is None):
        spec = replace(spec, target=NO_TARGET)
    if not isinstance(first, list):
        raise _wrong("/rows/0", "should be an array of numbers", "a single row is [[1, 2]]")
    n_cells = len(first) if names is None else len(names)
    if n_cells == 0:
        raise InvalidContent("empty-data", "there is no column")
    return make_layout(spec, n_cells, names)


def matrix(
    rows: list[Any], layout: Layout, labels: Labels | None
) -> npt.NDArray[np.float64] | None:
    """(rows, n_features) of finite numbers, or None where some row must be looked at closely.

    The label column is taken out of the rows.
    """
    if not all(type(row) is list and len(row) == layout.n_cells for row in rows):
        if labels is not None:
            labels.skip(len(rows))
        return None
    if layout.target is not None and labels is not None:
        target = layout.target
        labels.add_json([row[target] for row in rows])
        features = [row[:target] + row[target + 1 :] for row in rows]
    else:
        features = rows
    kinds: set[type] = set()
    for row in features:
        kinds.update(map(type, row))
    if not kinds <= NUMBERS:
        return None
    X = np.array(features, dtype=np.float64)
    return X if np.isfinite(X).all() else None


def examine(rows: list[Any], layout: Layout, first_row: int, faults: Faults) -> None:
    """Add every fault of the rows' features."""
    for row, cells in enumerate(rows, first_row):
        if not isinstance(cells, list):
            hint = "a single row is [[1, 2]], not [1, 2]"
            faults.add("invalid-field", "the row is not an array", row=row, hint=hint)
            continue
        if len(cells) != layout.n_cells:
            message = f"{len(cells)} values where {layout.n_cells} are expected"
            hint = "all rows have as many values as there are columns"
            faults.add("ragged-row", message, row=row, hint=hint)
            continue
        for position, cell in enumerate(cells):
            if position != layout.target:
                _examine_cell(cell, row, layout.column(position), faults)


def _examine_cell(cell: Any, row: int, column: str | int, faults: Faults) -> None:
    if cell is None:
        hint = "nothing is imputed: remove the row, or give a number"
        faults.add("missing-value", "is no number", row=row, column=column, value="null", hint=hint)
    elif type(cell) not in NUMBERS:
        text = cell if isinstance(cell, str) else str(cell)
        hint = number_hint(text) or "numbers and booleans stand without quotes"
        faults.add("not-a-number", "is not a number", row=row, column=column, value=text, hint=hint)
    elif not isfinite(cell):
        value = "1e999" if cell > 0 else "-1e999"
        message = "is too large to be finite"
        hint = "numbers reach up to 1.8e308"
        faults.add("non-finite-value", message, row=row, column=column, value=value, hint=hint)


def _read_labels(path: Path, span: Span, n_samples: int) -> Target:
    batches = elements(path, span)
    if batches is None:
        raise _wrong("/labels", "should be an array", "one label for each row")
    labels = Labels(Faults())
    for batch in batches:
        labels.add_json(batch)
    if labels.count != n_samples:
        raise wrong_count(labels.count, n_samples)
    return labels.finish()


def _wrong(pointer: str, message: str, hint: str) -> InvalidContent:
    fault = Fault(code="invalid-field", message=message, pointer=pointer, hint=hint)
    return InvalidContent("invalid-field", f"{pointer}: {message}; {hint}", (fault,))
