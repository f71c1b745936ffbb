"""SIGTERM with open connections: every request that was sent gets a reply."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.connection import Connection
from tests.journeys.server import Server, running

LIVEZ = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
IDLE_S = 5.5
"""uvicorn's own limit is 5 s."""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Server]:
    with running(tmp_path / "var", SVM_WORKERS="0") as server:
        yield server


def _address(server: Server) -> tuple[str, int]:
    host, _, port = server.url.removeprefix("http://").partition(":")
    return host, int(port)


@pytest.mark.long
def test_request_during_shutdown_gets_a_reply(service: Server) -> None:
    """On idle and new connections; the reply has `Connection: close`.

    Idle connections stay open longer than those of a proxy.
    """
    address = _address(service)
    with ExitStack() as stack:
        idle = [stack.enter_context(Connection(address)) for _ in range(4)]
        for client in idle:
            client.send(LIVEZ)
            assert client.reply()[0] == 200
        time.sleep(IDLE_S)
        service.process.send_signal(signal.SIGSTOP)
        new = [stack.enter_context(Connection(address)) for _ in range(4)]
        service.process.send_signal(signal.SIGTERM)
        for client in (*idle[:2], *new):
            client.send(LIVEZ)
        service.process.send_signal(signal.SIGCONT)
        time.sleep(0.5)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        for client in idle[2:]:
            client.send(LIVEZ)
        for client in (*idle, *new):
            status, headers, _ = client.reply()
            assert (status, client.closed()) == (200, True)
            assert client in idle[:2] + new or headers["connection"] == "close"
    assert service.process.wait(20) == 0


@pytest.mark.long
def test_unused_connections_do_not_delay_shutdown(service: Server) -> None:
    """An idle one, and one without any request."""
    with Connection(_address(service)) as used, Connection(_address(service)) as silent:
        used.send(LIVEZ)
        assert used.reply()[0] == 200
        service.process.send_signal(signal.SIGTERM)
        assert used.closed()
        assert silent.closed()
        assert service.process.wait(20) == 0
