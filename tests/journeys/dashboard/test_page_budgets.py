"""What the first load of each page costs and shows; `make torture` has every page in every form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Browser

from service.web.frame import LINKS
from tests.journeys.dashboard.browser import IN_A_BROWSER, Watched, chromium
from tests.journeys.dashboard.test_dashboard import SAMPLES
from tests.journeys.dashboard.test_every_page import BEYOND
from tests.journeys.server import Server, running

__all__ = ["chromium"]

pytestmark = IN_A_BROWSER

MOST_BYTES = 80_000
"""Of a page with all its files, compressed, and the headers. `/docs` has Swagger UI: 0.5 MB."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("budgets") / "var") as server:
        dataset = server.upload(SAMPLES / "iris.csv", name="Iris")["id"]
        server.trained(dataset, "iris", solver={"name": "newton"}, validation={"fraction": 0.25})
        yield server


def paths(server: Server) -> list[str]:
    dataset = server.http.get("/v1/datasets").json()["datasets"][0]["id"]
    job = server.http.get("/v1/jobs").json()["jobs"][0]["id"]
    return [
        *("/", f"/datasets/{dataset}", "/train", "/jobs", f"/jobs/{job}", "/models"),
        *("/models/iris/versions/1", "/search?q=iris", "/login", "/nothing", "/guide/choosing/"),
    ]


def test_first_load_is_small(filled: Server, chromium: Browser) -> None:
    """Nothing is in the browser's cache."""
    sizes = {}
    for path in paths(filled):
        context = chromium.new_context()
        watched = Watched(context, filled)
        watched.open(path).wait_for_load_state("load")
        sizes[path] = sum(watched.sizes)
        context.close()
    assert sizes["/"] > 10_000  # something was measured
    assert {path: size for path, size in sizes.items() if size > MOST_BYTES} == {}


@pytest.mark.parametrize(
    ("width", "scheme"), [(1440, "light"), (390, "dark")], ids=["desk", "phone"]
)
def test_pages_fit_and_are_accessible(
    filled: Server, chromium: Browser, width: int, scheme: Literal["light", "dark"]
) -> None:
    """No page scrolls sideways, none has a finding."""
    context = chromium.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    watched = Watched(context, filled)
    wide = []
    for path in (*paths(filled), "/docs"):
        page = watched.open_docs() if path == "/docs" else watched.open(path)
        page.wait_for_load_state("load")
        watched.examine()
        if page.evaluate(BEYOND) > 0:
            wide.append(path)
    context.close()
    assert [*watched.findings, *wide] == []


def test_keyboard_reaches_the_content_first(filled: Server, chromium: Browser) -> None:
    """The first link skips the bar; after it come the brand, the links and the search."""
    context = chromium.new_context()
    watched = Watched(context, filled)
    for path, main in (("/", "main"), ("/docs", "swagger-ui"), ("/guide/choosing/", "__skip")):
        page = watched.open_docs() if path == "/docs" else watched.open(path)
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
