"""Headers of every reply."""

from __future__ import annotations

import re

import pytest
from starlette.testclient import TestClient

pytestmark = pytest.mark.one_application

PATHS = ["/", "/docs", "/login", "/v1/jobs", "/v1/jobs/none", "/livez", "/nowhere", "/metrics"]


@pytest.mark.parametrize("path", [*PATHS, "/docs/assets/swagger-ui.css", "/openapi.json"])
def test_every_reply_has_security_headers(client: TestClient, path: str) -> None:
    """Problems, pages and files too."""
    headers = client.get(path).headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["Cache-Control"]


def test_pages_run_under_their_policy(client: TestClient) -> None:
    """Which allows no script or style in the page; no address has another host."""
    for path in ("/docs", "/login", "/"):
        reply = client.get(path)
        policy = reply.headers["Content-Security-Policy"]
        assert "default-src 'self'" in policy
        assert "script-src" not in policy
        assert not re.search("<script>|<style", reply.text)
        assert not re.search(r"""(src|href)=["']?https?:""", reply.text)
        assert " style=" not in reply.text


def test_replies_with_an_etag_can_be_revalidated(client: TestClient) -> None:
    made = client.post(
        "/v1/datasets", content="a,k\n1,x\n2,y\n", headers={"Content-Type": "text/csv"}
    )
    reply = client.get(made.headers["Location"])
    assert reply.headers["Cache-Control"] == "private, no-cache"
    assert client.get("/v1/datasets").headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("accepted", ["gzip", "identity"])
def test_long_replies_are_compressed_if_accepted(client: TestClient, accepted: str) -> None:
    """Except replies with an ETag or a digest of their bytes."""
    taken = {"Accept-Encoding": accepted}
    made = client.post(
        "/v1/datasets", content="a,k\n1,x\n2,y\n", headers={"Content-Type": "text/csv"}
    )
    place = made.headers["Location"]
    document = client.get("/openapi.json", headers=taken)
    assert document.headers.get("Content-Encoding") == ("gzip" if accepted == "gzip" else None)
    assert document.json()["openapi"]
    for path in (place, f"{place}/content", "/livez"):
        assert "Content-Encoding" not in client.get(path, headers=taken).headers
