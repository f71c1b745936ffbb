"""Rows in JSON as a matrix: at once, or row by row to say what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.errors import MAX_FAULTS, InvalidContent
from service.rows.cell_faults import fault_of_value, ragged
from service.rows.cell_values import BadCell, read_cell
from service.rows.columns import Columns
from service.rows.faults import Faults, shown, too_many
from service.rows.json_reading.objects import MOST_NAMES
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
    if not kinds <= {int, float}:
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
    batches: Iterable[list[Any]], columns: Columns, row_limit: int, pointer: str | None
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Rows to predict, lists or objects: (n_samples, n_features), and the names that are not of
    features. `pointer`: to the list of rows, if there is one.

    Raises TooLarge, and InvalidContent with the first fault of each bad row; after a hundred of
    them, the next row of another width is the last one that is looked at.
    """
    parts = [np.empty((0, columns.n_features))]
    faults, names = Faults(), _Names(columns)
    widths: set[int | None] = set()
    number = 0
    for batch in batches:
        if number + len(batch) > row_limit:
            raise too_many("rows to predict", row_limit)
        rows = []
        for given in batch:
            row = columns.named(given) if type(given) is dict else given
            number += 1
            widths.add(len(row) if type(row) is list else None)
            names.look_at(row, number)
            cells = _explained_row(row, number, columns, pointer, faults)
            if cells is not None:
                rows.append(cells)
            elif faults.total + names.n_lacking > MAX_FAULTS:
                break
        else:
            if not faults.total and rows:
                parts.append(np.array(rows, dtype=np.float64))
            continue
        break
    if len(widths) == 1 and (width := widths.pop()) is not None:
        columns.check_width(width)
    names.report(faults)
    faults.check()
    return np.concatenate(parts), names.ignored


def in_order(batches: Iterable[list[Any]], columns: Columns) -> Iterator[list[Any]]:
    """The cells of rows that were read, in the order of the features."""
    for row in chain.from_iterable(batches):
        yield list(columns.take(columns.named(row))) if type(row) is dict else row


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
        faults.add(
            "invalid-field",
            f"the row is {shown(row)}, not a list of numbers or an object",
            hint=f"a single row is {single}",
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
