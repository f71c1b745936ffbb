"""What operators see of jobs: how long they wait and take, and how good they end."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import sqlalchemy as sa
from prometheus_client import CollectorRegistry

from service.jobs.core.job import State
from service.jobs.core.leases import Leases, Outcome
from service.jobs.core.metrics import JobMetrics
from service.jobs.core.store import JobStore
from service.storage.blobs import Blobs
from service.storage.database import Database, now
from service.storage.database.tables import jobs as jobs_table
from tests.backends import ON_ALL_BACKENDS
from tests.service.jobs.rows import queue, report, take

pytestmark = ON_ALL_BACKENDS

SUCCEEDED = Outcome(state=State.SUCCEEDED, stop_reason="gap-reached", converged=True)
FAILED = Outcome(state=State.FAILED, stop_reason="error", error={"code": "diverged"})


@pytest.fixture
def registry(database: Database, jobs: JobStore) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(JobMetrics(jobs, database))
    return registry


def counts(registry: CollectorRegistry) -> tuple[float, dict[str, float], float]:
    """Of starts, of ends by state, of gaps."""
    found = {
        (sample.name, sample.labels.get("state", "")): sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name.endswith("_count")
    }
    ends = {state: n for (name, state), n in found.items() if name.startswith("svm_job_duration")}
    return (
        found["svm_job_queue_wait_seconds_count", ""],
        ends,
        found["svm_job_relative_gap_count", ""],
    )


def test_each_start_and_end_is_counted_once(
    jobs: JobStore, leases: Leases, dataset_id: str, registry: CollectorRegistry
) -> None:
    """However often it is scraped; a second attempt is not a second start."""
    assert counts(registry) == (0, {}, 0)
    for _ in range(3):
        queue(jobs, dataset_id)
    jobs.cancel(queue(jobs, dataset_id).id, keep_model=False)
    lease = take(leases)
    for _ in range(2):
        assert counts(registry) == (1, {}, 0)
    leases.release(lease, report())
    lease = take(leases)
    leases.finish(lease, SUCCEEDED, report(progress={"relative_gap": 5e-4}, elapsed_s=2.0))
    leases.finish(take(leases), FAILED, report())
    for _ in range(2):
        assert counts(registry) == (2, {"succeeded": 1, "failed": 1}, 1)
    assert registry.get_sample_value("svm_job_relative_gap_bucket", {"le": "0.0003"}) == 0
    assert registry.get_sample_value("svm_job_relative_gap_bucket", {"le": "0.001"}) == 1
    spent = registry.get_sample_value("svm_job_duration_seconds_sum", {"state": "succeeded"})
    assert spent == 2.0


def test_row_that_becomes_visible_late_is_counted(
    database: Database,
    jobs: JobStore,
    leases: Leases,
    dataset_id: str,
    registry: CollectorRegistry,
) -> None:
    """Its time was taken before its transaction ended; what is older than this process is not."""
    time.sleep(0.5)
    for age_s, expected in ((0.3, 1), (3600.0, 1)):
        counts(registry)
        queue(jobs, dataset_id)
        lease = take(leases)
        with database.write() as connection:
            row = sa.update(jobs_table).where(jobs_table.c.id == lease.job.id)
            connection.execute(row.values(started_at=now() - age_s))
        assert counts(registry)[0] == expected


def test_metrics_of_others_are_seen_without_a_database(tmp_path: Path, blobs: Blobs) -> None:
    """A scrape then gives no figures of jobs, and does not fail."""
    nowhere = Database(f"sqlite:///{tmp_path / 'nowhere' / 'service.db'}")
    registry = CollectorRegistry()
    registry.register(JobMetrics(JobStore(nowhere, blobs, 10), nowhere))
    assert list(registry.collect()) == []
