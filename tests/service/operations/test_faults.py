"""Disk, database, file store and clock fail on each path of writing: no 500, nothing lost that was
acknowledged."""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import sqlalchemy as sa
from httpx2 import Response
from starlette.testclient import TestClient

from service.app import create_app
from service.datasets.store import DatasetStore
from service.jobs.core.job import State
from service.jobs.core.leases import LeaseLost, Leases
from service.jobs.core.store import JobStore
from service.jobs.engine.worker_process import Worker
from service.models import files
from service.settings import Settings
from service.storage.blobs import Blobs, open_blobs
from service.storage.database import Database
from service.storage.database.idempotency import Reservation, Reservations
from tests import servers
from tests.backends import ON_ALL_BACKENDS
from tests.proxy import HTTP_500, Proxy, to_port, to_unix_socket
from tests.service.jobs.data import create, csv_of, read, upload
from tests.service.jobs.rows import MEMORY, add_dataset, queue, take
from tests.waiting import until

SPEC = {"model_name": "m", "solver": {"name": "newton", "C": 1.0}}


@contextlib.contextmanager
def running(settings: Settings) -> Iterator[TestClient]:
    with TestClient(create_app(settings)) as client:
        yield client


def send_csv(client: httpx2.Client, n_samples: int = 60, seed: int = 0) -> Response:
    return client.post(
        "/v1/datasets",
        content=csv_of(n_samples, seed=seed).encode(),
        headers={"Content-Type": "text/csv"},
    )


def train(client: httpx2.Client, worker: Worker, **fields: Any) -> dict[str, Any]:
    job_id = create(client, **fields)
    assert worker.take_next_job()
    return read(client, job_id)


def every_write(client: TestClient, dataset_id: str, job_id: str) -> Iterator[Response]:
    """One request to each route that changes something; a model `clouds` is there."""
    yield send_csv(client, seed=1)
    yield client.patch(f"/v1/datasets/{dataset_id}", json={"name": "other"})
    body = {"dataset_id": dataset_id, "model_name": "m", "solver": {"name": "newton", "C": 1.0}}
    yield client.post("/v1/jobs", json=body)
    for action in ("pause", "resume", "cancel"):
        yield client.post(f"/v1/jobs/{job_id}/{action}")
    alias = "/v1/models/clouds/aliases/a"
    yield client.put(alias, json={"version": 1}, headers={"If-None-Match": "*"})
    yield client.delete(alias, headers={"If-Match": "*"})
    yield client.delete("/v1/models/clouds/versions/1")
    yield client.delete("/v1/models/clouds")
    yield client.delete(f"/v1/datasets/{dataset_id}")


def predict(client: httpx2.Client) -> int:
    body = {"instances": [[0.0, 0.0, 0.0]]}
    status: int = client.post("/v1/models/clouds/predict", json=body).status_code
    return status


def answer(reply: Response) -> tuple[int, str | None]:
    return reply.status_code, reply.json().get("code") if reply.content else None


