"""Jobs of a service whose passes and parts are done by workers of Dask."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from service.app import create_app
from service.jobs.engine.child import Child
from service.settings import Settings
from service.storage.database import Database
from service.storage.database.tables import job_parts
from tests.backends import ON_POSTGRES_AND_S3
from tests.seeds import seed_from
from tests.service.jobs.data import create, csv_of, read, upload
from tests.service.jobs.engine.spread.clusters import Cluster, cluster
from tests.service.jobs.engine.spread.test_tls import tls_variables
from tests.service.jobs.processes import worker_pid
from tests.waiting import until

KILLS = int(os.environ.get("TORTURE_KILLS", "50"))
PRECISE: dict[str, Any] = {
    "solver": {"name": "newton", "C": 1.0},
    "scaling": "standardize",
    "stopping": {"duality_gap": 1e-5},
    "seed": 1,
}
"""Some dozens of passes."""

pytestmark = [ON_POSTGRES_AND_S3, pytest.mark.torture, pytest.mark.timeout(600)]


@pytest.fixture
def settings(tmp_path: Path, backend: dict[str, str]) -> Settings:
    return Settings(
        data_dir=tmp_path / "var",
        database_url=backend["database_url"],
        blob_url=backend["blob_url"],
        workers=1,
        lease_s=5,
    )


@pytest.fixture
def dask(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """One worker, with an environment of its own. Its connections are encrypted."""
    own = settings.model_copy(update={"data_dir": tmp_path / "dask"})
    for name, value in tls_variables(tmp_path).items():
        monkeypatch.setenv(name, value)
    variables = {**own.environment(), "NUMBA_CACHE_DIR": os.environ["NUMBA_CACHE_DIR"]}
    with cluster(1, variables, scheme="tls") as made:
        yield made


@pytest.fixture
def client(settings: Settings, dask: Cluster, tmp_path: Path) -> Iterator[TestClient]:
    """A replica, and a machine with one worker that knows the scheduler."""
    own = {"data_dir": tmp_path / "machine", "dask_address": dask.address}
    machine = Child("service.jobs.engine.supervisor", settings.model_copy(update=own))
    machine.start()
    with TestClient(create_app(settings.model_copy(update={"workers": 0}))) as client:
        yield client
    machine.stop()


def test_workers_of_dask_do_passes_and_parts(
    client: TestClient, settings: Settings, dask: Cluster
) -> None:
    """The digests are equal, also of a model on some of the rows, which are scaled."""
    upload(client, csv_of(3000, n_features=20))
    spec: dict[str, Any] = {
        "solver": {"name": "newton", "C": 1.0},
        "scaling": "standardize",
        "validation": {"fraction": 0.2},
        "seed": 1,
    }
    jobs = {}
    for spread in ("never", "always"):
        job = read(client, create(client, **spec, spread=spread), wait_s=60)
        jobs[spread] = read(client, job["id"], wait_s=60)
        assert jobs[spread]["state"] == "succeeded", json.dumps(jobs[spread]["error"])
        assert jobs[spread]["warnings"] == []
    digests = {
        client.get(f"/v1/models/clouds/versions/{job['model']['version']}").json()["digest"]
        for job in jobs.values()
    }
    assert len(jobs) == 2
    assert len(digests) == 1
    _check_parts(client, settings, dask)


@pytest.mark.timeout(7200)
def test_digest_survives_kills_of_the_worker_of_the_job(
    client: TestClient, settings: Settings, dask: Cluster
) -> None:
    """At any time, and twice in some jobs; in others a worker of Dask or the scheduler is lost
    too. No job fails or has two model versions."""
    chance = random.Random(seed_from("TORTURE_SEED"))
    dask.add_worker()
    upload(client, csv_of(3000, n_features=20))
    kills = jobs = 0
    digests = set()
    while kills < KILLS:
        began = time.monotonic()
        job = create(client, **PRECISE, spread="always" if jobs else "never")
        if jobs:
            for _ in range(chance.choice((1, 1, 2))):
                kills += _kill_worker_of(client, settings, job, chance)
            if chance.random() < 0.4:
                _lose(dask, chance)
        ended = read(client, job, wait_s=60)
        while ended["state"] == "running":
            ended = read(client, job, wait_s=60)
        assert ended["state"] == "succeeded", json.dumps(ended["error"])
        jobs += 1
        assert ended["model"]["version"] == jobs
        version = client.get(f"/v1/models/clouds/versions/{jobs}").json()
        digests.add(version["digest"])
        assert len(digests) == 1, ended
        took = time.monotonic() - began
        print(ended["warnings"]) if ended["warnings"] else None
        print(f"{kills} kills, job {jobs}: attempt {ended['attempt']}, {took:.1f} s", flush=True)


def _kill_worker_of(
    client: TestClient, settings: Settings, job: str, chance: random.Random
) -> bool:
    """The process that runs it, unless it has ended before."""
    until(lambda: read(client, job)["state"] != "queued")
    time.sleep(chance.uniform(0.0, 2.0))
    if read(client, job)["state"] != "running":
        return False
    try:
        os.kill(worker_pid(settings, job), signal.SIGKILL)
    except (AssertionError, ProcessLookupError):  # it is not taken again yet
        return False
    return True


def _lose(dask: Cluster, chance: random.Random) -> None:
    if chance.random() < 0.3:
        dask.restart_scheduler()
    else:
        dask.lose_worker()
    dask.workers = [worker for worker in dask.workers if worker.poll() is None]
    while len(dask.workers) < 2:
        dask.add_worker()


def _check_parts(client: TestClient, settings: Settings, dask: Cluster) -> None:
    """A fold of a job is leased by the process of a worker of Dask."""
    job = create(
        client,
        solver={"name": "pegasos", "lambda": 1e-3},
        stopping={"max_epochs": 100_000},
        validation={"folds": 3},
    )
    database = Database(settings.database_url)

    def helper() -> bool:
        with database.read() as connection:
            names = connection.scalars(sa.select(job_parts.c.worker)).all()
        return any(name and name.endswith(f":{dask.workers[0].pid}") for name in names)

    until(helper)
    client.post(f"/v1/jobs/{job}/cancel")
    assert read(client, job, wait_s=30)["state"] == "canceled"
    database.close()
