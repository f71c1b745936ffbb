from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from service.predictions.predictor import INLINE_BYTES
from service.rows.cell_values import NUMBER_HINT
from service.settings import Limits, Settings
from tests.service.models.registered_models import RegisteredModels, fitted_pipeline

pytestmark = pytest.mark.one_application

ROWS = [[1.0, 2.0, 3.0], [-4.5, 0.0, 1e-3]]
STEEP = replace(fitted_pipeline(), coefficients=np.full((1, 3), 10.0))
"""A model whose decision values overflow before its features do."""


def predict(client: TestClient, body: object, path: str = "iris") -> Any:
    return client.post(f"/v1/models/{path}/predict", json=body)


def test_prediction_is_the_models(client: TestClient, registered: RegisteredModels) -> None:
    """Labels and decision values of the kept model, to the bit, with the version that answered."""
    fitted = fitted_pipeline(("setosa", "virginica"), scaled=True)
    version = registered.add("iris", fitted)
    reply = predict(client, {"instances": ROWS, "outputs": ["label", "decision"]})
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.json() == {
        "model": {"name": "iris", "version": 1, "digest": version.digest},
        "classes": ["setosa", "virginica"],
        "label": fitted.predict(np.array(ROWS)).tolist(),
        "decision": fitted.decision_function(np.array(ROWS)).tolist(),
    }


def test_several_classes_have_a_value_each(
    client: TestClient, registered: RegisteredModels
) -> None:
    """Columns in the order of `classes`; the label's value is the largest of its row."""
    registered.add("iris", fitted_pipeline((1, 2, 3)))
    reply = predict(client, {"instances": ROWS, "outputs": ["decision", "label"]}).json()
    assert [len(row) for row in reply["decision"]] == [3, 3]
    best = [reply["classes"][int(np.argmax(row))] for row in reply["decision"]]
    assert reply["label"] == best


def test_label_is_what_comes_unasked(client: TestClient, registered: RegisteredModels) -> None:
    """Without `outputs` there are labels only."""
    registered.add("iris")
    assert set(predict(client, {"instances": ROWS}).json()) == {"model", "classes", "label"}


def test_names_and_lists_give_the_same_bits(
    client: TestClient, registered: RegisteredModels
) -> None:
    """One row, one answer: as an object, as a list, alone or among others."""
    registered.add("iris", columns=["a", "b", "c"])
    rows = np.random.default_rng(0).normal(size=(40, 3)).tolist()
    lists = predict(client, {"instances": rows, "outputs": ["decision"]}).json()["decision"]
    named = [dict(zip("cab", (row[2], row[0], row[1]), strict=True)) for row in rows]
    assert (
        predict(client, {"instances": named, "outputs": ["decision"]}).json()["decision"] == lists
    )
    for row, decision in zip(rows, lists, strict=True):
        alone = predict(client, {"instances": [row], "outputs": ["decision"]}).json()
        assert alone["decision"] == [decision]


def test_version_and_alias_answer(client: TestClient, registered: RegisteredModels) -> None:
    """By number, by alias, `latest`; the model itself means `default`, else the latest."""
    for seed in range(3):
        registered.add("iris", fitted_pipeline(seed=seed))

    def answering(path: str) -> int:
        return int(predict(client, {"instances": ROWS}, path).json()["model"]["version"])

    assert answering("iris") == 3
    registered.move("iris", 1)
    assert answering("iris") == 1
    assert answering("iris/versions/2") == 2
    assert answering("iris/aliases/latest") == 3
    assert answering("iris/aliases/default") == 1


@pytest.mark.parametrize(
    "path", ["unknown", "unknown/versions/1", "iris/versions/2", "iris/aliases/unknown"]
)
def test_unknown_model_is_not_found(
    client: TestClient, registered: RegisteredModels, path: str
) -> None:
    """404, whatever the body."""
    registered.add("iris")
    reply = predict(client, {"instances": "x"}, path)
    assert (reply.status_code, reply.json()["code"]) == (404, "not-found")


def test_alias_moves_at_once(client: TestClient, registered: RegisteredModels) -> None:
    """While requests run, each is answered by one version, whose values it carries."""
    fitted = [fitted_pipeline(seed=seed) for seed in range(2)]
    expected = [model.decision_function(np.array(ROWS)).tolist() for model in fitted]
    for model in fitted:
        registered.add("iris", model)
    registered.registry.set_alias("iris", "default", 1, lambda _: None)
    stop = threading.Event()

    def ask() -> set[int]:
        seen = set()
        while not stop.is_set():
            reply = predict(client, {"instances": ROWS, "outputs": ["decision"]}).json()
            seen.add(reply["model"]["version"])
            assert reply["decision"] == expected[reply["model"]["version"] - 1]
        return seen

    with ThreadPoolExecutor(3) as threads:
        asking = [threads.submit(ask) for _ in range(3)]
        try:
            for step in range(20):
                version = step % 2 + 1
                registered.move("iris", version)
                answered = predict(client, {"instances": ROWS}).json()["model"]["version"]
                assert answered == version
        finally:
            stop.set()
        assert set().union(*(asked.result() for asked in asking)) == {1, 2}


