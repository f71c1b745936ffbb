"""Thousands of connections with as many header lines as fit, or with half a body: little memory,
and none is kept."""

from __future__ import annotations

import contextlib
import resource
import socket
from collections.abc import Iterator

import pytest

from tests.journeys.limits.bombs import model
from tests.journeys.limits.memory import MIB, Growth, watched
from tests.journeys.server import Server, ok, running

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
USUAL = (
    "Host: localhost\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0)\r\nAccept: */*\r\n"
    "Accept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate\r\nOrigin: http://localhost\r\n"
    "Sec-Fetch-Site: same-origin\r\nConnection: keep-alive\r\nContent-Type: application/json\r\n"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("headers") / "var"
    with running(folder, SVM_WORKERS="0", SVM_BODY_IDLE_S="300") as server:
        json = {"Content-Type": "application/json"}
        path = "/v1/models/small/versions"
        ok(server.http.post(path, content=model("0.5", 2), headers=json), 201)
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
    server.http.get("/livez")
    growth = flooded(server, header)
    assert growth.peak <= 64 * MIB
    assert growth.kept <= 10 * MIB


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/datasets", "/v1/models/small/predict"])
@pytest.mark.parametrize("n_bytes", [1000, 1_000_000])
def test_half_sent_bodies_take_little_memory(server: Server, path: str, n_bytes: int) -> None:
    """The same; what the first flood has left is used by the second."""
    line = f"POST {path} HTTP/1.1\r\n"
    begun = f"{line}{USUAL}Content-Length: {n_bytes}\r\n\r\n{{".encode()
    assert flooded(server, begun).peak <= 64 * MIB
    assert flooded(server, begun).kept <= 10 * MIB


def flooded(server: Server, data: bytes) -> Growth:
    """What connections cost that have sent `data` and wait."""
    host, port = server.url.removeprefix("http://").split(":")
    with watched(server.process.pid, 10 * MIB) as growth, contextlib.ExitStack() as stack:
        for _ in range(CONNECTIONS):
            client = stack.enter_context(socket.create_connection((host, int(port)), timeout=20))
            with contextlib.suppress(ConnectionError):  # refused while it is being sent
                client.sendall(data)
        assert server.http.get("/v1/jobs").status_code == 200
    return growth
