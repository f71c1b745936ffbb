"""Counts cells of rows to predict that a model's training rows did not have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from svm.data.matrices import Matrix, Vector, is_sparse
from svm.encoding import Encoder


class Unknown:
    """Finds the unknown cells of one model of a table."""

    def __init__(self, encoder: Encoder) -> None:
        kinds = np.array([column.kind == "category" for column in encoder.columns], dtype=bool)
        self._encoder = encoder
        self._lowest: Vector = np.where(kinds, 0.0, -np.inf)
        self._no_gaps = encoder.missing == 0
        self._all_trained = bool((encoder.counts > 0).all())

    def count(self, X: Vector) -> tuple[int, int]:
        """Cells with a level that no training row had, and missing cells in columns that had none
        in training. X has raw values."""
        if self._all_trained and np.count_nonzero(self._lowest <= X) == X.size:
            return 0, 0  # most rows; NaN is not larger than anything
        unseen = self._lowest > X if self._all_trained else self._encoder.unseen(X)
        missing = np.isnan(X) & self._no_gaps
        return int(np.count_nonzero(unseen)), int(np.count_nonzero(missing))


class UnknownCells(Collector):
    """Their number by model. Belongs to one event loop."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, model: str, unknown: Unknown, X: Matrix) -> None:
        """Count those of answered rows."""
        if is_sparse(X):
            return
        unseen, missing = unknown.count(X)
        if unseen:
            self._counts[model, "unseen"] += unseen
        if missing:
            self._counts[model, "missing"] += missing

    def collect(self) -> Iterator[Metric]:
        """Called by the registry."""
        family = CounterMetricFamily(
            "svm_prediction_unknown_cells",
            "Cells of answered rows with a level that no training row had (unseen), or missing "
            "cells in columns that had none in training (missing).",
            labels=["model", "reason"],
        )
        for labels, count in list(self._counts.items()):
            family.add_metric(labels, count)
        yield family
