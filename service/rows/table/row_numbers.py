"""Columns of whole numbers that name the rows: a model would learn the order of the file from them,
or nothing."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from service.rows.faults import no_features
from service.rows.spec import ParseSpec
from service.rows.table.arrays import blocks, in_folder, rewritten
from service.rows.table.raw import category_positions, kept_kinds, raw_blocks, write_rows
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
    in_X = np.delete(np.arange(table.n_features), category_positions(table.table)).tolist()
    dropped: dict[int, str] = {}
    for place, i in enumerate(in_X):
        if table.kinds[i].kind == "number" and table.columns[i] not in spec.roles:
            reason = _reason(folder / "X.npy", place, table.columns[i])
            if reason is not None:
                dropped[i] = reason
    if not dropped:
        return table
    reasons = {table.columns[i]: reason for i, reason in dropped.items()}
    ignored = [*({"name": name, "reason": why} for name, why in reasons.items()), *table.ignored]
    if len(dropped) == table.n_features:
        raise no_features(ignored)
    n_features = table.n_features - len(dropped)
    kept = kept_kinds(one for i, one in enumerate(table.kinds) if i not in dropped)
    rows = raw_blocks(table, in_folder(folder))
    with rewritten(folder) as part:
        others = (np.delete(block, list(dropped), axis=1) for block in rows)
        write_rows(part, others, kept, n_features, spec.limits)
    return replace(
        table,
        n_features=n_features,
        columns=[name for i, name in enumerate(table.columns) if i not in dropped],
        table=kept,
        ignored=ignored,
        warnings=[*(ignoring(name, why) for name, why in reasons.items()), *table.warnings],
        reading=_reading(table.reading, reasons),
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


def _reading(reading: dict[str, Any] | None, names: Collection[str]) -> dict[str, Any] | None:
    if reading is None or "columns" not in reading:
        return reading
    notes = {name: one for name, one in reading["columns"].items() if name not in names}
    return {**reading, "columns": notes}
