"""Loads every compiled loop before it is needed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, get_args

import numpy as np

from svm.hyperparameters import Dtype
from svm.model.pipeline import Pipeline
from svm.solvers import SOLVERS
from svm.stopping import Stopping
from svm.training.training import Training


def train_everything_once(is_enough: Callable[[], bool]) -> None:
    """Every solver on four rows, dense and CSR, in both precisions, until `is_enough`."""
    from scipy.sparse import csr_array

    dense = np.array([[0.0, 1.0], [1.0, 0.5], [2.0, 0.0], [3.0, 1.0]])
    labels = np.array([0, 0, 1, 1])
    solvers: list[Any] = list(SOLVERS.values())
    for X, solver, dtype in product((dense, csr_array(dense)), solvers, get_args(Dtype)):
        if is_enough():
            return
        pipeline = Pipeline(solver=solver(dtype=dtype), stopping=Stopping(max_epochs=2))
        for _ in Training(pipeline, X, labels, seed=0):
            pass
