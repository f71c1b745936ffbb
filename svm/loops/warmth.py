"""Loads every compiled loop before it is needed."""

from __future__ import annotations

import numpy as np

from svm.pipeline import Pipeline
from svm.solvers import SOLVERS
from svm.stopping import Stopping
from svm.training import Training


def train_everything_once() -> None:
    """Every solver on four rows, dense and CSR, two classes."""
    from scipy.sparse import csr_array

    dense = np.array([[0.0, 1.0], [1.0, 0.5], [2.0, 0.0], [3.0, 1.0]])
    labels = np.array([0, 0, 1, 1])
    for X in (dense, csr_array(dense)):
        for solver in SOLVERS.values():
            pipeline = Pipeline(solver=solver(), stopping=Stopping(max_epochs=2))  # type: ignore[arg-type]
            for _ in Training(pipeline, X, labels, seed=0):
                pass
