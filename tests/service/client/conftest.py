"""A client of the service that the tests of a session share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from service.client import Client
from tests.journeys.server import Server


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client
