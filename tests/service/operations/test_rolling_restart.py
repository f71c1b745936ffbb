"""A rolling restart of replicas behind the proxy of `docker-compose.yml`, without errors."""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import pytest

from service.settings import Settings
from tests.backends import ON_POSTGRES_AND_S3
from tests.nginx import nginx
from tests.service.models.registered_models import RegisteredModels, fitted_pipeline
from tests.started import Started
from tests.waiting import until

pytestmark = ON_POSTGRES_AND_S3

CALLERS = 6
PREDICT = "/v1/models/iris/predict"
BODY = json.dumps({"instances": [[1.0, 2.0, 3.0]]})


class Replica:
    """A process of the service, with the same port after a restart."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self._log = folder.with_suffix(".log").open("ab")
        self._environment = {
            **os.environ,
            "SVM_DATA_DIR": str(folder),
            "SVM_DATABASE_URL": settings.database_url,
            "SVM_BLOB_URL": str(settings.blob_url),
            "SVM_WORKERS": "0",
            "SVM_AUTH": "off",
        }
        self._process: Started | None = None

    def start(self) -> None:
        self._process = Started(
            ["serve", "--port", str(self.port)],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )

    def wait_ready(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        assert select.select([self._process.stdout], [], [], 30)[0], "it does not start"
        assert "http://" in self._process.stdout.readline()
        until(lambda: httpx2.get(f"http://127.0.0.1:{self.port}/readyz").status_code == 200)

    def stop(self) -> None:
        """Send SIGTERM, as for containers."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            assert self._process.wait(30) == 0
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
        self._log.close()


@pytest.fixture
def replicas(settings: Settings, tmp_path: Path) -> Iterator[list[Replica]]:
    """Two running replicas with the same model."""
    registered = RegisteredModels(settings)
    registered.add("iris", fitted_pipeline())
    registered.database.close()
    two = [Replica(settings, tmp_path / name) for name in ("one", "two")]
    try:
        for replica in two:
            replica.start()
        for replica in two:
            replica.wait_ready()
        yield two
    finally:
        for replica in two:
            replica.close()


@contextmanager
def load(url: str, outcomes: Counter[str]) -> Iterator[None]:
    """Callers that predict, and sometimes read."""
    ended = threading.Event()
    with ExitStack() as stack:
        for _ in range(CALLERS):
            thread = threading.Thread(target=_call, args=(url, outcomes, ended))
            thread.start()
            stack.callback(thread.join)
        stack.callback(ended.set)
        yield


def _call(url: str, outcomes: Counter[str], ended: threading.Event) -> None:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
    count = 0
    while not ended.is_set():
        count += 1
        try:
            if count % 20:
                connection.request("POST", PREDICT, BODY, {"Content-Type": "application/json"})
            else:
                connection.request("GET", "/v1/models/iris")
            reply = connection.getresponse()
            reply.read()
            outcome = str(reply.status)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            outcome = type(error).__name__
        outcomes[outcome] += 1
    connection.close()


@pytest.mark.long
@pytest.mark.parametrize(
    "restarts", [1, pytest.param(10, marks=[pytest.mark.torture, pytest.mark.timeout(900)])]
)
def test_rolling_restart_causes_no_errors(
    replicas: list[Replica], tmp_path: Path, restarts: int
) -> None:
    """Every call succeeds, without 502 or broken connections."""
    with nginx(tmp_path / "nginx", [each.port for each in replicas]) as url:
        outcomes = _restarted(replicas, url, restarts)
        print(dict(outcomes))
        errors = (tmp_path / "nginx" / "error.log").read_text()
        assert set(outcomes) == {"200"}, (dict(outcomes), errors[-2000:])


def _restarted(replicas: list[Replica], url: str, restarts: int) -> Counter[str]:
    """Outcomes of calls while replicas are restarted in turn."""
    outcomes: Counter[str] = Counter()
    with load(url, outcomes):
        time.sleep(0.5)
        for number in range(restarts):
            replica = replicas[number % 2]
            replica.stop()
            replica.start()
            replica.wait_ready()
        time.sleep(0.5)
    return outcomes
