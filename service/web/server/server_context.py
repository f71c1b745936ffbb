"""What the connections of one server share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from starlette.datastructures import MutableHeaders
from uvicorn.protocols.http.httptools_impl import STATUS_LINE
from uvicorn.server import ServerState

from service.common.answerer import Answerer, RawHeaders, Reply
from service.common.callers import Rate
from service.common.tally import Tally
from service.errors import ServiceError
from service.web.access.authenticator import Authenticator
from service.web.access.scopes import check_origin
from service.web.http.headers import add_headers
from service.web.server.connections import ConnectionLimits
from service.web.server.header_rules import size_of
from service.web.server.observability import Metrics

UNUSUAL = frozenset({b"transfer-encoding", b"te", b"expect", b"content-digest", b"upgrade"})
"""Headers that only the application understands."""
_DECIDING = UNUSUAL | {
    b"accept",
    b"accept-encoding",
    b"authorization",
    b"content-encoding",
    b"content-type",
    b"cookie",
    b"host",
    b"inference-header-content-length",
    b"origin",
    b"sec-fetch-site",
}
"""Headers that decide the caller and the call."""
MAX_REMEMBERED = 1024
MAX_REMEMBERED_BYTES = 4096
"""Of the path and deciding headers of one prediction."""


class Prediction(NamedTuple):
    """The call that a path and deciding headers make."""

    call: Any
    rate: Rate | None
    """That of the caller."""
    tally: Tally
    """Counts its replies."""


@dataclass
class ServerContext:
    answerer: Answerer
    authenticator: Authenticator
    metrics: Metrics
    limits: ConnectionLimits
    _preamble: tuple[object, bytes] = field(default=(None, b""), init=False)
    _remembered: dict[tuple[Any, ...], Prediction] = field(default_factory=dict, init=False)
    _as_of: int = field(default=-1, init=False)
    """The changes of keys that are known to what is remembered."""

    def prediction(self, url: bytes, headers: RawHeaders) -> Prediction | None:
        """What a POST request asks the answerer; None if only the application can tell."""
        if self._as_of != self.authenticator.changes or len(self._remembered) > MAX_REMEMBERED:
            self._as_of = self.authenticator.changes
            self._remembered.clear()
        deciding = [header for header in headers if header[0] in _DECIDING]
        key = (url, *deciding)
        prediction = self._remembered.get(key)
        if prediction is None:
            prediction = self._prediction(url, deciding)
            if prediction is not None and size_of(url, deciding) <= MAX_REMEMBERED_BYTES:
                self._remembered[key] = prediction
        return prediction

    def _prediction(self, url: bytes, headers: RawHeaders) -> Prediction | None:
        values = dict(headers)
        if len(values) < len(headers) or b"host" not in values or not UNUSUAL.isdisjoint(values):
            return None
        caller = self.authenticator.authenticate_without_address(headers)
        if caller is None or not caller.has_scope("predict"):
            return None
        try:
            check_origin(headers)
            call = self.answerer.call(url, headers)
        except ServiceError:
            return None  # the application reports it
        if call is None:
            return None
        return Prediction(call, caller.rate, self.metrics.tally("POST", call.route, 200))

    def reply(self, state: ServerState, reply: Reply, request_id: str, last: bool) -> bytes:
        """All bytes of a reply; `last`: the connection is then closed."""
        body, media_type, headers = reply
        if self._preamble[0] is not state.default_headers:
            self._preamble = state.default_headers, _first_lines(state)
        more = "connection: close\r\n" if last else ""
        for title, content in headers:
            more += f"{title}: {content}\r\n"
        head = (
            f"{request_id}\r\ncontent-type: {media_type}\r\ncontent-length: {len(body)}\r\n"
            f"{more}\r\n"
        )
        return self._preamble[1] + head.encode("latin-1") + body


def _first_lines(state: ServerState) -> bytes:
    """Of every reply. They change once a second, when uvicorn updates the date."""
    fixed = MutableHeaders()
    add_headers(fixed)
    lines = [b"%b: %b\r\n" % header for header in (*state.default_headers, *fixed.raw)]
    return b"".join((STATUS_LINE[200], *lines, b"x-request-id: "))
