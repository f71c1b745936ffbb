"""Every common header with every odd value: an answer of the service, never an error of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from service.app import create_app
from service.settings import Settings
from tests.connection import Connection
from tests.service.models.registered_models import RegisteredModels, fitted_pipeline
from tests.service.predictions.predict_paths import served

pytestmark = pytest.mark.one_application

COMMON = (
    *("Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Authorization"),
    *("Cache-Control", "Connection", "Content-Digest", "Content-Disposition", "Content-Encoding"),
    *("Content-Length", "Content-Type", "Cookie", "Date", "Expect", "Forwarded", "From", "Host"),
    *("Idempotency-Key", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range"),
    *("Inference-Header-Content-Length", "Last-Event-ID", "Max-Forwards", "Origin", "Pragma"),
    *("Prefer", "Range", "Referer", "Sec-Fetch-Site", "TE", "Trailer", "Transfer-Encoding"),
    *("Upgrade", "User-Agent", "Via", "X-Forwarded-For", "X-Forwarded-Proto", "X-Request-Id"),
    *("traceparent", "HX-Request"),
)
ODD = (
    *(b"", b" ", b"*", b"0", b"-1", b"1e999", b"9" * 5000, b"\xb2", b"nan", b"null", b"true"),
    *(b"http://[", b"http://", b"://", b"//", b"[::1", b"a:99999999", b"http://a:b", b"?", b"#"),
    *(b",", b";", b"=", b"a=b; c", b'"', b'"\\', b"'", b"{}", b"%00", b"%zz", b"\xff\xfe", b"\t"),
    *(b"bytes=0-", b"bytes=-", b"bytes=1-0", b"bytes=" + b"9" * 5000 + b"-", b"\xe2\x80\xae"),
    *(b"text/csv;charset=utf-16", b"multipart/form-data", b"multipart/form-data; boundary="),
    *(b"application/json; charset=none", b"gzip, br", b"chunked", b"sha-256=:=:", b"W/", b'W/"'),
)
LONG = (b"a," * 30_000, b"a;" * 30_000, b'"\\' * 30_000, b"sha-512=::," * 5000, b"=" * 60_000)
JSON = b'{"instances": [[1, 2, 3]]}'
CSV = b"a,k\n1,x\n2,y\n"
ROUTES = (
    (b"POST", b"/v1/models/iris/predict", b"application/json", JSON),
    (b"POST", b"/v2/models/iris/infer", b"application/json", JSON),
    (b"POST", b"/v1/jobs", b"application/json", b'{"dataset_id": "latest"}'),
    (b"POST", b"/v1/datasets?validate_only=true", b"image/png", CSV),
    (b"POST", b"/login", b"application/x-www-form-urlencoded", b"key=a"),
    (b"POST", b"/v2/repository/index", b"application/json", b"{}"),
    (b"PUT", b"/v1/models/iris/aliases/a", b"application/json", b'{"version": 9}'),
    (b"DELETE", b"/v1/models/none", b"text/plain", b""),
    (b"GET", b"/v1/models/iris/versions/1/artifact", b"text/plain", b""),
    (b"GET", b"/v1/jobs/none/events", b"text/plain", b""),
    (b"GET", b"/assets/style.css", b"text/plain", b""),
    (b"GET", b"/login", b"text/plain", b""),
)


@pytest.fixture(scope="module")
def address(settings_of_module: Settings) -> Iterator[tuple[str, int]]:
    with served(create_app(settings_of_module)) as url:
        registered = RegisteredModels(settings_of_module)
        registered.add("iris", fitted_pipeline(n_features=3))
        registered.database.close()
        yield "127.0.0.1", int(url.rpartition(":")[2])


def status_of(address: tuple[str, int], route: tuple[bytes, ...], name: str, value: bytes) -> int:
    """Of the reply to a request with this header instead of its own; 0 if none comes, because the
    body would be longer."""
    method, path, media_type, body = route
    headers = {b"host": b"localhost", b"content-length": b"%d" % len(body)}
    headers |= {b"content-type": media_type, name.lower().encode(): value}
    lines = b"".join(b"%b: %b\r\n" % header for header in headers.items())
    with Connection(address) as client:
        client.socket.settimeout(5)
        with suppress(OSError):  # refused while it is being sent
            client.send(b"%b %b HTTP/1.1\r\n%b\r\n%b" % (method, path, lines, body))
            client.socket.shutdown(1)  # if more is expected than was sent
        said = client.socket.recv(65536)
    return int(said.split()[1]) if said else 0


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route[1].decode())
def test_no_header_is_an_error_of_the_service(
    address: tuple[str, int], route: tuple[bytes, ...]
) -> None:
    """On each route with some of the values, on all routes together with all of them."""
    some = ODD[ROUTES.index(route) :: len(ROUTES)]
    for name in COMMON:
        for value in {b"http://[", *some}:
            assert status_of(address, route, name, value) < 500, (name, value)


def test_no_header_takes_long(address: tuple[str, int]) -> None:
    """With as many small items as fit into it."""
    for name in COMMON:
        for value in LONG:
            started = time.process_time()
            assert status_of(address, ROUTES[0], name, value) < 500
            assert time.process_time() - started < 0.1, (name, value[:10])
