"""`/v1/jobs/{id}/events` of jobs that have ended; live streams are in the journeys."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.settings import Settings
from service.storage.database import Database
from tests.service.jobs.data import create
from tests.service.jobs.rows import add_dataset

pytestmark = pytest.mark.one_application

SSE = {"Accept": "text/event-stream"}
JSON = {"Accept": "application/json"}


@pytest.fixture
def job_id(client: TestClient, settings: Settings) -> str:
    """A job that was paused, resumed and canceled: states queued, paused, queued, canceled."""
    database = Database(settings.database_url)
    add_dataset(database)
    database.close()
    job_id = create(client)
    for what in ("pause", "resume", "cancel"):
        assert client.post(f"/v1/jobs/{job_id}/{what}").status_code == 202
    return job_id


def parse(text: str) -> list[dict[str, Any]]:
    """The events of a stream, as a page shows them."""
    blocks = [block for block in text.split("\n\n") if block.startswith("id: ")]
    events = []
    for block in blocks:
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        events.append(
            {
                "id": int(fields["id"]),
                "event": fields["event"],
                "data": json.loads(fields["data"]),
            }
        )
    return events


def page(client: TestClient, job_id: str, headers: dict[str, str] = JSON, **query: Any) -> Any:
    reply = client.get(f"/v1/jobs/{job_id}/events", headers=headers, params=query)
    assert reply.status_code == 200, reply.text
    return reply.json()


@pytest.mark.parametrize("headers", [SSE, {}], ids=["asked for", "default"])
def test_stream_and_page_tell_the_same(
    client: TestClient, job_id: str, headers: dict[str, str]
) -> None:
    """The same three fields, in the order things happened."""
    reply = client.get(f"/v1/jobs/{job_id}/events", headers=headers)
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.headers["cache-control"] == "no-store"
    assert reply.text.startswith("retry: ")
    events = parse(reply.text)
    assert page(client, job_id) == {"events": events, "next_page_token": None}
    states = [event["data"]["state"] for event in events]
    assert states == ["queued", "paused", "queued", "canceled", "canceled"]
    assert [event["event"] for event in events] == [*["state"] * 4, "end"]
    assert all(event["data"]["at"].endswith("Z") for event in events)


def test_stream_goes_on_after_the_last_event_seen(client: TestClient, job_id: str) -> None:
    """After the end there is nothing, and 204 stops browsers from reconnecting."""
    events = page(client, job_id)["events"]
    for seen in range(len(events)):
        headers = {**SSE, "Last-Event-ID": str(events[seen]["id"])}
        reply = client.get(f"/v1/jobs/{job_id}/events", headers=headers)
        if seen < len(events) - 1:
            assert parse(reply.text) == events[seen + 1 :]
        else:
            assert (reply.status_code, reply.content) == (204, b"")


def test_pages_hold_every_event_once(client: TestClient, job_id: str) -> None:
    """Oldest first; a page may also begin after `Last-Event-ID`."""
    events = page(client, job_id)["events"]
    found: list[Any] = []
    query: dict[str, Any] = {"page_size": 2}
    while True:
        some = page(client, job_id, **query)
        found += some["events"]
        if some["next_page_token"] is None:
            break
        query["page_token"] = some["next_page_token"]
    assert found == events
    later = page(client, job_id, {**JSON, "Last-Event-ID": str(events[1]["id"])})
    assert later["events"] == events[2:]


@pytest.mark.parametrize("number", ["-1", "x", "1.5", str(2**31), ""])
def test_last_event_id_must_be_a_number(client: TestClient, job_id: str, number: str) -> None:
    """400, also for what no database could take."""
    headers = {**SSE, "Last-Event-ID": number}
    reply = client.get(f"/v1/jobs/{job_id}/events", headers=headers)
    assert (reply.status_code, reply.json()["code"]) == (400, "invalid-header")


def test_page_token_of_another_list_is_refused(client: TestClient, job_id: str) -> None:
    """The token of a list of jobs names a job, not an event."""
    create(client)
    token = client.get("/v1/jobs", params={"page_size": 1}).json()["next_page_token"]
    reply = client.get(
        f"/v1/jobs/{job_id}/events", headers=JSON, params={"page_token": token, "page_size": 1}
    )
    assert (reply.status_code, reply.json()["code"]) == (400, "invalid-parameter")


def test_other_formats_and_unknown_jobs(client: TestClient, job_id: str) -> None:
    """406 and 404, as everywhere."""
    path = f"/v1/jobs/{job_id}/events"
    assert client.get(path, headers={"Accept": "text/csv"}).status_code == 406
    unknown = "/v1/jobs/job_" + "0" * 32 + "/events"
    for headers in (SSE, JSON):
        assert client.get(unknown, headers=headers).status_code == 404


def test_head_of_a_stream_does_not_wait_for_it(
    client: TestClient, settings: Settings, job_id: str
) -> None:
    """The job has not ended; the headers are there at once."""
    reply = client.head(f"/v1/jobs/{create(client)}/events")
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/event-stream")
