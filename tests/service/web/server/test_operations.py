"""Operations: health, metrics, info, request ids and logs."""

from __future__ import annotations

import json
import logging
import platform
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from starlette.testclient import TestClient

from service import __version__
from service.app.application import Application
from service.common.event_stream import Health
from service.settings import Settings
from service.storage.database import Database
from service.web import problems
from service.web.operations import router


def test_running_service_is_alive_and_ready(client: TestClient) -> None:
    """Both probes answer 200."""
    assert client.get("/livez").json() == {"status": "ok"}
    assert client.get("/readyz").json()["status"] == "ok"


def test_draining_service_is_not_ready(app: Application, client: TestClient) -> None:
    """As soon as a shutdown begins, the service asks for no new requests."""
    app.health.draining = True
    reply = client.get("/readyz")
    assert (reply.status_code, reply.json()["code"]) == (503, "shutting-down")
    assert "Retry-After" in reply.headers
    assert client.get("/livez").status_code == 200


def test_service_without_database_is_not_ready(tmp_path: Path) -> None:
    """A database that cannot be opened is reported as 503, without its path."""
    app = FastAPI()
    problems.install(app)
    nowhere = Database(f"sqlite:///{tmp_path / 'nowhere' / 'service.db'}")
    app.routes.extend(router(Health(), nowhere, CollectorRegistry(), Settings()).routes)
    reply = TestClient(app).get("/readyz")
    assert (reply.status_code, reply.json()["code"]) == (503, "not-ready")
    assert "nowhere" not in reply.text


def test_info_has_version_and_limits(client: TestClient, settings: Settings) -> None:
    """The limits are those of the settings."""
    info = client.get("/v1/info").json()
    assert info["version"] == __version__
    assert info["python"] == platform.python_version()
    connections = settings.model_dump(include={"header_s", "body_idle_s", "connections"})
    assert info["limits"] == settings.limits.model_dump(mode="json") | connections
    assert info["limits"]["disk_free_bytes"] == 1024**3


def test_metrics_count_requests_by_route(client: TestClient) -> None:
    """Requests are counted under the route's template, not under each path."""
    client.get("/problems/not-found")
    client.get("/problems/none")
    client.get("/nowhere")
    text = client.get("/metrics").text
    assert 'svm_http_requests_total{method="GET",route="/problems/{code}",status="200"} 1.0' in text
    assert 'svm_http_requests_total{method="GET",route="/problems/{code}",status="404"} 1.0' in text
    assert 'svm_http_requests_total{method="GET",route="none",status="404"} 1.0' in text
    assert "process_resident_memory_bytes" in text


def test_request_id_is_echoed_or_generated(client: TestClient) -> None:
    """A valid id of the caller is used, an invalid one is replaced."""
    assert client.get("/livez", headers={"X-Request-Id": "a.B-9_"}).headers["X-Request-Id"] == (
        "a.B-9_"
    )
    made = {
        client.get("/livez", headers={b"X-Request-Id": bad}).headers["X-Request-Id"]
        for bad in (b"", b"a b", "é".encode(), b"x" * 129)
    }
    assert len(made) == 4
    assert all(len(id) == 32 for id in made)


def test_every_reply_forbids_sniffing(client: TestClient) -> None:
    """Browsers use the content types unchanged, in errors too."""
    for path in ("/", "/livez", "/nowhere", "/docs/assets/swagger-ui.css"):
        assert client.get(path).headers["X-Content-Type-Options"] == "nosniff"


def test_each_request_is_logged_once(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    """One line with method, path and status; probes are logged at debug level only."""
    with caplog.at_level(logging.INFO, logger="service.requests"):
        client.get("/v1/info")
        client.get("/readyz")
    lines = [record.getMessage() for record in caplog.records if record.name == "service.requests"]
    assert len(lines) == 1
    assert "path='/v1/info' status=200" in lines[0]


def test_log_lines_are_json() -> None:
    """Our lines and those of libraries have the same form, tracebacks included."""
    program = """
import logging, structlog
from service.common.logs import configure_logging
configure_logging("info")
structlog.stdlib.get_logger("ours").info("hello", job_id="job_1")
logging.getLogger("theirs").warning("watch %s", "out")
logging.getLogger("theirs").debug("unseen")
try:
    1 / 0
except ZeroDivisionError:
    structlog.stdlib.get_logger("ours").exception("broken")
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    ours, theirs, broken = [json.loads(line) for line in run.stderr.splitlines()]
    assert (ours["event"], ours["job_id"], ours["logger"]) == ("hello", "job_1", "ours")
    assert (theirs["event"], theirs["level"]) == ("watch out", "warning")
    assert "ZeroDivisionError" in broken["exception"]


def test_links_of_home_page_exist(client: TestClient) -> None:
    """Every link of `/` answers 200."""
    page = client.get("/").text
    links = {part.split('"')[0] for part in page.split('href="')[1:]}
    assert {"/docs", "/problems", "/train"} <= links
    for link in links:
        assert client.get(link).status_code == 200, link


def test_docs_page_loads_nothing_from_other_hosts(client: TestClient) -> None:
    """Scripts, styles and icons of `/docs` are served by this service."""
    page = client.get("/docs").text
    assert "//" not in page
    for asset in ("swagger-ui-bundle.js", "swagger-ui.css"):
        assert f"/docs/assets/{asset}" in page
        assert client.get(f"/docs/assets/{asset}").status_code == 200
    for asset in ("docs.css", "docs.js", "frame.css", "icon.svg"):
        assert f"/docs/assets/own/{asset}" in page
        assert client.get(f"/docs/assets/own/{asset}").status_code == 200


def test_docs_page_lists_every_operation(client: TestClient) -> None:
    """With its scope, at the address that Swagger UI has for it; its tag is described."""
    page, document = client.get("/docs").text, client.get("/openapi.json").json()
    rows = dict(re.findall(r'<li id="([^"]+)"><a href="#\1">.*<small>(.+)</small></li>', page))
    named = {
        f"/{quote(operation['tags'][0])}/{operation['operationId']}"
        for methods in document["paths"].values()
        for operation in methods.values()
    }
    assert rows.keys() == named
    assert rows["/jobs/get_job"] == "read or train or predict"
    assert rows["/operations/get_livez"] == "no key"
    assert page.count("<h2 ") == len(document["tags"])
    assert '<a href="/guide/solvers/">Guide</a>' in page
    assert "<strong>upload</strong> (<code>POST /v1/datasets</code>)" in page


def test_docs_page_is_the_same_with_compression(client: TestClient) -> None:
    """Compressed or not, the first time and later."""
    plain = client.get("/docs", headers={"Accept-Encoding": "identity"})
    for encoding in ("gzip", "identity", "gzip"):
        reply = client.get("/docs", headers={"Accept-Encoding": encoding})
        assert reply.headers.get("content-encoding", "identity") == encoding
        assert reply.text == plain.text


def test_stylesheet_needs_no_other_host(client: TestClient) -> None:
    """The stylesheet includes its images."""
    css = client.get("/docs/assets/swagger-ui.css").text
    assert "@import" not in css
    assert not [url for url in css.split("url(")[1:] if not url.strip("\"'").startswith("data:")]
