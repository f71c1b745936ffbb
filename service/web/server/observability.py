"""What operators see: request ids, one log line a request, metrics."""

from __future__ import annotations

import itertools
import logging
import re
import time
import uuid
from bisect import bisect_left
from collections.abc import Iterator

import structlog
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.web.http.headers import add_headers
from service.web.problems import internal_error, render
from service.web.server.descriptors import no_more_files

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
TRACEPARENT = re.compile(
    # Version 00 ends here, later ones may go on.
    r"(?!ff|00.{53}.)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?"
)
"""Of W3C Trace Context."""
QUIET = frozenset({"/livez", "/readyz", "/metrics"})
"""Paths that probes call all the time: logged at debug level."""
PREDICTIONS = ("/predict", "/infer")
"""Ends of routes that callers ask thousands of times a second: those answered are logged at debug
level, which costs nothing where it is off, and counted."""

log = structlog.stdlib.get_logger("service.requests")


BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0)
"""Upper ends of the durations' buckets, in seconds."""

_ids = map(f"{uuid.uuid4().hex[:20]}{{:012x}}".format, itertools.count())


def new_request_id() -> str:
    """20 digits drawn at the start of the process, and a running number."""
    return next(_ids)


def request_id_of(headers: list[tuple[bytes, bytes]]) -> str:
    """What X-Request-Id says, if it is short and plain, else a new id."""
    for name, value in headers:
        if name == b"x-request-id":
            given = value.decode("latin-1")
            if REQUEST_ID.fullmatch(given):
                return given
    return new_request_id()


def trace_id_of(headers: list[tuple[bytes, bytes]]) -> str | None:
    """That of the request's `traceparent`, if there is one that says so."""
    given = [value.decode("latin-1") for name, value in headers if name == b"traceparent"]
    found = TRACEPARENT.fullmatch(given[0]) if len(given) == 1 else None
    return None if found is None else found[1]


class _Tally:
    """Requests of one kind: their number by duration, and their time together."""

    __slots__ = ("buckets", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.buckets = [0] * (len(BOUNDS) + 1)


class Metrics(Collector):
    """The metrics of one application; rooms register their own collectors in `registry`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._tallies: dict[tuple[str, str, int], _Tally] = {}
        self.registry.register(self)

    def record(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request; `route` is the template of its path, for paths are without number.

        Called in the event loop only, so it needs no lock: the library's own counters, which have
        one each, would be a tenth of what a small prediction costs.
        """
        tally = self._tallies.get((method, route, status))
        if tally is None:
            tally = self._tallies[method, route, status] = _Tally()
        tally.seconds += seconds
        tally.buckets[bisect_left(BOUNDS, seconds)] += 1

    def collect(self) -> Iterator[Metric]:
        """What the registry shows."""
        requests = CounterMetricFamily(
            "svm_http_requests", "Requests answered.", labels=["method", "route", "status"]
        )
        durations = HistogramMetricFamily(
            "svm_http_request_seconds",
            "Time from a request's first byte to the last one of its reply.",
            labels=["method", "route"],
        )
        by_route: dict[tuple[str, str], _Tally] = {}
        for (method, route, status), tally in list(self._tallies.items()):
            requests.add_metric([method, route, str(status)], sum(tally.buckets))
            together = by_route.setdefault((method, route), _Tally())
            together.seconds += tally.seconds
            together.buckets = [a + b for a, b in zip(together.buckets, tally.buckets, strict=True)]
        for labels, tally in by_route.items():
            names = [*map(str, BOUNDS), "+Inf"]
            counts = itertools.accumulate(tally.buckets)
            durations.add_metric(labels, list(zip(names, counts, strict=True)), tally.seconds)
        yield requests
        yield durations


class Observability:
    """The outermost middleware: every reply leaves with an id, is counted and logged.

    An exception that nobody expected becomes a problem here, so that it carries the id too.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = request_id_of(scope["headers"])
        marks = {"request_id": request_id}
        trace_id = trace_id_of(scope["headers"])
        if trace_id is not None:
            marks["trace_id"] = trace_id
        scope.setdefault("state", {}).update(marks)
        structlog.contextvars.bind_contextvars(**marks)
        started = time.perf_counter()
        status = 0

        async def send_marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                add_headers(headers)
            await send(message)

        try:
            await self._app(scope, receive, send_marked)
        except ClientDisconnect:
            log.info("client disconnected")
        except Exception as error:
            overload = no_more_files(error)
            if overload is None:
                log.exception("unexpected error", path=scope["path"])
            else:
                log.warning("no file descriptor left", path=scope["path"])
            if status:  # too late to say so; the server closes the connection
                raise
            request = Request(scope)
            reply = internal_error(request) if overload is None else render(request, overload)
            await reply(scope, receive, send_marked)
        finally:
            self._record(scope, status, time.perf_counter() - started)
            structlog.contextvars.unbind_contextvars(*marks)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "none")
        self._metrics.record(scope["method"], route, status, seconds)
        answered = status < 400 and route.endswith(PREDICTIONS)
        level = logging.DEBUG if answered or scope["path"] in QUIET else logging.INFO
        log.log(
            level,
            "request",
            method=scope["method"],
            path=scope["path"],
            status=status,
            ms=round(seconds * 1000, 2),
        )
