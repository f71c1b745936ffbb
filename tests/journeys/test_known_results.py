"""The course documents' results, over HTTP, on the real data (see shared/data/README.md)."""

from __future__ import annotations

import json
import statistics
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_iris, load_svmlight_file
from sklearn.svm import SVC, LinearSVC

from tests.data import DIRECTORY, real
from tests.journeys.server import Server, ok

TUTORIAL_OPTIMUM = 220_597.0
"""Of ½‖w‖² + 100 Σ hinge with a free intercept, on features.txt and target.txt."""
EVERY_SEED = pytest.mark.parametrize(
    "seeds", [range(5), pytest.param(range(20), marks=pytest.mark.soundness)], ids=["5", "20"]
)


@pytest.fixture(scope="module")
def tutorial(server: Server) -> str:
    data, labels = real("features.txt"), real("target.txt")
    dataset = server.upload(data, labels=labels, header="absent", name="tutorial")
    assert (dataset["n_samples"], dataset["n_features"]) == (6414, 122)
    assert dataset["classes"] == [-1, 1]
    assert dataset["class_counts"] == [4845, 1569]
    return str(dataset["id"])


def descents(server: Server, dataset_id: str, seeds: range, **spec: Any) -> list[dict[str, Any]]:
    """Finished jobs, one for each seed, queued together."""
    jobs = [server.train(dataset_id, "tutorial", seed=seed, **spec) for seed in seeds]
    finished = [server.finished(job) for job in jobs]
    assert all(job["state"] == "succeeded" for job in finished)
    return finished


def bracket(job: dict[str, Any], optimum: float) -> None:
    """dual ≤ optimum ≤ primal in the solver's constants, and the dual within 2 % of the optimum.

    The optimum comes from another implementation, which stops a little above it.
    """
    certificate = job["certificate"]
    scale = certificate["solver_objective"] / certificate["primal"]
    assert certificate["dual"] * scale <= optimum * (1 + 1e-9)
    assert certificate["primal"] * scale >= optimum * (1 - 1e-4)
    assert certificate["dual"] * scale >= 0.98 * optimum


def test_batch_descent_takes_57_updates(server: Server, tutorial: str) -> None:
    """Batch descent from zero ends by the cost-change rule at the same update as the tutorial's,
    and its trace has the points of the tutorial's figure."""
    job = server.trained(
        tutorial,
        "tutorial",
        solver={"name": "gradient-descent", "C": 100, "learning_rate": 3e-7, "batch_size": "all"},
        scaling="none",
        stopping={"cost_change": {"epsilon": 0.25}},
        trace={"every": 1},
    )
    trace = ok(server.http.get(f"/v1/jobs/{job['id']}/trace"), 200)
    costs = [row[trace["columns"].index("solver_objective")] for row in trace["rows"]]
    assert (len(costs), costs[0], round(costs[-1], 3)) == (58, 641400.0, 258701.318)
    assert job["updates"] == 57
    assert round(job["certificate"]["solver_objective"], 1) == 258701.3
    assert job["stop_reason"] == "converged"
    bracket(job, TUTORIAL_OPTIMUM)


@pytest.mark.soundness  # test_courses.py has the figures of three seeds
@pytest.mark.parametrize(
    ("batch_size", "learning_rate", "epsilon", "least", "most"),
    [(1, 1e-4, 0.001, 700, 2500), (20, 1e-5, 0.01, 600, 1700)],
    ids=["stochastic", "mini-batch"],
)
def test_stochastic_descents_end_by_their_rule(
    server: Server,
    tutorial: str,
    batch_size: int,
    learning_rate: float,
    epsilon: float,
    least: int,
    most: int,
) -> None:
    """Updates and cost are in the tutorial's range; every certificate is valid."""
    jobs = descents(
        server,
        tutorial,
        range(20),
        solver={
            "name": "gradient-descent",
            "C": 100,
            "learning_rate": learning_rate,
            "batch_size": batch_size,
            "regularizer": "whole",
        },
        scaling="none",
        stopping={"cost_change": {"epsilon": epsilon, "smoothing": 0.5}},
    )
    assert all(job["stop_reason"] == "converged" for job in jobs)
    assert least <= statistics.median(job["updates"] for job in jobs) <= most
    costs = [job["certificate"]["solver_objective"] for job in jobs]
    assert min(costs) >= 230_000
    assert max(costs) <= 315_000
    for job in jobs:
        bracket(job, TUTORIAL_OPTIMUM)


def digits(name: str) -> tuple[np.ndarray[Any, np.dtype[np.float64]], list[int]]:
    rows = [line.split(",") for line in real(name).decode().splitlines()[1:]]
    return np.array([row[:-1] for row in rows], dtype=float), [int(row[-1]) for row in rows]


