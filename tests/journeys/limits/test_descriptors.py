"""A service with a low limit of open files refuses only the requests over the limit."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx2
import psutil
import pytest

from tests.journeys.limits.bombs import model
from tests.journeys.server import Server, ok, running

PREDICT = "/v1/models/small/predict"
ROW = {"instances": [[1, 2]]}
CSV = {"Content-Type": "text/csv"}
FLOOD = 300


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("descriptors") / "var"
    limit = ("prlimit", "--nofile=256:256")
    with running(folder, limit, SVM_WORKERS="1", SVM_BODY_IDLE_S="60") as server:
        json = {"Content-Type": "application/json"}
        ok(
            server.http.post("/v1/models/small/versions", content=model("0.5", 2), headers=json),
            201,
        )
        yield server


@pytest.mark.fuzz
@pytest.mark.parametrize("sent", ["nothing", "half an upload", "half a prediction"])
def test_flood_of_connections_causes_only_503(server: Server, sent: str) -> None:
    """Predictions and uploads meanwhile succeed or receive 503 with Retry-After; a connection that
    is already open is served."""
    assert ok(server.http.get("/v1/info"), 200)["limits"]["connections"] == 64
    logged = len(server.log.read_bytes())
    path = "/v1/datasets" if sent == "half an upload" else PREDICT
    kind = "text/csv" if sent == "half an upload" else "application/json"
    begun = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
    begun += "Content-Length: 100000\r\n\r\n1,2,a\n"
    replies = []
    with ExitStack() as callers:
        for i in range(FLOOD):
            with suppress(OSError):
                caller = callers.enter_context(_connected(server))
                caller.sendall(begun.encode() if sent != "nothing" else b"")
            if i % 30 == 0:
                replies += _replies(server, i)
                ok(server.http.post(PREDICT, json=ROW), 200)
        rows = f"a,k\n1,x\n2,y\n{FLOOD},y\n"
        ok(server.http.post("/v1/datasets", content=rows, headers=CSV), 200, 201)
        process = psutil.Process(server.process.pid)
        assert process.num_fds() < 256
        assert process.cpu_percent(interval=0.5) < 80  # no busy loop of accepts
    assert {reply.status_code for reply in replies} <= {200, 201, 503}
    refused = [reply for reply in replies if reply.status_code == 503]
    assert refused
    for reply in refused:
        assert reply.json()["code"] in ("too-many-connections", "overloaded")
        assert reply.headers["Retry-After"]
    log = server.log.read_bytes()[logged:]
    assert b"Traceback" not in log
    assert b"unexpected error" not in log
    for _ in range(100):
        again = _replies(server, FLOOD + 1)
        if [reply.status_code < 300 for reply in again] == [True, True]:
            break
    else:
        raise AssertionError([reply.text for reply in again])


@pytest.mark.long
def test_limit_of_open_files_is_raised(tmp_path: Path) -> None:
    """To the hard limit, also for child processes."""
    limit = ("prlimit", "--nofile=256:1024")
    with running(tmp_path / "var", limit, SVM_WORKERS="1") as server:
        for process in server.processes():
            assert process.rlimit(resource.RLIMIT_NOFILE) == (1024, 1024)
        assert ok(server.http.get("/v1/info"), 200)["limits"]["connections"] == 448


def _replies(server: Server, i: int) -> list[httpx2.Response]:
    """Replies to a prediction and an upload on new connections; without closed connections."""
    replies = []
    rows = f"a,k\n1,x\n2,y\n{i},y\n"
    with suppress(httpx2.TransportError), httpx2.Client(base_url=server.url, timeout=30) as http:
        replies.append(http.post(PREDICT, json=ROW))
    with suppress(httpx2.TransportError), httpx2.Client(base_url=server.url, timeout=30) as http:
        replies.append(http.post("/v1/datasets", content=rows, headers=CSV))
    return replies


def _connected(server: Server) -> socket.socket:
    host, _, port = server.url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=10)
