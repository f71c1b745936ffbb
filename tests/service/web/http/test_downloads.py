"""Downloads: whole files, ranges, conditions and digests."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import Response
from starlette.testclient import TestClient

from service.web import problems
from service.web.http import downloads
from service.web.http.downloads import download
from service.web.http.headers import HeadAsGet

CONTENT = bytes(range(100))
SHA256 = hashlib.sha256(CONTENT).hexdigest()
TAG = f'"{SHA256}"'


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    path: Path = tmp_path_factory.mktemp("downloads") / "file"
    path.write_bytes(CONTENT)
    app = FastAPI()
    app.add_middleware(HeadAsGet)
    problems.install(app)

    @app.get("/file", response_class=Response)
    def get(request: Request) -> Response:
        return download(
            request,
            path.open("rb"),
            size_bytes=len(CONTENT),
            sha256=SHA256,
            media_type="text/plain",
            filename="numbers.bin",
        )

    with TestClient(app) as client:
        yield client


def test_whole_file(client: TestClient) -> None:
    """With digest, ETag, file name and Accept-Ranges."""
    reply = client.get("/file")
    assert (reply.status_code, reply.content) == (200, CONTENT)
    digest = base64.b64encode(hashlib.sha256(CONTENT).digest()).decode()
    assert reply.headers["Repr-Digest"] == f"sha-256=:{digest}:"
    assert reply.headers["ETag"] == TAG
    assert reply.headers["Accept-Ranges"] == "bytes"
    assert reply.headers["Content-Length"] == "100"
    assert reply.headers["Content-Disposition"] == 'attachment; filename="numbers.bin"'
    assert "Content-Range" not in reply.headers
    head = client.head("/file", headers={"Range": "bytes=5-9"})
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers == reply.headers


def expected_part(first: int | None, last: int | None) -> tuple[int, bytes]:
    """Status and bytes of the reply to `bytes=first-last`."""
    if first is None and last is None:
        return 200, CONTENT
    if first is None:
        part = CONTENT[-last:] if last else b""
    elif last is not None and last < first:
        return 200, CONTENT
    else:
        part = CONTENT[first : 100 if last is None else last + 1]
    return (206, part) if part else (416, b"")


@given(first=st.none() | st.integers(0, 120), last=st.none() | st.integers(0, 120))
def test_ranges(client: TestClient, first: int | None, last: int | None) -> None:
    """The bytes of the range and no others; empty ranges are ignored."""
    start, end = ("" if number is None else str(number) for number in (first, last))
    status, content = expected_part(first, last)
    reply = client.get("/file", headers={"Range": f"bytes={start}-{end}"})
    assert reply.status_code == status
    if status == 416:
        assert reply.headers["Content-Range"] == "bytes */100"
        assert (reply.json()["code"], reply.json()["size_bytes"]) == ("range-not-satisfiable", 100)
        return
    assert reply.content == content
    assert reply.headers["ETag"] == TAG
    assert reply.headers["Content-Length"] == str(len(content))
    if status == 206:
        begin = CONTENT.index(content)
        assert reply.headers["Content-Range"] == f"bytes {begin}-{begin + len(content) - 1}/100"


def test_file_longer_than_a_chunk(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reply is complete if it takes several reads."""
    monkeypatch.setattr(downloads, "CHUNK_BYTES", 7)
    parts = [
        client.get("/file", headers={"Range": f"bytes={start}-{start + 39}"}).content
        for start in range(0, 100, 40)
    ]
    assert b"".join(parts) == CONTENT


@pytest.mark.parametrize(
    "range_", ["bytes=0-1,4-5", "lines=0-1", "bytes", "bytes=x-", "bytes=-", "bytes=" + "9" * 99]
)
def test_other_ranges_are_ignored(client: TestClient, range_: str) -> None:
    """For several ranges, other units and invalid text the reply is the whole file."""
    assert client.get("/file", headers={"Range": range_}).content == CONTENT


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"If-None-Match": TAG}, 304),
        ({"If-None-Match": f"W/{TAG}", "Range": "bytes=0-1"}, 304),
        ({"If-None-Match": '"x"'}, 200),
        ({"If-Match": TAG, "Range": "bytes=0-1"}, 206),
        ({"If-Match": '"x"', "Range": "bytes=0-1"}, 412),
        ({"If-Match": '"x"', "If-None-Match": TAG}, 412),
        ({"If-Match": TAG, "If-None-Match": TAG}, 304),
        ({"If-Range": TAG, "Range": "bytes=0-1"}, 206),
        ({"If-Range": f"W/{TAG}", "Range": "bytes=0-1"}, 200),
        ({"If-Range": '"x"', "Range": "bytes=0-1"}, 200),
        ({"If-Range": "Sat, 29 Oct 1994 19:43:31 GMT", "Range": "bytes=0-1"}, 200),
        ({"If-Range": '"x"', "Range": "bytes=500-"}, 200),
        ({"If-Match": "x"}, 400),
    ],
)
def test_conditions(client: TestClient, headers: dict[str, str], status: int) -> None:
    """In the order of RFC 9110: If-Match, If-None-Match, If-Range."""
    reply = client.get("/file", headers=headers)
    assert reply.status_code == status
    assert len(reply.content) == {200: 100, 206: 2, 304: 0}.get(status, len(reply.content))
