"""Quadratic B-splines: a smooth curve of each feature, for a model that stays a sum of curves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from svm.data.matrices import Floats, Indices, Vector

FEWEST = 3
"""Different knots that a curve needs; a feature with fewer, such as an indicator, stays one."""
NEAR, SPANS = 1e-9, (1e-100, 1e100)
"""Knots that are nearer than this share of the distance of the outer ones are one, and these have a
distance between the two: the products of distances are normal numbers."""


def fit_knots(X: Vector, n_knots: int) -> Vector:
    """(n_features, n_knots) ascending quantiles of the columns of X (n_samples, n_features), the
    largest one repeated in place of equal ones; 0 for a column that stays as it is."""
    levels = np.quantile(X, np.linspace(0.0, 1.0, n_knots), axis=0, method="closest_observation")
    out = np.zeros((X.shape[1], n_knots))
    for row, column in zip(out, levels.T, strict=True):
        span = column[-1] - column[0]
        if not SPANS[0] < span < SPANS[1]:
            continue
        steps = np.floor((column - column[0]) / (NEAR * span))
        distinct = column[np.unique(steps, return_index=True)[1]]
        distinct[-1] = column[-1]
        if len(distinct) >= FEWEST:
            row[:] = column[-1]
            row[: len(distinct)] = distinct
    return out


def are_knots(knots: Vector | None, n_inputs: int, n_knots: int) -> bool:
    """Whether an array from elsewhere can be the result of `fit_knots`."""
    if knots is None or knots.shape != (n_inputs, n_knots) or not np.isfinite(knots).all():
        return False
    with np.errstate(over="ignore"):
        spans, gaps = knots[:, -1] - knots[:, 0], np.diff(knots, axis=1)
    counts = _counts(knots)
    first = np.arange(n_knots - 1) < counts[:, None] - 1
    apart = np.where(first, gaps > 0.1 * NEAR * spans[:, None], gaps == 0.0)
    curved = (spans > SPANS[0]) & (spans < SPANS[1]) & (counts >= FEWEST)
    return bool(((counts == 1) | (curved & apart.all(axis=1))).all())


def _counts(knots: Vector) -> Indices:
    """(n_features,) different knots."""
    counts: Indices = 1 + np.count_nonzero(np.diff(knots, axis=1), axis=1)
    return counts


def widths_of(knots: Vector) -> Indices:
    """(n_features,) how many outputs each feature has."""
    counts = _counts(knots)
    return np.where(counts < FEWEST, 1, counts + 1)


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


class Pieces(NamedTuple):
    """The basis functions as polynomials, for other programs; (n_outputs,) and (3, n_outputs)."""

    features: Indices
    """Which feature each is of."""
    lowest: Vector
    highest: Vector
    """Values of the feature count as if they were between these."""
    low: Vector
    high: Vector
    """The function is c₀ + c₁u + c₂u² of u = x - low, if low < x <= high; else 0. NaN for none."""
    coefficients: Vector
    """(3, 3, n_outputs): c₀, c₁, c₂ by piece."""


def pieces_of(knots: Vector) -> Pieces:
    """The same functions as `splines`, up to rounding."""
    widths = widths_of(knots)
    m = int(widths.sum())
    features = np.repeat(np.arange(len(knots)), widths)
    lowest, highest = np.full(m, -np.inf), np.full(m, np.inf)
    low, high = np.full((3, m), np.nan), np.full((3, m), np.nan)
    coefficients = np.zeros((3, 3, m))
    for end, width, row in zip(np.cumsum(widths).tolist(), widths.tolist(), knots, strict=True):
        start = end - width
        if width == 1:
            low[0, start], high[0, start], coefficients[0, 1, start] = 0.0, np.inf, 1.0
            continue
        t = row[: width - 1]
        lowest[start:end], highest[start:end] = t[0], t[-1]
        clamped = np.concatenate((t[:1], t, t[-1:]))
        for i in range(width - 2):
            length = t[i + 1] - t[i]
            a, b = t[i + 1] - clamped[i], clamped[i + 3] - t[i]
            first = np.array([length / a, -2.0 / a, 1.0 / (a * length)])
            third = np.array([0.0, 0.0, 1.0 / (b * length)])
            second = np.array([1.0, 0.0, 0.0]) - first - third
            for piece, polynomial in enumerate((first, second, third)):
                output = start + i + piece
                low[piece, output], high[piece, output] = t[i], t[i + 1]
                coefficients[piece, :, output] = polynomial
    return Pieces(features, lowest, highest, low, high, coefficients)
