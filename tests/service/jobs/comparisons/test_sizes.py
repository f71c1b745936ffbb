"""Comparisons on parts of the data: how the time grows with rows, features and support vectors."""

from __future__ import annotations

import itertools
import threading
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from starlette.testclient import TestClient

from service.jobs.comparisons.entries import part_of
from service.jobs.engine.worker_process import Worker
from service.settings import Settings
from tests.service.jobs.comparisons.test_comparisons import ask, asked, compared, shown, timeless
from tests.service.jobs.data import carry_out, csv_of, upload
from tests.service.jobs.stopping import StopAfter

pytestmark = pytest.mark.one_application(checkpoint_s=0.02, lease_s=30.0)

SVG = "{http://www.w3.org/2000/svg}"
SPECS = [
    {"solver": {"name": "pegasos", "lambda": 0.01}, "stopping": {"max_epochs": 20}},
    {"solver": {"name": "smo", "C": 1.0}},
]
TABLE = "size,color,on,label\n" + "1,red,true,a\n5,blue,false,b\n,green,true,a\n" * 20


@pytest.fixture
def worker(client: TestClient, settings: Settings) -> Worker:
    upload(client, csv_of(200, n_classes=2, n_features=5))
    return Worker(settings, threading.Event())


def plot(client: TestClient, job_id: str, kind: str) -> tuple[ElementTree.Element, list[str]]:
    """The picture, and the points as lines of CSV."""
    path = f"/v1/comparisons/{job_id}/plots/{kind}"
    picture, points = client.get(f"{path}.svg"), client.get(f"{path}.csv")
    assert picture.status_code == points.status_code == 200, picture.text
    assert picture.headers["content-type"] == "image/svg+xml"
    assert points.headers["content-type"] == "text/csv; charset=utf-8"
    return ElementTree.fromstring(picture.content), points.text.splitlines()[1:]


def test_parts_of_rows(client: TestClient, worker: Worker) -> None:
    """Each entry on each part; a part of all training rows is a training without parts."""
    comparison = compared(client, worker, specs=SPECS, sizes={"rows": [20, 80, 160]})
    entries = sorted(comparison["entries"], key=lambda entry: entry["number"])
    assert [entry["rows"] for entry in entries] == [20, 80, 160] * 2
    assert {entry["columns"] for entry in entries} == {None}
    for entry in entries:
        assert entry["state"] == "finished"
        assert entry["elapsed_s"] > 0
        assert 0 < entry["n_support_vectors"] <= entry["rows"]
        assert entry["warm_start_from"] is None
        assert "rows" not in entry["spec"]
    assert len({entry["objective"] for entry in entries}) == 6
    whole = compared(client, worker, specs=SPECS)
    for one in whole["entries"]:
        [same] = [e for e in entries if e["rows"] == 160 and e["spec"] == one["spec"]]
        for name in ("certificate", "validation", "train", "updates", "n_support_vectors"):
            assert same[name] == one[name]
    root, points = plot(client, comparison["id"], "time-by-rows")
    assert root.findtext(f"{SVG}title") == "Training time by training rows"
    assert "pegasos, lambda = 0.01: " in (root.findtext(f"{SVG}desc") or "")
    assert [line.split(",")[-2] for line in points] == ["20", "80", "160"] * 2
    assert len(plot(client, comparison["id"], "time-by-support-vectors")[1]) == 6
    missing = client.get(f"/v1/comparisons/{comparison['id']}/plots/time-by-columns.svg")
    assert (missing.status_code, missing.json()["code"]) == (404, "plot-unavailable")
    page = client.get(f"/jobs/{comparison['id']}").text
    assert f"/v1/comparisons/{comparison['id']}/plots/time-by-rows.svg" in page


