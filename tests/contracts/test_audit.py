"""Every call that changes something is in the audit trail, with who made it and from where."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from service.common.keys import Keys
from service.jobs.engine.worker_process import Worker
from service.jobs.kinds import KINDS
from service.settings import Settings
from service.storage.database import Database
from service.storage.database.audit import ACTIONS, AuditLog, ChangeFilter
from service.storage.database.pages import PageRequest
from service.storage.database.tables import Key
from tests.backends import ON_ALL_BACKENDS
from tests.journeys.server import ok, running
from tests.service.jobs.data import csv_of, job_body, upload
from tests.service.models.registered_models import RegisteredModels, fitted_pipeline, registered

__all__ = ["registered"]

CHANGE_NOTHING = {
    *("predict", "predict_by_version", "predict_by_alias"),
    *("infer", "infer_by_version", "get_v2_index"),
}
"""Operations with a body that change nothing."""
CSV = {"Content-Type": "text/csv"}


class Caller:
    """Calls operations of the document by their ids, and remembers which."""

    def __init__(self, client: TestClient, app: FastAPI, key: Key) -> None:
        self._client = client
        self._key = key
        self.changing = {
            operation["operationId"]: (method, path)
            for path, methods in app.openapi()["paths"].items()
            for method, operation in methods.items()
            if method != "get" and operation["operationId"] not in CHANGE_NOTHING
        }
        self.called: set[str] = set()

    def __call__(self, operation: str, /, action: str, **options: Any) -> Any:
        """The reply's JSON. The newest changes must be of this call, and of this action."""
        names = options.pop("names", {})
        method, path = self.changing[operation]
        before = changes(self._client)
        reply = self._client.request(method, path.format(**names), **options)
        assert reply.status_code < 300, (operation, reply.text)
        after = changes(self._client)
        new = after[: len(after) - len(before)]
        assert after[len(new) :] == before
        assert action in {change["action"] for change in new}, operation
        for change in new:
            assert change["request_id"] == reply.headers["X-Request-Id"]
            by = change["actor"], change["key_id"], change["address"]
            assert by == (self._key.name, self._key.id, "testclient")
            resource = names.get("id") or names.get("name") or ""
            assert resource in change["resource"] or operation.endswith("_dataset")
        self.called.add(operation)
        return reply.json() if reply.content else None


def changes(client: TestClient, **filters: str) -> list[dict[str, Any]]:
    """From the list, all of its pages."""
    listed: list[dict[str, Any]] = []
    query = {"page_size": "7", **filters}
    while True:
        reply = client.get("/v1/audit", params=query)
        assert reply.status_code == 200, reply.text
        listed += reply.json()["changes"]
        token = reply.json()["next_page_token"]
        if token is None:
            return listed
        query["page_token"] = token


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"auth": "on"})


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    database = Database(settings.database_url)
    yield database
    database.close()


@pytest.fixture
def key(database: Database) -> tuple[Key, str]:
    """Made by a command on the machine."""
    return Keys(database).create("root", ["admin"])


@pytest.fixture
def client(app: FastAPI, key: tuple[Key, str]) -> Iterator[TestClient]:
    with TestClient(app, headers={"Authorization": f"Bearer {key[1]}"}) as client:
        yield client


@ON_ALL_BACKENDS
def test_every_changing_call_is_in_the_audit_trail(
    app: FastAPI,
    client: TestClient,
    key: tuple[Key, str],
    database: Database,
    registered: RegisteredModels,
) -> None:
    """Each operation of the document that changes something is called once; the document has no
    other, and the trail no action that was not seen."""
    call = Caller(client, app, key[0])
    first = call("create_dataset", "dataset.create", content=csv_of(), headers=CSV)["id"]
    of_first = {"id": first}
    call("append_to_dataset", "dataset.create", names=of_first, content=csv_of(), headers=CSV)
    call("split_dataset", "dataset.create", names=of_first, json={"fraction": 0.5, "seed": 1})
    tags = {"name": "new", "tags": {"a": "b"}}
    call("update_dataset", "dataset.update", names=of_first, json=tags)

    registered.add("iris", fitted_pipeline(["c0", "c1"]))
    registered.add("iris", fitted_pipeline(["c0", "c1"]))
    examples = {"train": job_body(), **{k: v.routes.EXAMPLE for k, v in KINDS.items()}}
    upload(client, csv_of())  # the latest again
    for kind in KINDS.values():
        noun = kind.path.removeprefix("/v1/").removesuffix("s").replace("-", "_")
        job = {"id": call(f"create_{noun}", "job.create", json=examples[kind.name])["id"]}
        call(f"pause_{noun}", "job.pause", names=job)
        call(f"resume_{noun}", "job.resume", names=job)
        call(f"cancel_{noun}", "job.cancel", names=job)
        call(f"delete_{noun}", "job.delete", names=job)
    call("create_jobs", "job.create", json={"jobs": [job_body(), job_body(), {}]})
    for job in changes(client, action="job.create")[:2]:
        client.post(f"/v1/{job['resource']}/cancel")

    exported = client.get("/v1/models/iris/versions/1/export", params={"format": "json"})
    headers = {"Content-Type": exported.headers["Content-Type"]}
    body = {"content": exported.content, "headers": headers}
    call("import_model_version", "version.create", names={"name": "copy"}, **body)
    alias = {"name": "iris", "alias": "champion"}
    body = {"json": {"version": 1}, "headers": {"If-None-Match": "*"}}
    call("set_alias", "alias.set", names=alias, **body)
    call("remove_alias", "alias.delete", names=alias, headers={"If-Match": "*"})
    call("delete_model_version", "version.delete", names={"name": "iris", "version": 1})
    call("delete_model", "model.delete", names={"name": "iris"})
    call("delete_dataset", "dataset.delete", names=of_first)
    Keys(database).revoke("root")
    assert call.called == call.changing.keys()
    rows = AuditLog(database).page(ChangeFilter(), PageRequest(size=1000)).items
    assert {row.action for row in rows} == set(ACTIONS)


