"""What the connections of one server share."""

from __future__ import annotations

from dataclasses import dataclass, field

from starlette.datastructures import MutableHeaders
from uvicorn.protocols.http.httptools_impl import STATUS_LINE
from uvicorn.server import ServerState

from service.web.access.authenticator import Authenticator
from service.web.access.fast_path import Answerer, Reply
from service.web.http.headers import add_headers
from service.web.server.connections import ConnectionLimits
from service.web.server.observability import Metrics


@dataclass
class ServerContext:
    answerer: Answerer
    authenticator: Authenticator
    metrics: Metrics
    limits: ConnectionLimits
    _preamble: tuple[object, str] = field(default=(None, ""), init=False)

    def reply(self, state: ServerState, reply: Reply, request_id: str, last: bool) -> bytes:
        """All bytes of a reply; `last`: the connection is then closed."""
        more = "connection: close\r\n" if last else ""
        for title, content in reply.headers:
            more += f"{title}: {content}\r\n"
        header = (
            f"{self._first_lines(state)}{request_id}\r\ncontent-type: {reply.media_type}\r\n"
            f"content-length: {len(reply.body)}\r\n{more}\r\n"
        )
        return header.encode("latin-1") + reply.body

    def _first_lines(self, state: ServerState) -> str:
        """Of every reply. They change once a second, when uvicorn updates the date."""
        headers = state.default_headers
        if self._preamble[0] is not headers:
            fixed = MutableHeaders()
            add_headers(fixed)
            lines = [b"%b: %b\r\n" % header for header in (*headers, *fixed.raw)]
            text = b"".join((STATUS_LINE[200], *lines, b"x-request-id: ")).decode("latin-1")
            self._preamble = headers, text
        return self._preamble[1]
