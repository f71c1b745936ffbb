"""The search of all pages."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from service.app import create_app
from service.jobs.engine.worker_process import Worker
from service.settings import Settings
from service.web.frame import LINKS
from tests.service.dashboard.browser import Browser, Page
from tests.service.jobs.data import csv_of

pytestmark = pytest.mark.one_application


def search(browser: Browser, words: str) -> Page:
    return browser.go(f"/search?q={quote(words)}")


def found(browser: Browser, words: str) -> dict[str, list[str]]:
    """Addresses of the results by their groups."""
    groups = re.findall(r"<h2[^>]*>(\w+)</h2>(.*?)</section>", search(browser, words).html, re.S)
    return {name: re.findall(r'row"><a href="([^"]+)"', part) for name, part in groups}


@pytest.mark.parametrize("path", ["/", "/docs", "/guide/", "/guide/leaks/", "/nothing", "/search"])
def test_bar_is_the_same_above_all(client: TestClient, path: str) -> None:
    """The dashboard, the API's documentation and the guide mark only their own link."""
    page = client.get(path, headers={"Accept": "text/html"}).text
    bar = page.split('<header class="top">')[1].split("</header>")[0]
    marked = re.findall(r'href="([^"]+)" aria-current="page"', bar)
    assert marked == [link for link in ("/docs", "/guide/") if path.startswith(link)]
    home = client.get("/").text.split('<header class="top">')[1].split("</header>")[0]
    assert bar.replace(' aria-current="page"', "") == home
    assert all(f'href="/{link}"' in bar for link in LINKS)


def test_own_things_are_found_by_name(browser: Browser, worker: Worker) -> None:
    """In upper and lower case, by parts."""
    text = csv_of(n_samples=40, n_classes=2)
    browser.send("/datasets", files={"file": ("Clouds 2024.csv", text, "text/csv")})
    dataset = browser.page.path
    browser.go("/train")
    browser.send("/train", model_name="clouds")
    job = browser.page.path
    assert worker.take_next_job()
    groups = found(browser, "CLOUD")
    assert groups["Models"] == ["/models/clouds"]
    assert groups["Data"] == [dataset]
    assert groups["Jobs"] == [job]


def test_operations_of_the_api_are_found(browser: Browser, client: TestClient) -> None:
    """By their summary, as a place on `/docs`."""
    operation = client.get("/openapi.json").json()["paths"]["/v1/datasets/{id}/split"]["post"]
    first = found(browser, "split a dataset")["API"][0]
    assert first == f"/docs#/datasets/{operation['operationId']}"


@pytest.mark.parametrize(
    "words",
    ["", " ", "<b>&\"'", "%", "_", "🌩️", "x" * 200, "a b " * 50, "\\", "quite unknownword"],
    ids=[
        "none",
        "blank",
        "markup",
        "percent",
        "underscore",
        "emoji",
        "long",
        "many",
        "bar",
        "none",
    ],
)
def test_odd_words_find_nothing_and_do_no_harm(browser: Browser, words: str) -> None:
    """They are in the field, and a page tells what is searched."""
    browser.send("/samples/moons")
    page = search(browser, words)
    assert page.status == 200
    assert "<b>" not in page.html
    assert not found(browser, words).keys() & {"Models", "Data", "Jobs"}


def test_too_many_words_are_refused(browser: Browser) -> None:
    assert search(browser, "x" * 201).status == 400


def test_only_those_with_a_key_find_what_is_stored(tmp_path: Path) -> None:
    """The guide and the API are open to all."""
    settings = Settings(data_dir=tmp_path / "var", workers=0, auth="on")
    with TestClient(create_app(settings)) as client:
        key = (settings.data_dir / "first-key").read_text().strip()
        header = {"Authorization": f"Bearer {key}"}
        csv = header | {"Content-Type": "text/csv"}
        upload = client.post("/v1/datasets?name=leaks", content="a,b\n1,x\n2,y\n", headers=csv)
        assert upload.status_code == 201
        assert "/datasets/ds_" in client.get("/search?q=leak", headers=header).text
        open_to_all = client.get("/search?q=leak").text
        assert "/datasets/ds_" not in open_to_all
        assert "/guide/leaks/" in open_to_all
