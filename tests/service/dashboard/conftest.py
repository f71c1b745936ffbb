"""A browser without scripts on the real application, and a worker to train."""

from __future__ import annotations

import threading

import pytest
from starlette.testclient import TestClient

from service.jobs.engine.worker_process import Worker
from service.settings import Settings
from tests.service.dashboard.browser import Browser


@pytest.fixture
def browser(client: TestClient) -> Browser:
    return Browser(client)


@pytest.fixture
def worker(client: TestClient, settings: Settings) -> Worker:
    return Worker(settings, threading.Event())
