"""Columns of whole numbers that name the rows: a model would learn the order of the file from them,
or nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from service.rows.faults import no_features
from service.rows.spec import ParseSpec
from service.rows.table.arrays import ArrayWriter, blocks
from service.rows.table.raw import category_positions, kept_kinds
from service.rows.table.writers import Table

NAMES = frozenset(
    {
        *("id", "index", "row", "rownames", "rowname", "row_id", "rowid", "row.names", "obs"),
        *("nr", "no", "no.", "#", "unnamed: 0"),
    }
)
"""In lower case; and all that end in `id`."""
_KEY = re.compile(r"(?:.*[^A-Za-z])?(?:[Ii][Dd]|[Nn][RrOo])\.?|.*[a-z](?:I[Dd]|N[ro])\.?")
"""Such as `id`, `customer_id`, `OrderNo`, `Kunden-Nr.`, but not `paid`."""
MIN_ROWS = 3
MIN_ROWS_OF_KEYS = 10
NUMBERED = "it numbers the rows"
KEY = "an identifier: every number is different"


def without_row_numbers(spec: ParseSpec, table: Table, folder: Path) -> Table:
    """The table without columns of whole numbers that count up from row to row, or are all
    different, under a name for that; `X.npy` is written again. Columns of which `schema` says
    something are kept.

    Raises InvalidContent if no other feature is left.
    """
    if table.sparse or table.columns is None or table.n_samples < MIN_ROWS:
        return table
    others = {i for i, column in enumerate(table.table) if column["kind"] != "number"}
    in_X = np.delete(np.arange(table.n_features), category_positions(table.table)).tolist()
    reasons: dict[int, str] = {}
    path = folder / "X.npy"
    for place, i in enumerate(in_X):
        if i not in others and table.columns[i] not in spec.asked.schema:
            reason = _reason(path, place, table.columns[i])
            if reason is not None:
                reasons[place] = reason
    if not reasons:
        return table
    dropped = {in_X[place] for place in reasons}
    reason_of = {table.columns[in_X[place]]: reason for place, reason in reasons.items()}
    ignored = [*({"name": name, "reason": why} for name, why in reason_of.items()), *table.ignored]
    if len(dropped) == table.n_features:
        raise no_features(ignored)
    _write_without(folder, list(reasons), len(in_X), table.n_samples)
    return replace(
        table,
        n_features=table.n_features - len(dropped),
        columns=[name for i, name in enumerate(table.columns) if i not in dropped],
        table=kept_kinds([one for i, one in enumerate(table.table) if i not in dropped]),
        ignored=ignored,
        warnings=[*(ignoring(name, why) for name, why in reason_of.items()), *table.warnings],
        reading=_reading(table.reading, list(reason_of)),
    )


def ignoring(name: str, reason: str) -> dict[str, Any]:
    """The warning about a column that is ignored without being asked for."""
    message = f"the column {name!r} is ignored: {reason}"
    return {"code": "ignored-column", "message": message, "columns": [name]}


def _reason(path: Path, place: int, name: str) -> str | None:
    """Why a column of X is ignored, if it is: by its name, and by its values."""
    may_count = name.lower() in NAMES or name.lower().endswith("id")
    may_be_key = _KEY.fullmatch(name) is not None
    if not (may_count or may_be_key):
        return None
    values = np.concatenate([block[:, place].copy() for block in blocks(path)])
    if may_count and (np.diff(values) == 1).all():
        return NUMBERED
    if may_be_key and len(values) >= MIN_ROWS_OF_KEYS and (values == np.floor(values)).all():
        return KEY if len(np.unique(values)) == len(values) else None
    return None


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


def _reading(reading: dict[str, Any] | None, names: list[str]) -> dict[str, Any] | None:
    if reading is None or "columns" not in reading:
        return reading
    notes = {name: one for name, one in reading["columns"].items() if name not in names}
    return {**reading, "columns": notes}
