"""A TCP proxy that breaks what passes through it."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from collections.abc import Callable, Iterator

Connect = Callable[[], socket.socket]

HTTP_500 = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Proxy:
    """Listens on a port of its own and passes bytes on, until told to do something else."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.answer: bytes | None = None
        """Sent instead of what the server would say; nothing reaches the server then."""
        self.cuts: Iterator[int | None] = itertools.repeat(None)
        """For each connection, the bytes passed on either way before it is cut; None for all."""
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_now(self) -> None:
        """Cut every connection."""
        for each in self._open:
            _close(each)
        self._open.clear()

    def close(self) -> None:
        self._listener.close()
        self.cut_now()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.answer is not None:
                threading.Thread(target=_answer, args=(client, self.answer), daemon=True).start()
                continue
            limit = next(self.cuts)
            if limit == 0:
                _close(client)
                continue
            server = self._connect()
            self._open += (client, server)
            for pair in ((client, server), (server, client)):
                threading.Thread(target=_pass_on, args=(*pair, limit), daemon=True).start()


def to_port(port: int) -> Connect:
    return lambda: socket.create_connection(("127.0.0.1", port))


def to_unix_socket(path: str) -> Connect:
    def connect() -> socket.socket:
        server = socket.socket(socket.AF_UNIX)
        server.connect(path)
        return server

    return connect


def _pass_on(source: socket.socket, target: socket.socket, limit: int | None) -> None:
    left = 2**62 if limit is None else limit
    with contextlib.suppress(OSError):
        while left > 0 and (data := source.recv(min(65536, left))):
            target.sendall(data)
            left -= len(data)
    _close(source)
    _close(target)


def _answer(client: socket.socket, answer: bytes) -> None:
    with contextlib.suppress(OSError):
        client.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            while client.recv(65536):
                pass
        client.sendall(answer)
    _close(client)


def _close(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
