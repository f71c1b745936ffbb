"""Extreme trainings diverge with advice, or give a model that is still certified.

Floating-point warnings are errors in these tests, so there must be none in either case.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest

from svm.errors import Diverged, InvalidData
from svm.kernel.kernels import GaussianKernel, LinearKernel, PolynomialKernel
from svm.model.pipeline import Pipeline
from svm.problem.certificate import PairCertificate
from svm.solvers import (
    SMO,
    SOLVERS,
    DualCoordinateDescent,
    GradientDescent,
    Newton,
    Pegasos,
    SubGradient,
)
from svm.solvers.options import RandomStart
from svm.stopping import CostChange, Stopping
from svm.training.training import Execution, Training
from svm.transforms.features import Identity, Nystroem
from svm.transforms.scaling import ScalingName
from tests.svm.cases.problems import CASES, SOLVER_INTERCEPTS, blobs, in_form, solver_of
from tests.svm.cases.trainings import run, train

X, LABELS = blobs(2)
LAYOUTS = ("dense-float64", "csr-float64")


@pytest.mark.parametrize("rule", [None, CostChange(epsilon=0.01)])
@pytest.mark.parametrize("batch_size", ["all", 7, 1])
@pytest.mark.parametrize("learning_rate", [1e10, 1e100, 1e300])
def test_absurd_learning_rate_diverges(
    learning_rate: float, batch_size: Any, rule: CostChange | None
) -> None:
    """The error says what is not finite, and suggests a smaller rate."""
    solver = GradientDescent(learning_rate=learning_rate, batch_size=batch_size)
    pipeline = Pipeline(solver=solver, stopping=Stopping(max_epochs=200, cost_change=rule))
    with pytest.raises(Diverged, match="no longer a finite number") as caught:
        train(pipeline, X, LABELS)
    numbers = f"{learning_rate / 10:.3g} is a tenth of the current {learning_rate:.3g}"
    assert f"smaller learning_rate: {numbers}" in caught.value.suggestion
    assert caught.value.suggestion in str(caught.value)


@pytest.mark.soundness
@pytest.mark.parametrize("C", [1e-100, 1.0, 1e100])
@pytest.mark.parametrize("scale", [1e-100, 1e60, 1e100])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_absurd_random_start(dtype: Any, scale: float, C: float) -> None:
    """Weights beyond float32 judge one row and are forgotten: the model is certified."""
    start = RandomStart(random_scale=scale)
    for solver in (
        Pegasos(C=C, dtype=dtype, initial=start),
        Pegasos(C=C, dtype=dtype, initial=start, batch_size=7, project=True, averaging="all"),
        SubGradient(C=C, dtype=dtype, initial=start, step="doubled"),
        SubGradient(C=C, dtype=dtype, initial=start, step="restarted", averaging="all"),
        Newton(C=C, dtype=dtype, initial=start),
    ):
        result = train(Pipeline(solver=solver, stopping=Stopping(max_epochs=4)), X, LABELS).result()
        worst = result.certificate.worst
        assert 0.0 <= worst.dual <= worst.primal < math.inf


def test_diverging_in_a_thread() -> None:
    """Diverged reaches the caller from a pair's thread; the training stays usable."""
    rows, labels = blobs(4)
    solver = GradientDescent(learning_rate=1e100, batch_size=1)
    pipeline = Pipeline(solver=solver, stopping=Stopping(max_epochs=200))
    training = Training(pipeline, rows, labels, seed=0, how=Execution(threads=3))
    with pytest.raises(Diverged):
        run(training)
    assert training.checkpoint()


def test_large_learning_rate_that_does_not_diverge_is_certified() -> None:
    """A useless model is not an error: its gap shows it."""
    solver = GradientDescent(learning_rate=1.0)
    pipeline = Pipeline(solver=solver, stopping=Stopping(max_epochs=50))
    worst = train(pipeline, X, LABELS).result().certificate.worst
    assert worst.relative_gap > 0.5
    assert worst.dual > 0.0


@functools.cache
def bounds_by_newton(name: str, regularization: float, intercept: Any) -> PairCertificate:
    """Those of the optimum, close together."""
    best = Newton(lambda_=regularization, intercept=intercept)
    worst = train(Pipeline(solver=best), CASES[name].X, CASES[name].y).result().certificate.worst
    assert worst.relative_gap <= 1e-3
    return worst


