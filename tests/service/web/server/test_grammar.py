"""Any requests in any packets get the replies of the slow way, on which uvicorn receives each
byte at once and the application answers everything."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from random import Random
from typing import NamedTuple

import httpx2
import pytest

from service.app import create_app
from service.common.keys import Keys, Scope
from service.settings import Limits, Settings
from service.storage.database import Database
from service.storage.disk import private_folder
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
    b"Connection: x, Close",
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
        registered.add("other", fitted_pipeline(n_features=3))
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
        if version == b"1.0":
            headers.append(
                random.choice((b"Connection: close", b"Connection: keep-alive", b"X: y"))
            )
        elif version == b"1.1":  # one reason is enough: of two the packets decide
            headers.append(random.choice(LAST))
    form = random.random()
    if form < 0.15:
        headers.append(b"Transfer-Encoding: chunked")
        cuts = [0, *sorted(random.sample(range(len(body) + 1), min(2, len(body)))), len(body)]
        chunks = [body[a:b] for a, b in pairwise(cuts) if a < b]
        extension = random.choice((b"", b";a=b"))
        parts = ((len(chunk), extension, chunk) for chunk in chunks)
        body = b"".join(b"%x%b\r\n%b\r\n" % part for part in parts)
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
    """A prediction, a fault and a prediction in chunks, in two packets, and byte by byte. The cuts
    are at even bytes alone, among others at odd ones; half of them."""
    fast, _ = addresses
    bad = b'{"instances": [[1, 2, null]]}'
    requests = ((FORMS["query"], ROWS), (FORMS["length"], bad), (FORMS["chunks"], ROWS))
    data = b"".join(form.request(PATHS[0], b"", body) for form, body in requests)
    with ExitStack() as stack:
        client = stack.enter_context(Connection(fast))
        if not alone:
            stack.enter_context(Connection(fast))
        for cut in range(2 if alone else 1, len(data), 4):
            client.send(data[:cut], data[cut:], pause_s=0.001 if cut % 5 else 0)
            assert [client.reply()[0] for _ in range(3)] == [200, 422, 200], cut
        client.send(*(data[i : i + 1] for i in range(len(data))))
        assert [client.reply()[0] for _ in range(3)] == [200, 422, 200]


ONE_BY_ONE = {
    b"Accept": (b"*/*", b"text/csv", b"application/x-npy", b"image/png", b"text/*;q=0.1, */*;q=0"),
    b"Accept-Encoding": (b"gzip", b"deflate", b"br", b"gzip, deflate", b"identity;q=0"),
    b"Authorization": (b"Bearer svm_none", b"Basic x", b""),
    b"Connection": (b"close", b"keep-alive", b"close, x", b"TE, Close", b"x"),
    b"Content-Digest": (b"sha-256=:AAAA:", b"md5=:AAAA:", b"none"),
    b"Content-Encoding": (b"gzip", b"identity", b"br", b""),
    b"Content-Length": (b"3",),
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
    b"TE": (b"trailers", b"gzip", b"chunked"),
    b"traceparent": (b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", b"x"),
    b"Transfer-Encoding": (b"chunked", b"gzip, chunked", b"identity"),
    b"Upgrade": (b"h2c", b"websocket"),
    b"User-Agent": (b"", b"curl/8"),
    b"X-Forwarded-For": (b"10.0.0.1", b"x"),
    b"X-Forwarded-Proto": (b"https", b"x"),
    b"X-Request-Id": (b"one", b"not valid"),
}
"""What either way reads, and some that neither reads."""
MANY_ROWS = b'{"instances": [%b], "outputs": ["decision"]}' % b",".join([b"[1,2,3]"] * 60)
"""Of which the reply is long enough to be compressed."""
QUERIES = (
    *(
        b"",
        b"outputs",
        b"outputs=",
        b"outputs=label",
        b"outputs=label,%20decision",
        b"outputs=none",
    ),
    *(b"outputs=label&", b"&&outputs=label", b"outputs=label&outputs=label", b"outputs=label;x=1"),
    *(b"outputs=l%61bel", b"%6futputs=label", b"outputs=label+", b"outputs=label%00", b"Outputs=x"),
    *(b"outputs=label#x", b"#outputs=none", b"outputs=%ff", b"?outputs=label", b"outputs=label?"),
    *(b"coverage=0.9", b"coverage=+.9", b"coverage=%209e-1", b"coverage=0_9", b"coverage=0.9#"),
    *(b"coverage=", b"coverage=nan", b"coverage=1", b"coverage=\xd9\xa0.5", b"withheld=.05"),
    *(b"withheld=0.05&outputs=label_or_none", b"x=1", b"x", b"=", b"=x", b"x=1&x=1", b"\xff=1"),
    *(b"outputs=label&" * 40, b"outputs=" + b"label," * 900),
)


class Form(NamedTuple):
    """How a request is sent."""

    version: bytes = b"1.1"
    header: bytes = b""
    chunked: bool = False
    query: bytes = b""

    def request(self, path: bytes, line: bytes, body: bytes) -> bytes:
        """With one more `line` in the header."""
        if self.chunked:
            half = len(body) // 2
            parts = [(len(part), part) for part in (body[:half], body[half:])]
            body = b"".join(b'%x;a="b";c\r\n%b\r\n' % part for part in parts)
            body += b"0;d\r\nAccept: image/png\r\nX: y\r\n\r\n"
            framing = b"Transfer-Encoding: chunked\r\n"
        else:
            framing = b"Content-Length: %d\r\n" % len(body)
        host = b"" if line.startswith(b"Host:") else b"Host: localhost\r\n"
        head = b"POST %b%b HTTP/%b\r\n" % (path, self.query, self.version)
        return head + host + self.header + framing + line + b"\r\n" + body


FORMS = {
    "length": Form(),
    "chunks": Form(chunked=True),
    "query": Form(query=b"?outputs=label"),
    "close": Form(header=b"Connection: close, x\r\n"),
    "chunks, close": Form(header=b"Connection: close\r\n", chunked=True),
    "HTTP/1.0": Form(b"1.0"),
    "HTTP/1.0, kept": Form(b"1.0", b"Connection: keep-alive\r\n", chunked=True),
}


class Client:
    """Sends requests one by one, each after the reply to the one before, on one connection for as
    long as the server keeps it."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._connection: Connection | None = None
        self._before = self._counts()

    def answer(self, request: bytes, *more: bytes) -> object:
        """What matters of the reply, and whether the connection is closed after it."""
        if self._connection is None:
            self._connection = Connection(self._address)
        self._connection.send(request, *more)
        status, headers, content = self._connection.reply()
        if status == 100:
            status, headers, content = self._connection.reply()
        for varying in ("date", "x-request-id"):
            headers.pop(varying, None)
        if headers.get("connection") == "close":
            assert self._connection.closed()
            self.close()
        else:
            assert not self._connection.more_comes(0)
        return status, headers, re.sub(rb'"request_id": ?"[^"]*"', b"", content)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.socket.close()
        self._connection = None

    def counted(self) -> dict[str, float]:
        """What the metrics have counted of it, when its last request is."""
        self.close()
        now = self._counts()
        return {line: count - self._before.get(line, 0.0) for line, count in now.items()}

    def _counts(self) -> dict[str, float]:
        host, port = self._address
        lines = httpx2.get(f"http://{host}:{port}/metrics").text.splitlines()
        counts = (line.rpartition(" ")[::2] for line in lines if line.startswith("svm_"))
        return {
            line: float(count)
            for line, count in counts
            if count != "0.0"
            and re.search("(_total|_count|_requests)({|$)", line)
            and "/metrics" not in line
        }


