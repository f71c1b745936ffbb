"""Messages as bytes: one reply to each request, with offers to upgrade and in any packets."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from service.app import create_app
from service.settings import Limits, Settings
from tests.connection import Connection
from tests.service.jobs.data import csv_of
from tests.service.predictions.predict_paths import served, url

__all__ = ["url"]

pytestmark = pytest.mark.one_application(
    limits=Limits(upload_bytes=5_000_000), header_s=10.0, body_idle_s=10.0
)

H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAA\r\n"
"""The header that curl and Java send."""
WEBSOCKET = (
    b"Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
CSV = csv_of(40).encode()
LIVEZ = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
LIMIT = 64 * 1024
PREDICTION = (
    b"POST /v1/models/none/predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"2\r\n{}\r\n0\r\n"
)
"""Without the end of its trailers."""


@pytest.fixture
def address(url: str) -> tuple[str, int]:
    return "127.0.0.1", int(url.rpartition(":")[2])


@pytest.fixture(scope="module")
def own_hosts(settings_of_module: Settings) -> Iterator[tuple[str, int]]:
    """A service that is reached as localhost only."""
    with served(create_app(settings_of_module, ())) as url:
        yield "127.0.0.1", int(url.rpartition(":")[2])


def upload(offer: bytes, chunked: bool = False) -> bytes:
    length = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % len(CSV)
    half = len(CSV) // 2
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (CSV[:half], CSV[half:]))
    return (
        b"POST /v1/datasets HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\n"
        + offer
        + length
        + b"\r\n\r\n"
        + (chunks + b"0\r\nDigest: none\r\n\r\n" if chunked else CSV)
    )


UPLOAD = upload(b"", chunked=True)[:-2]
"""The same."""


def check_upload(client: Connection) -> None:
    status, _, content = client.reply()
    assert status in (200, 201), content
    assert json.loads(content)["n_samples"] == 40


def problem_of(client: Connection) -> tuple[int, str, str]:
    """Status, code and detail."""
    status, headers, content = client.reply()
    assert headers["content-type"] == "application/problem+json"
    problem = json.loads(content)
    return status, problem["code"], problem["detail"]


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
@pytest.mark.parametrize("offer", [H2C, WEBSOCKET], ids=["h2c", "websocket"])
def test_offer_to_upgrade_is_ignored(address: tuple[str, int], offer: bytes, chunked: bool) -> None:
    """The body is read; the next request, with or without such an offer, gets its own reply."""
    whole = upload(offer, chunked)
    get = LIVEZ[:-2] + offer + b"\r\n"
    header = whole.index(b"\r\n\r\n") + 4
    with Connection(address) as client:
        for pieces in (
            [whole],
            [whole[:header], whole[header:]],
            [whole[: header - 1], whole[header - 1 :]],
            [whole[:header], whole[header:] + LIVEZ],
            [whole + LIVEZ],
            [whole + get + LIVEZ + whole],
        ):
            client.send(*pieces, pause_s=0.01)
            check_upload(client)
            sent = b"".join(pieces)
            for _ in range(sent.count(b"GET /livez")):
                assert client.reply()[2] == b'{"status":"ok"}'
            if sent.count(b"POST") == 2:
                check_upload(client)


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_upgrade_in_packets_of_every_size(address: tuple[str, int], chunked: bool) -> None:
    """Exactly one reply to each request."""
    both = upload(H2C, chunked) + LIVEZ
    with Connection(address) as client:
        for size in (1, 2, 3, 7, 50, 199, 200, 1000, len(both)):
            client.send(*(both[i : i + size] for i in range(0, len(both), size)))
            check_upload(client)
            assert client.reply()[2] == b'{"status":"ok"}'
            assert not client.more_comes()


def test_body_after_an_offer_is_not_a_request(address: tuple[str, int]) -> None:
    """The header in one packet and the body in the next: one reply, not two."""
    with Connection(address) as client:
        header = b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\n%bContent-Length: %d\r\n\r\n"
        client.send(header % (H2C, len(LIVEZ)), LIVEZ, pause_s=0.1)
        assert problem_of(client)[:2] == (400, "malformed-json")
        assert not client.more_comes()


def test_many_offers_in_one_packet(address: tuple[str, int]) -> None:
    """Each is answered, in order."""
    get = LIVEZ[:-2] + H2C + b"\r\n"
    with Connection(address) as client:
        client.send(get * 500 + b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n")
        assert [client.reply()[0] for _ in range(501)] == [200] * 500 + [404]


def test_prediction_with_an_offer_is_answered(address: tuple[str, int]) -> None:
    """One after the other."""
    request = (
        b"POST /v1/models/none/predict HTTP/1.1\r\nHost: x\r\n%bContent-Length: 2\r\n\r\n{}" % H2C
    )
    with Connection(address) as client:
        for _ in range(3):
            client.send(request)
            assert problem_of(client)[:2] == (404, "not-found")


def test_curl_can_offer_http_2(url: str, tmp_path: Path) -> None:
    """`curl --http2 --data-binary` offers h2c to a plain server."""
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")
    file = tmp_path / "data.csv"
    file.write_bytes(csv_of(5000).encode())
    for extra in ([], ["-H", "Transfer-Encoding: chunked"]):
        command = [curl, "--silent", "--show-error", "--http2", "--max-time", "30", *extra]
        command += ["-H", "Content-Type: text/csv", "--data-binary", f"@{file}"]
        reply = subprocess.run(
            [*command, f"{url}/v1/datasets"], capture_output=True, timeout=60, check=True
        )
        assert json.loads(reply.stdout)["n_samples"] == 5000


JAVA = """
import java.net.URI;
import java.net.http.*;
import java.nio.file.Path;

