"""The squared hinge: LIBLINEAR's problem, with the same optimum, in every way of training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from svm.kernel.kernels import GaussianKernel
from svm.model.pipeline import Pipeline
from svm.problem.losses import HINGE, Loss
from svm.solvers import SMO, Auto, DualCoordinateDescent, Newton
from svm.stopping import Stopping
from svm.training.results import TrainingResult
from tests.svm.cases.stored import stored
from tests.svm.cases.trainings import bits, train

TIGHT = Stopping(duality_gap=1e-9, max_epochs=20_000)
SQUARED: dict[str, Any] = {"loss": "squared-hinge"}


def rows(n: int = 300, d: int = 12, n_classes: int = 2) -> tuple[Any, Any]:
    random = np.random.default_rng(n)
    X = random.normal(size=(n, d))
    scores = X[:, :n_classes] + 0.7 * random.normal(size=(n, n_classes))
    return X, scores.argmax(axis=1)


def stated(result: TrainingResult) -> float:
    """In the constants ½‖w‖² + C Σ."""
    worst = result.certificate.worst
    return worst.primal / float(result.warm_start.regularization[0])


@pytest.mark.spread(5)
@pytest.mark.parametrize("C", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize("intercept", ["augmented", "none"])
@pytest.mark.parametrize("weighted", [False, True])
def test_optimum_of_liblinear(C: float, intercept: Any, weighted: bool) -> None:
    """Three solvers prove the objective value that LIBLINEAR reaches at a tight tolerance."""
    X, y = rows()
    weights = np.random.default_rng(1).uniform(0.2, 3.0, len(y)) if weighted else None
    theirs = LinearSVC(
        C=C, loss="squared_hinge", fit_intercept=intercept == "augmented", tol=1e-10, dual=True
    )
    theirs.set_params(max_iter=1_000_000).fit(X, y, sample_weight=weights)
    w = theirs.coef_[0]
    b = float(theirs.intercept_[0]) if intercept == "augmented" else 0.0
    short = np.maximum(0.0, 1.0 - np.where(y == 1, 1.0, -1.0) * (X @ w + b))
    counted = np.ones(len(y)) if weights is None else weights
    optimum = 0.5 * (w @ w + b * b) + C * float(counted @ np.square(short))
    solvers: list[Any] = [
        Newton(C=C, intercept=intercept, **SQUARED),
        DualCoordinateDescent(C=C, intercept=intercept, **SQUARED),
        SMO(C=C, intercept=intercept, kernel=None, **SQUARED),
    ]
    for solver in solvers:
        result = train(Pipeline(solver=solver, stopping=TIGHT), X, y, weights=weights).result()
        assert result.certificate.status == "certified", solver.name
        assert stated(result) == pytest.approx(optimum, rel=1e-6), solver.name


def test_free_intercept_and_kernel_agree() -> None:
    """`newton` and `smo` enclose one optimum with a free intercept, whose slope is then 0."""
    X, y = rows()
    ends = []
    for solver in (Newton(intercept="free", **SQUARED), SMO(kernel=None, **SQUARED)):
        result = train(Pipeline(solver=solver, stopping=TIGHT), X, y).result()
        assert result.certificate.status == "certified"
        ends.append(stated(result))
        side = np.where(y == 1, 1.0, -1.0)
        scores = X @ result.fitted.coefficients[0] + result.fitted.intercepts[0]
        short = np.maximum(0.0, 1.0 - side * scores)
        assert abs(float(side @ short)) <= 1e-5 * float(short.sum())
    assert ends[0] == pytest.approx(ends[1], rel=1e-8)
    kernel = SMO(kernel=GaussianKernel(gamma=0.3), **SQUARED)
    assert train(Pipeline(solver=kernel, stopping=TIGHT), X, y).result().converged


def test_files_threads_and_rest_of_training(tmp_path: Path) -> None:
    """The same bits from files and with threads; of many classes; `auto` keeps the loss; warm."""
    X, y = rows(900, 6, 3)
    pipeline = Pipeline(solver=Newton(**SQUARED), stopping=Stopping(duality_gap=1e-6))
    alone = train(pipeline, X, y).result()
    assert alone.certificate.status == "certified"
    assert bits(train(pipeline, stored(X, tmp_path), y).result()) == bits(alone)
    assert bits(train(pipeline, X, y, threads=2).result()) == bits(alone)
    chosen = train(Pipeline(solver=Auto(**SQUARED)), X, y).result()
    assert chosen.warm_start.pipeline.solver.loss_name == "squared-hinge"
    again = train(pipeline, X, y, warm_start=alone.warm_start).result()
    assert again.certificate.status == "certified"
    assert again.updates <= alone.updates


@pytest.mark.parametrize("loss", [HINGE, Loss("squared-hinge")], ids=lambda loss: loss.name)
def test_best_intercept(loss: Any) -> None:
    """No b of a fine grid costs less."""
    random = np.random.default_rng(4)
    for n in (2, 3, 10, 200):
        y = np.where(np.arange(n) % 3 == 0, 1, -1).astype(np.int8)
        scores, weights = random.normal(size=n), random.uniform(0.1, 2.0, n)

        def cost(b: float, y: Any = y, scores: Any = scores, weights: Any = weights) -> float:
            return float(weights @ loss.of_shortfalls(1.0 - y * (scores + b)))

        best = loss.best_intercept(y, y, weights, scores)
        assert cost(best) <= min(map(cost, np.linspace(-5.0, 5.0, 4001))) * (1.0 + 1e-12) + 1e-15
