"""Compiles every loop before a training needs it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any, get_args

import numpy as np

from svm.hyperparameters import Dtype
from svm.model.pipeline import Pipeline
from svm.solvers import CHOICES, SOLVERS
from svm.solvers.protocol import SolvesTogether
from svm.stopping import Stopping
from svm.training.training import Training


def warm_up_first() -> None:
    """Compile what `auto` needs for dense rows of float64, with two classes and with three."""
    auto: Any = CHOICES["auto"]
    X = np.linspace(0.0, 1.0, 30)[:, None] ** [1, 2]
    for n_classes in (2, 3):
        labels = np.arange(30) * n_classes // 30
        for C in (1.0, 1e4):  # coordinate descent, then newton
            training = Training(Pipeline(solver=auto(C=C)), X, labels, seed=0)
            for _ in training:
                pass
            fitted = training.result().fitted
            fitted.prepare()
            fitted.predict(X)


def warm_up(should_stop: Callable[[], bool] = lambda: False) -> None:
    """Compile every loop, or load it from the cache: every solver trains on four rows, dense and
    CSR, in both precisions. `should_stop` is asked before each training."""
    from scipy.sparse import csr_array

    dense = np.array([[0.0, 1.0], [1.0, 0.5], [2.0, 0.0], [3.0, 1.0]])
    labels = np.array([0, 0, 1, 1])
    solvers: list[Any] = [
        partial(solver, **settings)
        for solver in SOLVERS.values()
        for settings in ({}, *solver.own_loops)
    ]
    for X, solver, dtype in product((dense, csr_array(dense)), solvers, get_args(Dtype)):
        if should_stop():
            return
        pipeline = Pipeline(solver=solver(dtype=dtype), stopping=Stopping(max_epochs=2))
        for _ in Training(pipeline, X, labels, seed=0):
            pass
    X = np.linspace(0.0, 1.0, 24)[:, None]
    together: list[Any] = [one for one in solvers if isinstance(one(), SolvesTogether)]
    for solver in together:  # 66 pairs, which are solved side by side
        if not should_stop():
            for _ in Training(Pipeline(solver=solver()), X, np.arange(24) // 2, seed=0):
                pass
