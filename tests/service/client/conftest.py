"""One service for all tests of the client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from service.client import Client
from tests.journeys.server import Server, running


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("client") / "var", SVM_WORKERS="1") as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client
