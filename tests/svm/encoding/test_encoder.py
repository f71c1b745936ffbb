"""Encoders against a slow version, cell by cell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svm.data.columns import UNKNOWN, Column, bounds_of, require_raw
from svm.data.matrices import read_only
from svm.encoding.encoder import Encoding, describe
from svm.encoding.fitting import fit_encoder
from svm.errors import InvalidData, InvalidHyperparameter
from svm.loops.tables import are_raw
from tests.svm.cases.strategies import PROPERTY
from tests.svm.cases.tables import KINDS, NAN, SlowEncoder, table

SCALINGS: tuple[Any, ...] = ("none", "standardize", "min-max", "max-abs")


@PROPERTY
@given(
    n=st.integers(4, 60),
    seed=st.integers(0, 1000),
    n_levels=st.integers(1, 12),
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=6),
    missing=st.sampled_from(["median", "mean", "constant"]),
    min_count=st.integers(1, 6),
    scaling=st.sampled_from(SCALINGS),
)
def test_outputs_are_those_of_the_slow_encoder(
    n: int, seed: int, n_levels: int, kinds: list[Any], missing: Any, min_count: int, scaling: Any
) -> None:
    """On the training rows and on rows with unknown levels and missing cells in any column."""
    X, _, columns = table(n + 20, seed, n_levels, [*kinds, "number"])
    rows, X = X[n:].copy(), X[:n]
    X[0, np.isnan(X).all(axis=0)] = 0.0  # a column without any value: see below
    for j, column in enumerate(columns):
        rows[j % 20, j] = NAN
        if column.kind == "category":
            rows[(j + 1) % 20, j] = UNKNOWN
    encoding = Encoding(missing=missing, constant=2.5, min_count=min_count)
    slow = SlowEncoder(encoding, scaling, X, columns)
    encoder, fitted = fit_encoder(encoding, scaling, X, columns)
    for raw in (X, rows):
        require_raw(raw, columns)
        assert are_raw(read_only(raw), *bounds_of(columns))
        expected = np.array([slow.outputs(row) for row in raw.tolist()])
        dense: Any = encoder.transform(raw, fitted)
        sparse: Any = encoder.transform(raw, fitted, sparse=True)
        assert dense.shape == expected.shape
        np.testing.assert_allclose(dense, expected, rtol=1e-9, atol=1e-9)
        assert sparse.has_canonical_format
        assert sparse.toarray().tobytes() == dense.tobytes()
    assert len(encoder.output_names) == len(encoder.output_columns) == encoder.n_outputs
    assert len(set(encoder.output_names)) == encoder.n_outputs


def test_order_of_the_outputs() -> None:
    """Numbers, booleans and parts of dates; indicators; levels, rare ones and missing cells."""
    columns = (
        Column("Sex", "category", ("female", "male")),
        Column("Age"),
        Column("Cabin", "category", ("A", "B", "C", "D")),
        Column("Alone", "boolean"),
        Column("Born", "date"),
    )
    X = np.array(
        [
            [0.0, 20.0, 0.0, 1.0, 0.0],
            [1.0, NAN, 0.0, 0.0, 365.0],
            [1.0, 28.0, 1.0, 0.0, NAN],
            [1.0, 40.0, NAN, 1.0, 31.5],
        ]
    )
    encoder, _ = fit_encoder(Encoding(min_count=2), "none", X, columns)
    assert encoder.output_names == [
        *("Age", "Alone", "Born: year", "Born: month", "Born: weekday", "Born: days"),
        *("Age: missing", "Born: missing"),
        *("Sex: male", "Sex: rare", "Cabin: A", "Cabin: rare", "Cabin: missing"),
    ]
    assert np.asarray(encoder.transform(X)).tolist() == [
        [20, 1, 1970, 1, 4, 0, 0, 0, 0, 1, 1, 0, 0],
        [28, 0, 1971, 1, 5, 365, 1, 0, 1, 0, 1, 0, 0],
        [28, 0, 1970, 2, 7, 31.5, 0, 1, 1, 0, 0, 1, 0],
        [40, 1, 1970, 2, 7, 31.5, 0, 0, 1, 0, 0, 0, 1],
    ]
    assert describe(encoder) == [
        "Sex: 2 levels, 1 rare one together",
        "Age: 1 missing cell filled with the median 28",
        "Cabin: 2 levels, 1 rare one together, 1 missing cell as one more",
        "Born: year, month, weekday and days since 1970-01-01",
        "Born: 1 missing cell filled with the median 1970-02-01",
    ]


def test_column_without_any_value_has_constant_outputs() -> None:
    """In a small fold: numbers become 0, and the indicator is 1."""
    columns = (Column("a"), Column("b", "category", ("x",)), Column("c", "date"))
    encoder, scaling = fit_encoder(Encoding(), "standardize", np.full((3, 3), NAN), columns)
    Z = np.asarray(encoder.transform(np.full((2, 3), NAN), scaling))
    assert Z.tolist() == [[0.0] * 5 + [1.0] * 3] * 2


@pytest.mark.parametrize(
    ("j", "value", "code"),
    [
        (0, np.inf, "non-finite-value"),
        (1, 5.0, "not-a-number"),
        (1, -2.0, "not-a-number"),
        (1, 0.5, "not-a-number"),
        (2, 2.0, "not-a-number"),
        (3, 1e9, "not-a-number"),
    ],
)
def test_value_that_is_not_raw_is_located(j: int, value: float, code: str) -> None:
    """An unknown position would read beyond the end of a table."""
    X, _, columns = table(10)
    X[7, j] = value
    with pytest.raises(InvalidData, match=rf"row 7 .*column {j}") as error:
        require_raw(X, columns)
    assert error.value.code == code
    assert not are_raw(read_only(X), *bounds_of(columns))
    with pytest.raises(InvalidData, match="columns"):
        require_raw(X[:, :2], columns)


def test_refused_cells_are_located() -> None:
    """Missing numbers in training and later; levels that training did not have, rare or not."""
    X, _, columns = table(60, n_levels=30)
    with pytest.raises(InvalidData, match=r"column 'column \d'.*missing") as error:
        fit_encoder(Encoding(missing="refuse"), "none", X, columns)
    assert error.value.code == "missing-value"
    X[:, [0, 2, 3, 5]] = np.nan_to_num(X[:, [0, 2, 3, 5]])
    strict = Encoding(missing="refuse", unseen="refuse", min_count=3)
    encoder, _ = fit_encoder(strict, "none", X, columns)
    encoder.require_accepted(X)
    rows = X[:4].copy()
    rows[1, 1], rows[2, 0], rows[3, 4] = UNKNOWN, NAN, NAN
    assert np.argwhere(encoder.refused(rows)).tolist() == [[1, 1], [2, 0]]
    with pytest.raises(InvalidData, match=r"row 1 .*column 1.*level") as error:
        encoder.require_accepted(rows)
    assert error.value.code == "unseen-level"
    unseen = sorted(set(range(30)) - set(X[:, 1].tolist()))
    rows[1, 1] = unseen[0]
    assert np.argwhere(encoder.refused(rows)).tolist() == [[1, 1], [2, 0]]


def test_bad_encoding_is_refused() -> None:
    """With the parameter's name."""
    with pytest.raises(InvalidHyperparameter, match="min_count"):
        Encoding(min_count=0)
    with pytest.raises(InvalidHyperparameter, match="constant"):
        Encoding(missing="constant", constant=np.inf)
