"""Requests with an Idempotency-Key take effect once."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from service.app import create_app
from service.errors import Conflict
from service.settings import Settings
from service.storage.database import Database
from service.storage.database.idempotency import Reservation, Reservations, StoredReply, keep_reply
from service.storage.database.tables import idempotency_keys
from tests.backends import ON_ALL_BACKENDS
from tests.service.jobs.data import csv_of, job_body, upload
from tests.service.models.registered_models import RegisteredModels, registered

pytestmark = pytest.mark.one_application

__all__ = ["registered"]

KEY = {"Idempotency-Key": "3f1c-1"}
REPLY = StoredReply(201, {"Location": "/there"}, b"{}")
CSV = {"Content-Type": "text/csv"}


def train(client: TestClient, headers: dict[str, str] = KEY, **fields: Any) -> httpx2.Response:
    return client.post("/v1/jobs", json=job_body(**fields), headers=headers)


def jobs_of(client: TestClient) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = client.get("/v1/jobs").json()["jobs"]
    return jobs


def same(first: httpx2.Response, again: httpx2.Response) -> None:
    """The second is the stored reply."""
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers.pop("Idempotency-Replayed") == "true"
    for reply in (first, again):
        reply.headers.pop("X-Request-Id")
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert dict(again.headers) == dict(first.headers)


@ON_ALL_BACKENDS
def test_job_is_created_once(client: TestClient) -> None:
    """A retry gets the same bytes and headers as the first request; another key creates another
    job."""
    upload(client)
    first = train(client)
    assert first.status_code == 202
    client.post(f"{first.headers['Location']}/pause")  # the reply is kept as it was
    same(first, train(client))
    assert train(client, {"Idempotency-Key": "another"}).json()["id"] != first.json()["id"]
    assert len(jobs_of(client)) == 2


@pytest.mark.parametrize(
    "send",
    [
        lambda client: client.post("/v1/datasets", content=csv_of(20), headers=KEY | CSV),
        lambda client: client.post(
            "/v1/datasets",
            content=gzip.compress(csv_of(20).encode()),  # it contains the time
            headers=KEY | CSV | {"Content-Encoding": "gzip"},
        ),
        lambda client: client.post("/v1/datasets", files={"file": csv_of(20)}, headers=KEY),
        lambda client: client.post(
            f"/v1/datasets/{upload(client)}/append", content=csv_of(20), headers=KEY | CSV
        ),
        lambda client: client.post(
            f"/v1/datasets/{upload(client)}/split", json={"fraction": 0.5}, headers=KEY
        ),
    ],
    ids=["upload", "gzip", "form", "append", "split"],
)
def test_datasets_are_created_once(
    client: TestClient, send: Callable[[TestClient], httpx2.Response]
) -> None:
    """Without a key the second reply would be 200, of the existing dataset."""
    first = send(client)
    assert first.status_code == 201, first.text
    same(first, send(client))


def test_batch_predictions_are_created_once(
    client: TestClient, registered: RegisteredModels
) -> None:
    registered.add()
    body = {"dataset_id": upload(client), "model": "iris"}
    first, again = (client.post("/v1/batch-predictions", json=body, headers=KEY) for _ in "ab")
    assert first.status_code == 202, first.text
    same(first, again)


def test_reply_that_created_nothing_is_stored_too(client: TestClient) -> None:
    """An upload of an existing dataset."""
    upload(client)
    first, again = (client.post("/v1/datasets", content=csv_of(), headers=KEY | CSV) for _ in "ab")
    assert first.status_code == 200
    same(first, again)


def test_key_is_valid_for_one_request(client: TestClient) -> None:
    """Another body, query or path with the same key is refused, even if no worker runs."""
    upload(client)
    assert train(client).status_code == 202
    others = [
        train(client, seed=2),
        client.post("/v1/jobs?wait_s=0", json=job_body(), headers=KEY),
        client.post("/v1/datasets", content=csv_of(), headers=KEY | CSV),
    ]
    for other in others:
        assert (other.status_code, other.json()["code"]) == (422, "idempotency-key-reused")
    assert len(jobs_of(client)) == 1


def test_refused_request_frees_its_key(client: TestClient) -> None:
    """Its cause may be fixed, in the request or elsewhere."""
    assert train(client).status_code == 404  # there is no dataset
    upload(client)
    assert train(client, solver={"name": "nonsense"}).status_code == 422
    assert train(client).status_code == 202


@pytest.mark.parametrize("key", ["", "a b", "é".encode(), "x" * 256])
def test_key_is_plain_text(client: TestClient, key: Any) -> None:
    reply = train(client, {"Idempotency-Key": key})
    assert (reply.status_code, reply.json()["code"]) == (400, "invalid-header")


def test_predictions_and_job_control_ignore_keys(client: TestClient) -> None:
    """They create nothing, and can be repeated."""
    upload(client)
    job = train(client).headers["Location"]
    assert client.post(f"{job}/pause", headers=KEY).status_code == 202
    assert client.post(f"{job}/pause", headers=KEY).status_code == 200


def test_request_in_progress_is_a_conflict(client: TestClient) -> None:
    """Of many at once, one creates; the others receive 409 with Retry-After, or its reply."""
    together = threading.Barrier(8)

    def send() -> httpx2.Response:
        together.wait()
        return train(client)

    upload(client)
    with ThreadPoolExecutor(8) as pool:
        replies = [future.result() for future in [pool.submit(send) for _ in range(8)]]
    assert {reply.status_code for reply in replies} <= {202, 409}
    assert len({reply.content for reply in replies if reply.status_code == 202}) == 1
    for reply in replies:
        if reply.status_code == 409:
            assert reply.json()["code"] == "idempotency-key-in-use"
            assert reply.headers["Retry-After"] == "1"
    assert len(jobs_of(client)) == 1


@ON_ALL_BACKENDS
def test_expired_lease_creates_nothing(database: Database) -> None:
    """The transaction fails if another request has taken over the key meanwhile."""
    slow, quick = Reservations(database, -1), Reservations(database, 60)
    late = slow.reserve("me", "k", "f")
    second = quick.reserve("me", "k", "another")
    assert isinstance(late, Reservation)
    assert isinstance(second, Reservation)
    with pytest.raises(Conflict), database.write() as connection:
        keep_reply(connection, late, REPLY)
    slow.renew(late)
    slow.release(late)  # nothing of the second's is undone
    with pytest.raises(Conflict):
        quick.reserve("me", "k", "another")
    quick.keep(second, REPLY)
    assert slow.reserve("me", "k", "another") == REPLY
    assert isinstance(quick.reserve("you", "k", "f"), Reservation)  # each caller has its own keys


def test_replies_are_stored_for_at_least_a_day(database: Database) -> None:
    """A shorter setting is ignored."""
    reservations = Reservations(database, 60)
    for key, age_s in (("old", 25 * 3600), ("young", 23 * 3600)):
        held = reservations.reserve("me", key, "f")
        assert isinstance(held, Reservation)
        reservations.keep(held, REPLY)
        aged = sa.update(idempotency_keys).where(idempotency_keys.c.key == key)
        with database.write() as connection:
            connection.execute(aged.values(created_at=idempotency_keys.c.created_at - age_s))
    reservations.prune(kept_s=1)
    assert reservations.reserve("me", "young", "f") == REPLY
    assert isinstance(reservations.reserve("me", "old", "f"), Reservation)


def test_key_survives_a_restart(settings: Settings) -> None:
    with TestClient(create_app(settings)) as client:
        upload(client)
        first = train(client)
    with TestClient(create_app(settings)) as client:
        same(first, train(client))
