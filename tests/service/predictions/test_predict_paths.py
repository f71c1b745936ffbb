"""One handler behind every predict_path: the same answers, problems, ids and metrics."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow
import pytest
from numpy.typing import NDArray

from service.rows.spec import ARROW
from service.settings import Limits
from svm.model.calibration import Calibration
from tests.service.models.registered_models import RegisteredModels, fitted_pipeline
from tests.service.predictions.predict_paths import PredictPath, predict_path
from tests.service.rows.arrays import arrow
from tests.service.rows.formats.test_npy import HUGE, lying, of_shape

__all__ = ["predict_path"]

pytestmark = pytest.mark.one_application(
    limits=Limits(predict_body_bytes=3_000_000, predict_rows=2000)
)

PATH = "/v1/models/iris/predict"
COLUMNS = ["age", "height", "weight"]
ROWS = np.array([[1.0, 2.0, 3.0], [-4.5, 0.0, 1e-3], [0.1, 1e20, -7.25e-300]])


def npy(X: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, X)
    return file.getvalue()


def libsvm(X: NDArray[np.float64], label: str) -> bytes:
    lines = (
        label + " ".join(f"{j + 1}:{value!r}" for j, value in enumerate(row) if value)
        for row in X.tolist()
    )
    return "\n".join(lines).encode()


def lines(X: NDArray[np.float64], mark: str) -> str:
    return "".join(mark.join(map(repr, row)) + "\n" for row in X.tolist())


def bodies(X: NDArray[np.float64]) -> dict[str, tuple[str, bytes]]:
    """The same rows in every format."""
    objects = [dict(zip(COLUMNS, row, strict=True)) for row in X.tolist()]
    turned = [dict(reversed(row.items())) for row in objects]
    ndjson = "\n".join(json.dumps(row) for row in X.tolist())
    mixed = json.dumps({"instances": [objects[0], *X[1:].tolist()]})
    table = pyarrow.table(dict(zip(COLUMNS, X.T, strict=True)))
    return {
        "JSON": ("application/json", json.dumps({"instances": X.tolist()}).encode()),
        "JSON spaced": (
            "application/json; charset=utf-8",
            json.dumps({"instances": X.tolist()}, indent=2).encode(),
        ),
        "JSON objects": ("application/json", json.dumps({"instances": turned}).encode()),
        "JSON mixed": ("application/json", mixed.encode()),
        "NDJSON": ("application/x-ndjson", ndjson.encode() + b"\n"),
        "NDJSON objects": (
            "application/x-ndjson",
            "\r\n\r\n".join(map(json.dumps, turned)).encode(),
        ),
        "CSV": ("text/csv", lines(X, ",").encode()),
        "CSV with a header": ("text/csv", ("age,height,weight\n" + lines(X, ",")).encode()),
        "CSV with a byte order mark": (
            "text/csv",
            b"\xef\xbb\xbf" + lines(X, ",").replace("\n", "\r\n").encode(),
        ),
        "CSV, columns turned": (
            "text/csv",
            ('weight,"height",age\n' + lines(X[:, ::-1], ",")).encode(),
        ),
        "CSV, quoted": ("text/csv", ('"' + lines(X, '","').replace("\n", '"\n"')[:-1]).encode()),
        "CSV by another name": ("application/csv; charset=shift_jis", lines(X, ",").encode()),
        "TSV": ("text/tab-separated-values", lines(X, "\t").encode()),
        "LIBSVM": ("text/x-libsvm", libsvm(X, "")),
        "LIBSVM with labels": ("text/x-libsvm", libsvm(X, "+1 ")),
        "Arrow": (ARROW, arrow(table)),
        "Arrow, turned": (ARROW, arrow(table.select(COLUMNS[::-1]), "zstd", rows=1)),
        "NPY": ("application/x-npy", npy(X)),
        "NPY Fortran": ("application/x-npy", npy(np.asfortranarray(X))),
        "NPY big-endian": ("application/x-npy", npy(X.astype(">f8"))),
    }


FORMATS = tuple(bodies(ROWS))

FLAGS = np.array([[1.0, 0.5, 0.0], [0.0, -2.0, 1.0]])
"""Rows whose first and last cell are truth values."""
WITH_BOOLEANS: dict[str, tuple[str, str]] = {
    "JSON": ("application/json", '{"instances": [[true, 0.5, false], [false, -2, true]]}'),
    "JSON objects": (
        "application/json",
        '{"instances": [{"age": true, "height": 0.5, "weight": false}, [0, -2, true]]}',
    ),
    "NDJSON": ("application/x-ndjson", "[true, 0.5, false]\n[false, -2, true]\n"),
    "CSV": ("text/csv", "True,0.5,False\nFALSE,-2,TRUE\n"),
    "CSV of JSON": ("text/csv", "true,0.5,false\nfalse,-2,true\n"),
    "CSV with a header": ("text/csv", "weight,age,height\nFalse,True,0.5\nTrue,False,-2\n"),
    "TSV": ("text/tab-separated-values", "True\t0.5\tFalse\nFalse\t-2\tTrue\n"),
}


def test_one_row_one_answer(predict_path: PredictPath, registered: RegisteredModels) -> None:
    """The same bits in every format: those of the model."""
    fitted = fitted_pipeline(("no", "yes"), scaled=True)
    version = registered.add("iris", fitted, columns=COLUMNS)
    expected = fitted.decision_function(ROWS)
    for name, (media_type, body) in bodies(ROWS).items():
        headers = {"Content-Type": media_type, "Accept": "application/x-npy"}
        if media_type == "application/json":
            body = body[:-1] + b', "outputs": ["decision"]}'
            path = PATH
        else:
            path = f"{PATH}?outputs=decision"
        reply = predict_path.post(path, content=body, headers=headers)
        assert reply.status_code == 200, (name, reply.text)
        assert np.load(io.BytesIO(reply.content)).tobytes() == expected.tobytes(), name
        assert reply.headers["X-Model-Version"] == "iris/1"
        reply = predict_path.post(PATH, content=body, headers={"Content-Type": media_type})
        if media_type != "application/json":
            assert reply.json() == {
                "model": {"name": "iris", "version": 1, "digest": version.digest},
                "classes": ["no", "yes"],
                "label": fitted.predict(ROWS).tolist(),
            }


def test_booleans_are_numbers(predict_path: PredictPath, registered: RegisteredModels) -> None:
    """1 and 0, to the bit, wherever a format has them; the first row is never a header."""
    fitted = fitted_pipeline(("no", "yes"), scaled=True)
    expected = fitted.decision_function(FLAGS).tolist()
    for columns in (COLUMNS, None):
        registered.add("iris", fitted, columns=columns)
        for name, (media_type, body) in WITH_BOOLEANS.items():
            if columns is None and ("objects" in name or "header" in name):
                continue
            headers = {"Content-Type": media_type}
            reply = predict_path.post(
                f"{PATH}?outputs=decision", content=body.encode(), headers=headers
            )
            assert reply.status_code == 200, (name, reply.text)
            assert reply.json()["decision"] == expected, name
    only = npy(np.array([[True, False, True]]))
    reply = predict_path.post(PATH, content=only, headers={"Content-Type": "application/x-npy"})
    assert reply.json()["label"] == fitted.predict([[1.0, 0.0, 1.0]]).tolist()
    body = "True,False,True\nFalse,False,True\n"  # nothing in it is a number
    reply = predict_path.post(PATH, content=body.encode(), headers={"Content-Type": "text/csv"})
    rows = [[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]]
    assert reply.json()["label"] == fitted.predict(rows).tolist()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_replies_in_every_format(
    predict_path: PredictPath, registered: RegisteredModels, n_classes: int
) -> None:
    """Labels and decision values, read back, are the model's."""
    classes = ("a", "b,c", 'd"e')[:n_classes]
    fitted = fitted_pipeline(classes)
    registered.add("iris", fitted)
    label, decision = fitted.predict(ROWS).tolist(), fitted.decision_function(ROWS)
    body = {"instances": ROWS.tolist(), "outputs": ["label", "decision", "label"]}

    def ask(accept: str, **more: Any) -> Any:
        reply = predict_path.post(PATH, json={**body, **more}, headers={"Accept": accept})
        assert reply.status_code == 200, reply.text
        assert reply.headers["Content-Type"].partition(";")[0] == accept
        return reply

    plain = ask("application/json").json()
    assert (plain["label"], plain["decision"]) == (label, decision.tolist())
    rows = [json.loads(line) for line in ask("application/x-ndjson").text.splitlines()]
    assert rows == [
        {"label": one, "decision": values}
        for one, values in zip(label, decision.tolist(), strict=True)
    ]
    import csv

    head, *records = csv.reader(io.StringIO(ask("text/csv").text))
    assert head == [
        "label",
        *(["decision"] if n_classes == 2 else [f"decision:{c}" for c in classes]),
    ]
    assert [record[0] for record in records] == label
    values = np.array([[float(cell) for cell in record[1:]] for record in records])
    assert values.tobytes() == decision.reshape(len(ROWS), -1).tobytes()
    table = pyarrow.ipc.open_stream(ask(ARROW).content).read_all().to_pydict()
    assert table.pop("label") == label
    assert list(table) == head[1:]
    assert np.array([*table.values()]).T.tobytes() == values.tobytes()
    array = np.load(io.BytesIO(ask("application/x-npy", outputs=["decision"]).content))
    assert array.tobytes() == decision.tobytes()
    array = np.load(io.BytesIO(ask("application/x-npy", outputs=["label"]).content))
    assert array.tolist() == label


