"""`POST /v1/jobs:batch`: each of many trainings is accepted or refused by itself."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

from service.app import create_app
from service.errors import Conflict, NotFound
from service.jobs.core.job import Job, State
from service.jobs.core.leases import Leases
from service.jobs.core.store import JobStore
from service.settings import Settings
from service.storage.blobs import Blobs
from service.storage.database import Database
from tests.backends import ON_ALL_BACKENDS
from tests.service.jobs.data import job_body, upload
from tests.service.jobs.rows import add_dataset, new_job, take

BATCH = "/v1/jobs:batch"
NO_DATASET = "ds_" + "0" * 32


def send(client: httpx2.Client, *bodies: Any, **headers: str) -> list[dict[str, Any]]:
    """What became of each request."""
    reply = client.post(BATCH, json={"jobs": bodies}, headers=headers)
    assert reply.status_code == 200, reply.text
    entries: list[dict[str, Any]] = reply.json()["jobs"]
    return entries


def outcomes(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["error"]["code"] if "error" in entry else "accepted" for entry in entries]


def listed(client: httpx2.Client) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = client.get("/v1/jobs", params={"page_size": 1000}).json()["jobs"]
    return jobs


@pytest.mark.one_application
def test_each_is_accepted_or_refused_as_a_single_request(client: TestClient) -> None:
    """A job is as from `POST /v1/jobs`, an error too; pointers are into the one request."""
    dataset_id = upload(client)
    wrong: list[Any] = [
        job_body(dataset_id, solver={"name": "newton", "C": -1}),
        job_body(dataset_id, classes=["c0", "unknown"]),
        job_body(dataset_id, model_name="No Name"),
        job_body(dataset_id, warm_start_from="nothing/1"),
        job_body(NO_DATASET),
        {},
        5,
        [],
    ]
    single = [client.post("/v1/jobs", json=body).json() for body in wrong]
    assert listed(client) == []
    first, *refused, last = send(client, job_body(dataset_id), *wrong, job_body(dataset_id))
    varying = ("instance", "request_id")
    for entry, problem in zip(refused, single, strict=True):
        same = {name: value for name, value in problem.items() if name not in varying}
        assert {n: v for n, v in entry["error"].items() if n not in varying} == same
        assert entry["error"]["instance"] == BATCH
    assert refused[0]["error"]["errors"][0]["pointer"] == "/solver/C"
    assert [job["id"] for job in listed(client)] == [last["job"]["id"], first["job"]["id"]]
    for entry in (first, last):
        assert client.get(f"/v1/jobs/{entry['job']['id']}").json() == entry["job"]
    path, json_only = f"/v1/jobs/{first['job']['id']}/events", {"Accept": "application/json"}
    page = client.get(path, headers=json_only).json()
    assert [event["event"] for event in page["events"]] == ["state"]


@pytest.mark.one_application
@pytest.mark.parametrize(
    ("body", "status", "pointer"),
    [
        ({"jobs": []}, 422, "/jobs"),
        ({"jobs": [{}] * 1001}, 422, "/jobs"),
        ({"jobs": {}}, 422, "/jobs"),
        ({"jobs": None}, 422, "/jobs"),
        ({}, 422, "/jobs"),
        ([], 422, ""),
        ({"jobs": [{}], "wait_s": 1}, 422, "/wait_s"),
    ],
)
def test_what_is_no_list_of_jobs_is_refused_as_a_whole(
    client: TestClient, body: Any, status: int, pointer: str
) -> None:
    reply = client.post(BATCH, json=body)
    assert (reply.status_code, reply.json()["errors"][0]["pointer"]) == (status, pointer)


@pytest.mark.one_application
def test_all_requests_together_list_a_hundred_faults(client: TestClient) -> None:
    """And one of each further request: the reply does not grow with every wrong field."""
    entries = send(client, *[{f"f{i}": 1 for i in range(40)}] * 20)
    listed = [len(entry["error"]["errors"]) for entry in entries]
    assert (listed[:2], listed[5:]) == ([42, 42], [1] * 15)
    assert {entry["error"]["errors_total"] for entry in entries} == {42}


@pytest.mark.one_application
def test_malformed_and_large_bodies_are_refused(client: TestClient) -> None:
    """Nothing is queued, also if the first jobs could be read."""
    dataset_id = upload(client)
    good = client.build_request("POST", BATCH, json={"jobs": [job_body(dataset_id)]}).content
    headers = {"Content-Type": "application/json"}
    cut = client.post(BATCH, content=good[:-2], headers=headers)
    assert (cut.status_code, cut.json()["code"]) == (400, "malformed-json")
    large = client.post(BATCH, content=good + b" " * 2**20, headers=headers)
    assert (large.status_code, large.json()["code"]) == (413, "body-too-large")
    assert listed(client) == []


@pytest.mark.one_application
def test_a_thousand_jobs_are_queued_in_their_order(client: TestClient) -> None:
    """Most of them for the same model; the bad ones between them change nothing."""
    dataset_id = upload(client)
    bodies: list[Any] = [
        job_body(dataset_id, seed=seed, tags={"n": str(seed)}) for seed in range(1000)
    ]
    bodies[3], bodies[500], bodies[999] = {}, job_body(NO_DATASET), {"jobs": []}
    entries = send(client, *bodies)
    accepted = [n for n in range(1000) if n not in (3, 500, 999)]
    assert [n for n, entry in enumerate(entries) if "job" in entry] == accepted
    jobs = listed(client)[::-1]
    assert [job["spec"]["seed"] for job in jobs] == accepted
    tagged = client.get("/v1/jobs", params={"tag": "n=998"}).json()["jobs"]
    assert [job["id"] for job in tagged] == [entries[998]["job"]["id"]]


@pytest.mark.one_application
def test_repeated_request_queues_nothing(client: TestClient) -> None:
    """With the same Idempotency-Key: the stored reply, also if all were refused."""
    dataset_id = upload(client)
    for key, bodies in (("a", [job_body(dataset_id), {}]), ("b", [{}])):
        first, again = (
            client.post(BATCH, json={"jobs": bodies}, headers={"Idempotency-Key": key})
            for _ in range(2)
        )
        assert again.headers["Idempotency-Replayed"] == "true"
        assert again.json() == first.json()
    other = client.post(BATCH, json={"jobs": [{}, {}]}, headers={"Idempotency-Key": "b"})
    assert (other.status_code, other.json()["code"]) == (422, "idempotency-key-reused")
    assert len(listed(client)) == 1


@pytest.mark.parametrize("limit", ["queued_jobs", "queued_jobs_per_caller"])
def test_full_queue_refuses_the_rest(settings: Settings, limit: str) -> None:
    """Those that fit are queued, in order."""
    limits = settings.limits.model_copy(update={limit: 2})
    with TestClient(create_app(settings.model_copy(update={"limits": limits}))) as client:
        entries = send(client, *[job_body(upload(client))] * 4)
        assert outcomes(entries) == ["accepted", "accepted", "queue-full", "queue-full"]
        assert entries[2]["error"]["status"] == 503


@ON_ALL_BACKENDS
def test_all_are_queued_in_one_transaction(database: Database, blobs: Blobs) -> None:
    """If the reply cannot be stored, no job is queued; what was deleted since the checks is
    refused; the jobs are taken in their order."""
    jobs, dataset_id = JobStore(database, blobs, queue_limit=1000), add_dataset(database)
    new = [new_job(dataset_id, tags={"n": str(n)}) for n in range(50)]
    new[7] = new_job(NO_DATASET)

    def fail(*_: object) -> None:
        raise Conflict("idempotency-key-in-use", "another request holds the key")

    with pytest.raises(Conflict):
        jobs.create_all(new, "caller", also=fail)
    assert jobs.counts()[State.QUEUED] == 0
    results = jobs.create_all(new, "caller")
    assert isinstance(results[7], NotFound)
    queued = [result for result in results if isinstance(result, Job)]
    assert [job.tags["n"] for job in queued] == [str(n) for n in range(50) if n != 7]
    leases = Leases(database, blobs)
    assert [take(leases).job.id for _ in queued] == [job.id for job in queued]
