"""Connections that arrive while the service stops listening are served or refused, not reset."""

from __future__ import annotations

import socket
import sys
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from service.cli.listening import BACKLOG, drop_new_connections, listener_at, stop_listening


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with listener_at("127.0.0.1", 0) as listener:
        listener.listen(BACKLOG)
        yield listener


@pytest.mark.skipif(sys.platform != "linux", reason="Linux drops the packets")
def test_no_connection_is_made_between_the_last_accept_and_the_end(
    listener: socket.socket,
) -> None:
    """A connection made there would be reset, and a proxy may not repeat a POST."""
    address = listener.getsockname()
    before = socket.create_connection(address)
    drop_new_connections(listener)
    with pytest.raises(TimeoutError):
        socket.create_connection(address, timeout=0.2)
    before.sendall(b"question")
    (waiting,) = stop_listening(listener)
    waiting.setblocking(True)
    assert waiting.recv(100) == b"question"
    waiting.sendall(b"answer")
    assert before.recv(100) == b"answer"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=5)
    before.close()
    waiting.close()


def test_every_caller_gets_a_reply_or_is_refused(listener: socket.socket) -> None:
    outcomes: Counter[str] = Counter()
    callers = [
        threading.Thread(target=_call, args=(listener.getsockname(), outcomes)) for _ in range(4)
    ]
    for caller in callers:
        caller.start()
    for _ in range(200):
        _answer(listener.accept()[0])
    for connection in stop_listening(listener):
        _answer(connection)
    for caller in callers:
        caller.join()
    assert set(outcomes) == {"!"}, outcomes


def _call(address: tuple[str, int], outcomes: Counter[str]) -> None:
    """Ask, each time with a new connection, until it is refused."""
    while True:
        try:
            connection = socket.create_connection(address, timeout=5)
        except ConnectionRefusedError:
            return
        with connection:
            try:
                connection.sendall(b"?")
                outcomes[connection.recv(1).decode() or "closed"] += 1
            except OSError as error:
                outcomes[type(error).__name__] += 1


def _answer(connection: socket.socket) -> None:
    with connection:
        connection.setblocking(True)
        connection.recv(1)
        connection.sendall(b"!")
