"""One service for all journeys that do not stop it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.journeys.server import Server, running


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("service") / "var", SVM_WORKERS="1") as server:
        yield server