@pytest.fixture
def clients(addresses: tuple[Address, Address]) -> Iterator[tuple[Client, Client]]:
    """Of the service and of the slow way, which count the same."""
    fast, slow = map(Client, addresses)
    yield fast, slow
    assert fast.counted() == slow.counted()


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    "path", [b"/v1/models/iris/predict", b"/v2/models/iris/infer", b"/v1/models/none/predict"]
)
def test_one_answer_on_both_ways(clients: tuple[Client, Client], path: bytes, form: Form) -> None:
    """For every header, alone and twice in either order; each request two times, of which the
    second finds the first remembered."""
    fast, slow = clients
    body = TENSOR if path.startswith(b"/v2") else MANY_ROWS
    for name, values in ONE_BY_ONE.items():
        one, other = values[0], values[-1]
        for given in (*((value,) for value in values), (one, other), (other, one)):
            lines = b"".join(b"%b: %b\r\n" % (name, value) for value in given)
            for _ in range(2):
                request = form.request(path, lines, body)
                assert fast.answer(request) == slow.answer(request), (name, given)
    for version in (b"1.0", b"1.1"):
        request = form._replace(version=version).request(path, b"", body)
        request = request.replace(b"Host: localhost\r\n", b"")
        assert fast.answer(request) == slow.answer(request), version


