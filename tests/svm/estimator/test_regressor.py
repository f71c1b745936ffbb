"""`SVMRegressor` against scikit-learn's SVR and LinearSVR, and in its tools."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR, LinearSVR

import svm
from svm import DualCoordinateDescent, GaussianKernel, InvalidHyperparameter, Newton, SVMRegressor
from svm.model.target import Target

X, Y = load_diabetes(return_X_y=True)
X = X / X.std(axis=0)
UNIT = Y.std()


def target_of(model: SVMRegressor) -> Target:
    """What the model predicts."""
    target = model.fitted_.target
    assert target is not None
    return target


def test_attributes_equal_those_of_svr() -> None:
    """The losses count in standard deviations of the target, so SVR has C times as much."""
    kernel = GaussianKernel(gamma=0.05)
    ours = SVMRegressor(C=0.5, kernel=kernel, epsilon=20.0, duality_gap=1e-9).fit(X, Y)
    theirs = SVR(C=0.5 * UNIT, gamma=0.05, epsilon=20.0, tol=1e-9).fit(X, Y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-3)
    assert ours.support_.tolist() == sorted(theirs.support_.tolist())
    np.testing.assert_array_equal(ours.support_vectors_, X[ours.support_])
    np.testing.assert_array_equal(ours.n_support_, theirs.n_support_)
    assert np.abs(ours.dual_coef_).max() <= 0.5 * UNIT * (1 + 1e-12)
    made = rbf_kernel(X, ours.support_vectors_, gamma=0.05) @ ours.dual_coef_[0] + ours.intercept_
    np.testing.assert_allclose(made, ours.predict(X), atol=1e-9)
    assert target_of(ours).epsilon == pytest.approx(20.0)
    assert not hasattr(ours, "coef_")


@pytest.mark.parametrize("loss", ["epsilon-insensitive", "squared-epsilon-insensitive"])
@pytest.mark.parametrize("scaling", ["none", "standardize"])
def test_coefficients_equal_those_of_linear_svr(loss: str, scaling: str) -> None:
    """Of both losses; for rows as given, whatever the scaling."""
    solver = DualCoordinateDescent(intercept="none")
    ours = SVMRegressor(
        *(solver,), C=0.1, loss=loss, epsilon=5.0, scaling=scaling, duality_gap=1e-9
    ).fit(X, Y - Y.mean())
    assert ours.coef_.shape == (10,)
    np.testing.assert_allclose(X @ ours.coef_ + ours.intercept_, ours.predict(X), atol=1e-9)
    if scaling == "none":
        C = 0.1 if loss.startswith("squared") else 0.1 * UNIT
        theirs = LinearSVR(
            C=C,
            loss=loss.replace("-", "_"),
            epsilon=5.0,
            fit_intercept=False,
            tol=1e-9,
            max_iter=1_000_000,
        ).fit(X, Y - Y.mean())
        np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=2e-3, atol=0.05)


def test_no_default_depends_on_the_unit() -> None:
    """Of a target in millions, or near 0: the same model, ε among it."""
    plain = SVMRegressor().fit(X, Y)
    for unit in (1e6, 1e-6):
        other = SVMRegressor().fit(X, unit * (Y + 7.0))
        np.testing.assert_allclose(other.predict(X) / unit - 7.0, plain.predict(X), rtol=1e-5)
        expected = unit * target_of(plain).epsilon
        assert target_of(other).epsilon == pytest.approx(expected, rel=1e-6)
    assert plain.score(X, Y) > 0.5
    assert plain.result_.certificate.worst.relative_gap <= 1e-3


@pytest.mark.parametrize("loss", ["epsilon-insensitive", "squared-epsilon-insensitive"])
def test_sample_weights_are_repeated_rows(loss: str) -> None:
    """For center, scale and ε of the target, too."""
    weights = np.arange(len(Y)) % 3
    one = SVMRegressor(loss=loss, duality_gap=1e-9).fit(X, Y, sample_weight=weights)
    other = clone(one).fit(np.repeat(X, weights, axis=0), np.repeat(Y, weights))
    np.testing.assert_allclose(one.predict(X), other.predict(X), rtol=1e-6)
    ours, theirs = target_of(one), target_of(other)
    assert (ours.center, ours.logarithm) == (theirs.center, theirs.logarithm)
    assert ours.scale == pytest.approx(theirs.scale, rel=1e-12)
    assert ours.epsilon == pytest.approx(theirs.epsilon, rel=1e-9)


def test_logarithms_of_skewed_targets() -> None:
    """`predict` gives values; `coef_` is that of their logarithm."""
    y = np.exp(0.3 * X[:, 0] + 1.0)
    model = SVMRegressor(target_scale="logarithmic", C=100.0, epsilon=1e-4).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, rtol=2e-3)
    np.testing.assert_allclose(np.exp(X @ model.coef_ + model.intercept_), model.predict(X))


def test_default_solver_and_sparse_rows() -> None:
    """As for classes; a small sparse matrix gives the model of the dense one."""
    dense = SVMRegressor().fit(X, Y)
    few = SVMRegressor().fit(sparse.csr_array(X), Y)
    np.testing.assert_array_equal(few.coef_, dense.coef_)
    np.testing.assert_array_equal(few.predict(sparse.csr_array(X)), dense.predict(X))
    wide = sparse.hstack([sparse.csr_array(X), sparse.csr_array((442, 9_990))]).tocsr()
    assert "auto chose" in SVMRegressor().fit(wide, Y).result_.notes[0]
    assert isinstance(SVMRegressor(kernel="rbf").fit(X, Y).fitted_.kernel, GaussianKernel)


def test_losses_of_classes_are_refused() -> None:
    """And losses of numbers by the classifier, with the names that can be given."""
    with pytest.raises(InvalidHyperparameter, match="epsilon-insensitive or squared-epsilon-ins"):
        SVMRegressor(Newton(loss="hinge")).fit(X, Y)
    with pytest.raises(InvalidHyperparameter, match="hinge or squared-hinge"):
        svm.SVMClassifier(Newton(loss="epsilon-insensitive")).fit(X, Y > 100)
    with pytest.raises(InvalidHyperparameter, match="'squared-epsilon-insensitive'"):
        SVMRegressor(loss="huber").fit(X, Y)


def test_with_the_rest_of_scikit_learn() -> None:
    """Pipelines, searches over parameters of solver and loss, pickles."""
    pipeline = make_pipeline(StandardScaler(), SVMRegressor(kernel="rbf"))
    grid: dict[str, Any] = {
        "svmregressor__kernel__gamma": [0.01, "scale"],
        "svmregressor__epsilon": [None, 30.0],
    }
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, Y)
    assert search.best_score_ > 0.4
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict(X), search.predict(X))
    assert cross_val_score(SVMRegressor(), X, Y).mean() > 0.45