BAD: dict[str, tuple[dict[str, str], bytes, int, str]] = {
    "no JSON": ({}, b"{", 400, "malformed-json"),
    "nothing": ({}, b"", 400, "malformed-json"),
    "a word in a row": ({}, b'{"instances": [[1, "x", 3]]}', 422, "not-a-number"),
    "a short row": ({}, b'{"instances": [[1, 2, 3], [1, 2]]}', 422, "ragged-row"),
    "a foreign name": ({}, b'{"instances": [{"a": 1}]}', 422, "feature-mismatch"),
    "overflow": ({}, b'{"instances": [[1e308, 1e308, 1e308]]}', 422, "non-finite-value"),
    "an unknown output": (
        {},
        b'{"instances": [[1, 2, 3]], "outputs": ["x"]}',
        422,
        "invalid-field",
    ),
    "CSV: a word": ({"Content-Type": "text/csv"}, b"1,2,3\n4,x,6\n", 422, "not-a-number"),
    "CSV: a gap": ({"Content-Type": "text/csv"}, b"1,2,3\n4,,6\n", 422, "missing-value"),
    "CSV: a short row": ({"Content-Type": "text/csv"}, b"1,2,3\n4,5\n", 422, "ragged-row"),
    "CSV: not finite": ({"Content-Type": "text/csv"}, b"1,2,3\n4,nan,6\n", 422, "non-finite-value"),
    "CSV: foreign names": (
        {"Content-Type": "text/csv"},
        b"age,b,c\n1,2,3\n",
        422,
        "feature-mismatch",
    ),
    "CSV: an open quote": (
        {"Content-Type": "text/csv"},
        b'1,2,3\n"4,5,6\n',
        422,
        "csv-unterminated-quote",
    ),
    "CSV: not UTF-8": ({"Content-Type": "text/csv"}, b"1,2,\xff\n", 400, "bad-encoding"),
    "CSV: nothing": ({"Content-Type": "text/csv"}, b"\n", 422, "empty-data"),
    "CSV: brackets": ({"Content-Type": "text/csv"}, b"1,2,3],[4,5,6\n", 422, "feature-mismatch"),
    "NDJSON: a word": (
        {"Content-Type": "application/x-ndjson"},
        b'[1, 2, 3]\n[1, "x", 3]',
        422,
        "not-a-number",
    ),
    "NDJSON: two a line": (
        {"Content-Type": "application/x-ndjson"},
        b"[1, 2, 3],[4, 5, 6]",
        400,
        "malformed-json",
    ),
    "LIBSVM: index": ({"Content-Type": "text/x-libsvm"}, b"1 1:2\n1 4:2\n", 422, "libsvm-index"),
    "NPY: three axes": (
        {"Content-Type": "application/x-npy"},
        npy(np.ones((1, 1, 3))),
        422,
        "npy-unsupported",
    ),
    "NPY: text": (
        {"Content-Type": "application/x-npy"},
        npy(np.array([["a"]])),
        422,
        "npy-unsupported",
    ),
    "NPY: cut": ({"Content-Type": "application/x-npy"}, npy(ROWS)[:-1], 422, "npy-corrupt"),
    "NPY: impossible shape": (
        {"Content-Type": "application/x-npy"},
        lying(of_shape(HUGE)),
        422,
        "npy-corrupt",
    ),
    "NPY: no NPY": ({"Content-Type": "application/x-npy"}, b"x", 415, "format-mismatch"),
    "NPY: too wide": (
        {"Content-Type": "application/x-npy"},
        npy(np.ones((2, 4))),
        422,
        "feature-mismatch",
    ),
    "NPY: not finite": (
        {"Content-Type": "application/x-npy"},
        npy(np.full((2, 3), np.nan)),
        422,
        "non-finite-value",
    ),
    "an unknown format": ({"Content-Type": "text/plain"}, b"1,2,3", 415, "unsupported-format"),
    "a form": (
        {"Content-Type": "application/x-www-form-urlencoded"},
        b"1",
        415,
        "unsupported-format",
    ),
    "an unknown coding": ({"Content-Encoding": "br"}, b"1", 415, "unsupported-format"),
    "no gzip": (
        {"Content-Encoding": "gzip"},
        b'{"instances": [[1, 2, 3]]}',
        415,
        "format-mismatch",
    ),
    "a bomb": (
        {"Content-Encoding": "gzip"},
        gzip.compress(b" " * 2_900_000, mtime=0),
        413,
        "decompression-limit",
    ),
    "an impossible reply": (
        {"Accept": "image/png"},
        b'{"instances": [[1, 2, 3]]}',
        406,
        "not-acceptable",
    ),
    "Arrow: cut": ({"Content-Type": ARROW}, b"\xff" * 40, 422, "columnar-unsupported"),
    "Arrow: no Arrow": ({"Content-Type": ARROW}, b"1,2,3\n", 415, "format-mismatch"),
    "explanations in Arrow": (
        {"Accept": ARROW},
        b'{"instances": [[1, 2, 3]], "outputs": ["explanation"]}',
        400,
        "invalid-parameter",
    ),
    "two outputs in NPY": (
        {"Accept": "application/x-npy"},
        b'{"instances": [[1, 2, 3]], "outputs": ["label", "decision"]}',
        400,
        "invalid-parameter",
    ),
    "too many rows": (
        {},
        json.dumps({"instances": [[1, 2, 3]] * 2001}).encode(),
        413,
        "too-many-rows",
    ),
    "too long": ({}, b" " * 3_000_001, 413, "body-too-large"),
}


