"""Common to all pages: errors, origins of forms, assets."""

from __future__ import annotations

import re

import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from service.dashboard.page import ASSETS
from service.settings import Settings
from service.storage.database import Database
from service.storage.database.tables import jobs
from tests.service.dashboard.browser import Browser
from tests.service.models.registered_models import RESULT, RegisteredModels, registered
from tests.service.predictions.test_numbers import model_of_numbers

__all__ = ["registered"]

pytestmark = pytest.mark.one_application


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/jobs/job_" + "0" * 32, 404),
        ("/jobs/nonsense", 404),
        ("/models/unknown", 404),
        ("/models/No%20Name", 404),
        ("/datasets?page_token=x", 400),
        ("/jobs?state=asleep", 400),
        ("/compare?jobs=x", 400),
        ("/train?like=unknown/1", 404),
        ("/jobs?unknown=1", 400),
    ],
)
def test_errors_are_shown_on_a_page(browser: Browser, path: str, status: int) -> None:
    """With the status of the API's problem, its title and a link."""
    page = browser.go(path)
    assert page.status == status
    assert page.headers["content-type"].startswith("text/html")
    assert "This did not work" in page.text
    assert page.links["Home"] == "/"


@pytest.mark.parametrize("missing", ["status", "summary", "primal", "certificate"])
def test_pages_show_models_of_which_less_is_known(
    client: TestClient, registered: RegisteredModels, missing: str
) -> None:
    """A certificate without one of its entries, or none."""
    certificate = {name: value for name, value in RESULT["certificate"].items() if name != missing}
    result = {} if missing == "certificate" else {"certificate": certificate}
    version = registered.add("bare")
    registered.set_result(version, result)
    for path in ("/", "/models", "/models/bare/versions/1", "/models/bare/versions/1/card"):
        page = client.get(path)
        assert page.status_code == 200, path
        assert "bare" in page.text


@pytest.mark.parametrize("path", ["/nothing", "/problems", "/problems/not-found"])
def test_pages_of_other_packages_are_in_the_frame(client: TestClient, path: str) -> None:
    """With the navigation, and a footer whose links lead to pages."""
    page = client.get(path, headers={"Accept": "text/html"})
    assert page.status_code == (404 if path == "/nothing" else 200)
    assert all(f'href="/{name}"' in page.text for name in ("datasets", "train", "jobs", "models"))
    footer = re.findall(r'<a href="([^"]+)"', page.text.partition("<footer")[2])
    assert "/problems" in footer
    for address in footer:
        reply = client.get(address, headers={"Accept": "text/html"})
        assert reply.headers["content-type"].startswith("text/html"), address


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://elsewhere.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://testserver"},
    ],
)
def test_forms_of_other_sites_are_refused(client: TestClient, headers: dict[str, str]) -> None:
    """Nothing happens: other sites cannot send forms for the visitor."""
    reply = client.post("/samples/iris", headers=headers)
    assert reply.status_code == 403
    assert "another site" in reply.text
    assert client.get("/v1/datasets").json()["datasets"] == []


def test_scripts_get_the_address_of_the_next_page(client: TestClient) -> None:
    """A form sent by htmx receives it in a header, and the browser opens it."""
    reply = client.post("/samples/iris", headers={"HX-Request": "true"})
    assert reply.status_code == 204
    assert reply.headers["HX-Redirect"].startswith("/datasets/ds_")


def test_assets_are_local(client: TestClient, browser: Browser) -> None:
    """Styles and scripts come from this service, can be cached, and change their address."""
    page = browser.page
    loaded = re.findall(r'(?:src|href)="((?:/docs)?/assets/[^"]+)"', page.html)
    assert len(loaded) >= 5
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', page.html)
    for address in loaded:
        reply = client.get(address)
        assert reply.status_code == 200
        assert "immutable" in reply.headers["cache-control"]
    for name in ("style.css", "dashboard.js", "charts.js"):
        assert "//" not in re.sub(
            r"^\s*//.*|; // .*|\{ // .*", "", (ASSETS / name).read_text(), flags=re.M
        )
    first_paint = sum(len(client.get(address).content) for address in set(loaded))
    assert first_paint + len(page.html.encode()) < 120_000


def test_licenses_are_next_to_the_libraries(client: TestClient) -> None:
    """At the same address as the script."""
    assert "Zero-Clause BSD" in client.get("/assets/vendor/htmx.LICENSE").text


def test_pages_are_not_cached(client: TestClient) -> None:
    """After "back" the browser shows the current state of a job."""
    assert client.get("/jobs").headers["cache-control"] == "no-store"


def test_invalid_forms_are_problems(client: TestClient) -> None:
    """Not internal errors."""
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert client.post("/train", content=b"a" * 2**21, headers=form).status_code == 413
    assert client.post("/train", content=b"\xff\xfe", headers=form).status_code == 400
    assert client.post("/train", content=b"a=1&" * 2000, headers=form).status_code == 400
    assert client.post("/train", json={}).status_code == 415
    assert client.post("/train", content=b"", headers=form).status_code == 422
    assert client.post("/datasets", content=b"", headers=form).status_code == 415


def test_lists_are_fast_with_thousands_of_jobs(
    client: TestClient, browser: Browser, settings: Settings
) -> None:
    """A page shows fifty of them, uses an index, and links to the next page."""
    browser.send("/samples/moons")
    browser.go("/train")
    browser.send("/train")
    database = Database(settings.database_url)
    with database.write() as connection:
        row = dict(connection.execute(sa.select(jobs)).mappings().one())
        copies = [
            {**row, "id": f"job_{i:032x}", "number": row["number"] - i, "state": "failed"}
            for i in range(1, 3001)
        ]
        connection.execute(jobs.insert(), copies)
        if connection.dialect.name == "sqlite":
            newest = "SELECT * FROM jobs ORDER BY number DESC, id DESC LIMIT 51"
            plan = str(connection.execute(sa.text(f"EXPLAIN QUERY PLAN {newest}")).all())
            assert "ix_jobs_number_id" in plan
            assert "TEMP B-TREE" not in plan
    database.close()
    page = browser.go("/jobs")
    assert page.html.count('href="/jobs/job_') == 50
    assert "3,001" in page.text
    page = browser.go(page.links["Next page"])
    assert page.html.count('href="/jobs/job_') == 50
    assert f"job_{50:032x}" in page.html


def test_model_of_numbers_predicts_a_value_and_an_interval(
    browser: Browser, registered: RegisteredModels
) -> None:
    registered.add("prices", model_of_numbers(), columns=["a", "b", "c"])
    browser.go("/models/prices/versions/1")
    browser.send("/models/prices/versions/1/predict", x0="1", x1="2", x2="3")
    assert "on average over models, 90.0 % of new rows are inside" in browser.page.html
    assert "The value</caption>" in browser.page.html
