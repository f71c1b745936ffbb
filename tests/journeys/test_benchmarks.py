"""The benchmarks over HTTP, run small, give plausible figures."""

from __future__ import annotations

import statistics

import pytest

from benchmarks import course_results, footprint, lists, one_answer, serving, under_load
from benchmarks.service_process import Service
from tests.journeys.server import Server


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


def test_footprint_is_measured(service: Service) -> None:
    figures = footprint.measure(service, upload_mb=1.0)
    assert figures["all processes resident, MB"] > figures["API process resident, MB"] > 0
    assert figures["upload of 1 MB CSV, s"] > 0


def test_lists_are_measured() -> None:
    """With few rows; long lists have a second page."""
    figures = lists.main(rows=60, rounds=1)
    assert figures.keys() == lists.LISTS.keys()
    assert figures["jobs"].keys() == {"first", "next"}


def test_predictions_are_equal_by_every_path(service: Service) -> None:
    """Few rows, every format, also by a batch job."""
    differences = one_answer.differences("linear", serving.fitted_linear(64), 300)
    differences |= one_answer.differences("gaussian", serving.fitted_gaussian(64), 100)
    differences |= one_answer.differences_over_http(service, 700)
    assert set(differences.values()) == {0}


def test_predictions_are_timed_during_trainings(service: Service) -> None:
    figures = under_load.measure(service, seconds=1.0, rate=50)
    assert 0 < figures["idle predict p50"] <= figures["idle predict p99"]
    assert figures["busy livez p99"] > 0
