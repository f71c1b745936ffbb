"""What a new user wants, from the address of the service alone, counted in clicks and seconds."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.journeys.dashboard.browser import IN_A_BROWSER, Watched, chromium
from tests.journeys.server import Server

__all__ = ["chromium"]

pytestmark = [IN_A_BROWSER, pytest.mark.long, pytest.mark.timeout(600)]

MOST_CLICKS, MOST_S = 8, 120
MOST_TABS = 60
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


def by_mouse(target: Locator) -> None:
    target.click()


def by_touch(target: Locator) -> None:
    target.tap()


def by_keyboard(target: Locator) -> None:
    """Tab to it, and press Enter."""
    for _ in range(MOST_TABS):
        if target.evaluate("one => one === document.activeElement"):
            target.page.keyboard.press("Enter")
            return
        target.page.keyboard.press("Tab")
    raise AssertionError(f"{MOST_TABS} times Tab do not reach {target}")


DESKTOP: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}}
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 3,
    "has_touch": True,
    "is_mobile": True,
    "color_scheme": "dark",
}


@pytest.mark.parametrize(
    ("press", "device", "by_hand"),
    [
        pytest.param(by_mouse, DESKTOP, 1, id="mouse"),
        pytest.param(by_touch, PHONE, 1, id="phone"),
        pytest.param(by_keyboard, DESKTOP, 0, id="keyboard"),
    ],
)
def test_five_tasks_need_few_clicks(
    server: Server,
    chromium: Browser,
    tmp_path: Path,
    press: Callable[[Locator], None],
    device: dict[str, Any],
    by_hand: int,
) -> None:
    """At most eight clicks and two minutes each, none with a keyboard; a file is chosen in a dialog
    of the system."""
    context = chromium.new_context(**device)
    context.add_init_script(COUNT_CLICKS)
    watched = Watched(context, server)
    page = watched.open("/")
    tasks = Tasks(page)

    def click(name: str, role: Any = "button") -> None:
        press(page.get_by_role(role, name=name, exact=True))

    with tasks.task("upload"):
        with page.expect_file_chooser() as dialog:
            press(page.locator(".drop" if by_hand else "#file"))
        dialog.value.set_files(passengers(tmp_path / "Passengers.csv"))
        click("Upload")
        click("Keep this table")
        page.wait_for_url(re.compile("/datasets/ds_"))
    with tasks.task("train"):
        click("Train a model", "link")
        click("Start the training")
        page.wait_for_url(re.compile("/jobs/job_"))
        expect(page.locator("#job-state")).to_have_text("succeeded", timeout=1000 * MOST_S)
    with tasks.task("quality"):
        headline = page.locator(".headline")
        expect(headline).to_contain_text("accuracy on the validation set")
        expect(headline).to_contain_text("with 95 % confidence")
        expect(headline).to_contain_text("always predicting the most frequent class: 25")
    with tasks.task("hardest class"):
        click("See the model", "link")
        expect(page.locator("main")).to_contain_text("Hardest class: second")
    with tasks.task("shell"):
        press(page.locator("summary").filter(has_text="From a shell or a program"))
        command = page.locator("#curl").inner_text()
        run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
        assert re.search("first|second|third|crew", run.stdout), run.stderr
    watched.examine()
    for name, (clicks, seconds) in tasks.needed.items():
        print(f"{name:14} {clicks} clicks {seconds:6.1f} s")
        assert clicks <= MOST_CLICKS, name
        assert seconds <= MOST_S, name
    expected = {"upload": 3, "train": 2, "quality": 0, "hardest class": 1, "shell": 1}
    found = {name: clicks for name, (clicks, _) in tasks.needed.items()}
    assert found == {name: by_hand * clicks for name, clicks in expected.items()}
    watched.assert_no_errors()
    context.close()
