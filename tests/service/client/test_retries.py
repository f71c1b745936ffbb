"""Retries of requests, over real connections that break."""

from __future__ import annotations

import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from service.client import (
    Client,
    Conflict,
    ConnectionFailed,
    NotAllowed,
    Overloaded,
    Retries,
    ServerFault,
)
from tests.journeys.server import Server
from tests.proxy import Proxy, to_port

FAST = Retries(times=4, first_s=0.01, longest_s=2)
Script = Callable[[int], tuple[int, dict[str, str], dict[str, Any]]]


class Scripted(ThreadingHTTPServer):
    """A service that answers the k-th request, from 0, by a script, and records the requests."""

    def __init__(self, script: Script, port: int = 0) -> None:
        self.script = script
        self.seen: list[tuple[str, dict[str, str]]] = []
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Scripted

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append((self.path, dict(self.headers)))
        status, headers, body = self.server.script(len(self.server.seen) - 1)
        content = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815  (names of the base class)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def scripted() -> Iterator[Callable[[Script], Scripted]]:
    servers: list[Scripted] = []

    def start(script: Script, port: int = 0) -> Scripted:
        servers.append(Scripted(script, port))
        threading.Thread(target=servers[-1].serve_forever, args=(0.01,), daemon=True).start()
        return servers[-1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def _busy(times: int, status: int, **headers: str) -> Script:
    """Refuses the first `times` requests, and then creates a job."""
    return lambda k: (
        (status, headers, {"code": "queue-full", "detail": "the queue is full"})
        if k < times
        else (202, {}, {"id": "job_1", "state": "queued"})
    )


@pytest.mark.parametrize("status", [429, 503, 502, 504, 409])
def test_refused_requests_are_retried_with_the_same_key(
    scripted: Callable[[Script], Scripted], status: int
) -> None:
    """A training is created once."""
    service = scripted(_busy(3, status, **{"Retry-After": "0"}))
    with Client(service.url, retries=FAST) as client:
        assert client.train("latest", "m").id == "job_1"
    keys = [headers["Idempotency-Key"] for _, headers in service.seen]
    assert len(keys) == 4
    assert len(set(keys)) == 1


def test_every_creation_has_a_key_of_its_own(scripted: Callable[[Script], Scripted]) -> None:
    """Two equal calls create two trainings."""
    service = scripted(_busy(0, 503))
    with Client(service.url) as client:
        client.train("latest", "m")
        client.train("latest", "m")
    assert len({headers["Idempotency-Key"] for _, headers in service.seen}) == 2


def test_retry_waits_for_retry_after(scripted: Callable[[Script], Scripted]) -> None:
    """At least as long as the header says; without a retry if it is longer than the limit."""
    service = scripted(_busy(1, 503, **{"Retry-After": "1"}))
    began = time.monotonic()
    with Client(service.url, retries=FAST) as client:
        client.train("latest", "m")
    assert time.monotonic() - began >= 1
    busy = scripted(_busy(1, 429, **{"Retry-After": "3600"}))
    with Client(busy.url, retries=FAST) as client, pytest.raises(Overloaded):
        client.train("latest", "m")
    assert len(busy.seen) == 1


def test_number_of_retries_is_limited(scripted: Callable[[Script], Scripted]) -> None:
    """After the last retry the error is raised."""
    service = scripted(_busy(100, 503))
    with Client(service.url, retries=FAST) as client, pytest.raises(Overloaded, match="queue-full"):
        client.train("latest", "m")
    assert len(service.seen) == 1 + FAST.times


@pytest.mark.parametrize(
    ("status", "raised"), [(500, ServerFault), (401, NotAllowed), (409, Conflict)]
)
def test_other_errors_are_not_retried(
    scripted: Callable[[Script], Scripted], status: int, raised: type[Exception]
) -> None:
    """An internal error or a wrong key is raised at once."""
    service = scripted(_busy(100, status))
    with Client(service.url, retries=FAST) as client, pytest.raises(raised):
        client.train("latest", "m")
    assert len(service.seen) == 1


def test_api_key_is_in_every_request(
    scripted: Callable[[Script], Scripted], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API key is an argument, or SVM_API_KEY; the address can be SVM_URL."""
    service = scripted(lambda _: (200, {}, {}))
    monkeypatch.setenv("SVM_URL", service.url)
    monkeypatch.setenv("SVM_API_KEY", "from-environment")
    for key in ("given", None):
        with Client(api_key=key) as client:
            client.info()
    sent = [headers["Authorization"] for _, headers in service.seen]
    assert sent == ["Bearer given", "Bearer from-environment"]


def test_lists_read_page_by_page(scripted: Callable[[Script], Scripted]) -> None:
    """All items, and each page only when it is needed."""

    def page(k: int) -> tuple[int, dict[str, str], dict[str, Any]]:
        items = [{"id": f"ds_{k}{i}"} for i in range(2)]
        return 200, {}, {"datasets": items, "next_page_token": None if k == 2 else f"after-{k}"}

    service = scripted(page)
    with Client(service.url) as client:
        listed = client.datasets(tag="team=x")
        first = next(listed).id
        assert len(service.seen) == 1
        rest = [dataset.id for dataset in listed]
    assert [first, *rest] == ["ds_00", "ds_01", "ds_10", "ds_11", "ds_20", "ds_21"]
    assert [path for path, _ in service.seen] == [
        "/v1/datasets?tag=team%3Dx",
        "/v1/datasets?tag=team%3Dx&page_token=after-0",
        "/v1/datasets?tag=team%3Dx&page_token=after-1",
    ]


def test_unreachable_service_is_reported_within_a_second() -> None:
    """With its address, and without the errors of the library below."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    began = time.monotonic()
    with (
        Client(f"http://127.0.0.1:{port}") as client,
        pytest.raises(ConnectionFailed, match=f"no answer from http://127.0.0.1:{port}") as failed,
    ):
        client.info()
    assert time.monotonic() - began < 1
    assert "is the service running there?" in str(failed.value)
    assert failed.value.__suppress_context__
    with Client("localhost:8000") as client, pytest.raises(ConnectionFailed, match="is written as"):
        client.info()


def test_service_that_restarts_is_waited_for(scripted: Callable[..., Scripted]) -> None:
    """It has answered before, so its address is right."""
    service = scripted(_busy(0, 503))
    with Client(service.url, retries=Retries(times=100, first_s=0.1, longest_s=0.1)) as client:
        client.train("latest", "m")
        service.shutdown()
        service.server_close()
        later = threading.Timer(1.0, scripted, (_busy(0, 503), service.server_port))
        later.start()
        assert client.train("latest", "m").id == "job_1"
        later.join()


def test_broken_connections_are_retried(server: Server) -> None:
    """In the request or in the reply: the call still succeeds."""
    proxy = Proxy(to_port(server.http.base_url.port or 80))
    X = np.random.default_rng(0).normal(size=(400, 5))
    y = (X[:, 0] > 0).astype(int)
    proxy.cuts = itertools.cycle([300, 5_000, 0, None])
    try:
        with Client(f"http://127.0.0.1:{proxy.port}", retries=FAST) as client:
            dataset = client.upload(X, y)
            proxy.cut_now()
            job = client.train(dataset, "unbroken").wait(60)
            proxy.cut_now()
            assert np.mean(client.predict("unbroken", X) == y) > 0.9
            assert job.ended
    finally:
        proxy.close()


def test_broken_event_stream_continues(server: Server) -> None:
    """Each event once, although every connection breaks after some bytes."""
    proxy = Proxy(to_port(server.http.base_url.port or 80))
    X = np.random.default_rng(1).normal(size=(2000, 20))
    with Client(server.url) as client:
        dataset = client.upload(X, (X[:, 0] > 0).astype(int))
        job = client.train(dataset, "cut", "pegasos", stopping={"max_epochs": 300})
        whole = list(job.events())
    proxy.cuts = itertools.chain([900, 1500, 2500], itertools.repeat(None))
    try:
        with Client(f"http://127.0.0.1:{proxy.port}", retries=FAST) as client:
            assert list(client.job(job.id).events()) == whole
    finally:
        proxy.close()
