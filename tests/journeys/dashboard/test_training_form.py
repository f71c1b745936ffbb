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
SOLVERS = ("auto", "newton", "pegasos", "smo")
STRENGTHS = ("", "C", "lambda")
SOLVER = {"name": "smo", "lambda": 0.02, "kernel": {"name": "gaussian", "gamma": 0.3}}


@pytest.fixture(scope="module")
def dataset(server: Server) -> str:
    return str(server.upload(SAMPLES / "iris.csv", name="Iris")["id"])


@pytest.fixture(scope="module")
def starts(server: Server, dataset: str) -> list[str]:
    """Pages of forms: of a dataset, of jobs, and of a version, whose solver `auto` has chosen."""
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


@pytest.mark.long
def test_every_choice_is_what_is_sent(watched: Watched, server: Server, starts: list[str]) -> None:
    """The request has what can be seen, and nothing that cannot: in every combination on a new
    form, and with every answer on one that is filled in."""
    page = watched.page
    for number, start in enumerate(starts):
        watched.open(start)
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert page.locator("[name=seed]").input_value() == ("7" if number else "")
        every = itertools.product(SOLVERS, STRENGTHS)
        for solver, strength in zip(SOLVERS, STRENGTHS * 2, strict=False) if number else every:
            page.locator(f"[name=solver][value={solver}]").check()
            for name in STRENGTHS[1:]:
                page.locator(f"[name='solver:{solver}.{name}']").fill("0.5" * (name == strength))
            compare(page.evaluate(SHOWN), queued(server, page))
    watched.assert_no_errors()


def test_choices_of_before_are_not_sent(watched: Watched, server: Server, dataset: str) -> None:
    """What was entered for an answer counts only while the answer is chosen."""
    page = watched.open(f"/train?dataset_id={dataset}")
    page.locator("[name=solver][value=pegasos]").check()
    page.locator("[name='solver:pegasos.lambda']").fill("0.5")
    page.locator("[name=validation][value=folds]").check()
    page.locator("[name=validation][value='']").check()
    page.locator("[name=solver][value=auto]").check()
    spec = queued(server, page)
    compare(page.evaluate(SHOWN), spec)
    solver = spec["solver"]
    assert (solver["name"], solver["effort"], solver["lambda"]) == ("auto", "balanced", None)
    assert spec["validation"] is None


def queued(server: Server, page: Page) -> dict[str, Any]:
    """The spec of the job for which the form asks; it is canceled."""
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": server.url}
    reply = server.http.post("/train", content=page.evaluate(SENT), headers=form)
    refusal = re.search(r'<p class="fault".*?</p>', reply.text)
    assert reply.status_code == 303, refusal and refusal[0]
    job = ok(server.http.get(f"/v1{reply.headers['Location']}"), 200)
    server.http.post(f"/v1/jobs/{job['id']}/cancel")
    spec: dict[str, Any] = job["spec"]
    return spec


def compare(shown: dict[str, str], spec: dict[str, Any]) -> None:
    """The inputs that can be seen, and the request."""
    solver = spec["solver"]
    own = f"solver:{shown['solver']}"
    assert solver["name"] == shown["solver"]
    assert (solver.get("kernel") or {"name": ""})["name"] == shown.get(f"{own}.kernel", "")
    if "gamma" in (solver.get("kernel") or {}):
        assert str(solver["kernel"]["gamma"]) == shown[f"{own}.kernel:gaussian.gamma"]
    for name in STRENGTHS[1:]:
        given = shown[f"{own}.{name}"]
        assert solver[name] == (float(given) if given else None)
    decided = [solver["C"], solver["lambda"], solver.get("kernel"), spec["features"]["name"]]
    searches = solver["name"] == "auto" and decided == [None, None, None, "identity"]
    if solver["name"] == "auto":
        assert solver["effort"] == (shown[f"{own}.effort"] if searches else "quick")
    if shown.get("seed"):
        assert spec["seed"] == int(shown["seed"])
    usual = None if searches else "standardize"  # iris is dense
    assert spec["scaling"] == (shown["scaling"] or usual)
    for name in ("model_name", "dataset_id"):
        assert spec[name] == shown[name], name
