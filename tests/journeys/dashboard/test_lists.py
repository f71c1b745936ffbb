"""Lists on a phone: two versions are compared, one is promoted, several rows are deleted."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, ViewportSize, expect

from tests.journeys.dashboard.browser import IN_A_BROWSER, Watched, chromium
from tests.journeys.dashboard.test_dashboard import SAMPLES
from tests.journeys.server import Server

__all__ = ["chromium"]

pytestmark = [IN_A_BROWSER, pytest.mark.long]

BEYOND = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def test_versions_are_compared_promoted_and_deleted(server: Server, chromium: Browser) -> None:
    """By taps; without a sideways scroll, and accessible."""
    dataset = server.upload(SAMPLES / "moons.csv", name="Moons")["id"]
    for C in (0.0001, 1.0):
        solver = {"name": "newton", "C": C}
        server.trained(dataset, "tapped", solver=solver, validation={"fraction": 0.25}, seed=1)
    server.trained(dataset, "spare", solver={"name": "newton"})
    phone: ViewportSize = {"width": 390, "height": 844}
    context = chromium.new_context(viewport=phone, has_touch=True, color_scheme="dark")
    watched = Watched(context, server)
    page = watched.open("/models/tapped")

    def looked_at() -> None:
        watched.examine()
        assert page.evaluate(BEYOND) <= 0, page.url

    page.locator("#details > summary").click()
    for number in (1, 2):
        page.get_by_label(f"Select version {number}").check()
    watched.click("Compare selected")
    expect(page.locator(".headline")).to_contain_text("On the same 100 validation rows")
    row = page.get_by_role("row").filter(has_text="Solver, C")
    expect(row).to_contain_text("0.0001")
    looked_at()
    watched.click("Make tapped version 1 the default")
    page.wait_for_url(re.compile("/models/tapped/versions/1$"))

    watched.open("/models")
    page.get_by_label("Select all").check()
    expect(page.get_by_label("Select tapped")).to_be_checked()
    looked_at()
    watched.click("Delete selected")
    expect(page.locator("main")).to_contain_text("What stays")
    looked_at()
    page.get_by_role("button", name=re.compile("^Delete [0-9]+ models$")).click()
    expect(page.locator("main")).to_contain_text("default point to tapped")
    looked_at()
    watched.click("Back to the list", "link")
    expect(page.get_by_role("link", name="tapped", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="spare", exact=True)).to_have_count(0)
    context.close()
    watched.assert_no_errors()
