"""The largest weights of a linear model, by the names of its features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from service.predictions.loaded_models import LoadedModel
from svm.model.multiclass import splits_of

MAX_FEATURES = 20
MAX_PROBLEMS = 10
"""Weights that are shown: features, and binary problems."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The largest weights, for each of the first binary problems."""

    problems: list[str]
    features: list[str]
    values: list[list[float]]
    """By feature, then by problem."""
    intercepts: list[float]
    largest: float
    n_features: int
    n_problems: int


def weights_of(model: LoadedModel) -> Weights | None:
    """None if the model has a kernel, or no features but texts and such without names."""
    fitted = model.fitted
    if fitted.kernel is not None:
        return None
    given = [f"feature {i}" for i in range(model.n_features)]
    if model.columns is not None:
        given = fitted.encoder.names_before_texts
    names = fitted.features.output_names(given)
    if not names:
        return None
    titles = ["value"]
    if fitted.target is None:
        splits = splits_of(fitted.multiclass, len(model.classes))
        titles = [" : ".join(str(model.classes[code]) for code in one.classes) for one in splits]
    shown = fitted.coefficients[:MAX_PROBLEMS, : len(names)]
    sizes = np.abs(shown).max(axis=0)
    order = np.argsort(-sizes, kind="stable")[:MAX_FEATURES]
    return Weights(
        problems=titles[:MAX_PROBLEMS],
        features=[names[i] for i in order],
        values=shown[:, order].T.tolist(),
        intercepts=fitted.intercepts[:MAX_PROBLEMS].tolist(),
        largest=float(sizes.max(initial=0.0)),
        n_features=len(names),
        n_problems=len(titles),
    )