def test_bad_requests_do_not_disturb_good_ones(
    client: TestClient, registered: RegisteredModels
) -> None:
    """Sent at the same time, each gets its own answer."""
    fitted = STEEP
    registered.add("iris", fitted)
    label = fitted.predict(np.array(ROWS)).tolist()
    bodies: list[tuple[object, int]] = [
        ({"instances": ROWS}, 200),
        ({"instances": [[1, 2, None]]}, 422),
        ({"instances": [[1e308, 1e308, 1e308]] * 2}, 422),
    ]

    def ask(case: tuple[object, int]) -> None:
        reply = predict(client, case[0])
        assert reply.status_code == case[1]
        if case[1] == 200:
            assert reply.json()["label"] == label

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(ask, bodies * 20))


def test_large_bodies_are_answered_alike(client: TestClient, registered: RegisteredModels) -> None:
    """Also where reading and scoring go to a thread; and their faults are named as well."""
    fitted = fitted_pipeline(("a", "b", "c"), n_features=64)
    registered.add("iris", fitted)
    X = np.random.default_rng(0).normal(size=(1000, 64))
    body = json.dumps({"instances": X.tolist(), "outputs": ["label", "decision"]})
    assert len(body) > INLINE_BYTES
    reply = client.post("/v1/models/iris/predict", content=body).json()
    assert reply["label"] == fitted.predict(X).tolist()
    assert reply["decision"] == fitted.decision_function(X).tolist()
    rows = [*X.tolist(), [None] * 64]
    reply = predict(client, {"instances": rows})
    assert (reply.status_code, reply.json()["errors"][0]["row"]) == (422, 1001)


def test_bad_row_is_a_problem_with_its_place(
    client: TestClient, registered: RegisteredModels
) -> None:
    """Row, column, value and the code: what a caller needs to fix it."""
    registered.add("iris", columns=["a", "b", "c"])
    reply = predict(client, {"instances": [[1, 2, 3], [1, "two", 3]]})
    assert reply.status_code == 422
    assert reply.headers["Content-Type"] == "application/problem+json"
    problem = reply.json()
    assert (problem["code"], problem["errors_total"]) == ("not-a-number", 1)
    assert problem["errors"] == [
        {
            "row": 2,
            "column": "b",
            "value": "two",
            "code": "not-a-number",
            "message": "row 2, column 'b': 'two' is not a number",
            "hint": NUMBER_HINT,
        }
    ]


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"{", 400, "malformed-json"),
        (b"", 400, "malformed-json"),
        (b'{"instances": [[NaN, 1, 2]]}', 400, "malformed-json"),
        (b'{"instances": [[1, 2, 1e999]]}', 422, "non-finite-value"),
        (
            b'{"instances": [[1e308, 1e308, 1e308]], "outputs": ["decision"]}',
            422,
            "non-finite-value",
        ),
        (b'{"instances": [[1, 2]]}', 422, "feature-mismatch"),
        (b'{"instances": []}', 422, "empty-data"),
        (b'{"instances": [["\\ud800", 1, 2]]}', 400, "malformed-json"),
        (b'{"instances": [[1, 2, 3]], "outputs": ["certainty"]}', 422, "invalid-field"),
        (b'{"instances": [[1, 2, 3]], "outputs": ["probability"]}', 422, "not-calibrated"),
    ],
)
def test_bad_bodies_are_problems(
    client: TestClient, registered: RegisteredModels, content: bytes, status: int, code: str
) -> None:
    """Never a 500."""
    registered.add("iris", STEEP)
    reply = client.post("/v1/models/iris/predict", content=content)
    assert (reply.status_code, reply.json()["code"]) == (status, code)


def test_damaged_version_does_not_stop_others(
    client: TestClient, registered: RegisteredModels
) -> None:
    """Its requests get `model-corrupt`; the versions beside it predict."""
    damaged, _ = registered.add("iris"), registered.add("iris")
    registered.replace_file(damaged, b"x")
    for _ in range(2):
        reply = predict(client, {"instances": ROWS}, "iris/versions/1")
        assert (reply.status_code, reply.json()["code"]) == (500, "model-corrupt")
    assert predict(client, {"instances": ROWS}).status_code == 200


class TestLimits:
    """Bodies and rows over the settings' limits are refused with the limit."""

    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        limits = Limits(predict_body_bytes=200, predict_rows=3)
        return settings.model_copy(update={"limits": limits})

    def test_body_too_large(self, client: TestClient, registered: RegisteredModels) -> None:
        registered.add("iris")
        reply = predict(client, {"instances": [[1.23456789] * 3] * 20})
        assert (reply.status_code, reply.json()["code"]) == (413, "body-too-large")
        assert reply.json()["limit_bytes"] == 200
        assert "SVM_LIMITS__PREDICT_BODY_BYTES" in reply.json()["detail"]

    def test_too_many_rows(self, client: TestClient, registered: RegisteredModels) -> None:
        registered.add("iris")
        assert predict(client, {"instances": [[1, 2, 3]] * 3}).status_code == 200
        reply = predict(client, {"instances": [[1, 2, 3]] * 4})
        assert (reply.status_code, reply.json()["code"]) == (413, "too-many-rows")
        assert reply.json()["limit"] == 3
