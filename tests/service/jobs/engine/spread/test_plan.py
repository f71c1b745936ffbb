"""What a plan says of the passes of a training, beside what its workers do and are sent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array
from starlette.testclient import TestClient

from service.jobs.training.submission import SpreadPlanRead, spread_plan
from svm.data.matrices import Matrix, Vector
from svm.model.pipeline import Pipeline
from svm.problem.passes import Pass, Passed, RowValues
from svm.problem.problem import Problem
from svm.solvers import GradientDescent, Newton
from svm.stopping import Stopping
from svm.training.estimates import DataSize
from svm.training.preparation import Prepared
from tests.service.jobs.data import csv_of, job_body, upload
from tests.service.jobs.engine.spread.processes import Processes
from tests.svm.cases.trainings import train

READ = "_changes_along", "_fresh", "_add_hessian", "_end_of_step", "_add_product", "_add_violations"
"""Passes that read rows."""


class Counting(Processes):
    """Counts the passes that read rows."""

    reads = 0

    def compute(self, one: Pass, of: list[RowValues]) -> Passed:  # type: ignore[override]
        self.reads += one.function.__name__ in READ
        return super().compute(one, of)


def dense(n: int, d: int) -> tuple[Matrix, Vector]:
    random = np.random.default_rng(1)
    X = random.normal(size=(n, d))
    return X, np.sign(X[:, :5].sum(axis=1) + random.normal(size=n))


def sparse(n: int, d: int) -> tuple[Matrix, Vector]:
    random = np.random.default_rng(1)
    X = csr_array(random_array((n, d), density=0.02, rng=random))
    scores = X @ random.normal(size=d)
    return X, np.where(scores + 0.1 * random.normal(size=n) > 0.0, 1.0, -1.0)


CASES: dict[str, tuple[Any, Any, Stopping]] = {
    "dense": (dense(42_000, 60), Newton(C=1.0), Stopping(duality_gap=1e-3)),
    "sampled": (dense(80_000, 20), Newton(C=1.0), Stopping(duality_gap=1e-3)),
    "small gap": (dense(42_000, 40), Newton(C=1.0), Stopping(duality_gap=1e-5)),
    "few steps": (dense(42_000, 60), Newton(C=1.0), Stopping(max_epochs=3)),
    "sparse": (sparse(30_000, 1_000), Newton(C=1.0), Stopping(duality_gap=1e-3)),
    "batch descent": (dense(42_000, 60), GradientDescent(C=1e-4), Stopping(max_epochs=60)),
}


def plan_of(pipeline: Pipeline, X: Any, **others: Any) -> SpreadPlanRead | None:
    is_sparse = not isinstance(X, np.ndarray)
    size = DataSize(
        n_samples=X.shape[0],
        n_features=X.shape[1],
        stored_values=X.nnz if is_sparse else X.size,
        sparse=is_sparse,
        n_classes=2,
        **others,
    )
    return spread_plan(pipeline, size, X.shape[0])


@pytest.mark.parametrize("name", CASES)
def test_plan_is_near_what_a_training_does(name: str) -> None:
    """Shards, passes that read rows, and bytes as they are pickled."""
    (X, labels), solver, stopping = CASES[name]
    pipeline = Pipeline(solver=solver, stopping=stopping.resolve())
    plan = plan_of(pipeline, X)
    assert plan is not None
    made: list[Counting] = []

    def given(prepared: Prepared, problem: Problem) -> Counting:
        made.append(Counting(problem, prepared.X, 2))
        assert abs(plan.shards - (len(problem.leaves) - 1)) <= 1
        return made[-1]

    epochs = train(pipeline, X, labels, spread=given).result().epochs
    (others,) = made
    moved = sum(process.moved_bytes for process in others.processes)
    expected = plan.bytes_once + 2 * epochs * plan.bytes_per_epoch
    assert 0.5 < others.reads / plan.passes < 2.0
    # The certificate of batch descent is not in its bytes.
    assert 0.4 < moved / expected < (2.5 if isinstance(solver, Newton) else 5.0)


def test_plan_of_one_machine_has_no_passes() -> None:
    """Of a solver that visits row after row, or a model of several classes."""
    X, _ = dense(100, 5)
    assert plan_of(Pipeline(solver=GradientDescent(C=1.0, batch_size=10)), X) is None
    size = DataSize(n_samples=9, n_features=1, stored_values=9, sparse=False, n_classes=3)
    assert spread_plan(Pipeline(solver=Newton(C=1.0)), size, 9) is None


def test_reply_tells_what_is_moved(client: TestClient) -> None:
    """`validate_only`: labels are a byte a row, weights 8, and a bit names each row."""
    dataset_id = upload(client, csv_of(n_samples=400, n_classes=2))
    job = job_body(dataset_id, solver={"name": "newton", "C": 1.0})

    def spread(**fields: Any) -> Any:
        reply = client.post("/v1/jobs", json=job | fields, params={"validate_only": True})
        assert reply.status_code == 200, reply.text
        return reply.json()["spread"]

    plain = spread()
    assert plain["shards"] == 1
    assert plain["bytes_once"] == 400
    assert 100 < plain["bytes_per_epoch"] < 10_000
    assert 400 * 40 < plain["memory_bytes"] < 400 * 80
    assert spread(class_weight="balanced")["bytes_once"] == 9 * 400
    assert spread(validation={"fraction": 0.25})["bytes_once"] == 300 + 50
    assert spread(stopping={"duality_gap": 1e-6})["passes"] > 2 * plain["passes"] - 3
    assert spread(solver={"name": "auto", "C": 1.0}) == plain
    assert spread(solver={"name": "pegasos", "C": 1.0}) is None
