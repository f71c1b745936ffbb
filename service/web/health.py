"""Liveness, readiness, metrics and limits: `/livez`, `/readyz`, `/metrics`, `/v1/info`."""

from __future__ import annotations

import platform
import threading
from contextlib import suppress
from importlib.metadata import version
from typing import Literal

from anyio import CapacityLimiter, move_on_after
from anyio.to_thread import run_sync
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from pydantic import BaseModel
from starlette.responses import Response

from service import __version__
from service.common.event_stream import Health
from service.common.schemas import ReadModel
from service.errors import Unavailable
from service.settings import Limits, Settings
from service.storage.database import Database
from service.storage.machine_code import is_compiling
from service.web.access.scopes import Routes, requires_scope
from service.web.problems import responses

RETRY_AFTER_S = 1
CHECK_S = 0.8
"""Timeout of the database; that of probes is a second."""


class HealthRead(BaseModel):
    status: Literal["ok"] = "ok"


class ReadinessRead(HealthRead):
    compiling: bool
    """Whether loops are being compiled for this machine, once: until it is done, first trainings of
    a kind take longer."""


class LimitsRead(Limits):
    """Limits of requests, datasets, jobs and connections."""

    header_s: float
    """Timeout for receiving the header of a request, in seconds."""
    body_idle_s: float
    """Timeout for receiving a body, in seconds: at least 4 KiB must arrive in each period."""
    connections: int
    """Most connections open at once; further ones receive 503."""


class InfoRead(ReadModel):
    """Versions and limits."""

    name: str
    version: str
    python: str
    libraries: dict[str, str]
    """Versions of the libraries that the bits of a model depend on."""
    limits: LimitsRead


class MetricsResponse(Response):
    media_type = CONTENT_TYPE_LATEST


def router(
    health: Health, database: Database, registry: CollectorRegistry, settings: Settings
) -> Routes:
    """Routes for operators; readiness depends on `health` and `database`."""
    routes = Routes(tag="operations")
    checks = CapacityLimiter(1)  # a thread that other requests do not use
    libraries = {name: version(name) for name in ("numpy", "scipy", "numba")}

    @routes.get("/livez", operation_id="get_livez", summary="Liveness: is the process alive?")
    @requires_scope(None)
    async def livez() -> HealthRead:
        """Replies as long as the process is alive. Restart the process if it does not reply."""
        return HealthRead()

    @routes.get(
        "/readyz",
        operation_id="get_readyz",
        summary="Readiness: can it receive requests?",
        responses=responses("not-ready", "shutting-down"),
    )
    @requires_scope(None)
    async def readyz() -> ReadinessRead:
        """200 if the database responds and no shutdown has begun, else 503."""
        if health.draining:
            raise Unavailable(
                "shutting-down", "the service is shutting down", retry_after_s=RETRY_AFTER_S
            )
        answered = threading.Event()

        def check() -> None:
            database.check()
            answered.set()

        with suppress(Unavailable), move_on_after(CHECK_S):
            await run_sync(check, limiter=checks, abandon_on_cancel=True)
        if not answered.is_set():
            raise Unavailable(
                "not-ready", "the database does not respond", retry_after_s=RETRY_AFTER_S
            )
        return ReadinessRead(compiling=is_compiling())

    @routes.get(
        "/metrics",
        operation_id="get_metrics",
        summary="Metrics in Prometheus format",
        response_class=MetricsResponse,
    )
    def metrics() -> Response:
        """Counts and durations of requests, jobs by state, memory and processor time."""
        return MetricsResponse(generate_latest(registry))

    @routes.get("/v1/info", operation_id="get_info", summary="Version and limits")
    async def info() -> InfoRead:
        """The version of the service and its libraries, and its limits."""
        return InfoRead(
            name="svm-service",
            version=__version__,
            python=platform.python_version(),
            libraries=libraries,
            limits=LimitsRead(
                **settings.limits.model_dump(),
                header_s=settings.header_s,
                body_idle_s=settings.body_idle_s,
                connections=settings.connections,
            ),
        )

    return routes
