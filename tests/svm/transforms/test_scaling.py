"""Scaling of features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

from svm.data.matrices import Vector
from svm.data.stored_rows import PIECE_VALUES
from svm.errors import InvalidData
from svm.transforms.scaling import Scaling, ScalingName, fit_scaling
from tests.svm.cases.strategies import PROPERTY

NAMES: tuple[ScalingName, ...] = ("standardize", "min-max", "max-abs")
PEERS: dict[str, Any] = {
    "standardize": StandardScaler,
    "min-max": MinMaxScaler,
    "max-abs": MaxAbsScaler,
}


def rows(n: int = 50, d: int = 6) -> Vector:
    random = np.random.default_rng(8)
    return random.normal(size=(n, d)) * 10.0 ** np.arange(-2, d - 2) + np.arange(d)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [1, 2, 50, PIECE_VALUES // 6 + 3])
def test_scaling_equals_scikit_learns(name: ScalingName, n: int) -> None:
    """Mean 0 and deviation 1 (divisor n); 0 … 1; -1 … 1 without an offset."""
    X = rows(n)
    scaled = np.asarray(fit_scaling(name, X).transform(X))
    np.testing.assert_allclose(scaled, PEERS[name]().fit_transform(X), rtol=1e-9, atol=1e-12)


def test_standardize_is_exact_far_from_zero() -> None:
    """Two passes: a mean a billion times the deviation costs no digits of the deviation."""
    values = 1e9 + np.array([[0.0], [1.0], [2.0], [3.0]])
    scaling = fit_scaling("standardize", values)
    assert scaling.scale is not None
    assert scaling.scale[0] == pytest.approx(np.sqrt(1.25), rel=1e-12)


@pytest.mark.parametrize("constant", [0.0, 1.0, -0.1, 1e9 / 3.0, 1e-200])
@pytest.mark.parametrize("name", NAMES)
def test_constant_column(name: ScalingName, constant: float) -> None:
    """It is not amplified: 0 after an offset, and of size 0 or 1 without one."""
    X = np.column_stack([rows(1000)[:, 0], np.full(1000, constant)])
    scaled = np.asarray(fit_scaling(name, X).transform(X))[:, 1]
    if name == "max-abs":
        assert set(scaled) <= {-1.0, 0.0, 1.0}
    else:
        assert np.abs(scaled).max() <= 1e-6 * max(1.0, abs(constant))


def test_none_gives_the_matrix_itself() -> None:
    """Without a change there is no copy."""
    X = rows()
    assert fit_scaling("none", X).transform(X) is X


@pytest.mark.parametrize("name", NAMES)
def test_the_given_matrix_stays(name: ScalingName) -> None:
    """Scaling returns a new matrix."""
    X = rows()
    kept = X.copy()
    fit_scaling(name, X).transform(X)
    np.testing.assert_array_equal(X, kept)


def test_sparse_data_keep_their_zeros() -> None:
    """max-abs on CSR data has the same result as on dense data, with the same stored entries."""
    dense = np.where(rows() > 1.0, rows(), 0.0)
    dense[:, 2] = 0.0
    sparse = csr_array(dense)
    scaling, expected = fit_scaling("max-abs", sparse), fit_scaling("max-abs", dense)
    np.testing.assert_array_equal(scaling.scale, expected.scale)
    scaled: Any = scaling.transform(sparse)
    assert scaled.nnz == sparse.nnz
    np.testing.assert_array_equal(scaled.toarray(), expected.transform(dense))


@pytest.mark.parametrize("name", ["standardize", "min-max"])
def test_sparse_data_is_refused_if_it_would_become_dense(name: ScalingName) -> None:
    """With the hint to use max-abs; so are sparse rows for a scaling learned on dense ones."""
    with pytest.raises(InvalidData, match="max-abs") as caught:
        fit_scaling(name, csr_array(rows()))
    assert caught.value.code == "scaling-unsupported"
    with pytest.raises(InvalidData, match="dense rows") as caught:
        fit_scaling(name, rows()).transform(csr_array(rows()))
    assert caught.value.code == "scaling-unsupported"


@pytest.mark.parametrize("name", NAMES)
def test_single_precision_stays_single(name: ScalingName) -> None:
    """Offset and scale are learned in double precision, the rows keep theirs."""
    X = rows().astype(np.float32)
    scaling = fit_scaling(name, X)
    scaled = scaling.transform(X)
    assert scaled.dtype == np.float32
    assert all(v is None or v.dtype == np.float64 for v in (scaling.offset, scaling.scale))
    exact = X.astype(np.float64)
    double = np.asarray(fit_scaling(name, exact).transform(exact))
    np.testing.assert_allclose(np.asarray(scaled), double, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", NAMES)
def test_scaled_row_does_not_depend_on_other_rows(name: ScalingName, dtype: Any) -> None:
    """To the bit, with any other rows."""
    X = rows().astype(dtype)
    scaling = fit_scaling(name, X)
    together = np.asarray(scaling.transform(X))
    for i in (0, 7, 49):
        assert np.asarray(scaling.transform(X[[i]])).tobytes() == together[i].tobytes()


@PROPERTY
@given(X=arrays(np.float64, (6, 2), elements=st.floats(-1e100, 1e100)), name=st.sampled_from(NAMES))
def test_ranges(X: Vector, name: ScalingName) -> None:
    """Scaled training data is in 0 … 1, in -1 … 1, or within √n deviations of its mean."""
    scaling: Scaling = fit_scaling(name, X)
    scaled = np.asarray(scaling.transform(X))
    assert np.isfinite(scaled).all()
    assert scaling.scale is not None
    varied = scaling.scale != 1.0  # 1 also for columns that are not changed
    low, high = {
        "standardize": (-np.sqrt(6.0), np.sqrt(6.0)),
        "min-max": (0.0, 1.0),
        "max-abs": (-1.0, 1.0),
    }[name]
    assert (scaled[:, varied] >= low - 1e-9).all()
    assert (scaled[:, varied] <= high + 1e-9).all()
