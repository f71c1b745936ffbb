"""Training jobs, carried out by a worker in this process."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from service.errors import StorageFull, Unavailable
from service.jobs.context import CHECKPOINT_LOST
from service.jobs.core.attempts import Attempt, Command
from service.jobs.core.job import MAX_ATTEMPTS_WITHOUT_PROGRESS, State
from service.jobs.core.leases import LeaseLost, Outcome
from service.jobs.engine.worker_process import Worker
from service.settings import Limits, Settings
from service.storage.blobs import open_blobs
from svm.errors import Interrupted
from tests.service.jobs.data import (
    carry_out,
    create,
    csv_of,
    files,
    job_body,
    read,
    succeeded,
    trained,
    upload,
)
from tests.service.jobs.stopping import StopAfter, carry_out_until

pytestmark = pytest.mark.one_application(checkpoint_s=0.05, lease_s=30.0)

# Continues for minutes, in epochs of a millisecond, unless it is stopped.
ENDLESS = {"max_epochs": 1_000_000}


@pytest.fixture
def worker(client: TestClient, settings: Settings) -> Worker:
    upload(client)
    return Worker(settings, threading.Event())


def test_auto_says_what_it_took_and_why(client: TestClient, worker: Worker) -> None:
    """The job keeps what was asked for; the version shows what was done, and can be repeated."""
    job_id = create(client, solver={"name": "auto", "C": 1e-3})
    job = succeeded(client, worker, job_id)
    assert job["spec"]["solver"]["name"] == "auto"
    said = job["notes"]
    assert len(said) == 1
    assert said[0].startswith("auto chose")
    assert not [text for text in job["warnings"] if "auto" in text]
    page = client.get(f"/jobs/{job_id}").text
    assert '<p class="help">Auto chose' in page
    assert "dual-coordinate-descent: C times the mean ‖x‖² is" in said[0]
    version = client.get("/v1/models/clouds/versions/1").json()
    taken = version["spec"]["solver"]
    assert (taken["name"], taken["C"]) == ("dual-coordinate-descent", 1e-3)
    carry_out(client, worker, create(client, solver=taken))
    again = client.get("/v1/models/clouds/versions/2").json()
    assert again["digest"] == version["digest"]
    assert again["spec"]["solver"] == taken


def test_a_version_has_the_c_that_was_trained(client: TestClient, worker: Worker) -> None:
    """1 if neither C nor λ was given; the request stays as it was."""
    for number, (given, shown) in enumerate([({}, 1.0), ({"lambda": 2.0}, None)], 1):
        job = carry_out(client, worker, create(client, solver={"name": "newton", **given}))
        assert job["spec"]["solver"]["C"] is None
        name = job["model"]["name"]
        version = client.get(f"/v1/models/{name}/versions/{number}").json()
        assert version["spec"]["solver"]["C"] == shown
        assert version["spec"]["solver"]["lambda"] == given.get("lambda")


def test_trained_job_has_metrics_certificate_and_model(client: TestClient, worker: Worker) -> None:
    """The reply and the model version have the same values."""
    job_id = create(client, validation={"fraction": 0.25}, set_alias="candidate")
    job = succeeded(client, worker, job_id)
    assert job["stop_reason"] == "gap-reached"
    assert job["converged"] is True
    assert job["model"] == {"name": "clouds", "version": 1}
    assert job["progress"]["fraction"] == 1.0
    certificate = job["certificate"]
    assert certificate["dual"] <= certificate["primal"]
    assert certificate["relative_gap"] <= 1e-3
    assert certificate["pairs"][0]["classes"] == ["c0", "c1"]
    for part, rows in (("train", 44), ("validation", 16)):
        metrics = job["metrics"][part]
        assert sum(map(sum, metrics["confusion_matrix"])) == rows
        assert [entry["support"] for entry in metrics["per_class"]] == [rows // 2] * 2
    version = client.get("/v1/models/clouds/versions/1").json()
    for field in ("metrics", "certificate", "epochs", "updates", "spec", "dataset_digest"):
        assert version[field] == job[field]
    assert version["job_id"] == job_id
    assert client.get("/v1/models/clouds/aliases/candidate").json()["version"] == 1


@pytest.mark.parametrize(
    ("stopping", "said"),
    [
        ({"max_epochs": 1, "duality_gap": 1e-9}, "(max-epochs). Its epochs were used up: "),
        ({"time_budget_s": 1e-9, "duality_gap": 1e-9}, "(time-budget). Its time was up: "),
        ({"max_epochs": 1}, None),
    ],
)
def test_a_budget_that_ended_a_training_is_named(
    client: TestClient, worker: Worker, stopping: dict[str, float], said: str | None
) -> None:
    """In the job's warnings, its page and the list of jobs, with what to do; not if the epochs were
    the only rule that was given."""
    job_id = create(client, solver={"name": "pegasos"}, stopping=stopping)
    job = carry_out(client, worker, job_id)
    warnings = [text for text in job["warnings"] if "ended before it converged" in text]
    if said is None:
        assert not warnings
        return
    assert len(warnings) == 1
    assert said in warnings[0]
    assert "The training ended before it converged" in client.get(f"/jobs/{job_id}").text
    assert job["stop_reason"].replace("-", " ") in client.get("/jobs").text


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("validation", [{"fraction": 0.4}, {"folds": 3}], ids=["part", "folds"])
def test_calibrated_model_has_probabilities(
    client: TestClient, worker: Worker, calibration: str, validation: dict[str, float]
) -> None:
    """Fitted on the validation set; the metrics show their quality."""
    upload(client, csv_of(90, n_classes=3))
    job = trained(client, worker, calibration=calibration, validation=validation)
    found = job["metrics"]["validation"]["calibration"]
    assert 0 <= found["disagreement"] <= 1
    assert 0 <= found["expected_calibration_error"] <= 1
    if calibration == "isotonic":
        # Chance alone separates so few rows: fitted and measured on the same ones, it was 0.
        assert found["log_loss"] > 0.01
        assert "`sigmoid` needs fewer" in " ".join(job["warnings"])
    asked = {"instances": [[0, 0, 0], [3, 3, 3]], "outputs": ["probability"]}
    (low, high) = client.post("/v1/models/clouds/predict", json=asked).json()["probability"]
    assert 0 < min(*low, *high) < max(*low, *high) < 1
    assert (int(np.argmax(low)), int(np.argmax(high))) == (0, 2)
    assert sum(low) == pytest.approx(1)


def test_a_class_with_one_validation_row_is_not_measured(
    client: TestClient, worker: Worker
) -> None:
    """There is no calibration without that row to measure it by; a warning reports it."""
    lines = csv_of(40).splitlines()
    rare = [line for line in lines if line.endswith("c1")][:4]
    upload(client, "\n".join([line for line in lines if not line.endswith("c1")] + rare))
    fields: dict[str, Any] = {"calibration": "sigmoid", "validation": {"fraction": 0.25}}
    job = trained(client, worker, **fields)
    assert job["metrics"]["validation"]["calibration"] is None
    assert "error of the probabilities is not known" in " ".join(job["warnings"])
    version = "/v1/models/clouds/versions/1"
    assert client.get(f"{version}/card").status_code == 200
    assert client.get("/models/clouds/versions/1").status_code == 200
    plot = client.get(f"{version}/plots/reliability.svg")
    assert (plot.status_code, plot.json()["code"]) == (404, "plot-unavailable")


@pytest.mark.parametrize(("rare", "weights"), [(6, None), (6, {"c0": 1.0}), (30, None)])
def test_a_class_that_is_never_predicted_is_named(
    client: TestClient, worker: Worker, rare: int, weights: Any
) -> None:
    """In the job, its page, the card and the page of the model, with what to try."""
    said = "The model predicts c0 for every row, and never c1." if rare == 6 else None
    head, *lines = csv_of(160).splitlines()
    kept = [line for line in lines if line.endswith("c0")]
    kept += [line for line in lines if line.endswith("c1")][:rare]
    upload(client, "\n".join([head, *kept]))
    solver = {"name": "newton", "C": 1e-3 if said else 1.0}
    job_id = create(client, solver=solver, class_weight=weights, validation={"folds": 2})
    job = carry_out(client, worker, job_id)
    card = client.get("/v1/models/clouds/versions/1/card").json()
    if said is None:
        assert "never" not in " ".join(card["limits"])
        assert job["audit"] == []
        return
    named = {one["name"]: one for one in job["audit"]}["class-never-predicted"]
    assert (named["grade"], named["found"], named["numbers"]) == ("fact", said, {"count": 1})
    assert '`"class_weight": "balanced"`' in named["to_do"]
    assert said in " ".join(card["limits"])
    for page in (f"/jobs/{job_id}", "/models/clouds/versions/1"):
        assert "The model predicts c0 for every row" in client.get(page).text


def test_calibration_needs_rows_held_back(client: TestClient) -> None:
    """They cannot be fitted on rows that the model was trained on."""
    upload(client)
    reply = client.post("/v1/jobs", json=job_body(calibration="sigmoid"))
    assert (reply.status_code, reply.json()["code"]) == (422, "invalid-field")
    assert reply.json()["errors"][0]["pointer"] == "/calibration"


def test_without_validation_only_training_metrics_are_given(
    client: TestClient, worker: Worker
) -> None:
    """There are no other rows to measure on."""
    job = carry_out(client, worker, create(client))
    assert set(job["metrics"]) == {"train"}


def test_not_converging_is_no_failure(client: TestClient, worker: Worker) -> None:
    """The job succeeds, and says how far it came."""
    job = carry_out(client, worker, create(client, stopping={"max_epochs": 1}))
    assert (job["state"], job["stop_reason"], job["converged"]) == (
        "succeeded",
        "max-epochs",
        False,
    )
    assert job["epochs"] == 1
    assert job["certificate"]["relative_gap"] > 1e-3


def test_same_job_twice_gives_equal_models(client: TestClient, worker: Worker) -> None:
    """Two versions with one digest; another seed gives another one."""
    stopping = {"max_epochs": 3}
    for seed in (1, 1, 2):
        carry_out(client, worker, create(client, seed=seed, stopping=stopping))
    digests = [
        client.get(f"/v1/models/clouds/versions/{version}").json()["digest"]
        for version in (1, 2, 3)
    ]
    assert digests[0] == digests[1] != digests[2]


def test_drawn_seed_is_kept(client: TestClient, worker: Worker) -> None:
    """A job without a seed can be repeated: its spec, sent again, gives the same model."""
    first = carry_out(client, worker, create(client, seed=None, stopping={"max_epochs": 3}))
    reply = client.post("/v1/jobs", json=first["spec"])
    assert reply.status_code == 202, reply.text
    second = carry_out(client, worker, reply.json()["id"])
    assert second["spec"] == first["spec"]
    assert second["certificate"] == first["certificate"]


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["b", "a", "ä"], ["a", "b", "ä"]),
        ([10, 9, -1], [-1, 9, 10]),
    ],
    ids=["text", "integers"],
)
def test_labels_keep_their_type(
    client: TestClient, worker: Worker, labels: list[Any], classes: list[Any]
) -> None:
    """Classes of the model and of its certificate are the labels that were uploaded."""
    lines = csv_of(n_classes=3).splitlines()
    for k, label in enumerate(labels):
        lines = [line.replace(f",c{k}", f",{label}") for line in lines]
    upload(client, "\n".join(lines))
    job = trained(client, worker, stopping={"max_epochs": 2})
    assert client.get("/v1/models/clouds/versions/1").json()["classes"] == classes
    pairs = [pair["classes"] for pair in job["certificate"]["pairs"]]
    assert pairs == [[classes[0], classes[1]], [classes[0], classes[2]], [classes[1], classes[2]]]


def test_stopped_worker_saves_and_the_next_one_ends_with_the_same_model(
    client: TestClient, worker: Worker, settings: Settings
) -> None:
    """Released, resumed by another worker, and equal to the bit to an undisturbed run."""
    fields: dict[str, Any] = {"stopping": {"max_epochs": 3000}, "validation": {"fraction": 0.25}}
    job = carry_out(client, Worker(settings, StopAfter()), create(client, **fields))
    assert (job["state"], job["attempt"]) == ("queued", 1)
    assert 0 < job["progress"]["epoch"] < 3000
    job = carry_out(client, worker, job["id"])
    assert (job["state"], job["attempt"], job["warnings"]) == ("succeeded", 2, [])
    carry_out(client, worker, create(client, **fields))
    versions = client.get("/v1/models/clouds/versions").json()["versions"]
    assert len(versions) == 2
    assert versions[0]["digest"] == versions[1]["digest"]
    rows = client.get(f"/v1/jobs/{job['id']}/trace").json()["rows"]
    assert [row[0] for row in rows] == sorted({row[0] for row in rows})
    assert [row[1] for row in rows] == sorted(row[1] for row in rows)


def test_stopped_worker_saves_even_before_a_checkpoint_is_due(
    client: TestClient, worker: Worker, settings: Settings
) -> None:
    """The progress since the last one is not lost."""
    patient = settings.model_copy(update={"checkpoint_s": 3600.0})
    job = carry_out(client, Worker(patient, StopAfter()), create(client, stopping=ENDLESS))
    assert job["state"] == "queued"
    assert len(files(settings, "checkpoints")) == 1


def test_damaged_checkpoint_is_told_and_costs_only_time(
    client: TestClient, worker: Worker, settings: Settings
) -> None:
    """The training starts again from the beginning, with a warning, and gives the same model."""
    fields: dict[str, Any] = {"stopping": {"max_epochs": 3000}}
    job = carry_out(client, Worker(settings, StopAfter()), create(client, **fields))
    assert job["state"] == "queued"
    (key,) = files(settings, "checkpoints")
    open_blobs(settings).write(key, b"damaged")
    job = succeeded(client, worker, job["id"])
    assert CHECKPOINT_LOST in job["warnings"]
    carry_out(client, worker, create(client, **fields))
    versions = client.get("/v1/models/clouds/versions").json()["versions"]
    assert versions[0]["digest"] == versions[1]["digest"]


def test_canceled_job_keeps_no_model_version(client: TestClient, worker: Worker) -> None:
    """It stops within about a second, and leaves no file."""
    job_id = create(client, stopping=ENDLESS)
    job = carry_out_until(client, worker, job_id, lambda: client.post(f"/v1/jobs/{job_id}/cancel"))
    assert (job["state"], job["stop_reason"], job["model"]) == ("canceled", "canceled", None)
    assert client.get("/v1/models/clouds").status_code == 404


def test_canceled_job_keeps_its_model_if_asked(client: TestClient, worker: Worker) -> None:
    """The best so far becomes a version that says that it was canceled."""
    job_id = create(client, stopping=ENDLESS)
    job = carry_out_until(
        client,
        worker,
        job_id,
        lambda: client.post(f"/v1/jobs/{job_id}/cancel", json={"keep_model": True}),
    )
    assert (job["state"], job["stop_reason"]) == ("canceled", "canceled")
    assert job["model"] == {"name": "clouds", "version": 1}
    assert job["epochs"] >= 20
    version = client.get("/v1/models/clouds/versions/1").json()
    assert (version["stop_reason"], version["converged"]) == ("canceled", False)
    said = "Its training was canceled before it ended"
    assert said in client.get("/models/clouds/versions/1").text
    assert "Continue from here" in client.get(f"/jobs/{job_id}").text
    assert 'value="clouds/1"' in client.get(f"/train?like_job={job_id}").text


def test_checkpoint_of_a_waiting_job_becomes_the_model_it_is_canceled_with(
    client: TestClient, worker: Worker, settings: Settings
) -> None:
    """Endless as the training is, it ends at once."""
    job = carry_out(client, Worker(settings, StopAfter()), create(client, stopping=ENDLESS))
    reply = client.post(f"/v1/jobs/{job['id']}/cancel", json={"keep_model": True})
    assert (reply.status_code, reply.json()["state"]) == (202, "queued")
    ended = carry_out(client, worker, job["id"])
    assert ended["state"] == "canceled"
    assert ended["model"] == {"name": "clouds", "version": 1}
    assert ended["epochs"] >= job["progress"]["epoch"] > 0


def test_paused_job_goes_on_to_the_same_model(client: TestClient, worker: Worker) -> None:
    """Its worker saves and leaves; resumed, it ends with the bits of an undisturbed training."""
    fields: dict[str, Any] = {"stopping": {"max_epochs": 10_000}}
    job_id = create(client, **fields)

    def steer(what: str) -> int:
        return client.post(f"/v1/jobs/{job_id}/{what}").status_code

    job = carry_out_until(client, worker, job_id, lambda: steer("pause"))
    assert (job["state"], job["pause_requested"], job["attempt"]) == ("paused", False, 1)
    assert not worker.take_next_job()
    assert steer("pause") == 200
    assert (steer("resume"), steer("resume")) == (202, 200)
    succeeded(client, worker, job_id)
    assert (steer("pause"), steer("resume")) == (409, 409)
    carry_out(client, worker, create(client, **fields))
    versions = client.get("/v1/models/clouds/versions").json()["versions"]
    assert versions[0]["digest"] == versions[1]["digest"]


@pytest.mark.parametrize(
    "trouble",
    [
        Unavailable("storage-unavailable", "the file store does not answer", retry_after_s=1),
        OSError("input/output error"),
    ],
)
def test_trouble_with_files_or_database_is_not_the_job_s(
    client: TestClient, worker: Worker, settings: Settings, trouble: Exception
) -> None:
    """The job waits for better times, and no lost worker is counted against it."""

    def work(attempt: Attempt) -> None:
        raise trouble

    stopping = threading.Event()
    stopping.set()  # no pause before it is given back
    worker = Worker(settings, stopping)
    worker._runners["train"] = work
    job_id = create(client)
    for attempt in range(1, MAX_ATTEMPTS_WITHOUT_PROGRESS + 2):
        job = carry_out(client, worker, job_id)
        assert (job["state"], job["attempt"]) == ("queued", attempt)


def test_end_of_a_job_is_written_once_the_database_is_back(
    client: TestClient, worker: Worker
) -> None:
    """The result is not lost: the worker tries again."""
    tries = []

    def register(_: sa.Connection) -> int:
        tries.append(1)
        if len(tries) == 1:
            raise sa.exc.OperationalError("INSERT", {}, Exception("the connection was lost"))
        return 7

    def work(attempt: Attempt) -> None:
        attempt.finish(Outcome(state=State.SUCCEEDED, stop_reason="converged"), register)

    worker._runners["train"] = work
    job = carry_out(client, worker, create(client))
    assert (job["state"], job["attempt"], len(tries)) == ("succeeded", 1, 2)


def test_full_database_at_a_stop_does_not_fail_the_job(
    client: TestClient, settings: Settings
) -> None:
    """The job is released, and its end is written by the next attempt."""
    upload(client)
    tries = []

    def register(_: sa.Connection) -> int:
        tries.append(1)
        if len(tries) == 1:
            raise StorageFull("storage-full", "the database has no space left")
        return 7

    def work(attempt: Attempt) -> None:
        attempt.finish(Outcome(state=State.SUCCEEDED, stop_reason="converged"), register)

    stopping = threading.Event()
    stopping.set()
    job_id = create(client)
    for stop, state in ((stopping, "queued"), (threading.Event(), "succeeded")):
        worker = Worker(settings, stop)
        worker._runners["train"] = work
        assert carry_out(client, worker, job_id)["state"] == state


def test_job_whose_work_does_not_look_up_is_paused_all_the_same(
    client: TestClient, worker: Worker
) -> None:
    """Soon, without the progress since the checkpoint; the work can write nothing more."""
    job_id = create(client)
    refused = []

    def work(attempt: Attempt) -> None:
        client.post(f"/v1/jobs/{job_id}/pause")
        asked = time.monotonic()
        while read(client, job_id)["state"] == "running":
            time.sleep(0.02)
        assert time.monotonic() - asked < 5  # less than 1 where nothing else runs
        try:
            attempt.finish(Outcome(state=State.SUCCEEDED, stop_reason="converged"))
        except LeaseLost:
            refused.append(attempt)
            raise

    worker._runners["train"] = work
    assert carry_out(client, worker, job_id)["state"] == "paused"
    assert refused


@pytest.mark.parametrize(
    ("second_thought", "command", "state"),
    [("resume", Command.CONTINUE, "queued"), ("cancel", Command.DROP, "canceled")],
)
def test_second_thought_while_the_worker_obeys_the_first_counts(
    client: TestClient,
    worker: Worker,
    settings: Settings,
    second_thought: str,
    command: Command,
    state: str,
) -> None:
    """A pause withdrawn after the work was interrupted ends no job; one overruled holds up none."""
    job_id = create(client)

    def until(attempt: Attempt, wanted: Command) -> None:
        while attempt.command is not wanted:
            time.sleep(0.01)

    def work(attempt: Attempt) -> None:
        client.post(f"/v1/jobs/{job_id}/pause")
        until(attempt, Command.SAVE_AND_RELEASE)
        client.post(f"/v1/jobs/{job_id}/{second_thought}")
        until(attempt, command)
        raise Interrupted

    worker = Worker(settings.model_copy(update={"lease_s": 1.0}), threading.Event())
    worker._runners["train"] = work
    assert carry_out(client, worker, job_id)["state"] == state


def test_checkpoint_of_a_paused_job_becomes_the_model_it_is_canceled_with(
    client: TestClient, worker: Worker
) -> None:
    """A worker makes it, and the job ends as canceled."""
    job_id = create(client, stopping=ENDLESS)
    pause = f"/v1/jobs/{job_id}/pause"
    job = carry_out_until(client, worker, job_id, lambda: client.post(pause))
    assert job["state"] == "paused"
    reply = client.post(f"/v1/jobs/{job_id}/cancel", json={"keep_model": True})
    assert (reply.status_code, reply.json()["state"]) == (202, "queued")
    ended = carry_out(client, worker, job_id)
    assert (ended["state"], ended["model"]) == ("canceled", {"name": "clouds", "version": 1})
    assert ended["epochs"] >= job["progress"]["epoch"] > 0


@pytest.mark.long
def test_time_left_is_told_after_a_resume_too(
    client: TestClient, worker: Worker, settings: Settings
) -> None:
    """Estimated from the time that the done part took; the time between attempts does not count.
    Not before there are two evaluations."""
    job_id = create(client, stopping={"max_epochs": 50_000})
    stopped = carry_out(client, Worker(settings, StopAfter(8000)), job_id)
    assert stopped["state"] == "queued"
    time.sleep(1.5)
    succeeded(client, worker, job_id)
    reply = client.get(
        f"/v1/jobs/{job_id}/events?page_size=1000", headers={"Accept": "application/json"}
    )
    shown = [event["data"] for event in reply.json()["events"] if event["event"] == "progress"]
    fractions = [progress["fraction"] for progress in shown]
    assert fractions == sorted(fractions)
    known = [p for p in shown if p["eta_s"] is not None]
    assert any(stopped["progress"]["fraction"] < p["fraction"] < 1 for p in known)
    trained = [p["eta_s"] * p["fraction"] / (1 - p["fraction"]) for p in known]
    assert all(t <= 9.0 * p["elapsed_s"] + 0.3 for t, p in zip(trained, known, strict=True))


def test_alias_moves_only_on_success(client: TestClient, worker: Worker) -> None:
    """In the transaction that ends the job; neither a failed job moves it, nor a canceled one,
    not even where its model is kept."""
    alias = "/v1/models/clouds/aliases/good"
    carry_out(client, worker, create(client, set_alias="good", stopping={"max_epochs": 1}))
    assert client.get(alias).json()["version"] == 1
    carry_out(client, worker, create(client, set_alias="good", stopping={"max_epochs": 1}))
    assert client.get(alias).json()["version"] == 2
    diverging = {"name": "gradient-descent", "learning_rate": 1e300}
    failed = carry_out(client, worker, create(client, set_alias="good", solver=diverging))
    assert failed["state"] == "failed"
    job_id = create(client, set_alias="good", stopping=ENDLESS)
    kept = carry_out_until(
        client,
        worker,
        job_id,
        lambda: client.post(f"/v1/jobs/{job_id}/cancel", json={"keep_model": True}),
    )
    assert (kept["state"], kept["model"]["version"]) == ("canceled", 3)
    job_id = create(client, set_alias="good", stopping=ENDLESS)
    carry_out_until(client, worker, job_id, lambda: client.post(f"/v1/jobs/{job_id}/cancel"))
    assert client.get(alias).json()["version"] == 2


@pytest.mark.parametrize(
    ("labels", "weights"),
    [
        (("c0", "c1"), {"c1": 20.0}),
        (("0", "7"), {"7": 20.0}),
        (("false", "true"), {"true": 20.0}),
        (("-1", "2"), {"2": 20.0, "-1": 1.0}),
    ],
    ids=["text", "integers", "booleans", "negative"],
)
def test_weights_name_classes_of_any_type(
    client: TestClient, worker: Worker, labels: tuple[str, str], weights: dict[str, float]
) -> None:
    """The heavier class is given up less often; names are labels as in JSON."""
    text = csv_of().replace(",c0", f",{labels[0]}").replace(",c1", f",{labels[1]}")
    upload(client, text)
    recalls = [
        carry_out(client, worker, create(client, class_weight=given))["metrics"]["train"][
            "per_class"
        ][1]["recall"]
        for given in (None, weights)
    ]
    assert recalls[0] < recalls[1]
    reply = client.post("/v1/jobs", json=job_body(class_weight={"rose": 2.0}))
    assert (reply.status_code, reply.json()["code"]) == (422, "unknown-class")


def test_balanced_weights_are_those_of_the_training_rows(
    client: TestClient, worker: Worker
) -> None:
    """Balancing is the same as naming the weights that it comes to, n / (2 n_c)."""
    lines = csv_of(60).splitlines(keepends=True)
    upload(client, "".join([*lines[:21], *lines[21::2]]))  # 10 + 20 of c0, 10 of c1
    counts = client.get("/v1/datasets").json()["datasets"][0]["class_counts"]
    n = sum(counts)
    named = {f"c{k}": n / (2 * count) for k, count in enumerate(counts)}
    solver = {"name": "newton", "lambda": 0.01}
    jobs = [
        carry_out(client, worker, create(client, solver=solver, class_weight=given))
        for given in ("balanced", named)
    ]
    assert jobs[0]["certificate"]["primal"] == pytest.approx(jobs[1]["certificate"]["primal"])


def test_diverged_training_fails_with_a_suggestion(client: TestClient, worker: Worker) -> None:
    """The hint names what to change."""
    solver = {"name": "gradient-descent", "learning_rate": 1e300}
    job = carry_out(client, worker, create(client, solver=solver))
    assert (job["state"], job["stop_reason"]) == ("failed", "error")
    assert job["error"]["code"] == "diverged"
    assert "learning_rate" in job["error"]["hint"]
    assert job["model"] is None


def test_split_that_leaves_no_row_of_a_class_fails_the_job(
    client: TestClient, worker: Worker
) -> None:
    """Without stratification that depends on the draw, so only the worker knows."""
    upload(client, csv_of(40) + "1,2,3,rare\n")
    validation = {"fraction": 0.9, "stratify": False}
    job = carry_out(client, worker, create(client, validation=validation))
    assert (job["state"], job["error"]["code"]) == ("failed", "class-too-small")


LARGER = "a,b,c,y\n" + "".join(f"{i % 7},{i % 3 * 1000},0,{i % 2}\n" for i in range(60))
BESIDE_LEVELS = "k,b,y\n" + "".join(f"{'uvw'[i % 3]},{i % 7 * 1000},{i % 2}\n" for i in range(60))
SPARSE = "1 1:0.5 3:-2 9:1\n-1 1:0.01 2:0.004\n" * 20


@pytest.mark.parametrize(
    ("text", "names", "hint"),
    [
        (LARGER, ("'b' are up to 2000", "'a' only up to 6"), "standardize"),
        (BESIDE_LEVELS, ("'b' are up to 6000", "'k' only up to 1"), "standardize"),
        (SPARSE, ("column 3 are up to 2", "column 2 only up to 0.004"), "max-abs"),
    ],
)
def test_columns_that_differ_too_much_are_named(
    client: TestClient, worker: Worker, text: str, names: tuple[str, ...], hint: str
) -> None:
    """By a training and by a comparison; not if they were scaled."""
    media_type = "text/x-libsvm" if text is SPARSE else "text/csv"
    client.post("/v1/datasets", content=text, headers={"Content-Type": media_type})

    def warnings(**fields: Any) -> list[str]:
        jobs = [carry_out(client, worker, create(client, solver={"name": "newton"}, **fields))]
        entries = {"specs": [{"solver": {"name": "newton"}}], "validation": {"fraction": 0.2}}
        reply = client.post("/v1/comparisons", json={"dataset_id": "latest", **entries, **fields})
        jobs.append(carry_out(client, worker, reply.json()["id"]))
        assert [job["state"] for job in jobs] == ["succeeded", "succeeded"]
        return [text for job in jobs for text in job["warnings"] if "scaling" in text]

    assert warnings() == []
    said = warnings(scaling="none")
    assert len(said) == 2
    for part in (*names, f'`scaling: "{hint}"`'):
        assert all(part in text for text in said), said


def test_rare_classes_stay_in_the_training(client: TestClient, worker: Worker) -> None:
    """A class of fewer rows than folds is measured in some of them or in none, and is named."""
    short: dict[str, Any] = {"stopping": {"max_epochs": 100}}
    upload(client, csv_of(40) + "1,2,3,rare\n2,2,3,rare\n5,1,0,single\n")
    job = trained(client, worker, validation={"folds": 5}, **short)
    assert job["warnings"][:2] == [
        "Class 'rare' has 2 rows: it was measured in 2 of 5 folds, and trained on in all.",
        "Class 'single' has 1 row: it was measured in 0 of 5 folds, and trained on in all.",
    ]
    confusion = np.array(job["metrics"]["validation"]["confusion_matrix"])
    assert confusion.sum(axis=1).tolist() == [20, 20, 2, 0]
    job = carry_out(client, worker, create(client, validation={"fraction": 0.2}))
    assert job["warnings"][0] == (
        "Class 'rare' has 2 rows, too few to hold out 0.2 of them: all are trained on, and the "
        "class is not measured."
    )


def test_damaged_dataset_fails_the_job(
    client: TestClient, worker: Worker, settings: Settings
) -> None:
    """Its files are compared with their digests before anything is trained."""
    job_id = create(client)
    for key in files(settings, "datasets"):
        open_blobs(settings).write(key, b"")
    job = carry_out(client, worker, job_id)
    assert (job["state"], job["error"]["code"]) == ("failed", "dataset-corrupt")


def test_job_longer_than_the_limit_ends_with_what_it_has(
    client: TestClient, worker: Worker, settings: Settings
) -> None:
    """The limit of the service acts as a time budget."""
    limits = Limits(job_s=0.2)
    worker = Worker(settings.model_copy(update={"limits": limits}), threading.Event())
    job = carry_out(client, worker, create(client, stopping=ENDLESS))
    assert (job["state"], job["stop_reason"]) == ("succeeded", "time-budget")
    assert job["model"] == {"name": "clouds", "version": 1}


def test_trace_shows_the_curve_of_every_pair(client: TestClient, worker: Worker) -> None:
    """Cost and errors at epochs 1, 2, 4 … for each pair, also as CSV."""
    upload(client, csv_of(90, n_classes=3))
    stopping = {"max_epochs": 8}
    job_id = create(client, stopping=stopping, validation={"fraction": 0.2})
    carry_out(client, worker, job_id)
    trace = client.get(f"/v1/jobs/{job_id}/trace").json()
    assert trace["columns"] == [
        *("epoch", "updates", "elapsed_s", "primal", "dual", "gap"),
        *("solver_objective", "train_error", "validation_error"),
        *("negative_class", "positive_class"),
    ]
    rows = [dict(zip(trace["columns"], row, strict=True)) for row in trace["rows"]]
    first = [row for row in rows if row["positive_class"] == "c1"]
    assert [row["epoch"] for row in first] == [1, 2, 4, 8]
    assert {row["negative_class"] + row["positive_class"] for row in rows} == {
        *("c0c1", "c0c2", "c1c2")
    }
    for row in rows:
        assert row["gap"] == pytest.approx(row["primal"] - row["dual"])
        assert 0 <= row["validation_error"] <= 1
    text = client.get(f"/v1/jobs/{job_id}/trace", headers={"Accept": "text/csv"})
    assert text.headers["content-type"].startswith("text/csv")
    lines = text.text.splitlines()
    assert lines[0] == ",".join(trace["columns"])
    assert len(lines) == 1 + len(rows)


def test_worker_without_work_takes_nothing(worker: Worker) -> None:
    """And the reply says it."""
    assert not worker.take_next_job()
