"""What operators see: request ids, one log line a request, metrics."""

from __future__ import annotations

import logging
import re
import time
import uuid

import structlog
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.web.problems import internal_error

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
QUIET = frozenset({"/livez", "/readyz", "/metrics"})
"""Paths that probes call all the time: logged at debug level."""

log = structlog.stdlib.get_logger("service.requests")


class Metrics:
    """The metrics of one application; rooms register their own collectors in `registry`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self.requests = Counter(
            "svm_http_requests",
            "Requests answered.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "svm_http_request_seconds",
            "Time from a request's first byte to the last one of its reply.",
            ["method", "route"],
            buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10, 60),
            registry=self.registry,
        )


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
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        structlog.contextvars.bind_contextvars(request_id=request_id)
        started = time.perf_counter()
        status = 0

        async def send_marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                headers["X-Content-Type-Options"] = "nosniff"
            await send(message)

        try:
            await self._app(scope, receive, send_marked)
        except ClientDisconnect:
            log.info("client left")
        except Exception:
            log.exception("unexpected error", path=scope["path"])
            if status:  # too late to say so; the server closes the connection
                raise
            await internal_error(Request(scope))(scope, receive, send_marked)
        finally:
            self._record(scope, status, time.perf_counter() - started)
            structlog.contextvars.unbind_contextvars("request_id")

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        # The route's template, not the path: paths are without number.
        route = getattr(scope.get("route"), "path", "none")
        self._metrics.requests.labels(scope["method"], route, status).inc()
        self._metrics.seconds.labels(scope["method"], route).observe(seconds)
        level = logging.DEBUG if scope["path"] in QUIET else logging.INFO
        log.log(
            level,
            "request",
            method=scope["method"],
            path=scope["path"],
            status=status,
            ms=round(seconds * 1000, 2),
        )
