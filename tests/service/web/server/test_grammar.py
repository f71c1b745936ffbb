"""Any requests in any packets get the replies of the slow way, on which uvicorn receives each
byte at once and the application answers everything."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from itertools import pairwise
from random import Random
from typing import NamedTuple

import pytest

from service.app import create_app
from service.settings import Limits, Settings
from service.web.server.messages import MessageProtocol
from tests.connection import Connection
from tests.service.models.registered_models import RegisteredModels, fitted_pipeline
from tests.service.predictions.predict_paths import served

Address = tuple[str, int]

pytestmark = pytest.mark.one_application(limits=Limits(predict_body_bytes=600_000))

STREAMS = 20
"""Of each test and seed; more find nothing else."""
ROWS = b'{"instances": [[1, 2, 3], [0.5, -1e-3, 7]], "outputs": ["decision", "label"]}'
TENSOR = b'{"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP64", "data": [1, 2, 3]}]}'
BODIES = (
    *[ROWS] * 6,
    b'{"instances": [[1, 2, null]]}',
    b'{"instances": [[1, 2]]}',
    b'{"instances": [[1e308, 1e308, -1e308]]}',
    b'{"instances": [{"a": 1}], "outputs": ["nothing"]}',
    b"{",
    b"1,2,3\n",
    gzip.compress(ROWS, mtime=0),
    TENSOR,
    b"",
    ROWS + b" " * 300_000,
    ROWS + b" " * 700_000,
)
PATHS = (
    *[b"/v1/models/iris/predict"] * 8,
    b"/v1/models/iris/versions/1/predict",
    b"/v1/models/iris/aliases/latest/predict",
    b"/v2/models/iris/infer",
    b"/v1/models/none/predict",
    b"/v1/models/iris/predict?outputs=label",
    b"/v1/models/ir%69s/predict",
    b"http://x/v1/models/iris/predict",
    b"/v1/models/iris",
    b"/livez",
)
METHODS = (*[b"POST"] * 12, b"GET", b"HEAD", b"PUT", b"OPTIONS")
HEADERS = (
    b"Content-Type: application/json",
    b"CONTENT-type:application/json; charset=utf-8",
    b"Content-Type: text/csv",
    b"Content-Type: text/none",
    b"Content-Encoding: gzip",
    b"Content-Encoding: br",
    b"Accept: application/json",
    b"Accept: text/csv",
    b"Accept: text/csv;q=0.5, */*",
    b"Accept: image/png",
    b"Accept-Encoding: gzip",
    b"Connection: keep-alive",
    b"Connection: Upgrade\r\nUpgrade: h2c",
    b"Content-Digest: sha-256=:AAAA:",
    b"Cookie: a=b; svm_key=c",
    b"Authorization: Bearer unknown",
    b"Origin: https://other.example",
    b"Expect: 100-continue",
    b"TE: trailers",
    b"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    b"X-Request-Id: one",
    b"X-Request-Id: not valid",
    b"X-Empty:",
    b"X-Long: " + b"a" * 5000,
)
LAST = (
    b"Connection: close",
    b"Host: other",
    b"Content-Length: 3",
    b"Transfer-Encoding: gzip",
    b"TE: chunked",
    b"X-Long: " + b"a" * 70_000,
    b"no colon",
)
"""After one of these the server closes."""


class Stream(NamedTuple):
    """Requests that are sent one after the other, without waiting; the last one ends it."""

    methods: list[bytes]
    data: bytes


@pytest.fixture(scope="module")
def addresses(settings_of_module: Settings) -> Iterator[tuple[Address, Address]]:
    """Of the service, and of one whose protocol passes on everything."""
    slow = create_app(settings_of_module)
    slow.http_protocol = partial(MessageProtocol, slow.connection_limits)  # type: ignore[arg-type, assignment]
    with served(create_app(settings_of_module)) as url, served(slow) as slow_url:
        registered = RegisteredModels(settings_of_module)
        registered.add("iris", fitted_pipeline(n_features=3))
        registered.database.close()
        yield _address(url), _address(slow_url)


def _address(url: str) -> Address:
    return "127.0.0.1", int(url.rpartition(":")[2])


def a_message(random: Random, last: bool) -> tuple[bytes, bytes]:
    """Its method, and all of its bytes."""
    method, path, body = random.choice(METHODS), random.choice(PATHS), random.choice(BODIES)
    if random.random() < 0.5:
        method, path, body = b"POST", PATHS[0], ROWS
    headers = random.sample(HEADERS, random.choice((0, 1, 1, 2, 4)))
    version = b"1.1"
    if last:
        version = random.choice((b"1.1", b"1.1", b"1.0", b"2.0"))
        if version != b"2.0":  # one reason is enough: of two the packets decide
            headers.append(b"Connection: close" if version == b"1.0" else random.choice(LAST))
    form = random.random()
    if form < 0.15:
        headers.append(b"Transfer-Encoding: chunked")
        cuts = [0, *sorted(random.sample(range(len(body) + 1), min(2, len(body)))), len(body)]
        chunks = [body[a:b] for a, b in pairwise(cuts) if a < b]
        body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
        body += b"0\r\n" + random.choice((b"", b"X-Trailer: a\r\n")) + b"\r\n"
    elif body or form < 0.9:
        headers.append(b"Content-Length: %d" % len(body))
    random.shuffle(headers)
    headers.insert(0, b"Host: localhost")
    lines = b"".join(header + b"\r\n" for header in headers)
    return method, b"%b %b HTTP/%b\r\n%b\r\n%b" % (method, path, version, lines, body)


def a_stream(random: Random) -> Stream:
    messages = [a_message(random, False) for _ in range(random.randrange(6))]
    messages.append(a_message(random, True))
    return Stream([method for method, _ in messages], b"".join(data for _, data in messages))


def pieces(random: Random, data: bytes) -> list[bytes]:
    cuts = [0, *sorted(random.sample(range(len(data)), random.randrange(4))), len(data)]
    return [data[a:b] for a, b in pairwise(cuts)]


def replies(address: Address, stream: Stream, packets: list[bytes]) -> list[object]:
    """All that the server says until it closes."""
    with Connection(address) as client:
        with suppress(ConnectionError):  # it need not read what follows a refusal
            client.send(*packets, pause_s=0.002)
        said = bytearray()
        with suppress(ConnectionResetError):
            while data := client.socket.recv(1 << 20):
                said += data
    return list(_parsed(bytes(said), list(stream.methods)))


def _parsed(said: bytes, methods: list[bytes]) -> Iterator[object]:
    while said:
        head, _, said = said.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        if status == "HTTP/1.1 100 Continue":
            continue  # it depends on what has arrived
        method = methods.pop(0) if methods else b""
        size = int(headers.get("content-length", 0))
        if method == b"HEAD" and (not said or said.startswith(b"HTTP/1.1 ")):
            size = 0  # only a refusal has a body
        body, said = said[:size], said[size:]
        request_id = headers.pop("x-request-id")
        headers.pop("date", None)
        if " 431 " in status:
            yield status  # its path and id may not have arrived
        else:
            own = request_id == "one"
            yield status, headers, own, re.sub(rb'"request_id": ?"[^"]*"', b"", body)


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "among others"])
@pytest.mark.parametrize("seed", range(4))
def test_any_requests_in_any_packets(
    addresses: tuple[Address, Address], seed: int, alone: bool
) -> None:
    """Among other connections a prediction is answered at the end of the turn of the loop."""
    random = Random(seed)
    fast, slow = addresses
    with ExitStack() as stack:
        if not alone:
            stack.enter_context(Connection(fast))
        for _ in range(STREAMS):
            stream = a_stream(random)
            packets = pieces(random, stream.data)
            expected = replies(slow, stream, packets)
            assert replies(fast, stream, packets) == expected, (packets[:3], len(stream.data))


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "among others"])
def test_every_cut_of_three_requests(addresses: tuple[Address, Address], alone: bool) -> None:
    """A prediction, a fault and a prediction, in two packets, and byte by byte. Alone, the cuts are
    at even bytes; among others at odd ones."""
    fast, _ = addresses
    bad = b'{"instances": [[1, 2, null]]}'
    head = b"POST /v1/models/iris/predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    data = b"".join(head % len(body) + body for body in (ROWS, bad, ROWS))
    with ExitStack() as stack:
        client = stack.enter_context(Connection(fast))
        if not alone:
            stack.enter_context(Connection(fast))
        for cut in range(2 if alone else 1, len(data), 2):
            client.send(data[:cut], data[cut:], pause_s=0.001 if cut % 5 else 0)
            assert [client.reply()[0] for _ in range(3)] == [200, 422, 200], cut
        client.send(*(data[i : i + 1] for i in range(len(data))))
        assert [client.reply()[0] for _ in range(3)] == [200, 422, 200]


ONE_BY_ONE = {
    b"Accept": (b"*/*", b"text/csv", b"application/x-npy", b"image/png", b"text/*;q=0.1, */*;q=0"),
    b"Accept-Encoding": (b"gzip", b"deflate", b"br", b"gzip, deflate", b"identity;q=0"),
    b"Authorization": (b"Bearer svm_none", b"Basic x", b""),
    b"Content-Digest": (b"sha-256=:AAAA:", b"md5=:AAAA:", b"none"),
    b"Content-Encoding": (b"gzip", b"identity", b"br", b""),
    b"Content-Type": (b"text/csv", b"image/png", b"", b"application/json; charset=utf-16"),
    b"Cookie": (b"svm_key=svm_none", b'a="\\"', b"a" * 5000),
    b"Expect": (b"100-continue", b"200-ok"),
    b"Host": (b"other.example", b"localhost:1", b"[::1]", b""),
    b"Idempotency-Key": (b"one", b"\xff", b""),
    b"If-Match": (b"*", b'"1"', b"x"),
    b"If-None-Match": (b"*", b"x"),
    b"Inference-Header-Content-Length": (b"0", b"26", b"-1", b"9" * 5000),
    b"Origin": (b"https://other.example", b"http://localhost", b"null", b"http://[", b"", b"://"),
    b"Range": (b"bytes=0-1", b"bytes=9-"),
    b"Sec-Fetch-Site": (b"cross-site", b"same-site", b"same-origin", b"none", b"", b"x"),
    b"TE": (b"trailers", b"gzip"),
    b"traceparent": (b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", b"x"),
    b"Upgrade": (b"h2c", b"websocket"),
    b"User-Agent": (b"", b"curl/8"),
    b"X-Forwarded-For": (b"10.0.0.1", b"x"),
    b"X-Forwarded-Proto": (b"https", b"x"),
    b"X-Request-Id": (b"one", b"not valid"),
}
"""What either way reads, and some that neither reads."""


@pytest.mark.parametrize("path", [b"/v1/models/iris/predict", b"/v2/models/iris/infer"])
def test_one_answer_on_both_ways(addresses: tuple[Address, Address], path: bytes) -> None:
    """For every header, one request at a time: on a kept connection, twice, with `close`, in a
    chunk, and on the slow way."""
    fast, slow = addresses
    body = TENSOR if path.startswith(b"/v2") else ROWS
    length, chunked = b"Content-Length: %d" % len(body), b"Transfer-Encoding: chunked"
    chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    forms = (
        (slow, length, body),
        (fast, length, body),
        (fast, length, body),
        (fast, chunked, chunk),
        (fast, length + b"\r\nConnection: close", body),
    )
    with Connection(slow) as one, Connection(fast) as other:
        kept = {slow: one, fast: other}
        for name, values in ONE_BY_ONE.items():
            for value in values:
                answers = []
                for address, framing, sent in forms:
                    host = b"" if name == b"Host" else b"Host: localhost\r\n"
                    head = b"POST %b HTTP/1.1\r\n%b%b\r\n%b: %b\r\n\r\n"
                    kept[address].send(head % (path, host, framing, name, value) + sent)
                    status, headers, content = kept[address].reply()
                    if status == 100:
                        status, headers, content = kept[address].reply()
                    for varying in ("date", "connection", "x-request-id"):
                        headers.pop(varying, None)
                    content = re.sub(rb'"request_id": ?"[^"]*"', b"", content)
                    answers.append((status, headers, content))
                assert answers == [answers[0]] * len(forms), (name, value)
                kept[fast].socket.close()
                kept[fast] = Connection(fast)
        kept[fast].socket.close()


def test_connection_is_used_again_after_every_kind_of_reply(
    addresses: tuple[Address, Address],
) -> None:
    """A fault, a wrong format, a missing model, a body above the limit, a head without a body."""
    fast, _ = addresses
    good = b"POST /v1/models/iris/predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b"
    good %= len(ROWS), ROWS
    with Connection(fast) as client:
        for path, header, status in (
            (b"/v1/models/iris/predict", b"Content-Type: text/none", 415),
            (b"/v1/models/iris/predict", b"Accept: image/png", 406),
            (b"/v1/models/none/predict", b"X: y", 404),
            (b"/v1/models/iris/predict?outputs=none", b"X: y", 400),
            (b"/v1/models/iris/predict", b"Content-Encoding: gzip", 415),
        ):
            client.send(
                b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%b\r\n\r\n%b"
                % (path, len(ROWS), header, ROWS)
            )
            assert client.reply()[0] == status, (path, header)
            client.send(good)
            assert json.loads(client.reply()[2])["label"]
