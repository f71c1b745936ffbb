"""Rows in JSON as a matrix: at once, or row by row to say what is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.errors import InvalidContent
from service.rows.cell_faults import NUMBERS, fault_of_value, ragged
from service.rows.cell_values import BadCell, read_cell
from service.rows.columns import Columns
from service.rows.faults import Faults, shown, too_many
from service.rows.spec import ParseSpec
from service.rows.table.labels import Labels
from service.rows.table.layout import Layout, make_layout
from service.rows.table.writers import DenseWriter, Table, dense_table, labels_of

NAMELESS_HINT = "leave the names out; text/x-libsvm names those features that are not 0"


def matrix(rows: list[Any], layout: Layout, labels: Labels | None) -> NDArray[np.float64] | None:
    """(rows, n_features) of finite numbers, or None if some row must be looked at closely.

    The label column is taken out of the rows.
    """
    if not all(type(row) is list and len(row) == layout.n_cells for row in rows):
        return None
    if layout.target is not None and labels is not None:
        target = layout.target
        labels.add_json([row[target] for row in rows])
        rows = [row[:target] + row[target + 1 :] for row in rows]
    kinds: set[type] = set()
    for row in rows:
        kinds.update(map(type, row))
    if not kinds <= NUMBERS:
        return None
    X = np.array(rows, dtype=np.float64)
    return X if np.isfinite(X).all() else None


def plain_table(
    spec: ParseSpec, n_cells: int, names: list[str] | None, batches: Iterable[list[Any]]
) -> Table | None:
    """The table of rows that are lists of finite numbers; None if some row must be looked at
    closely. Raises TooLarge."""
    faults = Faults()
    try:
        layout = make_layout(spec, n_cells, names)
        labels = labels_of(layout, faults)
        with DenseWriter(Path(spec.out), layout.n_features, spec.limits) as writer:
            for batch in batches:
                X = matrix(batch, layout, labels)
                if X is None:
                    return None
                writer.add(X)
                faults.check()
            writer.finish()
        return dense_table(layout, writer.n_samples, labels)
    except InvalidContent:
        return None


def explained(
    rows: list[Any], columns: Columns, row_limit: int, pointer: str | None
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Rows to predict, lists or objects: (n_samples, n_features), and the names that are not of
    features. `pointer`: to the list of rows, if there is one.

    Raises TooLarge, and InvalidContent with the first fault of each bad row.
    """
    if len(rows) > row_limit:
        raise too_many("rows", row_limit)
    widths = {len(row) if type(row) is list else None for row in rows}
    if len(widths) == 1 and (width := widths.pop()) is not None:
        columns.check_width(width)
    faults = Faults()
    ignored = _check_names(rows, columns, faults)
    cells = [
        _explained_row(row, number, columns, pointer, faults) for number, row in enumerate(rows, 1)
    ]
    faults.check()
    return np.array(cells, dtype=np.float64), ignored


def _check_names(rows: list[Any], columns: Columns, faults: Faults) -> tuple[str, ...]:
    """The names in objects that are not of features. All that are missing are one fault."""
    given: dict[str, None] = {}
    missing: set[str] = set()
    lacking: list[int] = []
    for number, row in enumerate(rows, 1):
        if columns.names is not None and type(row) is dict:
            given.update(dict.fromkeys(row))
            absent = columns.names_set - row.keys()
            if absent:
                missing |= absent
                lacking.append(number)
    if lacking:
        what = f"row {lacking[0]} lacks"
        if len(lacking) > 1:
            what = f"row {lacking[0]} and {len(lacking) - 1:,} more lack"
        names = [name for name in columns.names or () if name in missing]
        faults.add_fault(*columns.lacking(what, names, list(given), lacking[0]))
    return tuple(name for name in given if name not in columns.names_set)


def _explained_row(
    row: Any, number: int, columns: Columns, pointer: str | None, faults: Faults
) -> list[Any]:
    cells: list[Any] = row
    if type(row) is dict:
        if columns.names is None:
            message = f"the row has names, {columns.n_features} numbers without names are expected"
            faults.add("feature-mismatch", message, row=number, hint=NAMELESS_HINT)
            return []
        if columns.names_set - row.keys():  # a fault already
            return []
        cells = [row[name] for name in columns.names]
    elif type(row) is not list:
        single = "[1.4, 0.2], alone on its line" if pointer is None else "[[1.4, 0.2]]"
        faults.add(
            "invalid-field",
            f"the row is {shown(row)}, not a list of numbers or an object",
            hint=f"a single row is {single}",
            row=number,
            pointer=None if pointer is None else f"{pointer}/{number - 1}",
        )
        return []
    elif len(row) != columns.n_features:
        faults.add(*ragged(len(row), columns.n_features), row=number)
        return []
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
    if columns.table is not None:
        return read_cell(columns.value_readers[position], cell)
    fault = fault_of_value(cell)
    if fault is not None:
        raise BadCell(fault)
    return cell
