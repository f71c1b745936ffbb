"""What charts show: learning curves from traces of jobs, curves of precision and recall, and
histograms of a dataset's columns by class."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from service.dashboard.formatting import number, percent
from service.datasets.dataset import Dataset
from service.datasets.store import DatasetStore
from svm.problem.certificate import relative_gap

COLUMNS = ("epoch", "updates", "elapsed_s", "primal", "dual", "train_error", "validation_error")
STEPS = 4
"""Points of a curve of precision and recall for each of the ROC curve."""
MAX_VALUES = 4_000_000
"""Larger datasets have no histograms: the page shows minimum, mean and maximum."""
BINS = 24
MAX_CLASSES = 10
"""With more classes than colors, all rows have the same color."""
CACHED = 32


@dataclass(frozen=True, slots=True)
class Curve:
    """One binary problem: a list for each of `COLUMNS`, ordered by time."""

    title: str
    of_numbers: bool = False
    """Its errors are mean absolute errors, not shares of rows."""
    points: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in COLUMNS})

    def thinned(self, most: int) -> dict[str, list[Any]]:
        """At most `most` points, evenly spread, with the first and the last."""
        count = len(self.points["epoch"])
        if count <= most:
            return self.points
        chosen = sorted({round(k * (count - 1) / (most - 1)) for k in range(most)})
        return {name: [points[k] for k in chosen] for name, points in self.points.items()}

    def error(self, value: float | None) -> str:
        """An error as text."""
        return number(value) if self.of_numbers else percent(value)

    @property
    def relative_gap(self) -> float:
        """The gap at its end."""
        primal, dual = self.points["primal"][-1], self.points["dual"][-1]
        return relative_gap(primal, dual)


def precision_recall(
    false_positive_rate: Sequence[float],
    true_positive_rate: Sequence[float],
    positive: int,
    negative: int,
) -> list[tuple[float, float]]:
    """(recall, precision) along a ROC curve, as the threshold falls; of the numbers of rows of the
    class and of the others. A straight line there is a bent one here, so it has several points."""
    points = []
    for (f0, t0), (f1, t1) in pairwise(zip(false_positive_rate, true_positive_rate, strict=True)):
        for step in range(1, STEPS + 1):
            share = step / STEPS
            recall = t0 + share * (t1 - t0)
            hits, wrong = recall * positive, (f0 + share * (f1 - f0)) * negative
            points.append((recall, hits / (hits + wrong)))
    return [(0.0, points[0][1]), *points]


def curves_of(trace: Iterable[Mapping[str, Any]]) -> list[Curve]:
    """From the rows of `JobStore.trace`; the problem with the largest gap first."""
    by_pair: dict[int, Curve] = {}
    for row in trace:
        title = " against ".join(map(str, reversed(row["classes"])))
        if len(row["classes"]) == 1:
            title += " against all others"
        curve = by_pair.setdefault(row["pair"], Curve(title, not row["classes"]))
        for name, points in curve.points.items():
            points.append(row[name])
    return sorted(by_pair.values(), key=lambda curve: -curve.relative_gap)


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a histogram: heights as shares of the highest bar."""

    bin: int
    bottom: float
    height: float
    series: int
    """Number of the class, 0 if all rows have the same color."""


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
            codes = data.codes if n_classes <= MAX_CLASSES else None
            X = np.asarray(data.X)[:, first : first + count]
            kinds = dataset.kinds[first : first + count]
            histograms = [
                [] if kind.kind == "text" else _bars(column, codes, n_classes)
                for kind, column in zip(kinds, X.T, strict=True)
            ]
            self._cache[key] = histograms
            while len(self._cache) > CACHED:
                self._cache.popitem(last=False)
        return histograms


def _bars(
    values: npt.NDArray[np.float64], codes: npt.NDArray[np.int32] | None, n_classes: int
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
    return [
        Bar(
            int(b),
            float((tops[b, s] - counts[b, s]) / highest),
            float(counts[b, s] / highest),
            int(s),
        )
        for b, s in zip(*np.nonzero(counts), strict=True)
    ]
