"""Photographs pages of the dashboard for README.md and the guide: `make screenshots`.

A service of its own has the samples, with fixed seeds, so that the pictures change only with the
pages. Chromium comes from the system.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from service.client import Client, Dataset

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
SAMPLES = ROOT / "service" / "dashboard" / "samples"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
SIZE = (1100, 760)
"""Of a window, in pixels."""
WIDTH = 1200
"""Of a picture, in pixels."""
COLORS = 32
"""Of a picture: a page has few, and a file of few is a third as large."""
MOST_BYTES = 37_500


def main() -> None:
    """Write the pictures. Raises RuntimeError if one is too large."""
    if CHROMIUM is None:
        sys.exit("no pictures are made: there is no Chromium (apt-get install chromium)")
    with _service() as url, Client(url) as client, sync_playwright() as playwright:
        sandbox = [] if os.geteuid() else ["--no-sandbox"]  # which root cannot use
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=sandbox)
        pages = _fill(client)
        for name, path in pages.items():
            _photograph(browser, url + path, IMAGES / f"dashboard-{name}.png")
        browser.close()


@contextmanager
def _service() -> Iterator[str]:
    """The address of a service with a free port and an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {"SVM_DATA_DIR": folder, "SVM_PORT": "0", "SVM_AUTH": "off"}
        command = [str(Path(sys.executable).parent / "svm-service"), "serve"]
        process = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | settings, stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            said = next(filter(None, (re.search(r"http://\S+:\d+", x) for x in process.stdout)))
            yield said[0]
        finally:
            process.terminate()
            process.wait(60)


def _fill(client: Client) -> dict[str, str]:
    """Upload and train; returns the path of each picture."""
    iris, moons, tickets = (_upload(client, name) for name in ("iris", "moons", "tickets"))
    job = client.train(moons, "moons", {"name": "smo", "kernel": {"name": "gaussian"}}, seed=1)
    job.wait()
    client.train(tickets, "tickets", "newton", validation={"folds": 5}, seed=1).wait()
    client.train(iris, "iris", validation={"folds": 5}, seed=1).wait()
    return {
        "home": "/",
        "data": f"/datasets/{iris.id}",
        "job": f"/jobs/{job.id}",
        "model": "/models/iris/versions/1",
    }


def _upload(client: Client, name: str) -> Dataset:
    return client.upload(SAMPLES / f"{name}.csv", name=name)


def _photograph(browser: Browser, address: str, file: Path) -> None:
    width, height = SIZE
    page = browser.new_page(
        viewport={"width": width, "height": height}, device_scale_factor=WIDTH / width
    )
    page.goto(address)
    page.wait_for_load_state("networkidle")
    picture = Image.open(io.BytesIO(page.screenshot(animations="disabled"))).convert("RGB")
    page.close()
    few = picture.quantize(COLORS, kmeans=1, dither=Image.Dither.NONE)
    few.save(file, optimize=True)
    if (written := file.stat().st_size) > MOST_BYTES:
        raise RuntimeError(f"{file.name} has {written:,} bytes, more than {MOST_BYTES:,}")
    print(f"{file.relative_to(ROOT)}: {few.width} × {few.height}, {written:,} bytes")


if __name__ == "__main__":
    main()
