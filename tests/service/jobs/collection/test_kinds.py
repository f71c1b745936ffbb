"""Jobs of every kind answer alike, in their own collection and under `/v1/jobs`."""

from __future__ import annotations

import threading
import time
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

from service.client.fields import PLURALS
from service.jobs.engine.worker_process import Worker
from service.jobs.kinds import KINDS, Kind
from service.settings import Settings
from tests.service.jobs.data import csv_of, upload
from tests.service.jobs.stopping import StopAfter
from tests.service.models.registered_models import RegisteredModels, fitted_pipeline, registered

__all__ = ["registered"]

pytestmark = pytest.mark.one_application

ITS_OWN = {
    *("id", "attempt", "created_at", "started_at", "finished_at", "elapsed_s", "url"),
    *("cpu_s", "version", "trace"),
}
"""Members of a reply, at any depth, that differ between jobs with the same results."""


@pytest.fixture(params=KINDS.values(), ids=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    kind: Kind = request.param
    return kind


@pytest.fixture(params=["own", "/v1/jobs"])
def path(request: pytest.FixtureRequest, kind: Kind) -> str:
    """Of the kind's own collection, or of all jobs."""
    return kind.path if request.param == "own" else str(request.param)


def model_of(kind: Kind) -> str | None:
    """The model that jobs like the kind's example make or use, if there is one."""
    example = kind.routes.EXAMPLE
    model: str | None = example.get("model_name", example.get("model"))
    return model


@pytest.fixture
def job(client: TestClient, registered: RegisteredModels, kind: Kind) -> dict[str, Any]:
    """A queued job: the kind's own example."""
    upload(client, csv_of(n_features=3))
    for name in {name for each in KINDS.values() if (name := model_of(each)) is not None}:
        registered.add(name, fitted_pipeline(["c0", "c1"]))
    reply = client.post(kind.path, json=kind.routes.EXAMPLE)
    assert reply.status_code == 202, reply.text
    assert reply.headers["Location"] == f"{kind.path}/{reply.json()['id']}"
    assert {"etag", "retry-after"} <= reply.headers.keys()
    created: dict[str, Any] = reply.json()
    return created


def steer(client: TestClient, path: str, verb: str) -> tuple[int, str]:
    reply = client.post(f"{path}/{verb}")
    return reply.status_code, reply.json().get("state", reply.json().get("code"))


def test_reading_waits_for_the_end(client: TestClient, job: dict[str, Any], path: str) -> None:
    """`wait_s` seconds at most, and not at all for a job that has ended."""
    one = f"{path}/{job['id']}"
    started = time.monotonic()
    assert client.get(one, params={"wait_s": 0.2}).json()["state"] == "queued"
    assert time.monotonic() - started >= 0.2
    client.post(f"{one}/cancel")
    started = time.monotonic()
    assert client.get(one, params={"wait_s": 60}).json()["state"] == "canceled"
    assert time.monotonic() - started < 30


def test_creation_waits_too(client: TestClient, job: dict[str, Any], kind: Kind) -> None:
    started = time.monotonic()
    body = kind.routes.EXAMPLE
    assert client.post(kind.path, json=body, params={"wait_s": 0.2}).status_code == 202
    assert time.monotonic() - started >= 0.2


def test_wait_has_limits(client: TestClient, job: dict[str, Any], path: str) -> None:
    for wait_s in ("-1", "61", "nan", "x"):
        reply = client.get(f"{path}/{job['id']}", params={"wait_s": wait_s})
        assert (reply.status_code, reply.json()["code"]) == (400, "invalid-parameter")


def test_what_has_not_changed_is_not_sent_again(
    client: TestClient, job: dict[str, Any], path: str
) -> None:
    """304 for If-None-Match until the job changes, 412 for If-Match afterwards."""
    one = f"{path}/{job['id']}"
    tag = client.get(one).headers["ETag"]
    assert client.get(one, headers={"If-None-Match": tag}).status_code == 304
    assert steer(client, one, "pause") == (202, "paused")
    changed = client.get(one, headers={"If-None-Match": tag})
    assert changed.status_code == 200
    assert changed.headers["ETag"] != tag
    for method in ("GET", "DELETE"):
        assert client.request(method, one, headers={"If-Match": tag}).status_code == 412


def test_job_is_paused_resumed_canceled_and_deleted(
    client: TestClient, job: dict[str, Any], path: str
) -> None:
    """202 for what changes the job, 200 for what is true already, 409 for what is impossible."""
    one = f"{path}/{job['id']}"
    assert steer(client, one, "resume") == (200, "queued")
    assert steer(client, one, "pause") == (202, "paused")
    assert steer(client, one, "pause") == (200, "paused")
    assert steer(client, one, "resume") == (202, "queued")
    assert client.delete(one).json()["code"] == "invalid-state"
    assert steer(client, one, "cancel") == (202, "canceled")
    assert steer(client, one, "cancel") == (200, "canceled")
    assert steer(client, one, "resume") == (409, "invalid-state")
    wrong = client.post(f"{one}/cancel", json={"keep": True})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "invalid-field")
    assert client.delete(one).status_code == 204
    assert client.get(one).status_code == 404


