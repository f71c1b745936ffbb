"""Counts predictions by model and version, and cells that a model's training rows did not have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from time import perf_counter

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from service.common.tally import Tally
from service.predictions.loaded_models import LoadedModel
from service.predictions.unknown_cells import UnknownCells

MOST_VERSIONS = 200
"""Whose metrics are kept: each is a dozen lines of `/metrics`."""


class _Served(Tally):
    """Answered requests of a version."""

    __slots__ = ("errors", "rows", "used_at")

    def __init__(self) -> None:
        super().__init__()
        self.rows = self.errors = 0
        self.used_at = 0.0


class PredictionMetrics(Collector):
    """Predictions by model and version, of the `MOST_VERSIONS` that were used last. Belongs to one
    event loop."""

    def __init__(self) -> None:
        self._served: dict[tuple[str, int], _Served] = {}
        self._unknown: Counter[tuple[str, str]] = Counter()

    def count_answer(
        self, version: LoadedModel, n_rows: int, unknown: UnknownCells | None, started: float
    ) -> None:
        """Count an answered request that `started` at this time of `perf_counter`."""
        now = perf_counter()
        served = self._served.get((version.name, version.version)) or self._begin(version)
        served.used_at = now
        served.rows += n_rows
        served.count(now - started)
        if unknown is not None:
            for reason, count in unknown.counts.items():
                self._unknown[version.name, reason] += count

    def count_refusal(self, version: LoadedModel) -> None:
        """Count a request that the model could not answer."""
        served = self._served.get((version.name, version.version)) or self._begin(version)
        served.used_at = perf_counter()
        served.errors += 1

    def _begin(self, version: LoadedModel) -> _Served:
        while len(self._served) >= MOST_VERSIONS:
            self._forget(min(self._served, key=lambda key: self._served[key].used_at))
        served = self._served[version.name, version.version] = _Served()
        return served

    def _forget(self, key: tuple[str, int]) -> None:
        del self._served[key]
        name = key[0]
        if all(other != name for other, _ in self._served):
            self._unknown.pop((name, "unseen"), None)
            self._unknown.pop((name, "missing"), None)

    def collect(self) -> Iterator[Metric]:
        """Called by the registry."""
        labels = ("model", "version")
        rows = CounterMetricFamily("svm_prediction_rows", "Rows predicted.", labels=labels)
        errors = CounterMetricFamily(
            "svm_prediction_errors",
            "Requests that a version did not answer, such as for wrong rows.",
            labels=labels,
        )
        durations = HistogramMetricFamily(
            "svm_prediction_seconds",
            "Time from the body of a request to its reply, by the version that answered; the count "
            "is that of answered requests.",
            labels=labels,
        )
        for (name, version), served in list(self._served.items()):
            of = [name, str(version)]
            rows.add_metric(of, served.rows)
            errors.add_metric(of, served.errors)
            durations.add_metric(of, served.cumulative(), served.seconds)
        cells = CounterMetricFamily(
            "svm_prediction_unknown_cells",
            "Cells of answered rows with a level that no training row had (unseen), or missing "
            "cells in columns that had none in training (missing).",
            labels=["model", "reason"],
        )
        for labels_of, count in list(self._unknown.items()):
            cells.add_metric(labels_of, count)
        yield from (rows, errors, durations, cells)
