"""Features that are chosen products of powers of named columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from svm.data.columns import Column, PlainColumns
from svm.encoding.encoder import Encoder
from svm.errors import InvalidData, InvalidHyperparameter
from svm.estimator import SVMClassifier
from svm.model.pipeline import Pipeline
from svm.solvers import Newton
from svm.training.training import Training
from svm.transforms.features import Terms, fit_features
from tests.svm.cases.trainings import run

CHOSEN = Terms(terms=[{"y": 2}, {"x": 1, "z": 3}, {"x": 1}])
X = np.random.default_rng(3).normal(size=(60, 3))
CIRCLE = np.where((X[:, :2] ** 2).sum(axis=1) < 1.2, 1, 0)
ONLY_SQUARES = Terms(terms=[{"x": 2}, {"y": 2}])


def trained(spec: Terms, rows: Any, **others: Any) -> Training:
    pipeline = Pipeline(solver=Newton(C=1000.0), features=spec)
    training = Training(pipeline, rows, CIRCLE, seed=0, **others)
    run(training)
    return training


def test_values_and_names() -> None:
    fitted = fit_features(CHOSEN, X, 0, {"x": 0, "y": 1, "z": 2})
    x, y, z = X.T
    expected = np.column_stack([y * y, x * z * z * z, x])
    np.testing.assert_array_equal(np.asarray(fitted.transform(X)), expected)
    assert fitted.output_names(["x", "y", "z"]) == ["y*y", "x*z*z*z", "x"]
    assert fitted.n_outputs == 3


def test_circle_is_found_by_its_squares() -> None:
    """By their names, or by their positions: the same model."""
    fitted = trained(ONLY_SQUARES, X, columns=PlainColumns(["x", "y", "z"], 3)).result().fitted
    assert (fitted.predict(X) == CIRCLE).mean() > 0.95
    positions = trained(Terms(terms=[{"0": 2}, {"1": 2}]), X).result().fitted
    np.testing.assert_array_equal(positions.coefficients, fitted.coefficients)


def test_columns_of_a_table() -> None:
    """Numbers and booleans are called by their names; a category moves no other column."""
    kind, on_off = Column("kind", "category", ("a", "b")), Column("on", "boolean")
    table = (kind, Column("x"), on_off, Column("y"))
    on = (X[:, 2] > 0).astype(float)
    raw = np.column_stack([on, X[:, 0], on, X[:, 1]])
    fitted = trained(Terms(terms=[{"x": 2}, {"y": 1, "on": 1}]), raw, columns=table).result().fitted
    assert isinstance(fitted.encoder, Encoder)
    names = fitted.features.output_names(fitted.encoder.output_names)
    assert names == ["x*x", "y*on"]
    for bad, reason in (("kind", "has the kind category"), ("w", "there is no column 'w'")):
        with pytest.raises(InvalidData, match=reason):
            trained(Terms(terms=[{bad: 1}]), raw, columns=table)


def test_names_of_a_data_frame() -> None:
    """`SVMClassifier` takes them from the frame's columns."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["x", "y", "z"])
    model = SVMClassifier(solver=Newton(C=1000.0), features=ONLY_SQUARES).fit(frame, CIRCLE)
    assert model.score(frame, CIRCLE) > 0.95


@pytest.mark.parametrize(
    ("terms", "reason"),
    [
        ([], "expected 1 … 1000"),
        ([{}], "1 … 20 factors"),
        ([{"x": 10, "y": 10, "z": 1}], "1 … 20 factors"),
        ([{"x": 1, "y": 1}, {"y": 1, "x": 1}], "every term once"),
        ([{"x": 0}], "terms"),
        ([{"x": 11}], "terms"),
        ([{"x": 1.5}], "terms"),
        ([{"x": True}], "terms"),
        ([["x"]], "terms"),
        ("x", "terms"),
    ],
)
def test_wrong_terms(terms: Any, reason: str) -> None:
    with pytest.raises(InvalidHyperparameter, match=reason):
        Terms(terms=terms)


def test_sparse_rows_are_refused() -> None:
    with pytest.raises(InvalidData, match="terms features of sparse data would be dense"):
        fit_features(Terms(terms=[{"0": 2}]), csr_array(X), 0)
