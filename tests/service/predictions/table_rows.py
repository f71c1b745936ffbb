"""Rows of a table with categories, dates and gaps, written in every format."""

from __future__ import annotations

import csv
import io
import json
import random
from datetime import UTC, datetime, timedelta
from functools import cache
from math import isnan, nan
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from svm.data.columns import UNKNOWN, Column, Columns
from svm.encoding.encoder import Encoding
from svm.model.pipeline import FittedPipeline, Pipeline
from svm.solvers import Newton
from svm.training.training import Training
from svm.transforms.features import AnyFeatures, Identity

Cell: TypeAlias = str | float | bool | None
Values: TypeAlias = npt.NDArray[np.float64]
Spelling: TypeAlias = Literal["text", "value"]

TABLE: Columns = (
    Column("age", "number"),
    Column("sex", "category", ("female", "male")),
    Column("class: é", "category", ("1", "2", "3")),
    Column("alive", "boolean"),
    Column("size", "category", ("1.0", "2.5", "10.0")),
    Column("born", "date"),
    Column("port", "category", ("NA", 'a, "b"', "false", "true", "ü: x\\y")),
    Column("fare", "number"),
)
NAMES = [column.name for column in TABLE]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def raw_rows(n: int, seed: int = 0, *, unknown: float = 0.1, missing: float = 0.15) -> Values:
    """(n, columns) raw values; `unknown` and `missing` are shares of the cells."""
    draw = np.random.default_rng(seed)
    X = np.empty((n, len(TABLE)))
    for j, column in enumerate(TABLE):
        match column.kind:
            case "number":
                X[:, j] = draw.normal(size=n) * 10.0 ** draw.integers(-3, 4, size=n)
                X[draw.random(n) < 0.2, j] = -7.0
            case "boolean":
                X[:, j] = draw.integers(2, size=n)
            case "date":
                minutes = draw.integers(-60_000_000, 60_000_000, size=n)
                X[:, j] = np.where(draw.random(n) < 0.5, minutes // 1440, minutes / 1440)
            case "category":
                X[:, j] = draw.integers(len(column.levels), size=n)
                X[draw.random(n) < unknown, j] = UNKNOWN
        X[draw.random(n) < missing, j] = nan
    return X


@cache
def fitted_table(
    encoding: Encoding | None = None, seed: int = 0, features: AnyFeatures | None = None
) -> FittedPipeline:
    """A model of two classes that was trained on such rows. Its `alive` and `sex` had no gaps."""
    X = raw_rows(200, seed, unknown=0.0)
    if encoding is not None and encoding.missing == "refuse":
        X = raw_rows(200, seed, unknown=0.0, missing=0.0)
    for name in ("alive", "sex"):
        j = NAMES.index(name)
        X[np.isnan(X[:, j]), j] = 0.0
    y = np.where(np.nan_to_num(X[:, 0]) + 3 * (X[:, 1] == 0) > 1, "yes", "no")
    pipeline = Pipeline(
        solver=Newton(C=1.0),
        scaling="standardize",
        encoding=encoding or Encoding(),
        features=features or Identity(),
    )
    training = Training(pipeline, X, y, seed=0, columns=TABLE)
    for _ in training:
        pass
    return training.result().fitted


def written(X: Values, spelling: Spelling, seed: int | None = None) -> list[list[Cell]]:
    """The rows' cells as texts of a CSV file, or as values of JSON; in one of several ways each,
    if there is a seed."""
    draw = random.Random(seed) if seed is not None else None
    return [
        [_cell(value, column, spelling, draw) for value, column in zip(row, TABLE, strict=True)]
        for row in X.tolist()
    ]


def _cell(value: float, column: Column, spelling: Spelling, draw: random.Random | None) -> Cell:
    ways = _ways(value, column, spelling)
    cell = ways[0] if draw is None else draw.choice(ways)
    if draw is not None and isinstance(cell, str) and cell and draw.random() < 0.2:
        return f" {cell}\t"
    return cell


def _ways(value: float, column: Column, spelling: Spelling) -> list[Cell]:
    if isnan(value):
        missing: list[Cell] = ["", "NA"] if spelling == "text" else [None]
        return missing[:1] if "NA" in column.levels else missing
    match column.kind:
        case "number":
            if spelling == "text":
                return [repr(value), f"{value:.17e}"]
            return [value, int(value)] if value.is_integer() else [value]
        case "boolean":
            texts: list[Cell] = ["true", "True", "1", "1.0"] if value else ["false", "FALSE", "0"]
            values: list[Cell] = [True, 1, 1.0] if value else [False, 0, 0.0]
            return texts if spelling == "text" else values
        case "date":
            time = EPOCH + timedelta(minutes=round(value * 1440))
            plain = time.strftime("%Y-%m-%d %H:%M:%S").zfill(19)
            ways: list[Cell] = [plain, f"{plain}.000Z".replace(" ", "T"), f"{plain[:16]}+00:00"]
            return [plain[:10], *ways] if value.is_integer() else ways
        case _:
            if value == UNKNOWN:
                return ["other"]
            level = column.levels[int(value)]
            others: list[Cell] = []
            if spelling == "value" and level in ("true", "false"):
                others = [level == "true"]
            elif column.name in ("class: é", "size"):
                others = [float(level)] if spelling == "value" else [f"{float(level):.2f}"]
            return [level, *others]


def objects(X: Values, seed: int | None = None) -> list[dict[str, Cell]]:
    return [dict(zip(NAMES, row, strict=True)) for row in written(X, "value", seed)]


def csv_of(rows: list[list[Cell]], names: list[str] | None = NAMES, delimiter: str = ",") -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    if names is not None:
        writer.writerow(names)
    writer.writerows(rows)
    return text.getvalue().encode()


def bodies(X: Values, seed: int | None = None) -> dict[str, tuple[str, bytes]]:
    """The same rows in every format: by name the media type and the body."""
    lists, named, texts = written(X, "value", seed), objects(X, seed), written(X, "text", seed)
    turned = [dict(reversed(row.items())) for row in named]
    extra: list[dict[str, Any]] = [
        {"id": f"a:{i}", **row, "label": "yes"} for i, row in enumerate(turned)
    ]
    order = [5, 2, 0, 7, 1, 3, 6, 4]
    shuffled = [[row[i] for i in order] for row in texts]
    return {
        "JSON lists": ("application/json", json.dumps({"instances": lists}).encode()),
        "JSON objects": ("application/json", json.dumps({"instances": turned}).encode()),
        "JSON in UTF-8": (
            "application/json",
            json.dumps({"instances": named}, ensure_ascii=False).encode(),
        ),
        "JSON mixed": (
            "application/json",
            json.dumps({"instances": [named[0], *lists[1:]]}).encode(),
        ),
        "JSON with more": ("application/json", json.dumps({"instances": extra}).encode()),
        "NDJSON lists": ("application/x-ndjson", "\n".join(map(json.dumps, lists)).encode()),
        "NDJSON": ("application/x-ndjson", "\n".join(map(json.dumps, turned)).encode()),
        "CSV": ("text/csv", csv_of(texts)),
        "CSV without a header": ("text/csv", csv_of(texts, None)),
        "CSV, columns turned": ("text/csv", csv_of(shuffled, [NAMES[i] for i in order])),
        "CSV with more": (
            "text/csv",
            csv_of([["x", *row, "yes"] for row in texts], ["id", *NAMES, "label"]),
        ),
        "TSV": ("text/tab-separated-values", csv_of(texts, delimiter="\t")),
    }