@pytest.fixture
def models_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones, too."""
    monkeypatch.setattr(files, "SMALL_BYTES", 0)


@pytest.mark.usefixtures("models_in_files")
def test_files_on_a_disk_that_is_away_are_unavailable(settings: Settings, tmp_path: Path) -> None:
    """503 for all that needs them, nothing is called damaged, and nothing is written in their
    place; once they are back, all is as it was."""
    folder, away = settings.data_dir / "blobs", tmp_path / "away"
    with running(settings) as client:
        dataset_id = upload(client)
        train(client, Worker(settings, threading.Event()))
        folder.rename(away)
        for refused in (
            send_csv(client, seed=1),
            client.post("/v1/jobs", json={**SPEC, "dataset_id": dataset_id}),
            client.get(f"/v1/datasets/{dataset_id}/content"),
            client.get("/v1/models/clouds/versions/1/artifact"),
            client.get("/v1/models/clouds/versions/1/export?format=json"),
            client.post("/v1/models/clouds/predict", json={"instances": [[0.0, 0.0, 0.0]]}),
        ):
            assert answer(refused) == (503, "storage-unavailable"), refused.request.url
            assert int(refused.headers["Retry-After"]) > 0
        assert not folder.exists()
        away.rename(folder)
        assert client.get("/v1/models/clouds/versions/1").json()["quarantined_at"] is None
        assert predict(client) == 200
        assert send_csv(client, seed=1).status_code == 201


@pytest.mark.usefixtures("models_in_files")
@pytest.mark.parametrize("plant", [Path.mkdir, os.mkfifo])
def test_file_that_is_something_else_is_damaged(
    settings: Settings, plant: Callable[[Path], None]
) -> None:
    """A directory or a FIFO in place of a model: the version is quarantined, and no request blocks.
    In place of a dataset or a checkpoint it is damage, too."""
    with running(settings) as client:
        dataset_id = upload(client)
        train(client, Worker(settings, threading.Event()))
        for path in [
            *settings.data_dir.glob("blobs/*/*/*"),
            *settings.data_dir.glob("blobs/models/*"),
        ]:
            path.unlink()
            plant(path)
        assert answer(client.get(f"/v1/datasets/{dataset_id}/content")) == (500, "dataset-corrupt")
        body = {"instances": [[0.0, 0.0, 0.0]]}
        reply = client.post("/v1/models/clouds/predict", json=body)
        assert answer(reply) == (500, "model-corrupt")
        assert client.get("/v1/models/clouds/versions/1").json()["quarantined_at"] is not None


def overwrite(file: Path, table: str) -> None:
    """Overwrite the first page of a table and of its indexes, while the service runs."""
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("UPDATE models SET created_at = created_at")  # pages are read again
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        found = connection.execute("SELECT rootpage FROM sqlite_master WHERE tbl_name = ?", [table])
        pages = [number for (number,) in found]
    content = bytearray(file.read_bytes())
    for number in pages:
        content[(number - 1) * 4096 : number * 4096] = os.urandom(4096)
    with file.open("r+b") as changed:
        changed.write(content)


def test_damage_of_a_table_is_unavailable_where_it_is_met(settings: Settings) -> None:
    """503, not an unexpected error; requests without the table still work."""
    assert settings.sqlite_file is not None
    with running(settings) as client:
        dataset_id = upload(client)
        train(client, Worker(settings, threading.Event()))
        assert predict(client) == 200
        overwrite(settings.sqlite_file, "jobs")
        body = {**SPEC, "dataset_id": dataset_id}
        for refused in (
            *(
                client.get(path)
                for path in ("/v1/jobs", "/v1/jobs?state=failed", "/v1/evaluations")
            ),
            client.post("/v1/jobs", json=body),
            client.delete(f"/v1/datasets/{dataset_id}"),
        ):
            assert answer(refused) == (503, "storage-damaged"), refused.request.url
        assert client.get("/jobs").status_code == 503
        assert client.get("/readyz").status_code == predict(client) == 200
        assert client.get("/v1/datasets").status_code == 200


def test_locked_database_is_unavailable_for_writing_only(settings: Settings) -> None:
    """503 with Retry-After; reads still work, and afterwards everything works."""
    file = settings.sqlite_file
    url = f"{settings.database_url}?timeout=0.05"
    settings = settings.model_copy(update={"database_url": url})
    with running(settings) as client:
        dataset_id = upload(client)
        train(client, Worker(settings, threading.Event()))
        job_id = create(client)
        with contextlib.closing(sqlite3.connect(str(file), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            for refused in every_write(client, dataset_id, job_id):
                assert answer(refused) == (503, "storage-unavailable"), refused.request.url
                assert int(refused.headers["Retry-After"]) > 0
            assert predict(client) == client.get("/readyz").status_code == 200
            other.rollback()
        assert read(client, job_id)["state"] == "queued"
        statuses = [reply.status_code for reply in every_write(client, dataset_id, job_id)]
        assert statuses == [201, 200, 202, 202, 202, 202, 201, 204, 204, 204, 409]


@pytest.fixture
def to_s3(s3: servers.S3, s3_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy between the service and S3."""
    proxy = Proxy(to_port(s3.port))
    for name, value in s3.environment(proxy.port).items():
        monkeypatch.setenv(name, value)
    yield proxy
    proxy.close()


@pytest.fixture
def to_postgres(postgres_database_url: str) -> Iterator[Proxy]:
    """A proxy between the service and PostgreSQL."""
    folder = sa.make_url(postgres_database_url).query["host"]
    proxy = Proxy(to_unix_socket(f"{folder}/.s.PGSQL.5432"))
    yield proxy
    proxy.close()


