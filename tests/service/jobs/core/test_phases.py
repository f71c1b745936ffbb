"""The phases of jobs of each kind: names in their order, and times that add up to the job's."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.common import phases
from service.jobs.core.phase_times import PhaseTimes
from service.jobs.engine.worker_process import Worker
from service.settings import Settings
from tests.service.jobs.data import carry_out, create, csv_of, read, succeeded, upload
from tests.service.jobs.stopping import StopAfter, carry_out_until

pytestmark = pytest.mark.one_application(checkpoint_s=0.02, lease_s=30.0)
ENDLESS: dict[str, Any] = {"stopping": {"max_epochs": 10**7, "duality_gap": 1e-300}}
TRAINED = ["queued", "reading", "training", "measuring", "saving"]


def names_of(job: dict[str, Any]) -> list[str]:
    """Of its phases, in order; without compiling, which depends on what this machine has."""
    return [one["name"] for one in job["progress"]["phases"] if one["name"] != phases.COMPILING]


def check(job: dict[str, Any], names: list[str]) -> None:
    """They are those that its kind is expected to have, and lasted as long as the job."""
    assert names_of(job) == names
    assert phases.expected(job["kind"], job["spec"]) == names
    lasted = [one["elapsed_s"] for one in job["progress"]["phases"] if one["name"] != "queued"]
    assert min(lasted) >= 0
    assert sum(lasted) == pytest.approx(job["elapsed_s"], abs=1e-6)
    begun = [one["started_at"] for one in job["progress"]["phases"] if one["name"] in names]
    assert job["attempt"] > 1 or all(earlier <= later for earlier, later in pairwise(begun))
    assert job["progress"]["phase"] is None


def posted(client: TestClient, path: str, **body: Any) -> str:
    reply = client.post(f"/v1/{path}", json={"dataset_id": "latest", **body})
    assert reply.status_code == 202, reply.text
    return str(reply.json()["id"])


def grid(client: TestClient) -> str:
    return posted(
        client, "comparisons", grid={"solver": [{"name": "newton"}], "C": [1.0, 2.0]}, seed=1
    )


@pytest.mark.parametrize(
    ("queue", "names"),
    [
        pytest.param(lambda client: create(client), TRAINED, id="training"),
        pytest.param(
            lambda client: create(client, validation={"folds": 3}, calibration="sigmoid"),
            [*TRAINED[:3], "folds", *TRAINED[3:]],
            id="folds",
        ),
        pytest.param(grid, TRAINED, id="comparison"),
        pytest.param(
            lambda client: posted(client, "evaluations", model="m", importance=True),
            ["queued", "reading", "scoring", "measuring", "saving"],
            id="evaluation",
        ),
        pytest.param(
            lambda client: posted(client, "batch-predictions", model="m"),
            ["queued", "reading", "scoring", "saving"],
            id="batch prediction",
        ),
    ],
)
def test_each_kind_of_job_has_its_phases(
    client: TestClient,
    worker: Worker,
    queue: Callable[[TestClient], str],
    names: list[str],
) -> None:
    upload(client)
    carry_out(client, worker, create(client, model_name="m"))
    job_id = queue(client)
    waiting = read(client, job_id)["progress"]
    assert (waiting["phase"], waiting["phases"]) == ("queued", [])
    job = succeeded(client, worker, job_id)
    check(job, names)
    page = client.get(f"/jobs/{job_id}").text
    shown = page.partition('<ol class="phases"')[2].partition("</ol>")[0]
    assert [shown.index(f">{phases.WORDS[name]} ") for name in names] == sorted(
        shown.index(f">{phases.WORDS[name]} ") for name in names
    )


def test_a_search_has_two_phases_of_its_own(client: TestClient, worker: Worker) -> None:
    upload(client, csv_of(n_samples=120))
    names = ["queued", "reading", "first-model", "comparing", "training", "measuring", "saving"]
    job = carry_out(client, worker, create(client, solver={"name": "auto"}))
    if job["search"]["tried"][0]["family"] == "linear" and "training" not in names_of(job):
        names.remove("training")  # what was kept is the first model
    assert names_of(job) == names
    lasted = [one["elapsed_s"] for one in job["progress"]["phases"][1:]]
    assert sum(lasted) == pytest.approx(job["elapsed_s"], abs=1e-6)


def test_attempts_add_to_the_phases(client: TestClient, settings: Settings) -> None:
    """Given back again and again, then carried through: each phase is listed once."""
    upload(client, csv_of(n_samples=300, n_features=6))
    job_id = create(client, validation={"folds": 3}, stopping={"max_epochs": 400})
    attempts = 0
    while (job := read(client, job_id))["state"] == "queued":
        assert job["progress"]["phase"] == "queued"
        worker = Worker(settings, StopAfter(100 * (attempts + 1)))
        before, job = job, carry_out(client, worker, job_id)
        attempts += 1
        assert names_of(job)[: len(names_of(before))] == names_of(before)
    assert attempts > 1
    check(job, [*TRAINED[:3], "folds", *TRAINED[3:]])


def test_a_paused_job_keeps_its_phases_and_says_what_it_waits_for(
    client: TestClient, worker: Worker
) -> None:
    upload(client)
    job_id = create(client, **ENDLESS)
    pause = client.post
    job = carry_out_until(client, worker, job_id, lambda: pause(f"/v1/jobs/{job_id}/pause"))
    assert (job["state"], job["progress"]["phase"]) == ("paused", None)
    assert names_of(job) == TRAINED[:3]
    page = client.get(f"/jobs/{job_id}").text
    assert "it waits until you resume it" in page
    assert '<li class="now" aria-current="step">training <span>' in page
    client.post(f"/v1/jobs/{job_id}/resume")
    before = job["progress"]["phases"][-1]["elapsed_s"]
    job = carry_out_until(
        client,
        worker,
        job_id,
        lambda: client.post(f"/v1/jobs/{job_id}/cancel", json={"keep_model": True}),
        lambda progress: (
            progress["phase"] == "training" and progress["phases"][-1]["elapsed_s"] > before
        ),
    )
    assert (job["state"], names_of(job)) == ("canceled", TRAINED)
    lasted = [one["elapsed_s"] for one in job["progress"]["phases"][1:]]
    assert sum(lasted) == pytest.approx(job["elapsed_s"], abs=1e-6)


def test_a_lost_worker_leaves_the_phases_that_it_reported(
    client: TestClient, settings: Settings, worker: Worker
) -> None:
    """The next attempt continues them, with the time that is known of the first."""
    upload(client)
    job_id = create(client, stopping={"max_epochs": 50})
    reported = [{"name": "reading", "started_at": 1.0, "elapsed_s": 70.0}]
    with sqlite3.connect(settings.sqlite_file or "") as connection:
        connection.execute(
            "UPDATE jobs SET progress = json_object('phase', 'reading', 'phases', json(?)),"
            " elapsed_s = 70 WHERE id = ?",
            (str(reported).replace("'", '"'), job_id),
        )
    connection.close()
    job = carry_out(client, worker, job_id)
    check(job, TRAINED)
    assert job["progress"]["phases"][1]["elapsed_s"] >= 70.0


def test_a_queued_job_says_how_many_are_before_it(client: TestClient) -> None:
    upload(client)
    first, second, urgent = create(client), create(client), create(client, priority=5)
    said = {id: client.get(f"/jobs/{id}").text for id in (first, second, urgent)}
    assert "1 job is before it" in said[first]
    assert "2 jobs are before it" in said[second]
    assert "no worker is running" in said[urgent]


def test_loops_that_are_compiled_are_a_phase_whichever_thread_does_it() -> None:
    times = PhaseTimes([], 0.0)
    times.begin("training", 1.0)
    times.compile(1, 2.0)
    times.compile(1, 3.0)
    times.compile(-1, 4.0)
    times.begin("measuring", 5.0)
    times.compile(-1, 6.0)
    recorded = times.recorded(8.0)
    assert recorded["phase"] == "measuring"
    lasted = {one["name"]: one["elapsed_s"] for one in recorded["phases"]}
    assert lasted == {"reading": 1.0, "training": 1.0, "compiling": 4.0, "measuring": 2.0}


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "1 s"), (89.0, "89 s"), (89.5, "1 min 30 s"), (3600.0, "1 h 0 min")],
    ids=["less than one", "seconds", "minutes", "hours"],
)
def test_forecasts_are_in_words(seconds: float, words: str) -> None:
    assert phases.left(seconds) == f"about {words} left"
