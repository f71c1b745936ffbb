"""Request ids, one log line per request, and metrics."""

from __future__ import annotations

import errno
import itertools
import logging
import os
import re
import time
import uuid
from collections.abc import Iterator
from functools import partial

import structlog
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.common.callers import address_of
from service.common.shared import Shared
from service.common.tally import BOUNDS, Tally, histogram
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

OF_THE_PARENT = ("process_start_time_seconds", "process_max_fds")
"""Metrics that are no sum over processes."""

log = structlog.stdlib.get_logger("service.requests")


RETRY_S = 5


_ids: Iterator[str]


def _begin_ids() -> None:
    """Each process has its own, forks too."""
    global _ids
    _ids = map(f"{uuid.uuid4().hex[:20]}{{:012x}}".format, itertools.count())


_begin_ids()
os.register_at_fork(after_in_child=_begin_ids)


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
    """The metrics of one application, in all of its processes; packages register their own
    collectors in `registry`."""

    def __init__(self, shared: Shared | None = None) -> None:
        self._shared = shared or Shared()
        self.registry = CollectorRegistry()
        if self._shared.n_places == 1:
            ProcessCollector(registry=self.registry)
        else:
            self.registry.register(_AllProcesses(self._shared))
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
            numbers = self._shared.numbers("http", method, route, str(status))
            tally = self._tallies[method, route, status] = Tally(numbers)
        return tally

    @property
    def answered(self) -> int:
        """Requests of this process so far."""
        return int(sum(sum(tally.numbers[: len(BOUNDS) + 1]) for tally in self._tallies.values()))

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
        by_route: dict[tuple[str, ...], list[float]] = {}
        for labels, numbers in self._shared.totals("http").items():
            requests.add_metric(labels, sum(numbers[: len(BOUNDS) + 1]))
            total = by_route.setdefault(labels[:2], [0.0] * len(numbers))
            total[:] = map(float.__add__, total, numbers)
        for labels, numbers in by_route.items():
            durations.add_metric(labels, *histogram(numbers))
        yield requests
        yield durations


class _AllProcesses(Collector):
    """What `ProcessCollector` has of one process, for the parent and all processes of the API."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def collect(self) -> Iterator[Metric]:
        """Sums, but for the time of the start and the limit of files, which are the parent's."""
        first: dict[str, Metric] = {}
        for id in filter(None, self._shared.count("process id").each):
            for metric in ProcessCollector(pid=partial(int, id), registry=None).collect():
                total = first.setdefault(metric.name, metric)
                if total is not metric and metric.name not in OF_THE_PARENT:
                    _add(total, metric.samples[0].value)
        for (name,), (ended, *_) in self._shared.totals("ended").items():
            _add(first[name], ended)
        yield from first.values()


def _add(total: Metric, value: float) -> None:
    (sample,) = total.samples
    total.samples = [sample._replace(value=sample.value + value)]


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
