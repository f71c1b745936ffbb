"""Curves of features: B-splines that SciPy has, too, and the polynomials that exports write."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.interpolate import BSpline

from svm.data.matrices import Vector
from svm.transforms.splines import are_knots, fit_knots, pieces_of, splines, widths_of


def rows(n: int, seed: int = 0) -> Vector:
    random = np.random.default_rng(seed)
    few = random.integers(0, 4, n).astype(float)
    flag = random.integers(0, 2, n).astype(float)
    return np.stack([random.normal(size=n), few, flag, random.exponential(size=n)], axis=1)


def test_they_are_the_clamped_basis_of_de_boor() -> None:
    X = rows(200)
    knots = fit_knots(X, 6)
    assert widths_of(knots).tolist() == [7, 5, 1, 7]
    values = splines(X, knots)
    start = 0
    for x, row, width in zip(X.T, knots, widths_of(knots).tolist(), strict=True):
        own = values[:, start : start + width]
        start += width
        if width == 1:
            assert np.array_equal(own[:, 0], x)
            continue
        t = row[: width - 1]
        design = BSpline.design_matrix(x, np.r_[t[0], t[0], t, t[-1], t[-1]], 2).toarray()
        np.testing.assert_allclose(own, design, atol=1e-12)
        np.testing.assert_allclose(own.sum(axis=1), 1.0, atol=1e-12)


def test_beyond_the_outer_knots_the_nearest_one_counts() -> None:
    knots = fit_knots(rows(200), 6)
    far = splines(np.array([[-9.0, -9.0, 0.5, -9.0], [9.0, 9.0, 0.5, 99.0]]), knots)
    assert far[0, 0] == far[1, 6] == far[0, 7] == 1.0
    assert far[0, 12] == 0.5


def test_the_pieces_are_the_same_functions() -> None:
    knots = fit_knots(rows(200), 5)
    X = np.concatenate([rows(100, 1), knots.T[:3, :]])
    X = np.where(np.isnan(X), 0.0, X)
    made = pieces_of(knots)
    x = np.clip(X[:, made.features], made.lowest, made.highest)
    total = np.zeros_like(x)
    for low, high, c in zip(made.low, made.high, made.coefficients, strict=True):
        first = low == made.lowest
        inside = ((x > low) | (first & (x == low)) | np.isinf(high)) & (x <= high)
        u = x - low
        total += np.where(inside, c[0] + u * (c[1] + u * c[2]), 0.0)
    np.testing.assert_allclose(total, splines(X, knots), atol=1e-12)


@pytest.mark.parametrize(
    "knots",
    [
        [[0.0, 1.0, 1.0]],
        [[0.0, 1.0, np.nan]],
        [[np.nan, 0.0, 1.0]],
        [[0.0, np.inf, np.nan]],
        [[0.0, 1.0]],
    ],
)
def test_other_arrays_are_no_knots(knots: list[list[float]]) -> None:
    assert not are_knots(np.array(knots), 1, 3)
    assert are_knots(np.array([[0.0, 1.0, 2.0]]), 1, 3)
    assert are_knots(np.full((1, 3), np.nan), 1, 3)
