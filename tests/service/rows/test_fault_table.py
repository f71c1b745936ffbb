"""Errors in data, in every format, by every route that takes data.

The second row's column `b` is wrong each time: the reply names it, and what to do.
"""

from __future__ import annotations

import io
import json
from typing import Any

import httpx2
import numpy as np
import pytest
from starlette.testclient import TestClient

from service.rows.spec import CSV, JSON, LIBSVM, NDJSON, NPY, NPZ, PARQUET, TSV
from tests.service.models.registered_models import RegisteredModels, fitted_pipeline, registered
from tests.service.rows.arrays import npy, parquet

pytestmark = pytest.mark.one_application

__all__ = ["registered"]

KINDS = np.array(["x", "y", "x"], dtype=object)


def csv(cell: str, delimiter: str = ",", *, label: bool = True) -> bytes:
    rows = [["a", "b", "k"], ["1", "2", "x"], ["3", cell, "y"], ["5", "6", "x"]]
    lines = (delimiter.join(row if label else row[:2]) for row in rows)
    return "\n".join(lines).encode()


def rows(cell: str) -> str:
    return f"[[1, 2], [3, {cell}], [5, 6]]"


def upload_json(cell: str) -> bytes:
    text = '{"columns": ["a", "b"], "rows": %s, "labels": ["x", "y", "x"]}'
    return (text % rows(cell)).encode()


def predict_json(cell: str) -> bytes:
    return f'{{"instances": {rows(cell)}}}'.encode()


def ndjson(cell: str, *, label: bool = True) -> bytes:
    lines = [(1, "2", "x"), (3, cell, "y"), (5, "6", "x")]
    ends = [f', "k": "{k}"' if label else "" for *_, k in lines]
    texts = (f'{{"a": {a}, "b": {b}{end}}}\n' for (a, b, _), end in zip(lines, ends, strict=True))
    return "".join(texts).encode()


def libsvm(cell: str) -> bytes:
    return f"1 1:1 2:2\n2 1:3 2:{cell}\n1 1:5 2:6\n".encode()


def matrix(cell: float) -> Any:
    return np.array([[1.0, 2.0], [3.0, cell], [5.0, 6.0]])


def npz(cell: float) -> bytes:
    file = io.BytesIO()
    np.savez(file, X=matrix(cell), y=np.array(["x", "y", "x"]))
    return file.getvalue()


def columns(b: Any) -> bytes:
    return parquet({"a": np.array([1.0, 3, 5]), "b": b, "k": KINDS})


def infer(cell: str) -> bytes:
    tensor = f'"name": "x", "shape": [3, 2], "datatype": "FP64", "data": {rows(cell)}'
    return f'{{"inputs": [{{{tensor}}}]}}'.encode()


Case = tuple[str, bytes, str, str | int | None, str | None]
"""Media type, body, code, column and value of the first fault."""

NAN, MISSING, WORD, RAGGED = "non-finite-value", "missing-value", "not-a-number", "ragged-row"
NULL = np.ma.masked_array([2.0, 0.0, 6.0], [False, True, False])

UPLOADS: list[Case] = [
    (CSV, csv("inf"), NAN, "b", "inf"),
    (CSV, csv("1e999"), NAN, "b", "1e999"),
    (CSV, csv("1_0"), WORD, "b", "1_0"),
    (CSV, csv("1,2"), RAGGED, None, None),
    (CSV, csv("x" * 5000), "csv-cell-too-large", "b", "x" * 64),
    (TSV, csv("-inf", "\t"), NAN, "b", "-inf"),
    (TSV, csv("1_000", "\t"), WORD, "b", "1_000"),
    (TSV, csv("1\t2", "\t"), RAGGED, None, None),
    (JSON, upload_json("1e999"), NAN, "b", "1e999"),
    (JSON, upload_json('"1_0"'), WORD, "b", "1_0"),
    (JSON, upload_json('"inf"'), NAN, "b", "inf"),
    (JSON, upload_json("4, 4"), RAGGED, None, None),
    (NDJSON, ndjson("-1e999"), NAN, "b", "-1e999"),
    (NDJSON, ndjson('"1_0"'), WORD, "b", "1_0"),
    (LIBSVM, libsvm("nan"), NAN, 1, "nan"),
    (LIBSVM, libsvm("1e999"), NAN, 1, "1e999"),
    (LIBSVM, libsvm("oops"), WORD, 1, "oops"),
    (LIBSVM, libsvm("4 1:5"), "libsvm-index", None, "1:5"),
    (LIBSVM, libsvm("4 0:5"), "libsvm-index", None, "0:5"),
    (NPY, npy(np.column_stack((matrix(np.nan), [1, 2, 1]))), NAN, 1, "nan"),
    (NPZ, npz(np.inf), NAN, 1, "inf"),
    (PARQUET, columns(np.array([2.0, np.inf, 6.0])), NAN, "b", "inf"),
]
PREDICTIONS: list[Case] = [
    (CSV, csv("nan", label=False), NAN, "b", "nan"),
    (CSV, csv("", label=False), MISSING, "b", None),
    (CSV, csv("oops", label=False), WORD, "b", "oops"),
    (CSV, csv("1,2", label=False), RAGGED, None, None),
    (TSV, csv("1e999", "\t", label=False), NAN, "b", "1e999"),
    (TSV, csv("", "\t", label=False), MISSING, "b", None),
    (TSV, csv("oops", "\t", label=False), WORD, "b", "oops"),
    (TSV, csv("1\t2", "\t", label=False), RAGGED, None, None),
    (JSON, predict_json("1e999"), NAN, "b", "1e999"),
    (JSON, predict_json("null"), MISSING, "b", "null"),
    (JSON, predict_json('"oops"'), WORD, "b", "oops"),
    (JSON, predict_json('"-inf"'), NAN, "b", "-inf"),
    (JSON, predict_json("4, 4"), RAGGED, None, None),
    (NDJSON, ndjson("1e999", label=False), NAN, "b", "1e999"),
    (NDJSON, ndjson("null", label=False), MISSING, "b", "null"),
    (NDJSON, ndjson('"oops"', label=False), WORD, "b", "oops"),
    (NDJSON, b'{"a": 1, "b": 2}\n{"a": 3, "c": 4}\n', "feature-mismatch", "b", None),
    (LIBSVM, libsvm("nan"), NAN, 1, "nan"),
    (LIBSVM, libsvm("oops"), WORD, 1, "oops"),
    (LIBSVM, libsvm("4 1:5"), "libsvm-index", None, "1:5"),
    (NPY, npy(matrix(np.nan)), NAN, "b", "nan"),
]
INFERENCES: list[Case] = [
    (JSON, infer("1e999"), NAN, "b", "inf"),
    (JSON, infer("null"), MISSING, "b", "null"),
    (JSON, infer('"oops"'), WORD, "b", "oops"),
    (JSON, infer("true"), WORD, "b", "true"),
]


