"""Models of every kind, trained in this process, and rows to predict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from svm.data.matrices import Vector
from svm.kernel.kernels import GaussianKernel, LinearKernel, PolynomialKernel
from svm.model.calibration import CalibrationName
from svm.model.pipeline import FittedPipeline, Pipeline
from svm.solvers import SMO, Newton
from svm.training.training import Training
from svm.transforms.features import (
    Interactions,
    Nystroem,
    Polynomial,
    RandomFourier,
    Splines,
    Square,
    Terms,
)
from tests.service.models.example_models import rows_of

N_FEATURES = 6
TWO, MANY = ("no", "yes"), ("a", "bé", "c", "d")
LINEAR = Newton(C=1.0)
NUMERIC = Newton(C=1.0, loss="epsilon-insensitive")
CUBIC = PolynomialKernel(degree=3, gamma=0.2, coef0=1.0)


def _kernel(kernel: Any) -> SMO:
    return SMO(C=1.0, kernel=kernel)


@dataclass(frozen=True)
class Kind:
    """What to train."""

    pipeline: Pipeline
    classes: tuple[Any, ...] = TWO
    """Empty for a numeric target."""
    calibration: CalibrationName | None = None
    sparse: bool = False


def _one_vs_rest(**options: Any) -> Pipeline:
    return Pipeline(solver=LINEAR, multiclass="one-vs-rest", **options)


ONE_VS_ONE = Pipeline(solver=LINEAR, scaling="standardize")
GAUSSIAN = Pipeline(solver=_kernel(GaussianKernel(gamma=0.1)), scaling="standardize")

KINDS: dict[str, Kind] = {
    "linear": Kind(Pipeline(solver=LINEAR)),
    "standardized": Kind(Pipeline(solver=LINEAR, scaling="standardize")),
    "min-max": Kind(Pipeline(solver=LINEAR, scaling="min-max")),
    "max-abs": Kind(Pipeline(solver=LINEAR, scaling="max-abs")),
    "square": Kind(Pipeline(solver=LINEAR, features=Square(), scaling="standardize")),
    "polynomial features": Kind(Pipeline(solver=LINEAR, features=Polynomial(degree=3))),
    "interactions": Kind(Pipeline(solver=LINEAR, features=Interactions()), MANY),
    "terms": Kind(
        Pipeline(
            solver=LINEAR,
            features=Terms(terms=[{"1": 2}, {"0": 1, "4": 2}, {"5": 1}, {"2": 3}]),
            scaling="standardize",
        ),
        MANY,
        calibration="sigmoid",
    ),
    "splines": Kind(Pipeline(solver=LINEAR, features=Splines(), scaling="standardize"), MANY),
    "random Fourier": Kind(Pipeline(solver=LINEAR, features=RandomFourier(n_components=60))),
    "Nyström": Kind(Pipeline(solver=LINEAR, features=Nystroem(n_components=30)), MANY),
    "Nyström, cubic": Kind(
        Pipeline(solver=LINEAR, features=Nystroem(n_components=30, kernel=CUBIC), scaling="max-abs")
    ),
    "linear kernel": Kind(Pipeline(solver=_kernel(LinearKernel()), scaling="standardize")),
    "Gaussian kernel": Kind(GAUSSIAN),
    "Gaussian kernel, sparse": Kind(
        Pipeline(solver=_kernel(GaussianKernel(gamma=0.1))), MANY, sparse=True
    ),
    "cubic kernel": Kind(Pipeline(solver=_kernel(CUBIC), scaling="min-max"), MANY),
    "pairs": Kind(ONE_VS_ONE, MANY),
    "rest": Kind(_one_vs_rest(), MANY),
    "whole numbers": Kind(ONE_VS_ONE, (-1, 2, 7)),
    "fractions": Kind(ONE_VS_ONE, (0.5, 1.5, 2.25)),
    "booleans": Kind(ONE_VS_ONE, (False, True)),
    "sigmoid": Kind(ONE_VS_ONE, TWO, "sigmoid"),
    "sigmoid, pairs": Kind(GAUSSIAN, MANY, "sigmoid"),
    "sigmoid, rest": Kind(_one_vs_rest(), MANY, "sigmoid"),
    "isotonic": Kind(ONE_VS_ONE, TWO, "isotonic"),
    "isotonic, pairs": Kind(ONE_VS_ONE, MANY, "isotonic"),
    "isotonic, rest": Kind(_one_vs_rest(), MANY, "isotonic"),
    "numbers": Kind(Pipeline(solver=NUMERIC, scaling="standardize"), ()),
    "numbers, Gaussian kernel": Kind(
        Pipeline(
            solver=SMO(C=1.0, kernel=GaussianKernel(gamma=0.1), loss="epsilon-insensitive"),
            scaling="standardize",
        ),
        (),
    ),
    "numbers, Nyström": Kind(
        Pipeline(solver=NUMERIC, features=Nystroem(n_components=30), scaling="standardize"), ()
    ),
    "logarithms": Kind(
        Pipeline(solver=NUMERIC, scaling="standardize", target_scale="logarithmic"), ()
    ),
}


def numbers_of(X: npt.NDArray[np.float64], pipeline: Pipeline) -> npt.NDArray[np.float64]:
    """(n,) a numeric target of dense rows, positive for a model of logarithms."""
    values: npt.NDArray[np.float64] = X @ np.arange(1.0, 1.0 + X.shape[1]) + X[:, 0] * X[:, 1]
    return np.exp(0.1 * values) if pipeline.target_scale == "logarithmic" else 1e4 * values


def fit(kind: Kind) -> FittedPipeline:
    """Trained on 240 rows, calibrated on 80 others; the last of these has no logarithm."""
    X, codes = rows_of(320, N_FEATURES, len(kind.classes) or 2)
    X = _sparse(X) if kind.sparse else X
    labels = np.asarray(kind.classes)[codes] if kind.classes else numbers_of(X, kind.pipeline)
    training = Training(kind.pipeline, X[:240], labels[:240], seed=0)
    for _ in training:
        pass
    fitted = training.result().fitted
    if kind.calibration is not None:
        scores = fitted.problem_scores(X[240:])
        fitted = fitted.calibrated(kind.calibration, scores, codes[240:])
    if fitted.target is None:
        certain = fitted.codes_and_certainty(fitted.problem_scores(X[240:]))[1]
        fitted = fitted.with_rejection(certain)
    else:
        labels[-1] = 0.0
        fitted = fitted.with_intervals(labels[240:], fitted.predict(X[240:]))
    return fitted


def rows_to_predict(n: int, n_classes: int) -> Vector:
    """Rows around the training rows, some of them all zeros and some far off."""
    X, _ = rows_of(n, N_FEATURES, n_classes or 2, seed=0)
    X += np.random.default_rng(1).normal(size=X.shape)
    X[::97] = 0.0
    X[1::89] *= 20.0
    return X


def _sparse(X: npt.NDArray[np.float64]) -> Any:
    return csr_array(np.where(np.random.default_rng(2).random(X.shape) < 0.5, X, 0.0))
