"""Known results on real data: counts of updates, costs, errors and optima from the literature."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.svm import LinearSVC

from svm.model.pipeline import Pipeline
from svm.solvers import DualCoordinateDescent, GradientDescent, Newton, Pegasos
from svm.stopping import CostChange, Stopping
from svm.training.curve import Trace
from svm.training.results import TrainingResult
from svm.training.training import Training
from tests.svm.cases.real_data import adult, digits, tutorial
from tests.svm.cases.trainings import train

C = 100.0
OPTIMUM = 220_597.0
"""Of ½‖w‖² + 100 Σ hinge on the tutorial's data, by LIBSVM."""


def described(batch_size: Any, learning_rate: float, epsilon: float) -> Pipeline:
    """The tutorial's descent, with its stopping rule alone."""
    solver = GradientDescent(
        C=C, batch_size=batch_size, learning_rate=learning_rate, regularizer="whole"
    )
    return Pipeline(solver=solver, stopping=Stopping(cost_change=CostChange(epsilon=epsilon)))


def assert_certified(result: TrainingResult) -> None:
    """In the tutorial's constants the bound is at most the optimum and within 2 % of it, and the
    primal value is at least the optimum."""
    [pair] = result.certificate.pairs
    assert 0.98 * OPTIMUM <= pair.dual * 6414 * C <= OPTIMUM * (1.0 + 1e-5)
    assert pair.primal * 6414 * C >= OPTIMUM * (1.0 - 1e-5)


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("regularizer", ["share", "whole"])
def test_batch_descent_of_the_tutorial(form: str, regularizer: Any) -> None:
    """η = 3e-7, C = 100, ε = 0.25 from zero: exactly 57 updates, cost 258,701.3."""
    X, y = tutorial()
    solver = GradientDescent(C=C, learning_rate=3e-7, regularizer=regularizer)
    pipeline = Pipeline(solver=solver, stopping=Stopping(cost_change=CostChange(epsilon=0.25)))
    result = train(pipeline, csr_array(X) if form == "sparse" else X, y).result()
    assert (result.updates, result.stop_reason) == (57, "converged")
    cost = result.certificate.worst.solver_objective
    assert round(cost, 1) == 258_701.3
    assert cost == pytest.approx(result.certificate.worst.primal * 6414 * C, rel=1e-12)
    assert_certified(result)


def test_trace_of_the_tutorial() -> None:
    """Its figure: the cost before the first and after every update, 58 points."""
    solver = GradientDescent(C=C, learning_rate=3e-7)
    pipeline = Pipeline(solver=solver, stopping=Stopping(cost_change=CostChange(epsilon=0.25)))
    training = Training(pipeline, *tutorial(), seed=0, trace=Trace())
    points = [point for report in training for point in report.points]
    assert [point.updates for point in points] == list(range(58))
    assert points[0].solver_objective == 641_400.0
    assert round(points[-1].solver_objective, 3) == 258_701.318
    assert all(a.primal > b.primal for a, b in itertools.pairwise(points))


@pytest.mark.parametrize(
    ("batch_size", "learning_rate", "epsilon", "fewest", "most"),
    [(1, 1e-4, 0.001, 700, 2500), (20, 1e-5, 0.01, 600, 1700)],
    ids=["stochastic", "mini-batch"],
)
def test_stochastic_descent_of_the_tutorial(
    batch_size: int, learning_rate: float, epsilon: float, fewest: int, most: int
) -> None:
    """Over 5 seeds the median number of updates and every cost are in the tutorial's range; the
    journeys use 20 seeds."""
    X, y = tutorial()
    sparse, pipeline = csr_array(X), described(batch_size, learning_rate, epsilon)
    with ThreadPoolExecutor(2) as pool:
        trainings = pool.map(lambda seed: train(pipeline, sparse, y, seed=seed), range(5))
        results = [training.result() for training in trainings]
    assert {result.stop_reason for result in results} == {"converged"}
    assert fewest <= np.median([result.updates for result in results]) <= most
    for result in results:
        assert 230_000 <= result.certificate.worst.solver_objective <= 315_000
        assert_certified(result)


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_newton_finds_the_optimum_of_the_tutorial(form: str) -> None:
    """At C = 100, too large for the stochastic solvers, Newton closes the gap to 1e-3."""
    X, y = tutorial()
    result = train(Pipeline(solver=Newton(C=C)), csr_array(X) if form == "sparse" else X, y)
    [pair] = result.result().certificate.pairs
    assert pair.relative_gap <= 1e-3
    assert pair.primal * 6414 * C == pytest.approx(OPTIMUM, rel=1.1e-3)
    assert_certified(result.result())


def test_pegasos_on_digits() -> None:
    """λ = 1, 20 epochs: over 20 seeds a test error of 3.0-3.9 % in the median, 2.3-5.0 % each."""
    X, y = digits("train")
    pipeline = Pipeline(solver=Pegasos(lambda_=1.0), stopping=Stopping(max_epochs=20))
    held_out, expected = digits("test")
    errors = [
        float(
            (train(pipeline, X, y, seed=seed).result().fitted.predict(held_out) != expected).mean()
        )
        for seed in range(20)
    ]
    assert 0.030 <= np.median(errors) <= 0.039
    assert 0.023 <= min(errors) <= max(errors) <= 0.050


def test_dual_coordinate_descent_on_adult() -> None:
    """C = 1 to a gap of 1e-3 on 32,561 sparse rows: the accuracy of LIBLINEAR for the same
    objective, within 0.2 points, and an enclosure of LIBLINEAR's value."""
    X, y = adult("a9a")
    result = train(Pipeline(solver=DualCoordinateDescent(C=1.0)), X, y).result()
    assert result.stop_reason == "gap-reached"
    peer = LinearSVC(loss="hinge", C=1.0, tol=1e-2, max_iter=5000, random_state=0)
    peer.fit(X, y)
    held_out, expected = adult("a9a.t")
    ours = float((result.fitted.predict(held_out) == expected).mean())
    theirs = float((peer.predict(held_out) == expected).mean())
    assert abs(ours - theirs) <= 0.002
    scores = y * peer.decision_function(X)
    norm = float((peer.coef_**2).sum() + peer.intercept_[0] ** 2)
    objective = 0.5 * norm + float(np.maximum(0.0, 1.0 - scores).sum())
    [pair] = result.certificate.pairs
    assert pair.dual * len(y) <= objective
    assert pair.solver_objective <= 1.001 * objective