LONG = "é".encode() * 2049
"""More than 4,096 bytes, in fewer characters."""
NO_DATA: list[tuple[str, bytes, int, str]] = [
    (CSV, b"", 422, "empty-data"),
    (CSV, b"a,k\n", 422, "empty-data"),
    (CSV, b"k\nx\n", 422, "empty-data"),
    (JSON, b'{"rows": []}', 422, "empty-data"),
    (JSON, b'{"rows": [[]]}', 422, "empty-data"),
    (NDJSON, b"\n", 422, "empty-data"),
    (NDJSON, b"{}\n", 422, "empty-data"),
    (LIBSVM, b"", 422, "empty-data"),
    (NPY, npy(np.zeros((0, 3))), 422, "empty-data"),
    (NPY, npy(np.zeros((3, 0))), 422, "empty-data"),
    (PARQUET, parquet({"a": np.zeros(0), "k": np.zeros(0)}), 422, "empty-data"),
    (CSV, b"NA,NA,k\n1,2,x\n", 422, "bad-column-name"),
    (JSON, b'{"columns": ["a", "\\u0000"], "rows": [[1, 2]]}', 422, "bad-column-name"),
    (NDJSON, b'{"a": 1, "a": 2, "k": "x"}', 400, "malformed-json"),
    *((kind, b"a,b,k\n1,2,\x81\x8d\xf7\x9d\n", 400, "bad-encoding") for kind in (CSV, TSV)),
    *((kind, b"a,b,k\n1,2,\0\n", 400, "bad-encoding") for kind in (CSV, TSV)),
    (LIBSVM, b"1 1:\xff\n", 400, "bad-encoding"),
    (NDJSON, b'{"a": "\xff"}', 400, "bad-encoding"),
    (JSON, b'{"rows": [[1]], "labels": ["\xff"]}', 400, "bad-encoding"),
    (JSON, b'{"rows": [[1]], "labels": ["\0"]}', 400, "bad-encoding"),
    (JSON, b'{"rows": [[%s]], "labels": ["x"]}' % (b"1" * 5000), 422, "non-finite-value"),
    (JSON, b'{"rows": [[1e999, %s]]}' % (b"1" * 30), 422, "non-finite-value"),
    (CSV, b"a,b,k\n1,2,%s\n" % LONG, 422, "csv-cell-too-large"),
    (JSON, b'{"rows": [[1]], "labels": ["%s"]}' % LONG, 422, "csv-cell-too-large"),
    (NDJSON, b'{"a": 1, "k": "%s"}' % LONG, 422, "csv-cell-too-large"),
    (CSV, b"a,%s,k\n1,2,x\n" % LONG, 422, "csv-cell-too-large"),
    (JSON, b'{"columns": ["%s"], "rows": [[1]]}' % LONG, 422, "csv-cell-too-large"),
    (LIBSVM, b"1" + b"".join(b" %d:1" % i for i in range(1, 150_000)), 422, "csv-cell-too-large"),
    (NDJSON, b'{"a": nan, "k": 1}', 400, "malformed-json"),
    (JSON, b'{"rows": [[nan]]}', 400, "malformed-json"),
    (JSON, b'{"rows": [[1]]} x', 400, "malformed-json"),
    (JSON, b'{"rows": [["\\ud800"]], "labels": [1]}', 400, "malformed-json"),
    (JSON, b'{"rows": [[1]], "rows": [[1]]}', 400, "malformed-json"),
    (JSON, b'{"rows": 1}', 422, "invalid-field"),
    (JSON, b'{"rows": [[1]], "row": 1}', 422, "invalid-field"),
    (CSV, b'a,b,k\n1,2,"x\n3\n', 422, "csv-unterminated-quote"),
    (TSV, b'a\tb\tk\n1\t2\t"x\n3\n', 422, "csv-unterminated-quote"),
    (CSV, b"a,k\n" + b"1" * 2_000_000 + b",x\n", 422, "csv-cell-too-large"),
    (NPY, npy(np.array([[1j]])), 422, "npy-unsupported"),
    (NPY, npy(np.array([["a"]])), 422, "npy-unsupported"),
    (NPY, npy(np.array([[None]])), 422, "npy-unsupported"),
    (NPY, npy(np.zeros((2, 2)))[:-1], 422, "npy-corrupt"),
    (NPY, npy(np.zeros((2, 2))) + b"x", 422, "npy-corrupt"),
    (NPZ, b"PK\x03\x04", 422, "npz-unsafe"),
    (PARQUET, b"PAR1", 422, "columnar-unsupported"),
    (NPY, b"PK\x03\x04", 415, "format-mismatch"),
    (CSV, npy(np.zeros((2, 2))), 415, "format-mismatch"),
    (CSV, b'{"rows": [[1]]}', 415, "format-mismatch"),
    (PARQUET, b"a,b\n1,2\n", 415, "format-mismatch"),
    ("text/xml", b"<a/>", 415, "unsupported-format"),
]
"""Media type, body, status and code."""


