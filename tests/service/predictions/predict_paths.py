"""The two ways in which a prediction is answered: route, HTTP protocol."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

import httpx2
import pytest
import uvicorn
from starlette.testclient import TestClient

from service.app import create_app
from service.app.application import Application
from service.settings import Settings
from tests.waiting import until

PATHS = ("route", "protocol")

PredictPath: TypeAlias = httpx2.Client


@pytest.fixture(params=PATHS, scope="module")
def predict_path(
    request: pytest.FixtureRequest, settings_of_module: Settings
) -> Iterator[PredictPath]:
    """A client of one application by one of the paths, for the tests of a module."""
    with opened(request.param, settings_of_module) as predict_path:
        yield predict_path


@pytest.fixture(scope="module")
def url(settings_of_module: Settings) -> Iterator[str]:
    """One application in a server of its own, for the tests of a module; its address."""
    with served(create_app(settings_of_module)) as url:
        yield url


@contextmanager
def opened(name: str, settings: Settings) -> Iterator[PredictPath]:
    app = create_app(settings)
    if name == "protocol":
        with served(app) as url, httpx2.Client(base_url=url, timeout=60) as client:
            yield client
        return
    with TestClient(app) as test_client:
        yield test_client


@contextmanager
def served(app: Application) -> Iterator[str]:
    """The application in uvicorn as `svm-service serve` runs it, in a thread; its address."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    config = uvicorn.Config(
        app,
        http=app.http_protocol,  # type: ignore[arg-type]  # a function will do
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=5,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()
    assert not thread.is_alive()