@pytest.mark.parametrize("path", [b"/v1/models/iris/predict", b"/v2/models/iris/infer"])
def test_queries_on_both_ways(clients: tuple[Client, Client], path: bytes) -> None:
    fast, slow = clients
    body = TENSOR if path.startswith(b"/v2") else ROWS
    for query in QUERIES:
        for mark in (b"?", b"#", b"/?"):
            request = Form(query=mark + query).request(path, b"", body)
            for _ in range(2):
                assert fast.answer(request) == slow.answer(request), (mark, query)


@pytest.mark.parametrize("seed", range(2))
def test_any_requests_one_by_one(clients: tuple[Client, Client], seed: int) -> None:
    fast, slow = clients
    random = Random(seed)
    for _ in range(60):
        last = random.random() < 0.3
        method, data = a_message(random, last)
        if method != b"HEAD" and len(data) < 64 * 1024:
            packets = (
                [data] if last else pieces(random, data)
            )  # a refusal may be sent before its end
            assert fast.answer(*packets) == slow.answer(*packets), data[:3000]


def test_of_two_keys_the_same_counts(tmp_path: Path) -> None:
    """In Authorization, twice, or in a cookie, each after a request with another."""
    settings = Settings(data_dir=tmp_path / "var", workers=0, auth="on")
    private_folder(settings.data_dir)
    database = Database(settings.database_url)
    database.migrate()
    scopes: tuple[Scope, ...] = ("predict", "read")
    keys = [Keys(database).create(scope, (scope,))[1].encode() for scope in scopes]
    database.close()
    lines = [
        *(b"Authorization: Bearer " + key for key in (*keys, b"svm_none")),
        *(b"Cookie: svm_key=" + key for key in keys),
        *(b"Authorization: bearer  %b " % keys[0], b"X: y"),
    ]
    slow_app, statuses = create_app(settings), set()
    slow_app.http_protocol = partial(MessageProtocol, slow_app.connection_limits)  # type: ignore[arg-type, assignment]
    with served(create_app(settings)) as url, served(slow_app) as slow_url:
        registered = RegisteredModels(settings)
        registered.add("iris", fitted_pipeline(n_features=3))
        registered.database.close()
        fast, slow = _address(url), _address(slow_url)
        with Connection(fast) as one, Connection(slow) as other:
            for pair in product(lines, lines):
                given = b"".join(line + b"\r\n" for line in pair)
                request = Form().request(PATHS[0], given, ROWS)
                for _ in range(2):
                    answers = []
                    for client in (one, other):
                        client.send(request)
                        status, _, content = client.reply()
                        answers.append((status, content.partition(b"request_id")[0]))
                    assert answers[0] == answers[1], pair
                    statuses.add(status)
    assert statuses == {200, 401, 403}


@pytest.mark.parametrize("company", [0, 1], ids=["alone", "among others"])
def test_what_follows_the_last_request_is_ignored(
    addresses: tuple[Address, Address], company: int
) -> None:
    """In the same packet, after a request that ends the connection."""
    more = b"DELETE /v1/models/other HTTP/1.1\r\nHost: x\r\nIf-Match: *\r\n\r\n"
    with ExitStack() as stack:
        for address in addresses:
            for _ in range(company):
                stack.enter_context(Connection(address))
            for form in ("close", "chunks, close", "HTTP/1.0", "HTTP/1.0, kept"):
                request = FORMS[form].request(PATHS[0], b"", ROWS)
                for packet in (request + more, request * 2, request + more[:20]):
                    with Connection(address) as client:
                        client.send(packet)
                        status, headers, _ = client.reply()
                        assert (status, headers["connection"]) == (200, "close")
                        assert client.closed()
            host, port = address
            assert httpx2.get(f"http://{host}:{port}/v1/models/other").status_code == 200


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
