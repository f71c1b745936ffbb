"""Thousands of connections with as many header lines as fit: little memory, and none is kept."""

from __future__ import annotations

import contextlib
import resource
import socket
from collections.abc import Iterator

import pytest

from tests.journeys.limits.memory import MIB, watched
from tests.journeys.server import Server, running

pytestmark = pytest.mark.long

CONNECTIONS = 4050
"""Fewer than the limit, so that others are served."""
GET = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"
HEADERS = {
    "2,100 lines": GET + b"a:b\r\n" * 2100,
    "199 lines": GET + b"a:b\r\n" * 198,
    "199 long lines": GET + (b"a:" + b"b" * 300 + b"\r\n") * 198,
    "a line": GET + b"a:" + b"b" * 63_000,
    "a target": b"GET /" + b"b" * 63_000,
    "a few lines": GET,
    "complete": GET + b"a:b\r\n" * 190 + b"\r\n",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("headers") / "var", SVM_WORKERS="0") as server:
        yield server


@pytest.fixture(autouse=True)
def many_files() -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] < 2 * CONNECTIONS:
        pytest.skip("too few files may be open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_headers_take_little_memory(server: Server, header: bytes) -> None:
    """At most 64 MiB, and 10 MiB afterwards; a usual request is answered meanwhile."""
    host, port = server.url.removeprefix("http://").split(":")
    server.http.get("/livez")
    with watched(server.process.pid, 10 * MIB) as growth, contextlib.ExitStack() as stack:
        for _ in range(CONNECTIONS):
            client = stack.enter_context(socket.create_connection((host, int(port)), timeout=20))
            with contextlib.suppress(ConnectionError):  # refused while it is being sent
                client.sendall(header)
        assert server.http.get("/v1/jobs").status_code == 200
    assert growth.peak <= 64 * MIB
    assert growth.kept <= 10 * MIB
