"""Small requests that would need much memory or time are refused at once, with little memory."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx2
import numpy as np
import psutil
import pytest

from service.rows.spec import CSV, JSON, PARQUET, XLSX
from tests.journeys.limits.bombs import IMPORT, PREDICT, UPLOAD, Bomb, bombs, model
from tests.journeys.limits.memory import MIB, Growth, watched
from tests.journeys.limits.table_bombs import (
    ONE,
    archive_bombs,
    sheet,
    text_bombs,
    workbook_bombs,
    xml,
)
from tests.journeys.server import Server, running
from tests.service.rows.arrays import parquet

PEAK_BYTES, KEPT_BYTES = 64 * MIB, 10 * MIB
TRIES = 3
"""A busy machine can be slow; what is loaded once stays in memory."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One that takes bodies of twice the memory that they may need, so that an endless one ends
    soon."""
    own = {"SVM_WORKERS": "1", "SVM_LIMITS__UPLOAD_BYTES": str(2 * PEAK_BYTES)}
    with running(tmp_path_factory.mktemp("service") / "var", **own) as server:
        yield server


@pytest.fixture(scope="module")
def warm(server: Server) -> Server:
    """A service with a model, whose processes have loaded everything they need."""
    dataset = server.upload(b"".join(b"%d,%d,%d\n" % (i, i % 3, i % 2) for i in range(40)))
    server.trained(dataset["id"], "bombed", solver={"name": "pegasos"})
    columns = {"a": np.arange(3.0), "k": np.array(["x", "y", "x"], dtype=object)}
    server.upload(parquet(columns), PARQUET)
    server.upload(b'{"rows": [[1, 2]]}', JSON)
    server.upload("".join(f"x{i % 9},{i}-{i},{i % 2}\n" for i in range(4000)).encode())
    server.upload(sheet(xml(ONE)), XLSX)
    server.http.post(PREDICT, json={"instances": [[1, 2]]})
    server.http.post(IMPORT, content=model("0.5", 2), headers={"Content-Type": JSON})
    return server


@pytest.mark.fuzz
@pytest.mark.timeout(300)
@pytest.mark.parametrize("made", [bombs, text_bombs, workbook_bombs, archive_bombs])
def test_bombs_are_refused_at_once(warm: Server, made: Callable[[], dict[str, Bomb]]) -> None:
    """In time, with less than 64 MiB in all processes; no child process dies."""
    wrong = []
    for name, bomb in made().items():
        logged = len(warm.log.read_bytes())
        for _ in range(TRIES):
            seconds, reply, growth = _sent(warm, bomb)
            cheap = growth.peak <= PEAK_BYTES and growth.kept <= KEPT_BYTES
            if cheap and seconds <= bomb.within_s:
                break
        status, code = reply.status_code, reply.json().get("code")
        figures = f"{seconds:5.2f} s, {_mib(growth)}, {status} {code}"
        print(f"{name:26} {figures}")
        right = status // 100 == 4 if bomb.status == 0 else status == bomb.status
        right = right and bomb.code in ("", code)
        died = b"died" in warm.log.read_bytes()[logged:]
        if died or not (right and cheap and seconds <= bomb.within_s):
            wrong.append(f"{name}: {figures}, {'a child died, ' * died}{reply.text[:300]}")
        assert len(reply.content) < 20_000
    assert not wrong, "\n".join(wrong)
    assert warm.http.post(PREDICT, json={"instances": [[1, 2]]}).status_code == 200


@pytest.mark.long
def test_endless_upload_is_refused(warm: Server) -> None:
    """At the limit, while it is still being sent."""

    def endless() -> Iterator[bytes]:
        for _ in range(2000):
            yield b"1,2,3\n" * 100_000

    with watched(warm.process.pid, KEPT_BYTES) as growth:
        reply = warm.http.post(UPLOAD, content=endless(), headers={"Content-Type": CSV})
        assert (reply.status_code, reply.json()["code"]) == (413, "body-too-large")
    _check(growth)


def test_endless_trailers_are_refused(warm: Server) -> None:
    """They count as a header, before any key is checked."""
    header = (
        b"POST /v1/datasets HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n6\r\na,k\n1,\r\n0\r\n"
    )
    trailers = b"a:b\r\n" * 200_000
    reply = b""
    with (
        watched(warm.process.pid, KEPT_BYTES) as growth,
        _connected(warm) as caller,
        contextlib.suppress(ConnectionError),  # refused while it is being sent
    ):
        caller.sendall(header)
        for _ in range(15):
            caller.sendall(trailers)
        caller.sendall(b"\r\n")
        reply = caller.recv(1000)
    _check(growth)
    assert not reply or reply.split()[1] == b"431"


@pytest.mark.parametrize("name", ["bombed", "missing"])
def test_incomplete_predictions_have_a_memory_limit(warm: Server, name: str) -> None:
    """Sixteen incomplete bodies of 31 MiB, for a model and for one that does not exist."""
    header = (
        f"POST /v1/models/{name}/predict HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: application/json\r\nContent-Length: {32 * MIB}\r\n\r\n"
    ).encode()
    with watched(warm.process.pid, KEPT_BYTES) as growth, ExitStack() as callers:
        for _ in range(16):
            caller = callers.enter_context(_connected(warm))
            with contextlib.suppress(ConnectionError):  # refused while it is being sent
                caller.sendall(header)
                for _ in range(31):
                    caller.sendall(b" " * MIB)
        assert warm.http.get("/livez").status_code == 200
    _check(growth)
    assert warm.http.post(PREDICT, json={"instances": [[1, 2]]}).status_code == 200


def _sent(server: Server, bomb: Bomb) -> tuple[float, httpx2.Response, Growth]:
    """Time of the reply, the reply, and its memory. On a busy machine the time is that of the
    service's own work, as long as it is at least a tenth."""
    headers = {"Content-Type": bomb.media_type}
    if bomb.media_type.endswith("+gzip"):
        headers = {"Content-Type": bomb.media_type[:-5], "Content-Encoding": "gzip"}
    with watched(server.process.pid, KEPT_BYTES) as growth:
        start, before = time.monotonic(), _work_s(server)
        reply = server.http.post(bomb.path, content=bomb.body, headers=headers)
        seconds, work_s = time.monotonic() - start, _work_s(server) - before
    return min(seconds, max(work_s, seconds / 10)), reply, growth


def _work_s(server: Server) -> float:
    """Processor time of the service's processes, ended ones too."""
    seconds = 0.0
    for process in server.processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            seconds += sum(process.cpu_times()[:4])
    return seconds


def _connected(server: Server) -> socket.socket:
    host, _, port = server.url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=10)


def _check(growth: Growth) -> None:
    print(_mib(growth))
    assert growth.peak <= PEAK_BYTES, _mib(growth)
    assert growth.kept <= KEPT_BYTES, _mib(growth)


def _mib(growth: Growth) -> str:
    return f"peak {growth.peak / MIB:6.1f} MiB, kept {growth.kept / MIB:6.1f} MiB"
