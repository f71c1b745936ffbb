"""Upload, train, watch and predict as a caller."""

from __future__ import annotations

import hashlib
import io
from typing import Any

import httpx2
import joblib
import numpy as np
import pytest
from sklearn.datasets import load_iris

from tests.journeys.server import Server, ok


def iris_csv() -> bytes:
    iris = load_iris()
    lines = ["sepal_length,sepal_width,petal_length,petal_width,species"]
    for row, label in zip(iris.data, iris.target, strict=True):
        lines.append(",".join([*(repr(float(x)) for x in row), str(iris.target_names[label])]))
    return "\n".join(lines).encode() + b"\n"


ROW = [5.1, 3.5, 1.4, 0.2]
NAMES = ["sepal_length", "sepal_width", "petal_length", "petal_width"]


def test_from_a_file_to_predictions(server: Server) -> None:
    """A caller uploads iris, trains, reads certificate and metrics, and gets predictions by model,
    version and alias; the artifact has the digest of the version."""
    dataset = server.upload(iris_csv(), name="iris")
    assert (dataset["n_samples"], dataset["n_features"]) == (150, 4)
    job = server.trained(
        dataset["id"],
        "iris",
        solver={"name": "newton", "C": 1.0},
        scaling="standardize",
        validation={"fraction": 0.2, "stratify": True},
        set_alias="candidate",
        seed=1,
    )
    assert job["stop_reason"] == "gap-reached"
    assert job["converged"] is True
    assert 0 <= job["certificate"]["relative_gap"] <= 1e-3
    assert job["metrics"]["validation"]["accuracy"] >= 0.8
    trace = ok(server.http.get(f"/v1/jobs/{job['id']}/trace"), 200)
    assert {"epoch", "primal", "dual", "gap", "validation_error"} <= set(trace["columns"])
    assert trace["rows"]

    version = server.version(job)
    assert version["certificate"] == job["certificate"]
    number = job["model"]["version"]
    artifact = server.http.get(f"/v1/models/iris/versions/{number}/artifact")
    assert hashlib.sha256(artifact.content).hexdigest() == version["artifact_sha256"]
    assert joblib.load(io.BytesIO(artifact.content))["coefficients"].shape == (3, 4)

    for path in ("", f"/versions/{number}", "/aliases/candidate"):
        for instances in ([ROW], [dict(zip(NAMES, ROW, strict=True))]):
            body = {"instances": instances, "outputs": ["label", "decision"]}
            reply = ok(server.http.post(f"/v1/models/iris{path}/predict", json=body), 200)
            assert reply["label"] == ["setosa"]
            assert reply["classes"] == ["setosa", "versicolor", "virginica"]
            assert int(np.argmax(reply["decision"][0])) == 0
            assert reply["model"]["version"] == number
            assert reply["model"]["digest"] == version["digest"]


def test_same_seed_same_model(server: Server) -> None:
    """The same spec on the same data gives the same digest and the next version."""
    dataset = server.upload(iris_csv(), name="iris")
    spec: dict[str, Any] = {"solver": {"name": "pegasos", "lambda": 0.01}, "seed": 7}
    versions = [server.version(server.trained(dataset["id"], "twins", **spec)) for _ in range(2)]
    assert versions[0]["digest"] == versions[1]["digest"]
    assert versions[1]["version"] == versions[0]["version"] + 1


@pytest.mark.parametrize(
    "name", ["pegasos", "gradient-descent", "dual-coordinate-descent", "newton"]
)
def test_every_solver_trains_with_defaults(server: Server, name: str) -> None:
    """A job needs only a dataset, a model name and a solver's name."""
    assert name in {s["name"] for s in ok(server.http.get("/v1/solvers"), 200)["solvers"]}
    dataset = server.upload(iris_csv(), name="iris")
    job = server.trained(dataset["id"], f"by-name-{name}", solver={"name": name})
    assert job["certificate"]["dual"] <= job["certificate"]["primal"]


def test_bad_input_is_reported_and_not_stored(server: Server) -> None:
    """With row, column and value; no dataset is created."""
    before = ok(server.http.get("/v1/datasets"), 200)["datasets"]
    bad = iris_csv().decode().splitlines()
    for row in (70, 90, 110):  # a single word would be a missing cell
        bad[row] = bad[row].replace(bad[row].split(",")[1], "oops", 1)
    reply = server.http.post(
        "/v1/datasets", content="\n".join(bad), headers={"Content-Type": "text/csv"}
    )
    assert reply.status_code == 422
    assert reply.headers["Content-Type"] == "application/problem+json"
    problem = reply.json()
    assert problem["code"] == "not-a-number"
    fault = problem["errors"][0]
    assert (fault["row"], fault["column"], fault["value"]) == (70, "sepal_width", "oops")
    assert ok(server.http.get("/v1/datasets"), 200)["datasets"] == before


def test_documentation_names_no_other_host(server: Server) -> None:
    """`/docs` and its scripts are from this server."""
    page = server.http.get("/docs")
    assert page.status_code == 200
    for address in httpx2.URL(server.url).host, "cdn", "fonts.googleapis":
        assert f"//{address}" not in page.text.replace(server.url, "")


@pytest.mark.parametrize(
    "settings",
    [
        {"solver": {"name": "kernel-pegasos", "lambda": 0.01}, "stopping": {"max_epochs": 20}},
        {"solver": {"name": "newton"}, "features": {"name": "square"}},
        {"solver": {"name": "newton"}, "features": {"name": "nystroem", "n_components": 50}},
        {
            "solver": {"name": "subgradient", "averaging": "suffix"},
            "features": {"name": "interactions"},
            "multiclass": "one-vs-rest",
            "class_weight": "balanced",
        },
        {"solver": {"name": "pegasos"}, "class_weight": {"setosa": 2.0}},
    ],
    ids=lambda settings: "-".join(map(str, settings)),
)
def test_kernels_features_and_schemes(server: Server, settings: dict[str, Any]) -> None:
    """Kernels, feature maps, one-vs-rest and weights: trained, stored, loaded and correct."""
    dataset = server.upload(iris_csv(), name="iris")
    job = server.trained(dataset["id"], "varied", scaling="standardize", seed=3, **settings)
    assert job["metrics"]["train"]["accuracy"] >= 0.85
    assert 0 <= job["certificate"]["dual"] <= job["certificate"]["primal"]
    path = f"/v1/models/varied/versions/{job['model']['version']}/predict"
    iris = load_iris()
    reply = ok(server.http.post(path, json={"instances": iris.data.tolist()}), 200)
    right = np.array(reply["label"]) == iris.target_names[iris.target]
    assert float(right.mean()) == job["metrics"]["train"]["accuracy"]


def test_impossible_jobs_are_not_queued(server: Server) -> None:
    """An unknown class, and products of sparse features."""
    dataset = server.upload(iris_csv(), name="iris")
    body: dict[str, Any] = {
        "dataset_id": dataset["id"],
        "model_name": "refused",
        "solver": {"name": "newton"},
        "class_weight": {"rose": 2.0},
    }
    reply = server.http.post("/v1/jobs", json=body)
    assert (reply.status_code, reply.json()["code"]) == (422, "unknown-class")
    sparse = server.upload(b"1 1:0.5 5:1\n-1 2:2\n", "text/x-libsvm")
    body = {
        "dataset_id": sparse["id"],
        "model_name": "refused",
        "solver": {"name": "newton"},
        "features": {"name": "polynomial"},
    }
    reply = server.http.post("/v1/jobs", json=body)
    assert (reply.status_code, reply.json()["code"]) == (422, "features-unsupported")
