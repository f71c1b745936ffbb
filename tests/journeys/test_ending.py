"""SIGTERM under callers: what has been sent is answered, and nobody is cut off."""

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


def test_request_that_crosses_the_end_is_answered(service: Server) -> None:
    """On connections that are idle or new; a reply says that it is the last one.

    They stay open between two requests longer than a proxy keeps them.
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


def test_unused_connections_do_not_delay_the_end(service: Server) -> None:
    """One that is idle, one on which nothing ever came."""
    with Connection(_address(service)) as used, Connection(_address(service)) as silent:
        used.send(LIVEZ)
        assert used.reply()[0] == 200
        service.process.send_signal(signal.SIGTERM)
        assert used.closed()
        assert silent.closed()
        assert service.process.wait(20) == 0
