"""Replies say which cells were unknown or missing to the model."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import numpy as np
import pytest

from svm.data.columns import Column
from svm.model.pipeline import Pipeline
from svm.solvers import Newton
from svm.training.training import Training
from tests.service.models.registered_models import RegisteredModels, fitted_pipeline, registered
from tests.service.predictions.predict_paths import PredictPath, predict_path
from tests.service.predictions.table_rows import NAMES, fitted_table, raw_rows, written

__all__ = ["predict_path", "registered"]

pytestmark = pytest.mark.one_application

PATH = "/v1/models/passengers/predict"
FITTED = fitted_table()
CSV = {"Content-Type": "text/csv"}


def known_rows(n: int) -> list[dict[str, Any]]:
    X = raw_rows(n, 1, unknown=0.0, missing=0.0)
    return [dict(zip(NAMES, row, strict=True)) for row in written(X, "value")]


def with_unknown() -> list[dict[str, Any]]:
    """30 rows; two have cells that no training row had, or that are missing."""
    rows = known_rows(30)
    rows[3] |= {"sex": "Person, " + 70 * "x", "age": None}
    rows[29] |= {"port": 7, "born": ""}
    return rows


WANTED = [
    {"row": 4, "column": "age", "value": None},
    {"row": 4, "column": "sex", "value": ("Person, " + 70 * "x")[:64]},
    {"row": 30, "column": "born", "value": ""},
    {"row": 30, "column": "port", "value": "7"},
]


def lists_of(rows: list[dict[str, Any]]) -> list[list[Any]]:
    return [list(row.values()) for row in rows]


def csv_of(rows: list[list[Any]], delimiter: str = ",") -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def bodies(rows: list[dict[str, Any]]) -> dict[str, tuple[str, bytes]]:
    """The same rows in every format, some of them with other columns or another order."""
    cells = lists_of(rows)
    more = [{"note": "a: b", **dict(reversed(row.items()))} for row in rows]
    return {
        "lists": ("application/json", json.dumps({"instances": cells}).encode()),
        "objects": ("application/json", json.dumps({"instances": rows}).encode()),
        "others": ("application/json", json.dumps({"instances": more}).encode()),
        "records": ("application/json", json.dumps(rows).encode()),
        "split": ("application/json", json.dumps({"columns": NAMES, "rows": cells}).encode()),
        "NDJSON": ("application/x-ndjson", "\n".join(map(json.dumps, more)).encode()),
        "CSV": ("text/csv", csv_of([NAMES, *cells])),
        "CSV without names": ("text/csv", csv_of(cells)),
        "CSV, reversed": ("text/csv", csv_of([row[::-1] for row in [NAMES, *cells]])),
        "TSV": ("text/tab-separated-values", csv_of([NAMES, *cells], "\t")),
    }


def test_unknown_cells_are_named(predict_path: PredictPath, registered: RegisteredModels) -> None:
    """With row, column and text, in every format; replies without room for them have a header."""
    registered.add("passengers", FITTED, columns=NAMES)
    for name, (media_type, body) in bodies(with_unknown()).items():
        headers = {"Content-Type": media_type}
        reply = predict_path.post(PATH, content=body, headers=headers)
        assert reply.status_code == 200, (name, reply.text)
        wanted = WANTED
        if "SV" in name:  # an empty cell is null
            wanted = [{**one, "value": one["value"] or ""} for one in WANTED]
        assert reply.json()["unknown"] == {"count": 4, "cells": wanted}, name
        for accept in ("text/csv", "application/x-ndjson", "application/x-npy"):
            reply = predict_path.post(PATH, content=body, headers={**headers, "Accept": accept})
            assert reply.headers["X-Unknown-Cells"] == "4;4:age,4:sex,30:born,30:port", name
    for name, (media_type, body) in bodies(known_rows(30)).items():
        reply = predict_path.post(PATH, content=body, headers={"Content-Type": media_type})
        assert (reply.status_code, "unknown" in reply.json()) == (200, False), name
        headers = {"Content-Type": media_type, "Accept": "text/csv"}
        reply = predict_path.post(PATH, content=body, headers=headers)
        assert "X-Unknown-Cells" not in reply.headers, name


def test_of_many_the_first_twenty_are_shown(
    predict_path: PredictPath, registered: RegisteredModels
) -> None:
    """All are counted, in bodies of any size."""
    registered.add("passengers", FITTED, columns=NAMES)
    rows = known_rows(1) * 3_000
    rows[2_000:] = [{**row, "sex": f"new {i}"} for i, row in enumerate(rows[2_000:])]
    for name, (media_type, body) in bodies(rows).items():
        headers = {"Content-Type": media_type}
        unknown = predict_path.post(PATH, content=body, headers=headers).json()["unknown"]
        assert unknown["count"] == 1_000, name
        shown = [(one["row"], one["value"]) for one in unknown["cells"]]
        assert shown == [(2_001 + i, f"new {i}") for i in range(20)], name


def test_missing_cells_of_numbers_are_named(
    predict_path: PredictPath, registered: RegisteredModels
) -> None:
    """Also in tensors; models of finite numbers refuse such cells."""
    X = np.random.default_rng(0).normal(size=(40, 3))
    X[:8, 0] = np.nan
    columns = tuple(Column(name) for name in "abc")
    pipeline = Pipeline(solver=Newton(C=1.0), scaling="standardize")
    training = Training(pipeline, X, np.where(X[:, 1] > 0, "p", "q"), seed=0, columns=columns)
    for _ in training:
        pass
    registered.add("gaps", training.result().fitted, columns=list("abc"))
    path = "/v1/models/gaps/predict"
    wanted = {"count": 1, "cells": [{"row": 2, "column": "b", "value": None}]}
    reply = predict_path.post(path, json={"instances": [[1, 2, 3], [4, None, 5]]})
    assert reply.json()["unknown"] == wanted
    file = io.BytesIO()
    np.save(file, np.array([[1.0, 2, 3], [4, np.nan, 5]]))
    headers = {"Content-Type": "application/x-npy"}
    reply = predict_path.post(path, content=file.getvalue(), headers=headers)
    assert reply.json()["unknown"] == wanted
    values = np.array([[1.0, 2, 3], [4, np.nan, 5]])
    tensor: dict[str, Any] = {"name": "x", "shape": [2, 3], "datatype": "FP64"}
    tensor["parameters"] = {"binary_data_size": values.nbytes}
    head = json.dumps({"inputs": [tensor], "outputs": [{"name": "label"}]}).encode()
    reply = predict_path.post(
        "/v2/models/gaps/infer",
        content=head + values.tobytes(),
        headers={"Inference-Header-Content-Length": str(len(head))},
    )
    assert reply.json()["parameters"] == {"unknown": wanted}
    registered.add("plain", fitted_pipeline())
    reply = predict_path.post("/v1/models/plain/predict", json={"instances": [[1, 2, 3]]})
    assert (reply.status_code, "unknown" in reply.json()) == (200, False)
