"""`SVMClassifier` and `SVMRegressor` are estimators as scikit-learn defines them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import svm
from svm import GaussianKernel, InvalidHyperparameter, SVMClassifier, SVMRegressor
from tests.svm.cases.trainings import bits

ESTIMATORS = [
    SVMClassifier(),
    SVMClassifier("dual-coordinate-descent", multiclass="one-vs-rest"),
    SVMClassifier("kernel-pegasos", regularization=0.01, max_epochs=10),
    SVMClassifier(svm.Pegasos(lambda_=0.01), max_epochs=100),
    SVMClassifier("smo", kernel=svm.GaussianKernel(gamma=0.5), calibration="sigmoid"),
    SVMRegressor(),
    SVMRegressor("dual-coordinate-descent", loss="squared-epsilon-insensitive", epsilon=0.1),
    SVMRegressor(kernel="rbf"),
]


def not_expected(estimator: SVMClassifier | SVMRegressor) -> dict[str, str]:
    """The checks that an estimator cannot pass, and why."""
    if estimator.solver is None and estimator.kernel is None:
        return {}
    why = "repeated rows are drawn in another order: equal up to the gap, not in nine digits"
    if estimator.kernel is not None:
        why = "repeated rows are in other working sets: equal up to the gap, not in nine digits"
    if getattr(estimator, "calibration", None):
        why = "repeated rows are in other folds"
    checks = ("on_dense_data", "on_sparse_data")
    return {f"check_sample_weight_equivalence_{check}": why for check in checks}


@pytest.mark.spread(7)
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=not_expected)  # type: ignore[untyped-decorator]
def test_protocol(estimator: Any, check: Callable[[Any], None]) -> None:
    """All of scikit-learn's own checks."""
    check(estimator)


def test_default_solver_is_a_fast_one_for_the_rows() -> None:
    """`newton` for dense rows and small sparse ones, `auto` for other sparse ones, `smo` with a
    kernel; a linear kernel is none for solvers without kernels."""
    X, y = load_iris(return_X_y=True)
    wide = csr_matrix((X.ravel(), (np.arange(600) // 4, np.arange(600) * 17)), shape=(150, 10_200))
    default, newton = SVMClassifier().fit(X, y), SVMClassifier("newton").fit(X, y)
    assert bits(default.result_) == bits(newton.result_)
    assert bits(SVMClassifier().fit(csr_matrix(X), y).result_) == bits(newton.result_)
    assert bits(SVMClassifier(kernel="linear").fit(X, y).result_) == bits(newton.result_)
    assert "auto chose" in SVMClassifier().fit(wide, y).result_.notes[0]
    assert SVMClassifier("newton").fit(wide, y).result_.notes == ()
    smo = SVMClassifier("smo", kernel=GaussianKernel(gamma="scale"))
    rbf = SVMClassifier(kernel="rbf").set_params(kernel__gamma="scale")
    assert bits(rbf.fit(X, y).result_) == bits(smo.fit(X, y).result_)
    squared = SVMClassifier(svm.Newton(loss="squared-hinge")).fit(X, y)
    assert bits(SVMClassifier(loss="squared-hinge").fit(X, y).result_) == bits(squared.result_)
    with pytest.raises(InvalidHyperparameter, match="smo or None with the kernel gaussian"):
        SVMClassifier("newton", kernel="rbf").fit(X, y)


def test_in_a_pipeline_and_a_grid_search() -> None:
    """It can be cloned, scaled for, and searched over; the best model is certified."""
    X, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), clone(SVMClassifier()))
    search = GridSearchCV(pipeline, {"svmclassifier__C": [0.01, 1.0]}, cv=3).fit(X, y)
    assert search.best_params_ == {"svmclassifier__C": 1.0}
    assert search.score(X, y) >= 0.94
    best = search.best_estimator_.named_steps["svmclassifier"]
    assert best.result_.certificate.worst.relative_gap <= 1e-3


def test_sample_weights_are_repeated_rows() -> None:
    """With any number of classes; scikit-learn's own checks pass them too."""
    X, y = load_iris(return_X_y=True)
    weights = np.arange(len(y)) % 3
    estimator = SVMClassifier(duality_gap=1e-10)
    one = clone(estimator).fit(X, y, sample_weight=weights)
    other = clone(estimator).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-5)


@pytest.mark.parametrize("labels", [int, float, bool, str])
def test_numbers_of_numpy_are_numbers(labels: type) -> None:
    """As `GridSearchCV` takes them from an array, or `np.unique` gives them as keys; a class is
    found by a label equal to it."""
    X, y = load_iris(return_X_y=True)
    X, y = X[50:], (y[50:] == 2).astype(labels)
    weights = np.array([1, 3])
    of_numpy: dict[str, Any] = {
        "C": np.int64(2),
        "kernel": GaussianKernel(gamma=np.float32(0.5)),  # type: ignore[arg-type]
        "class_weight": dict(zip(np.unique(y), weights, strict=True)),
        "max_epochs": np.int64(50),
    }
    plain: dict[str, Any] = {
        "C": 2,
        "kernel": GaussianKernel(gamma=0.5),
        "class_weight": dict(zip(np.unique(y).tolist(), weights.tolist(), strict=True)),
        "max_epochs": 50,
    }
    first, second = (
        SVMClassifier("smo", **options).fit(X, y).result_ for options in (of_numpy, plain)
    )
    assert bits(first) == bits(second)
    if labels is float:
        plain["class_weight"] = {0: 1, 1: 3}
        assert bits(SVMClassifier("smo", **plain).fit(X, y).result_) == bits(first)


def test_is_reached_through_the_package() -> None:
    """`svm.SVMClassifier` and `svm.SVMRegressor` exist, other unknown names do not."""
    assert svm.SVMClassifier is SVMClassifier
    assert svm.SVMRegressor is SVMRegressor
    with pytest.raises(AttributeError, match="nothing"):
        svm.nothing  # noqa: B018


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("n_jobs", "threads"), [(1, 1), (3, 3), (-1, 4), (-2, 3), (-9, 1)], ids=str
)
def test_n_jobs_is_counted_as_elsewhere(
    n_jobs: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """-1 means every processor, here 4; the model is the same to the bit."""
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    X, y = load_iris(return_X_y=True)
    estimator = SVMClassifier("pegasos", max_epochs=3, n_jobs=n_jobs).fit(X, y)
    assert estimator._threads() == threads
    alone = SVMClassifier("pegasos", max_epochs=3).fit(X, y)
    assert bits(estimator.result_) == bits(alone.result_)


def test_no_jobs_at_all_is_refused() -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(InvalidHyperparameter, match="n_jobs"):
        SVMClassifier(n_jobs=0).fit(X, y)
