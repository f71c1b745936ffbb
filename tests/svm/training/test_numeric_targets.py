"""Numeric targets: the problems of LIBSVM and LIBLINEAR with the same optimum, in any unit, and the
same rest of a training as with classes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, make_regression
from sklearn.svm import SVR, LinearSVR

from svm.errors import InvalidData, InvalidHyperparameter
from svm.kernel.kernels import GaussianKernel, LinearKernel
from svm.model.pipeline import Pipeline
from svm.model.serialization import from_arrays, to_arrays
from svm.model.target import Target
from svm.solvers import SMO, SOLVERS, Auto, DualCoordinateDescent, Newton, Pegasos
from svm.stopping import Stopping
from svm.training.results import TrainingResult
from svm.training.training import Training
from svm.transforms.features import Nystroem
from tests.svm.cases.stored import stored
from tests.svm.cases.trainings import bits, train

TIGHT = Stopping(duality_gap=1e-8, max_epochs=50_000)
LINEAR: dict[str, Any] = {"loss": "epsilon-insensitive"}
SQUARED: dict[str, Any] = {"loss": "squared-epsilon-insensitive"}


def diabetes() -> tuple[Any, Any]:
    """442 rows, 10 features of standard deviation 1, the target of mean 0 and deviation 1: as
    solvers see it, but for the median."""
    X, y = load_diabetes(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = y / y.std()
    return X, y - np.median(y)


def stated(result: TrainingResult) -> float:
    """In the constants ½‖w‖² + C Σ."""
    return result.certificate.worst.primal / float(result.warm_start.regularization[0])


def cost(w: Any, b: float, X: Any, y: Any, C: float, epsilon: float, penalized: bool) -> float:
    errors = np.maximum(np.abs(y - X @ w - b) - epsilon, 0.0)
    return 0.5 * float(w @ w + (b * b if penalized else 0.0)) + C * float(errors.sum())


@pytest.mark.parametrize("C", [1e-3, 1.0, 8.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.4])
def test_optimum_of_libsvm(C: float, epsilon: float) -> None:
    """`newton` and `smo` prove the value of SVR at a tight tolerance; `smo` with a kernel too."""
    X, y = diabetes()
    theirs = SVR(kernel="linear", C=C, epsilon=epsilon, tol=1e-9).fit(X, y)
    optimum = cost(theirs.coef_[0], theirs.intercept_[0], X, y, C, epsilon, False)
    given: dict[str, Any] = {"C": C, "epsilon": epsilon, "intercept": "free", **LINEAR}
    for solver in (Newton(**given), SMO(kernel=None, **given), SMO(kernel=LinearKernel(), **given)):
        result = train(Pipeline(solver=solver, stopping=TIGHT), X, y).result()
        assert result.certificate.status == "certified", solver.name
        assert stated(result) == pytest.approx(optimum, rel=1e-6), solver.name
    kernel = GaussianKernel(gamma=0.05)
    result = train(Pipeline(solver=SMO(kernel=kernel, **given), stopping=TIGHT), X, y).result()
    rbf = SVR(gamma=0.05, C=C, epsilon=epsilon, tol=1e-9).fit(X, y)
    assert result.certificate.status == "certified"
    np.testing.assert_allclose(result.fitted.predict(X), rbf.predict(X), atol=1e-3)


@pytest.mark.parametrize("C", [0.02, 2.0])
@pytest.mark.parametrize("intercept", ["augmented", "none"])
@pytest.mark.parametrize("squared", [False, True])
def test_optimum_of_liblinear(C: float, intercept: Any, squared: bool) -> None:
    """Three solvers prove the value of LinearSVR, with weights of rows too."""
    X, y = diabetes()
    weights = np.random.default_rng(1).uniform(0.2, 3.0, len(y))
    y = Target.of(y, "linear", weights, centered=intercept != "none").standardized(y)
    loss = "squared_epsilon_insensitive" if squared else "epsilon_insensitive"
    theirs = LinearSVR(C=C, epsilon=0.3, loss=loss, fit_intercept=intercept != "none", dual=True)
    theirs.set_params(tol=1e-8, max_iter=1_000_000).fit(X, y, sample_weight=weights)
    w, b = theirs.coef_, float(np.ravel(theirs.intercept_)[0])
    errors = np.maximum(np.abs(y - X @ w - b) - 0.3, 0.0)
    optimum = 0.5 * (w @ w + b * b) + C * float(weights @ (errors**2 if squared else errors))
    given: dict[str, Any] = {"C": C, "epsilon": 0.3, "intercept": intercept}
    given |= SQUARED if squared else LINEAR
    for kind in (Newton, DualCoordinateDescent, SMO):
        extra: dict[str, Any] = {"kernel": None} if kind is SMO else {}
        stopping = replace(TIGHT, duality_gap=1e-6)
        pipeline = Pipeline(solver=kind(**given, **extra), stopping=stopping)
        result = train(pipeline, X, y, weights=weights).result()
        assert result.certificate.status == "certified", kind
        assert stated(result) == pytest.approx(optimum, rel=2e-6), kind


@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_in_any_unit(name: str) -> None:
    """Every solver is certified, and the model does not depend on the unit of the target."""
    X, y = diabetes()
    kind: Any = SOLVERS[name]
    pipeline = Pipeline(solver=kind(**LINEAR), stopping=Stopping(duality_gap=0.05, max_epochs=3000))
    results = [train(pipeline, X, 4.0**k * (y + 2.0)).result() for k in (0, 10, -10)]
    for k, result in zip((0, 10, -10), results, strict=True):
        assert result.certificate.status == "certified"
        assert result.certificate.worst.classes == ()
        target = result.fitted.target
        assert target is not None
        assert 0.0 < target.epsilon < target.scale
        expected = results[0].fitted.predict(X) * 4.0**k
        np.testing.assert_array_equal(result.fitted.predict(X), expected)


def test_default_epsilon() -> None:
    """It is half the spread of the noise, also where a kernel could fit every row."""
    random = np.random.default_rng(0)
    X = random.normal(size=(800, 5))
    y = 100.0 * X[:, 0] + 30.0 * random.normal(size=800)
    for solver in (Newton(**LINEAR), SMO(**LINEAR), Newton(C=1e6, **LINEAR)):
        target = train(Pipeline(solver=solver), X, y).result().fitted.target
        assert target is not None
        assert 10.0 < target.epsilon < 25.0
    wide, noise = random.normal(size=(60, 200)), random.normal(size=60)
    target = train(Pipeline(solver=Newton(**LINEAR)), wide, noise).result().fitted.target
    assert target is not None
    assert target.epsilon > 0.2


def test_files_threads_checkpoints_and_warm_starts(tmp_path: Path) -> None:
    """The same bits from files, with threads, after an interruption; a warm start is at its end."""
    random = np.random.default_rng(3)
    X = random.normal(size=(40_000, 40))
    y = X[:, 0] + 0.3 * random.normal(size=len(X))
    streaming: list[Any] = [Newton(**LINEAR), Pegasos(order="blocks", **LINEAR)]
    for solver in streaming:
        stopping = Stopping(duality_gap=1e-4, max_epochs=12)
        pipeline = Pipeline(solver=solver, stopping=stopping)
        alone = train(pipeline, X, y).result()
        assert bits(train(pipeline, stored(X, tmp_path), y).result()) == bits(alone)
        assert bits(train(pipeline, X, y, threads=2).result()) == bits(alone)
        first = Training(pipeline, X, y, seed=0)
        for _ in zip(range(3), first, strict=False):
            pass
        resumed = Training(pipeline, X, y, seed=0, checkpoint=first.checkpoint())
        for _ in resumed:
            pass
        assert bits(resumed.result()) == bits(alone)
    X, y = diabetes()
    for solver in (Auto(**LINEAR), SMO(**LINEAR), DualCoordinateDescent(**LINEAR)):
        pipeline = Pipeline(solver=solver, stopping=Stopping(duality_gap=1e-3))
        earlier = train(pipeline, X, y).result()
        again = train(pipeline, X, y, warm_start=earlier.warm_start).result()
        assert again.certificate.status == "certified"
        assert again.updates < earlier.updates


def test_weights_are_repetitions_and_errors_are_of_the_target() -> None:
    """A row of weight 2 is two rows; the curve's errors are mean absolute errors."""
    X, y = diabetes()
    weights = np.random.default_rng(0).integers(0, 4, len(y))
    given: dict[str, Any] = {"C": 0.1, "epsilon": 0.2, "intercept": "none", **LINEAR}
    pipeline = Pipeline(solver=Newton(**given), stopping=TIGHT)
    weighted = train(pipeline, X, y, weights=weights).result()
    repeated = train(pipeline, np.repeat(X, weights, axis=0), np.repeat(y, weights)).result()
    np.testing.assert_allclose(
        weighted.fitted.coefficients, repeated.fitted.coefficients, rtol=1e-3, atol=1e-4
    )
    training = train(
        Pipeline(solver=Newton(**LINEAR)), X, 50.0 * y, validation=(X[:80], 50 * y[:80])
    )
    errors = np.abs(training.result().fitted.predict(X) - 50.0 * y)
    now = training._pairs[0].progress
    assert now.train_error == pytest.approx(errors.mean(), rel=1e-9)
    held_out = training._validation
    assert held_out is not None
    pair = training._pairs[0]
    assert held_out.error(pair, pair.state) == pytest.approx(errors[:80].mean(), rel=1e-9)


