"""`smo`: the inner program against its twin, the solver against the exact optimum."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import SVC

from svm import SMO, GaussianKernel, Pipeline, Stopping, Training
from svm.data.matrices import Vector
from svm.kernel.kernels import AnyKernel, LinearKernel, PolynomialKernel
from svm.kernel.row_products import kernel_values
from svm.loops.smo import solve_pairs, solve_singles
from svm.problem.objectives import dual, evaluate
from svm.problem.problem import Problem
from svm.solvers import smo
from svm.solvers.working_sets import WORKING_SET
from svm.training.training import Execution
from tests.svm.cases import twins
from tests.svm.cases.problems import intercepts_of
from tests.svm.cases.trainings import train

GAUSSIAN = GaussianKernel(gamma=0.2)


def two_clouds(n: int, seed: int = 0) -> tuple[Vector, Vector]:
    random = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    return random.normal(size=(n, 5)) + 0.6 * y[:, None], y


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("pairs", [True, False])
def test_steps(pairs: bool, weighted: bool) -> None:
    """Step by step the loops do the same as the textbook."""
    X, y = two_clouds(40)
    gram = kernel_values(GAUSSIAN, X, X)
    upper = np.random.default_rng(1).uniform(0.2, 2.0, size=40) if weighted else np.full(40, 0.8)
    loop, twin = (solve_pairs, twins.solve_pairs) if pairs else (solve_singles, twins.solve_singles)
    a, scores = np.zeros(40), np.zeros(40)
    for _ in range(60):
        expected = twin(gram, y, upper, a, scores, 1)
        assert loop(gram, y.astype(np.int8), y.astype(np.int8), upper, a, scores, 0.0, 1) == 1
        np.testing.assert_allclose(a, expected[0], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(scores, expected[1], rtol=1e-10, atol=1e-13)
    assert (a == upper).any()
    assert ((a > 0) & (a < upper)).any()


@pytest.mark.parametrize("pairs", [True, False])
def test_inner_tolerance(pairs: bool) -> None:
    """The loops end when no violation exceeds the tolerance, and return the number of steps."""
    X, y = two_clouds(40)
    gram, upper = kernel_values(GAUSSIAN, X, X), np.full(40, 0.8)
    a, scores = np.zeros(40), np.zeros(40)
    loop = solve_pairs if pairs else solve_singles
    steps = loop(gram, y.astype(np.int8), y.astype(np.int8), upper, a, scores, 1e-6, 10_000)
    assert 0 < steps < 10_000
    np.testing.assert_allclose(scores, gram @ (a * y), rtol=1e-9, atol=1e-9)
    gradient = y * scores - 1.0
    if pairs:
        assert abs(a @ y) < 1e-12
        residuals = -y * gradient
        highest = residuals[np.where(y > 0, a < upper, a > 0)].max()
        assert highest - residuals[np.where(y > 0, a > 0, a < upper)].min() <= 1e-6
    else:
        assert np.abs(gradient[(a > 0) & (a < upper)]).max() <= 1e-6
        assert gradient[a <= 0].min() >= -1e-6
        assert gradient[a >= upper].max() <= 1e-6
    assert loop(gram, y.astype(np.int8), y.astype(np.int8), upper, a, scores, 1e-6, 10_000) == 0


@pytest.mark.parametrize(
    "kernel", [GAUSSIAN, PolynomialKernel(gamma=0.3), LinearKernel()], ids=repr
)
def test_optimum_is_that_of_libsvm(kernel: AnyKernel) -> None:
    """With more rows than a working set: the certificate encloses LIBSVM's optimum, and the scores
    are LIBSVM's."""
    X, y = two_clouds(2 * WORKING_SET + 77)
    solver = SMO(C=0.5, kernel=kernel)
    training = Training(Pipeline(solver=solver, stopping=Stopping(duality_gap=1e-7)), X, y, seed=0)
    list(training)
    result = training.result()
    assert result.stop_reason == "gap-reached"
    peer = SVC(
        C=0.5,
        kernel={"gaussian": "rbf", "polynomial": "poly", "linear": "linear"}[kernel.name],
        gamma=getattr(kernel, "gamma", 1.0),
        coef0=1.0,
        tol=1e-8,
    ).fit(X, y)
    scores = peer.decision_function(X)
    margin_norm = float(peer.dual_coef_[0] @ (scores[peer.support_] - peer.intercept_[0]))
    optimum = 0.5 * margin_norm + 0.5 * np.maximum(0.0, 1.0 - y * scores).sum()
    worst = result.certificate.worst
    scale = 0.5 * len(y)
    assert worst.dual * scale <= optimum * (1 + 1e-6)
    assert worst.primal * scale >= optimum * (1 - 1e-6)
    np.testing.assert_allclose(result.fitted.decision_function(X), scores, atol=2e-3)


