"""Statistics and warnings."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.rows.spec import LIBSVM
from service.rows.table.summary import Moments, SparseMoments
from tests.service.rows.reading import Result, upload


@given(
    seed=st.integers(0, 10**6),
    cuts=st.lists(st.integers(1, 99), max_size=4),
    shift=st.floats(-1e6, 1e6),
)
def test_moments_do_not_depend_on_blocks(seed: int, cuts: list[int], shift: float) -> None:
    """However rows come, mean and deviation are NumPy's over all rows."""
    X = np.random.default_rng(seed).normal(shift, 1, (100, 3))
    moments = Moments(3)
    for block in np.split(X, sorted(set(cuts))):
        moments.add(block)
    _compare(moments.statistics(), X)


@given(seed=st.integers(0, 10**6), cut=st.integers(0, 60))
def test_sparse_moments_count_the_zeros(seed: int, cut: int) -> None:
    """Values that are not stored are zeros."""
    random = np.random.default_rng(seed)
    X = random.normal(3, 1, (20, 3)) * (random.random((20, 3)) < 0.5)
    columns = np.nonzero(X)[1]
    values = X[np.nonzero(X)]
    moments = SparseMoments(20, 3)
    for add in (moments.add, moments.add_deviations):
        add(columns[:cut], values[:cut])
        add(columns[cut:], values[cut:])
    _compare(moments.statistics(), X)


def _compare(statistics: dict[str, list[float | None]], X: npt.NDArray[np.float64]) -> None:
    assert statistics["min"] == X.min(axis=0).tolist()
    assert statistics["max"] == X.max(axis=0).tolist()
    assert statistics["mean"] == pytest.approx(X.mean(axis=0).tolist(), rel=1e-12, abs=1e-14)
    assert statistics["std"] == pytest.approx(X.std(axis=0).tolist(), rel=1e-9)


def test_formats_give_the_same_statistics() -> None:
    """Dense or sparse, the columns are the same."""
    dense = upload("1,0,5\n0,0,6\n3,-2,5\n").parsed.statistics["columns"]
    sparse = upload("5 1:1\n6\n5 1:3 2:-2\n", LIBSVM, dense="never").parsed.statistics["columns"]
    for name in ("min", "max", "mean", "std"):
        assert sparse[name] == pytest.approx(dense[name])


def test_numbers_too_large_for_statistics() -> None:
    """What leaves float64 on the way is null; the data are fine."""
    columns = upload("1e308,1,x\n-1e308,1,y\n1.5e308,1,y\n").parsed.statistics["columns"]
    assert columns["std"] == [None, 0.0]
    assert columns["max"] == [1.5e308, 1.0]


def codes(result: Result) -> list[str]:
    return [warning["code"] for warning in result.parsed.warnings]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(1, 2, "x"), (2, 3, "y")], []),
        ([(1, 7, "x"), (2, 7, "y")], ["constant-columns"]),
        ([(0, 0, "x"), (1, 1000, "y")], ["unscaled"]),
        ([(i, i % 7, "x") for i in range(11)] + [(20, 1, "y")], ["imbalanced"]),
        ([(1, 2, "x"), (2, 3, "y"), (1, 2, "y")], ["duplicates"]),
    ],
)
def test_warnings(rows: list[tuple[Any, ...]], expected: list[str]) -> None:
    """Warnings: not errors, but worth knowing."""
    text = "a,b,k\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)
    assert codes(upload(text)) == expected


def test_constant_columns_are_named() -> None:
    """By name, or by position where they have none."""
    warning = upload("a,b,k\n1,7,x\n2,7,y\n").parsed.warnings[0]
    assert warning["columns"] == ["b"]
    assert upload("1,7,x\n2,7,y\n").parsed.warnings[0]["columns"] == [1]


@given(seed=st.integers(0, 10**6))
def test_duplicates_are_counted_exactly(seed: int) -> None:
    """Rows of zeros and ones, the hardest case for a hash, dense and sparse."""
    X = np.random.default_rng(seed).integers(0, 2, (60, 6))
    text = "".join(",".join(map(str, row)) + ",1\n" for row in X.tolist())
    lines = "".join(
        " ".join(["1", *(f"{j}:1" for j in np.flatnonzero(row) + 1)]) + "\n" for row in X
    )
    count = 60 - len(np.unique(X, axis=0))
    for result in (upload(text, header="absent"), upload(lines, LIBSVM, n_features=6)):
        found = [w["message"] for w in result.parsed.warnings if w["code"] == "duplicates"]
        has = "row has" if count == 1 else "rows have"
        assert found == [f"{count:,} {has} the same features as another one"] * (count > 0)
