"""The page of a job, from the queue to its end, on a phone."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.journeys.dashboard.browser import IN_A_BROWSER, Watched, chromium
from tests.journeys.dashboard.test_dashboard import PHONE, SAMPLES
from tests.journeys.server import ok, running

__all__ = ["chromium"]

pytestmark = [IN_A_BROWSER, pytest.mark.timeout(300)]
ENDLESS = {"max_epochs": 10**7, "duality_gap": 1e-300}


def test_a_page_follows_its_job_from_the_queue_to_the_headline(
    chromium: Browser, tmp_path: Path
) -> None:
    """It is loaded once: the phases, the forecast and the result come by events."""
    with running(tmp_path / "var", SVM_WORKERS="1") as server:
        iris = server.upload(SAMPLES / "iris.csv")["id"]
        other = server.train(iris, "other", solver={"name": "pegasos"}, stopping=ENDLESS)["id"]
        job = server.train(iris, "iris", solver={"name": "newton"}, validation={"fraction": 0.25})
        while ok(server.http.get(f"/v1/jobs/{other}"), 200)["progress"]["phase"] != "training":
            time.sleep(0.05)
        context = chromium.new_context(viewport=PHONE, color_scheme="dark")
        watched = Watched(context, server)
        page = watched.open(f"/jobs/{job['id']}")
        now, forecast = page.locator(".phases .now"), page.locator("#eta")
        expect(now).to_contain_text("queued")
        expect(forecast).to_have_text("the next one, when a worker is free: 1 job running")
        assert page.locator(".phases .next").all_inner_texts() == [
            *("reading", "training", "measuring", "saving")
        ]
        watched.examine()
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
        page.evaluate("window.loaded = 'once'")
        seen = context.new_page()
        seen.goto(f"{server.url}/jobs/{other}")
        expect(seen.locator(".phases .now")).to_contain_text("training")
        expect(seen.locator(".phases .done")).to_contain_text(["queued", "reading"])
        seen.get_by_role("button", name="Pause").click()
        expect(seen.locator("#eta")).to_have_text("it waits until you resume it")
        expect(seen.locator("#steer .primary")).to_have_text("Resume")
        expect(page.locator(".headline")).to_contain_text("accuracy on the validation set")
        expect(now).to_have_count(0)
        expect(page.locator(".phases .done")).to_contain_text(
            ["queued", "reading", "training", "measuring", "saving"]
        )
        expect(page.locator("#steer .primary")).to_have_text("See the model")
        expect(page.locator("#fraction, .skeleton")).to_have_count(0)
        assert page.evaluate("window.loaded") == "once"
        watched.examine()
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
        seen.get_by_label("keep the model so far").uncheck()
        seen.get_by_role("button", name="Cancel").click()
        expect(seen.get_by_text("No model was kept.")).to_be_visible()
        seen.get_by_role("link", name="Train with changes").click()
        expect(seen).to_have_url(f"{server.url}/train?like_job={other}")
        watched.assert_no_errors()
        context.close()
