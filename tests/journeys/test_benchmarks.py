"""The benchmarks over HTTP, run small, give plausible figures."""

from __future__ import annotations

import shutil
import statistics
from pathlib import Path

import numpy as np
import pytest

from benchmarks import course_results, footprint, lists, under_load, uploads
from benchmarks.service_process import Service, running
from benchmarks.serving import compare
from benchmarks.serving.loads import Load
from tests.journeys.server import Server, ok


@pytest.fixture
def service(server: Server) -> Service:
    return Service(server.http, server.process.pid, ready_s=0.0)


@pytest.mark.soundness
@pytest.mark.timeout(300)  # thirteen trainings and more, on a busy machine
def test_table_of_the_course_results(service: Service) -> None:
    """Every document has rows; accuracies are near the reported ones."""
    rows = course_results.table(service, seeds=1, classes=2, rows_of_class=200)
    assert len({row.reported.algorithm for row in rows}) >= 5
    for row in rows:
        if "%" in row.reported.unit and "error" not in row.reported.unit:
            assert statistics.mean(row.values) >= 84.0
        if row.reported.figure in ("57", "258701.3"):
            assert round(row.values[0], 1) == float(row.reported.figure)
        assert row.reported.algorithm in str(row)


@pytest.mark.long
def test_footprint_is_measured(service: Service) -> None:
    figures = footprint.measure(service, upload_mb=1.0)
    assert figures.keys() == {
        "ready after, s",
        "API process resident, MB",
        "all processes resident, MB",
        "upload of 1 MB CSV, s",
        "more resident meanwhile, MB",
        "API process afterwards, MB",
    }
    assert np.isfinite(list(figures.values())).all()
    assert figures["all processes resident, MB"] > figures["API process resident, MB"] > 20
    assert 20 < figures["API process afterwards, MB"] < 2000
    assert figures["more resident meanwhile, MB"] >= 0  # processes can end meanwhile
    assert 0.001 < figures["upload of 1 MB CSV, s"] < 60
    uploads = ok(service.http.get("/v1/datasets"), 200)["datasets"]
    assert max(each["n_samples"] for each in uploads if each["n_features"] == 64) >= 500


@pytest.mark.long
def test_uploads_are_measured() -> None:
    """Each in a process of its own."""
    figures = uploads.main(["small", "mixed", "--rows", "2000"])
    assert figures.keys() == {"small", "mixed"}
    assert 0 < figures["small"][0] < figures["mixed"][0] < 60


@pytest.mark.long
def test_lists_are_measured() -> None:
    """With few rows; long lists have a second page."""
    figures = lists.main(rows=60, rounds=1)
    assert figures.keys() == lists.LISTS.keys()
    assert figures["jobs"].keys() == {"first", "next"}
    assert all(0 < ms < 60_000 for times in figures.values() for ms in times.values())


@pytest.mark.long
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_predictions_are_timed_beside_other_work() -> None:
    with running(**under_load.SETTINGS) as service:
        figures = under_load.measure(service, seconds=1.0, rate=50, upload_mb=1.0)
    others = {"pages", "upload", "comparison", "trainings", "backup", "streams"}
    assert figures.keys() == {"idle", *others}
    for row in figures.values():
        assert list(row) == ["p50", "p99", "p99.9", "max"]
        assert 0 < row["p50"] <= row["p99"] <= row["p99.9"] <= row["max"] < 60_000, figures


@pytest.mark.long
@pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")
def test_servers_are_compared(tmp_path: Path) -> None:
    """Each server answers, and has a column of the page."""
    loads = [Load("linear64", 1, 2, differing=True), Load("linear64", 2, 1, "objects")]
    if shutil.which("nginx"):
        loads.append(Load("linear64", 1, 2, proxy="through nginx"))
    page = tmp_path / "speed.md"
    lists, objects, *behind = compare.main(loads, rounds=1, seconds=1, page=page).values()
    assert all(each.keys() == {"service", "uvicorn"} for each in behind)
    limits = {"uvicorn", "C"} if shutil.which("cc") else {"uvicorn"}
    assert lists.keys() == limits | {"service", "hand-written"}
    assert objects.keys() == limits | {"service"}
    assert all(each.rate > 1 and each.cpu_us > 1 for each in lists.values()), lists
    assert lists["service"].ratio == 1
    [head, *rows] = [line for line in page.read_text().splitlines() if line.startswith("| ")]
    assert all(f" {name} " in head for name in limits)
    assert [row.split(" | ")[0] for row in rows] == [f"| {load}" for load in loads]
