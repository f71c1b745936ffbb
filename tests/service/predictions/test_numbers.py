"""Models of numbers: values and intervals, in every form of a reply."""

from __future__ import annotations

import csv
import io
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from svm import Newton, Pipeline
from svm.model.pipeline import FittedPipeline
from tests.service.models.registered_models import RegisteredModels
from tests.svm.cases.trainings import train

pytestmark = pytest.mark.one_application

ROWS = [[1.0, 2.0, 3.0], [-4.5, 0.0, 1e-3]]


def model_of_numbers(*, intervals: bool = True, logarithm: bool = False) -> FittedPipeline:
    random = np.random.default_rng(0)
    X = random.normal(size=(80, 3))
    targets = X @ [1.0, -2.0, 0.5] + 10.0 + random.normal(size=80)
    pipeline = Pipeline(
        solver=Newton(),
        scaling="standardize",
        target_scale="logarithmic" if logarithm else "linear",
    ).for_numbers()
    fitted = train(pipeline, X[:60], np.abs(targets[:60])).result().fitted
    if not intervals:
        return fitted
    return fitted.with_intervals(np.abs(targets[60:]), fitted.predict(X[60:]))


def ask(client: TestClient, body: Any, **params: Any) -> Any:
    return client.post("/v1/models/prices/predict", json=body, params=params)


def test_values_and_intervals_are_the_models(
    client: TestClient, registered: RegisteredModels
) -> None:
    """To the bit; the value by default, intervals with the coverage that is asked for."""
    fitted = model_of_numbers()
    registered.add("prices", fitted)
    scores = fitted.problem_scores(np.array(ROWS))
    reply = ask(client, {"instances": ROWS}).json()
    assert reply.keys() == {"model", "classes", "values"}
    assert (reply["classes"], reply["values"]) == ([], fitted.predict(np.array(ROWS)).tolist())
    for coverage in (0.9, 0.5):
        expected = fitted.intervals_from_scores(scores, coverage).tolist()
        body = {"instances": ROWS, "outputs": ["value", "interval"], "coverage": coverage}
        reply = ask(client, body).json()
        assert (reply["intervals"], reply["coverage"]) == (expected, coverage)
        by_query = ask(client, {"instances": ROWS}, outputs="interval", coverage=coverage).json()
        assert by_query["intervals"] == expected


def test_replies_in_other_formats(client: TestClient, registered: RegisteredModels) -> None:
    """CSV with a column for each end, NDJSON with a list, NPY with two columns."""
    registered.add("prices", model_of_numbers())
    both = ask(client, {"instances": ROWS, "outputs": ["value", "interval"]}).json()

    def content(media_type: str, outputs: str) -> bytes:
        return client.post(
            "/v1/models/prices/predict",
            json={"instances": ROWS},
            params={"outputs": outputs},
            headers={"Accept": media_type},
        ).content

    head, *rows = csv.reader(io.StringIO(content("text/csv", "value,interval").decode()))
    assert head == ["value", "interval_low", "interval_high"]
    assert [float(row[0]) for row in rows] == both["values"]
    assert [[float(cell) for cell in row[1:]] for row in rows] == both["intervals"]
    line = content("application/x-ndjson", "value,interval").splitlines()[0]
    assert line.startswith(b'{"value":')
    assert np.load(io.BytesIO(content("application/x-npy", "interval"))).shape == (2, 2)


@pytest.mark.parametrize(
    ("outputs", "coverage", "code", "words"),
    [
        (["label"], 0.9, "invalid-field", "predicts numbers, not label; it offers value"),
        (["probability"], 0.9, "invalid-field", "it offers value, interval, explanation"),
        (["interval"], 0.99, "invalid-field", "needs the errors of 99 rows"),
        (["interval"], 1.5, "invalid-field", "between 0 and 1"),
        (["interval"], "high", "invalid-field", "between 0 and 1"),
    ],
)
def test_what_is_not_offered_is_refused(
    client: TestClient,
    registered: RegisteredModels,
    outputs: list[str],
    coverage: Any,
    code: str,
    words: str,
) -> None:
    """In a sentence that says what is."""
    registered.add("prices", model_of_numbers())
    reply = ask(client, {"instances": ROWS, "outputs": outputs, "coverage": coverage})
    assert (reply.status_code, reply.json()["code"]) == (422, code)
    assert words in reply.json()["detail"]


