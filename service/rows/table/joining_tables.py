"""Tables with kinds joined: their levels merged, their cells counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from service.errors import InvalidContent
from service.rows.cell_texts.levels import MAX_LEVELS, in_order
from service.rows.faults import refuse
from service.rows.spec import ReadLimits, Stored, TableColumn
from service.rows.table.arrays import blocks, write_array
from service.rows.table.layout import feature_order
from service.rows.table.raw import RawWriter, is_raw, raw_blocks, stored_blocks
from service.rows.table.writers import Table

Block = npt.NDArray[np.float64]


def plain_columns(names: list[str] | None, n_features: int) -> list[TableColumn]:
    """The columns of a table of finite numbers."""
    return [
        {"name": name, "kind": "number", "levels": [], "missing": 0}
        for name in names or map(str, range(n_features))
    ]


def table_of(columns: list[TableColumn]) -> list[TableColumn] | None:
    """What is kept of them: None for finite numbers."""
    return columns if is_raw(columns) else None


def append_table(
    stored: Stored, table: Table, folder: Path, limits: ReadLimits
) -> list[TableColumn] | None:
    """Write the arrays of the stored rows and those read, in `folder`; the columns of all.

    Raises InvalidContent `feature-mismatch`.
    """
    before = stored.table or plain_columns(stored.columns, stored.n_features)
    after = table.table or plain_columns(table.columns, table.n_features)
    order = feature_order(stored, table.columns, table.n_features)
    after = after if order is None else [after[i] for i in order]
    merged = [_merged(*pair) for pair in zip(before, after, strict=True)]

    def rows() -> Iterator[Block]:
        first = _places(before, merged)
        for block in stored_blocks(stored):
            yield _moved(block, first)
        second = _places(after, merged)
        done = 0
        for block in _read_blocks(table, folder):
            block = block if order is None else block[:, order]
            _require_booleans(block, done, before, after)
            done += len(block)
            yield _moved(block, second)

    new = folder / "joined"
    new.mkdir(exist_ok=True)
    kept = table_of(merged)
    write_blocks(rows(), merged, new, limits)
    for path in new.iterdir():
        path.replace(folder / path.name)
    new.rmdir()
    return kept


def append_weights(stored: Stored, table: Table, folder: Path) -> None:
    """Raises InvalidContent `feature-mismatch` if only one side has weights."""
    if (stored.weight is None) != (table.weight is None):
        having, lacking = ("rows", "dataset") if stored.weight is None else ("dataset", "rows")
        message = f"the {having} has weights, the {lacking} has none"
        message = message.replace("rows has", "rows have").replace("dataset have", "dataset has")
        raise refuse("feature-mismatch", message, hint="send both with weights, or none")
    if stored.weight is not None:
        parts = np.load(stored.path("weights")), np.load(folder / "weights.npy")
        write_array(folder / "weights.npy", np.concatenate(parts))


def write_blocks(
    rows: Iterable[Block], columns: list[TableColumn], folder: Path, limits: ReadLimits
) -> None:
    with RawWriter(folder, columns, limits) as writer:
        for block in rows:
            writer.add(block)
        writer.finish()


def _read_blocks(table: Table, folder: Path) -> Iterator[Block]:
    if table.table is None:
        return blocks(folder / "X.npy")
    return raw_blocks(lambda name: folder / f"{name}.npy", table.table)


def _merged(before: TableColumn, after: TableColumn) -> TableColumn:
    kinds = before["kind"], after["kind"]
    if kinds[0] != kinds[1] and not set(kinds) <= {"number", "boolean"}:
        message = f"the column {before['name']!r} is a {kinds[0]} in the dataset, here a {kinds[1]}"
        raise refuse("feature-mismatch", message, column=before["name"])
    levels = in_order({*before["levels"], *after["levels"]})
    if len(levels) > MAX_LEVELS:
        message = f"with these rows {before['name']!r} has more than {MAX_LEVELS:,} levels"
        raise InvalidContent("too-many-levels", message, extra={"limit": MAX_LEVELS})
    missing = before["missing"] + after["missing"]
    return {**before, "levels": levels, "missing": missing}


def _require_booleans(
    block: Block, done: int, before: list[TableColumn], after: list[TableColumn]
) -> None:
    """Numbers for a column of booleans are 1 and 0; `done` rows came before the block."""
    for i, (column, new) in enumerate(zip(before, after, strict=True)):
        if column["kind"] != "boolean" or new["kind"] == "boolean":
            continue
        cells = block[:, i]
        bad = np.flatnonzero((cells != 0.0) & (cells != 1.0) & ~np.isnan(cells))
        if len(bad):
            row, value = done + int(bad[0]) + 1, f"{cells[bad[0]]:g}"
            message = f"row {row}, column {column['name']!r}: {value!r} is not true or false"
            hint = "the dataset has booleans there: give true or false, 1 or 0"
            name = column["name"]
            raise refuse("not-a-boolean", message, row=row, column=name, value=value, hint=hint)


def _places(columns: list[TableColumn], merged: list[TableColumn]) -> dict[int, Block]:
    """New codes of the categories whose codes change, by column."""
    places = {}
    for i, (column, new) in enumerate(zip(columns, merged, strict=True)):
        if column["levels"] and column["levels"] != new["levels"]:
            code = {level: k for k, level in enumerate(new["levels"])}
            places[i] = np.array([code[level] for level in column["levels"]], dtype=np.float64)
    return places


def _moved(block: Block, places: dict[int, Block]) -> Block:
    for i, codes in places.items():
        there = ~np.isnan(block[:, i])
        block[there, i] = codes[block[there, i].astype(np.int64)]
    return block
