"""A page of the service in Chromium, with what it requests and what it reports as errors.

Chromium comes from the system (`apt-get install chromium`); tests are skipped without it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from importlib import resources
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page, expect, sync_playwright

from tests.journeys.server import Server

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
IN_A_BROWSER = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium")
AXE = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text()
PATIENCE_MS = 30_000
REFUSED = "Failed to load resource: the server responded with a status of 422"
"""The browser's own message for a form that the service refused."""

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    sandbox = [] if os.geteuid() else ["--no-sandbox"]  # which root cannot use
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=sandbox)
        yield browser
        browser.close()


class Watched:
    """A page of the service, with its errors."""

    def __init__(self, context: BrowserContext, server: Server) -> None:
        self.url = server.url
        self.requests: list[str] = []
        """Addresses of all requests of the browser, of WebSockets too."""
        self.messages: list[str] = []
        self.findings: list[str] = []
        self.sizes: list[int] = []
        """Bytes of each request with its reply, headers too."""
        context.set_default_timeout(PATIENCE_MS)
        context.on("request", lambda request: self.requests.append(request.url))
        context.route(lambda url: not self.is_own(url), lambda route: route.abort())
        context.on("page", self._note_sockets)
        self.page: Page = context.new_page()
        self.page.on("console", self._log)
        self.page.on("requestfinished", self._finished)
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))

    def open(self, path: str) -> Page:
        self.page.goto(self.url + path)
        return self.page

    def open_docs(self) -> Page:
        """The page `/docs`, when it has loaded Swagger UI and lists its sections."""
        page = self.open("/docs")
        self.click("authorize", "link")
        expect(page.locator(".opblock-tag").last).to_be_visible()
        return page

    def unfold(self, section: str) -> None:
        """Click the heading of a section of `/docs`, if it is folded."""
        heading = self.page.locator(f"#operations-tag-{section}")
        if heading.get_attribute("data-is-open") == "false":
            heading.click()
        expect(heading).to_have_attribute("data-is-open", "true")

    def click(self, name: str, role: Any = "button") -> None:
        self.page.get_by_role(role, name=name, exact=True).click()

    def see_model(self) -> None:
        """Wait until the training of this page has ended, and go to its model: `auto` compares many
        settings, and a busy machine may be slow."""
        expect(self.page.locator("#job-state")).to_have_text("succeeded", timeout=4 * PATIENCE_MS)
        self.click("See the model", "link")

    def examine(self) -> None:
        """Check the accessibility of the page."""
        self.page.evaluate(AXE)
        results = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        self.findings += [
            f"{self.page.url}: {each['impact']} {each['id']}: {each['nodes'][0]['html'][:200]}"
            for each in results["violations"]
            if each["impact"] != "minor"
        ]

    def assert_no_errors(self) -> None:
        assert any(map(self.is_own, self.requests))
        assert [url for url in self.requests if not self.is_own(url)] == []
        errors = [text for text in self.messages if not text.startswith(REFUSED)]
        assert errors == [], errors
        assert self.findings == []

    def _note_sockets(self, page: Page) -> None:
        page.on("websocket", lambda socket: self.requests.append(socket.url))

    def is_own(self, url: str) -> bool:
        """Whether the service that is tested receives this request."""
        return url.startswith(f"{self.url}/")

    def _finished(self, request: Any) -> None:
        with suppress(Error):  # the page is being closed
            self.sizes.append(sum(request.sizes().values()))

    def _log(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.messages.append(message.text)
