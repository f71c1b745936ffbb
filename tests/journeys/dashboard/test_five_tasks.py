"""What a new user wants, from the address of the service alone, counted in clicks and seconds."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.journeys.dashboard.browser import IN_A_BROWSER, Watched, chromium
from tests.journeys.server import Server, running

__all__ = ["chromium"]

pytestmark = [IN_A_BROWSER, pytest.mark.timeout(600)]

MOST_CLICKS, MOST_S = 8, 120
SHOTS = os.environ.get("SHOTS")
"""A folder for a picture of the page after each task."""
COUNT_CLICKS = """
addEventListener("pointerdown", () => {
  sessionStorage.clicks = 1 + Number(sessionStorage.clicks ?? 0);
}, true);
"""


class Tasks:
    """Tasks of one user, one after the other."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.needed: dict[str, tuple[int, float]] = {}

    @contextmanager
    def task(self, name: str) -> Iterator[None]:
        self._page.evaluate("sessionStorage.clicks = 0")
        began = time.monotonic()
        yield
        clicks = int(self._page.evaluate("sessionStorage.clicks"))
        self.needed[name] = clicks, time.monotonic() - began
        if SHOTS:
            self._page.screenshot(path=Path(SHOTS) / f"{name}.png", full_page=True)


def passengers(path: Path) -> Path:
    """A table with texts, gaps, dates and four classes, of which `second` is hard to predict."""
    lines = ["id,name,cabin,age,joined,fare,class"]
    classes = ("first", "second", "third", "crew")
    for i in range(400):
        true = classes[i % 4]
        like = "third" if i % 8 == 1 else true
        cabin = {"first": "balcony", "second": "window", "third": "inside", "crew": "deck"}[like]
        age = "" if i % 7 == 0 else 20 + i % 40
        joined = f"20{10 + i % 9}-03-{1 + i % 28:02}"
        lines.append(f'{7000 + i},"Ng, P. {i}",{cabin},{age},{joined},{i % 31}.5,{true}')
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Server]:
    with running(tmp_path / "var") as server:
        yield server


@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), pytest.param(390, "dark", marks=pytest.mark.long)]
)
def test_five_tasks_need_few_clicks(
    empty: Server, chromium: Browser, tmp_path: Path, width: int, scheme: Literal["light", "dark"]
) -> None:
    """At most eight clicks and two minutes each; a file is chosen in a dialog of the system."""
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    context.add_init_script(COUNT_CLICKS)
    watched = Watched(context, empty)
    page = watched.open("/")
    tasks = Tasks(page)
    with tasks.task("upload"):
        with page.expect_file_chooser() as dialog:
            page.locator(".drop").click()
        dialog.value.set_files(passengers(tmp_path / "Passengers.csv"))
        watched.click("Upload")
        watched.click("Keep this table")
        page.wait_for_url(re.compile("/datasets/ds_"))
    with tasks.task("train"):
        watched.click("Train a model", "link")
        watched.click("Start the training")
        page.wait_for_url(re.compile("/jobs/job_"))
        expect(page.locator("#job-state")).to_have_text("succeeded", timeout=1000 * MOST_S)
    with tasks.task("quality"):
        headline = page.locator(".headline")
        expect(headline).to_contain_text("accuracy on the validation set")
        expect(headline).to_contain_text("with 95 % confidence")
        expect(headline).to_contain_text("always predicting the most frequent class: 25")
    with tasks.task("hardest class"):
        watched.click("See the model", "link")
        expect(page.locator("main")).to_contain_text("Hardest class: second")
    with tasks.task("shell"):
        page.get_by_text("From a shell or a program").click()
        command = page.locator("#curl").inner_text()
        run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
        assert re.search("first|second|third|crew", run.stdout), run.stderr
    watched.examine()
    for name, (clicks, seconds) in tasks.needed.items():
        print(f"{name:14} {clicks} clicks {seconds:6.1f} s")
        assert clicks <= MOST_CLICKS, name
        assert seconds <= MOST_S, name
    assert {name: clicks for name, (clicks, _) in tasks.needed.items()} == {
        "upload": 3,
        "train": 2,
        "quality": 0,
        "hardest class": 1,
        "shell": 1,
    }
    watched.assert_no_errors()
    context.close()
