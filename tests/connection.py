"""A client that speaks HTTP/1.1 byte by byte."""

from __future__ import annotations

import select
import socket
import time


class Connection:
    """A client that sends the given bytes and reads whole replies."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=20)
        self._rest = b""

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *parts: bytes, pause_s: float = 0.0) -> None:
        for part in parts:
            self.socket.sendall(part)
            time.sleep(pause_s)

    def reply(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers, body."""
        while b"\r\n\r\n" not in self._rest:
            self._more()
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        headers = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in lines)
        }
        size = int(headers.get("content-length", 0))  # an interim reply has none
        while len(self._rest) < size:
            self._more()
        body, self._rest = self._rest[:size], self._rest[size:]
        return int(status.split()[1]), headers, body

    def closed(self) -> bool:
        """Whether the server closes, with nothing more to say."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:  # what was sent to it after its reply is lost
            return True

    def more_comes(self, within_s: float = 0.2) -> bool:
        """Whether the server says more."""
        poll = select.poll()  # `select` has no numbers above 1,023
        poll.register(self.socket, select.POLLIN)
        return bool(self._rest or poll.poll(within_s * 1000))

    def _more(self) -> None:
        data = self.socket.recv(1 << 20)
        assert data, f"closed after {self._rest!r}"
        self._rest += data
