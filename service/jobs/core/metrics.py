"""Metrics of jobs for Prometheus: counts by state, queue wait, duration, final duality gap."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from service.common.shared import Shared
from service.common.tally import Tally, histogram
from service.errors import Unavailable
from service.jobs.core.job import ACTIVE, FINAL, State
from service.jobs.core.store import JobStore
from service.storage.database import Database, now
from service.storage.database.tables import jobs

LATE_S = 60.0
"""A row may become visible this long after the time in its columns."""
SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
GAPS = (1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 1.0)
MEASURED = (
    *(jobs.c.id, jobs.c.state, jobs.c.created_at, jobs.c.started_at, jobs.c.finished_at),
    *(jobs.c.elapsed_s, jobs.c.progress),
)
COVERS = (
    "Counts jobs of all workers since this service started; each replica counts all of them, "
    "so take one replica's. A job deleted before the next scrape is not counted."
)
COUNTED_TO = "job counted to"
HISTOGRAMS = (
    ("svm_job_queue_wait_seconds", "Time from a job's creation to its first start.", SECONDS),
    (
        "svm_job_duration_seconds",
        "Time that workers spent on a job, all attempts together, by the state it ended in.",
        SECONDS,
    ),
    ("svm_job_relative_gap", "Relative duality gap of the models of jobs that succeeded.", GAPS),
)


class JobMetrics(Collector):
    """Reads the table for every scrape, because workers change it in other processes. Of several
    processes of a service one counts for all."""

    def __init__(self, store: JobStore, database: Database, shared: Shared | None = None) -> None:
        self._store = store
        self._database = database
        self._lock = threading.Lock()
        self._shared = shared or Shared()
        self.counts = True
        """Whether it is this process that counts."""
        self._started = time.monotonic()
        self._first: float | None = None
        """When this process started, by the database's clock, or what was counted before."""
        self._since = 0.0
        self._counted: dict[tuple[str, str], float] = {}
        """Counted after `_since`: (job, what) and the time in the row."""

    def describe(self) -> Iterator[Metric]:
        """Names only: a collector is registered before the database has its tables."""
        yield _states()
        yield from self._histograms()

    def collect(self) -> Iterator[Metric]:
        """Nothing while the database is unavailable, so that other metrics are still served."""
        family = _states()
        try:
            for state, count in self._store.counts().items():
                family.add_metric([state], count)
            if self.counts:
                self.catch_up()
        except Unavailable:
            return
        yield family
        yield from self._histograms()

    def _histograms(self) -> Iterator[Metric]:
        for name, about, bounds in HISTOGRAMS:
            totals = self._shared.totals(name)
            labels = ["state"] if () not in totals else []
            family = HistogramMetricFamily(name, f"{about} {COVERS}", labels=labels)
            for of, numbers in totals.items():
                figures, total = histogram(numbers, bounds)
                if not of or figures[-1][1]:
                    family.add_metric(of, figures, total)
            yield family

    def catch_up(self) -> None:
        """Count what has started or ended since the last time. Raises Unavailable."""
        with self._lock:
            self._catch_up()

    def _catch_up(self) -> None:
        with self._database.read() as connection:
            present: float = connection.execute(sa.select(now())).scalar_one()
            if self._first is None:
                self._begin()
                own = present - (time.monotonic() - self._started)
                self._first = self._since = self._to[0] or own
            # Whatever started since then has not ended, or has ended since then.
            lately = sa.or_(jobs.c.state.in_(ACTIVE), jobs.c.finished_at >= self._since)
            rows: Sequence[Any] = connection.execute(sa.select(*MEASURED).where(lately)).all()
        for row in rows:
            if self._is_new(row.id, "start", row.started_at):
                self._wait.count(row.started_at - row.created_at)
            if row.started_at is not None and self._is_new(row.id, "end", row.finished_at):
                self._count_end(row)
        self._since = max(self._first, present - LATE_S)
        self._to[0] = present
        self._counted = {k: at for k, at in self._counted.items() if at >= self._since}

    def _begin(self) -> None:
        (wait, _, _), (duration, _, _), (gap, _, _) = HISTOGRAMS
        numbers = self._shared.numbers
        self._to = numbers(COUNTED_TO)
        self._wait = Tally(numbers(wait), SECONDS)
        self._duration = {state: Tally(numbers(duration, state), SECONDS) for state in FINAL}
        self._gap = Tally(numbers(gap), GAPS)

    def _is_new(self, job_id: str, what: str, at: float | None) -> bool:
        if at is None or at < self._since or (job_id, what) in self._counted:
            return False
        self._counted[job_id, what] = at
        return True

    def _count_end(self, row: Any) -> None:
        self._duration[State(row.state)].count(row.elapsed_s)
        gap = row.progress.get("relative_gap")
        if row.state == State.SUCCEEDED and gap is not None:
            self._gap.count(gap)


def _states() -> GaugeMetricFamily:
    return GaugeMetricFamily("svm_jobs", "Jobs kept, by state.", labels=["state"])
