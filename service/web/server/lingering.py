"""Connections that end while their client is still sending.

If a connection is closed while bytes that came are unread, the system resets it, and the client may
never see the reply. So what still comes is read for a while, and forgotten.
"""

from __future__ import annotations

import asyncio

LINGER_S = 2.0

_nowhere = memoryview(bytearray(64 * 1024))


class Lingering(asyncio.BufferedProtocol):
    """The rest of a connection whose last reply has been written."""

    def __init__(self, connection: asyncio.Protocol, transport: asyncio.Transport) -> None:
        self._connection = connection
        self._transport = transport
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(LINGER_S, transport.close)
        # uvloop looks at the kind of protocol when it begins to read.
        transport.pause_reading()
        transport.set_protocol(self)
        transport.resume_reading()
        transport.write_eof()

    def get_buffer(self, sizehint: int) -> memoryview:
        return _nowhere

    def buffer_updated(self, nbytes: int) -> None:
        pass

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()
