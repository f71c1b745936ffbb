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
    X = np.concatenate([rows(100, 1), knots.T])
    made = pieces_of(knots)
    x = np.clip(X[:, made.features], made.lowest, made.highest)
    total = np.zeros_like(x)
    for low, high, c in zip(made.low, made.high, made.coefficients, strict=True):
        first = low == made.lowest
        inside = ((x > low) | (first & (x == low)) | np.isinf(high)) & (x <= high)
        u = x - low
        total += np.where(inside, c[0] + u * (c[1] + u * c[2]), 0.0)
    np.testing.assert_allclose(total, splines(X, knots), atol=1e-12)


BAD: list[list[float]] = [
    [0.0, 1.0, 0.5, 2.0],
    [0.0, 0.0, 1.0, 2.0],
    [2.0, 1.0, 0.0, 0.0],
    [0.0, np.nan, 1.0, 2.0],
    [0.0, 1.0, 2.0, np.inf],
    [0.0, 1.0, 1.0, 1.0],
    [0.0, 5e-324, 1e-323, 1.5e-323],
    [-1.7e308, 0.0, 1e308, 1.7e308],
    [0.0, 1e-170, 2e-170, 1.0],
]


@pytest.mark.parametrize("knots", BAD, ids=str)
def test_other_arrays_are_not_knots(knots: list[float]) -> None:
    assert not are_knots(np.array([knots]), 1, 4)
    assert not are_knots(None, 1, 4)
    for good in ([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 2.0], [0.0, 0.0, 0.0, 0.0]):
        assert are_knots(np.array([good]), 1, 4)


@pytest.mark.parametrize("scale", [1e-310, 1e-170, 1e-90, 1.0, 1e90, 1e150])
def test_all_finite_columns_have_finite_curves(scale: float) -> None:
    """Also with values that are almost equal beside others."""
    X = np.concatenate([rows(100), np.resize([0.0, 1e-170, 1.0], (100, 4))]) * scale
    knots = fit_knots(X, 6)
    assert are_knots(knots, 4, 6)
    assert np.isfinite(splines(X, knots)).all()
