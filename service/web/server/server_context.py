"""What the connections of one server share."""

from __future__ import annotations

from dataclasses import dataclass, field

from starlette.datastructures import MutableHeaders
from uvicorn.protocols.http.httptools_impl import STATUS_LINE
from uvicorn.server import ServerState

from service.web.access.authenticator import Authenticator
from service.web.access.fast_path import Answerer
from service.web.http.headers import add_headers
from service.web.server.connections import ConnectionLimits
from service.web.server.header_cache import HeaderCache
from service.web.server.observability import Metrics


@dataclass
class ServerContext:
    answerer: Answerer
    authenticator: Authenticator
    metrics: Metrics
    limits: ConnectionLimits
    header_cache: HeaderCache = field(default_factory=HeaderCache, init=False)
    _preamble: tuple[object, bytes] = field(default=(None, b""), init=False)

    def __post_init__(self) -> None:
        self.authenticator.on_change.append(self.header_cache.clear)

    def preamble(self, state: ServerState) -> bytes:
        """The first lines of every reply. They change once a second, when uvicorn updates the
        date."""
        headers = state.default_headers
        if self._preamble[0] is not headers:
            fixed = MutableHeaders()
            add_headers(fixed)
            lines = [b"%b: %b\r\n" % header for header in (*headers, *fixed.raw)]
            self._preamble = headers, b"".join((STATUS_LINE[200], *lines, b"x-request-id: "))
        return self._preamble[1]
