"""Predictions as files: CSV, NDJSON, NPY or Parquet, one record a row, in input order."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import orjson

from service.storage.locked_duckdb import connect

Format = Literal["csv", "ndjson", "npy", "parquet"]

MEDIA_TYPES: dict[str, str] = {
    "csv": "text/csv",
    "ndjson": "application/x-ndjson",
    "npy": "application/x-npy",
    "parquet": "application/vnd.apache.parquet",
}

_BLOCK_ROWS = 65_536


def write(
    format_: Format,
    path: Path,
    classes: npt.NDArray[Any],
    columns: Mapping[str, npt.NDArray[Any]],
) -> None:
    """`columns` by output, (n_samples,) or (n_samples, n_classes); of `label` class numbers."""
    match format_:
        case "csv":
            _write_csv(path, classes, columns)
        case "ndjson":
            _write_ndjson(path, classes, columns)
        case "npy":
            ((name, values),) = columns.items()
            with path.open("wb") as file:
                np.save(file, classes[values] if name == "label" else values, allow_pickle=False)
        case "parquet":
            _write_parquet(path, classes, columns)


def _flat(
    classes: npt.NDArray[Any], columns: Mapping[str, npt.NDArray[Any]]
) -> dict[str, npt.NDArray[Any]]:
    """One entry a column of the table: a value for each class has a column of its own."""
    flat: dict[str, npt.NDArray[Any]] = {}
    for name, values in columns.items():
        if values.ndim == 2:
            labels = classes.tolist()
            flat |= {f"{name}:{label}": values[:, k] for k, label in enumerate(labels)}
        else:
            flat[name] = classes[values] if name == "label" else values
    return flat


def _blocks(n: int) -> Iterator[slice]:
    return (slice(start, start + _BLOCK_ROWS) for start in range(0, n, _BLOCK_ROWS))


def _write_csv(
    path: Path, classes: npt.NDArray[Any], columns: Mapping[str, npt.NDArray[Any]]
) -> None:
    flat = _flat(classes, columns)
    n = len(next(iter(flat.values())))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(flat)
        for block in _blocks(n):
            writer.writerows(
                zip(*(values[block].tolist() for values in flat.values()), strict=True)
            )


def _write_ndjson(
    path: Path, classes: npt.NDArray[Any], columns: Mapping[str, npt.NDArray[Any]]
) -> None:
    n = len(next(iter(columns.values())))
    with path.open("wb") as file:
        for block in _blocks(n):
            parts = [
                (classes[values[block]] if name == "label" else values[block]).tolist()
                for name, values in columns.items()
            ]
            for row in zip(*parts, strict=True):
                record = dict(zip(columns, row, strict=True))
                file.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))


def _write_parquet(
    path: Path, classes: npt.NDArray[Any], columns: Mapping[str, npt.NDArray[Any]]
) -> None:
    flat = {name: np.ascontiguousarray(v) for name, v in _flat(classes, columns).items()}
    table = {
        name: values.astype(object) if values.dtype.kind == "U" else values
        for name, values in flat.items()
    }
    path = path.resolve()
    with connect(path, memory="1GB") as connection:
        connection.register("predictions", table)
        connection.execute(
            "COPY predictions TO ? (FORMAT parquet, USE_TMP_FILE false)", [str(path)]
        )
