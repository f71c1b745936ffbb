"""Jobs whose parts another worker does: the same results, whatever happens to it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from service.jobs import scoring
from service.jobs.core.leases import Lease, Report
from service.jobs.engine.worker_process import Worker
from service.jobs.parts import lending
from service.jobs.parts.leases import PartLeases
from service.settings import Settings
from service.storage.database import Database
from service.storage.database.tables import job_parts
from svm.training import training
from tests.service.jobs.data import create, csv_of, files, prices, read, upload
from tests.service.jobs.stopping import StopAfter
from tests.waiting import until

pytestmark = pytest.mark.one_application(checkpoint_s=0.02, lease_s=30.0)

TIMES = ("elapsed_s", "cpu_s", "trace")
GRID = {
    "solver": [{"name": "smo"}],
    "C": [0.1, 1.0],
    "gamma": [0.1, 0.5, 2.0],
}


@pytest.fixture
def shared(settings: Settings) -> Settings:
    """As of a machine with two workers: one thread for each."""
    return settings.model_copy(update={"workers": 2})


@pytest.fixture(autouse=True)
def lends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lending, "LEND_S", 0.0)
    monkeypatch.setattr(lending, "LOOK_S", 0.01)


def ask(client: TestClient, path: str, **fields: Any) -> str:
    body = {"dataset_id": "latest", "model_name": "best", "seed": 1, **fields}
    reply = client.post(f"/v1/{path}", json=body)
    assert reply.status_code == 202, reply.text
    job_id: str = reply.json()["id"]
    return job_id


def comparison(client: TestClient, **fields: Any) -> str:
    return ask(client, "comparisons", **{"grid": GRID, "validation": {"folds": 3}} | fields)


def pairs(client: TestClient) -> str:
    solver = {"name": "pegasos", "lambda": 0.01}
    return ask(client, "jobs", solver=solver, stopping={"max_epochs": 600}, trace={"every": 100})


def folds(client: TestClient) -> str:
    fields: dict[str, Any] = {"stopping": {"max_epochs": 300}, "validation": {"folds": 4}}
    return create(client, model_name="best", calibration="sigmoid", **fields)


def numbers(client: TestClient) -> str:
    """The folds of a model of numbers, whose predictions come back."""
    upload(client, prices(90)[0])
    fields: dict[str, Any] = {"stopping": {"max_epochs": 300}, "validation": {"folds": 4}}
    return create(client, model_name="best", **fields)


def search(client: TestClient) -> str:
    """Settings that `auto` compares, each on a fold."""
    return ask(client, "jobs", solver={"name": "auto"})


def search_of_pairs(client: TestClient, **fields: Any) -> str:
    """What the search chooses has pairs that are lent again, after those of the linear model."""
    random = np.random.default_rng(0)
    X = random.normal(size=(240, 2)).round(4)
    codes = np.searchsorted([0.6, 1.4, 2.8], np.square(X).sum(axis=1))
    lines = [f"{a},{b},c{code}" for (a, b), code in zip(X, codes, strict=True)]
    upload(client, "\n".join(["a,b,label", *lines]))
    return ask(client, "jobs", solver={"name": "auto"}, **fields)


def search_and_folds(client: TestClient) -> str:
    """Folds are lent when it is known what to train: not before, with the linear model."""
    return search_of_pairs(client, validation={"folds": 3})


def comparison_of_numbers(client: TestClient) -> str:
    upload(client, prices(90)[0])
    return comparison(client)


Asks = Callable[[TestClient], str]
JOBS: list[Any] = [
    pytest.param(f, id=f.__name__)
    for f in (
        comparison,
        pairs,
        folds,
        numbers,
        comparison_of_numbers,
        search,
        search_of_pairs,
        search_and_folds,
    )
]


class Helper:
    """A worker in a thread of its own that only helps, and is replaced when it stops."""

    def __init__(self, settings: Settings, looks: int | None = None) -> None:
        """It stops after a growing number of looks, if a number is given."""
        self.parts = 0
        self.stops = 0
        self._settings, self._looks = settings, looks
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    @contextmanager
    def helping(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._ended.set()
            self._thread.join(30)
            assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self._ended.is_set():
            stopping = threading.Event()
            if self._looks is not None:
                self.stops += 1
                stopping = StopAfter(self._looks * self.stops)
            worker = Worker(self._settings, stopping, f"helper-{self.stops}")
            while not self._ended.wait(0.002) and not stopping.is_set():
                self.parts += worker.take_next_part()


def results(client: TestClient, job_id: str) -> Any:
    """All that does not depend on time."""
    job = read(client, job_id)
    assert (job["state"], job["warnings"]) == ("succeeded", []), job
    name, number = job["model"]["name"], job["model"]["version"]
    version = client.get(f"/v1/models/{name}/versions/{number}").json()
    names = "metrics", "certificate", "updates", "epochs", "notes"
    kept = {name: job.get(name) for name in (*names, "search")}
    kept["digest"] = version["digest"]
    if job["kind"] == "compare":
        entries = client.get(f"/v1/comparisons/{job_id}").json()["entries"]
        kept["entries"] = [{k: v for k, v in e.items() if k not in TIMES} for e in entries]
    else:
        trace = client.get(f"/v1/jobs/{job_id}/trace").json()
        time = trace["columns"].index("elapsed_s")
        kept["trace"] = [row[:time] + row[time + 1 :] for row in trace["rows"]]
    return kept


def undisturbed(client: TestClient, shared: Settings, asks: Asks) -> Any:
    upload(client, csv_of(90, n_classes=4))
    job_id = asks(client)
    assert Worker(shared, threading.Event()).take_next_job()
    return results(client, job_id)


@pytest.mark.spread(2)
@pytest.mark.parametrize("asks", JOBS)
def test_helper_changes_no_result(client: TestClient, shared: Settings, asks: Asks) -> None:
    expected = undisturbed(client, shared, asks)
    job_id, helper = asks(client), Helper(shared)
    with helper.helping():
        assert Worker(shared, threading.Event()).take_next_job()
    assert helper.parts >= 1
    assert results(client, job_id) == expected
    assert files(shared, "checkpoints") == []


def test_pairs_of_many_values_are_lent_to_other_machines_only(
    client: TestClient, shared: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One machine trains them in threads: another worker would prepare the rows again, and states
    of many features would go through files. The results are the same."""
    expected = undisturbed(client, shared, pairs)
    monkeypatch.setattr(training, "SEVERAL_FROM", 1)
    job_id, helper = pairs(client), Helper(shared)
    with helper.helping():
        assert Worker(shared, threading.Event()).take_next_job()
    assert (helper.parts == 0) == (shared.sqlite_file is not None)
    assert results(client, job_id) == expected


