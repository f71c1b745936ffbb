"""Rows that tests put into the tables directly."""

from __future__ import annotations

from typing import Any

from service.jobs.core.job import Job
from service.jobs.core.leases import Lease, Leases, Memory, Report
from service.jobs.core.store import Also, JobStore, NewJob
from service.storage.database import Database, new_id, now
from service.storage.database.tables import datasets

LEASE_S = 30.0
MEMORY = Memory(used_bytes=2**28, limit_bytes=2**31)


def add_dataset(database: Database, **values: Any) -> str:
    """A dataset's row without its files; returns its id."""
    dataset_id = new_id("ds")
    row: dict[str, Any] = {
        "id": dataset_id,
        "created_at": now(),
        "last_upload": 1,
        "format": "text/csv",
        "size_bytes": 0,
        "n_samples": 4,
        "n_features": 2,
        "sparse": False,
        "classes": ["a", "b"],
        "class_counts": [2, 2],
        "statistics": {},
        "warnings": [],
        "tags": {},
        "matrix_digest": "0" * 64,
        "upload_key": dataset_id,
        "arrays": {},
        "ignored": [],
    }
    with database.write() as connection:
        connection.execute(datasets.insert().values(row | values))
    return dataset_id


def new_job(dataset_id: str, **values: Any) -> NewJob:
    arguments: dict[str, Any] = {
        "kind": "train",
        "spec": {"seed": 1},
        "dataset_digest": "0" * 64,
        "model_name": "iris",
        "priority": 0,
        "tags": {},
    }
    return NewJob(dataset_id=dataset_id, **(arguments | values))


def queue(
    jobs: JobStore,
    dataset_id: str,
    caller: str = "caller",
    also: Also | None = None,
    **values: Any,
) -> Job:
    return jobs.create(new_job(dataset_id, **values), caller, also=also)


def take(leases: Leases, lease_s: float = LEASE_S) -> Lease:
    """The next lease, which must exist."""
    lease = leases.take("test", lease_s)
    assert lease is not None
    return lease


def report(epoch: int = 1, **values: Any) -> Report:
    arguments: dict[str, Any] = {"progress": {"epoch": epoch}, "elapsed_s": 1.0}
    return Report(**(arguments | values))


def trace_row(pair: int = 0, updates: int = 1, **values: Any) -> dict[str, Any]:
    row = {
        "pair": pair,
        "updates": updates,
        "epoch": updates,
        "classes": ["a", "b"],
        "elapsed_s": 0.5,
        "primal": 2.0,
        "dual": 1.0,
        "gap": 1.0,
        "solver_objective": 2.0,
        "train_error": 0.25,
        "validation_error": None,
    }
    return row | values
