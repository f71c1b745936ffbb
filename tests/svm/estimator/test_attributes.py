"""Attributes, probabilities and streams of `SVMClassifier`, against scikit-learn's SVMs."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.ensemble import AdaBoostClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.inspection import permutation_importance
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC

from svm import (
    DualCoordinateDescent,
    GaussianKernel,
    InvalidHyperparameter,
    Newton,
    Nystroem,
    Pegasos,
    SVMClassifier,
)

X, Y = load_iris(return_X_y=True)
TWO = slice(50, 150)
GAUSSIAN = GaussianKernel(gamma=0.5)


def test_attributes_equal_those_of_svc() -> None:
    """Support vectors, duals and intercepts of three pairs; the scores follow from them."""
    ours = SVMClassifier("smo", C=2.0, kernel=GAUSSIAN, duality_gap=1e-9).fit(X, Y)
    theirs = SVC(C=2.0, gamma=0.5, tol=1e-10, decision_function_shape="ovo").fit(X, Y)
    assert ours.support_.tolist() == sorted(theirs.support_.tolist())
    np.testing.assert_array_equal(ours.support_vectors_, X[ours.support_])
    np.testing.assert_array_equal(ours.n_support_, theirs.n_support_)
    assert np.abs(ours.dual_coef_).max() <= 2.0
    scores = rbf_kernel(X, ours.support_vectors_, gamma=0.5) @ ours.dual_coef_.T + ours.intercept_
    np.testing.assert_allclose(scores, -theirs.decision_function(X), atol=1e-5)
    assert not hasattr(ours, "coef_")


@pytest.mark.parametrize("scaling", ["none", "standardize"])
@pytest.mark.parametrize(
    ("solver", "kernel"), [(Newton(intercept="free"), None), ("smo", "linear")], ids=["newton", ""]
)
def test_coefficients_equal_those_of_svc(solver: Any, kernel: Any, scaling: str) -> None:
    """They apply to rows as given, whatever the scaling."""
    ours = SVMClassifier(solver, kernel=kernel, scaling=scaling, duality_gap=1e-10)
    ours.fit(X[TWO], Y[TWO])
    scores = X[TWO] @ ours.coef_[0] + ours.intercept_[0]
    np.testing.assert_allclose(scores, ours.decision_function(X[TWO]), atol=1e-9)
    if scaling == "none":
        theirs = SVC(kernel="linear", tol=1e-10).fit(X[TWO], Y[TWO])
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
        np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_coefficients_equal_those_of_linear_svc(form: Any) -> None:
    """One-vs-rest with a penalized intercept; the weights are sums over the support vectors."""
    ours = SVMClassifier(
        DualCoordinateDescent(C=0.1), multiclass="one-vs-rest", duality_gap=1e-9, max_epochs=100_000
    ).fit(form(X), Y)
    theirs = LinearSVC(loss="hinge", C=0.1, tol=1e-9, max_iter=10_000_000).fit(X, Y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5)
    np.testing.assert_allclose(ours.dual_coef_ @ ours.support_vectors_, ours.coef_, atol=1e-6)


def test_refitting_forgets_attributes() -> None:
    model = SVMClassifier("smo", kernel="linear").fit(X, Y)
    assert {"coef_", "support_", "dual_coef_"} <= vars(model).keys()
    model.set_params(solver="newton", kernel=None, features=Nystroem(n_components=20)).fit(X, Y)
    assert not {"coef_", "support_", "dual_coef_"} & vars(model).keys()


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic"])
def test_probabilities_are_calibrated(calibration: Any) -> None:
    """Better than the rates of the classes by far, for three classes and two."""
    for rows in (slice(None), TWO):
        model = SVMClassifier("smo", kernel=GAUSSIAN, calibration=calibration).fit(X[rows], Y[rows])
        probabilities = model.predict_proba(X[rows])
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
        assert log_loss(Y[rows], probabilities) < 0.25
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X[rows])), probabilities)
    assert not hasattr(SVMClassifier(), "predict_proba")


def _pegasos(X: Any, y: Any, weights: Any, regularization: float) -> Any:
    """The paper's figure 1: w, (n_features,)."""
    w = np.zeros(X.shape[1])
    for t, (x, label, weight) in enumerate(zip(X, y, weights, strict=True), 1):
        inside = label * (w @ x) < 1.0
        w = (1.0 - 1.0 / t) * w
        if inside:
            w = w + weight * label * x / (regularization * t)
    return w