def test_bad_requests_are_problems(predict_path: PredictPath, registered: RegisteredModels) -> None:
    """With a status, a code, and the place; and the next request on the connection is answered."""
    steep = fitted_pipeline(scaled=True)
    registered.add("iris", steep, columns=COLUMNS)
    good = predict_path.post(PATH, json={"instances": ROWS.tolist()}).json()
    for name, (headers, body, status, code) in BAD.items():
        for _ in range(2):  # the second head is one seen before
            reply = predict_path.post(PATH, content=body, headers=headers)
            assert (reply.status_code, reply.json()["code"]) == (status, code), (name, reply.text)
            assert reply.headers["Content-Type"] == "application/problem+json"
            problem = reply.json()
            assert problem["instance"] == PATH
            assert problem["request_id"] == reply.headers["X-Request-Id"]
            assert len(problem["errors"]) == min(100, problem["errors_total"])
        assert predict_path.post(PATH, json={"instances": ROWS.tolist()}).json() == good, name


def test_problems_say_what_was_sent_and_what_to_send(
    predict_path: PredictPath, registered: RegisteredModels
) -> None:
    """What curl and requests send without being asked."""
    registered.add("iris", fitted_pipeline())
    body, form = b'{"instances": [[1, 2, 3]]}', "application/x-www-form-urlencoded"
    for query, headers, status, said in (
        ("", {"Content-Type": form}, 415, (form, "-H 'Content-Type: application/json'")),
        ("", {"Content-Type": "text/none"}, 415, ("text/none", "text/csv")),
        ("?outputs=label&outputs=decision", {}, 400, ("twice", "separated by commas")),
        ("?outputs=label,decison", {}, 400, ("not 'decison'", "decision")),
    ):
        reply = predict_path.post(f"{PATH}{query}", content=body, headers=headers)
        assert reply.status_code == status, reply.text
        for part in said:
            assert part in reply.json()["detail"]


