"""Support vector machines: solvers with certificates, on NumPy.

from svm import Newton, Pipeline, Training

training = Training(Pipeline(solver=Newton(C=1.0), scaling="standardize"), X, labels, seed=0)
for progress in training:
    print(progress.epoch, progress.relative_gap)
result = training.result()
result.fitted.predict(X)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from svm.data.columns import Column
from svm.encoding.encoder import Encoding
from svm.errors import (
    CheckpointMismatch,
    Diverged,
    Interrupted,
    InvalidData,
    InvalidHyperparameter,
    SVMError,
)
from svm.kernel.kernels import GaussianKernel, LinearKernel, PolynomialKernel
from svm.model.pipeline import FittedPipeline, Pipeline
from svm.solvers import (
    SMO,
    SOLVERS,
    Auto,
    DualCoordinateDescent,
    GradientDescent,
    KernelPegasos,
    Newton,
    Pegasos,
    SubGradient,
)
from svm.solvers.options import InverseSquareRoot, InverseTime
from svm.stopping import CostChange, Stopping
from svm.training.results import TrainingResult
from svm.training.search import Search
from svm.training.training import Training
from svm.training.warm_start import WarmStart
from svm.transforms.features import (
    Identity,
    Interactions,
    Nystroem,
    Polynomial,
    RandomFourier,
    Splines,
    Square,
    Terms,
)

if TYPE_CHECKING:
    from svm.estimator import SVMClassifier, SVMRegressor

__all__ = [
    "SMO",
    "SOLVERS",
    "Auto",
    "CheckpointMismatch",
    "Column",
    "CostChange",
    "Diverged",
    "DualCoordinateDescent",
    "Encoding",
    "FittedPipeline",
    "GaussianKernel",
    "GradientDescent",
    "Identity",
    "Interactions",
    "Interrupted",
    "InvalidData",
    "InvalidHyperparameter",
    "InverseSquareRoot",
    "InverseTime",
    "KernelPegasos",
    "LinearKernel",
    "Newton",
    "Nystroem",
    "Pegasos",
    "Pipeline",
    "Polynomial",
    "PolynomialKernel",
    "RandomFourier",
    "SVMClassifier",
    "SVMError",
    "SVMRegressor",
    "Search",
    "Splines",
    "Square",
    "Stopping",
    "SubGradient",
    "Terms",
    "Training",
    "TrainingResult",
    "WarmStart",
]


def __getattr__(name: str) -> Any:
    # They need scikit-learn, which nothing else here does.
    if name in ("SVMClassifier", "SVMRegressor"):
        from svm import estimator

        return getattr(estimator, name)
    raise AttributeError(f"module 'svm' has no attribute {name!r}")
