"""`SVMClassifier` is an estimator as scikit-learn means it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import svm
from svm import SVMClassifier

ESTIMATORS = [
    SVMClassifier(),
    SVMClassifier("dual-coordinate-descent", multiclass="one-vs-rest"),
    SVMClassifier("kernel-pegasos", regularization=0.01, max_epochs=10),
]


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(ESTIMATORS)  # type: ignore[untyped-decorator]
def test_protocol(estimator: SVMClassifier, check: Callable[[Any], None]) -> None:
    """All of scikit-learn's own checks."""
    check(estimator)


def test_in_a_pipeline_and_a_grid_search() -> None:
    """It can be cloned, scaled for, and searched over; the best model is certified."""
    X, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), clone(SVMClassifier()))
    search = GridSearchCV(pipeline, {"svmclassifier__C": [0.01, 1.0]}, cv=3).fit(X, y)
    assert search.best_params_ == {"svmclassifier__C": 1.0}
    assert search.score(X, y) >= 0.94
    best = search.best_estimator_.named_steps["svmclassifier"]
    assert best.result_.certificate.worst.relative_gap <= 1e-3


def test_is_reached_through_the_package() -> None:
    """`svm.SVMClassifier`, and no other unknown name."""
    assert svm.SVMClassifier is SVMClassifier
    with pytest.raises(AttributeError, match="nothing"):
        svm.nothing  # noqa: B018
