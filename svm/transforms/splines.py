"""Quadratic B-splines: a smooth curve of each feature, for a model that stays a sum of curves."""

from __future__ import annotations

import numpy as np

from svm.data.matrices import Floats, Indices, Vector

FEWEST = 3
"""Different knots that a curve needs; a feature with fewer, such as an indicator, stays one."""


def fit_knots(X: Vector, n_knots: int) -> Vector:
    """(n_features, n_knots) ascending quantiles of the columns of X (n_samples, n_features), each
    once, then NaN; only NaN for a column that stays as it is."""
    levels = np.quantile(X, np.linspace(0.0, 1.0, n_knots), axis=0, method="closest_observation")
    out = np.full((X.shape[1], n_knots), np.nan)
    for row, column in zip(out, levels.T, strict=True):
        distinct = np.unique(column)
        if len(distinct) >= FEWEST:
            row[: len(distinct)] = distinct
    return out


def are_knots(knots: Vector | None, n_inputs: int) -> bool:
    """Whether an array from elsewhere can be the result of `fit_knots`."""
    if knots is None or knots.ndim != 2 or len(knots) != n_inputs or knots.shape[1] < FEWEST:
        return False
    counts = np.count_nonzero(np.isfinite(knots), axis=1)
    known = np.arange(knots.shape[1]) < counts[:, None]
    ascending = (np.diff(knots, axis=1) > 0.0) | ~known[:, 1:]
    usual = (np.isfinite(knots) == known) & ascending
    return bool(usual.all() and ((counts == 0) | (counts >= FEWEST)).all())


def widths_of(knots: Vector) -> Indices:
    """(n_features,) how many outputs each feature has."""
    counts = np.count_nonzero(np.isfinite(knots), axis=1)
    return np.where(counts == 0, 1, counts + 1)


def splines(X: Floats, knots: Vector) -> Floats:
    """(n_samples, sum of `widths_of`) the basis functions of every feature, one feature after the
    other, in the precision of X. Beyond its outer knots a feature counts as at the nearest one.

    On [tᵢ, tᵢ₊₁] three functions are not 0, and their sum is 1 (de Boor, 1978): with clamped ends
    the first is (tᵢ₊₁ - x)²/((tᵢ₊₁ - tᵢ₋₁)(tᵢ₊₁ - tᵢ)), the third
    (x - tᵢ)²/((tᵢ₊₂ - tᵢ)(tᵢ₊₁ - tᵢ)).
    """
    widths = widths_of(knots)
    ends = np.cumsum(widths)
    out = np.zeros((len(X), int(ends[-1])), dtype=X.dtype)
    rows = np.arange(len(X))
    for j, (end, width) in enumerate(zip(ends.tolist(), widths.tolist(), strict=True)):
        x = X[:, j]
        if width == 1:
            out[:, end - 1] = x
            continue
        t = knots[j, : width - 1].astype(X.dtype)
        clamped = np.concatenate((t[:1], t, t[-1:]))
        x = np.clip(x, t[0], t[-1])
        i = np.searchsorted(t[1:-1], x)
        low, high = t[i], t[i + 1]
        length = high - low
        first = (high - x) ** 2 / ((high - clamped[i]) * length)
        third = (x - low) ** 2 / ((clamped[i + 3] - low) * length)
        place = end - width + i
        out[rows, place] = first
        out[rows, place + 1] = 1.0 - first - third
        out[rows, place + 2] = third
    return out
