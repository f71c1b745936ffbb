"""Weights of rows: a row of weight 2 counts as two equal rows, one of weight 0 as none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.svm import SVC, LinearSVC

from svm.errors import CheckpointMismatch, InvalidData
from svm.kernel.kernels import GaussianKernel, LinearKernel
from svm.model.pipeline import Pipeline
from svm.problem.objectives import primal
from svm.solvers import (
    SMO,
    SOLVERS,
    DualCoordinateDescent,
    GradientDescent,
    Newton,
    Pegasos,
)
from svm.stopping import Stopping
from svm.training.training import Execution, Training
from tests.svm.cases.problems import blobs, intercepts_of, solver_of
from tests.svm.cases.stored import stored
from tests.svm.cases.trainings import bits, train

EXACT = Stopping(duality_gap=1e-13, max_epochs=100_000)
SHORT = Stopping(duality_gap=1e-4, max_epochs=400)


def weighted(n_classes: int = 2) -> tuple[Any, Any, Any]:
    """Rows, labels and weights 0 … 3; the weights of the classes differ."""
    X, y = blobs(n_classes, n_rows=20)
    random = np.random.default_rng(5)
    return X, y, random.integers(0, 3 + (y == 0), size=len(y))


@pytest.mark.parametrize("class_weight", [None, "balanced", {"0": 2.5}])
@pytest.mark.parametrize("multiclass", ["one-vs-one", "one-vs-rest"])
@pytest.mark.parametrize(
    "solver",
    [
        Newton(C=0.7),
        Newton(C=0.7, intercept="free"),
        Newton(lambda_=0.02),
        DualCoordinateDescent(C=0.7),
        SMO(C=0.7, kernel=LinearKernel()),
        SMO(lambda_=0.02, kernel=GaussianKernel(gamma=0.3)),
        GradientDescent(C=0.7, learning_rate=1e-3),
        GradientDescent(lambda_=0.02, learning_rate=1e-3, intercept="augmented"),
    ],
)
def test_weights_are_repeated_rows(solver: Any, multiclass: Any, class_weight: Any) -> None:
    """The objective is the same to 12 digits, given C or λ, with class weights: of the optimum by
    the solvers that reach it, after 200 epochs by batch descent."""
    tolerance, stopping = 1e-12, EXACT
    if isinstance(solver, GradientDescent):
        stopping = Stopping(max_epochs=200)
    X, y, weights = weighted(3)
    pipeline = Pipeline(
        solver=solver, multiclass=multiclass, class_weight=class_weight, stopping=stopping
    )
    one = train(pipeline, X, y, weights=weights).result()
    other = train(pipeline, np.repeat(X, weights, axis=0), np.repeat(y, weights)).result()
    for first, second in zip(one.certificate.pairs, other.certificate.pairs, strict=True):
        assert first.primal == pytest.approx(second.primal, rel=tolerance)
        assert first.solver_objective == pytest.approx(second.solver_objective, rel=tolerance)


@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_respects_weights(name: str) -> None:
    """Its certificate holds for the repeated rows: the primal value of its weights is theirs, and
    its bound is below their optimum."""
    X, y, weights = weighted()
    for intercept in intercepts_of(name):
        solver = solver_of(name, lambda_=0.1, intercept=intercept)
        pipeline = Pipeline(solver=solver, stopping=SHORT)
        training = train(pipeline, X, y, weights=weights)
        repeated = train(
            replace(pipeline, solver=replace(solver, C=None)),
            np.repeat(X, weights, axis=0),
            np.repeat(y, weights),
        )
        result = training.result()
        pair, same = result.certificate.worst, repeated.result().certificate.worst
        assert pair.relative_gap <= 0.02
        assert pair.dual <= same.primal * (1 + 1e-12)
        assert same.dual <= pair.primal * (1 + 1e-12)
        if result.fitted.kernel is None:
            w, b = result.fitted.coefficients[0], float(result.fitted.intercepts[0])
            assert primal(repeated.problems[0], w, b) == pytest.approx(pair.primal, rel=1e-12)


@pytest.mark.parametrize("C", [0.05, 1.0, 20.0])
def test_same_as_scikit_learn(C: float) -> None:
    """LIBSVM's objective with a free intercept, LIBLINEAR's with an augmented one: ours is nowhere
    above theirs, and the scores are equal to six digits and to eight."""
    X, y, _ = weighted()
    weights = np.random.default_rng(1).uniform(0.1, 4.0, size=len(y))
    for solver in (Newton(C=C, intercept="free"), SMO(C=C, kernel=LinearKernel())):
        libsvm = SVC(kernel="linear", C=C, tol=1e-10).fit(X, y, sample_weight=weights)
        assert_as_good(solver, X, y, weights, libsvm, 1e-6)
    liblinear = LinearSVC(loss="hinge", C=C, tol=1e-10, max_iter=10**7)
    liblinear.fit(X, y, sample_weight=weights)
    assert_as_good(DualCoordinateDescent(C=C), X, y, weights, liblinear, 1e-8)


def assert_as_good(
    solver: Any, X: Any, y: Any, weights: Any, theirs: Any, tolerance: float
) -> None:
    """The objective is not above that of another model, and the scores are equal."""
    training = train(Pipeline(solver=solver, stopping=EXACT), X, y, weights=weights)
    result = training.result()
    scores = result.fitted.decision_function(X)
    np.testing.assert_allclose(scores, theirs.decision_function(X), rtol=0, atol=tolerance)
    w, b = theirs.coef_[0], float(theirs.intercept_[0])
    objective = primal(training.problems[0], w, b)
    assert result.certificate.worst.primal <= objective * (1 + 1e-12)
    assert objective == pytest.approx(result.certificate.worst.primal, rel=tolerance)


def test_equal_weights_change_no_bit_given_lambda() -> None:
    """Weights of 1 are no weights."""
    X, y, _ = weighted(3)
    pipeline = Pipeline(solver=Newton(lambda_=0.1), class_weight="balanced")
    plain = train(pipeline, X, y).result()
    assert bits(train(pipeline, X, y, weights=np.ones(len(y))).result()) == bits(plain)


@pytest.mark.parametrize("solver", [Newton(), DualCoordinateDescent(), SMO()])
def test_rows_of_weight_zero_are_left_out(solver: Any) -> None:
    """Scaling and kernel are learned without them, and the model has the same bits; the rows of a
    warm start have their numbers in all rows."""
    X, y, weights = weighted(3)
    kept = weights > 0
    X[~kept] *= 1000.0
    pipeline = Pipeline(solver=solver, scaling="standardize")
    one = train(pipeline, X, y, weights=weights).result()
    other = train(pipeline, X[kept], y[kept], weights=weights[kept]).result()
    assert bits(one) == bits(other)
    rows = np.flatnonzero(kept)
    np.testing.assert_array_equal(one.warm_start.rows, rows[other.warm_start.rows])
    if solver.name == "dual-coordinate-descent":
        warm = train(pipeline, X, y, weights=weights, warm_start=one.warm_start).result()
        start = other.warm_start
        again = train(pipeline, X[kept], y[kept], weights=weights[kept], warm_start=start)
        assert bits(warm) == bits(again.result())


def test_rows_in_files_have_weights(tmp_path: Any) -> None:
    """The bits are those in memory."""
    X, y, weights = weighted()
    pipeline = Pipeline(solver=Pegasos(order="blocks"), stopping=SHORT)
    in_memory = train(pipeline, X, y, weights=weights).result()
    assert bits(train(pipeline, stored(X, tmp_path), y, weights=weights).result()) == bits(
        in_memory
    )


def test_checkpoint_belongs_to_weights() -> None:
    """Other weights are another training, also with a digest of the data."""
    X, y, weights = weighted()
    pipeline = Pipeline(solver=Newton())
    training = Training(pipeline, X, y, seed=0, weights=weights, how=Execution(digest="d"))
    checkpoint = training.checkpoint()
    Training(
        pipeline, X, y, seed=0, weights=weights, checkpoint=checkpoint, how=Execution(digest="d")
    )
    for other in (2 * weights, None, np.ones(len(y))):
        with pytest.raises(CheckpointMismatch):
            Training(
                pipeline,
                X,
                y,
                seed=0,
                weights=other,
                checkpoint=checkpoint,
                how=Execution(digest="d"),
            )


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda w: w[:-1], "bad-shape"),
        (lambda w: -w, "bad-weights"),
        (lambda w: w * np.nan, "bad-weights"),
        (lambda w: w * np.inf, "bad-weights"),
        (lambda w: w * 1e-200, "bad-weights"),
        (lambda w: ["heavy"] * len(w), "bad-weights"),
        (lambda w: 0 * w, "empty-data"),
    ],
)
def test_bad_weights_are_refused(change: Any, code: str) -> None:
    """With the first row that is wrong."""
    X, y, weights = weighted()
    with pytest.raises(InvalidData) as error, np.errstate(invalid="ignore"):
        Training(Pipeline(solver=Newton()), X, y, seed=0, weights=change(weights + 1.0))
    assert error.value.code == code


def test_class_without_weight_is_no_class() -> None:
    """With one class left, training is refused."""
    X, y, _ = weighted(3)
    weights = np.where(y == 2, 0.0, 1.0)
    fitted = train(Pipeline(solver=Newton()), X, y, weights=weights).result().fitted
    assert fitted.classes.tolist() == [0, 1]
    with pytest.raises(InvalidData, match="only one class"):
        Training(Pipeline(solver=Newton()), X, y, seed=0, weights=(y == 1))
