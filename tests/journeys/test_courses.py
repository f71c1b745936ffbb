"""Every item of docs/courses.md: the service's figure is inside the range of literal runs."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.course_data import write_arrays, write_tables
from tests.data import real
from tests.journeys import courses
from tests.journeys.server import Server, ok

PAGE = Path(__file__).parents[2] / "docs" / "courses.md"
SEEDS = range(3)
JOB = re.compile(r"^\| (.+?) \| `(\{.+\})` \| ([\d.]+) … ([\d.]+) \| ([a-z-]+\.svg) \|$", re.M)
COMPARISON = re.compile(
    r"^\| (Time against .+?) \| `([a-z]+)\.npz` \| `(\{.+\})` \| (plots/[a-z-]+\.svg) \|$", re.M
)


@dataclass(frozen=True)
class Item:
    """A row of the page."""

    name: str
    request: dict[str, Any]
    least: float
    largest: float
    decimals: int
    plot: str

    def holds(self, figure: float) -> bool:
        return self.least <= round(figure, self.decimals) <= self.largest


def _item(match: re.Match[str]) -> Item:
    name, request, least, largest, plot = match.groups()
    decimals = len(least.partition(".")[2])
    return Item(name, json.loads(request), float(least), float(largest), decimals, plot)


ITEMS = [_item(match) for match in JOB.finditer(PAGE.read_text())]
COMPARISONS = [match.groups() for match in COMPARISON.finditer(PAGE.read_text())]
by_name = pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.name)


@pytest.fixture(scope="module")
def datasets(server: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Ids by solver, and of the test digits."""
    files = {file.stem: file for file in write_tables(tmp_path_factory.mktemp("courses"))}
    made = {name: server.upload(files[name])["id"] for name in ("circle", "iris")}
    digits = server.upload(real("coding5_train.csv"))["id"]
    data, labels = real("features.txt"), real("target.txt")
    return {
        **made,
        "pegasos": digits,
        "kernel-pegasos": digits,
        "test": server.upload(real("coding5_test.csv"))["id"],
        "subgradient": made["circle"],
        "gradient-descent": server.upload(data, labels=labels, header="absent")["id"],
    }


def test_page_has_every_item() -> None:
    assert {item.name for item in ITEMS} == courses.LITERAL.keys()
    assert len(COMPARISONS) == 3


@pytest.fixture(scope="module")
def trained(server: Server, datasets: dict[str, str]) -> Callable[[Item], list[dict[str, Any]]]:
    """The jobs of an item, one for each seed; items with the same request share them."""
    kept: dict[str, list[dict[str, Any]]] = {}

    def jobs(item: Item) -> list[dict[str, Any]]:
        request = json.dumps(item.request)
        if request not in kept:
            name = item.request["solver"]["name"]
            dataset = datasets["iris" if "multiclass" in item.request else name]
            spec = dict(item.request)
            if dataset == datasets["pegasos"]:
                spec["validation"] = {"dataset_id": datasets["test"]}
            seeds = SEEDS if item.least < item.largest else SEEDS[:1]
            queued = [server.train(dataset, "courses", seed=seed, **spec) for seed in seeds]
            kept[request] = [server.finished(job) for job in queued]
        return kept[request]

    return jobs


@pytest.mark.spread(6)
@by_name
def test_figure_is_in_the_range(
    item: Item, server: Server, trained: Callable[[Item], list[dict[str, Any]]]
) -> None:
    """The median of three seeds, or the one figure if nothing is random; with its plot."""
    finished = trained(item)
    figures = [_figure(item, job, server) for job in finished]
    assert item.holds(statistics.median(figures)), figures
    version = finished[0]["model"]["version"]
    plot = server.http.get(f"/v1/models/courses/versions/{version}/plots/{item.plot}")
    assert plot.status_code == 200


def _figure(item: Item, job: dict[str, Any], server: Server) -> float:
    metrics = job["metrics"]
    if "updates" in item.name:
        return float(job["updates"])
    if "trace" in item.request:
        trace = server.http.get(f"/v1/jobs/{job['id']}/trace").json()
        costs = [row[trace["columns"].index("solver_objective")] for row in trace["rows"]]
        assert len(costs) == 58
        return float(costs[0 if "before" in item.name else -1])
    if "cost" in item.name:
        return float(job["certificate"]["solver_objective"])
    if "multiclass" in item.request:
        return 100.0 * float(metrics["validation"]["accuracy"])
    part = "validation" if metrics.get("validation") else "train"
    return 100.0 * (1.0 - float(metrics[part]["accuracy"]))


@pytest.mark.soundness  # it measures time
@pytest.mark.parametrize(("name", "data", "request_text", "plot"), COMPARISONS)
def test_time_against_sizes(
    name: str, data: str, request_text: str, plot: str, server: Server, tmp_path: Path
) -> None:
    """Processor time of equally many updates: flat in rows, linear in columns and support vectors,
    by the exponent of a power of the size."""
    files = {file.stem: file for file in write_arrays(tmp_path)}
    dataset = server.upload(files[data], "application/x-npz")
    body = {"dataset_id": dataset["id"], **json.loads(request_text)}
    size = {"rows": "rows", "columns": "columns"}.get(name.split()[-1], "n_support_vectors")
    expected = 0.0 if size == "rows" else 1.0
    least: Any = np.inf
    for _ in range(5):  # what else the machine does only adds to a time
        entries = sorted(_compared(server, body, plot), key=lambda entry: float(entry[size]))
        assert len({entry["updates"] for entry in entries}) == 1
        least = np.minimum(least, [entry["cpu_s"] for entry in entries])
        sizes = [entry[size] for entry in entries]
        exponent = np.polyfit(np.log(sizes), np.log(least), 1)[0]
        if abs(exponent - expected) < 0.4:
            break
    print(f"{name}: exponent {exponent:.2f}")
    assert abs(exponent - expected) < 0.4, (sizes, least)


def _compared(server: Server, body: dict[str, Any], plot: str) -> list[dict[str, Any]]:
    """The entries of a comparison, which has the plot."""
    comparison = ok(server.http.post("/v1/comparisons", json=body), 202)
    path = f"/v1/comparisons/{comparison['id']}"
    while not comparison["finished_at"]:
        comparison = ok(server.http.get(f"{path}?wait_s=10"), 200)
    assert comparison["state"] == "succeeded", comparison
    assert server.http.get(f"{path}/{plot}").status_code == 200
    points = server.http.get(f"{path}/{plot.replace('.svg', '.csv')}").text.splitlines()
    assert len(points) > 3
    entries: list[dict[str, Any]] = comparison["entries"]
    return entries


@pytest.mark.soundness
@by_name
def test_range_is_that_of_literal_runs(item: Item) -> None:
    """20 seeds."""
    found = courses.span(item.name)
    assert [round(figure, item.decimals) for figure in found] == [item.least, item.largest]
