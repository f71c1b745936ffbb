"""Connections as bytes: replies are the same and in order, for any division into packets."""

from __future__ import annotations

import io
import json
import re
import select
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import numpy as np
import pytest
import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from service.app import create_app
from service.settings import Limits, Settings
from service.web.server import messages
from tests.connection import Connection
from tests.service.jobs.data import csv_of, job_body
from tests.service.models.registered_models import RegisteredModels, fitted_pipeline
from tests.service.predictions.predict_paths import served, url

__all__ = ["url"]

PATH = "/v1/models/iris/predict"
N_FEATURES = 3
TIMEOUT_S = 1.0
"""Timeout of header and body: long enough for a busy machine."""


pytestmark = pytest.mark.one_application(
    limits=Limits(upload_bytes=1_000_000), header_s=TIMEOUT_S, body_idle_s=TIMEOUT_S
)


@pytest.fixture
def address(url: str, registered: RegisteredModels) -> tuple[str, int]:
    registered.add("iris", fitted_pipeline(n_features=N_FEATURES))
    registered.add("wide", fitted_pipeline(n_features=300))
    return "127.0.0.1", int(url.rpartition(":")[2])


def body(value: float = 1.0, outputs: str = "decision") -> bytes:
    return json.dumps({"instances": [[value] * N_FEATURES], "outputs": [outputs]}).encode()