def check(reply: httpx2.Response, case: Case) -> None:
    media_type, _, code, column, value = case
    assert reply.status_code == 422, reply.text
    body = reply.json()
    assert body["code"] == code, reply.text
    assert body["errors_total"] == len(body["errors"]) == 1, reply.text
    (error,) = body["errors"]
    found = error["code"], error["row"], error.get("column"), error.get("value")
    assert found == (code, 2, column, value), media_type
    assert error["message"]
    assert error["hint"], reply.text


def send(client: TestClient, path: str, case: Case) -> httpx2.Response:
    return client.post(path, content=case[1], headers={"Content-Type": case[0]})


def test_uploads(client: TestClient) -> None:
    """Nothing of them is stored."""
    for case in UPLOADS:
        check(send(client, "/v1/datasets", case), case)
    assert client.get("/v1/datasets").json()["datasets"] == []


def test_appended_rows(client: TestClient) -> None:
    """As in an upload: rows are counted from the first appended one."""
    headers = {"Content-Type": JSON}
    body = json.dumps({"columns": ["a", "b"], "rows": [[1, 2]], "labels": ["x"]})
    dense = client.post("/v1/datasets", content=body, headers=headers).headers["Location"]
    headers = {"Content-Type": LIBSVM}
    sparse = client.post("/v1/datasets", content=libsvm("4"), headers=headers).headers["Location"]
    for case in UPLOADS:
        path = sparse if case[0] == LIBSVM else dense
        check(send(client, f"{path}/append", case), case)
    assert len(client.get("/v1/datasets").json()["datasets"]) == 2


def test_predictions(client: TestClient, registered: RegisteredModels) -> None:
    """By every path of the model."""
    registered.add("iris", fitted_pipeline(n_features=2), ["a", "b"])
    for path in ("/v1/models/iris/predict", "/v1/models/iris/versions/1/predict"):
        for case in PREDICTIONS:
            check(send(client, path, case), case)


def test_inferences(client: TestClient, registered: RegisteredModels) -> None:
    """In the protocol's format, with the same members."""
    registered.add("iris", fitted_pipeline(n_features=2), ["a", "b"])
    for case in INFERENCES:
        reply = send(client, "/v2/models/iris/infer", case)
        check(reply, case)
        assert reply.json()["error"] == reply.json()["detail"]
    tail = matrix(np.nan).tobytes()
    head = b'{"inputs": [{"name": "x", "shape": [3, 2], "datatype": "FP64"}]}'
    headers = {"Inference-Header-Content-Length": str(len(head))}
    reply = client.post("/v2/models/iris/infer", content=head + tail, headers=headers)
    check(reply, (JSON, b"", NAN, "b", "nan"))


def test_files_that_hold_no_data(client: TestClient) -> None:
    """Without a location, since the whole body is wrong."""
    for media_type, content, status, code in NO_DATA:
        reply = client.post("/v1/datasets", content=content, headers={"Content-Type": media_type})
        assert (reply.status_code, reply.json()["code"]) == (status, code), reply.text
        for error in reply.json()["errors"]:
            assert error["message"]
            assert error.get("hint") or code == "malformed-json", reply.text
    assert client.get("/v1/datasets").json()["datasets"] == []