def test_models_without_intervals_and_of_classes_say_so(
    client: TestClient, registered: RegisteredModels
) -> None:
    registered.add("prices", model_of_numbers(intervals=False))
    reply = ask(client, {"instances": ROWS, "outputs": ["interval"]})
    assert (reply.status_code, reply.json()["code"]) == (422, "not-calibrated")
    assert "`validation`" in reply.json()["detail"]
    registered.add("iris")
    reply = client.post("/v1/models/iris/predict", json={"instances": ROWS, "outputs": ["value"]})
    assert (reply.status_code, reply.json()["code"]) == (422, "invalid-field")
    assert "predicts classes, not value; it offers label" in reply.json()["detail"]


@pytest.mark.parametrize("logarithm", [False, True])
def test_explanation_has_the_terms_of_the_value(
    client: TestClient, registered: RegisteredModels, logarithm: bool
) -> None:
    """In the unit of the target, or its logarithm, which the reply says."""
    fitted = model_of_numbers(logarithm=logarithm)
    registered.add("prices", fitted, columns=["a", "b", "c"])
    reply = ask(client, {"instances": ROWS, "outputs": ["value", "explanation"]}).json()
    for [problem], value in zip(reply["explanation"], reply["values"], strict=True):
        assert problem["classes"] == []
        assert problem["of"] == ("logarithm" if logarithm else "value")
        total = sum(problem["terms"].values()) + problem["intercept"]
        assert total == pytest.approx(np.log(value) if logarithm else value)


def test_open_inference(client: TestClient, registered: RegisteredModels) -> None:
    """The tensor `value`, and `interval` if it is asked for."""
    registered.add("prices", model_of_numbers())
    outputs = client.get("/v2/models/prices").json()["outputs"]
    assert outputs == [
        {"name": "value", "datatype": "FP64", "shape": [-1]},
        {"name": "interval", "datatype": "FP64", "shape": [-1, 2]},
    ]
    both = ask(
        client, {"instances": ROWS, "outputs": ["value", "interval"], "coverage": 0.5}
    ).json()
    body: dict[str, Any] = {
        "inputs": [{"name": "x", "shape": [2, 3], "datatype": "FP64", "data": ROWS}]
    }
    [tensor] = client.post("/v2/models/prices/infer", json=body).json()["outputs"]
    assert (tensor["name"], tensor["shape"], tensor["data"]) == ("value", [2], both["values"])
    body["outputs"] = [{"name": "interval", "parameters": {"coverage": 0.5}}]
    reply = client.post("/v2/models/prices/infer", json=body).json()
    assert reply["parameters"] == {"coverage": 0.5}
    assert reply["outputs"][0]["shape"] == [2, 2]
    assert reply["outputs"][0]["data"] == [end for pair in both["intervals"] for end in pair]
    body["outputs"] = [{"name": "label"}]
    assert "value, interval" in client.post("/v2/models/prices/infer", json=body).json()["error"]
    body["outputs"] = [{"name": "value"}, {"name": "interval", "parameters": {"coverage": 0.99}}]
    reply = client.post("/v2/models/prices/infer", json=body).json()
    assert (reply["code"], reply["errors"][0]["pointer"]) == ("invalid-field", "/outputs/1")
    assert "needs the errors of 99 rows" in reply["error"]
    registered.add("bare", model_of_numbers(intervals=False))
    reply = client.post("/v2/models/bare/infer", json=body).json()
    assert reply["code"] == "not-calibrated"
    assert "train again with `validation`" in reply["error"]
