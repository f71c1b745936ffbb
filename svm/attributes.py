"""The learned attributes of scikit-learn's estimators, such as `coef_`, of a trained model."""

from __future__ import annotations

from typing import Any

import numpy as np

from svm.data.matrices import Indices, Vector
from svm.kernel.kernels import LinearKernel
from svm.model.multiclass import splits_of
from svm.model.pipeline import FittedPipeline
from svm.model.scorers import unscale
from svm.training.warm_start import WarmStart
from svm.transforms.features import Identity


def linear_attributes(fitted: FittedPipeline) -> dict[str, Any]:
    """`coef_` (n_problems, n_features) and `intercept_` (n_problems,) for the rows as given, of a
    linear model without a feature map; otherwise the intercepts alone. Of a numeric target
    (n_features,), and a number."""
    kernel = fitted.kernel
    linear = kernel is None or isinstance(kernel, LinearKernel)
    if not linear or not isinstance(fitted.features.spec, Identity):
        return {"intercept_": fitted.intercepts if fitted.target is None else fitted.intercepts[0]}
    coefficients = fitted.coefficients
    if kernel is not None:
        vectors: Any = fitted.support_vectors
        coefficients = coefficients @ vectors
    weights, offset = unscale(fitted.scaling, coefficients)
    intercepts = fitted.intercepts - weights @ offset
    if fitted.target is not None:
        return {"coef_": weights[0], "intercept_": float(intercepts[0])}
    return {"coef_": weights, "intercept_": intercepts}


def support_attributes(
    warm_start: WarmStart, X: Any, codes: Indices | None = None
) -> dict[str, Any]:
    """`support_`, `support_vectors_`, `n_support_` and `dual_coef_` of a solver with dual
    coefficients. X are the rows as given, `codes` their class numbers; None of numeric targets."""
    fitted, target = warm_start.fitted, warm_start.fitted.target
    support = np.unique(warm_start.rows)
    dual = np.zeros((len(warm_start.ends), len(support)))
    parts = np.split(np.arange(len(warm_start.rows)), warm_start.ends[:-1])
    for k, part in enumerate(parts):
        rows = warm_start.rows[part]
        factors: float | Vector = 1.0 if target is None else target.scale
        if codes is not None:
            split = splits_of(fitted.multiclass, len(fitted.classes))[k]
            factors = np.where(codes[rows] == split.positive, 1.0, -1.0)
        dual[k, np.searchsorted(support, rows)] = factors * warm_start.dual_coefficients[part]
    counts = (
        [len(support)]
        if codes is None
        else np.bincount(codes[support], minlength=len(fitted.classes))
    )
    return {
        "support_": support,
        "support_vectors_": X[support],
        "n_support_": counts,
        "dual_coef_": dual,
    }
