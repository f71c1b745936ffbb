"""The form of a training in a real browser: what it sends is what the page shows."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.journeys.dashboard.browser import IN_A_BROWSER, Watched, chromium
from tests.journeys.dashboard.test_dashboard import SAMPLES
from tests.journeys.server import Server, ok

__all__ = ["chromium"]

pytestmark = IN_A_BROWSER

SHOWN = """
Object.fromEntries([...document.querySelectorAll("#train :is(input, select, textarea)")]
  .filter(one => one.checkVisibility() && !one.disabled)
  .filter(one => one.checked || !["radio", "checkbox"].includes(one.type))
  .map(one => [one.name, one.value]))
"""
SENT = "new URLSearchParams(new FormData(document.getElementById('train'))).toString()"
BOUNDARIES = ("automatic", "straight", "curved", "solver")
STRENGTHS = ("C", "sweep", "lambda")
SOLVER = {"name": "smo", "lambda": 0.02, "kernel": {"name": "gaussian", "gamma": 0.3}}


@pytest.fixture(scope="module")
def starts(server: Server) -> list[str]:
    """Pages of forms: of a dataset, of jobs, and of a version, whose solver `auto` has chosen."""
    dataset = server.upload(SAMPLES / "iris.csv", name="Iris")["id"]
    shared: dict[str, Any] = {"scaling": "standardize", "seed": 7}
    shared["validation"] = {"fraction": 0.25}
    auto = server.trained(dataset, "shapes", solver={"name": "auto"}, **shared)
    named = server.trained(dataset, "shapes", solver=SOLVER, **shared)
    version = auto["model"]["version"]
    return [
        f"/train?dataset_id={dataset}",
        f"/train?like_job={auto['id']}",
        f"/train?like_job={named['id']}",
        f"/train?like=shapes/{version}",
    ]


@pytest.fixture
def watched(chromium: Browser, server: Server) -> Iterator[Watched]:
    context = chromium.new_context()
    yield Watched(context, server)
    context.close()


def test_every_choice_is_what_is_sent(watched: Watched, server: Server, starts: list[str]) -> None:
    """The request has what can be seen, and nothing that cannot: in every combination on a new
    form, and with every answer on one that is filled in."""
    page = watched.page
    for number, start in enumerate(starts):
        watched.open(start)
        page.evaluate("document.querySelector('#train details').open = true")
        assert page.locator("[name=seed]").input_value() == ("7" if number else "")
        every = itertools.product(BOUNDARIES, STRENGTHS)
        for boundary, strength in zip(BOUNDARIES, STRENGTHS * 2, strict=False) if number else every:
            weight = strength.replace("sweep", "C")
            page.locator(f"[name=boundary][value={boundary}]").check()
            page.locator(f"[name=strength][value={weight}]").check()
            page.locator(f"[name={weight}]").fill("0.5")
            if weight == "C":
                page.locator("[name=sweep]").set_checked(strength == "sweep")
            shown = page.evaluate(SHOWN)
            assert ("solver" in shown) == (boundary == "solver")
            assert ("sweep" in shown) == (strength == "sweep")
            compare(shown, queued(server, page))
    watched.assert_no_errors()


def test_choices_of_before_are_not_sent(
    watched: Watched, server: Server, starts: list[str]
) -> None:
    """What was entered for an answer counts only while the answer is chosen."""
    page = watched.open(starts[0])
    page.locator("[name=boundary][value=solver]").check()
    page.locator("[name=solver][value=pegasos]").check()
    page.locator("[name=sweep]").check()
    page.locator("[name=strength][value=lambda]").check()
    page.locator("[name=lambda]").fill("0.5")
    page.locator("[name=strength][value=C]").check()
    page.locator("[name=sweep]").uncheck()
    page.locator("[name=boundary][value=straight]").check()
    spec = queued(server, page)
    compare(page.evaluate(SHOWN), spec)
    assert (spec["solver"]["name"], spec["solver"]["C"]) == ("auto", 1)


def queued(server: Server, page: Page) -> dict[str, Any]:
    """The spec of the job for which the form asks; it is canceled."""
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": server.url}
    reply = server.http.post("/train", content=page.evaluate(SENT), headers=form)
    refusal = re.search(r'<p class="fault".*?</p>', reply.text)
    assert reply.status_code == 303, refusal and refusal[0]
    job = ok(server.http.get(f"/v1{reply.headers['Location']}"), 200, 404)
    if "spec" not in job:
        id = reply.headers["Location"].rpartition("/")[2]
        job = ok(server.http.get(f"/v1/comparisons/{id}"), 200)
    kind = "jobs" if job["kind"] == "train" else "comparisons"
    server.http.post(f"/v1/{kind}/{job['id']}/cancel")
    spec: dict[str, Any] = job["spec"]
    return spec


def compare(shown: dict[str, str], spec: dict[str, Any]) -> None:
    """The inputs that can be seen, and the request."""
    solver = spec["grid"]["solver"][0] if "sweep" in shown else spec["solver"]
    names = {"automatic": "auto", "straight": "auto", "curved": "auto"}
    assert solver["name"] == names.get(shown["boundary"], shown.get("solver"))
    own = f"solver:{solver['name']}.kernel"
    kernel = "gaussian" if shown["boundary"] == "curved" else shown.get(own, "")
    assert (solver.get("kernel") or {"name": ""})["name"] == kernel
    if "gamma" in (solver.get("kernel") or {}) and shown["boundary"] == "solver":
        assert str(solver["kernel"]["gamma"]) == shown[f"{own}:gaussian.gamma"]
    if "sweep" in shown:
        assert spec["grid"]["C"] == [0.005, 0.05, 0.5, 5, 50]
    elif shown["strength"] == "C":
        assert (solver["C"], solver["lambda"]) == (float(shown["C"]), None)
    else:
        assert (solver["C"], solver["lambda"]) == (None, float(shown["lambda"]))
    if shown.get("seed"):
        assert spec["seed"] == int(shown["seed"])
    assert spec["scaling"] == (shown["scaling"] or "standardize")  # iris is dense
    for name in ("model_name", "dataset_id"):
        assert spec[name] == shown[name], name