def request(content: bytes, *headers: str, path: str = PATH, version: str = "1.1") -> bytes:
    lines = [f"POST {path} HTTP/{version}", "Host: x", f"Content-Length: {len(content)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + content


def in_one_chunk(content: bytes, path: str = PATH) -> bytes:
    head = request(b"", path=path).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    return head + b"%x;a=b\r\n%b\r\n0\r\nX: y\r\n\r\n" % (len(content), content)


def decision(value: float) -> list[float]:
    fitted = fitted_pipeline(n_features=N_FEATURES)
    return list(fitted.decision_function(np.full((1, N_FEATURES), value)).tolist())


def values(reply: tuple[int, dict[str, str], bytes]) -> list[float]:
    assert reply[0] == 200, reply
    numbers: list[float] = json.loads(reply[2])["decision"]
    return numbers


def test_pipelined_requests_are_answered_in_order(address: tuple[str, int]) -> None:
    """Sent at once, with other calls and errors between them, repeatedly."""
    livez = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
    bad = request(b'{"instances": [[1, 2, null]]}')
    with Connection(address) as client:
        for _ in range(3):
            client.send(request(body(1.0)) + request(body(2.0)) + livez + bad + request(body(3.0)))
            assert values(client.reply()) == decision(1.0)
            assert values(client.reply()) == decision(2.0)
            assert client.reply()[0] == 200
            assert client.reply()[0] == 422
            assert values(client.reply()) == decision(3.0)


def test_next_request_arrives_before_the_reply(address: tuple[str, int]) -> None:
    """A request, followed by a part of the next one or all of it."""
    with Connection(address) as client:
        second = request(body(2.0))
        for cut in (0, 1, 30, len(second)):
            client.send(request(body(1.0)), second[:cut])
            client.send(second[cut:])
            assert values(client.reply()) == decision(1.0)
            assert values(client.reply()) == decision(2.0)


@pytest.mark.parametrize("size", [40_000, 130_000, 400_000, 5_000_000])
@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunk"])
def test_large_bodies(address: tuple[str, int], size: int, chunked: bool) -> None:
    """In one packet or many; then another request."""
    X = np.random.default_rng(0).normal(size=(max(1, size // 6000), 300))
    content = json.dumps({"instances": X.tolist(), "outputs": ["decision"]}).encode()
    expected = fitted_pipeline(n_features=300).decision_function(X).tolist()
    whole = request(content, path="/v1/models/wide/predict")
    if chunked:
        whole = in_one_chunk(content, path="/v1/models/wide/predict")
    with Connection(address) as client:
        for step in (len(whole), 65_536, 50):
            pieces = (
                [whole[:step], whole[step:]]
                if step == 50
                else [whole[i : i + step] for i in range(0, len(whole), step)]
            )
            client.send(*pieces, pause_s=0.01 if step == 50 else 0)
            assert values(client.reply()) == expected
            client.send(request(body(1.0)))
            assert values(client.reply()) == decision(1.0)


class Counting:
    """A middleware that counts requests to the application."""

    def __init__(self, app: ASGIApp, seen: list[str]) -> None:
        self._app = app
        self._seen = seen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self._seen.append(scope["path"])
        await self._app(scope, receive, send)


def common_requests(n_rows: int) -> Iterator[bytes]:
    """The same rows in each common format."""
    X = np.random.default_rng(0).normal(size=(n_rows, 64))
    path = "/v1/models/wide/predict"
    yield request(json.dumps({"instances": X.tolist()}).encode(), path=path)
    csv = "\n".join(",".join(map(repr, x)) for x in X.tolist())
    yield request(csv.encode(), "Content-Type: text/csv", path=path)
    file = io.BytesIO()
    np.save(file, X)
    yield request(file.getvalue(), "Content-Type: application/x-npy", path=path)
    tensor = {"name": "x", "shape": X.shape, "datatype": "FP64"}
    json_part = json.dumps({"inputs": [tensor], "outputs": [{"name": "label"}]}).encode()
    length = f"Inference-Header-Content-Length: {len(json_part)}"
    yield request(json_part + X.tobytes(), length, path="/v2/models/wide/infer")


def test_predictions_need_no_application(settings: Settings) -> None:
    """Once the model is loaded: for up to 8 MiB, with headers that differ each time, and with the
    same reply."""
    app = create_app(settings)
    seen: list[str] = []
    app.add_middleware(Counting, seen=seen)
    with served(app) as url:
        registered = RegisteredModels(settings)
        registered.add("wide", fitted_pipeline(n_features=64))
        registered.database.close()
        with Connection(("127.0.0.1", int(url.rpartition(":")[2]))) as client:
            for whole in (whole for n_rows in (1, 100, 5000) for whole in common_requests(n_rows)):
                client.send(whole)
                first = client.reply()
                seen.clear()
                for number in range(3):
                    more = b"\r\nX-Request-Id: %d\r\nX-%d: a\r\nHost:" % (number, number)
                    client.send(whole.replace(b"\r\nHost:", more, 1))
                    again = client.reply()
                    assert (again[0], again[2]) == (200, first[2]), whole[:300]
                assert not seen, whole[:300]


def test_no_way_of_sending_needs_the_application(settings: Settings) -> None:
    """Queries, chunks, repeated headers, closed connections, HTTP/1.0."""
    app = create_app(settings)
    seen: list[str] = []
    app.add_middleware(Counting, seen=seen)
    content, query = body(2.0, "label"), f"{PATH}?outputs=decision"
    chunked = in_one_chunk(body(2.0))
    with served(app) as url:
        registered = RegisteredModels(settings)
        registered.add("iris", fitted_pipeline(n_features=N_FEATURES))
        registered.database.close()
        for whole, ends in (
            (request(content, path=query), False),
            (chunked, False),
            (chunked.replace(b"Host: x", b"Connection: close\r\nHost: x"), True),
            (request(content, "Accept: */*", "Accept: application/json", path=query), False),
            (request(content, "TE: trailers", "Connection: TE", path=query), False),
            (request(content, "Connection: close", path=query), True),
            (request(content, version="1.0", path=query), True),
            (request(content, "Connection: keep-alive", version="1.0", path=query), True),
        ):
            for _ in range(2):
                with Connection(("127.0.0.1", int(url.rpartition(":")[2]))) as client:
                    for _ in range(1 if ends else 3):
                        client.send(whole)
                        reply = client.reply()
                        assert values(reply) == decision(2.0)
                        assert reply[1].get("connection") == ("close" if ends else None)
                    if ends:
                        assert client.closed()
                if whole.startswith(request(b"", path=query)[:60]) and seen:
                    seen.clear()  # the model was not loaded yet
        assert not seen


def test_uncommon_requests(address: tuple[str, int]) -> None:
    """Chunks, HTTP/1.0, Expect, Connection: close, names in any case."""
    content = body(2.0)
    chunked = (
        f"POST {PATH} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        + b"%x\r\n%b\r\n0\r\n\r\n" % (len(content), content)
    )
    for _ in range(2):
        with Connection(address) as client:
            client.send(chunked)
            assert values(client.reply()) == decision(2.0)
            client.send(request(content, "content-TYPE: Application/JSON", "ACCEPT: */*"))
            assert values(client.reply()) == decision(2.0)
            client.send(request(content, "Connection: close"))
            assert values(client.reply()) == decision(2.0)
            assert client.closed()
        with Connection(address) as client:
            client.send(request(content, version="1.0"))
            assert values(client.reply()) == decision(2.0)
            assert client.closed()
        with Connection(address) as client:
            client.send(request(content, "Expect: 100-continue")[: -len(content)])
            assert client.socket.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.send(content)
            assert values(client.reply()) == decision(2.0)


def test_bodies_of_any_length(address: tuple[str, int]) -> None:
    """One after the other on a connection."""
    with Connection(address) as client:
        for value in (1.0, 1.5, 1.25, 1.0, 1.5):
            client.send(request(body(value)))
            assert values(client.reply()) == decision(value)
        client.send(request(b'{"instances": [[1, 2, 3]] }'), request(b'{"instances": [[1, 2, 3]]}'))
        assert client.reply()[2] == client.reply()[2]


def test_incomplete_header_ends_the_connection(address: tuple[str, int]) -> None:
    """408 if it began; a connection without any bytes is closed without a reply."""
    with Connection(address) as client, Connection(address) as silent:
        client.send(b"POST /v1/models/iris/predict HTTP/1.1\r\nHost:")
        status, headers, content = client.reply()
        assert (status, json.loads(content)["code"]) == (408, "request-timeout")
        assert headers["content-type"] == "application/problem+json"
        assert client.closed()
        assert silent.closed()


def test_stalled_bodies_end_their_connections(address: tuple[str, int]) -> None:
    """408 on every route, even if a byte arrives now and then."""
    with ExitStack() as stack:
        stalled = {}
        for path in (PATH, "/v1/datasets", "/v1/jobs"):
            kind = "text/csv" if path == "/v1/datasets" else "application/json"
            for announced in (200, 500_000):
                client = stack.enter_context(Connection(address))
                lines = ["Host: x", f"Content-Type: {kind}", f"Content-Length: {announced}", "", ""]
                client.send("\r\n".join([f"POST {path} HTTP/1.1", *lines]).encode())
                stalled[client.socket] = client, b"{"
            client = stack.enter_context(Connection(address))
            lines = ["Host: x", f"Content-Type: {kind}", "Transfer-Encoding: chunked", "", ""]
            client.send("\r\n".join([f"POST {path} HTTP/1.1", *lines]).encode())
            stalled[client.socket] = client, b"1;" + b"a" * 9000 + b"\r\n{\r\n"
        while stalled:
            answered = select.select(stalled, [], [], 0.1)[0]
            for client, _ in map(stalled.pop, answered):
                status, _, content = client.reply()
                assert (status, json.loads(content)["code"]) == (408, "request-timeout")
            for client, more in stalled.values():
                client.send(more)


def test_slow_body_is_received(address: tuple[str, int]) -> None:
    """Some kilobytes within each timeout, by protocol and application."""
    content = body(2.0) + b" " * 20_000
    paths = PATH, PATH.replace("iris", "%69ris")  # answered by the protocol, and by the application
    with Connection(address) as one, Connection(address) as other:
        for client, path in zip((one, other), paths, strict=True):
            client.send(request(content, path=path)[: -len(content)])
        began = time.monotonic()
        for i in range(0, len(content), 3000):
            for client in (one, other):
                client.send(content[i : i + 3000])
            time.sleep(TIMEOUT_S / 5)
        assert time.monotonic() - began > TIMEOUT_S
        for client in (one, other):
            assert values(client.reply()) == decision(2.0)


def test_unread_body_cannot_keep_a_connection_open(address: tuple[str, int]) -> None:
    """The reply does not need the body, which is too large to be awaited before the application is
    asked."""
    with Connection(address) as client:
        client.send(b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 90000\r\n\r\n")
        assert client.reply()[0] == 404
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            client.send(*[b"x"] * 40, pause_s=0.1)


def test_number_of_connections_is_limited(settings: Settings) -> None:
    """One more receives 503 with Retry-After; after one is closed, another is accepted."""
    app = create_app(settings.model_copy(update={"connections": 3, "header_s": 10.0}))
    with served(app) as url:
        address = "127.0.0.1", int(url.rpartition(":")[2])
        three = Connection(address), Connection(address), Connection(address)
        with Connection(address) as refused:
            status, headers, content = refused.reply()
            assert (status, json.loads(content)["code"]) == (503, "too-many-connections")
            assert int(headers["retry-after"]) > 0
            assert refused.closed()
        for each in three:
            each.socket.close()
        assert any(_is_accepted(address) for _ in range(1000))


def _is_accepted(address: tuple[str, int]) -> bool:
    """Whether a new connection gets a reply other than 503."""
    with Connection(address) as client, suppress(ConnectionError):
        client.send(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        return client.reply()[0] == 200
    return False


@pytest.mark.long
def test_timeouts_do_not_affect_other_connections(address: tuple[str, int]) -> None:
    """A connection that is idle between two requests, or waits for a reply."""
    with Connection(address) as client:
        for _ in range(2):
            client.send(request(body(2.0)))
            assert values(client.reply()) == decision(2.0)
            time.sleep(1.2 * TIMEOUT_S)
        client.send(request(csv_of().encode(), "Content-Type: text/csv", path="/v1/datasets"))
        assert client.reply()[0] == 201
        client.send(request(json.dumps(job_body()).encode(), path="/v1/jobs"))
        job = json.loads(client.reply()[2])
        began = time.monotonic()
        client.send(f"GET /v1/jobs/{job['id']}?wait_s=2 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert client.reply()[0] == 200
        assert time.monotonic() - began > 1.5 * TIMEOUT_S


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"HELLO\r\n\r\n", "malformed-request"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n", "malformed-request"),
        (
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n",
            "ambiguous-length",
        ),
    ],
)
def test_invalid_request_is_a_problem(address: tuple[str, int], data: bytes, code: str) -> None:
    """Even before the path was read."""
    with Connection(address) as client:
        client.send(data)
        status, headers, content = client.reply()
        problem = json.loads(content)
        assert (status, problem["code"]) == (400, code)
        assert headers["content-type"] == "application/problem+json"
        assert headers["x-request-id"] == problem["request_id"]
        assert headers["x-content-type-options"] == "nosniff"
        assert client.closed()


@pytest.mark.parametrize("line", [b"X: " + b"a" * 65_530, b"a: b\r\n" * 10_925])
def test_header_has_a_limit(address: tuple[str, int], line: bytes) -> None:
    """One long line, or many: 431 long before the timeout, and nothing more is read."""
    with Connection(address) as client:
        client.send(b"GET /v2/models/iris HTTP/1.1\r\nHost: x\r\n", line)
        status, headers, content = client.reply()
        assert (status, json.loads(content)["code"]) == (431, "header-too-large")
        assert json.loads(content)["error"]
        assert headers["content-type"] == "application/json"
        assert client.closed()


def test_inline_replies_have_the_headers_of_all_others(address: tuple[str, int]) -> None:
    with Connection(address) as client:
        inline, slow = [], []
        for _ in range(3):
            client.send(request(body(1.0)))
            inline.append(client.reply()[1])
            client.send(request(body(1.0), path=PATH.replace("iris", "%69ris")))
            slow.append(client.reply()[1])
    for one, other in zip(inline, slow, strict=True):
        assert one.keys() == other.keys()
        for name in ("referrer-policy", "content-security-policy", "cache-control"):
            assert one[name] == other[name]


def test_disconnects_do_not_affect_others(address: tuple[str, int]) -> None:
    """In the middle of a header or a body, or before the reply."""
    whole = request(body(2.0))
    large = request(b" " * 500_000, path="/v1/models/wide/predict")
    for data in (whole[:20], whole[:-5], whole, large[:200_000], large):
        for _ in range(5):
            with Connection(address) as client:
                client.send(data)
    with Connection(address) as client:
        client.send(whole)
        assert values(client.reply()) == decision(2.0)


def test_client_that_leaves_several_requests_is_no_error(address: tuple[str, int]) -> None:
    """The reply that it does not wait for is not written to a closed connection."""
    large = request(b" " * 500_000, path="/v1/models/wide/predict")
    with structlog.testing.capture_logs() as entries:
        for _ in range(5):
            with Connection(address) as client:
                client.send(large + request(body(2.0)) * 3)
        with Connection(address) as client:
            client.send(large)  # it is answered after the others
            client.reply()
    assert [entry for entry in entries if entry["log_level"] == "error"] == []


def test_every_reply_has_its_own_id_and_a_date(address: tuple[str, int]) -> None:
    """A caller's id is returned."""
    seen = set()
    with Connection(address) as client:
        for _ in range(5):
            client.send(request(body(1.0)))
            _, headers, _ = client.reply()
            assert re.fullmatch("[0-9a-f]{32}", headers["x-request-id"])
            assert headers["date"].endswith("GMT")
            seen.add(headers["x-request-id"])
        for number in range(3):
            client.send(request(body(1.0), f"X-Request-Id: mine-{number % 2}"))
            assert client.reply()[1]["x-request-id"] == f"mine-{number % 2}"
    assert len(seen) == 5


def test_client_that_does_not_read_is_disconnected(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With megabytes unread; a client that reads slowly gets all of them."""
    monkeypatch.setattr(messages, "UNREAD_S", 0.5)
    ask = b"GET /docs/assets/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n"
    replies = 10
    with Connection(address) as client:
        client.send(ask * replies)
        for _ in range(replies):
            assert client.reply()[0] == 200
            time.sleep(0.1)
    with Connection(address) as client:
        client.send(ask * replies)
        time.sleep(1.5)
        with pytest.raises((ConnectionResetError, AssertionError)):
            deque((client.reply() for _ in range(replies)), maxlen=0)