@pytest.mark.parametrize("coding", ["gzip", "deflate", "raw deflate"])
def test_compressed_bodies(
    predict_path: PredictPath, registered: RegisteredModels, coding: str
) -> None:
    """As RFC 9110 has them, and `deflate` as some send it."""
    fitted = fitted_pipeline()
    registered.add("iris", fitted)
    plain = json.dumps({"instances": ROWS.tolist()}).encode()
    raw = zlib.compressobj(wbits=-15)
    body = {
        "gzip": gzip.compress(plain),
        "deflate": zlib.compress(plain),
        "raw deflate": raw.compress(plain) + raw.flush(),
    }[coding]
    headers = {"Content-Encoding": coding.split()[-1], "Content-Type": "application/json"}
    reply = predict_path.post(PATH, content=body, headers=headers)
    assert reply.json()["label"] == fitted.predict(ROWS).tolist()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities(
    predict_path: PredictPath, registered: RegisteredModels, n_classes: int
) -> None:
    """Of a calibrated model, in every format; of another one they are refused."""
    fitted = fitted_pipeline(("a", "b", "c")[:n_classes])
    registered.add("iris", fitted)
    body = {"instances": ROWS.tolist(), "outputs": ["probability"]}
    reply = predict_path.post(PATH, json=body)
    assert (reply.status_code, reply.json()["code"]) == (422, "not-calibrated")
    X = np.random.default_rng(0).normal(size=(60, 3))
    fitted = fitted.calibrated("sigmoid", fitted.problem_scores(X), np.arange(60) % n_classes)
    registered.add("iris", fitted)
    expected = fitted.probabilities_from_scores(fitted.problem_scores(ROWS))
    assert predict_path.post(PATH, json=body).json()["probability"] == expected.tolist()
    reply = predict_path.post(PATH, json=body, headers={"Accept": "text/csv"})
    assert reply.text.splitlines()[0] == ",".join(f"probability:{c}" for c in "abc"[:n_classes])
    tensor = {"name": "x", "shape": [3, 3], "datatype": "FP64", "data": ROWS.tolist()}
    outputs = predict_path.post("/v2/models/iris/infer", json={"inputs": [tensor]}).json()[
        "outputs"
    ]
    assert outputs[2]["name"] == "probability"
    assert outputs[2]["data"] == expected.ravel().tolist()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_labels_that_are_not_the_likeliest_class_are_named(
    predict_path: PredictPath, registered: RegisteredModels, n_classes: int
) -> None:
    """In the reply, or a header or parameter of formats without room for it; only with
    `probability`, and only if there are any."""
    fitted = fitted_pipeline(("a", "b", "c")[:n_classes])
    knots = np.tile([-1.0, 5.0], (len(fitted.intercepts), 1))  # favors the first class of a pair
    fitted = replace(fitted, calibration=Calibration("sigmoid", knots))
    registered.add("iris", fitted)
    X = np.random.default_rng(0).normal(size=(150, 3))
    likeliest = fitted.probabilities_from_scores(fitted.problem_scores(X)).argmax(axis=1)
    labels = fitted.predict(X)
    rows = (np.flatnonzero(fitted.classes[likeliest] != labels) + 1).tolist()
    assert 10 < len(rows) < 150
    body: dict[str, Any] = {"instances": X.tolist(), "outputs": ["label", "probability"]}
    [warning] = predict_path.post(PATH, json=body).json()["warnings"]
    assert (warning["code"], warning["rows_total"]) == ("unlikely-label", len(rows))
    assert warning["rows"] == rows[:100]
    assert f"in {len(rows)} of the rows the label is not the class" in warning["message"]
    for accept in ("text/csv", "application/x-ndjson"):
        reply = predict_path.post(PATH, json=body, headers={"Accept": accept})
        assert reply.headers["X-Unlikely-Labels"] == ",".join(map(str, rows[:10]))
    tensor = {"name": "x", "shape": X.shape, "datatype": "FP64", "data": X.tolist()}
    reply = predict_path.post("/v2/models/iris/infer", json={"inputs": [tensor]})
    assert reply.json()["parameters"] == {"unlikely_labels": len(rows)}
    alone = predict_path.post(PATH, json=body | {"instances": [X[rows[0] - 1].tolist()]}).json()
    assert alone["warnings"][0]["rows"] == [1]
    likely = [row.tolist() for k, row in enumerate(X) if k + 1 not in rows]
    assert "warnings" not in predict_path.post(PATH, json=body | {"instances": likely}).json()
    assert "warnings" not in predict_path.post(PATH, json=body | {"outputs": ["label"]}).json()