def test_commands_on_the_machine_are_local(client: TestClient, database: Database) -> None:
    """They have no key, address or request."""
    Keys(database).create("ci", ["read"])
    Keys(database).revoke("ci")
    revoked, created = changes(client, key="local")[:2]
    assert (created["action"], created["result"]) == (
        "key.create",
        {"name": "ci", "scopes": ["read"]},
    )
    assert (revoked["action"], revoked["resource"]) == ("key.revoke", created["resource"])
    assert [created[name] for name in ("key_id", "address", "request_id")] == [None] * 3


def test_what_a_job_does_is_done_by_its_caller(client: TestClient, settings: Settings) -> None:
    """A worker registers the version and moves the alias; the request that queued the job is
    named, so that its key and address can be found."""
    upload(client)
    reply = client.post("/v1/jobs", json=job_body(set_alias="candidate"))
    assert Worker(settings, threading.Event()).take_next_job()
    moved, made = changes(client, resource="models/clouds")
    assert (made["action"], made["result"]) == ("version.create", {"job": reply.json()["id"]})
    assert made["resource"] == "models/clouds/versions/1"
    assert (moved["action"], moved["result"]) == ("alias.set", {"version": 1, "before": None})
    for change in (moved, made):
        assert change["actor"] == "root"
        assert change["request_id"] == reply.headers["X-Request-Id"]
        assert change["address"] is None


def test_what_changed_nothing_is_not_in_the_trail(client: TestClient) -> None:
    """Refused calls, replayed ones, and those that find things as they are to be."""
    dataset = upload(client)
    keyed = {"Idempotency-Key": "once"}
    job = client.post("/v1/jobs", json=job_body(), headers=keyed).json()["id"]
    client.post(f"/v1/jobs/{job}/cancel")
    before = changes(client)
    assert client.post("/v1/jobs", json=job_body(), headers=keyed).json()["id"] == job
    assert client.post(f"/v1/jobs/{job}/cancel").status_code == 200
    assert client.post(f"/v1/jobs/{job}/resume").status_code == 409
    assert client.delete("/v1/models/none").status_code == 404
    etag = {"If-Match": '"other"'}
    assert client.delete(f"/v1/datasets/{dataset}", headers=etag).status_code == 412
    assert changes(client) == before


@ON_ALL_BACKENDS
def test_filters(client: TestClient, key: tuple[Key, str]) -> None:
    """By key, action, resource and time; they can be combined, and each is kept by the pages."""
    first, second = upload(client), upload(client, csv_of(seed=1))
    client.patch(f"/v1/datasets/{first}", json={"name": "a"})
    updated, uploaded, other, made = all_changes = changes(client)
    assert changes(client, resource=f"datasets/{first}") == [updated, other]
    assert changes(client, resource=f"datasets/{second}") == [uploaded]
    assert changes(client, resource="datasets/none") == []
    assert changes(client, action="dataset.update") == [updated]
    assert changes(client, key="root") == changes(client, key=key[0].id) == all_changes[:3]
    assert changes(client, key="local", action="key.create") == [made]
    assert changes(client, since=other["at"], until=updated["at"])[-2:] == [uploaded, other]
    assert changes(client, since="2999-01-01T00:00:00+01:00") == []
    for query in (
        {"since": "yesterday"},
        {"until": "0.5"},
        {"action": "eat"},
        {"resource": "%"},
        {"who": "x"},
    ):
        reply = client.get("/v1/audit", params=query)
        assert (reply.status_code, reply.json()["code"]) == (400, "invalid-parameter"), query


@ON_ALL_BACKENDS
def test_old_changes_are_removed(client: TestClient, database: Database) -> None:
    log = AuditLog(database)
    upload(client)
    log.prune(60)
    assert len(changes(client)) == 2
    log.prune(0)
    assert changes(client) == []


def test_only_admins_read_it(client: TestClient, database: Database) -> None:
    _, text = Keys(database).create("reader", ["read", "train", "predict"])
    headers = {"Authorization": f"Bearer {text}"}
    while client.get("/v1/datasets", headers=headers).status_code == 401:
        time.sleep(0.05)  # until the service knows the key
    assert client.get("/v1/audit", headers=headers).status_code == 403


def test_every_log_line_of_a_request_names_key_and_address(tmp_path: Path) -> None:
    """The key's id, in each line that a request causes, also in other threads; a secret never."""
    with running(tmp_path / "var", SVM_AUTH="on", SVM_WORKERS="0") as server:
        text = (tmp_path / "var" / "first-key").read_text().strip()
        server.http.headers["Authorization"] = f"Bearer {text}"
        dataset = server.upload(csv_of().encode())
        server.train(dataset["id"], "clouds", solver={"name": "newton"})
        server.http.get("/v1/datasets", headers={"Authorization": f"Bearer {text}x"})
        [row] = ok(server.http.get("/v1/audit?action=key.create"), 200)["changes"]
    log = server.log.read_text()
    assert text not in log
    lines = [json.loads(line) for line in log.splitlines()]
    lines = [line for line in lines if "request_id" in line]
    assert {line["event"] for line in lines} >= {"request", "job queued"}
    assert {line["address"] for line in lines} == {"127.0.0.1"}
    without = [line for line in lines if line["key"] is None]
    assert [line["status"] for line in without] == [401]
    assert {line["key"] for line in lines if line not in without} == {
        row["resource"].removeprefix("keys/")
    }
