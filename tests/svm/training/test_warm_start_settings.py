"""Which settings and data may differ from those of the model that a warm start begins from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from svm.errors import InvalidData
from svm.kernel.kernels import GaussianKernel, LinearKernel
from svm.model.pipeline import Pipeline
from svm.solvers import DualCoordinateDescent, KernelPegasos, Newton, Pegasos, SubGradient
from svm.stopping import Stopping
from svm.training.training import Training
from svm.transforms.features import Polynomial, Square
from tests.svm.cases.problems import blobs
from tests.svm.cases.trainings import train

X, LABELS = blobs(3, n_rows=40)
GAP = Stopping(duality_gap=1e-2, max_epochs=2000)
BASE = Pipeline(solver=Pegasos(), scaling="max-abs", stopping=Stopping(max_epochs=2))
KERNEL = Pipeline(solver=KernelPegasos(), stopping=Stopping(max_epochs=2))
DIFFERENT: dict[str, tuple[Pipeline, Pipeline, str]] = {
    "scaling": (BASE, replace(BASE, scaling="none"), "scaling: the model has max-abs"),
    "features": (BASE, replace(BASE, features=Square()), "features.name: the model has identity"),
    "degree": (
        replace(BASE, features=Polynomial()),
        replace(BASE, features=Polynomial(degree=3)),
        "features.degree: the model has 2, the training 3",
    ),
    "multiclass": (BASE, replace(BASE, multiclass="one-vs-rest"), "multiclass"),
    "kernel": (
        KERNEL,
        replace(KERNEL, solver=KernelPegasos(kernel=LinearKernel())),
        "kernel.name: the model has gaussian",
    ),
    "gamma": (
        KERNEL,
        replace(KERNEL, solver=KernelPegasos(kernel=GaussianKernel(gamma=2.0))),
        "kernel.gamma: the model has median, the training 2.0",
    ),
    "no kernel": (KERNEL, replace(KERNEL, solver=Newton()), "trained by kernel-pegasos"),
    "no count": (replace(BASE, solver=Newton()), BASE, "pegasos can start from models of pegasos"),
    "no dual": (BASE, replace(BASE, solver=DualCoordinateDescent()), "trained by pegasos"),
    "forgets": (BASE, replace(BASE, solver=SubGradient(step="restarted")), "use continued"),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_other_settings_are_refused(case: str) -> None:
    """The message names the first setting that changes the meaning of the weights."""
    earlier, later, message = DIFFERENT[case]
    start = train(earlier, X, LABELS).result().warm_start
    with pytest.raises(InvalidData, match=message) as caught:
        Training(later, X, LABELS, seed=0, warm_start=start)
    assert caught.value.code == "warm-start-unsupported"


@pytest.mark.parametrize(
    ("rows", "labels", "message"),
    [
        (X, LABELS + 1, r"classes: the model has \[0, 1, 2\], the data \[1, 2, 3\]"),
        (X[LABELS < 2], LABELS[LABELS < 2], "classes"),
        (X[:, :2], LABELS, "features: the model has 3, the data 2"),
        (X[:6], LABELS[:6], "rows"),
    ],
)
def test_other_data_are_refused(rows: Any, labels: Any, message: str) -> None:
    """Classes and features must be the model's, and its rows must be in the data."""
    start = train(KERNEL, X, LABELS).result().warm_start
    with pytest.raises(InvalidData, match=message) as caught:
        Training(KERNEL, rows, labels, seed=0, warm_start=start)
    assert caught.value.code == "warm-start-unsupported"


def test_other_regularization_and_intercept_are_fine() -> None:
    """λ, C, class weights, precision, intercept and stopping may differ."""
    start = train(BASE, X, LABELS).result().warm_start
    for solver in (Pegasos(C=7.0, intercept="none", dtype="float32"), SubGradient(), Newton()):
        pipeline = replace(BASE, solver=solver, class_weight="balanced", stopping=GAP)
        assert train(pipeline, X, LABELS, warm_start=start).result().converged
