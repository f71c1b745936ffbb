"""What the first load of each page costs and shows; `make torture` has every page in every form."""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.sync_api import Browser, expect

from service.web.frame import LINKS
from tests.journeys.dashboard.browser import IN_A_BROWSER, Watched, chromium
from tests.journeys.dashboard.test_dashboard import PHONE, SAMPLES
from tests.journeys.dashboard.test_every_page import BEYOND
from tests.journeys.server import Server

__all__ = ["chromium"]

pytestmark = IN_A_BROWSER

GUIDE = ("/guide/", "/guide/solvers/", "/guide/reference/svm.training/", "/guide/CHANGELOG/")
MOST_BYTES = 80_000
"""Of a page with all its files, compressed, and the headers."""


@pytest.fixture(scope="module")
def filled(server: Server) -> Server:
    dataset = server.upload(SAMPLES / "iris.csv", name="Iris")["id"]
    server.trained(dataset, "iris", solver={"name": "newton"}, validation={"fraction": 0.25})
    return server


def paths(server: Server) -> list[str]:
    dataset = server.http.get("/v1/datasets").json()["datasets"][0]["id"]
    job = server.http.get("/v1/jobs").json()["jobs"][0]["id"]
    return [
        *("/", f"/datasets/{dataset}", "/train", "/jobs", f"/jobs/{job}", "/models"),
        *("/models/iris/versions/1", "/search?q=iris", "/login", "/nothing", "/guide/choosing/"),
    ]


def test_first_loads_are_small_and_from_here(filled: Server, chromium: Browser) -> None:
    """Nothing is in the browser's cache. Every request of the browser goes to the service, also if
    no policy prevents others."""
    model = "/models/iris/versions/1"
    lists = ("/datasets", "/compare", "/problems", f"{model}/card", f"{model}/plots")
    every = [path for path in paths(filled) if path != "/nothing"] + [*lists, *GUIDE, "/docs"]
    context = chromium.new_context(bypass_csp=True)  # a `Watched` one has no cache
    tabs = [Watched(context, filled) for _ in every]
    for tab, path in zip(tabs, every, strict=True):
        tab.page.goto(filled.url + path, wait_until="commit")
    for tab in tabs:
        tab.page.wait_for_load_state("networkidle")
        tab.assert_no_errors()
    assert {filled.url + path for path in every} <= set(tabs[0].requests)
    sizes = {path: sum(tab.sizes) for path, tab in zip(every, tabs, strict=True)}
    context.close()
    print(*(f"{size:9,} bytes {path}" for path, size in sizes.items()), sep="\n")
    assert {path: size for path, size in sizes.items() if not 5_000 < size <= MOST_BYTES} == {}


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        pytest.param(1440, "light", id="desk", marks=pytest.mark.long),
        pytest.param(PHONE["width"], "dark", id="phone"),
    ],
)
def test_pages_fit_and_are_accessible(
    filled: Server, chromium: Browser, width: int, scheme: Literal["light", "dark"]
) -> None:
    """No page scrolls sideways, none has a finding. An operation takes seconds to examine: on a
    phone `make torture` does."""
    context = chromium.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    watched = Watched(context, filled)
    wide = []
    operation = ["/docs#/jobs/create_job"] if width > PHONE["width"] else []
    for path in (*paths(filled), "/docs", *operation):
        page = watched.open(path)
        page.wait_for_load_state("load")
        if "#" in path:
            expect(page.get_by_role("button", name="Execute")).to_be_visible()
        watched.examine()
        if page.evaluate(BEYOND) > 0:
            wide.append(path)
    context.close()
    assert [*watched.findings, *wide] == []


def test_keyboard_reaches_the_content_first(filled: Server, chromium: Browser) -> None:
    """The first link skips the bar; after it come the brand, the links and the search."""
    context = chromium.new_context()
    watched = Watched(context, filled)
    for path, main in (("/", "main"), ("/docs", "main"), ("/guide/choosing/", "__skip")):
        page = watched.open(path)
        names = []
        for _ in range(3 + len(LINKS)):
            page.keyboard.press("Tab")
            names.append(
                page.evaluate(
                    "document.activeElement.ariaLabel ?? document.activeElement.innerText"
                )
            )
        assert names == ["Skip to the content", "svm-service", *LINKS.values(), "Search"]
        assert page.locator(f"#{main}").count() == 1
    context.close()