def test_events_are_pages_or_a_stream(client: TestClient, job: dict[str, Any], path: str) -> None:
    one = f"{path}/{job['id']}"
    client.post(f"{one}/cancel")
    pages = client.get(f"{one}/events", headers={"Accept": "application/json"})
    assert [event["event"] for event in pages.json()["events"]] == ["state", "state", "end"]
    stream = client.get(f"{one}/events")
    assert stream.headers["Content-Type"].startswith("text/event-stream")
    assert stream.text.count("event: ") == 3


def test_lists_have_the_same_filters(
    client: TestClient, job: dict[str, Any], kind: Kind, path: str
) -> None:
    """A list of one kind needs no filter for it, and shows no other kind."""
    tags = {"tags": {"team": "x"}}
    other = next(each for each in KINDS.values() if each is not kind)
    assert client.post(other.path, json=other.routes.EXAMPLE | tags).status_code == 202
    made = client.post(kind.path, json=kind.routes.EXAMPLE | tags).json()
    client.post(f"{path}/{made['id']}/cancel")
    of_kind = {"kind": kind.name} if path == "/v1/jobs" else {}

    def listed(**filters: str) -> set[str]:
        reply = client.get(path, params={**of_kind, **filters})
        assert reply.status_code == 200, reply.text
        (items,) = (each for each in reply.json().values() if isinstance(each, list))
        return {item["id"] for item in items}

    assert listed() == {job["id"], made["id"]}
    assert listed(state="canceled", tag="team=x") == {made["id"]}
    assert listed(state="queued") == {job["id"]}
    assert listed(dataset_id=job["dataset_id"]) == {job["id"], made["id"]}
    model = model_of(kind)
    assert model is None or listed(model_name=model) == {job["id"], made["id"]}
    assert listed(model_name="other") == set()
    refused: httpx2.Response = client.get(path, params={**of_kind, "color": "red"})
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid-parameter")


def test_jobs_of_other_kinds_are_not_found(
    client: TestClient, job: dict[str, Any], kind: Kind, path: str
) -> None:
    """In a collection of one kind; below `/v1/jobs` all are."""
    for other in KINDS.values():
        expected = 200 if other.path in (kind.path, "/v1/jobs") else 404
        assert client.get(f"{other.path}/{job['id']}").status_code == expected
        events = client.get(
            f"{other.path}/{job['id']}/events", headers={"Accept": "application/json"}
        )
        assert events.status_code == expected
        if expected == 404:
            assert steer(client, f"{other.path}/{job['id']}", "cancel") == (404, "not-found")


def test_stopped_job_ends_with_the_same_results(
    client: TestClient, job: dict[str, Any], kind: Kind, settings: Settings
) -> None:
    """After several attempts, each of which gets a little further."""
    assert Worker(settings, threading.Event()).take_next_job()
    again = client.post(kind.path, json=kind.routes.EXAMPLE).json()["id"]
    checks = 1
    while client.get(f"/v1/jobs/{again}").json()["state"] == "queued":
        assert Worker(settings, StopAfter(checks)).take_next_job()
        checks *= 2
    undisturbed, stopped = (client.get(f"{kind.path}/{id}").json() for id in (job["id"], again))
    assert stopped["attempt"] > 1
    assert undisturbed["state"] == "succeeded", undisturbed
    assert _without(ITS_OWN, stopped) == _without(ITS_OWN, undisturbed)


def _without(names: set[str], reply: Any) -> Any:
    if isinstance(reply, dict):
        return {key: _without(names, each) for key, each in reply.items() if key not in names}
    return [_without(names, each) for each in reply] if isinstance(reply, list) else reply


def test_client_knows_where_results_are() -> None:
    """Those of a training are a model version."""
    paths = {name: f"/v1/{plural}" for name, plural in PLURALS.items()}
    assert paths == {kind.name: kind.path for kind in KINDS.values() if kind.name != "train"}
