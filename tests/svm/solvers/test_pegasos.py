"""Pegasos' options against the textbook: projection, averages, kernels, restarts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from svm.data.matrices import Vector
from svm.hyperparameters import Intercept
from svm.kernel.kernels import GaussianKernel
from svm.kernel.row_products import kernel_values
from svm.problem.objectives import evaluate
from svm.problem.problem import KernelClassifier
from svm.solvers import KernelPegasos, Pegasos, SubGradient
from tests.svm.cases.problems import CASES, FORMS, INTERCEPTS, Form, in_form, problem_of

EPOCHS = 5


def textbook(
    problem: Any, X: Vector, project: bool, batch_size: int
) -> tuple[list[Vector], Vector]:
    """Every iterate (w, b), and the dual coefficients of the last one: w = Σ dual yᵢ xᵢ."""
    lam, treatment, n = problem.regularization, problem.intercept, len(X)
    point, dual = np.zeros(X.shape[1] + 1), np.zeros(n)
    iterates = []
    orders = [problem.permutation(epoch) for epoch in range(EPOCHS)]
    batches = [order[k : k + batch_size] for order in orders for k in range(0, n, batch_size)]
    rows = np.column_stack([X, np.full(n, 1.0 if treatment == "augmented" else 0.0)])
    for t, batch in enumerate(batches, start=1):
        scores = rows @ point + (point[-1] if treatment == "free" else 0.0)
        free = point[-1]
        point = (1.0 - 1.0 / t) * point
        dual *= 1.0 - 1.0 / t
        if treatment == "free":
            point[-1] = free
        for i in batch[problem.y[batch] * scores[batch] < 1.0]:
            change = problem.weights[i] * problem.y[i] / len(batch)
            point += change * rows[i] / (lam * t)
            dual[i] += problem.weights[i] / len(batch) / (lam * t)
            if treatment == "free":
                point[-1] += min(1.0 / (lam * t), t**-0.5) * change
        if project:
            penalized = point if treatment == "augmented" else point[:-1]
            factor = min(1.0, 1.0 / (np.sqrt(lam) * max(1e-300, float(np.linalg.norm(penalized)))))
            penalized *= factor
            dual *= factor
        iterates.append(point.copy())
    return iterates, dual


@pytest.mark.spread(5)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("project", [False, True])
@pytest.mark.parametrize("averaging", ["last", "suffix"])
@pytest.mark.parametrize(
    ("name", "batch_size"),
    [("weighted", 1), ("little regularization", 1), ("much regularization", 1), ("weighted", 6)],
)
def test_projection_and_averages(
    name: str, batch_size: int, averaging: Any, project: bool, intercept: Intercept, form: Form
) -> None:
    """The last iterate, or the mean of those since the fourth epoch; the dual iterate belongs to
    w."""
    problem = problem_of(CASES[name], intercept, form)
    solver = Pegasos(averaging=averaging, project=project, batch_size=batch_size)
    state = solver.start(problem)
    for _ in range(EPOCHS):
        state = solver.advance(problem, state)
    iterates, dual = textbook(problem, CASES[name].X, project, batch_size)
    per_epoch = -(-problem.n_samples // batch_size)
    expected = iterates[-1] if averaging == "last" else np.mean(iterates[4 * per_epoch :], axis=0)
    result = solver.classifier(problem, state)
    tolerance = 1e-9 if form.endswith("64") else 2e-3
    scale = float(np.abs(expected).max())
    np.testing.assert_allclose(result.coefficients, expected[:-1], atol=tolerance * scale)
    assert result.intercept == pytest.approx(expected[-1], abs=tolerance * scale)
    if form.endswith("64"):
        counts = state.violations * problem.weights / (problem.regularization * state.step)
        np.testing.assert_allclose(counts, dual, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_kernel_pegasos(intercept: Intercept, form: Form) -> None:
    """The counts and the scores are those of the textbook on the whole kernel matrix, across blocks
    of drawn rows."""
    random = np.random.default_rng(8)
    X = random.normal(size=(600, 3)).astype(np.float32).astype(np.float64)
    y = np.where(np.einsum("ij,ij->i", X, X) + 0.3 * random.normal(size=600) > 2.0, 1.0, -1.0)
    case = type(CASES["noisy"])(X, y, np.ones(600), 0.01)
    kernel = GaussianKernel(gamma=0.5)
    problem = problem_of(case, intercept, form, kernel=kernel)
    solver = KernelPegasos(kernel=kernel)
    state = solver.start(problem)
    for _ in range(2):
        state = solver.advance(problem, state)

    K = kernel_values(kernel, X, X) + (1.0 if intercept == "augmented" else 0.0)
    counts, b, lam = np.zeros(600), 0.0, 0.01
    order = np.concatenate([problem.permutation(epoch) for epoch in range(2)])
    for t, i in enumerate(order, start=1):
        score = (K[i] @ (counts * y)) / (lam * (t - 1)) + b if t > 1 else 0.0
        if y[i] * score < 1.0:
            counts[i] += 1
            if intercept == "free":
                b += min(1.0 / (lam * t), t**-0.5) * y[i]
    np.testing.assert_array_equal(state.violations, counts)
    result = solver.classifier(problem, state)
    assert isinstance(result, KernelClassifier)
    scores = K @ (counts * y) / (lam * 1200) + (b if intercept == "free" else 0.0)
    np.testing.assert_allclose(evaluate(problem, result)[2], scores, rtol=1e-9, atol=1e-9)


def test_subgradient_is_pegasos_at_twice_the_regularization() -> None:
    """‖w‖² + C Σ hinge is the common form with λ = 2/(nC)."""
    assert SubGradient(C=3.0).regularization(10) == 2.0 * Pegasos(C=3.0).regularization(10)
    X = in_form(CASES["noisy"].X, "dense-float64")
    assert X.shape == (40, 4)
    problem = problem_of(CASES["noisy"], "augmented")
    same, other = SubGradient(), Pegasos(intercept="augmented")
    a = same.advance(problem, same.start(problem))
    b = other.advance(problem, other.start(problem))
    assert a.v.tobytes() == b.v.tobytes()