@pytest.mark.parametrize("loss", [LINEAR, SQUARED])
def test_nystroem_single_precision_and_storage(loss: dict[str, Any]) -> None:
    """Bounds with the kernel itself and of rounded rows hold; a stored model predicts the same."""
    random = np.random.default_rng(5)
    X = random.normal(size=(400, 3))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * random.normal(size=400)
    kernel = GaussianKernel(gamma=0.5)
    features = Nystroem(kernel=kernel, n_components=60)
    solver = Newton(C=0.5, epsilon=0.05, intercept="none", **loss)
    result = train(Pipeline(solver=solver, features=features), X, y).result()
    exact = SMO(C=0.5, epsilon=0.05, kernel=kernel, intercept="none", **loss)
    optimum = train(Pipeline(solver=exact, stopping=TIGHT), X, y).result().certificate.worst
    assert result.certificate.exact is not None
    bound = result.certificate.exact.worst
    assert bound.dual <= optimum.primal * (1.0 + 1e-9)
    assert bound.primal >= optimum.dual
    assert bound.dual >= 0.5 * optimum.dual
    single = train(Pipeline(solver=replace(solver, dtype="float32")), X, y).result()
    double = train(Pipeline(solver=solver, stopping=TIGHT), X, y).result()
    assert single.certificate.worst.dual <= double.certificate.worst.primal
    again = from_arrays(to_arrays(result.fitted))
    np.testing.assert_array_equal(again.predict(X), result.fitted.predict(X))
    assert again.target == result.fitted.target