@pytest.mark.long
@pytest.mark.parametrize("asks", JOBS)
def test_stopped_helpers_give_back_what_they_have_done(
    client: TestClient, shared: Settings, asks: Asks
) -> None:
    expected = undisturbed(client, shared, asks)
    job_id, helper = asks(client), Helper(shared, looks=40)
    with helper.helping():
        assert Worker(shared, threading.Event()).take_next_job()
    assert helper.stops >= 2
    assert results(client, job_id) == expected
    assert files(shared, "checkpoints") == []


@pytest.mark.long
@pytest.mark.parametrize("asks", JOBS)
def test_stopped_workers_resume_a_job_with_parts(
    client: TestClient, shared: Settings, asks: Asks
) -> None:
    """The worker of the job stops again and again, while others do its parts."""
    expected = undisturbed(client, shared, asks)
    job_id, helper, attempts = asks(client), Helper(shared), 0
    with helper.helping():
        while read(client, job_id)["state"] == "queued":
            attempts += 1
            assert Worker(shared, StopAfter(60 * attempts)).take_next_job()
    assert attempts >= 2
    assert results(client, job_id) == expected


def test_helper_predicts_pieces(
    client: TestClient, shared: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has the same bytes; so it does if both workers stop in between."""
    monkeypatch.setattr(scoring, "BLOCK_ROWS", 50)
    dataset_id = upload(client, csv_of(4000, n_classes=3))
    job_id = create(client, dataset_id, calibration="sigmoid", validation={"fraction": 0.4})
    assert Worker(shared, threading.Event()).take_next_job()
    body = {"dataset_id": dataset_id, "model": "clouds", "outputs": ["label", "probability"]}
    contents, attempts = [], 0
    for helper in (None, Helper(shared), Helper(shared, looks=20)):
        job_id = client.post("/v1/batch-predictions", json=body).json()["id"]
        with nullcontext() if helper is None else helper.helping():
            while read(client, job_id)["state"] == "queued":
                attempts += 1
                stops = helper is not None and helper.stops > 0
                stopping = StopAfter(40 * attempts) if stops else threading.Event()
                assert Worker(shared, stopping).take_next_job()
        assert helper is None or helper.parts >= 1
        url = client.get(f"/v1/batch-predictions/{job_id}").json()["results"]["url"]
        contents.append(client.get(url).content)
    assert contents[0] == contents[1] == contents[2]
    assert attempts >= 3
    assert files(shared, "checkpoints") == []


@pytest.mark.spread(2)
@pytest.mark.parametrize("asks", JOBS)
def test_damaged_results_are_done_again(
    client: TestClient, shared: Settings, asks: Asks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by a job that awaits nothing else."""
    expected = undisturbed(client, shared, asks)
    deliver = PartLeases.deliver
    damaged: list[dict[str, Any]] = []

    def deliver_and_damage(self: PartLeases, lease: Lease, content: bytes, report: Report) -> None:
        deliver(self, lease, content, report)
        if len(damaged) < 2:
            damaged.append(lease.key)
            with self._database.write() as connection:
                named = sa.update(job_parts).where(job_parts.c.result_key.is_not(None))
                connection.execute(named.values(result_sha256="0" * 64))

    monkeypatch.setattr(PartLeases, "deliver", deliver_and_damage)
    job_id = asks(client)
    helper = Helper(shared)
    with helper.helping():
        assert Worker(shared, threading.Event()).take_next_job()
    assert damaged
    assert results(client, job_id) == expected


def test_worker_leaves_a_part_for_a_job_that_waits(client: TestClient, shared: Settings) -> None:
    """Another caller's job waits no longer than before: the part goes back to its job."""
    upload(client, csv_of(90, n_classes=4))
    endless = ask(
        client, "jobs", solver={"name": "pegasos", "lambda": 0.01}, stopping={"max_epochs": 10**8}
    )
    stopping = threading.Event()
    worker = threading.Thread(target=Worker(shared, stopping).take_next_job)
    worker.start()
    helper = Worker(shared, threading.Event(), "helper")
    until(lambda: read(client, endless)["progress"]["parts"])
    helping = threading.Thread(target=helper.take_next_part)
    helping.start()
    until(lambda: helper_has_a_part(shared))
    short = create(client, stopping={"max_epochs": 1})
    helping.join(30)
    assert not helping.is_alive()
    assert helper.take_next_job()
    assert read(client, short)["state"] == "succeeded"
    assert read(client, endless)["state"] == "running"
    client.post(f"/v1/jobs/{endless}/cancel")
    worker.join(30)
    assert not worker.is_alive()
    assert rows_of(shared) == []


def rows_of(settings: Settings) -> list[Any]:
    database = Database(settings.database_url)
    with database.read() as connection:
        rows = list(connection.execute(sa.select(job_parts)))
    database.close()
    return rows


def helper_has_a_part(settings: Settings) -> bool:
    return any(row.worker == "helper" for row in rows_of(settings))
