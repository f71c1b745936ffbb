"""Metrics of predictions by model and version."""

from __future__ import annotations

import re

import pytest

from service.predictions import metrics
from tests.service.models.registered_models import RegisteredModels, registered
from tests.service.predictions.predict_paths import PredictPath, predict_path

__all__ = ["predict_path", "registered"]

pytestmark = pytest.mark.one_application

TWO = {"instances": [[0.1, 0.2, 0.3], [0.3, 0.2, 0.1]]}


def counted(predict_path: PredictPath, name: str) -> dict[str, float]:
    """The values of a metric by `model/version`."""
    pattern = rf'^svm_prediction_{name}{{model="([^"]+)",version="(\d+)"}} (\S+)$'
    found = re.findall(pattern, predict_path.get("/metrics").text, re.MULTILINE)
    return {f"{model}/{version}": float(value) for model, version, value in found}


def test_predictions_are_counted_by_version(
    predict_path: PredictPath, registered: RegisteredModels
) -> None:
    """Requests, rows, refusals and time, by the version that answered, whatever it was called."""
    registered.add("seen")
    registered.add("seen", set_alias="champion")
    before = {name: counted(predict_path, name) for name in ("rows_total", "errors_total")}
    for path in ("versions/1/predict", "aliases/champion/predict", "predict", "predict"):
        assert predict_path.post(f"/v1/models/seen/{path}", json=TWO).status_code == 200
    wrong = {"instances": [[1]]}
    assert predict_path.post("/v1/models/seen/versions/1/predict", json=wrong).status_code == 422
    assert predict_path.post("/v1/models/unseen/predict", json=TWO).status_code == 404
    rows, errors = counted(predict_path, "rows_total"), counted(predict_path, "errors_total")
    assert [rows[of] - before["rows_total"].get(of, 0) for of in ("seen/1", "seen/2")] == [2, 6]
    assert [errors[of] - before["errors_total"].get(of, 0) for of in ("seen/1", "seen/2")] == [1, 0]
    assert counted(predict_path, "seconds_count")["seen/2"] >= 3
    assert counted(predict_path, "seconds_sum")["seen/2"] > 0
    assert not any("unseen" in of for of in errors)


def test_a_large_body_is_refused_once(
    predict_path: PredictPath, registered: RegisteredModels
) -> None:
    """It is read in a thread, and again by the route, which reports what is wrong."""
    registered.add("large")
    assert predict_path.post("/v1/models/large/predict", json=TWO).status_code == 200
    wrong = {"instances": [[0.1, 0.2, 0.3]] * 20_000 + [[1]]}
    assert predict_path.post("/v1/models/large/predict", json=wrong).status_code == 422
    assert counted(predict_path, "errors_total")["large/1"] == 1


def test_only_the_versions_used_last_have_metrics(
    predict_path: PredictPath, registered: RegisteredModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many versions are made, `/metrics` stays small."""
    monkeypatch.setattr(metrics, "MOST_VERSIONS", 3)
    for number in range(5):
        registered.add(f"many-{number}")
        assert predict_path.post("/v1/models/many-0/predict", json=TWO).status_code == 200
        assert predict_path.post(f"/v1/models/many-{number}/predict", json=TWO).status_code == 200
    assert set(counted(predict_path, "rows_total")) == {"many-0/1", "many-3/1", "many-4/1"}
