"""Request ids, one log line per request, and metrics."""

from __future__ import annotations

import errno
import itertools
import logging
import re
import time
import uuid
from collections.abc import Iterator

import structlog
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.common.callers import address_of
from service.common.tally import Tally
from service.errors import Unavailable
from service.web.http.headers import add_headers
from service.web.problems import internal_error, render

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
TRACEPARENT = re.compile(
    # Version 00 ends here, later versions may be longer.
    r"(?!ff|00.{53}.)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?"
)
"""Of W3C Trace Context."""
QUIET = frozenset({"/livez", "/readyz", "/metrics"})
"""Paths that probes call often: logged at debug level."""
PREDICTIONS = ("/predict", "/infer")
"""Ends of paths that may be called thousands of times per second: successful requests are logged
at debug level only, which costs nothing if it is off."""

log = structlog.stdlib.get_logger("service.requests")


_ids = map(f"{uuid.uuid4().hex[:20]}{{:012x}}".format, itertools.count())
RETRY_S = 5


def new_request_id() -> str:
    """20 random digits of the process, and a running number."""
    return next(_ids)


def request_id_of(headers: list[tuple[bytes, bytes]]) -> str:
    """X-Request-Id if it is valid, else a new id."""
    for name, value in headers:
        if name == b"x-request-id":
            given = value.decode("latin-1")
            if REQUEST_ID.fullmatch(given):
                return given
    return new_request_id()


def trace_id_of(headers: list[tuple[bytes, bytes]]) -> str | None:
    """From the request's `traceparent`; None if there is none or it is invalid."""
    given = [value.decode("latin-1") for name, value in headers if name == b"traceparent"]
    match = TRACEPARENT.fullmatch(given[0]) if len(given) == 1 else None
    return None if match is None else match[1]


class Metrics(Collector):
    """The metrics of one application; packages register their own collectors in `registry`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._tallies: dict[tuple[str, str, int], Tally] = {}
        self.registry.register(self)

    def record(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request; `route` is the template of its path, because paths are not limited.

        Call it in the event loop only.
        """
        self.tally(method, route, status).count(seconds)

    def tally(self, method: str, route: str, status: int) -> Tally:
        """The tally of such requests."""
        tally = self._tallies.get((method, route, status))
        if tally is None:
            tally = self._tallies[method, route, status] = Tally()
        return tally

    @property
    def answered(self) -> int:
        """Requests so far."""
        return sum(sum(tally.buckets) for tally in self._tallies.values())

    def collect(self) -> Iterator[Metric]:
        """Called by the registry."""
        requests = CounterMetricFamily(
            "svm_http_requests", "Requests answered.", labels=["method", "route", "status"]
        )
        durations = HistogramMetricFamily(
            "svm_http_request_seconds",
            "Time from a request's first byte to the last one of its reply.",
            labels=["method", "route"],
        )
        by_route: dict[tuple[str, str], Tally] = {}
        for (method, route, status), tally in list(self._tallies.items()):
            requests.add_metric([method, route, str(status)], sum(tally.buckets))
            total = by_route.setdefault((method, route), Tally())
            total.seconds += tally.seconds
            total.buckets = [a + b for a, b in zip(total.buckets, tally.buckets, strict=True)]
        for labels, tally in by_route.items():
            durations.add_metric(labels, tally.cumulative(), tally.seconds)
        yield requests
        yield durations


class Observability:
    """The outermost middleware: gives every reply an id, counts it and logs it.

    It also turns unexpected exceptions into problems, so that these have the id too.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = request_id_of(scope["headers"])
        log_context = {"request_id": request_id}
        client = {"address": address_of(Request(scope)), "key": None}
        trace_id = trace_id_of(scope["headers"])
        if trace_id is not None:
            log_context["trace_id"] = trace_id
        scope.setdefault("state", {}).update(log_context)
        # `Admission` replaces the key by its id once it is known.
        structlog.contextvars.bind_contextvars(**log_context, **client)
        started = time.perf_counter()
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                add_headers(headers)
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except ClientDisconnect:
            log.info("client disconnected")
        except Exception as error:
            overload = no_more_files(error)
            if overload is None:
                log.exception("unexpected error", path=scope["path"])
            else:
                log.warning("no file descriptor left", path=scope["path"])
            if status:  # too late for a problem; the server closes the connection
                raise
            request = Request(scope)
            reply = internal_error(request) if overload is None else render(request, overload)
            await reply(scope, receive, send_with_id)
        finally:
            self._record(scope, status, time.perf_counter() - started)
            structlog.contextvars.unbind_contextvars(*log_context, *client)

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


def no_more_files(error: Exception) -> Unavailable | None:
    """The error to report for an exception, if its cause is a lack of file descriptors."""
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        detail = "too many files are open; retry shortly"
        return Unavailable("overloaded", detail, retry_after_s=RETRY_S)
    return None
