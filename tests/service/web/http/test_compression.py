"""Static files and plots are compressed, with weak ETags; API replies with ETags are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from service.web.http.compression import CompressedFiles, Compression, versioned

TEXT = "abc " * 1000


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    (tmp_path / "a.css").write_text(TEXT)
    (tmp_path / "a.png").write_text(TEXT)

    def reply(request: Request) -> Response:
        headers = {"ETag": '"1"', "Repr-Digest": "sha-256=:x:", "Accept-Ranges": "bytes"}
        return Response(TEXT, 200, headers, "image/svg+xml" if "svg" in request.url.path else "a/b")

    files = Mount("/files", CompressedFiles(directory=tmp_path))
    routes = [files, Route("/plot.svg", reply), Route("/resource", reply)]
    return TestClient(Compression(Starlette(routes=routes)), headers={"Accept-Encoding": "gzip"})


@pytest.mark.parametrize("path", ["/files/a.css", "/plot.svg"])
def test_texts_are_compressed(client: TestClient, path: str) -> None:
    """Their ETag is weak, and they have no digest and no ranges."""
    reply = client.get(path)
    assert reply.text == TEXT
    assert int(reply.headers.get("content-length", 0)) < 100
    assert reply.headers["content-encoding"] == "gzip"
    assert reply.headers["etag"].startswith('W/"')
    assert "Accept-Encoding" in reply.headers["vary"]
    assert reply.headers.keys().isdisjoint({"repr-digest", "accept-ranges"})


def test_unchanged_files_are_not_sent(client: TestClient, tmp_path: Path) -> None:
    """Their ETag names the version of the file."""
    first = client.get("/files/a.css")
    unchanged = {"If-None-Match": first.headers["etag"]}
    assert client.get("/files/a.css", headers=unchanged).status_code == 304
    (tmp_path / "a.css").write_text(TEXT + TEXT)
    assert client.get("/files/a.css", headers=unchanged).text == TEXT + TEXT


@pytest.mark.parametrize("path", ["/files/a.css?v=1", "/files/a.css", "/files/a.png"])
@pytest.mark.parametrize("accepted", ["gzip", "identity"])
def test_unchanged_files_have_the_headers_of_the_whole_ones(
    client: TestClient, path: str, accepted: str
) -> None:
    """Caches replace those that they have."""
    headers = {"Accept-Encoding": accepted}
    whole = client.get(path, headers=headers)
    again = client.get(path, headers={**headers, "If-None-Match": whole.headers["etag"]})
    assert again.status_code == 304
    for name in ("content-type", "vary", "cache-control", "content-security-policy"):
        assert again.headers.get(name) == whole.headers.get(name), name


def test_versioned_files_are_kept(client: TestClient, tmp_path: Path) -> None:
    """Under an address that changes with the content."""
    (tmp_path / "b.css").write_text(TEXT + TEXT)
    first, other = (versioned(f"/files/{name}", tmp_path / name) for name in ("a.css", "b.css"))
    assert first.partition("=")[2] != other.partition("=")[2]
    assert "immutable" in client.get(first).headers["cache-control"]
    assert "cache-control" not in client.get("/files/a.css").headers


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/files/a.png", {}),
        ("/files/a.css", {"Accept-Encoding": "identity"}),
        ("/files/a.css", {"Range": "bytes=0-3999"}),
        ("/resource", {}),
    ],
)
def test_others_are_as_they_are(client: TestClient, path: str, headers: dict[str, str]) -> None:
    """Pictures, ranges, replies whose ETag a client sends back, and without gzip."""
    reply = client.get(path, headers=headers)
    assert "content-encoding" not in reply.headers
    assert reply.headers["etag"].startswith('"')
    assert reply.text == TEXT
