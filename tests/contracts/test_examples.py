"""A user who runs the examples of `/docs` from top to bottom gets the documented results."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from service.jobs.engine.worker_process import Worker
from service.settings import Settings

REFUSED = ("cancel_", "pause_", "resume_")
"""Verbs for jobs that have ended by then."""


@pytest.fixture
def working(client: TestClient, settings: Settings) -> Iterator[None]:
    """A worker that takes the jobs."""
    done = threading.Event()

    def work() -> None:
        worker = Worker(settings, done)
        while not done.wait(0.02):
            worker.take_next_job()

    thread = threading.Thread(target=work)
    thread.start()
    yield
    done.set()
    thread.join()


def _in_page_order(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(path, method, operation)"""
    for tag in document["tags"]:
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                if tag["name"] in operation["tags"] and method != "delete":
                    yield path, method, operation


def test_every_operation_runs_as_it_stands(app: FastAPI, client: TestClient, working: None) -> None:
    """With the values that are filled in, and ids copied from the first reply below a heading;
    nothing is deleted."""
    ids: dict[str, str] = {}
    for path, method, operation in _in_page_order(app.openapi()):
        name, tag = operation["operationId"], operation["tags"][0]
        given: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "header": {}}
        for parameter in operation.get("parameters", ()):
            example = ids[tag] if parameter["name"] == "id" else parameter.get("example")
            if example is not None:
                given[parameter["in"]][parameter["name"]] = example
        content, headers = None, {k: str(v) for k, v in given["header"].items()}
        bodies = operation.get("requestBody", {}).get("content", {})
        if bodies:
            headers["Content-Type"], body = next(iter(bodies.items()))
            content = body["example"]
            content = content if isinstance(content, str) else json.dumps(content)
        reply = client.request(
            method.upper(),
            path.format(**given["path"]),
            params=given["query"],
            content=content,
            headers=headers,
        )
        if name.startswith(REFUSED):
            assert reply.status_code in (200, 202, 409), (name, reply.text)
        else:
            assert reply.is_success, (name, reply.text)
        if method == "post" and "id" in (shown := _object(reply.content)):
            ids.setdefault(tag, shown["id"])
            if reply.status_code == 202:
                job = client.get(f"/v1/jobs/{shown['id']}", params={"wait_s": 60}).json()
                while job["state"] in ("queued", "running"):
                    job = client.get(f"/v1/jobs/{shown['id']}", params={"wait_s": 60}).json()
                assert job["state"] == "succeeded", (name, job)


def _object(content: bytes) -> dict[str, Any]:
    try:
        shown = json.loads(content)
    except ValueError:
        return {}
    return shown if isinstance(shown, dict) else {}
