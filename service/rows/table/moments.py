"""Minimum, maximum, mean and standard deviation of columns that come in blocks of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]


class Moments:
    """Dense blocks, joined as Chan, Golub and LeVeque (1979) do: no squares of large sums."""

    def __init__(self, n_columns: int) -> None:
        self._count = 0
        self._mean = np.zeros(n_columns)
        self._squares = np.zeros(n_columns)  # Σ (x - mean)²
        self._min = np.full(n_columns, np.inf)
        self._max = np.full(n_columns, -np.inf)

    def add(self, block: npt.NDArray[np.float64]) -> None:
        """(rows, n_columns), at least one row."""
        count = self._count + len(block)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = block.mean(axis=0)
            delta = mean - self._mean
            weight = self._count * len(block) / count
            self._squares += ((block - mean) ** 2).sum(axis=0) + delta**2 * weight
            self._mean += delta * (len(block) / count)
        self._min = np.minimum(self._min, block.min(axis=0))
        self._max = np.maximum(self._max, block.max(axis=0))
        self._count = count

    def statistics(self) -> dict[str, list[float | None]]:
        return _statistics(self._min, self._max, self._mean, self._squares, self._count)


class GappedMoments:
    """Dense blocks with NaN for missing cells, which do not count; joined as in `Moments`."""

    def __init__(self, n_columns: int) -> None:
        self._count = np.zeros(n_columns)
        self._mean = np.zeros(n_columns)
        self._squares = np.zeros(n_columns)
        self._min = np.full(n_columns, np.inf)
        self._max = np.full(n_columns, -np.inf)

    def add(self, block: npt.NDArray[np.float64]) -> None:
        """(rows, n_columns)."""
        missing = np.isnan(block)
        gapped = bool(missing.any())
        here = len(block) - missing.sum(axis=0)
        count = self._count + here

        def filled(values: Vector, value: float) -> Vector:
            return np.where(missing, value, values) if gapped else values

        with np.errstate(over="ignore", invalid="ignore"):
            mean = filled(block, 0).sum(axis=0) / np.maximum(here, 1)
            delta = mean - self._mean
            share = here / np.maximum(count, 1)
            squares = filled(block - mean, 0) ** 2
            self._squares += squares.sum(axis=0) + delta**2 * self._count * share
            self._mean += delta * share
        self._min = np.fmin(self._min, filled(block, np.inf).min(axis=0))
        self._max = np.fmax(self._max, filled(block, -np.inf).max(axis=0))
        self._count = count

    def statistics(self) -> dict[str, list[float | None]]:
        """None for a column without values."""
        empty = self._count == 0
        statistics = _statistics(
            self._min, self._max, self._mean, self._squares, np.maximum(self._count, 1)
        )
        return {
            key: [None if empty[i] else value for i, value in enumerate(values)]
            for key, values in statistics.items()
        }


class SparseMoments:
    """Stored entries in two passes: all of `add` first, then all of `add_deviations`."""

    def __init__(self, n_rows: int, n_columns: int) -> None:
        self._n_rows = n_rows
        self._stored = np.zeros(n_columns, dtype=np.int64)
        self._sum = np.zeros(n_columns)
        self._squares = np.zeros(n_columns)
        self._min = np.full(n_columns, np.inf)
        self._max = np.full(n_columns, -np.inf)

    def add(self, columns: npt.NDArray[Any], values: Vector) -> None:
        """Entries: their columns and their values."""
        n_columns = len(self._sum)
        self._stored += np.bincount(columns, minlength=n_columns)
        with np.errstate(over="ignore", invalid="ignore"):
            self._sum += np.bincount(columns, values, n_columns)
        np.minimum.at(self._min, columns, values)
        np.maximum.at(self._max, columns, values)

    def add_deviations(self, columns: npt.NDArray[Any], values: Vector) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            deviations = (values - (self._sum / self._n_rows)[columns]) ** 2
            self._squares += np.bincount(columns, deviations, len(self._sum))

    def statistics(self) -> dict[str, list[float | None]]:
        zeros = self._n_rows - self._stored
        low = np.where(zeros > 0, np.minimum(self._min, 0), self._min)
        high = np.where(zeros > 0, np.maximum(self._max, 0), self._max)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = self._sum / self._n_rows
            squares = self._squares + zeros * mean**2
        return _statistics(low, high, mean, squares, self._n_rows)


def _statistics(
    low: Vector, high: Vector, mean: Vector, squares: Vector, count: int | Vector
) -> dict[str, list[float | None]]:
    """The standard deviation is that of these rows (divided by n). None: beyond float64."""
    return {
        "min": low.tolist(),
        "max": high.tolist(),
        "mean": _finite(mean),
        "std": _finite(np.sqrt(squares / count)),
    }


def _finite(values: Vector) -> list[float | None]:
    return [value if np.isfinite(value) else None for value in values.tolist()]
