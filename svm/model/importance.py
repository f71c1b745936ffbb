"""How much the predictions of a model depend on each column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from svm.data.matrices import Vector
from svm.model.pipeline import FittedPipeline

REPEATS = 5


def permutation_importance(
    fitted: FittedPipeline,
    X: Vector,
    codes: npt.NDArray[Any],
    *,
    seed: int = 0,
    check: Callable[[], None] = lambda: None,
) -> Vector:
    """How much the accuracy falls when the values of a column are exchanged between the rows:
    (n_columns, 2), the mean of `REPEATS` draws and its standard error.

    X is (n_samples, n_columns), as the model takes it, of a table its raw values; `codes` are
    (n_samples,) class numbers. Columns that say the same share their importance: each is needed
    less, as the others are still there. `check` is called for each column, and may raise.
    L. Breiman, "Random forests" (2001), section 10.
    """
    random = np.random.default_rng(seed)
    orders = [random.permutation(len(X)) for _ in range(REPEATS)]
    exchanged = np.array(X)
    right = _accuracy(fitted, exchanged, codes)
    falls = np.empty((X.shape[1], REPEATS))
    for j in range(X.shape[1]):
        check()
        for k, order in enumerate(orders):
            exchanged[:, j] = X[order, j]
            falls[j, k] = right - _accuracy(fitted, exchanged, codes)
        exchanged[:, j] = X[:, j]
    error = falls.std(axis=1, ddof=1) / np.sqrt(REPEATS)
    return np.stack([falls.mean(axis=1), error], axis=1)


def _accuracy(fitted: FittedPipeline, X: Vector, codes: npt.NDArray[Any]) -> float:
    decision = fitted.decision_from_scores(fitted.scores_of_checked(X))
    return float(np.mean(fitted.codes_from_decision(decision) == codes))
