"""Incomplete bodies share one memory limit."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.journeys.limits.bombs import model
from tests.journeys.server import Server, ok, running

MIB = 1024 * 1024
PREDICT, INFER = "/v1/models/small/predict", "/v2/models/small/infer"
ROW = b'{"instances": [[1, 2]]}'
TENSOR = b'{"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP64", "data": [1, 2]}]}'
LARGE = ROW + b" " * (900 * 1024)
"""The limit below allows one of these."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    sizes = ("PREDICT_BODY_BYTES", "CONTROL_BODY_BYTES", "BODIES_BYTES")
    settings = {f"SVM_LIMITS__{size}": str(MIB) for size in sizes}
    with running(tmp_path_factory.mktemp("budget") / "var", SVM_WORKERS="0", **settings) as server:
        json = {"Content-Type": "application/json"}
        content = model("0.5", 2)
        ok(server.http.post("/v1/models/small/versions", content=content, headers=json), 201)
        ok(server.http.post(PREDICT, content=ROW, headers=json), 200)
        yield server


@pytest.mark.long
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("path", [PREDICT, INFER])
def test_bodies_over_the_limit_are_refused(server: Server, path: str, known: bool) -> None:
    """503 with Retry-After at once, and the connection is closed, also if it was reused. Small
    predictions still work, and uploads are written to files."""
    header = _header(path, "application/json", len(LARGE) + 1)
    with _half_sent(server, _header(PREDICT, "application/json", len(LARGE) + 1) + LARGE):
        with _half_sent(server, b"") as caller:
            if known:
                row = ROW if path == PREDICT else TENSOR
                for _ in range(2):
                    caller.sendall(_header(path, "application/json", len(row)) + row)
                    assert _reply(caller, ends=False)[0] == 200
            caller.sendall(header + LARGE)
            status, text = _reply(caller)
        assert status == 503
        assert '"code": "overloaded"' in text
        assert f'"instance": "{path}"' in text
        assert "\r\nretry-after: " in text.lower()
        assert "\r\nconnection: close\r\n" in text.lower()
        ok(server.http.post(PREDICT, json={"instances": [[1, 2]]}), 200)
        rows = b"a,k\n1,x\n2,y\n" + b"3,x\n" * (MIB // 2)
        csv = {"Content-Type": "text/csv"}
        ok(server.http.post("/v1/datasets", content=rows, headers=csv), 201, 200)
    _accepted(server)


@pytest.mark.parametrize("path", [PREDICT, INFER])
def test_chunks_count_as_what_they_take(server: Server, path: str) -> None:
    """Each is an object, which takes more memory than the two bytes in it."""
    header = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with _half_sent(server, header.encode() + b"2\r\n  \r\n" * 30_000) as caller:
        status, text = _reply(caller)
    assert status == 503
    assert '"code": "overloaded"' in text
    _accepted(server)


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("/v1/jobs", "application/json"),
        ("/v2/repository/index", "application/json"),
        ("/train", "application/x-www-form-urlencoded"),
    ],
)
def test_every_body_is_counted(server: Server, path: str, media_type: str) -> None:
    """Also those of control requests and forms."""
    with _half_sent(server, _header(PREDICT, "application/json", len(LARGE) + 1) + LARGE):
        reply = server.http.post(path, content=LARGE, headers={"Content-Type": media_type})
        assert reply.status_code == 503, reply.text
        assert "overloaded" in reply.text or "<html" in reply.text
        assert reply.headers["Retry-After"] == "1"
    _accepted(server)
    with (
        _half_sent(server, _header(path, media_type, len(LARGE) + 1) + LARGE) as caller,
        _half_sent(server, _header(PREDICT, "application/json", len(LARGE) + 1) + LARGE) as other,
    ):
        (refused,), *_ = select.select([caller, other], [], [], 20)  # the server reads either first
        assert _reply(refused)[0] == 503
        kept = other if refused is caller else caller
        kept.sendall(b" ")
        assert _reply(kept, ends=False)[0] in (200, 400, 413, 422)
    _accepted(server)


@pytest.mark.parametrize("path", ["/v1/models/none/predict", "/v2/models/none/infer"])
def test_missing_model_is_reported_before_the_body(server: Server, path: str) -> None:
    """The reply comes before the body is sent."""
    with _half_sent(server, _header(path, "application/json", MIB)) as caller:
        assert _reply(caller, ends=False)[0] == 404


def _accepted(server: Server) -> None:
    """A large body is accepted when memory is free again."""
    json = {"Content-Type": "application/json"}
    for _ in range(50):
        reply = server.http.post(PREDICT, content=LARGE, headers=json)
        if reply.status_code == 200:
            return
    raise AssertionError(reply.text)


def _header(path: str, media_type: str, length: int) -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {media_type}\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()


@contextmanager
def _half_sent(server: Server, data: bytes) -> Iterator[socket.socket]:
    """A connection that has sent this data, and does not read."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as caller:
        caller.sendall(data)
        for _ in range(500):
            if _is_read(caller):
                break
            time.sleep(0.01)
        yield caller


def _is_read(caller: socket.socket) -> bool:
    """Whether the server has read everything that the system has received for it."""
    ports = caller.getpeername()[1], caller.getsockname()[1]
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, _, queues, *_ = line.split()
        if (int(local[-4:], 16), int(remote[-4:], 16)) == ports:
            return queues.endswith(":00000000")
    return False


def _reply(caller: socket.socket, ends: bool = True) -> tuple[int, str]:
    """The status and the complete reply, after which the connection ends."""
    received = caller.recv(65536)
    while ends and (more := caller.recv(65536)):
        received += more
    text = received.decode()
    return int(text.split()[1]), text