def test_parts_of_features(client: TestClient, worker: Worker) -> None:
    """The first ones: the same results as on data with these columns alone."""
    comparison = compared(client, worker, specs=SPECS[:1], sizes={"columns": [2, 5]})
    entries = {entry["columns"]: entry for entry in comparison["entries"]}
    lines = [line.split(",") for line in csv_of(200, n_features=5).splitlines()]
    upload(client, "".join(",".join([*cells[:2], cells[-1]]) + "\n" for cells in lines))
    [alone] = compared(client, worker, specs=SPECS[:1])["entries"]
    for name in ("certificate", "validation", "train", "updates", "n_support_vectors"):
        assert entries[2][name] == alone[name]
    assert entries[5]["validation"] != alone["validation"]
    assert len(plot(client, comparison["id"], "time-by-columns")[1]) == 2


def test_columns_of_a_table(client: TestClient, worker: Worker) -> None:
    upload(client, TABLE)
    comparison = compared(client, worker, specs=SPECS, sizes={"columns": [1, 2, 3]})
    assert {entry["state"] for entry in comparison["entries"]} == {"finished"}
    scores = {entry["columns"]: entry["score"] for entry in comparison["entries"]}
    assert scores[2] == 1.0
    assert scores[2] >= scores[1]


def test_stopped_services_and_the_same_results(
    client: TestClient, worker: Worker, settings: Settings
) -> None:
    fields: dict[str, Any] = {"specs": SPECS, "sizes": {"rows": [40, 160]}}
    whole = timeless(compared(client, worker, **fields))
    job_id, attempts = asked(client, **fields), 0
    while client.get(f"/v1/jobs/{job_id}").json()["state"] != "succeeded":
        attempts += 1
        Worker(settings, StopAfter(25 * attempts)).take_next_job()
    assert attempts > 1
    assert timeless(shown(client, job_id)) == whole


@pytest.mark.parametrize(
    ("sizes", "others", "pointer"),
    [
        ({"rows": [1]}, {}, "/sizes/rows/0"),
        ({"rows": [10, 161]}, {}, "/sizes/rows/1"),
        ({"columns": [2, 6]}, {}, "/sizes/columns/1"),
        ({"columns": [0]}, {}, "/sizes/columns/0"),
        ({"columns": []}, {}, "/sizes/columns"),
        ({}, {}, "/sizes"),
        ({"rows": [10], "columns": [2]}, {}, "/sizes"),
        ({"rows": [10]}, {"validation": {"folds": 2}}, "/validation"),
        ({"rows": [10]}, {"model_name": "clouds"}, ""),
    ],
)
def test_wrong_sizes(
    client: TestClient, worker: Worker, sizes: Any, others: dict[str, Any], pointer: str
) -> None:
    reply = ask(client, specs=SPECS, sizes=sizes, **others)
    assert reply.status_code == 422, reply.text
    assert reply.json()["errors"][0]["pointer"] == pointer


def test_plan_counts_the_parts(client: TestClient, worker: Worker) -> None:
    reply = ask(client, {"validate_only": True}, specs=SPECS, sizes={"rows": [20, 80]})
    plan = reply.json()
    assert plan["trainings"] == 4
    assert [entry["rows"] for entry in plan["entries"]] == [20, 80, 20, 80]


def test_no_plot_before_an_entry_has_finished(client: TestClient, worker: Worker) -> None:
    job_id = asked(client, specs=SPECS, sizes={"rows": [20]})
    reply = client.get(f"/v1/comparisons/{job_id}/plots/time-by-rows.svg")
    assert (reply.status_code, reply.json()["code"]) == (404, "plot-unavailable")
    wrong = client.get(f"/v1/comparisons/{job_id}/plots/time-by-luck.svg")
    assert wrong.status_code == 400
    carry_out(client, worker, job_id)


def test_parts_are_nested_and_stratified() -> None:
    """Every class in the smallest part; larger parts have all rows of smaller ones."""
    codes = np.repeat([0, 1, 2], [70, 25, 5])
    rows = np.arange(100, 200)
    parts = [part_of(rows, codes, count, 7) for count in (3, 20, 60, 100)]
    for smaller, larger in itertools.pairwise(parts):
        assert set(smaller) <= set(larger)
    assert [np.bincount(codes[part - 100]).tolist() for part in parts] == [
        *([1, 1, 1], [14, 5, 1], [42, 15, 3], [70, 25, 5])
    ]
