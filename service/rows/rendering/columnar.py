"""Parquet, written by DuckDB from the stored files as they lie there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from service.rows.rendering.cells import names_of, weights_of
from service.rows.spec import Stored
from service.rows.table.writers import stored_blocks
from service.storage.locked_duckdb import connect, identifier, literal

MEMORY = "1GB"
"""The widest data need it: a piece of each of 20,000 columns."""
GROUP_VALUES = 8 * 1024 * 1024
"""Of one row group, as long as that leaves it `MIN_GROUP_ROWS`."""
MIN_GROUP_ROWS = 2048
MAX_GROUP_ROWS = 122_880


def write_parquet(stored: Stored, file: BinaryIO) -> None:
    """The features, the weights, and the labels, which keep their kind, as the last column."""
    path = Path(file.name).resolve()
    columns = _features(stored)
    weights = weights_of(stored)
    if weights is not None:
        columns["weight"] = weights
    names = names_of(stored) or [str(i) for i in range(len(columns))]
    labels = stored.labels()
    if labels is not None:
        if stored.classes is not None:
            text = isinstance(stored.classes[0], str)
            labels = np.array(stored.classes, dtype=object if text else None)[labels]
        columns["label"] = labels
        names = [*names, _label_name(stored.target or "label", names)]
    chosen = (f"{c} AS {identifier(name)}" for c, name in zip(columns, names, strict=True))
    rows = min(max(GROUP_VALUES // len(columns), MIN_GROUP_ROWS), MAX_GROUP_ROWS)
    with connect(path, memory=MEMORY) as connection:
        connection.register("stored", columns)
        connection.execute(
            f"COPY (SELECT {', '.join(chosen)} FROM stored) TO {literal(str(path))} "
            f"(FORMAT parquet, USE_TMP_FILE false, ROW_GROUP_SIZE {rows})"
        )


def _features(stored: Stored) -> dict[str, Any]:
    """Arrays that DuckDB takes as columns."""
    if not stored.table:
        X = np.load(stored.path("X"), mmap_mode="r")
        return {f"c{i}": X[:, i] for i in range(stored.n_features)}
    raw = np.concatenate(list(stored_blocks(stored)))
    columns: dict[str, Any] = {}
    for i, column in enumerate(stored.table):
        values = raw[:, i]
        missing = np.isnan(values)
        whole = np.where(missing, 0, values)
        if column["kind"] == "category":
            texts = np.array([*column["levels"], None], dtype=object)
            array: Any = texts[np.where(missing, len(texts) - 1, whole).astype(np.int64)]
        elif column["kind"] == "date":
            array = np.round(whole * 86_400_000_000).astype("datetime64[us]")
            array[missing] = np.datetime64("NaT")
        else:
            kind = bool if column["kind"] == "boolean" else np.float64
            array = np.ma.masked_array(whole.astype(kind), missing)
        columns[f"c{i}"] = array
    return columns


def nameable(names: list[str]) -> bool:
    """Whether DuckDB, which knows no difference between `a` and `A`, can write these names."""
    return len({name.lower() for name in names}) == len(names)


def _label_name(name: str, names: list[str]) -> str:
    while not nameable([*names, name]):
        name += "_"
    return name
