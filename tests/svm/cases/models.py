"""Fitted pipelines built without training."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from svm.data.matrices import Vector
from svm.model.pipeline import FittedPipeline
from svm.transforms.features import FeatureMap, Identity
from svm.transforms.scaling import Scaling

NO_SCALING = Scaling()


def fitted(
    coefficients: npt.ArrayLike,
    intercepts: npt.ArrayLike,
    classes: Any = (0, 1),
    scaling: Scaling = NO_SCALING,
) -> FittedPipeline:
    weights = np.atleast_2d(np.asarray(coefficients, dtype=np.float64))
    return FittedPipeline(
        classes=np.asarray(classes),
        scaling=scaling,
        features=FeatureMap(Identity(), weights.shape[1]),
        coefficients=weights,
        intercepts=np.atleast_1d(np.asarray(intercepts, dtype=np.float64)),
    )


def random_model(
    n_features: int, n_classes: int = 2, *, scaled: bool = False, seed: int = 0
) -> tuple[FittedPipeline, Vector]:
    """A model and 70 rows for it; some values are zero."""
    random = np.random.default_rng([seed, n_features, n_classes])
    n_pairs = n_classes * (n_classes - 1) // 2
    scaling = NO_SCALING
    if scaled:
        offset = random.normal(size=n_features)
        scaling = Scaling("standardize", offset, random.uniform(0.1, 10.0, size=n_features))
    model = fitted(
        random.normal(size=(n_pairs, n_features)),
        random.normal(size=n_pairs),
        np.arange(n_classes),
        scaling,
    )
    rows = random.normal(size=(70, n_features))
    rows[random.uniform(size=rows.shape) < 0.3] = 0.0
    return model, rows
