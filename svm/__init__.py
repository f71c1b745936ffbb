"""Support vector machines: solvers with certificates, on NumPy.

from svm import Newton, Pipeline, Training

training = Training(Pipeline(solver=Newton(C=1.0), scaling="standardize"), X, labels, seed=0)
for progress in training:
    print(progress.epoch, progress.relative_gap)
result = training.result()
result.fitted.predict(X)
"""

from __future__ import annotations

from svm.errors import (
    CheckpointMismatch,
    Diverged,
    Interrupted,
    InvalidData,
    InvalidHyperparameter,
    SVMError,
)
from svm.pipeline import FittedPipeline, Pipeline
from svm.solvers import SOLVERS, DualCoordinateDescent, GradientDescent, Newton, Pegasos
from svm.stopping import CostChange, Stopping
from svm.training import Training, TrainingResult

__all__ = [
    "SOLVERS",
    "CheckpointMismatch",
    "CostChange",
    "Diverged",
    "DualCoordinateDescent",
    "FittedPipeline",
    "GradientDescent",
    "Interrupted",
    "InvalidData",
    "InvalidHyperparameter",
    "Newton",
    "Pegasos",
    "Pipeline",
    "SVMError",
    "Stopping",
    "Training",
    "TrainingResult",
]
