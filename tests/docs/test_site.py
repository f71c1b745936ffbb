"""The documentation as a site at `/guide`, which `make site` builds."""

from __future__ import annotations

import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Literal

import pytest
from fastapi import FastAPI
from playwright.sync_api import Browser

from tests.journeys.dashboard.browser import IN_A_BROWSER, Watched, chromium
from tests.journeys.server import Server
from tools.make_site import SITE, WORDS

__all__ = ["chromium"]


@pytest.fixture(autouse=True)
def site() -> Path:
    assert (SITE / "index.html").exists(), "run `make site`"
    return SITE


class Links(HTMLParser):
    """The ids of a page, and where its links and files are."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.ids.add(value)
            elif name in ("href", "src") and value:
                self.targets.append(value)


@cache
def links_of(page: Path) -> Links:
    links = Links()
    links.feed(page.read_text())
    return links


def test_links_lead_to_pages_and_headings(site: Path) -> None:
    pages = [page for page in site.rglob("*.html") if page.name != "404.html"]
    broken = []
    for page in pages:
        for target in links_of(page).targets:
            if re.match(r"/|[a-z]+:", target):  # the bar has links to other parts of the service
                continue
            name, _, heading = target.partition("#")
            file = (page.parent / name).resolve() if name else page
            file = file / "index.html" if file.is_dir() else file
            if not file.exists() or (heading and heading not in links_of(file).ids):
                broken.append(f"{page.relative_to(site)}: {target}")
    assert len(pages) > 50
    assert broken == []


def test_service_links_to_pages_and_headings(app: FastAPI, site: Path) -> None:
    """From every section of the OpenAPI document, where callers start to read."""
    for section in app.openapi()["tags"]:
        (target,) = re.findall(r"\(/guide/([^)]*)\)", section["description"])
        name, _, heading = target.partition("#")
        page = site / name / "index.html"
        assert page.exists(), target
        assert not heading or heading in links_of(page).ids, target


def test_no_file_comes_from_another_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|link|img)[^>]+(?:src|href)=\"(https?:[^\"]+)", page.read_text()
        )
        assert loaded == [], page


def test_search_finds_pages_first(server: Server) -> None:
    """By the words that people type, which are in the title of few pages."""
    expected = [
        (word, place) for place, words in WORDS.items() for word in words.lower().split(", ")
    ]
    others = (
        *(("leak", "leaks/"), ("leaks", "leaks/"), ("choose C", "choosing/")),
        *(("choosing a kernel", "choosing/"), ("backup", "operations/#backup-and-restore")),
        *(("Windows", "faq/#running-it"), ("kill", "deployment/#restarts")),
        *(("scikit-learn", "notebooks/"), ("mlflow", "notebooks/"), ("python", "client/")),
        *(("threshold", "class-imbalance/#choose-where-to-cut"), ("curl", "quickstart/#with-curl")),
        *(("row weights", "preparing-data/#weights-of-rows"),),
    )
    wrong = []
    for word, place in (*expected, *others):
        page = server.http.get("/search", params={"q": word}).text
        first = re.search(r'<th scope="row"><a href="/guide/([^"]*)"', page)
        if first is None or first[1] != place:
            wrong.append(f"{word}: {first and first[1]}, not {place}")
    assert wrong == []


@IN_A_BROWSER
@pytest.mark.parametrize(
    ("width", "scheme", "kinds"),
    [
        (1280, "light", ("", "solvers/", "reference/svm.training/")),
        (390, "dark", ("quickstart/", "faq/", "CHANGELOG/")),
    ],
)
def test_pages_are_accessible(
    server: Server,
    chromium: Browser,
    width: int,
    scheme: Literal["light", "dark"],
    kinds: tuple[str, ...],
) -> None:
    """On a desktop and a phone, which no page is wider than; with contrast in dark mode, too. No
    page breaks its own Content-Security-Policy. (`make torture` has every page in every form.)"""
    context = chromium.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    watched = Watched(context, server)
    for path in kinds:
        page = watched.open(f"/guide/{path}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        watched.examine()
    watched.assert_no_errors()
    context.close()


def test_unknown_pages_are_not_found(server: Server) -> None:
    reply = server.http.get("/guide/nothing/")
    assert reply.status_code == 404


def test_address_without_a_slash_leads_to_the_guide(server: Server) -> None:
    reply = server.http.get("/guide", follow_redirects=False)
    assert (reply.status_code, reply.headers["Location"]) == (307, "/guide/")
