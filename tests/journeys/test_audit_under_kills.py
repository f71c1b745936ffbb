"""The audit trail of a service that is killed again and again has every change, and no other."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from service.common.keys import Keys
from service.jobs.kinds import KINDS
from service.storage.database import Database
from tests.contracts.test_audit import CHANGE_NOTHING, CSV
from tests.journeys.server import Server, ok, running
from tests.service.jobs.data import csv_of, job_body

LIFE_S = (0.2, 2.0)
"""From a start to the next kill."""
FEW = 8
"""With more datasets, versions or jobs than this, some are deleted."""
BODIES = {"train": job_body(), **{name: kind.routes.EXAMPLE for name, kind in KINDS.items()}}
NOUNS = {
    name: kind.path.removeprefix("/v1/").removesuffix("s").replace("-", "_")
    for name, kind in KINDS.items()
}
LONG = (pytest.mark.torture, pytest.mark.timeout(900))
"""Ten parts: 100 kills in all."""


@dataclass
class Caller:
    """Calls operations of the document by their ids, and remembers the replies."""

    http: httpx2.Client
    changing: Mapping[str, tuple[str, str]]
    draws: random.Random
    base: str
    """A dataset for all jobs."""
    exported: bytes
    """A version, to import."""
    replies: list[tuple[str, int, str]] = field(default_factory=list)
    """Operation, status and id of the request."""

    def __call__(self, operation: str, /, names: Mapping[str, Any], **options: Any) -> None:
        method, path = self.changing[operation]
        reply = self.http.request(method, path.format(**names), **options)
        assert reply.status_code < 500 or reply.status_code == 503, (operation, reply.text)
        self.replies.append((operation, reply.status_code, reply.headers["X-Request-Id"]))

    def some(self, path: str, **query: Any) -> tuple[dict[str, Any], bool]:
        """One of a list, empty if there is none; and whether there are many."""
        page = ok(self.http.get(path, params={"page_size": 50, **query}), 200)
        [items] = [value for value in page.values() if isinstance(value, list)]
        items = [one for one in items if one.get("id") != self.base and one.get("name") != "iris"]
        return (self.draws.choice(items) if items else {}), len(items) > FEW

    def change_datasets(self) -> None:
        one, many = self.some("/v1/datasets")
        id = {"id": one.get("id", self.base)}
        content = csv_of(12, seed=self.draws.randrange(10**9))
        operation = self.draws.choice(DATASETS)
        if many:
            operation = "delete_dataset"
        options: dict[str, Any] = {
            "create_dataset": {"content": content, "headers": CSV},
            "append_to_dataset": {"content": content, "headers": CSV},
            "split_dataset": {"json": {"fraction": 0.5, "seed": self.draws.randrange(100)}},
            "update_dataset": {"json": {"name": f"n{self.draws.randrange(10**6)}"}},
            "delete_dataset": {},
        }
        if operation != "delete_dataset" or id["id"] != self.base:
            self(operation, id, **options[operation])

    def change_models(self) -> None:
        name = self.draws.choice(("a", "b"))
        found = self.http.get(f"/v1/models/{name}/versions").json().get("versions", [])
        version = self.draws.choice(found)["version"] if found else 1
        names = {"name": name, "version": version, "alias": self.draws.choice(("old", "new"))}
        operation = self.draws.choice(MODELS)
        if len(found) > FEW:
            operation = "delete_model"
        options: dict[str, Any] = {
            "import_model_version": {
                "content": self.exported,
                "headers": {"Content-Type": "application/json"},
            },
            "set_alias": {"json": {"version": version}},
        }
        self(operation, names, **options.get(operation, {}))

    def change_jobs(self) -> None:
        kind = self.draws.choice(list(KINDS))
        one, many = self.some(KINDS[kind].path)
        verb = self.draws.choice(("create", "pause", "resume", "cancel", "delete"))
        body = {**BODIES[kind], "dataset_id": self.base}
        if kind == "train" and self.draws.random() < 0.2:
            self("create_jobs", {}, json={"jobs": [body, body, {}]})
        elif verb == "create" or not one:
            self(f"create_{NOUNS[kind]}", {}, json=body)
        else:
            is_over = one["state"] == "canceled"
            verb = ("delete" if is_over else "cancel") if many else verb
            self(f"{verb}_{NOUNS[kind]}", {"id": one["id"]})


DATASETS = (
    *("create_dataset", "append_to_dataset", "split_dataset", "update_dataset"),
    "delete_dataset",
)
MODELS = (
    *("import_model_version", "import_model_version", "set_alias", "remove_alias"),
    *("delete_model_version", "delete_model"),
)
JOBS = (
    "create_jobs",
    *(
        f"{verb}_{noun}"
        for verb in ("create", "pause", "resume", "cancel", "delete")
        for noun in NOUNS.values()
    ),
)
GROUPS = (Caller.change_datasets, Caller.change_models, Caller.change_jobs)


def changing(server: Server) -> dict[str, tuple[str, str]]:
    """All operations of the document that change something: none can be forgotten here."""
    document = ok(server.http.get("/openapi.json"), 200)
    operations = {
        operation["operationId"]: (method.upper(), path)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if method != "get" and operation["operationId"] not in CHANGE_NOTHING
    }
    assert operations.keys() == {*DATASETS, *MODELS, *JOBS}
    return operations


@pytest.mark.parametrize(
    ("kills", "seed"),
    [
        pytest.param(2, 0, marks=pytest.mark.long),
        *(pytest.param(10, seed, marks=LONG) for seed in range(1, 11)),
    ],
)
def test_audit_trail_has_every_change(tmp_path: Path, kills: int, seed: int) -> None:
    """Every call whose reply reports a change is in it, none that was refused; and what it tells,
    also of calls without a reply, is what is there."""
    draws, data_dir = random.Random(seed), tmp_path / "var"
    replies: list[tuple[str, int, str]] = []
    with running(data_dir) as server:
        base = server.upload(csv_of().encode())["id"]
        server.trained(base, "iris", solver={"name": "newton"})
        path = "/v1/models/iris/versions/1/export"
        exported = server.http.get(path, params={"format": "json"}).content
    for number in range(kills):
        with running(data_dir, SVM_WORKERS="0", SVM_AUTH="off") as server:
            operations = changing(server)
            callers = [
                Caller(server.http, operations, random.Random(draws.random()), base, exported)
                for _ in GROUPS
            ]
            threads = [
                threading.Thread(target=repeat, args=(change, caller))
                for change, caller in zip(GROUPS, callers, strict=True)
            ]
            for thread in threads:
                thread.start()
            key = threading.Thread(target=change_keys, args=(data_dir, number))
            key.start()
            threading.Event().wait(draws.uniform(*LIFE_S))
            server.process.kill()
            for thread in (*threads, key):
                thread.join(60)
            replies += [reply for caller in callers for reply in caller.replies]
    with running(data_dir, SVM_WORKERS="0", SVM_AUTH="off") as server:
        changes = [*audited(server)][::-1]
        check_replies(replies, changes)
        assert told(changes) == present(server, data_dir)
    seen = {operation for operation, status, _ in replies if status < 300}
    print(f"{len(changes):,} changes, {len(replies):,} replies, {kills} kills, {len(seen)} kinds")


def repeat(change: Callable[[Caller], None], caller: Caller) -> None:
    with suppress(httpx2.TransportError):
        while True:
            change(caller)


def change_keys(data_dir: Path, number: int) -> None:
    """As commands on the machine do it."""
    database = Database(f"sqlite:///{data_dir / 'service.db'}")
    Keys(database).create(f"key-{number}", ["read"])
    if number % 2:
        Keys(database).revoke(f"key-{number}")
    database.close()


def audited(server: Server) -> Iterator[dict[str, Any]]:
    """All changes of the list, newest first."""
    query: dict[str, Any] = {"page_size": 1000}
    while True:
        page = ok(server.http.get("/v1/audit", params=query), 200)
        yield from page["changes"]
        if page["next_page_token"] is None:
            return
        query["page_token"] = page["next_page_token"]


def check_replies(replies: list[tuple[str, int, str]], changes: list[dict[str, Any]]) -> None:
    requests = {change["request_id"] for change in changes}
    for operation, status, request in replies:
        if status >= 400:
            assert request not in requests, (operation, status)
        elif not (status == 200 and operation.startswith(UNCHANGED)):
            assert request in requests, (operation, status)


UNCHANGED = ("cancel_", "pause_", "resume_", "split_", "append_", "set_alias")
"""With status 200 these may have found all as it is to be."""


def told(changes: list[dict[str, Any]]) -> dict[str, Any]:
    """What there is, as the changes tell it, the oldest first."""
    there: dict[str, Any] = {}
    for change in changes:
        noun, _, verb = change["action"].partition(".")
        resource = change["resource"]
        if verb in ("delete", "revoke"):
            there = {
                path: value
                for path, value in there.items()
                if path != resource and not (noun == "model" and path.startswith(f"{resource}/"))
            }
            if noun == "version":
                name, _, version = resource.rpartition("/versions/")
                there = {
                    path: value
                    for path, value in there.items()
                    if not (path.startswith(f"{name}/aliases/") and value == int(version))
                }
        elif noun == "dataset":
            there[resource] = change["result"].get("name", there.get(resource))
        elif noun == "alias":
            there[resource] = change["result"]["version"]
        else:
            there[resource] = change["result"].get("state", "there" if noun != "job" else "queued")
    return there


def present(server: Server, data_dir: Path) -> dict[str, Any]:
    """The same as the service shows it."""

    def every(path: str, name: str) -> list[dict[str, Any]]:
        page = ok(server.http.get(path, params={"page_size": 1000}), 200)
        assert page["next_page_token"] is None
        items: list[dict[str, Any]] = page[name]
        return items

    there: dict[str, Any] = {
        f"datasets/{one['id']}": one["name"] for one in every("/v1/datasets", "datasets")
    }
    for model in every("/v1/models", "models"):
        path = f"models/{model['name']}"
        for one in every(f"/v1/{path}/versions", "versions"):
            there[f"{path}/versions/{one['version']}"] = "there"
        for alias, version in model["aliases"].items():
            there[f"{path}/aliases/{alias}"] = version
    for job in every("/v1/jobs", "jobs"):
        steered = job["state"] in ("paused", "canceled")
        there[f"jobs/{job['id']}"] = job["state"] if steered else "queued"
    database = Database(f"sqlite:///{data_dir / 'service.db'}")
    there |= {f"keys/{key.id}": "there" for key in Keys(database).all() if key.revoked_at is None}
    database.close()
    return there
