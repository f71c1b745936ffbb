"""Jobs of a service whose passes and parts are done by workers of Dask."""

from __future__ import annotations

import json
import os
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
from tests.service.jobs.data import create, csv_of, read, upload
from tests.service.jobs.engine.spread.clusters import Cluster, cluster
from tests.service.jobs.engine.spread.test_tls import tls_variables
from tests.service.jobs.processes import until

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
