"""Closes a connection while its client is still sending.

If a connection is closed with unread bytes, the system resets it, and the client may never see the
reply. So the connection reads for a while after the reply, and ignores what it reads.
"""

from __future__ import annotations

import asyncio

LINGER_S = 2.0

_ignored = memoryview(bytearray(64 * 1024))


class LingeringClose(asyncio.BufferedProtocol):
    """A connection after its last reply was written."""

    def __init__(self, connection: asyncio.Protocol, transport: asyncio.Transport) -> None:
        self._connection = connection
        self._transport = transport
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(LINGER_S, transport.close)
        # uvloop checks the type of the protocol when it starts to read.
        transport.pause_reading()
        transport.set_protocol(self)
        transport.resume_reading()
        transport.write_eof()

    def get_buffer(self, sizehint: int) -> memoryview:
        return _ignored

    def buffer_updated(self, nbytes: int) -> None:
        pass

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()