def test_stream_equals_a_transcription_of_the_paper() -> None:
    """In parts of any size, also with rows of one class only; rows of weight 0 are left out."""
    order = np.random.default_rng(0).permutation(len(Y))
    weights = np.arange(len(Y)) % 3 * 0.5
    weights[order[:51]] = 1.0
    model = SVMClassifier(Pegasos(lambda_=0.1, intercept="augmented"))
    for part in np.split(order, [1, 2, 50, 51, 120]):
        model.partial_fit(X[part], Y[part], classes=[0, 1, 2], sample_weight=weights[part])
    for k, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)]):
        rows = order[np.isin(Y[order], (i, j)) & (weights[order] > 0)]
        constant = np.column_stack([X, np.ones(len(X))])
        sides = np.where(Y[rows] == j, 1.0, -1.0)
        w = _pegasos(constant[rows], sides, weights[rows], 0.1)
        np.testing.assert_allclose(model.coef_[k], w[:4], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(model.intercept_[k], w[4], rtol=1e-12, atol=1e-12)


def test_stream_continues_a_fit() -> None:
    """With its step size, so that a row more changes little."""
    model = SVMClassifier(Pegasos(C=1.0), max_epochs=200, duality_gap=0.2)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, Y)
    before = model.coef_
    model.partial_fit(X[:1], Y[:1])
    assert 0.0 < np.abs(model.coef_ - before).max() < 0.05 * np.abs(before).max()
    assert model.score(X, Y) > 0.9


def test_stream_needs_a_number_and_known_classes() -> None:
    with pytest.raises(ValueError, match="classes must be given"):
        SVMClassifier(Pegasos(lambda_=0.1)).partial_fit(X, Y)
    with pytest.raises(InvalidHyperparameter, match="regularization"):
        SVMClassifier("pegasos").partial_fit(X, Y, classes=[0, 1, 2])
    model = SVMClassifier("pegasos", regularization=0.1).partial_fit(X, Y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="not one of the classes"):
        model.partial_fit(X, Y + 1)
    with pytest.raises(ValueError, match="classes differ"):
        model.partial_fit(X, Y, classes=[0, 1])
    assert not hasattr(SVMClassifier("newton"), "partial_fit")


def test_stream_refuses_weights_that_a_fit_refuses() -> None:
    online = SVMClassifier("pegasos", regularization=0.1)
    X, y = np.eye(4), [0, 1, 0, 1]
    with pytest.raises(ValueError, match=r"row 2 .* has the weight -1"):
        online.partial_fit(X, y, classes=[0, 1], sample_weight=[1, 1, -1, 1])


def test_nested_parameters() -> None:
    """Of objects and of names; solvers do not change, so the search makes others."""
    search = GridSearchCV(
        SVMClassifier("smo", kernel="gaussian"),
        {"solver__C": [0.01, 10.0], "kernel__gamma": [0.5, 1000.0]},
        cv=3,
    ).fit(X, Y)
    assert search.best_params_ == {"solver__C": 10.0, "kernel__gamma": 0.5}
    newton = Newton(C=3.0, intercept="augmented")
    model = SVMClassifier(newton).set_params(solver__intercept="free")
    assert (newton.intercept, model.solver.intercept, model.solver.C) == ("augmented", "free", 3.0)
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(InvalidHyperparameter, match="gama"):
        SVMClassifier(kernel=GAUSSIAN).set_params(kernel__gama=1.0)
    with pytest.raises(ValueError, match="kernels"):
        SVMClassifier().set_params(kernels=1)


def test_training_that_did_not_converge_warns() -> None:
    with pytest.warns(ConvergenceWarning, match="max-epochs: Not converged: its cost may be"):
        SVMClassifier("pegasos", max_epochs=1).fit(X, Y)


def test_with_the_rest_of_scikit_learn(tmp_path: Any) -> None:
    """Columns of different kinds, calibration, boosting, importance; saved in two ways."""
    texts = np.array(["a", "b"], dtype=object)[np.arange(len(Y)) % 2]
    table = np.column_stack([X.astype(object), texts])
    columns = make_column_transformer((StandardScaler(), [0, 1, 2, 3]), (OneHotEncoder(), [4]))
    pipeline = make_pipeline(columns, SVMClassifier()).fit(table, Y)
    assert pipeline.score(table, Y) > 0.95
    calibrated = CalibratedClassifierCV(SVMClassifier(), cv=3).fit(X, Y)
    assert log_loss(Y, calibrated.predict_proba(X)) < 0.25
    boosted = AdaBoostClassifier(SVMClassifier(C=0.1), n_estimators=3).fit(X, Y)
    assert boosted.score(X, Y) > 0.9
    model = SVMClassifier("smo", kernel=GAUSSIAN).fit(X, Y)
    importance = permutation_importance(model, X, Y, n_repeats=3, random_state=0)
    assert importance.importances_mean.argmax() in (2, 3)
    expected = model.decision_function(X)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.decision_function(X), expected)
    import skops.io  # looks through all of scikit-learn, for seconds

    skops.io.dump(model, tmp_path / "model.skops")
    trusted = skops.io.get_untrusted_types(file=tmp_path / "model.skops")
    assert all(name.startswith(("svm.", "numpy.")) for name in trusted), trusted
    read = skops.io.load(tmp_path / "model.skops", trusted=trusted)
    np.testing.assert_array_equal(read.decision_function(X), expected)
