"""Replicas and workers on other machines share only PostgreSQL and S3."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.app import create_app
from service.jobs.engine.worker_process import Worker
from service.settings import Settings
from service.storage.database.signals import STALE_S
from tests.backends import ON_POSTGRES_AND_S3
from tests.service.jobs.data import create, csv_of, read, upload

pytestmark = ON_POSTGRES_AND_S3


@pytest.fixture
def replicas(settings: Settings, tmp_path: Path) -> Iterator[list[TestClient]]:
    """Two, each with its own data directory."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(TestClient(create_app(_at(settings, tmp_path / name))))
            for name in ("one", "two")
        ]


@pytest.fixture
def workers(settings: Settings, tmp_path: Path) -> Iterator[list[Worker]]:
    """Two, on other machines."""
    names = ("w1", "w2")
    workers = [Worker(_at(settings, tmp_path / name), threading.Event()) for name in names]
    yield workers
    for worker in workers:
        worker._leases._database.close()


def _at(settings: Settings, data_dir: Path) -> Settings:
    data_dir.mkdir()
    return settings.model_copy(update={"data_dir": data_dir})


def _predict(client: TestClient) -> dict[str, Any]:
    reply = client.post("/v1/models/clouds/predict", json={"instances": [[0.0, 0.0, 0.0]]})
    assert reply.status_code == 200, reply.text
    answer: dict[str, Any] = reply.json()
    return answer


def test_replicas_share_all_resources(replicas: list[TestClient], workers: list[Worker]) -> None:
    """Upload on one, train on a third machine, predict on both: the same bits."""
    one, two = replicas
    dataset_id = upload(one)
    assert upload(two) == dataset_id
    job_id = create(two, dataset_id)
    assert workers[0].take_next_job()
    assert read(one, job_id)["state"] == "succeeded"
    assert _predict(one) == _predict(two)
    here, there = (client.get("/v1/models/clouds/versions/1/artifact") for client in replicas)
    assert here.content == there.content


def test_moved_alias_is_used_by_both_replicas(
    replicas: list[TestClient], workers: list[Worker]
) -> None:
    """By the first at once, by the other shortly after; each reply names its version."""
    one, two = replicas
    upload(one)
    for _ in range(2):
        create(one)
        assert workers[0].take_next_job()
    alias = "/v1/models/clouds/aliases/default"
    assert one.put(alias, json={"version": 2}, headers={"If-None-Match": "*"}).is_success
    delays = []
    for version in [1, 2] * 10:
        assert one.put(alias, json={"version": version}, headers={"If-Match": "*"}).is_success
        moved = time.monotonic()
        assert _predict(one)["model"]["version"] == version
        while _predict(two)["model"]["version"] != version:
            pass
        delays.append(time.monotonic() - moved)
    print(f"the other replica follows after {1000 * median(delays):.0f} ms")
    assert median(delays) < STALE_S + 0.1


def test_workers_create_different_version_numbers(
    replicas: list[TestClient], workers: list[Worker]
) -> None:
    """Two workers repeatedly end jobs of one model at the same time."""
    upload(replicas[0], csv_of(40))
    jobs = [create(replica, stopping={"max_epochs": 1}) for replica in replicas * 4]

    def work(worker: Worker) -> None:
        while worker.take_next_job():
            pass

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, workers))
    done = [read(replicas[0], job_id) for job_id in jobs]
    assert {job["state"] for job in done} == {"succeeded"}
    assert sorted(job["model"]["version"] for job in done) == list(range(1, 9))


def test_dataset_of_a_new_job_is_not_deleted(replicas: list[TestClient]) -> None:
    """One of the two requests succeeds, the other is refused."""
    one, two = replicas
    for seed in range(8):
        dataset_id = upload(one, csv_of(20, seed=seed))
        body = {"dataset_id": dataset_id, "model_name": "m", "solver": {"name": "newton"}}
        with ThreadPoolExecutor(2) as pool:
            made = pool.submit(one.post, "/v1/jobs", json=body)
            deleted = pool.submit(two.delete, f"/v1/datasets/{dataset_id}")
            outcome = made.result().status_code, deleted.result().status_code
        assert outcome in {(202, 409), (404, 204)}
