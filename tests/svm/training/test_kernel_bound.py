"""Certificates with the kernel itself of models on Nyström features, against `smo`."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from scipy.sparse import csr_array

from svm import Interrupted, Training
from svm.hyperparameters import Dtype
from svm.kernel.kernels import AnyKernel, GaussianKernel, LinearKernel, PolynomialKernel
from svm.model.pipeline import Pipeline
from svm.problem.objectives import feasible, inner_forms
from svm.solvers import SMO, DualCoordinateDescent, Newton, Pegasos
from svm.stopping import Stopping
from svm.training.checkpoints import Arrays
from svm.training.kernel_bound import ROUNDING as CERTIFIED_ROUNDING
from svm.training.kernel_bound import forms_above
from svm.training.training import Execution
from svm.transforms.features import Nystroem, RandomFourier
from tests.svm.cases.stored import stored
from tests.svm.cases.trainings import interrupting_at, run, train

ROUNDING = 1e-9
WIDTHS = (0.0, 1e-3, 1e-2, 0.1, 1.0, 10.0, np.inf)


@dataclass(frozen=True)
class Enclosure:
    """The certificate with the kernel, and bounds of the same optimum by `smo`."""

    about: str
    primal: float
    dual: float
    upper: float
    lower: float

    @property
    def is_sound(self) -> bool:
        slack = ROUNDING * self.upper
        return self.dual <= self.upper + slack and self.primal >= self.lower - slack

    @property
    def excess(self) -> float:
        return self.primal / self.dual - 1.0 if self.dual > 0.0 else np.inf


def enclosure(number: int) -> Enclosure:
    """Train on the features, and with the kernel."""
    random = np.random.default_rng([7, number])
    n, d = int(random.integers(20, 300)), int(random.integers(1, 10))
    size = 10.0 ** random.uniform(-3, 3) if random.integers(2) else 1.0
    X = random.normal(size=(n, d)) + random.integers(3) * random.normal(size=d)
    if random.integers(3) == 0:
        X = np.repeat(X, 2, axis=0)[:n]
    labels = np.sin(2.0 * X[:, 0]) + random.choice([0.0, 0.3]) * random.normal(size=n) > 0
    labels[:2] = [True, False]
    gamma = float(10.0 ** random.uniform(-2, 1)) / size**2
    kernels: list[AnyKernel] = [
        LinearKernel(),
        GaussianKernel(gamma=gamma),
        PolynomialKernel(degree=int(random.integers(1, 4)), gamma=1.0 / (d * size**2)),
    ]
    kernel = kernels[random.integers(3)]
    common: dict[str, Any] = {"C": float(10.0 ** random.uniform(-3, 3))}
    if random.integers(3):
        intercept = random.choice(["augmented", "none"])
        kind: Any = [Newton, Pegasos, DualCoordinateDescent][random.integers(3)]
    else:
        kind, intercept = Newton, "free"
    common["intercept"] = str(intercept)
    if kind is not Pegasos and number % 2:
        common["loss"] = "squared-hinge"
    dtype: Dtype = "float32" if number % 3 == 2 else "float64"
    weights: Literal["balanced"] | None = "balanced" if random.integers(2) else None
    features = Nystroem(n_components=int(random.integers(2, n + 10)), kernel=kernel)
    approximated = Pipeline(
        solver=kind(**common, dtype=dtype),
        features=features,
        class_weight=weights,
        stopping=Stopping(max_epochs=int(random.integers(1, 60)), duality_gap=1e-3),
    )
    precise = Stopping(duality_gap=1e-5, max_epochs=100)
    meant = Pipeline(solver=SMO(kernel=kernel, **common), class_weight=weights, stopping=precise)
    exact = train(approximated, X * size, labels).result().certificate.exact
    assert exact is not None
    optimum = train(meant, X * size, labels).result().certificate.worst
    about = f"problem {number}: n = {n}, {features}, {common}, {dtype}"
    worst = exact.worst
    return Enclosure(about, worst.primal, worst.dual, optimum.primal, optimum.dual)


def check(count: int) -> list[Enclosure]:
    """Asserts that problems 0 … count - 1 are enclosed; returns what is certified."""
    result = [enclosure(number) for number in range(count)]
    unsound = [one for one in result if not one.is_sound]
    assert not unsound, unsound[:5]
    assert np.median([one.excess for one in result]) < 0.3
    return result


def test_exact_certificate_encloses_the_optimum() -> None:
    """On 20 problems of all kernels, intercepts, weights and scales; a third of the models was
    trained in single precision, and `smo` has the rows in double precision."""
    check(20)


@pytest.mark.soundness
@pytest.mark.timeout(1800)
def test_exact_certificates_of_200_problems() -> None:
    """The same on 200, with a table of what is certified and what is true."""
    result = check(200)
    certified = np.histogram([one.excess for one in result], WIDTHS)[0]
    true = np.histogram([max(0.0, one.primal / one.lower - 1.0) for one in result], WIDTHS)[0]
    print("excess below | certified | true")
    for width, some, all_true in zip(WIDTHS[1:], certified, true, strict=True):
        print(f"{width:12g} | {some:9} | {all_true}")


def trained(X: Any, labels: Any, **settings: Any) -> Training:
    pipeline = Pipeline(
        solver=Newton(**settings), features=Nystroem(n_components=25), multiclass="one-vs-one"
    )
    return train(pipeline, X, labels)


def some_rows(n: int = 300, classes: int = 2) -> tuple[Any, Any]:
    X = np.random.default_rng(3).normal(size=(n, 3))
    return X, np.floor(np.abs(3.0 * np.sin(2.0 * X[:, 0]))).astype(int) % classes


@pytest.mark.parametrize("n_groups", [1, 2, 7, 60])
@pytest.mark.parametrize("intercept", ["free", "augmented", "none"])
def test_values_within_groups_bound_the_whole(n_groups: int, intercept: str) -> None:
    """In every direction: the difference of the two forms is positive semi-definite."""
    training = trained(*some_rows(), intercept=intercept)
    problem, prepared = training.problems[0], training.prepared
    assert prepared.unmapped is not None
    assert isinstance(prepared.steps.features.spec, Nystroem)
    kernel = prepared.steps.features.spec.kernel
    exact = replace(problem, X=prepared.unmapped, kernel=kernel, shared_norms=None)
    random = np.random.default_rng(n_groups)
    alpha = np.stack([feasible(problem, random.normal(size=300)) for _ in range(2)], axis=1)
    signed = alpha * (problem.y / (problem.regularization * problem.n_samples))[:, None]
    whole = inner_forms(exact, signed)
    above = forms_above(problem, exact, alpha, n_groups)
    assert np.linalg.eigvalsh(above - whole).min() >= -1e-9 * np.trace(whole)
    if n_groups == 1:
        np.testing.assert_allclose(above, whole, rtol=1e-5)


def test_sparse_rows_have_the_same_bounds() -> None:
    """Up to rounding."""
    X, labels = some_rows()
    dense, sparse = (trained(rows, labels).result().certificate for rows in (X, csr_array(X)))
    assert dense.exact is not None
    assert sparse.exact is not None
    assert sparse.exact.worst.dual == pytest.approx(dense.exact.worst.dual, rel=1e-3)


def test_every_pair_is_bounded_and_both_sentences_are_said() -> None:
    """Excess of the exact certificate and of the approximated one, of the worst pairs."""
    result = trained(*some_rows(classes=3)).result()
    certificate = result.certificate
    assert certificate.exact is not None
    assert len(certificate.exact.pairs) == 3
    for own, exact in zip(certificate.pairs, certificate.exact.pairs, strict=True):
        assert exact.dual <= own.primal
        assert exact.primal == pytest.approx(own.primal, rel=1e-5)
    shown = certificate.as_dict(result.fitted.classes)
    assert "with the approximated kernel, in the worst of 3 pairs" in shown["summary"]
    assert ". With the kernel itself: " in shown["summary"]
    assert shown["exact"]["excess"] == certificate.exact.worst.excess


def test_without_a_function_of_the_kernel_there_is_no_exact_certificate() -> None:
    """Random Fourier features are of another space."""
    features = RandomFourier(n_components=20)
    result = train(Pipeline(solver=Newton(), features=features), *some_rows()).result()
    assert result.certificate.exact is None
    assert result.certificate.as_dict(result.fitted.classes)["exact"] is None


def test_in_single_precision_the_cost_is_that_of_the_model_served() -> None:
    """Rows to predict are mapped in double precision: the cost with the kernel is that of the
    scores that the model gives them."""
    X, labels = some_rows()
    result = trained(X, labels, C=10.0, dtype="float32").result()
    exact = result.certificate.exact
    assert exact is not None
    w, scores = result.fitted.coefficients[0], result.fitted.decision_function(X)
    hinge = np.maximum(0.0, 1.0 - np.where(labels > 0, 1.0, -1.0) * scores).mean()
    cost = 0.5 * float(w @ w) / (10.0 * len(labels)) + hinge
    assert exact.worst.primal == pytest.approx(cost * (1.0 + CERTIFIED_ROUNDING), rel=1e-12)
    assert exact.worst.primal != result.certificate.worst.primal
    assert exact.worst.solver_objective == exact.worst.primal


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("sparse", [False, True])
def test_rows_in_files_have_the_same_bounds(
    sparse: bool, dtype: str, classes: int, tmp_path: Path
) -> None:
    """To the bit."""
    X, labels = some_rows(classes=classes)
    rows = csr_array(X * (np.abs(X) > 0.5)) if sparse else X
    in_memory = trained(rows, labels, dtype=dtype).result()
    in_files = trained(stored(rows, tmp_path), labels, dtype=dtype).result()
    assert in_memory.certificate.exact is not None
    assert in_files.certificate == in_memory.certificate


def test_a_resumed_training_has_the_same_bounds() -> None:
    """Interrupted before every pair's bound; bounds that are known are in the checkpoint."""
    X, labels = some_rows(classes=3)
    whole = trained(X, labels).result().certificate.exact
    pipeline = Pipeline(solver=Newton(), features=Nystroem(n_components=25))
    saved: Arrays | None = None
    known = []
    for call in (*range(40, 120, 4), 10**9):
        stop = interrupting_at(call)
        training = Training(
            pipeline, X, labels, seed=0, checkpoint=saved, how=Execution(interrupted=stop)
        )
        with contextlib.suppress(Interrupted):
            run(training)
        saved = training.checkpoint()
        known.append(int(np.isfinite(saved["kernel_bounds"]).sum()))
    assert set(known) == {0, 1, 2, 3}, known
    assert training.result().certificate.exact == whole


def test_a_kernel_on_nystroem_features_has_its_own_certificate() -> None:
    """The bound with the kernel of the features is of linear models on them."""
    X = np.random.default_rng(0).normal(size=(80, 3))
    labels = np.where((X**2).sum(axis=1) > 2.0, "a", "b")
    pipeline = Pipeline(solver=SMO(C=1.0), features=Nystroem(n_components=10))
    certificate = train(pipeline, X, labels).result().certificate
    assert (certificate.status, certificate.exact) == ("certified", None)