@EVERY_SEED
def test_pegasos_on_digits(server: Server, seeds: range) -> None:
    """Digits 5 and 6, λ = 1, 20 epochs: the median test error is the document's."""
    dataset = server.upload(real("coding5_train.csv"), name="digits")
    assert dataset["classes"] == [5, 6]
    X, y = digits("coding5_test.csv")
    body = json.dumps({"instances": X.tolist()})
    errors, jobs = [], []
    for seed in seeds:
        spec = {"solver": {"name": "pegasos", "lambda": 1.0}, "scaling": "none"}
        stopping = {"max_epochs": 20}
        jobs.append(server.train(dataset["id"], "digits", **spec, stopping=stopping, seed=seed))
    for job in jobs:
        done = server.finished(job)
        assert done["epochs"] == 20
        path = f"/v1/models/digits/versions/{done['model']['version']}/predict"
        headers = {"Content-Type": "application/json"}
        reply = ok(server.http.post(path, content=body, headers=headers), 200)
        errors.append(100 * float(np.mean(np.array(reply["label"]) != y)))
    assert 3.0 <= statistics.median(errors) <= 3.9
    assert min(errors) >= 2.3
    assert max(errors) <= 5.0


@EVERY_SEED
def test_iris_one_vs_one(server: Server, seeds: range) -> None:
    """The mean validation accuracy over splits is at least 94 %."""
    X, y = load_iris(return_X_y=True)
    lines = [
        ",".join([*map(repr, row.tolist()), str(label)]) for row, label in zip(X, y, strict=True)
    ]
    dataset = server.upload("\n".join(lines).encode(), header="absent", name="iris splits")
    spec: dict[str, Any] = {
        "solver": {"name": "newton", "C": 1.0},
        "scaling": "standardize",
        "validation": {"fraction": 0.3, "stratify": True},
    }
    jobs = [server.train(dataset["id"], "iris-splits", seed=seed, **spec) for seed in seeds]
    finished = [server.finished(job) for job in jobs]
    accuracies = [job["metrics"]["validation"]["accuracy"] for job in finished]
    assert statistics.mean(accuracies) >= 0.94


def test_a9a_against_liblinear(server: Server) -> None:
    """On the census data the gap is reached, LIBLINEAR's optimum is between the bounds, and the
    test accuracy is LIBLINEAR's within 0.2 points."""
    train, test = real("a9a.libsvm"), real("a9a.t.libsvm")
    dataset = server.upload(train, "text/x-libsvm", n_features=123, name="a9a")
    assert dataset["sparse"] is True
    job = server.trained(
        dataset["id"], "a9a", solver={"name": "dual-coordinate-descent", "C": 1.0}, seed=0
    )
    assert job["certificate"]["relative_gap"] <= 1e-3

    X, y = load_svmlight_file(str(DIRECTORY / "a9a.libsvm.gz"), n_features=123)
    X_test, y_test = load_svmlight_file(str(DIRECTORY / "a9a.t.libsvm.gz"), n_features=123)
    X, X_test = csr_matrix(X), csr_matrix(X_test)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    peer = LinearSVC(loss="hinge", C=1.0, tol=1e-4, max_iter=20_000, random_state=0).fit(X, y)
    w, b = peer.coef_[0], float(peer.intercept_[0])
    losses = np.maximum(0.0, 1.0 - y * (X @ w + b))
    peer_objective = 0.5 * (float(w @ w) + b * b) + float(losses.sum())
    certificate = job["certificate"]
    scale = certificate["solver_objective"] / certificate["primal"]
    assert certificate["dual"] * scale <= peer_objective
    assert certificate["dual"] * scale >= 0.98 * peer_objective

    path = f"/v1/models/a9a/versions/{job['model']['version']}/predict"
    body = {"instances": X_test.toarray().tolist()}
    labels = np.array(ok(server.http.post(path, json=body), 200)["label"])
    accuracy = float(np.mean(labels == y_test))
    assert abs(accuracy - peer.score(X_test, y_test)) <= 0.002
    assert test


def peer_objective(X: Any, y: Any, regularization: float) -> float:
    """λ/2 ‖w‖² + mean hinge of scikit-learn's optimum, y = ±1, free intercept."""
    peer = SVC(kernel="linear", C=1.0 / (len(y) * regularization), tol=1e-9).fit(X, y)
    losses = np.maximum(0.0, 1.0 - y * peer.decision_function(X))
    return 0.5 * regularization * float(np.sum(peer.coef_**2)) + float(losses.mean())


def test_digits_certificate_brackets_the_optimum(server: Server) -> None:
    """The bounds of a rough model contain scikit-learn's optimum."""
    dataset = server.upload(real("coding5_train.csv"), name="digits")
    X, labels = digits("coding5_train.csv")
    y = np.where(np.array(labels) == 6, 1.0, -1.0)
    job = server.trained(
        dataset["id"],
        "digits-certified",
        solver={"name": "pegasos", "lambda": 1.0},
        scaling="none",
        stopping={"max_epochs": 20},
        seed=0,
    )
    bracket(job, peer_objective(X, y, 1.0))


def test_iris_certificates_bracket_the_optima(server: Server) -> None:
    """The bounds of every pair contain scikit-learn's optimum."""
    X, codes = load_iris(return_X_y=True)
    lines = [
        ",".join([*map(repr, row.tolist()), str(code)]) for row, code in zip(X, codes, strict=True)
    ]
    dataset = server.upload("\n".join(lines).encode(), header="absent")
    newton = {"name": "newton", "C": 1.0}
    job = server.trained(dataset["id"], "iris-certified", solver=newton, scaling="none")
    for pair in job["certificate"]["pairs"]:
        i, j = pair["classes"]
        rows = (codes == i) | (codes == j)
        y = np.where(codes[rows] == j, 1.0, -1.0)
        bracket({"certificate": pair}, peer_objective(X[rows], y, 1.0 / rows.sum()))
