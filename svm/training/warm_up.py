"""Compiles every loop before a training needs it."""

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


def warm_up(should_stop: Callable[[], bool] = lambda: False) -> None:
    """Compile every loop, or load it from the cache: every solver trains on four rows, dense and
    CSR, in both precisions. `should_stop` is asked before each training."""
    from scipy.sparse import csr_array

    dense = np.array([[0.0, 1.0], [1.0, 0.5], [2.0, 0.0], [3.0, 1.0]])
    labels = np.array([0, 0, 1, 1])
    solvers: list[Any] = list(SOLVERS.values())
    for X, solver, dtype in product((dense, csr_array(dense)), solvers, get_args(Dtype)):
        if should_stop():
            return
        pipeline = Pipeline(solver=solver(dtype=dtype), stopping=Stopping(max_epochs=2))
        for _ in Training(pipeline, X, labels, seed=0):
            pass