@pytest.mark.parametrize("intercept", intercepts_of("smo"))
def test_scores_and_bound_of_the_state(intercept: str) -> None:
    """Scores and bound from the state equal those computed from the data."""
    X, y = two_clouds(300)
    solver = SMO(C=1.0, kernel=GAUSSIAN, intercept=intercept)  # type: ignore[arg-type]
    problem = Training(Pipeline(solver=solver), X, y, seed=0).problems[0]
    state = solver.start(problem)
    for _ in range(3):
        state = solver.advance(problem, state)
        classifier = solver.classifier(problem, state)
        value, _, scores = evaluate(problem, classifier)
        known, _, same = evaluate(problem, classifier, solver.scores(problem, state))
        np.testing.assert_allclose(same, scores, rtol=1e-9, atol=1e-11)
        assert known == pytest.approx(value, rel=1e-12)
        alpha = state.a * problem.regularization * problem.n_samples
        assert solver.bound(problem, state) == pytest.approx(dual(problem, alpha), rel=1e-9)


def test_free_intercept_is_the_best() -> None:
    """No other b gives these scores a smaller primal value."""
    X, y = two_clouds(101)
    solver = SMO(C=1.0, kernel=GAUSSIAN)
    problem = Training(Pipeline(solver=solver, class_weight={"1.0": 2.5}), X, y, seed=0).problems[0]
    state = solver.advance(problem, solver.start(problem))
    best = smo._intercept(problem, state)

    def loss(b: float) -> float:
        return float((problem.weights * np.maximum(0, 1 - problem.y * (state.scores + b))).sum())

    others = [loss(b) for b in problem.y - state.scores]  # the corners of a convex function
    assert loss(best) <= min(others) * (1 + 1e-12)


def test_few_rows_of_many_are_support_vectors() -> None:
    """Rows outside the margin have no coefficient, and are not in the model."""
    random = np.random.default_rng(3)
    y = np.where(np.arange(800) % 2 == 0, 1.0, -1.0)
    X = random.normal(size=(800, 3)) + 2.5 * y[:, None]
    training = Training(Pipeline(solver=SMO(C=1.0, kernel=GAUSSIAN)), X, y, seed=0)
    list(training)
    result = training.result()
    assert result.n_support_vectors < 200
    assert result.fitted.predict(X).tolist() == y.tolist()


def test_threads_change_no_bit() -> None:
    """Threads give the bits of one thread."""
    X, y = two_clouds(700)
    models = []
    for threads in (1, 3):
        pipeline = Pipeline(solver=SMO(kernel=GAUSSIAN))
        training = Training(pipeline, X, y, seed=0, how=Execution(threads=threads))
        assert training.problems[0].executor.threads == threads
        for _ in training:
            pass
        models.append(training.result().fitted)
    np.testing.assert_array_equal(models[0].coefficients, models[1].coefficients)
    assert models[0].intercepts == models[1].intercepts


@pytest.mark.parametrize("C", [1e-2, 1e2, 1e5])
@pytest.mark.parametrize("size", [1e-5, 1e3, 1e5])
def test_tolerances_follow_the_size_of_the_problem(size: float, C: float) -> None:
    """Separable rows far from unit size are solved, though violations of 1e-9 cost more than the
    whole optimum."""
    X = np.random.default_rng(0).normal(size=(60, 2)) * size
    solver = SMO(C=C, kernel=LinearKernel())
    training = train(Pipeline(solver=solver), X, X[:, 0] > 0)
    certificate = training.result().certificate
    worst = certificate.worst
    rounding = 1e-14 * worst.zero_cost  # of hinge losses
    assert worst.gap <= 1e-3 * worst.primal + rounding


@pytest.mark.parametrize("n", [900, 2100])
def test_matrix_of_a_working_set_has_the_same_bits_kept_or_computed(n: int) -> None:
    """Of rows that stay in the set it is kept; of many rows, those whose variables do not change
    are not computed. A state after a restart, with nothing kept, is the same."""
    X, y = two_clouds(n)

    def problem() -> Problem:
        return Training(Pipeline(solver=SMO(kernel=GAUSSIAN)), X, y, seed=0).problems[0]

    solver, kept = SMO(kernel=GAUSSIAN), problem()
    state = again = solver.start(kept)
    for _ in range(6):
        state, again = solver.advance(kept, state), solver.advance(problem(), again)
        np.testing.assert_array_equal(again.a, state.a)
        np.testing.assert_array_equal(again.scores, state.scores)
    asked = WORKING_SET + 5 * WORKING_SET // 2
    assert len(kept.kernel_rows._kept) < (n if n < asked else asked)
