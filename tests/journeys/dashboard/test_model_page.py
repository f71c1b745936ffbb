"""The page of a model in a browser: a row with its bars, a dropped file, a fold for the details."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.journeys.dashboard.browser import IN_A_BROWSER, Watched, chromium
from tests.journeys.server import Server

__all__ = ["chromium"]

pytestmark = IN_A_BROWSER

SAMPLES = Path(str(resources.files("service.dashboard"))) / "samples"
MOST_BEFORE_DETAILS = 1600
"""Pixels on a desktop."""
HEADER = 'id,age,fare,sex,"O\'Hare ""port""",joined,survived\n'
ROWS = [
    f"P{i},{20 + i % 50},{i % 31}.5,{'female' if i % 3 else 'male'},{'CSQ'[i % 3]},"
    f"2014-03-{1 + i % 28:02},{'yes' if i % 3 else 'no'}\n"
    for i in range(120)
]
DROPPED = """text => {
  const data = new DataTransfer();
  data.items.add(new File([text], 'new.csv', {type: 'text/csv'}));
  return data;
}"""


@pytest.fixture(scope="module", autouse=True)
def trained(server: Server) -> None:
    """A model of three classes of numbers, and one of a table."""
    validation = {"fraction": 0.25}
    iris = server.upload(SAMPLES / "iris.csv")["id"]
    table = server.upload("".join([HEADER, *ROWS]).encode())["id"]
    for dataset, name in ((iris, "page-iris"), (table, "page-table")):
        server.trained(dataset, name, solver={"name": "newton"}, validation=validation)
        body = {"dataset_id": dataset, "model": name}
        server.finished(server.http.post("/v1/evaluations", json=body).json())


@pytest.fixture(params=["desktop", "phone"])
def watched(request: pytest.FixtureRequest, chromium: Browser, server: Server) -> Iterator[Watched]:
    """The phone is in dark mode."""
    phone = request.param == "phone"
    context = chromium.new_context(
        viewport={"width": 390, "height": 844} if phone else {"width": 1440, "height": 900},
        color_scheme="dark" if phone else "light",
    )
    watched = Watched(context, server)
    yield watched
    context.close()
    watched.assert_no_errors()


def beyond(page: Page) -> int:
    """Pixels beyond the edge."""
    root = "document.documentElement"
    return int(page.evaluate(f"{root}.scrollWidth - {root}.clientWidth"))


@pytest.mark.spread(3)  # each model once, each width once
@pytest.mark.parametrize("model", ["page-iris", "page-table"])
def test_row_and_file_are_predicted(watched: Watched, model: str) -> None:
    """Bars with the row's values; a dropped file is shown at once, and downloaded."""
    page = watched.open(f"/models/{model}")
    expect(page.locator("#details")).not_to_have_attribute("open", "")
    if page.evaluate("innerWidth") > 1000:
        top = page.locator("#details").bounding_box()
        assert top is not None
        assert top["y"] <= MOST_BEFORE_DETAILS
    watched.click("Predict")
    label = page.locator("#prediction .label")
    expect(label).to_be_in_viewport()
    first = page.locator(".why").first
    expect(first.locator("caption")).to_contain_text(f"To the right: for {label.inner_text()}.")
    expect(first.locator("th", has_text=" = ").first).to_be_visible()
    before, _, after = page.locator(".changes li").first.inner_text().rpartition(" → ")
    assert "(now " in before
    assert after != label.inner_text()
    watched.examine()
    assert beyond(page) == 0

    text = "".join([HEADER, *ROWS])
    rows = 120
    if model == "page-iris":
        text, rows = (SAMPLES / "iris.csv").read_text(), 150
    page.dispatch_event(
        ".rows-file .drop", "drop", {"dataTransfer": page.evaluate_handle(DROPPED, text)}
    )
    answer = page.locator("#file-answer")
    expect(answer).to_contain_text(f"{rows} rows predicted")
    expect(answer).to_contain_text("right")
    expect(answer.locator("tbody tr")).to_have_count(10)
    watched.examine()
    assert beyond(page) == 0
    with page.expect_download() as download:
        watched.click("Download as CSV")
    lines = Path(download.value.path()).read_text().splitlines()
    assert len(lines) == rows + 1
    assert lines[0].startswith(text.splitlines()[0])

    page.dispatch_event(
        ".rows-file .drop", "drop", {"dataTransfer": page.evaluate_handle(DROPPED, "a,b\n1,x\n")}
    )
    expect(answer.locator("[role=alert]")).to_contain_text("lack")
    watched.examine()


def test_row_of_a_deleted_model_is_an_error(server: Server, chromium: Browser) -> None:
    """In the place of the form, when another tab has deleted it."""
    iris = server.upload(SAMPLES / "iris.csv")["id"]
    server.trained(iris, "page-deleted", solver={"name": "newton"})
    page = chromium.new_page()
    page.goto(f"{server.url}/models/page-deleted")
    server.http.delete("/v1/models/page-deleted").raise_for_status()
    page.click("#predict-now")
    expect(page.locator("#predicting [role=alert]")).to_contain_text("page-deleted")


@pytest.mark.spread(2)
@pytest.mark.parametrize("model", ["page-table", "page-iris"])
def test_snippets_run_as_they_are(server: Server, chromium: Browser, model: str) -> None:
    """With curl, the client and tritonclient: the same label."""
    page = chromium.new_page()
    page.goto(f"{server.url}/models/{model}")
    page.get_by_text("From a shell or a program").click()
    python = [sys.executable, "-c"]
    labels = ("setosa", "versicolor", "virginica") if model == "page-iris" else ("yes", "no")
    found = set()
    for id, command in (("curl", ["bash", "-c"]), ("python", python), ("triton", python)):
        text = page.locator(f"#{id}").inner_text()
        run = subprocess.run([*command, text], capture_output=True, text=True, timeout=60)
        answer = run.stdout.partition('"label"')[2] or run.stdout
        found.add(next((label for label in labels if label in answer), run.stderr))
    assert len(found) == 1
    assert found < set(labels)
    page.close()
