"""What a new user wants, from the address of the service alone, counted in clicks."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.journeys.dashboard.browser import IN_A_BROWSER, PATIENCE_MS, Watched, chromium
from tests.journeys.server import Server

__all__ = ["chromium"]

pytestmark = [IN_A_BROWSER, pytest.mark.timeout(600)]

EXPECTED = {"first model": 5, "wrong row": 2, "file": 4, "promote": 2, "explain": 1}
"""Clicks, or times Enter: at most six each."""
MOST_TABS = 60
SHOTS = os.environ.get("SHOTS")
"""A folder for a picture of the page after each task."""
COUNT_PRESSES = """
const count = () => { sessionStorage.presses = 1 + Number(sessionStorage.presses ?? 0); };
addEventListener("pointerdown", count, true);
addEventListener("keydown", (event) => { if (event.key === "Enter") count(); }, true);
"""
BEYOND = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
FOCUS_IS_SHOWN = """one => [one, one.parentElement].some((each) => {
  const style = getComputedStyle(each);
  return style.outlineStyle !== "none" || each.matches(".drop:focus-within");
})"""


class Tasks:
    """Tasks of one user, one after the other: each begins on the page where the last one ended."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._page = watched.page
        self.needed: dict[str, int] = {}
        self.faults: list[str] = []

    @contextmanager
    def task(self, name: str) -> Iterator[None]:
        self._page.evaluate("sessionStorage.presses = 0")
        yield
        self.needed[name] = int(self._page.evaluate("sessionStorage.presses"))
        self._watched.examine()
        if (beyond := self._page.evaluate(BEYOND)) > 0:
            self.faults.append(f"{self._page.url}: {beyond} pixels beyond the edge")
        if SHOTS:
            self._page.screenshot(path=Path(SHOTS) / f"{name}.png", full_page=True)


def passengers(path: Path) -> Path:
    """A table with texts, gaps, dates and four classes, of which `second` is hard to predict. Other
    names have other fares: equal data would be the same dataset."""
    lines = ["id,name,cabin,age,joined,fare,class"]
    classes = ("first", "second", "third", "crew")
    cents = sum(path.stem.encode())
    for i in range(400):
        true = classes[i % 4]
        like = "third" if i % 8 == 1 else true
        cabin = {"first": "balcony", "second": "window", "third": "inside", "crew": "deck"}[like]
        age = "" if i % 7 == 0 else 20 + i % 40
        joined = f"20{10 + i % 9}-03-{1 + i % 28:02}"
        lines.append(f'{7000 + i},"Ng, P. {i}",{cabin},{age},{joined},{i % 31}.{cents},{true}')
    path.write_text("\n".join(lines) + "\n")
    return path


def by_mouse(target: Locator) -> None:
    target.click()


def by_touch(target: Locator) -> None:
    target.tap()


def by_keyboard(target: Locator) -> None:
    """Tab to it, see that it has the focus, and press Enter."""
    for _ in range(MOST_TABS):
        if target.evaluate("one => one === document.activeElement"):
            assert target.evaluate(FOCUS_IS_SHOWN), f"no visible focus on {target}"
            target.page.keyboard.press("Enter")
            return
        target.page.keyboard.press("Tab")
    raise AssertionError(f"{MOST_TABS} times Tab do not reach {target}")


DESK: dict[str, Any] = {"viewport": {"width": 1440, "height": 900}}
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 3,
    "has_touch": True,
    "is_mobile": True,
}


@pytest.mark.parametrize(
    ("press", "device", "scheme"),
    [
        pytest.param(by_mouse, DESK, "light", id="mouse"),
        pytest.param(by_keyboard, DESK, "dark", id="keyboard", marks=pytest.mark.long),
        pytest.param(by_touch, PHONE, "dark", id="phone-dark", marks=pytest.mark.long),
        pytest.param(by_touch, PHONE, "light", id="phone-light", marks=pytest.mark.long),
    ],
)
def test_five_tasks_need_few_clicks(
    server: Server,
    chromium: Browser,
    tmp_path: Path,
    press: Callable[[Locator], None],
    device: dict[str, Any],
    scheme: Literal["light", "dark"],
) -> None:
    """None needs typing. Every page has a way on, no finding, and no sideways scroll."""
    table = passengers(tmp_path / f"Passengers {scheme} {press.__name__[3:]}.csv")
    context = chromium.new_context(**device, color_scheme=scheme)
    context.add_init_script(COUNT_PRESSES)
    watched = Watched(context, server)
    page = watched.open("/")
    tasks = Tasks(watched)

    def go(name: str | re.Pattern[str], role: Any = "link") -> None:
        press(page.locator("body").get_by_role(role, name=name, exact=True))

    def choose(input: str) -> None:
        """A file in the dialog of the system."""
        with page.expect_file_chooser() as dialog:
            press(page.locator(input if press is by_keyboard else f".drop:has({input})"))
        dialog.value.set_files(table)

    with tasks.task("first model"):
        choose("#file")
        go("Keep this table", "button")
        page.wait_for_url(re.compile("/datasets/ds_"))
        go("Train a model")
        go("Start the training", "button")
        page.wait_for_url(re.compile("/jobs/job_"))
        expect(page.locator("#job-state")).to_have_text("succeeded", timeout=4 * PATIENCE_MS)
        expect(page.locator(".headline")).to_contain_text("with 95 % confidence")
        expect(page.locator(".headline")).to_contain_text("most frequent class: 25")
        go("See the model")
        page.wait_for_url(re.compile("/models/"))
    model = page.url.rpartition("/versions/")[0]
    name = model.rpartition("/")[2]
    with tasks.task("wrong row"):
        expect(page.locator("#quality")).to_contain_text(re.compile("Hardest class .*: second "))
        go("See which training rows are wrong", "button")
        page.wait_for_url(re.compile("/jobs/job_"))
        wrong = page.locator("[id^=wrong-2-] a").first
        expect(wrong).to_be_visible()
        press(wrong)
        expect(page.locator("#row")).to_contain_text("second")
    with tasks.task("file"):
        go("Models")
        go(name)
        choose("#rows-file")
        expect(page.locator("#file-answer")).to_contain_text("400 rows predicted")
        with page.expect_download() as download:
            go("Download as CSV", "button")
        lines = Path(download.value.path()).read_text().splitlines()
        assert len(lines) == 401
        assert lines[0].startswith("id,name,cabin,age,joined,fare,class,")
    dataset = server.http.get("/v1/datasets").json()["datasets"][0]["id"]
    other = {"solver": {"name": "newton", "C": 1e-4}, "validation": {"fraction": 0.25}}
    server.trained(dataset, name, **other)  # by a colleague
    page.reload()
    page.goto(f"{model}/versions/1")
    with tasks.task("promote"):
        go("Compare the two")
        expect(page.get_by_role("row").filter(has_text="Solver, C")).to_contain_text("0.0001")
        go(f"Make {name} version 1 the default", "button")
        page.wait_for_url(f"{model}/versions/1")
        expect(page.locator(".promote")).to_contain_text("answered by this one, the default")
    with tasks.task("explain"):
        go("Predict", "button")
        label = page.locator("#prediction .label").inner_text()
        expect(page.locator(".why").first).to_contain_text(f"for {label}")
        expect(page.locator("#status")).to_have_text(f"Predicted: {label}.")
        expect(page.get_by_role("button", name="Predict", exact=True)).to_be_focused()
    print(tasks.needed)
    assert tasks.needed == EXPECTED
    assert max(EXPECTED.values()) <= 6
    assert tasks.faults == []
    watched.assert_no_errors()
    context.close()
