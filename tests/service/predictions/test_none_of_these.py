"""`label_or_none`: in every form of a reply."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from svm.data.matrices import Vector
from svm.model.pipeline import FittedPipeline
from tests.service.models.registered_models import RegisteredModels, fitted_pipeline

pytestmark = pytest.mark.one_application

CLASSES: dict[str, list[Any]] = {
    "texts": ["ham", "spam", "über"],
    "whole": [3, 5, 8],
    "two": [False, True],
}


def rows(n: int, seed: int = 0) -> Vector:
    return np.random.default_rng(seed).normal(size=(n, 3))


def add(registered: RegisteredModels, classes: list[Any], n: int = 99) -> FittedPipeline:
    """A model `mail` that knows how certain it is of n rows."""
    fitted = fitted_pipeline(classes)
    if n:
        scores = fitted.problem_scores(rows(n, seed=1))
        fitted = fitted.with_rejection(fitted.codes_and_certainty(scores)[1])
    registered.add("mail", fitted)
    return fitted


def ask(client: TestClient, accept: str = "application/json", **fields: Any) -> Any:
    query: dict[str, Any] = {
        name: fields.pop(name) for name in ("outputs", "withheld") if name in fields
    }
    body = {"instances": rows(30).tolist(), **fields}
    headers = {"Accept": accept}
    return client.post("/v1/models/mail/predict", json=body, params=query, headers=headers)


@pytest.mark.parametrize("kind", CLASSES)
def test_replies_are_the_models(
    client: TestClient, registered: RegisteredModels, kind: str
) -> None:
    """Null in JSON and NDJSON, an empty cell in CSV, an empty text in NPY and tensors, where labels
    are texts, too; the same rows in each."""
    fitted = add(registered, CLASSES[kind])
    expected = fitted.labels_or_none(rows(30), 0.2).tolist()
    assert 0 < expected.count(None) < 30
    texts = ["" if one is None else str(one) for one in expected]
    if kind == "two":
        texts = [one.lower() for one in texts]
    reply = ask(client, outputs="label,label_or_none", withheld=0.2).json()
    assert (reply["label_or_none"], reply["withheld"]) == (expected, 0.2)
    assert reply["label"] == fitted.predict(rows(30)).tolist()
    asked: dict[str, Any] = {"outputs": "label_or_none", "withheld": 0.2}
    head, *cells = csv.reader(io.StringIO(ask(client, "text/csv", **asked).text))
    assert (head, [cell for [cell] in cells]) == (
        ["label_or_none"],
        ["" if one is None else str(one) for one in expected],
    )
    lines = ask(client, "application/x-ndjson", **asked).content.splitlines()
    assert [json.loads(line)["label_or_none"] for line in lines] == expected
    assert np.load(io.BytesIO(ask(client, "application/x-npy", **asked).content)).tolist() == texts
    [tensor], parameters, _ = infer(client, parameters={"withheld": 0.2})
    assert (tensor["datatype"], tensor["shape"], tensor["data"]) == ("BYTES", [30], texts)
    assert parameters == {"withheld": 0.2}
    [tensor], _, rest = infer(client, parameters={"withheld": 0.2, "binary_data": True})
    assert tensor["parameters"] == {"binary_data_size": len(rest)}
    assert rest == b"".join(len(one.encode()).to_bytes(4, "little") + one.encode() for one in texts)


def infer(client: TestClient, **output: Any) -> tuple[Any, Any, bytes]:
    """The tensors, the parameters and what is behind the JSON part."""
    tensor = {"name": "x", "shape": [30, 3], "datatype": "FP64", "data": rows(30).tolist()}
    body = {"inputs": [tensor], "outputs": [{"name": "label_or_none", **output}]}
    reply = client.post("/v2/models/mail/infer", json=body)
    assert reply.status_code == 200, reply.text
    end = int(reply.headers.get("Inference-Header-Content-Length", len(reply.content)))
    document = json.loads(reply.content[:end])
    return document["outputs"], document["parameters"], reply.content[end:]


def test_share_is_that_of_query_body_or_five_percent(
    client: TestClient, registered: RegisteredModels
) -> None:
    """That of the query counts before that of the body; a row alone has the answer that it has
    among others."""
    fitted = add(registered, CLASSES["texts"])
    for fields, share in (
        ({"outputs": ["label_or_none"]}, 0.05),
        ({"outputs": ["label_or_none"], "withheld": 0.4}, 0.4),
    ):
        body = {"instances": rows(30).tolist(), **fields}
        reply = client.post("/v1/models/mail/predict", json=body).json()
        expected = fitted.labels_or_none(rows(30), share).tolist()
        assert (reply["withheld"], reply["label_or_none"]) == (share, expected)
        by_query = client.post("/v1/models/mail/predict", json=body, params={"withheld": 0.6})
        assert by_query.json()["withheld"] == 0.6
    for row, label in zip(rows(30).tolist(), expected, strict=True):
        body = {"instances": [row], "outputs": ["label_or_none"], "withheld": 0.4}
        alone = client.post("/v1/models/mail/predict", json=body).json()
        assert alone["label_or_none"] == [label]


@pytest.mark.parametrize(
    ("fields", "pointer", "words"),
    [
        ({"withheld": 0.001}, "/withheld", "needs 999 rows or more"),
        ({"withheld": 0.0}, "/withheld", "between 0 and 1"),
        ({"withheld": "few"}, "/withheld", "between 0 and 1"),
    ],
)
def test_shares_that_are_not_possible_are_refused(
    client: TestClient,
    registered: RegisteredModels,
    fields: dict[str, Any],
    pointer: str,
    words: str,
) -> None:
    add(registered, CLASSES["texts"])
    body = {"instances": [[0.0] * 3], "outputs": ["label_or_none"], **fields}
    reply = client.post("/v1/models/mail/predict", json=body)
    assert (reply.status_code, reply.json()["code"]) == (422, "invalid-field")
    [error] = reply.json()["errors"]
    assert error["pointer"] == pointer
    assert words in error["message"]


def test_models_that_cannot_say_why(client: TestClient, registered: RegisteredModels) -> None:
    """And it is answered only if it is named, and offered only by those that can."""
    add(registered, CLASSES["two"])
    shown = {one["name"]: one for one in client.get("/v2/models/mail").json()["outputs"]}
    assert shown["label_or_none"] == {
        "name": "label_or_none",
        "datatype": "BYTES",
        "shape": [-1],
    }
    tensor = {"name": "x", "shape": [1, 3], "datatype": "FP64", "data": [[0.0] * 3]}
    every = client.post("/v2/models/mail/infer", json={"inputs": [tensor]}).json()["outputs"]
    assert [one["name"] for one in every] == ["label", "decision"]
    add(registered, CLASSES["texts"], n=0)
    assert "label_or_none" not in client.get("/v2/models/mail").text
    body = {"instances": [[0.0] * 3], "outputs": ["label_or_none"]}
    reply = client.post("/v1/models/mail/predict", json=body)
    assert (reply.status_code, reply.json()["code"]) == (422, "not-calibrated")
    assert "withholds no label" in reply.json()["detail"]
    assert "`validation`" in reply.json()["detail"]
    body = {"inputs": [tensor], "outputs": [{"name": "label_or_none"}]}
    reply = client.post("/v2/models/mail/infer", json=body)
    assert reply.json()["code"] == "not-calibrated"