def counts(predict_path: PredictPath) -> dict[str, float]:
    """What `/metrics` says."""
    lines = [line.rpartition(" ") for line in predict_path.get("/metrics").text.splitlines()]
    return {name: float(value) for name, _, value in lines if not name.startswith("#")}


def test_every_reply_has_an_id_and_is_counted(
    predict_path: PredictPath, registered: RegisteredModels
) -> None:
    """By route, not by path; the id is the caller's where there is one."""
    registered.add("iris")
    body = {"instances": ROWS.tolist()}
    before = counts(predict_path)
    ids = [predict_path.post(PATH, json=body).headers["X-Request-Id"] for _ in range(4)]
    assert len(set(ids)) == 4
    given = predict_path.post(PATH, json=body, headers={"X-Request-Id": "my-id.1"})
    assert given.headers["X-Request-Id"] == "my-id.1"
    assert given.headers["X-Content-Type-Options"] == "nosniff"
    assert (
        predict_path.post("/v1/models/iris/versions/1/predict", json={"instances": 1}).status_code
        == 422
    )
    after = counts(predict_path)
    route = 'method="POST",route="/v1/models/{name}/predict"'
    version = 'method="POST",route="/v1/models/{name}/versions/{version}/predict"'
    for name, count in {
        f'svm_http_requests_total{{{route},status="200"}}': 5.0,
        f"svm_http_request_seconds_count{{{route}}}": 5.0,
        f'svm_http_requests_total{{{version},status="422"}}': 1.0,
    }.items():
        assert after[name] - before.get(name, 0.0) == count