@pytest.mark.spread(3)
@pytest.mark.parametrize("regularization", [1e-12, 1e-6, 1.0, 1e3, 1e6])
@pytest.mark.parametrize(("solver", "intercept"), SOLVER_INTERCEPTS)
@pytest.mark.parametrize(
    ("name", "layout"), [("noisy", "dense-float64"), ("separable", "csr-float64")]
)
def test_any_regularization_is_certified(
    name: str, solver: str, intercept: str, regularization: float, layout: Any
) -> None:
    """λ from 1e-12 to 1e6: a finite model and a bound within 1 % of the best one known.

    With a kernel of low rank rounding keeps the bound from coming that close at λ = 1e-12.
    """
    case = CASES[name]
    rows = in_form(case.X, layout)
    chosen = solver_of(solver, intercept=intercept, lambda_=regularization)
    worst = (
        train(Pipeline(solver=chosen, stopping=Stopping(max_epochs=20)), rows, case.y)
        .result()
        .certificate.worst
    )
    optimum = bounds_by_newton(name, regularization, intercept)
    close = 0.0 if hasattr(chosen, "kernel") and regularization < 1e-6 else 0.99
    assert close * optimum.dual <= worst.dual <= optimum.primal * (1.0 + 1e-12)
    assert math.isfinite(worst.primal)
    assert worst.primal >= optimum.dual * (1.0 - 1e-12)