def test_logarithmic_target() -> None:
    """The model is of the logarithm, predictions are positive; it is offered for skewed targets."""
    random = np.random.default_rng(6)
    X = random.normal(size=(500, 4))
    y = np.exp(X @ [1.0, 0.5, 0.0, -1.0] + 0.2 * random.normal(size=500))
    linear = train(Pipeline(solver=Newton(**LINEAR)), X, y).result()
    assert any("logarithmic" in warning for warning in linear.warnings)
    pipeline = Pipeline(solver=Newton(**LINEAR), target_scale="logarithmic")
    logarithmic = train(pipeline, X, y).result()
    assert not logarithmic.warnings
    predicted = logarithmic.fitted.predict(X)
    assert (predicted > 0.0).all()
    assert np.median(np.abs(predicted - y)) < 0.5 * np.median(np.abs(linear.fitted.predict(X) - y))
    with pytest.raises(InvalidData, match="a logarithm needs positive"):
        train(pipeline, X, y - 1.0)


def test_bad_targets() -> None:
    """Errors say what is wrong and where; options of classes are refused."""
    X, pipeline = np.eye(4), Pipeline(solver=Newton(**LINEAR))
    for labels, said in (
        ([1.0, np.nan, 2.0, 3.0], "row 1 .* has the target nan"),
        ([1.0, 2.0, 3.0, np.inf], "row 3 .* has the target inf"),
        (["a", "b", "c", "d"], "needs numbers"),
        ([5.0, 5.0, 5.0, 5.0], "all training rows have the target 5.0; two different"),
        ([1e-300, 2e-300, 3e-300, 4e-300], "too close together: all are between 1e-300 and 4e-300"),
        ([2.0**53, 2.0**53 + 2, 2.0**53, 2.0**53], "too close together"),
        ([1.0, 2.0, 3.0], "expected 4 labels"),
    ):
        with pytest.raises(InvalidData, match=said):
            train(pipeline, X, np.array(labels))
    with pytest.raises(InvalidHyperparameter, match="class_weight"):
        Pipeline(solver=Newton(**LINEAR), class_weight="balanced")
    with pytest.raises(InvalidHyperparameter, match="epsilon"):
        Newton(loss="hinge", epsilon=0.1)
    assert Pipeline(solver=Newton(epsilon=0.1)).for_numbers().predicts_numbers
    assert not Pipeline(solver=Newton(loss="squared-hinge")).for_numbers().predicts_numbers


def test_all_targets_inside_epsilon() -> None:
    """The cost 0 is proven only where it is the lowest one."""
    X, y = diabetes()
    for loss in (LINEAR, SQUARED):
        for solver in (Newton(epsilon=100.0, **loss), SMO(epsilon=1e100, **loss)):
            result = train(Pipeline(solver=solver), X, 1e-10 * y).result()
            assert result.certificate.worst.primal == 0.0
            assert result.certificate.status == "certified"
            assert len(set(result.fitted.predict(X))) == 1
    with pytest.raises(InvalidHyperparameter, match="epsilon"):
        Newton(epsilon=1e300, **LINEAR)


def test_known_hard_shapes() -> None:
    """547 unscaled rows of 22 features with a target of 1e6, and 200 features of 1,300 rows."""
    random = np.random.default_rng(7)
    X = random.normal(size=(547, 22)) * 10.0 ** random.uniform(-3, 4, 22)
    y = 1e6 * (X / X.std(axis=0) @ random.normal(size=22) + random.normal(size=547))
    for rows, target in ((X, y), make_regression(1300, 200, random_state=0)):
        result = train(Pipeline(solver=Auto(**LINEAR)), rows, target).result()
        assert result.certificate.worst.relative_gap <= 1e-3


def test_target_folds_back() -> None:
    """`as_solvers` is the inverse of `in_unit`."""
    target = Target(center=3.0, scale=20.0)
    w, b = target.in_unit(np.array([[1.0, 2.0]]), np.array([0.5]))
    back = target.as_solvers(w[0], float(b[0]))
    np.testing.assert_allclose(back[0], [1.0, 2.0])
    assert back[1] == pytest.approx(0.5)
