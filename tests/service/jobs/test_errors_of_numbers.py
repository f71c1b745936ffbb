"""What models of numbers are worth, in trainings, evaluations and comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import metrics as peer
from starlette.testclient import TestClient

from service.jobs.engine.worker_process import Worker
from service.jobs.training.summary import COVERAGES
from service.settings import Settings
from tests.service.jobs.data import csv_of, job_body, prices, succeeded, trained, upload
from tests.service.jobs.stopping import StopAfter

pytestmark = pytest.mark.one_application(checkpoint_s=0.05, lease_s=30.0)

NAMES = ("mae", "rmse", "r2", "median_absolute_error")
NEWTON = {"name": "newton"}


def train(client: TestClient, worker: Worker, **fields: Any) -> dict[str, Any]:
    """A job on the latest dataset, for the model `clouds`."""
    return trained(client, worker, **{"solver": NEWTON, **fields})


def version(client: TestClient) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/v1/models/clouds/versions/1").json()
    return found


def evaluated(client: TestClient, worker: Worker, **fields: Any) -> dict[str, Any]:
    body = {"dataset_id": "latest", "model": "clouds", **fields}
    reply = client.post("/v1/evaluations", json=body)
    assert reply.status_code == 202, reply.text
    succeeded(client, worker, reply.json()["id"])
    read: dict[str, Any] = client.get(reply.headers["Location"]).json()
    return read


def test_training_measures_its_rows_and_others(client: TestClient, worker: Worker) -> None:
    """With intervals, beside a model that always predicts the median or the mean; the version has
    the same."""
    text, price = prices(200)
    upload(client, text)
    job = train(client, worker, validation={"fraction": 0.25})
    assert job["metrics"] == version(client)["metrics"]
    for subset, n in (("train", 150), ("validation", 50)):
        measured = job["metrics"][subset]
        assert measured["n_samples"] == n
        assert 3 < measured["mae"] < measured["rmse"] < 7
        assert measured["r2"] > 0.95
        for name in NAMES:
            low, high = measured["intervals"][name]
            assert low < measured[name] < high
        baseline = measured["baseline"]
        assert baseline["mae"] > 20
        assert baseline["r2"] == pytest.approx(0, abs=0.1)
        assert baseline["median"] == pytest.approx(np.median(price), abs=8)
    assert job["metrics"]["validation"]["trained_rows"] == 0
    assert "weighted" not in job["metrics"]["train"]


def test_intervals_are_learned_from_rows_that_were_not_trained_on(
    client: TestClient, worker: Worker
) -> None:
    """What they are worth is recorded, for coverages that have rows enough; an evaluation tells how
    many of other rows are inside."""
    upload(client, prices(200)[0])
    known = train(client, worker, validation={"fraction": 0.25})["metrics"]["validation"]
    assert known["conformal"]["n_samples"] == 50
    coverages = known["conformal"]["coverages"]
    assert [one["coverage"] for one in coverages] == [0.5, 0.8, 0.9, 0.95]
    assert [one["mean_share"] for one in coverages] == [k / 51 for k in (26, 41, 46, 49)]
    assert coverages[0]["half_width"] == pytest.approx(known["median_absolute_error"], rel=0.2)
    for one in coverages:
        assert one["least_share"] < one["coverage"] <= one["mean_share"]
    upload(client, prices(400, seed=1)[0])
    found = evaluated(client, worker)["metrics"]["coverages"]
    assert [one["coverage"] for one in found] == [0.5, 0.8, 0.9, 0.95]
    for one in found:
        assert one["share_inside"] == pytest.approx(one["coverage"], abs=0.15)


@pytest.mark.parametrize("fields", [{}, {"validation": {"folds": 3}}])
def test_model_of_all_rows_has_no_intervals(
    client: TestClient, worker: Worker, fields: dict[str, Any]
) -> None:
    upload(client, prices(60)[0])
    job = train(client, worker, **fields)
    assert [note for note in job["notes"] if "no prediction intervals" in note]
    assert "conformal" not in job["metrics"].get("validation", {})
    assert evaluated(client, worker)["metrics"]["coverages"] is None


def test_rows_that_chose_the_model_give_no_intervals(client: TestClient, worker: Worker) -> None:
    upload(client, prices(60)[0])
    fields = {"validation": {"fraction": 0.5}, "stopping": {"patience": 3}}
    job = train(client, worker, **fields)
    assert [note for note in job["notes"] if "no `patience`" in note]
    assert "conformal" not in job["metrics"]["validation"]


def test_folds_measure_every_row_by_a_training_that_did_not_see_it(
    client: TestClient, worker: Worker, settings: Settings
) -> None:
    """Equal after stops; each fold has its own errors."""
    upload(client, prices(90)[0])
    metrics = train(client, worker, validation={"folds": 3})["metrics"]
    validation = metrics["validation"]
    assert validation["n_samples"] == 90
    folds = [fold["mae"] for fold in validation["folds"]]
    assert validation["mae"] == pytest.approx(np.mean(folds))
    assert validation["mae_mean"] == pytest.approx(np.mean(folds))
    assert validation["mae_std"] == pytest.approx(np.std(folds, ddof=1))
    assert validation["mae"] > metrics["train"]["mae"]
    body = job_body(solver=NEWTON, validation={"folds": 3})
    job_id = client.post("/v1/jobs", json=body).json()["id"]
    for checks in (8, 16, 24):
        Worker(settings, StopAfter(checks)).take_next_job()
    worker.take_next_job()
    assert client.get(f"/v1/jobs/{job_id}").json()["metrics"] == metrics


def test_logarithms_are_errors_of_the_numbers(client: TestClient, worker: Worker) -> None:
    """Only ε and the half-widths are of logarithms; intervals cover as many rows."""
    upload(client, prices(400, base=300)[0])
    fields = {"target_scale": "logarithmic", "validation": {"fraction": 0.5}}
    validation = train(client, worker, **fields)["metrics"]["validation"]
    assert 3 < validation["mae"] < 10
    assert validation["epsilon"] < 1
    assert validation["conformal"]["coverages"][2]["half_width"] < 1
    found = evaluated(client, worker)["metrics"]
    assert found["coverages"][2]["share_inside"] == pytest.approx(0.9, abs=0.06)


def test_another_dataset_measures_the_model(client: TestClient, worker: Worker) -> None:
    """One with classes is refused."""
    first = upload(client, prices(80)[0])
    other = upload(client, prices(70, seed=1)[0])
    job = train(client, worker, dataset_id=first, validation={"dataset_id": other})
    assert job["metrics"]["validation"]["n_samples"] == 70
    assert job["metrics"]["validation"]["conformal"]["n_samples"] == 70
    classes = upload(client, csv_of(30).replace("x0,x1,x2,label", "size,age,noise,price"))
    body = job_body(first, solver=NEWTON, validation={"dataset_id": classes})
    reply = client.post("/v1/jobs", json=body)
    assert (reply.status_code, reply.json()["code"]) == (422, "label-mismatch")
    assert reply.json()["errors"][0]["pointer"] == "/validation/dataset_id"


def test_weights_of_rows_are_counted(client: TestClient, worker: Worker) -> None:
    """Beside metrics that count every row once."""
    upload(client, prices(90, weight=True)[0], schema='{"weight": {"role": "weight"}}')
    train(client, worker)
    metrics = evaluated(client, worker)["metrics"]
    assert metrics["weighted"]["mae"] != metrics["mae"]
    low, high = metrics["weighted"]["intervals"]["mae"]
    assert low < metrics["weighted"]["mae"] < high


def test_evaluation_has_the_errors_of_what_callers_get(client: TestClient, worker: Worker) -> None:
    """With the rows of the largest errors, points for a plot, and how errors are distributed."""
    upload(client, prices(100)[0])
    train(client, worker)
    text, price = prices(1500, seed=1)
    upload(client, text)
    read = evaluated(client, worker, importance=True)
    metrics = read["metrics"]
    points = metrics["points"]
    assert points["actual"] == price[::2].tolist()
    wanted = {
        "mae": peer.mean_absolute_error(points["actual"], points["predicted"]),
        "rmse": peer.root_mean_squared_error(points["actual"], points["predicted"]),
        "r2": peer.r2_score(points["actual"], points["predicted"]),
    }
    assert {name: metrics[name] for name in wanted} == pytest.approx(wanted, rel=0.05)
    largest = metrics["largest_errors"]
    distances = [abs(one["actual"] - one["predicted"]) for one in largest]
    assert len(distances) == 20
    assert distances == sorted(distances, reverse=True)
    assert all(price[one["row"] - 1] == one["actual"] for one in largest)
    assert sum(metrics["residuals"]["counts"]) == 1500
    assert metrics["trained_rows"] == 0
    by_column = {one["name"]: one["decrease"] for one in metrics["importance"]["columns"]}
    assert by_column["size"] > by_column["age"] > 10 > by_column["noise"]
    headline = {name: metrics[name] for name in ("mae", "rmse", "r2", "n_samples")}
    assert {name: read[name] for name in headline} == headline
    assert read["accuracy"] is None
    assert (
        metrics["baseline"]["median"] == version(client)["metrics"]["train"]["baseline"]["median"]
    )


def test_largest_errors_have_their_numbers_in_the_dataset(
    client: TestClient, worker: Worker
) -> None:
    """Also if rows that were trained on are left out."""
    text, _ = prices(60)
    upload(client, text)
    train(client, worker)
    more, price = prices(40, seed=1)
    upload(client, text + more.partition("\n")[2])
    metrics = evaluated(client, worker, leave_out_trained=True)["metrics"]
    assert metrics["left_out_rows"] == 60
    for one in metrics["largest_errors"]:
        assert one["row"] > 60
        assert one["actual"] == price[one["row"] - 61]


def test_rows_that_were_trained_on_are_counted(client: TestClient, worker: Worker) -> None:
    """By the target, too: another price is another row."""
    text, _ = prices(60)
    upload(client, text)
    train(client, worker)
    assert evaluated(client, worker)["trained_rows"] == 60
    head, *lines = text.splitlines()
    moved = [f"{line}1" if "." in line.rpartition(",")[2] else line for line in lines[:20]]
    upload(client, "\n".join([head, *moved, *lines[20:]]) + "\n")
    assert evaluated(client, worker)["trained_rows"] == 40


def test_labels_of_the_other_kind_are_refused(client: TestClient, worker: Worker) -> None:
    """In one sentence; numbers that are classes are numbers, too."""
    upload(client, prices(60)[0])
    train(client, worker)
    text = csv_of(30).replace("x0,x1,x2,label", "size,age,noise,price")
    classes = upload(client, text)
    body = {"dataset_id": classes, "model": "clouds"}
    reply = client.post("/v1/evaluations", json=body)
    assert (reply.status_code, reply.json()["code"]) == (422, "label-mismatch")
    said = "the model predicts numbers, and the labels of the dataset are classes: 'c0', 'c1'"
    assert said in reply.json()["detail"]
    upload(client, text.replace("c0", "90").replace("c1", "110"))
    assert evaluated(client, worker)["metrics"]["n_samples"] == 30
    train(client, worker, dataset_id=classes, model_name="classifier")
    upload(client, prices(60)[0])
    body = {"dataset_id": "latest", "model": "classifier"}
    reply = client.post("/v1/evaluations", json=body)
    assert (reply.status_code, reply.json()["code"]) == (422, "target-continuous")
    assert "the model predicts classes" in reply.json()["detail"]


def compared(client: TestClient, worker: Worker, **fields: Any) -> dict[str, Any]:
    body = {"dataset_id": "latest", "seed": 1, **fields}
    reply = client.post("/v1/comparisons", json=body)
    assert reply.status_code == 202, reply.text
    succeeded(client, worker, reply.json()["id"])
    found: dict[str, Any] = client.get(reply.headers["Location"]).json()
    return found


@pytest.mark.parametrize("validation", [{"fraction": 0.4}, {"folds": 3}])
def test_entries_are_compared_row_by_row(
    client: TestClient, worker: Worker, settings: Settings, validation: dict[str, Any]
) -> None:
    """A model that is hardly another one is a tie, one that learns nothing is not; the best one
    becomes a version, with the metrics of a job."""
    upload(client, prices(120)[0])
    specs = [{"solver": {**NEWTON, "C": C}} for C in (1.0, 1.1, 1e-5)]
    asked = {"specs": specs, "validation": validation, "model_name": "clouds"}
    found = compared(client, worker, **asked)
    assert found["spec"]["rank_by"] == "mae"
    entries = found["entries"]
    scores = [entry["score"] for entry in entries]
    assert scores == sorted(scores) == [entry["validation"]["mae"] for entry in entries]
    assert entries[0]["behind"] is None
    near, far = (entry["behind"] for entry in entries[1:])
    assert near["tie"]
    assert near["interval"][0] <= 0 <= near["interval"][1]
    assert not far["tie"]
    assert far["difference"] == pytest.approx(scores[2] - scores[0])
    measured = version(client)["metrics"]["validation"]
    assert measured["mae"] == scores[0]
    assert "conformal" not in measured
    assert len(entries[0]["validation"]["folds"] or []) == validation.get("folds", 0)
    assert len(measured.get("folds", [])) == validation.get("folds", 0)
    job_id = client.post("/v1/comparisons", json={**asked, "dataset_id": "latest", "seed": 1})
    for checks in (10, 20, 30):
        Worker(settings, StopAfter(checks)).take_next_job()
    worker.take_next_job()
    again = client.get(f"/v1/comparisons/{job_id.json()['id']}").json()["entries"]
    assert [entry["behind"] for entry in again] == [entry["behind"] for entry in entries]
    assert [entry["validation"] for entry in again] == [entry["validation"] for entry in entries]


def test_entries_are_ranked_by_another_score(client: TestClient, worker: Worker) -> None:
    """Of which the largest is the best one, or the smallest."""
    upload(client, prices(120)[0])
    specs = [{"solver": {**NEWTON, "C": C}} for C in (1.0, 1e-5)]
    for rank_by in ("r2", "rmse", "median_absolute_error"):
        found = compared(client, worker, specs=specs, rank_by=rank_by)
        assert [entry["number"] for entry in found["entries"]] == [1, 2]
        assert found["score"] == found["entries"][0]["validation"][rank_by]


def test_many_rows_are_measured_at_even_distances(client: TestClient, worker: Worker) -> None:
    """The predictions of all entries are kept until the comparison ends."""
    upload(client, prices(44_000)[0])
    specs = [{"solver": {**NEWTON, "C": C}} for C in (1.0, 1e-5)]
    asked = {"specs": specs, "validation": {"fraction": 0.5}, "model_name": "clouds"}
    found = compared(client, worker, **asked)
    assert version(client)["metrics"]["validation"]["n_samples"] == 11_000
    assert found["entries"][1]["behind"]["difference"] > 10


@pytest.mark.parametrize("labels", ["numbers", "classes"])
def test_scores_of_the_other_kind_are_refused(client: TestClient, labels: str) -> None:
    upload(client, prices(60)[0] if labels == "numbers" else csv_of(60))
    body = {
        "dataset_id": "latest",
        "specs": [{"solver": NEWTON}],
        "rank_by": "accuracy" if labels == "numbers" else "mae",
    }
    reply = client.post("/v1/comparisons", json=body)
    assert (reply.status_code, reply.json()["errors"][0]["pointer"]) == (422, "/rank_by")
    assert f"the entries predict {labels}, which have no" in reply.json()["detail"]


def test_usual_coverages_ascend() -> None:
    assert list(COVERAGES) == sorted(COVERAGES)
