"""A worker reads a small dataset once, and no job changes what the next one sees."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.datasets.store import KEPT, KEPT_BYTES, KeptDatasets
from service.errors import Corrupt, NotFound
from service.jobs.engine.worker_process import Worker
from service.settings import Settings
from service.storage.blobs import Blobs, open_blobs
from service.storage.database import Database
from svm.solvers import SOLVERS
from tests.service.jobs.data import csv_of, trained, upload

pytestmark = pytest.mark.one_application


def test_jobs_with_a_kept_dataset_leave_it_unchanged(
    client: TestClient, settings: Settings
) -> None:
    """A training between others, of every solver, with and without scaling, gives the same bits
    as the first; the files are not needed again."""
    dataset_id = upload(client, csv_of(n_classes=3))
    worker = Worker(settings, threading.Event())

    def digest(**fields: Any) -> str:
        job = trained(client, worker, dataset_id, **fields)
        path = f"/v1/models/clouds/versions/{job['model']['version']}"
        found: str = client.get(path).json()["digest"]
        return found

    spec: dict[str, Any] = {"solver": {"name": "newton"}, "scaling": "standardize"}
    first = digest(**spec)
    open_blobs(settings).delete(f"datasets/{dataset_id}")
    for name in SOLVERS:
        for scaling in ("none", "standardize"):
            digest(solver={"name": name}, scaling=scaling, stopping={"max_epochs": 3})
    digest(solver={"name": "newton"}, validation={"folds": 3}, class_weight="balanced")
    assert digest(**spec) == first


def test_few_and_small_datasets_are_kept(
    client: TestClient, database: Database, blobs: Blobs
) -> None:
    """The oldest is dropped; a large one is read for every job; errors are not kept."""
    kept = KeptDatasets(database, blobs)
    with pytest.raises(NotFound):
        kept.get("ds_" + "0" * 32)
    small = [upload(client, csv_of(seed=seed)) for seed in range(KEPT + 1)]
    for dataset_id in small:
        assert kept.load(kept.get(dataset_id)) is kept.load(kept.get(dataset_id))
        blobs.delete(f"datasets/{dataset_id}")
    kept.get(small[-1])
    with pytest.raises(Corrupt):
        kept.get(small[0])
    rows = "".join(f"{n},{n % 2}\n" for n in range(KEPT_BYTES // 8 + 1))
    large = kept.get(upload(client, "x,y\n" + rows))
    assert kept.load(large) is not kept.load(large)
