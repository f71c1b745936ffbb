"""Connections between two requests, and a proxy that keeps a pool of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import psutil
import pytest

from service.settings import Settings
from tests.connection import Connection
from tests.journeys.server import Server, running
from tests.nginx import nginx
from tests.service.models.registered_models import RegisteredModels

PATH = "/v1/models/iris/predict"
BODY = b'{"instances": [[1, 2, 3]]}'
PREDICT = b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b"
PREDICT %= PATH.encode(), len(BODY), BODY
LIVEZ = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
IDLE_S = 6.0
"""Longer than servers usually wait; the proxy closes after 60 s."""
CALLERS = 8


@pytest.fixture
def service(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    variables: dict[str, str] = getattr(request, "param", {})
    with running(tmp_path / "var", SVM_WORKERS="0", **variables) as server:
        registered = RegisteredModels(Settings(data_dir=tmp_path / "var"))
        registered.add("iris")
        registered.database.close()
        yield server


def _port(server: Server) -> int:
    return int(server.url.rpartition(":")[2])


def _callers(server: Server) -> set[int]:
    """The ports of open connections, at their other ends."""
    connections = psutil.Process(server.process.pid).net_connections("tcp")
    return {each.raddr.port for each in connections if each.status == "ESTABLISHED"}


@pytest.mark.long
def test_pool_of_a_proxy_outlives_a_pause(service: Server, tmp_path: Path) -> None:
    """POST, which nginx does not repeat: all are answered, on the connections of before."""
    service.http.close()
    with nginx(tmp_path / "nginx", [_port(service)] * 2) as proxy:
        address = "127.0.0.1", int(proxy.rpartition(":")[2])

        def ask(client: Connection) -> int:
            client.send(PREDICT)
            return client.reply()[0]

        clients = [Connection(address) for _ in range(CALLERS)]
        with ThreadPoolExecutor(CALLERS) as pool:
            for _ in range(20):
                assert list(pool.map(ask, clients)) == [200] * CALLERS
            pooled = _callers(service)
            assert pooled
            time.sleep(IDLE_S)
            assert _callers(service) == pooled
            assert list(pool.map(ask, clients[: len(pooled)])) == [200] * len(pooled)
            assert _callers(service) >= pooled
        for client in clients:
            client.socket.close()


@pytest.mark.long
@pytest.mark.parametrize("service", [{"SVM_KEEP_ALIVE_S": "1"}], indirect=True)
@pytest.mark.parametrize("request_", [PREDICT, LIVEZ], ids=["protocol", "application"])
def test_idle_connection_is_closed_in_time(service: Server, request_: bytes) -> None:
    """By protocol and application; one that is used stays open."""
    httpx2.post(service.url + PATH, content=BODY, timeout=60).raise_for_status()
    with Connection(("127.0.0.1", _port(service))) as client:
        for _ in range(4):
            client.send(request_)
            assert client.reply()[0] == 200
            time.sleep(0.5)
        assert client.closed()