def through(proxy: Proxy) -> dict[str, str]:
    return {"database_url": f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres"}


def test_failing_file_store_is_unavailable(to_s3: Proxy, s3_url: str, settings: Settings) -> None:
    """503, never a damaged model; a job waits until the store responds again."""
    settings = settings.model_copy(update={"blob_url": s3_url})
    elsewhere = settings.model_copy(update={"data_dir": settings.data_dir / "elsewhere"})
    with running(settings) as client:
        upload(client)
        train(client, Worker(settings, threading.Event()))
        job_id = create(client)
        to_s3.answer = HTTP_500
        to_s3.cut_now()
        assert answer(send_csv(client, seed=1)) == (503, "storage-unavailable")
        to_s3.answer = None
        assert Worker(elsewhere, threading.Event()).take_next_job()
        assert read(client, job_id)["state"] == "succeeded"


@pytest.mark.long
def test_cut_connections_to_the_file_store_lose_nothing(
    to_s3: Proxy, s3_url: str, settings: Settings, database: Database
) -> None:
    """Every acknowledged upload can be read by another machine."""
    settings = settings.model_copy(update={"blob_url": s3_url})
    with running(settings) as client:
        upload(client)
        train(client, Worker(settings, threading.Event()))
        to_s3.cuts = itertools.cycle([0, 600, None, 100, 2000])
        replies = []
        for seed in range(1, 7):
            to_s3.cut_now()
            replies.append(send_csv(client, n_samples=600, seed=seed))
        assert {answer(reply) for reply in replies} <= {(201, None), (503, "storage-unavailable")}
        made = [reply.json()["id"] for reply in replies if reply.status_code == 201]
        assert made
        elsewhere = settings.model_copy(update={"data_dir": settings.data_dir / "elsewhere"})
        with running(elsewhere) as replica:
            assert {predict(replica) for _ in range(10)} <= {200, 503}
        assert client.get("/v1/models/clouds/versions/1").json()["quarantined_at"] is None
        to_s3.cuts = itertools.repeat(None)
        store = DatasetStore(database, open_blobs(elsewhere))
        for dataset_id in made:
            assert store.load(store.get(dataset_id)).X.shape == (600, 3)


def test_cut_connections_to_the_database_lose_nothing(
    to_postgres: Proxy, settings: Settings
) -> None:
    """Each request succeeds or is 503; acknowledged changes are stored, and nothing twice."""
    settings = settings.model_copy(update=through(to_postgres))
    with running(settings) as client:
        dataset_id = upload(client)
        acknowledged = []
        to_postgres.cuts = itertools.cycle([8_000, 20_000, 0, 5_000, 12_000])
        to_postgres.cut_now()
        for number in range(40):
            tags = {"number": str(number)}
            body = {"dataset_id": dataset_id, "model_name": "m", "solver": {"name": "newton"}}
            reply = client.post("/v1/jobs", json={**body, "tags": tags})
            assert answer(reply) in {(202, None), (503, "storage-unavailable")}
            if reply.status_code == 202:
                acknowledged.append(number)
        to_postgres.cuts = itertools.repeat(None)
        to_postgres.cut_now()
        assert 10 < len(acknowledged) < 40
        assert client.get("/readyz").status_code == 200
        found = [int(job["tags"]["number"]) for job in client.get("/v1/jobs").json()["jobs"]]
        assert set(acknowledged) <= set(found)
        assert len(found) == len(set(found))


def test_predictions_go_on_while_the_database_is_away(
    to_postgres: Proxy, postgres_database_url: str, settings: Settings
) -> None:
    """With the last known version; models without one are unavailable. After the database responds
    again, its current version is used."""
    direct = settings.model_copy(update={"database_url": postgres_database_url})
    with running(settings.model_copy(update=through(to_postgres))) as client:
        upload(client)
        worker = Worker(direct, threading.Event())
        assert {train(client, worker)["state"] for _ in range(2)} == {"succeeded"}
        worker._leases._database.close()
        assert predict(client) == 200
        to_postgres.cuts = itertools.repeat(0)
        to_postgres.cut_now()
        assert [predict(client) for _ in range(20)] == [200] * 20
        first = "/v1/models/clouds/versions/1/predict"
        body = {"instances": [[0.0, 0.0, 0.0]]}
        assert answer(client.post(first, json=body)) == (503, "storage-unavailable")
        assert answer(client.get("/readyz")) == (503, "not-ready")
        to_postgres.cuts = itertools.repeat(None)
        with running(direct) as replica:
            assert replica.delete("/v1/models/clouds").status_code == 204
        until(lambda: predict(client) == 404)


@ON_ALL_BACKENDS
@pytest.mark.parametrize("jump_s", [86_400, -86_400])
def test_clock_that_jumps_takes_no_lease_and_gives_none_away(
    database: Database, blobs: Blobs, monkeypatch: pytest.MonkeyPatch, jump_s: float
) -> None:
    """Leases use the database's clock, not the workers'."""
    jobs, leases = JobStore(database, blobs, 10), Leases(database, blobs)
    dataset_id = add_dataset(database)
    held, lost = queue(jobs, dataset_id), queue(jobs, dataset_id)
    mine, stale = take(leases), take(leases, lease_s=0.01)
    real_s, real_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: real_s() + jump_s)
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + int(jump_s * 1e9))
    time.sleep(0.02)
    again = take(leases)
    assert (again.job.id, again.job.attempt) == (lost.id, 2)
    assert leases.take("other", 30) is None
    leases.heartbeat(mine, 30, MEMORY)
    with pytest.raises(LeaseLost):
        leases.heartbeat(stale, 30, MEMORY)
    assert jobs.get(held.id).state is State.RUNNING


def test_leases_of_a_clock_that_was_set_back_end_soon_after_a_start(settings: Settings) -> None:
    """Of killed processes: the job is resumed, and the request can be repeated."""
    with running(settings) as client:
        upload(client)
        job_id = create(client)
    database = Database(settings.database_url)
    leases = Leases(database, open_blobs(settings))
    day_s = 86_400
    assert leases.take("killed", day_s)
    killed = Reservations(database, day_s)
    assert isinstance(killed.reserve("caller", "key", "request"), Reservation)
    with running(settings.model_copy(update={"lease_s": 0.01})):
        time.sleep(0.02)
        again = leases.take("other", day_s)
        assert again is not None
        assert (again.job.id, again.job.attempt) == (job_id, 2)
        assert isinstance(killed.reserve("caller", "key", "request"), Reservation)
    database.close()
