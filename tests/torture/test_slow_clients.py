"""Clients that send half a header, or a body byte by byte, are disconnected and slow no others."""

from __future__ import annotations

import os
import selectors
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx2
import numpy as np
import psutil
import pytest

from tests.journeys.server import running

HALF_HEADER = b"POST /v1/datasets HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\nX-Half"
DRIP_BODY = (
    b"POST /v1/datasets HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\n"
    b"Content-Length: 100000\r\n\r\n"
)


class SlowClients:
    """Connections of both kinds; each sends a byte twice a second until the server closes it."""

    def __init__(self, address: tuple[str, int], each: int) -> None:
        self.closed_after_s: list[float] = []
        self._address = address
        self._each = each
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join(60)

    def _run(self) -> None:
        began = time.monotonic()
        selector = selectors.DefaultSelector()
        for start in (HALF_HEADER, DRIP_BODY) * self._each:
            connection = socket.create_connection(self._address, timeout=10)
            connection.sendall(start)
            selector.register(connection, selectors.EVENT_READ)
        while selector.get_map() and time.monotonic() - began < 40:
            answered = {key.fileobj for key, _ in selector.select(0.5)}
            for key in list(selector.get_map().values()):
                one = key.fileobj
                assert isinstance(one, socket.socket)
                try:
                    gone = one in answered and one.recv(65536) == b""
                    one.sendall(b"1")
                except OSError:
                    gone = True
                if gone:
                    self.closed_after_s.append(time.monotonic() - began)
                    selector.unregister(one)
                    one.close()


def _p99_ms(http: httpx2.Client, seconds: float) -> float:
    """The 99th percentile of a usual request, sent 100 times a second."""
    took = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.perf_counter()
        assert http.get("/v1/jobs").status_code == 200
        took.append(time.perf_counter() - began)
        time.sleep(0.01)
    return float(np.percentile(took, 99) * 1000)


@pytest.mark.fuzz
def test_slow_clients_are_shown_out_and_starve_nobody(tmp_path: Path) -> None:
    """300 of each kind are gone within 20 s; meanwhile a usual client waits less than twice as long
    as before."""
    each = int(os.environ.get("FUZZ_SLOW_CLIENTS", "300"))
    with running(tmp_path / "var", SVM_WORKERS="0") as server:
        url = httpx2.URL(server.url)
        assert url.port is not None
        _p99_ms(server.http, 1)
        idle_ms = _p99_ms(server.http, 8)
        slow = SlowClients((url.host, url.port), each)
        process, took_s = psutil.Process(server.process.pid), []
        arrivals: list[Callable[[], None]] = [lambda: None, slow.start]
        for connect in arrivals:
            before = process.cpu_times()
            connect()
            busy_ms = _p99_ms(server.http, 18)
            after = process.cpu_times()
            took_s.append(after.user + after.system - before.user - before.system)
        slow.join()
    print(f"p99 idle {idle_ms:.2f} ms, beside slow clients {busy_ms:.2f} ms; ", end="")
    print(f"processor time in 18 s: {took_s[0]:.2f} s, beside them {took_s[1]:.2f} s; ", end="")
    print(f"all {len(slow.closed_after_s)} gone after {max(slow.closed_after_s):.1f} s")
    assert len(slow.closed_after_s) == 2 * each
    assert max(slow.closed_after_s) < 20
    assert busy_ms < 2 * idle_ms