@pytest.mark.parametrize("value", [1e-100, 1e100])
@pytest.mark.parametrize("field", ["C", "lambda_"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_ends_of_the_range_of_c_and_lambda(solver: str, field: str, value: float) -> None:
    """Nothing is divided by zero: a finite model and a true bracket, or a divergence with advice.

    Beyond the ends λ = 1/(nC) would be 0 or infinite: there the hyperparameter itself is refused.
    """
    pipeline = Pipeline(solver=solver_of(solver, **{field: value}), stopping=Stopping(max_epochs=5))
    try:
        result = train(pipeline, X, LABELS).result()
    except Diverged:
        return
    worst = result.certificate.worst
    assert math.isfinite(worst.primal)
    assert math.isfinite(worst.solver_objective)
    assert 0.0 <= worst.dual <= worst.primal * (1.0 + 1e-12)


@pytest.mark.parametrize("solver", ["smo", "kernel-pegasos"])
def test_distance_of_a_row_to_itself_under_any_gamma(solver: str) -> None:
    """By rounding a large row has some distance to itself, which a large γ must not amplify: the
    bound of such a model was above its primal value."""
    pipeline = Pipeline(
        solver=solver_of(solver, kernel=GaussianKernel(gamma=1.0), C=1.0),
        stopping=Stopping(max_epochs=8),
    )
    with pytest.raises(InvalidData, match="standardize"):
        train(pipeline, X + 1e9, LABELS)
    apart = train(pipeline, 1e9 * X, LABELS).result()
    assert 0.0 < apart.certificate.worst.dual <= apart.certificate.worst.primal * (1.0 + 1e-12)
    # No row is like another one: each is on its own side by its own coefficient alone.
    assert (apart.fitted.predict(1e9 * X) == LABELS).all()


@pytest.mark.parametrize("gamma", [5e-324, 1e-200, 1e200, 1.797e308])
@pytest.mark.parametrize("kernel", [GaussianKernel, PolynomialKernel])
def test_ends_of_the_range_of_gamma(kernel: Any, gamma: float) -> None:
    """With all kernel values almost 1, or almost 0, models are certified; values beyond float64 are
    refused."""
    pipeline = Pipeline(solver=SMO(kernel=kernel(gamma=gamma)), stopping=Stopping(max_epochs=5))
    if kernel is PolynomialKernel and gamma > 1.0:
        with pytest.raises(InvalidData, match="a kernel value of size inf is too large") as caught:
            Training(pipeline, X, LABELS, seed=0)
        assert caught.value.code == "non-finite-value"
        return
    worst = train(pipeline, X, LABELS).result().certificate.worst
    assert 0.0 < worst.dual <= worst.primal * (1.0 + 1e-12)


@pytest.mark.soundness
@pytest.mark.parametrize(
    ("size", "layout"),
    [
        *((size, "dense-float64") for size in (1e-150, 1e-100, 1e-9, 1e9, 1e50, 1e99)),
        *((size, "csr-float64") for size in (1e-150, 1e99)),
    ],
)
@pytest.mark.parametrize(("solver", "intercept"), SOLVER_INTERCEPTS)
def test_features_of_any_size(solver: str, intercept: str, size: float, layout: Any) -> None:
    """From 1e-150 to 1e99 the model is finite and the bracket true, even if wide: for an optimum of
    about 1e-16 of the loss at w = 0, rounding may leave only the bound 0."""
    chosen = solver_of(solver, intercept=intercept)
    pipeline = Pipeline(solver=chosen, stopping=Stopping(max_epochs=20))
    result = train(pipeline, in_form(size * X, layout), LABELS).result()
    worst = result.certificate.worst
    assert math.isfinite(worst.primal)
    assert 0.0 <= worst.dual <= worst.primal * (1.0 + 1e-12)
    assert worst.dual > 0.0 or size >= 1e9
    assert np.isfinite(result.fitted.decision_function(size * X)).all()


@pytest.mark.parametrize("size", [1e3, 1e5, 1e8])
@pytest.mark.parametrize("n_negative", [1, 15])
def test_projection_of_large_rows_keeps_its_bound(size: float, n_negative: int) -> None:
    """Each violation then leaves a millionth, or less, of all earlier counts: they become zero,
    never NaN."""
    solver = Pegasos(lambda_=1.0, project=True, intercept="none")
    pipeline = Pipeline(solver=solver, stopping=Stopping(max_epochs=3))
    training = train(pipeline, size * X, np.arange(len(X)) >= n_negative)
    [pair] = training._pairs
    assert 0.0 < solver.bound(pair.problem, pair.state) <= pair.progress.primal
    assert np.isfinite(pair.state.violations).all()


@pytest.mark.parametrize("solver", SOLVERS)
def test_classes_of_very_different_weight(solver: str) -> None:
    """Weights of 1e-50 are lost in sums with weights of 1e50."""
    pipeline = Pipeline(
        solver=solver_of(solver),
        class_weight={"0": 1e-50, "1": 1e50},
        stopping=Stopping(max_epochs=5),
    )
    try:
        worst = train(pipeline, X, LABELS).result().certificate.worst
    except Diverged:
        return
    assert 0.0 <= worst.dual <= worst.primal * (1.0 + 1e-12)


@pytest.mark.parametrize("solver", [SMO(), Newton()])
def test_tiny_median_distance(solver: Any) -> None:
    """Squared distances at the limit of float64 do not give an infinite γ."""
    features = Nystroem(n_components=5) if isinstance(solver, Newton) else Identity()
    for size in (1e-150, 1e-158, 1e-162, 1e-200):
        result = train(Pipeline(solver=solver, features=features), size * X, LABELS).result()
        assert 0.0 < result.certificate.worst.dual <= result.certificate.worst.primal * (1 + 1e-12)


@pytest.mark.parametrize("n_positive", [10, 25, 29, 31, 45])
@pytest.mark.parametrize("size", [1e-150, 1e-50, 1e-9, 1e-3])
def test_newton_on_tiny_features(size: float, n_positive: int) -> None:
    """Only the intercept can lower the cost: the line search crosses an almost flat piece without
    moving to infinity."""
    rows = size * np.random.default_rng(0).normal(size=(60, 5))
    pipeline = Pipeline(solver=Newton(), stopping=Stopping(max_epochs=100, duality_gap=1e-6))
    result = train(pipeline, rows, np.arange(60) < n_positive).result()
    assert result.stop_reason == "gap-reached"
    assert abs(float(result.fitted.intercepts[0])) <= 2.0


@pytest.mark.parametrize("layout", LAYOUTS)
def test_newton_on_features_of_very_different_sizes(layout: Any) -> None:
    """Columns 1e6 and 1e-6 times as large as the others need no more steps than equal ones."""
    case = CASES["noisy"]
    sizes = np.array([1e6, 1.0, 1e-6, 1e3])
    pipeline = Pipeline(solver=Newton(), stopping=Stopping(max_epochs=100, duality_gap=1e-4))
    result = train(pipeline, in_form(case.X * sizes, layout), case.y).result()
    assert result.stop_reason == "gap-reached"
    assert result.epochs <= 60


@pytest.mark.parametrize("scaling", ["standardize", "min-max", "max-abs"])
@pytest.mark.parametrize("size", [1e-150, 1e-30, 1e30, 1e120, 1e150])
def test_scaling_removes_the_size(size: float, scaling: ScalingName) -> None:
    """A scaled training on data of any size is that on data of size one."""
    pipeline = Pipeline(solver=Newton(), scaling=scaling)
    plain, sized = (
        train(pipeline, factor * X, LABELS).result().certificate.worst for factor in (1.0, size)
    )
    assert sized.primal == pytest.approx(plain.primal, rel=1e-6)


@pytest.mark.parametrize("scaling", ["standardize", "min-max"])
def test_scaling_of_values_that_overflow_is_refused(scaling: ScalingName) -> None:
    """If squares or differences overflow, the data is refused, not replaced by zeros."""
    huge = np.array([[1.7e308, 0.0], [-1.7e308, 1.0], [1.7e308, 0.5], [-1.7e308, 2.0]])
    with pytest.raises(InvalidData, match="too large") as caught:
        Training(Pipeline(solver=Newton(), scaling=scaling), huge, [0, 1, 0, 1], seed=0)
    assert caught.value.code == "scaling-unsupported"


@pytest.mark.spread(3)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        ([[0.0], [1.0]], [0, 1]),
        ([[1.0], [1.0]], [0, 1]),
        ([[0.0, 0.0]] * 4, [0, 0, 1, 1]),
        ([[0.0, 1.0], [0.0, 2.0], [0.0, 3.0]], [0, 1, 1]),
        ([[1.0, 2.0], [1.0, 2.0], [0.0, 1.0], [0.0, 1.0]], [0, 1, 0, 1]),
        ([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [0, 1, 2]),
        (np.eye(50)[:3], [0, 1, 0]),
    ],
    ids=[
        "two rows",
        "one row twice with both labels",
        "nothing but zeros",
        "a column of zeros",
        "every row with both labels",
        "one row a class",
        "more features than rows",
    ],
)
@pytest.mark.parametrize(("solver", "intercept"), SOLVER_INTERCEPTS)
def test_smallest_data(
    solver: str, intercept: str, rows: Any, labels: list[int], layout: Any
) -> None:
    """Little or contradictory data gives a certified model too."""
    pipeline = Pipeline(
        solver=solver_of(solver, intercept=intercept), stopping=Stopping(max_epochs=100)
    )
    X = np.array(rows, dtype=np.float64)
    result = train(pipeline, in_form(X, layout), labels).result()
    for pair in result.certificate.pairs:
        assert 0.0 < pair.dual <= pair.primal * (1.0 + 1e-12)
    assert result.certificate.worst.relative_gap <= 0.2
    assert set(result.fitted.predict(X)) <= set(labels)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_integers_are_accepted_as_numbers(solver: str, layout: Any) -> None:
    """λ = 1 is λ = 1.0: an integer does not lead to integer arrays."""
    rows = in_form(CASES["noisy"].X, layout)
    first, second = (
        train(
            Pipeline(solver=solver_of(solver, lambda_=one), stopping=Stopping(max_epochs=20)),
            rows,
            CASES["noisy"].y,
        ).result()
        for one in (1, 1.0)
    )
    assert repr(first.certificate) == repr(second.certificate)


@pytest.mark.parametrize("kind", [SMO, DualCoordinateDescent, Newton])
def test_separable_rows_in_thousands_do_not_stall(kind: Any) -> None:
    """Tolerances are relative: at C = 1e5 a violation of 1e-10 costs more than the optimum."""
    X = 1000.0 * np.random.default_rng(2).normal(size=(60, 2))
    options = {"kernel": LinearKernel()} if kind is SMO else {}
    result = train(Pipeline(solver=kind(C=1e5, **options)), X, X[:, 0] > 0).result()
    assert result.stop_reason != "stalled"
    assert result.certificate.worst.relative_gap <= 3e-3