def test_large_bodies(predict_path: PredictPath, registered: RegisteredModels) -> None:
    """Beyond what one piece, one read or the event loop takes; and their faults are named."""
    fitted = fitted_pipeline(("a", "b", "c"), n_features=64)
    registered.add("iris", fitted)
    X = np.random.default_rng(0).normal(size=(1500, 64))
    expected = fitted.decision_function(X)
    for media_type, body in (
        ("application/json", json.dumps({"instances": X.tolist()}).encode()),
        ("text/csv", lines(X, ",").encode()),
        ("application/x-npy", npy(X)),
    ):
        headers = {"Content-Type": media_type}
        assert len(body) > 512 * 1024
        reply = predict_path.post(f"{PATH}?outputs=decision", content=body, headers=headers)
        assert np.array(reply.json()["decision"]).tobytes() == expected.tobytes()
        for _ in range(2):
            reply = predict_path.post(PATH, content=body, headers=headers)
            assert reply.json()["label"] == fitted.predict(X).tolist()
    rows = [*X.tolist(), [None] * 64]
    reply = predict_path.post(PATH, json={"instances": rows})
    assert (reply.status_code, reply.json()["errors"][0]["row"]) == (422, 1501)


def test_unknown_models_and_paths(predict_path: PredictPath, registered: RegisteredModels) -> None:
    """404 with what is missing, 400 for names that are none, 405 for other methods."""
    registered.add("iris")
    body = {"instances": ROWS.tolist()}
    for path, status in {
        "/v1/models/none/predict": 404,
        "/v1/models/iris/versions/2/predict": 404,
        "/v1/models/iris/versions/99999999999/predict": 400,
        "/v1/models/iris/versions/0/predict": 400,
        "/v1/models/iris/aliases/none/predict": 404,
        "/v1/models/Iris/predict": 400,
        "/v1/models/iris/predict/": 404,
        "/v1/models/iris/predict?unknown=1": 400,
        "/v1/models/iris/predict?outputs=unknown": 400,
    }.items():
        reply = predict_path.post(path, json=body)
        assert reply.status_code == status, (path, reply.text)
        assert reply.headers["Content-Type"] == "application/problem+json"
    assert predict_path.get(PATH).status_code == 405
    assert predict_path.put(PATH, json=body).status_code == 405