class Upload {
    public static void main(String[] arguments) throws Exception {
        var client = HttpClient.newHttpClient();
        for (int i = 0; i < 2; i++) {
            var request = HttpRequest.newBuilder(URI.create(arguments[0] + "/v1/datasets"))
                .header("Content-Type", "text/csv")
                .POST(HttpRequest.BodyPublishers.ofFile(Path.of(arguments[1])))
                .build();
            var reply = client.send(request, HttpResponse.BodyHandlers.ofString());
            System.out.println(reply.statusCode() + " " + reply.version());
        }
    }
}
"""


@pytest.mark.torture
def test_java_can_offer_http_2(url: str, tmp_path: Path) -> None:
    """Its client does by default."""
    java = shutil.which("java")
    if java is None:
        pytest.skip("Java is not installed")
    data, program = tmp_path / "data.csv", tmp_path / "Upload.java"
    data.write_bytes(CSV)
    httpx2.post(f"{url}/v1/datasets", content=CSV, headers={"Content-Type": "text/csv"})
    program.write_text(JAVA)
    command = [java, str(program), url, str(data)]
    reply = subprocess.run(command, capture_output=True, timeout=100, check=True)
    assert reply.stdout.split() == [b"200", b"HTTP_1_1"] * 2


@pytest.mark.parametrize("size", [66_000, 80_000, 100_000])
@pytest.mark.parametrize("line", [b"X: %b\r\n", b"%b"], ids=["one line", "many"])
@pytest.mark.parametrize("pieces", [1, 2])
def test_header_in_one_packet_has_a_limit(
    address: tuple[str, int], size: int, line: bytes, pieces: int
) -> None:
    """Also if it is complete, and on a connection that was used before."""
    lines = line % (b"a" * size) if b"X" in line else b"a: b\r\n" * (size // 6)
    header = LIVEZ[:-2] + lines + b"\r\n"
    cut = len(header) // pieces
    with Connection(address) as client:
        client.send(LIVEZ)
        assert client.reply()[0] == 200
        with contextlib.suppress(ConnectionError):  # refused while it is being sent
            client.send(header[:cut], header[cut:] + LIVEZ, pause_s=0.05)
        assert problem_of(client)[:2] == (431, "header-too-large")


def test_header_below_the_limit_is_read(address: tuple[str, int]) -> None:
    """In one packet or several, after a large body."""
    header = LIVEZ[:-2] + b"X: " + b"a" * (LIMIT - 100) + b"\r\n\r\n"
    with Connection(address) as client:
        for size in (len(header), 50_000, 10_000):
            client.send(*(header[i : i + size] for i in range(0, len(header), size)), pause_s=0.01)
            assert client.reply()[0] == 200
        whole = upload(b"") + header
        client.send(whole[:-40_000], whole[-40_000:], pause_s=0.05)
        check_upload(client)
        assert client.reply()[0] == 200


@pytest.mark.parametrize(
    "lines", [b"a: b\r\n" * 11_000, b"a: " + b"b" * 70_000], ids=["many", "one"]
)
@pytest.mark.parametrize("size", [1000, 300_000])
@pytest.mark.parametrize("start", [UPLOAD, PREDICTION], ids=["upload", "prediction"])
def test_trailers_have_a_limit(
    address: tuple[str, int], start: bytes, lines: bytes, size: int
) -> None:
    """In many packets or one, even if a line has no end."""
    whole = start + lines
    with Connection(address) as client:
        with contextlib.suppress(ConnectionError):  # refused while it is being sent
            client.send(*(whole[i : i + size] for i in range(0, len(whole), size)))
        assert problem_of(client)[:2] == (431, "header-too-large")
        assert client.closed()


def test_trailers_below_the_limit_are_ignored(address: tuple[str, int]) -> None:
    """They are not headers of the request, so a key among them is ignored."""
    lines = b"Idempotency-Key: a\r\nHost: y\r\nX: " + b"a" * 60_000
    with Connection(address) as client:
        for size in (1000, 300_000):
            client.send(UPLOAD, *(lines[i : i + size] for i in range(0, len(lines), size)))
            client.send(b"\r\n\r\n" + LIVEZ)
            check_upload(client)
            assert client.reply()[0] == 200
            client.send(PREDICTION, *(lines[i : i + size] for i in range(0, len(lines), size)))
            client.send(b"\r\n\r\n" + LIVEZ)
            assert [client.reply()[0] for _ in range(2)] == [404, 200]


@pytest.mark.parametrize(
    ("request_", "detail"),
    [
        (b"GET /livez HTTP/1.1\r\n\r\n", "no Host headers"),
        (b"GET /livez HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", "2 Host headers"),
        (b"GET /livez HTTP/1.0\r\nHost: x\r\nHost: y\r\n\r\n", "2 Host headers"),
        (b"GET /livez\r\n\r\n", "HTTP/0.9"),
        (b"GET /livez HTTP/0.9\r\nHost: x\r\n\r\n", "HTTP/0.9"),
        (b"GET /livez HTTP/2.0\r\nHost: x\r\n\r\n", "HTTP/2.0"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1"),
        (b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", "target"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "chunked"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", "chunked"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", "chunked"),
        (
            b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n",
            "chunked",
        ),
        (
            b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n",
            "chunked",
        ),
        (b"GET /livez HTTP/1.1\r\nHost: x\r\nTE: gzip, chunked\r\n\r\n", "TE"),
    ],
)
def test_other_protocols_are_refused(
    address: tuple[str, int], request_: bytes, detail: str
) -> None:
    """The detail says why; earlier requests are answered first, later ones are not."""
    with Connection(address) as client:
        client.send(upload(b"") + request_ + LIVEZ)
        check_upload(client)
        status, code, text = problem_of(client)
        assert (status, code) == (400, "malformed-request")
        assert detail in text
        assert client.closed()


def test_http_1_0_needs_no_host(address: tuple[str, int]) -> None:
    """`TE: trailers` is allowed."""
    with Connection(address) as client:
        client.send(b"GET /livez HTTP/1.0\r\nTE: trailers\r\n\r\n")
        assert client.reply()[0] == 200


def test_invalid_chunk_is_refused_in_order(address: tuple[str, int]) -> None:
    """After a request that is still being answered, or alone."""
    broken = upload(b"", chunked=True).replace(b"0\r\nDigest", b"zz\r\nDigest")
    with Connection(address) as client:
        client.send(upload(b"") + broken)
        check_upload(client)
        assert problem_of(client)[:2] == (400, "malformed-request")
        assert client.closed()
    with Connection(address) as client:
        client.send(broken)
        assert problem_of(client)[:2] == (400, "malformed-request")
        assert client.closed()


@pytest.mark.parametrize(
    "line",
    [
        b"GET  /livez HTTP/1.1",
        b"GET /livez  HTTP/1.1",
        b"GET   /livez   HTTP/1.1",
        b"POST  /v1/models/none/predict HTTP/1.1",
        b"GET  http://localhost/livez HTTP/1.1",
    ],
)
def test_request_line_has_single_spaces(address: tuple[str, int], line: bytes) -> None:
    """In one packet, in two that are cut anywhere, and after a request with the same target."""
    request = line + b"\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
    cuts = [[request[:i], request[i:]] for i in range(1, len(line) + 12, 3)]
    for pieces in ([request], *cuts):
        with Connection(address) as client:
            client.send(*pieces, pause_s=0.001)
            status, code, detail = problem_of(client)
            assert (status, code) == (400, "malformed-request"), pieces
            assert "single spaces" in detail
            assert client.closed()
    with Connection(address) as client:
        client.send(LIVEZ + b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n" + request)
        assert [client.reply()[0] for _ in range(2)] == [200, 200]
        assert problem_of(client)[:2] == (400, "malformed-request")
        assert client.closed()


def test_request_line_is_found_in_any_packets(address: tuple[str, int]) -> None:
    """After empty lines, and after a body that contains the next request line."""
    line = b"GET /livez HTTP/1.1\r\n"
    post = b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(line)
    whole = b"\r\n" + LIVEZ + b"\r\n\r\n" + post + line + LIVEZ
    with Connection(address) as client:
        for size in (1, 2, 5, 17, 40, len(whole)):
            client.send(*(whole[i : i + size] for i in range(0, len(whole), size)))
            assert [client.reply()[0] for _ in range(3)] == [200, 400, 200], size


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        (b"http://localhost/livez", b"evil.example", 200),
        (b"HTTP://LOCALHOST:80/livez?", b"evil.example", 200),
        (b"https://[::1]:8000/livez#x", b"evil.example", 200),
        (b"http://localhost", b"evil.example", 200),
        (b"http://localhost?a", b"evil.example", 400),
        (b"http://evil.example/livez", b"localhost", 421),
        (b"http://evil.example/v1/models/none/predict", b"localhost", 421),
        (b"http://localhost@evil.example/livez", b"localhost", 400),
        (b"http:///livez", b"localhost", 400),
        (b"ftp://localhost/livez", b"localhost", 400),
    ],
)
def test_host_of_an_absolute_target_counts(
    own_hosts: tuple[str, int], target: bytes, host: bytes, status: int
) -> None:
    """Instead of that of the header, which must be there nevertheless."""
    with Connection(own_hosts) as client:
        client.send(b"GET %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (target, host))
        assert client.reply()[0] == status
    with Connection(own_hosts) as client:
        client.send(b"GET %b HTTP/1.1\r\n\r\n" % target)
        assert problem_of(client)[:2] == (400, "malformed-request")


def test_origin_is_compared_with_the_host_of_the_target(own_hosts: tuple[str, int]) -> None:
    """A page of the host in the header is another site."""
    request = b"POST http://localhost/v1/jobs HTTP/1.1\r\nHost: %b\r\nOrigin: http://%b\r\n"
    with Connection(own_hosts) as client:
        for host, origin, status in (
            (b"evil.example", b"evil.example", 403),
            (b"evil.example", b"localhost", 400),
            (b"localhost", b"localhost", 400),
        ):
            client.send(request % (host, origin) + b"Content-Length: 1\r\n\r\n{")
            assert client.reply()[0] == status


@pytest.mark.parametrize("ended", [False, True], ids=["half sent", "complete"])
def test_header_has_at_most_200_lines(address: tuple[str, int], ended: bool) -> None:
    """The first is Host."""
    with Connection(address) as client:
        client.send(LIVEZ[:-2] + b"a:b\r\n" * 199 + b"\r\n")
        assert client.reply()[0] == 200
        client.send(LIVEZ[:-2] + b"a:b\r\n" * 201 + b"\r\n" * ended)
        status, code, detail = problem_of(client)
        assert (status, code) == (431, "header-too-large")
        assert "200 lines" in detail
        assert client.closed()


POST = b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\n"
SHORT = b"a:b\r\n" * 190


@pytest.mark.parametrize(
    ("start", "most"),
    [
        (LIVEZ[:-2] + SHORT, 600),
        (b"GET /" + b"a" * 60_000, 200),
        (LIVEZ[:-2] + b"a:" + b"b" * 60_000, 200),
        (POST + b"Content-Length: 9\r\n" + SHORT + b"\r\n{", 600),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\na:" + b"b" * 60_000, 300),
        (PREDICTION + b"a:" + b"b" * 60_000, 300),
        (upload(b"") + LIVEZ * 6000, 1),
    ],
    ids=["lines", "target", "line", "body", "trailers", "of a prediction", "pipeline"],
)
def test_headers_of_all_connections_share_a_budget(
    address: tuple[str, int], start: bytes, most: int
) -> None:
    """Further ones are refused, but not small ones; when clients leave there is room again."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Connection(address)) for _ in range(most)]
        for client in clients:
            with contextlib.suppress(ConnectionError):  # refused while it is being sent
                client.send(start)
        refused = next(
            client for client in reversed(clients) if client.more_comes(0.5 if most > 1 else 10)
        )
        while (reply := refused.reply())[0] in (200, 201):
            pass
        assert (reply[0], json.loads(reply[2])["code"]) == (503, "overloaded")
        with Connection(address) as usual:
            usual.send(LIVEZ[:30], LIVEZ[30:], pause_s=0.01)
            assert usual.reply()[0] == 200
    with Connection(address) as client:
        client.send(LIVEZ[:-2] + SHORT, b"\r\n", pause_s=0.05)
        assert client.reply()[0] == 200
