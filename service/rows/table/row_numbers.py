"""Columns that number the rows: a model would learn the order of the file from them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from service.rows.faults import no_features
from service.rows.spec import ParseSpec, TableColumn
from service.rows.table.arrays import ArrayWriter, blocks
from service.rows.table.raw import is_raw
from service.rows.table.writers import Table

NAMES = frozenset(
    {
        *("id", "index", "row", "rownames", "rowname", "row_id", "rowid", "row.names", "obs"),
        *("nr", "no", "no.", "#", "unnamed: 0"),
    }
)
"""In lower case; and all that end in `id`."""
MIN_ROWS = 3
REASON = "it numbers the rows"


def without_row_numbers(spec: ParseSpec, table: Table, folder: Path) -> Table:
    """The table without columns of whole numbers that count up from row to row, under a name for
    that; `X.npy` is written again. Columns of which `schema` says something are kept.

    Raises InvalidContent if no other feature is left.
    """
    if table.sparse or table.columns is None or table.n_samples < MIN_ROWS:
        return table
    kinds = ["number"] * table.n_features
    if table.table is not None:
        kinds = [column["kind"] for column in table.table]
    in_X = [i for i, kind in enumerate(kinds) if kind != "category"]
    places = [
        place
        for place, i in enumerate(in_X)
        if kinds[i] == "number" and _is_likely(table.columns[i], spec)
    ]
    places = _counting(folder / "X.npy", places)
    if not places:
        return table
    dropped = {in_X[place] for place in places}
    names = [table.columns[i] for i in sorted(dropped)]
    ignored = [*({"name": name, "reason": REASON} for name in names), *table.ignored]
    if len(dropped) == table.n_features:
        raise no_features(ignored)
    _write_without(folder, places, len(in_X), table.n_samples)
    return replace(
        table,
        n_features=table.n_features - len(dropped),
        columns=[name for i, name in enumerate(table.columns) if i not in dropped],
        table=_described(table.table, dropped),
        ignored=ignored,
        warnings=[*(ignoring(name, REASON) for name in names), *table.warnings],
        reading=_reading(table.reading, names),
    )


def ignoring(name: str, reason: str) -> dict[str, Any]:
    """The warning about a column that is ignored without being asked for."""
    message = f"the column {name!r} is ignored: {reason}"
    return {"code": "ignored-column", "message": message, "columns": [name]}


def _is_likely(name: str, spec: ParseSpec) -> bool:
    lower = name.lower()
    return name not in spec.roles and (lower in NAMES or lower.endswith("id"))


def _counting(path: Path, places: list[int]) -> list[int]:
    """Those of the columns of X whose values are each the one before plus 1."""
    before: dict[int, float] = {}
    for block in blocks(path) if places else ():
        for place in places:
            column = block[:, place]
            steps = np.diff(column, prepend=before.get(place, column[0] - 1))
            if (steps == 1).all():
                before[place] = float(column[-1])
            else:
                before.pop(place, None)
        places = [place for place in places if place in before]
    return places


def _write_without(folder: Path, places: list[int], n_columns: int, n_samples: int) -> None:
    X, kept = folder / "X.npy", n_columns - len(places)
    if kept:
        with ArrayWriter(folder / "X-kept", "<f8") as writer:
            for block in blocks(X):
                writer.write(np.delete(block, places, axis=1))
            writer.finish((n_samples, kept))
        (folder / "X-kept").replace(X)
    else:
        X.unlink()


def _described(columns: list[TableColumn] | None, dropped: set[int]) -> list[TableColumn] | None:
    kept = [column for i, column in enumerate(columns or ()) if i not in dropped]
    return kept if is_raw(kept) else None


def _reading(reading: dict[str, Any] | None, names: list[str]) -> dict[str, Any] | None:
    if reading is None or "columns" not in reading:
        return reading
    notes = {name: one for name, one in reading["columns"].items() if name not in names}
    return {**reading, "columns": notes}
