"""Event streams of the smallest items, all that are allowed and more, cost little memory."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from service.settings import Limits
from tests.journeys.limits.memory import MIB, Growth, watched
from tests.journeys.server import Server, ok, running
from tests.journeys.test_events import ENDLESS
from tests.journeys.uploads.test_upload_to_predictions import iris_csv

CHANGES = 200
"""Of the job's state: each is an event of some hundred bytes."""
STREAMS = Limits().event_streams
REFUSED = 1000


@pytest.mark.fuzz
@pytest.mark.timeout(600)
def test_event_streams_take_little_memory(tmp_path: Path) -> None:
    """At most 64 MiB while no client reads them, and 10 MiB afterwards; what the first ones leave
    the next ones use."""
    with running(tmp_path / "var", SVM_WORKERS="0") as server:
        dataset = server.upload(iris_csv())
        job = server.train(dataset["id"], "followed", **ENDLESS)
        path = f"/v1/jobs/{job['id']}"
        for number in range(CHANGES):
            action = "resume" if number % 2 else "pause"
            ok(server.http.post(f"{path}/{action}"), 200, 202)
        assert opened(server, f"{path}/events").peak <= 64 * MIB
        assert opened(server, f"{path}/events").kept <= 10 * MIB


def opened(server: Server, path: str) -> Growth:
    """What streams cost, one after the other: none is read, and those beyond the limit are
    refused."""
    host, port = server.url.removeprefix("http://").split(":")
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
    with watched(server.process.pid, 10 * MIB) as growth, ExitStack() as stack:
        statuses = []
        for _ in range(STREAMS + REFUSED):
            client = socket.create_connection((host, int(port)), timeout=60)
            client.sendall(head.encode())
            statuses.append(client.recv(12)[-3:])
            if statuses[-1] == b"200":
                stack.enter_context(client)
            else:
                client.close()
        assert statuses == [b"200"] * STREAMS + [b"503"] * REFUSED
        assert server.http.get("/livez").status_code == 200
    return growth
