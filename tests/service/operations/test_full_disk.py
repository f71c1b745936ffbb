"""On a full disk new data are refused, nothing is lost, and resources can be deleted."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from service.jobs.engine.worker_process import Worker
from service.settings import Settings
from tests.journeys import server
from tests.service.jobs.data import create, csv_of, read, upload
from tests.service.operations.test_faults import answer, predict, running, send_csv, train
from tests.waiting import until

DISK_BYTES = 16 * 1024 * 1024
RESERVE_BYTES = DISK_BYTES // 16
FULL = (507, "storage-full")
ENDLESS: dict[str, Any] = {
    "solver": {"name": "pegasos", "lambda": 1e-3},
    "stopping": {"max_epochs": 10**9, "duality_gap": 1e-12},
}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A separate small file system."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    if mount.returncode != 0:
        pytest.skip(f"no small disk can be mounted here: {mount.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder: Path, leave_bytes: int = 0) -> Path:
    """Write a file that leaves this much space, or extend it."""
    ballast = folder / "ballast"
    with contextlib.suppress(OSError), ballast.open("ab", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    with ballast.open("rb+") as file:
        file.truncate(max(0, ballast.stat().st_size - leave_bytes))
    return ballast


def fill_database(client: httpx2.Client, folder: Path, dataset_id: str) -> None:
    """Fill the disk, and the free pages of the database."""
    fill(folder)
    for number in range(10_000):
        tags = {"number": f"{number} {'x' * 200}"}
        reply = client.patch(f"/v1/datasets/{dataset_id}", json={"tags": tags})
        if reply.status_code != 200:
            break
    assert answer(reply) == FULL


def reserved(folder: Path) -> int:
    """Size of the reserve, in bytes of blocks."""
    with contextlib.suppress(FileNotFoundError):
        return (folder / "reserve").stat().st_blocks * 512
    return 0


def test_full_disk_refuses_new_data_and_serves_existing(
    small_disk: Path, settings: Settings
) -> None:
    """507 before the disk is completely full; predictions work; uploads after space is freed."""
    settings = Settings(data_dir=small_disk / "var", workers=0)
    with running(settings) as client:
        dataset_id = upload(client)
        train(client, Worker(settings, threading.Event()))
        ballast = fill(small_disk, leave_bytes=DISK_BYTES // 40)  # half of the watermark
        body = {"dataset_id": dataset_id, "model_name": "m", "solver": {"name": "newton"}}
        for refused in (send_csv(client, seed=1), client.post("/v1/jobs", json=body)):
            assert answer(refused) == (507, "storage-full")
        assert predict(client) == 200
        for read_on in ("", "/content"):
            assert client.get(f"/v1/datasets/{dataset_id}{read_on}").status_code == 200
        ballast.unlink()
        assert send_csv(client, seed=1).status_code == 201


def test_disk_full_to_the_last_byte_loses_nothing(small_disk: Path) -> None:
    """Writes fail anywhere, also in the database: 507, and acknowledged changes are kept."""
    settings = Settings(data_dir=small_disk / "var", workers=0)
    with running(settings) as client:
        dataset_id = upload(client)
        train(client, Worker(settings, threading.Event()))
        ballast = fill(small_disk)
        acknowledged = None
        for number in itertools.count():
            tags = {"number": f"{number} {'x' * 200}"}
            reply = client.patch(f"/v1/datasets/{dataset_id}", json={"tags": tags})
            if reply.status_code != 200:
                break
            acknowledged = tags
        assert answer(reply) == (507, "storage-full")
        assert answer(send_csv(client, seed=1)) == (507, "storage-full")
        assert predict(client) == 200
        ballast.unlink()
        kept = client.get(f"/v1/datasets/{dataset_id}").json()["tags"]
        assert kept == (acknowledged or {})
        assert client.delete("/v1/models/clouds").status_code == 204


def test_job_without_space_for_its_model_fails(small_disk: Path, settings: Settings) -> None:
    """With a hint, and not because of a lost worker."""
    settings = settings.model_copy(update={"blob_url": str(small_disk / "blobs")})
    with running(settings) as client:
        upload(client, csv_of(n_features=500))  # a small model is in the database
        job_id = create(client, solver={"name": "smo"})
        fill(small_disk)
        assert Worker(settings, threading.Event()).take_next_job()
        job = read(client, job_id)
        assert job["state"] == "failed"
        assert job["error"]["code"] == "storage-full"
        assert "free disk space" in job["error"]["hint"]


@pytest.mark.long
def test_resources_can_be_deleted_on_a_full_disk(small_disk: Path) -> None:
    """Deletes, alias moves, pause, cancel and a start succeed with no byte free. New data are
    refused. The reserve is complete again after space is freed."""
    var = small_disk / "var"
    settings = Settings(data_dir=var, workers=0)
    with server.running(var, SVM_WORKERS="0") as service:
        client = service.http
        other_id, dataset_id = upload(client, csv_of(90)), upload(client)
        ended = [train(client, Worker(settings, threading.Event()))["id"] for _ in range(2)]
        waiting = [create(client) for _ in range(2)]
        alias = "/v1/models/clouds/aliases/best"
        made = client.put(alias, json={"version": 1}, headers={"If-None-Match": "*"})
        until(lambda: reserved(var) >= RESERVE_BYTES)
        match = {"If-Match": made.headers["ETag"]}
        for request in (
            client.build_request("PUT", alias, json={"version": 2}, headers=match),
            client.build_request("POST", f"/v1/jobs/{waiting[0]}/pause"),
            client.build_request("POST", f"/v1/jobs/{waiting[1]}/cancel"),
            client.build_request("DELETE", f"/v1/jobs/{ended[0]}"),
            client.build_request("DELETE", "/v1/models/clouds/versions/1"),
            client.build_request("DELETE", f"/v1/datasets/{other_id}"),
        ):
            fill_database(client, small_disk, dataset_id)
            assert answer(send_csv(client, seed=1)) == FULL
            reply = client.send(request)
            assert reply.is_success, (request.method, request.url, reply.text)
        fill_database(client, small_disk, dataset_id)
        assert reserved(var) > 0
        service.process.kill()
        service.process.wait()

    with server.running(var, SVM_WORKERS="0") as service:
        client = service.http
        assert client.get("/readyz").status_code == predict(client) == 200
        assert answer(send_csv(client, seed=1)) == FULL
        assert client.delete(alias, headers={"If-Match": "*"}).status_code == 204
        assert client.delete("/v1/models/clouds").status_code == 204
        (small_disk / "ballast").unlink()
        until(lambda: reserved(var) >= RESERVE_BYTES)
        assert send_csv(client, seed=1).status_code == 201


def test_job_does_not_use_the_reserve(small_disk: Path) -> None:
    """A running job cannot write progress or checkpoints; it can be paused."""
    settings = Settings(data_dir=small_disk / "var", workers=0, checkpoint_s=0.05)
    worker = Worker(settings, threading.Event())
    with running(settings) as client:
        dataset_id = upload(client)
        job_id = create(client, **ENDLESS)
        work = threading.Thread(target=worker.take_next_job)
        work.start()
        until(lambda: read(client, job_id)["progress"]["epoch"] > 0)
        until(lambda: reserved(settings.data_dir) >= RESERVE_BYTES)
        fill_database(client, small_disk, dataset_id)
        time.sleep(1)  # several reports and checkpoints
        assert reserved(settings.data_dir) >= RESERVE_BYTES
        assert client.post(f"/v1/jobs/{job_id}/pause").status_code == 202
        until(lambda: read(client, job_id)["state"] == "paused")
        work.join(30)
        assert not work.is_alive()
        assert 0 < reserved(settings.data_dir) <= RESERVE_BYTES
