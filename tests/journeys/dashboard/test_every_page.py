"""Every page of the dashboard, the guide and `/docs`, on a desktop and a phone, light and dark."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from service.web.docs import SITE
from service.web.problems import PROBLEMS
from tests.journeys.dashboard.browser import IN_A_BROWSER, Watched, chromium
from tests.journeys.dashboard.test_dashboard import SAMPLES
from tests.journeys.server import Server, ok, running

__all__ = ["chromium"]

pytestmark = [IN_A_BROWSER, pytest.mark.torture, pytest.mark.timeout(1500)]

BRIGHT, BLOCK = 0.85, 20
"""A square of this many pixels a side is white if a fifth of its pixels at most is darker."""
MOST_WHITE = 12
"""Squares of a page in dark mode: a picture of a formula or the knob of a switch has less."""
SHOTS = os.environ.get("SHOTS")
"""A folder for pictures of the pages."""
BEYOND = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """With an evaluation, a comparison and a failed job beside a training."""
    with running(tmp_path_factory.mktemp("pages") / "var") as server:
        dataset = server.upload(SAMPLES / "iris.csv", name="Iris")["id"]
        validation = {"fraction": 0.25}
        newton = {"name": "newton"}
        server.trained(dataset, "iris", solver=newton, validation=validation, set_alias="best")
        gone = server.train(
            dataset, "gone", solver={"name": "gradient-descent", "learning_rate": 1e9}
        )
        evaluation = {"dataset_id": dataset, "model": "iris", "importance": True}
        grid = {"solver": [newton, {"name": "smo"}], "C": [0.1, 1.0]}
        comparison = {"dataset_id": dataset, "grid": grid, "validation": validation}
        for path, body in (("evaluations", evaluation), ("comparisons", comparison)):
            job = ok(server.http.post(f"/v1/{path}", json=body), 202)
            assert server.finished(job)["state"] == "succeeded"
        server.finished(gone)
        yield server


def paths(server: Server) -> list[str]:
    jobs = ok(server.http.get("/v1/jobs"), 200)["jobs"]
    trained = ",".join(job["id"] for job in jobs if job["kind"] == "train")
    dataset = ok(server.http.get("/v1/datasets"), 200)["datasets"][0]["id"]
    model = "/models/iris/versions/1"
    guide = [
        f"/guide/{page.parent.relative_to(SITE)}/".replace("/./", "/")
        for page in sorted(SITE.rglob("index.html"))
    ]
    return [
        *("/", "/datasets", f"/datasets/{dataset}", "/train", "/train?like=iris/1", "/jobs"),
        *(f"/jobs/{job['id']}" for job in jobs),
        *("/compare", f"/compare?jobs={trained}", "/compare?models=iris/1,iris/best"),
        *("/jobs?kind=train&sort=oldest", "/models?sort=name&q=iri", "/datasets?q=none"),
        *("/models", "/models/iris", model, f"{model}/card", f"{model}/plots"),
        *("/login", "/nothing", "/models/unknown", "/problems"),
        *(f"/problems/{code}" for code in list(PROBLEMS)[::10]),
        *guide,
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_page_can_be_read(
    filled: Server, chromium: Browser, width: int, scheme: Literal["light", "dark"]
) -> None:
    """No serious or moderate finding, nothing beyond the edge, nothing white in the dark."""
    context = chromium.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    watched = Watched(context, filled)
    faults = []
    pages = [*paths(filled), "/docs", "/docs#/"]
    for path in pages:
        page = watched.open(path)
        page.wait_for_load_state("load")
        if path == "/docs#/":
            unfold(watched)
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        watched.examine()
        if (beyond := page.evaluate(BEYOND)) > 0:
            faults.append(f"{path}: {beyond} pixels beyond the edge")
        name = re.sub("[^a-z0-9]+", "-", path.partition("?")[0]).strip("-") or "home"
        picture = page.screenshot(full_page=True)
        if SHOTS:
            Path(SHOTS, f"{name[:50]}-{width}-{scheme}.png").write_bytes(picture)
        if scheme == "dark" and (white := white_squares(picture)) > MOST_WHITE:
            faults.append(f"{path}: {white} white squares")
    context.close()
    print(
        f"{len(pages)} pages, {width} pixels wide, {scheme}", *watched.findings, *faults, sep="\n"
    )
    assert [*watched.findings, *faults] == []


def unfold(watched: Watched) -> None:
    """Every section, and one operation of each method."""
    page: Page = watched.page
    expect(page.locator(".opblock-tag").last).to_be_visible()
    for section in page.locator(".opblock-tag").all():
        watched.unfold(str(section.get_attribute("id")).removeprefix("operations-tag-"))
    for method in ("get", "post", "patch", "put", "delete"):
        block = page.locator(f".opblock-{method}").first
        block.locator(".opblock-summary-control").first.click()
        block.locator(".responses-wrapper").first.wait_for()


def white_squares(picture: bytes) -> int:
    """How many squares of the picture are white, a few dark pixels of a text aside."""
    pixels = np.asarray(Image.open(io.BytesIO(picture)).convert("L")) / 255
    height, width = (length // BLOCK * BLOCK for length in pixels.shape)
    squares = pixels[:height, :width].reshape(height // BLOCK, BLOCK, width // BLOCK, BLOCK)
    return int((np.quantile(squares, 0.2, axis=(1, 3)) > BRIGHT).sum())
