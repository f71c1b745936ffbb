"""The loops over raw values of a table, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from svm.data.columns import FIRST_DAY, LAST_DAY, UNKNOWN, Column
from svm.data.matrices import Vector
from svm.encoding.encoder import BLOCK_ROWS, PARTS, Encoder, Encoding, date_parts

COLUMNS = (
    Column("sex", "category", ("f", "m")),
    Column("age"),
    Column("born", "date"),
    Column("port", "category", ("a", "b", "c", "d")),
    Column("alive", "boolean"),
)


def encoder() -> Encoder:
    """Of training rows with gaps in some columns and rare levels of `port`."""
    return Encoder(
        encoding=Encoding(min_count=3),
        columns=COLUMNS,
        missing=np.array([0, 2, 1, 4, 0]),
        counts=np.array([5, 7, 1, 9, 0, 8]),
        fills=np.array([30.5, 2000.0, 1.0, 7.0, 11_000.25, 0.0]),
    )


def raw_rows(n: int) -> Vector:
    draw = np.random.default_rng(0)
    X = np.stack(
        [
            draw.integers(int(UNKNOWN), 2, size=n),
            draw.normal(size=n),
            draw.uniform(FIRST_DAY, LAST_DAY, size=n),
            draw.integers(int(UNKNOWN), 4, size=n),
            draw.integers(2, size=n),
        ],
        axis=1,
    )
    X[draw.random(X.shape) < 0.2] = np.nan
    return X


def test_parts_of_dates() -> None:
    """Of every day of the years 1 … 9999, at midnight and in the last second."""
    whole = np.arange(FIRST_DAY, LAST_DAY)
    columns = (Column("day", "date"),)
    none = np.zeros(1, dtype=np.int64)
    dates = Encoder(
        encoding=Encoding(), columns=columns, missing=none, counts=none[:0], fills=np.zeros(4)
    )
    for days in (whole, whole + 86_399 / 86_400):
        np.testing.assert_array_equal(dates.numbers(days[:, None]), date_parts(days))


def numbers(X: Vector, fitted: Encoder) -> Vector:
    """As `Encoder.numbers`."""
    found = [X[:, 1:2], date_parts(X[:, 2]), X[:, 4:5]]
    values = np.concatenate(found, axis=1)
    assert values.shape[1] == 2 + len(PARTS)
    filled = np.where(np.isnan(values), fitted.fills, values)
    return np.concatenate([filled, np.isnan(X[:, [1, 2]])], axis=1)


@pytest.mark.parametrize("sparse", [False, True])
def test_outputs(sparse: bool) -> None:
    """Of more rows than are encoded at a time."""
    fitted, X = encoder(), raw_rows(2 * BLOCK_ROWS + 10)
    expected = np.zeros((len(X), fitted.n_outputs))
    expected[:, : fitted.n_numbers] = numbers(X, fitted)
    slots = fitted.slots[fitted.level_slots(X)]
    for row, outputs in zip(expected, slots.tolist(), strict=True):
        row[[output for output in outputs if output < fitted.n_outputs]] = 1.0
    found: Any = fitted.transform(X, sparse=sparse)
    dense = found.toarray() if sparse else found
    np.testing.assert_array_equal(dense, expected)
    alone: Any = fitted.transform(X[5:6], sparse=sparse)
    np.testing.assert_array_equal(alone.toarray() if sparse else alone, expected[5:6])
    if sparse:
        assert found.has_canonical_format
        assert found.nnz == len(X) * fitted.n_numbers + int((slots < fitted.n_outputs).sum())
