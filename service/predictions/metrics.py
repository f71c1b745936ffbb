"""Counts predictions by model and version, and cells that a model's training rows did not have."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from service.common.shared import Shared
from service.common.tally import Tally, histogram
from service.predictions.loaded_models import LoadedModel
from service.predictions.unknown_cells import UnknownCells

MOST_VERSIONS = 200
"""Whose metrics are kept: each is a dozen lines of `/metrics`."""


ROWS, ERRORS = 14, 15
"""Places of numbers after those of a tally."""


class _Served(Tally):
    """Answered requests of a version."""

    used_at = 0.0


class PredictionMetrics(Collector):
    """Predictions by model and version, of the `MOST_VERSIONS` that each process used last. Belongs
    to one event loop."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._served: dict[tuple[str, int], _Served] = {}

    def count_answer(
        self, version: LoadedModel, n_rows: int, unknown: UnknownCells | None, started: float
    ) -> None:
        """Count an answered request that `started` at this time of `perf_counter`."""
        now = perf_counter()
        served = self._served.get(key := (version.name, version.version)) or self._begin(*key)
        served.used_at = now
        served.numbers[ROWS] += n_rows
        served.count(now - started)
        if unknown is not None:
            for reason, count in unknown.counts.items():
                self._shared.numbers("cells", version.name, reason)[0] += count

    def count_refusal(self, version: LoadedModel) -> None:
        """Count a request that the model could not answer."""
        served = self._served.get(key := (version.name, version.version)) or self._begin(*key)
        served.used_at = perf_counter()
        served.numbers[ERRORS] += 1

    def _begin(self, name: str, version: int) -> _Served:
        if not self._served:  # another process may have had the place
            for of, earlier in self._shared.own("model"):
                self._served[of, int(earlier)] = _Served(self._shared.numbers("model", of, earlier))
        while len(self._served) >= MOST_VERSIONS:
            self._forget(min(self._served, key=lambda key: self._served[key].used_at))
        numbers = self._shared.numbers("model", name, str(version))
        served = self._served[name, version] = _Served(numbers)
        return served

    def _forget(self, key: tuple[str, int]) -> None:
        del self._served[key]
        name, version = key
        self._shared.forget("model", name, str(version))
        if all(other != name for other, _ in self._served):
            self._shared.forget("cells", name, "unseen")
            self._shared.forget("cells", name, "missing")

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
        for of, numbers in self._shared.totals("model").items():
            rows.add_metric(of, numbers[ROWS])
            errors.add_metric(of, numbers[ERRORS])
            durations.add_metric(of, *histogram(numbers))
        cells = CounterMetricFamily(
            "svm_prediction_unknown_cells",
            "Cells of answered rows with a level that no training row had (unseen), or missing "
            "cells in columns that had none in training (missing).",
            labels=["model", "reason"],
        )
        for of, (count, *_) in self._shared.totals("cells").items():
            cells.add_metric(of, count)
        yield from (rows, errors, durations, cells)
