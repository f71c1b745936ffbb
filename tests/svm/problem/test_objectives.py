"""The objective, its dual, and their relations."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svm.data.matrices import Vector
from svm.hyperparameters import Intercept
from svm.problem.losses import HINGE
from svm.problem.objectives import (
    dual,
    error_of,
    feasible,
    inside,
    primal,
    primal_at_scores,
    primal_point,
)
from svm.problem.problem import Problem
from svm.solvers import (
    AnySolver,
    DualCoordinateDescent,
    GradientDescent,
    Newton,
    Pegasos,
    SubGradient,
)
from tests.svm.cases import optima
from tests.svm.cases.problems import CASES, INTERCEPTS, problem_of
from tests.svm.cases.strategies import PROPERTY, ordinary, problems, vectors

any_number = st.floats(-1e6, 1e6)


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("name", ["noisy", "weighted", "unbalanced"])
def test_primal_and_dual_are_the_definitions(name: str, intercept: Intercept) -> None:
    """λ/2‖w‖² + mean weighted hinge, and (1/n)Σα - λ/2‖w(α)‖², with b² where b is augmented."""
    case = CASES[name]
    problem = problem_of(case, intercept)
    w, b = np.array([0.3, -1.2, 0.0, 0.7]), 0.0 if intercept == "none" else -0.4
    expected = optima.primal_value(case, intercept, w, b)
    assert primal(problem, w, b) == pytest.approx(expected, rel=1e-13)
    # A point whose best factor is below 1/max(α/s), so that the factor matters.
    alpha = feasible(problem, 0.5 * case.weights * np.linspace(0.1, 1.0, 40))
    largest = float((alpha / case.weights).max())
    factors = np.linspace(0.0, 1.0 / largest, 10001)
    values = [optima.dual_value(case, intercept, factor * alpha) for factor in factors]
    assert max(values) <= dual(problem, alpha) <= max(values) + 1e-6


@PROPERTY
@given(problem=problems(), data=st.data())
def test_weak_duality(problem: Problem, data: st.DataObject) -> None:
    """For every w, b and α, `dual` is at most the primal value, and at least 0."""
    w = data.draw(vectors(problem.n_features))
    b = 0.0 if problem.intercept == "none" else data.draw(ordinary)
    alpha = data.draw(vectors(problem.n_samples, any_number))
    value = primal(problem, w, b)
    assert 0.0 <= dual(problem, alpha) <= value * (1.0 + 1e-12)


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("name", CASES)
def test_dual_of_any_point_is_below_the_optimum(name: str, intercept: Intercept) -> None:
    """Random α, in their box or far outside it, bound the optimum from below."""
    problem, upper = problem_of(CASES[name], intercept), optima.optimum(name, intercept).upper
    random = np.random.default_rng(0)
    for scale in (1e-3, 1.0, 1e3):
        for _ in range(20):
            alpha = random.normal(scale=scale, size=problem.n_samples)
            assert dual(problem, alpha) <= upper * (1.0 + 1e-12)
            assert dual(problem, np.abs(alpha)) <= upper * (1.0 + 1e-12)


@PROPERTY
@given(problem=problems(), data=st.data())
def test_feasible_points_are_feasible(problem: Problem, data: st.DataObject) -> None:
    """0 ≤ αᵢ ≤ sᵢ, and Σ αᵢ yᵢ = 0 if the intercept is free; a feasible point does not change."""
    alpha = feasible(problem, data.draw(vectors(problem.n_samples, any_number)))
    assert (alpha >= 0.0).all()
    assert (alpha <= problem.weights).all()
    if problem.intercept == "free":
        assert abs(float(alpha @ problem.y)) <= 1e-14 * max(1.0, float(alpha.sum()))
    np.testing.assert_allclose(feasible(problem, alpha), alpha, rtol=1e-14, atol=1e-300)


@PROPERTY
@given(problem=problems(), data=st.data())
def test_dual_takes_the_best_factor(problem: Problem, data: st.DataObject) -> None:
    """No factor c that keeps c α in its box gives a larger dual value."""
    alpha = feasible(problem, data.draw(vectors(problem.n_samples, ordinary.map(abs))))
    best = dual(problem, alpha)
    if not alpha.any():
        assert best == 0.0
        return
    largest = float((alpha / problem.weights).max())
    w, b = primal_point(problem, alpha)
    norm = float(w @ w) + b * b
    for factor in np.linspace(0.0, 1.0, 21) / largest:
        value = factor * float(alpha.mean()) - 0.5 * problem.regularization * factor**2 * norm
        assert value <= best + 1e-12 * max(1.0, abs(value))
    assert dual(problem, 0.5 * alpha) == pytest.approx(best, rel=1e-9, abs=1e-12)


@PROPERTY
@given(problem=problems(), data=st.data())
def test_primal_is_convex(problem: Problem, data: st.DataObject) -> None:
    """On the line between two points the primal lies below the chord."""
    points = [data.draw(vectors(problem.n_features + 1)) for _ in range(2)]
    if problem.intercept == "none":
        for point in points:
            point[-1] = 0.0
    ends = [primal(problem, point[:-1], float(point[-1])) for point in points]
    for t in (0.1, 0.5, 0.8):
        between = (1.0 - t) * points[0] + t * points[1]
        chord = (1.0 - t) * ends[0] + t * ends[1]
        assert primal(problem, between[:-1], float(between[-1])) <= chord * (1.0 + 1e-12)


@PROPERTY
@given(problem=problems(), data=st.data())
def test_sub_gradient_inequality(problem: Problem, data: st.DataObject) -> None:
    """P(u) ≥ P(w) + ⟨g, u - w⟩ with g from the rows inside the margin: the stochastic solvers' step
    is a sub-gradient."""
    w, u = (data.draw(vectors(problem.n_features + 1)) for _ in range(2))
    if problem.intercept == "none":
        w[-1] = u[-1] = 0.0
    signed = problem.weights * problem.y * (problem.y * problem.scores(w[:-1], w[-1]) < 1.0)
    gradient = problem.regularization * w
    if problem.intercept != "augmented":
        gradient[-1] = 0.0
    gradient[:-1] -= problem.combination(signed) / problem.n_samples
    gradient[-1] -= float(signed.sum()) / problem.n_samples
    here = primal(problem, w[:-1], float(w[-1]))
    there = primal(problem, u[:-1], float(u[-1]))
    linear = here + float(gradient @ (u - w))
    assert there >= linear - 1e-12 * max(1.0, abs(here), abs(linear))


@PROPERTY
@given(problem=problems(), data=st.data())
def test_augmented_is_a_constant_feature(problem: Problem, data: st.DataObject) -> None:
    """`augmented` gives the values of `none` with a column of ones."""
    point = data.draw(vectors(problem.n_features + 1))
    alpha = data.draw(vectors(problem.n_samples, ordinary.map(abs)))
    X = np.asarray(problem.X)
    augmented = replace(problem, intercept="augmented")
    column = replace(problem, X=np.column_stack([X, np.ones(len(X))]), intercept="none")
    assert primal(augmented, point[:-1], float(point[-1])) == pytest.approx(
        primal(column, point, 0.0), rel=1e-12
    )
    assert dual(augmented, alpha) == pytest.approx(dual(column, alpha), rel=1e-9, abs=1e-13)


def test_hinge_loss_at_and_around_the_margin() -> None:
    """max(0, 1 - y f): 0 beyond the margin, 1 on the hyperplane, linear in between."""
    y, scores = np.array([1.0, 1.0, 1.0, -1.0, -1.0]), np.array([2.0, 1.0, 0.0, 0.5, -3.0])
    assert HINGE.of_shortfalls(1.0 - y * scores).tolist() == [0.0, 0.0, 1.0, 1.5, 0.0]


@pytest.mark.parametrize("weights", [None, np.array([0.5, 1.0, 2.0, 4.0, 8.0])])
def test_cost_and_errors_at_scores(weights: Vector | None) -> None:
    """A row on its margin is inside; a score of 0 is on the negative side."""
    y = np.array([1, 1, 1, -1, -1], dtype=np.int8)
    problem = Problem(
        X=np.empty((5, 1)), y=y, unequal_weights=weights, regularization=2.0, intercept="none"
    )
    scores = np.array([2.0, 1.0, 0.0, 0.0, 0.5])
    losses = (1.0 if weights is None else weights) * np.array([0.0, 0.0, 1.0, 1.0, 1.5])
    assert primal_at_scores(problem, 3.0, scores) == 3.0 + losses.mean()
    assert error_of(problem, scores) == 0.4
    assert inside(problem, scores).tolist() == [False, True, True, True, True]


@pytest.mark.parametrize("solver", get_args(AnySolver), ids=lambda k: k.name)
def test_c_is_lambda_for_that_number_of_rows(solver: type[AnySolver]) -> None:
    """λ = 1/(nC) with each problem's own n; a given λ is every problem's; without either C = 1."""
    share = 2.0 if solver is SubGradient else 1.0  # ‖w‖² + C Σ hinge has twice the λ
    assert solver(C=4.0).regularization(50) == share / 200.0
    assert solver(C=4.0).regularization(25) == share / 100.0
    assert solver(lambda_=0.3).regularization(50) == 0.3
    assert solver().regularization(50) == share / 50.0


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_stated_objectives(intercept: Intercept) -> None:
    """½‖w‖² + C Σ s hinge is P/λ at λ = 1/(nC) for the solvers that state it; P for the others."""
    case = CASES["weighted"]
    problem = problem_of(case, intercept)
    w, b = np.array([0.3, -1.2, 0.0, 0.7]), 0.0 if intercept == "none" else -0.4
    value, C = primal(problem, w, b), 1.0 / (40 * case.regularization)
    norm = float(w @ w) + (b * b if intercept == "augmented" else 0.0)
    losses = case.weights * HINGE.of_shortfalls(1.0 - case.y * (case.X @ w + b))
    stated = 0.5 * norm + C * float(losses.sum())
    for solver in (GradientDescent(), DualCoordinateDescent()):
        assert solver.stated(problem, value) == pytest.approx(stated, rel=1e-13)
    for other in (Pegasos(), Newton()):
        assert other.stated(problem, value) == value
