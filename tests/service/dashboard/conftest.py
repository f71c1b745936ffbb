"""A browser without scripts on the real application, and a worker to train."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from tests.service.dashboard.browser import Browser


@pytest.fixture
def browser(client: TestClient) -> Browser:
    return Browser(client)
