"""The number of jobs in each state, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from service.jobs.store import JobStore


class JobGauges(Collector):
    """Counts when asked: the table is the truth, and workers change it in other processes."""

    def __init__(self, jobs: JobStore) -> None:
        self._jobs = jobs

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Names only: a collector is registered before the database has its tables."""
        yield _family()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = _family()
        for state, count in self._jobs.counts().items():
            family.add_metric([state], count)
        yield family


def _family() -> GaugeMetricFamily:
    return GaugeMetricFamily("svm_jobs", "Jobs kept, by state.", labels=["state"])
