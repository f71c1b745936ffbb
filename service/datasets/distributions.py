"""Histograms of a dataset's columns by class."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from service.charts.chart import SHOWN_CLASSES
from service.datasets.dataset import Dataset
from service.datasets.store import DatasetStore

MAX_VALUES = 4_000_000
"""Larger datasets have no histograms: the page shows minimum, mean and maximum."""
BINS = 24
CACHED = 32


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a histogram: heights as shares of the highest bar."""

    bin: int
    bottom: float
    height: float
    series: int
    """Number of the class, 0 if all rows have the same color."""
    title: str = ""
    """The level, and how many rows have it."""


class Distributions:
    """Makes histograms, and caches the latest. Two threads can compute the same one at once."""

    def __init__(self, store: DatasetStore) -> None:
        self._store = store
        self._cache: OrderedDict[tuple[str, int, int], list[list[Bar]]] = OrderedDict()

    def of(self, dataset: Dataset, first: int, count: int) -> list[list[Bar]] | None:
        """Histograms of the columns from `first`; None if the dataset is sparse or too large.

        Raises Corrupt.
        """
        if dataset.sparse or dataset.n_samples * dataset.n_features > MAX_VALUES:
            return None
        key = (dataset.matrix_digest, first, count)
        histograms = self._cache.get(key)
        if histograms is None:
            data = self._store.load(dataset)
            n_classes = len(dataset.classes or ())
            codes = data.codes if n_classes <= SHOWN_CLASSES else None
            X = np.asarray(data.X)[:, first : first + count]
            kinds = dataset.kinds[first : first + count]
            histograms = [
                [] if kind.kind == "text" else _bars(column, codes, n_classes, kind.levels)
                for kind, column in zip(kinds, X.T, strict=True)
            ]
            self._cache[key] = histograms
            while len(self._cache) > CACHED:
                self._cache.popitem(last=False)
        return histograms


def _bars(
    values: npt.NDArray[np.float64],
    codes: npt.NDArray[np.int32] | None,
    n_classes: int,
    levels: Sequence[str],
) -> list[Bar]:
    known = ~np.isnan(values)  # other cells are missing
    values, codes = values[known], codes if codes is None else codes[known]
    if not len(values):
        return []
    low, high = float(values.min()), float(values.max())
    with np.errstate(over="ignore", invalid="ignore"):
        width = high - low
        if not 0 < width < np.inf:
            bins = np.zeros(len(values), dtype=np.intp)
        else:
            bins = np.minimum(((values - low) / width * BINS).astype(np.intp), BINS - 1)
    series = max(1, n_classes) if codes is not None else 1
    which = bins * series + (0 if codes is None else codes)
    counts = np.bincount(which, minlength=BINS * series).reshape(BINS, series)
    tops = counts.cumsum(axis=1)
    highest = max(1, int(tops.max()))
    titles = [""] * BINS
    if low == 0 and high == len(levels) - 1 < BINS:  # each level has a bar of its own
        for code, level in enumerate(levels):
            b = min(int(code / max(1.0, high) * BINS), BINS - 1)
            titles[b] = f"{level}: {tops[b, -1]:,}"
    return [
        Bar(
            int(b),
            float((tops[b, s] - counts[b, s]) / highest),
            float(counts[b, s] / highest),
            *(int(s), titles[b]),
        )
        for b, s in zip(*np.nonzero(counts), strict=True)
    ]
