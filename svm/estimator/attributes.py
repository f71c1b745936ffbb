"""What a fitted model is made of, under the names that scikit-learn's classifiers use."""

from __future__ import annotations

from typing import Any

import numpy as np

from svm.data.matrices import Indices, Vector
from svm.kernel import LinearKernel
from svm.model.linear_scorer import unscaled
from svm.model.multiclass import splits_of
from svm.model.pipeline import FittedPipeline
from svm.training.warm_start import WarmStart
from svm.transforms.features import Identity


def linear_attributes(fitted: FittedPipeline) -> dict[str, Any]:
    """`coef_` (n_problems, n_features) and `intercept_` (n_problems,) for the rows as given, of a
    linear model without a feature map; otherwise the intercepts alone."""
    kernel = fitted.kernel
    linear = kernel is None or isinstance(kernel, LinearKernel)
    if not linear or not isinstance(fitted.features.spec, Identity):
        return {"intercept_": fitted.intercepts}
    coefficients = fitted.coefficients
    if kernel is not None:
        vectors: Any = fitted.support_vectors
        coefficients = coefficients @ vectors
    weights, offset = unscaled(fitted.scaling, coefficients)
    return {"coef_": weights, "intercept_": fitted.intercepts - weights @ offset}


def support_attributes(warm_start: WarmStart, X: Any, codes: Indices) -> dict[str, Any]:
    """`support_`, `support_vectors_`, `n_support_` and `dual_coef_` of a solver with dual
    coefficients. X are the rows as given, `codes` their class numbers."""
    fitted = warm_start.fitted
    support = np.unique(warm_start.rows)
    dual = np.zeros((len(warm_start.ends), len(support)))
    parts = np.split(np.arange(len(warm_start.rows)), warm_start.ends[:-1])
    for row, part, split in zip(
        dual, parts, splits_of(fitted.multiclass, len(fitted.classes)), strict=True
    ):
        rows = warm_start.rows[part]
        sides: Vector = np.where(codes[rows] == split.positive, 1.0, -1.0)
        row[np.searchsorted(support, rows)] = sides * warm_start.dual_coefficients[part]
    return {
        "support_": support,
        "support_vectors_": X[support],
        "n_support_": np.bincount(codes[support], minlength=len(fitted.classes)),
        "dual_coef_": dual,
    }
