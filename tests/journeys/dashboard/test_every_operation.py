"""The page `/docs`, from top to bottom: every operation is executed by clicking."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, expect

from tests.journeys.dashboard.browser import IN_A_BROWSER, Watched, chromium
from tests.journeys.dashboard.test_dashboard import SAMPLES
from tests.journeys.server import Server, running

__all__ = ["chromium"]

pytestmark = [IN_A_BROWSER, pytest.mark.torture, pytest.mark.timeout(1500)]

ENDED = ("cancel_", "pause_", "resume_")
"""Verbs for jobs that have ended by then: they answer with a conflict, or with the job."""
DELETED_LAST = ("remove_alias", "delete_model_version", "delete_model", "delete_dataset")
FORM = "multipart/form-data"


class Operation(NamedTuple):
    tag: str
    path: str
    method: str
    content: dict[str, Any]

    @property
    def section(self) -> str:
        return self.tag.replace(" ", "_")

    @property
    def block(self) -> str:
        return f"#operations-{self.section}-{self.content['operationId']}"


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Server]:
    with running(tmp_path / "var") as server:
        yield server


def operations(document: dict[str, Any]) -> list[Operation]:
    """In the order of the page; what deletes comes last, what others are made of after them."""
    found = [
        Operation(tag["name"], path, method, content)
        for tag in document["tags"]
        for path, methods in document["paths"].items()
        for method, content in methods.items()
        if tag["name"] in content["tags"]
    ]
    deleting = [each for each in found if each.method == "delete"]
    deleting.sort(key=lambda each: _rank(each.content["operationId"]))
    return [each for each in found if each.method != "delete"] + deleting


def _rank(name: str) -> int:
    return DELETED_LAST.index(name) if name in DELETED_LAST else -1


def test_every_operation_of_the_page_is_executed(empty: Server, chromium: Browser) -> None:
    """From an empty service, with the values that are filled in, ids of the first replies, and a
    file for the upload."""
    context = chromium.new_context()
    watched = Watched(context, empty)
    document = empty.http.get("/openapi.json").json()
    ids: dict[str, str] = {}
    executed, began = 0, time.monotonic()
    section = None
    for operation in operations(document):
        if operation.section != section:
            watched.open_docs()  # Swagger UI gets slower with every operation that was opened
            section = operation.section
        status, body = clicked(watched, operation, ids)
        name = operation.content["operationId"]
        allowed = (200, 202, 409) if name.startswith(ENDED) else (200, 201, 202, 204)
        assert status in allowed, (name, status, body)
        executed += 1
        print(f"{time.monotonic() - began:6.1f} s {name}: {status}", flush=True)
        if operation.method == "post" and operation.tag not in ids:
            made = json.loads(body)
            ids[operation.tag] = made.get("id", "")
            if made.get("state"):
                empty.finished(made)
    assert executed == sum(len(methods) for methods in document["paths"].values())
    assert [url for url in watched.requests if not watched.is_own(url)] == []
    context.close()


def clicked(watched: Watched, operation: Operation, ids: dict[str, str]) -> tuple[int, str]:
    """Open an operation, execute it and close it: the status and the text of the reply."""
    page = watched.page
    watched.unfold(operation.section)
    block = page.locator(operation.block)
    toggle = block.locator(".opblock-summary-control").first
    toggle.click()
    name = operation.content["operationId"]
    if "{id}" in operation.path:
        block.locator("tr[data-param-name=id] input").fill(ids[operation.tag])
    if name == "create_dataset":
        block.locator(".body-param-content-type select, .content-type").first.select_option(FORM)
        block.locator("input[type=file]").first.set_input_files(SAMPLES / "iris.csv")
    with page.expect_response(lambda reply: is_of(reply.request, operation)) as replied:
        block.get_by_role("button", name="Execute").click()
    shown = block.locator(".live-responses-table .response-col_status").last
    expect(shown).to_contain_text(re.compile("[0-9]{3}"))
    reply = replied.value
    body = "" if reply.status == 204 else reply.text()
    toggle.click()
    return reply.status, body


def is_of(request: Any, operation: Operation) -> bool:
    pattern = re.sub(r"\\{[a-z_]+\\}", "[^/?]+", re.escape(operation.path))
    right = re.search(rf"://[^/]+{pattern}(\?|$)", request.url) is not None
    return right and request.method == operation.method.upper()
