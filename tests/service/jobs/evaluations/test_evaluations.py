"""Evaluations, carried out by a worker in this process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import metrics as peer
from starlette.testclient import TestClient

from service.jobs import scoring
from service.jobs.engine.worker_process import Worker
from service.jobs.evaluations.run import wrong_examples
from service.settings import Limits, Settings
from service.storage.blobs import open_blobs
from tests.service.jobs.data import carry_out, create, csv_of, files, job_body, succeeded, upload
from tests.service.jobs.stopping import StopAfter

pytestmark = pytest.mark.one_application(checkpoint_s=0.05, lease_s=30.0)


def train(client: TestClient, worker: Worker, n_classes: int = 2, **fields: Any) -> str:
    """A model `clouds`; the id of the dataset that it was trained on."""
    dataset_id = upload(client, csv_of(90, n_classes))
    job_id = client.post("/v1/jobs", json=job_body(dataset_id, **fields)).json()["id"]
    succeeded(client, worker, job_id)
    return dataset_id


def ask(client: TestClient, **fields: Any) -> Any:
    body = {"dataset_id": "latest", "model": "clouds", **fields}
    return client.post("/v1/evaluations", json=body)


def evaluated(client: TestClient, worker: Worker, **fields: Any) -> dict[str, Any]:
    """A finished evaluation."""
    reply = ask(client, **fields)
    assert reply.status_code == 202, reply.text
    assert reply.json()["metrics"] is None
    succeeded(client, worker, reply.json()["id"])
    read: dict[str, Any] = client.get(reply.headers["Location"]).json()
    return read


def online(client: TestClient, text: str, *outputs: str) -> dict[str, Any]:
    rows = [list(map(float, line.split(",")[:3])) for line in text.splitlines()[1:]]
    asked = {"instances": rows, "outputs": outputs}
    found: dict[str, Any] = client.post("/v1/models/clouds/predict", json=asked).json()
    return found


def true_labels(text: str) -> list[str]:
    return [line.rpartition(",")[2] for line in text.splitlines()[1:]]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_metrics_are_those_of_the_peer(
    client: TestClient, worker: Worker, monkeypatch: pytest.MonkeyPatch, n_classes: int
) -> None:
    """Of the predictions that callers get online, on rows that the model has not seen."""
    monkeypatch.setattr(scoring, "BLOCK_ROWS", 7)
    train(client, worker, n_classes, calibration="sigmoid", validation={"fraction": 0.4})
    text = csv_of(70, n_classes, seed=5)
    upload(client, text)
    found = evaluated(client, worker)
    assert (found["fraction"], found["model"]) == (1.0, {"name": "clouds", "version": 1})
    metrics, true = found["metrics"], true_labels(text)
    said = online(client, text, "label", "decision", "probability")
    assert metrics["classes"] == said["classes"]
    assert metrics["confusion_matrix"] == peer.confusion_matrix(true, said["label"]).tolist()
    assert metrics["accuracy"] == pytest.approx(peer.accuracy_score(true, said["label"]))
    f1 = peer.f1_score(true, said["label"], average=None)
    assert [each["f1"] for each in metrics["per_class"]] == pytest.approx(f1.tolist())
    decision, p = np.array(said["decision"]), np.array(said["probability"])
    columns = decision[:, None] if n_classes == 2 else decision
    classes = said["classes"][-columns.shape[1] :]
    areas = [
        peer.roc_auc_score([label == name for label in true], column)
        for name, column in zip(classes, columns.T, strict=True)
    ]
    assert [each["label"] for each in metrics["roc"]] == classes
    assert [each["auc"] for each in metrics["roc"]] == pytest.approx(areas)
    assert metrics["roc_auc"] == found["roc_auc"] == pytest.approx(np.mean(areas))
    assert metrics["calibration"]["log_loss"] == pytest.approx(peer.log_loss(true, p))
    assert np.sum(metrics["margins"]["counts"]) == 70
    listed = client.get("/v1/evaluations", params={"model_name": "clouds"}).json()["evaluations"]
    assert [each["accuracy"] for each in listed] == [metrics["accuracy"]]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_wrong_rows_have_their_numbers_in_the_dataset(
    client: TestClient, worker: Worker, n_classes: int
) -> None:
    """All of them if they are few, the lowest margin first; also if trained rows are left out."""
    train(client, worker, n_classes)
    new = csv_of(60, n_classes, seed=5).splitlines()[1:]
    turned = [f"{row.rpartition(',')[0]},c{i % n_classes}" for i, row in enumerate(new)]
    trained_on = csv_of(90, n_classes).splitlines()
    text = "\n".join([*trained_on, *turned]) + "\n"
    upload(client, text)
    said, true = online(client, text, "label")["label"], true_labels(text)
    wrong = [i + 1 for i in range(150) if said[i] != true[i]]
    assert len(wrong) > 10
    for left_out, expected in ((False, wrong), (True, [row for row in wrong if row > 90])):
        rows = evaluated(client, worker, leave_out_trained=left_out)["metrics"]["wrong_rows"]
        assert sorted(one["row"] for one in rows) == expected
        for one in rows:
            i = one["row"] - 1
            assert (one["actual"], one["predicted"]) == (true[i], said[i])
        margins = [one["margin"] for one in rows]
        assert margins == sorted(margins)
        assert max(margins) <= 0


def test_every_confused_pair_has_wrong_rows() -> None:
    """However many there are of other pairs, and its lowest margins come first."""
    rng = np.random.default_rng(1)
    truth = np.concatenate([np.zeros(5000, np.int64), [1, 1, 2, 2, 2]])
    predicted = np.concatenate([np.ones(5000, np.int64), [2, 2, 0, 1, 2]])
    margins = np.concatenate([-10 - rng.random(5000), [-1.0, -2.0, -0.5, -0.25, 9.0]])
    found = wrong_examples(truth, predicted, margins)
    assert len(found) == 100
    assert {5000, 5001, 5002, 5003} < set(found)
    assert found == sorted(found, key=margins.__getitem__)
    first = set(np.argsort(margins[:5000])[:96].tolist())
    assert first == {row for row in found if row < 5000}
    assert wrong_examples(truth[:3], truth[:3], margins[:3]) == []


def test_uncalibrated_model_has_no_probabilities(client: TestClient, worker: Worker) -> None:
    """And a dataset that lacks a class is measured by the others."""
    train(client, worker, 3)
    text = csv_of(60, 2, seed=3)
    upload(client, text)
    metrics = evaluated(client, worker, model="clouds/1")["metrics"]
    assert metrics["calibration"] is None
    assert metrics["classes"] == ["c0", "c1", "c2"]
    assert [each["support"] for each in metrics["per_class"]] == [30, 30, 0]
    assert [each["label"] for each in metrics["roc"]] == ["c0", "c1"]
    upload(client, "".join(text.splitlines(keepends=True)[:2]))
    metrics = evaluated(client, worker)["metrics"]
    assert (metrics["n_samples"], metrics["roc_auc"], metrics["roc"]) == (1, None, [])


def test_stopped_worker_saves_and_the_next_one_ends_with_the_same_metrics(
    client: TestClient, worker: Worker, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was scored is kept; nothing is counted twice."""
    train(client, worker)
    whole = evaluated(client, worker)["metrics"]
    monkeypatch.setattr(scoring, "BLOCK_ROWS", 2)
    job_id = ask(client).json()["id"]
    Worker(settings, StopAfter(20)).take_next_job()
    waiting = client.get(f"/v1/evaluations/{job_id}").json()
    assert waiting["state"] == "queued"
    assert 0 < waiting["fraction"] < 1
    succeeded(client, worker, job_id)
    assert client.get(f"/v1/evaluations/{job_id}").json()["metrics"] == whole


def seen(client: TestClient, worker: Worker, **fields: Any) -> tuple[int | None, str]:
    """How many rows were trained on, and the job's warnings."""
    found = evaluated(client, worker, **fields)
    assert found["trained_rows"] == found["metrics"]["trained_rows"]
    assert found["n_samples"] == found["metrics"]["n_samples"]
    job = client.get(f"/v1/jobs/{found['id']}").json()
    return found["trained_rows"], " ".join(job["warnings"])


def test_rows_that_were_trained_on_are_left_out_if_asked(
    client: TestClient, worker: Worker
) -> None:
    """Metrics and importance are those of the other rows alone; without others there are none."""
    whole, old = train(client, worker), csv_of(90).splitlines(keepends=True)
    new = csv_of(50, seed=8)
    mixed = upload(client, "".join([*old[:31], *new.splitlines(keepends=True)[1:]]))
    alone = evaluated(client, worker, dataset_id=upload(client, new), importance=True)["metrics"]
    asked = {"leave_out_trained": True, "importance": True}
    rest = evaluated(client, worker, dataset_id=mixed, **asked)["metrics"]
    assert (rest["trained_rows"], rest["left_out_rows"], alone["left_out_rows"]) == (0, 30, 0)
    moved = [{**one, "row": one["row"] - 30} for one in rest["wrong_rows"]]
    assert {**rest, "left_out_rows": 0, "wrong_rows": moved} == alone
    job_id = client.post(
        "/v1/evaluations", json={"dataset_id": whole, "model": "clouds", **asked}
    ).json()["id"]
    worker.take_next_job()
    job = client.get(f"/v1/jobs/{job_id}").json()
    assert (job["state"], job["error"]["code"]) == ("failed", "empty-data")


def test_validation_rows_are_measured_alone_if_asked(client: TestClient, worker: Worker) -> None:
    """Those of the training, with its metrics; a version without them is refused."""
    text = csv_of(90).splitlines()
    turned = [f"{line[:-1]}{i % 2 ^ (i % 7 == 3)}" for i, line in enumerate(text[1:])]
    whole = upload(client, "\n".join([text[0], *turned]) + "\n")
    validations = ({"fraction": 0.4}, {"folds": 3}, None)
    for validation in validations:
        fields = job_body(whole, validation=validation, seed=3)
        carry_out(client, worker, client.post("/v1/jobs", json=fields).json()["id"])
    every = evaluated(client, worker, model="clouds/1", dataset_id=whole)["metrics"]
    asked = {"dataset_id": whole, "validation_only": True, "importance": True}
    found = evaluated(client, worker, model="clouds/1", **asked)["metrics"]
    version = client.get("/v1/models/clouds/versions/1").json()
    assert found["confusion_matrix"] == version["metrics"]["validation"]["confusion_matrix"]
    assert (found["n_samples"], found["trained_rows"], found["left_out_rows"]) == (36, 0, 0)
    assert found["importance"]["n_samples"] == 36
    rows, others = ({one["row"] for one in of["wrong_rows"]} for of in (found, every))
    assert 0 < len(rows) < len(others)
    assert rows < others
    other = upload(client, csv_of(50, seed=8))
    for model, data in (("clouds/1", other), ("clouds/2", whole), ("clouds/3", whole)):
        reply = ask(client, **{**asked, "model": model, "dataset_id": data})
        assert (reply.status_code, reply.json()["errors"][0]["pointer"]) == (
            422,
            "/validation_only",
        )


def test_rows_that_were_trained_on_are_counted(client: TestClient, worker: Worker) -> None:
    """By value, in any order of rows and columns and in any format; without those of the validation
    set."""
    text = csv_of(90)
    head, *lines = text.splitlines(keepends=True)
    whole = train(client, worker)
    every, said = seen(client, worker, dataset_id=whole)
    assert every == 90
    assert "All of the 90 rows are equal to training rows" in said
    turned = [",".join([*line.rstrip().split(",")[2::-1], line[-3:]]) for line in lines[:30]]
    others = csv_of(50, seed=8).splitlines(keepends=True)
    mixed = [
        "x2,x1,x0,label\n",
        *turned,
        *(",".join([*line.rstrip().split(",")[2::-1], line[-3:]]) for line in others[1:]),
    ]
    count, said = seen(client, worker, dataset_id=upload(client, "".join(mixed)))
    assert (count, said) == (30, "")
    sparse = "".join(
        f"{line.rstrip()[-1]} 1:{x} 2:{y} 3:{z}\n"
        for line in lines
        for x, y, z in [line.split(",")[:3]]
    )
    changed = [line[:-3] + ("c1\n" if line.endswith("c0\n") else "c0\n") for line in lines]
    assert seen(client, worker, dataset_id=upload(client, head + "".join(changed))) == (0, "")
    job = client.post("/v1/jobs", json=job_body(whole, validation={"fraction": 0.3})).json()
    carry_out(client, worker, job["id"])
    assert seen(client, worker, dataset_id=whole)[0] == 62
    headers = {"Content-Type": "text/x-libsvm"}
    reply = client.post("/v1/datasets", content=sparse.encode(), headers=headers)
    fields = job_body(reply.json()["id"], model_name="sparse")
    carry_out(client, worker, client.post("/v1/jobs", json=fields).json()["id"])
    assert seen(client, worker, model="sparse")[0] == 90
    client.delete(f"/v1/datasets/{whole}")
    assert seen(client, worker, dataset_id=upload(client, "".join(mixed))) == (None, "")


def test_page_of_an_evaluation_on_training_rows_says_so_first(
    client: TestClient, worker: Worker
) -> None:
    """It is no result: the model has learned from these rows. A sentence says it of some rows."""
    whole = train(client, worker)
    found = evaluated(client, worker, dataset_id=whole)
    headline = client.get(f"/jobs/{found['id']}").text.partition('class="headline"')[2]
    assert "accuracy on rows that it was trained on" in headline.partition("</p>")[0]
    assert "its accuracy on new rows is not known" in headline.partition("</p>")[0]
    text = "".join(csv_of(90).splitlines(keepends=True)[:10]) + csv_of(50, seed=8)[18:]
    some = evaluated(client, worker, dataset_id=upload(client, text))
    headline = client.get(f"/jobs/{some['id']}").text.partition('class="headline"')[2]
    assert "on these data" in headline.partition("</p>")[0]
    assert "9 of these rows" in headline.partition("</p>")[0]
    assert "with 9 training rows" in client.get("/models/clouds/versions/1").text
    text = "".join(csv_of(90).splitlines(keepends=True)[:51]) + csv_of(50, seed=8)[18:]
    half = evaluated(client, worker, dataset_id=upload(client, text))
    page = client.get(f"/jobs/{half['id']}").text
    assert page.count("equal to training rows") == 1
    listed = client.get("/jobs?kind=evaluate").text
    assert "Score</th>" in listed
    assert "Solver</th>" not in listed
    assert "Certificate</th>" not in listed
    assert "Solver</th>" in client.get("/jobs").text


def test_importance_of_columns(client: TestClient, worker: Worker) -> None:
    """A column that decides has nearly all of it, one of chance none; the same each time."""
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 3))
    label = np.where(X[:, 1] + 0.1 * X[:, 0] > 0, "yes", "no")
    rows = "".join(f"{a},{b},{c},{k}\n" for (a, b, c), k in zip(X, label, strict=True))
    dataset_id = upload(client, "a,b,c,y\n" + rows)
    body = job_body(dataset_id, solver={"name": "newton"})
    assert carry_out(client, worker, client.post("/v1/jobs", json=body).json()["id"])["model"]
    assert evaluated(client, worker)["metrics"]["importance"] is None
    read = evaluated(client, worker, importance=True)
    measured = read["metrics"]["importance"]
    assert measured["n_samples"] == 300
    assert measured["columns"][0]["name"] == "b"
    falls = {one["name"]: one["decrease"] for one in measured["columns"]}
    assert falls["b"] == pytest.approx(0.5, abs=0.1)
    assert abs(falls["c"]) < 0.02
    assert all(one["standard_error"] < 0.05 for one in measured["columns"])
    assert evaluated(client, worker, importance=True)["metrics"] == read["metrics"]
    page = client.get(f"/jobs/{read['id']}").text
    assert "Importance of columns" in page
    assert '<th scope="row">b</th><td><svg class="bar"' in page


def test_importance_of_many_columns_is_refused(client: TestClient, worker: Worker) -> None:
    wide = ",".join(f"f{j}" for j in range(201))
    lines = "".join(
        f"{','.join(str((i * j) % 7) for j in range(201))},{i % 2}\n" for i in range(20)
    )
    dataset_id = upload(client, f"{wide},y\n{lines}")
    carry_out(client, worker, create(client, dataset_id, solver={"name": "newton"}))
    reply = ask(client, importance=True)
    assert (reply.status_code, reply.json()["errors"][0]["pointer"]) == (422, "/importance")
    assert "the model has 201 columns" in reply.json()["errors"][0]["message"]


def test_a_model_that_is_needed_stays(client: TestClient, worker: Worker) -> None:
    """Until the evaluation has ended; with it go its results."""
    train(client, worker)
    job_id = ask(client).json()["id"]
    for path in ("/v1/models/clouds/versions/1", "/v1/models/clouds"):
        reply = client.delete(path)
        assert (reply.status_code, reply.json()["code"]) == (409, "resource-in-use")
    succeeded(client, worker, job_id)
    assert client.delete("/v1/models/clouds").status_code == 204
    assert client.get(f"/v1/evaluations/{job_id}").json()["metrics"]["n_samples"] == 90
    assert client.delete(f"/v1/evaluations/{job_id}").status_code == 204
    assert client.get(f"/v1/evaluations/{job_id}").status_code == 404


def test_results_are_checked(client: TestClient, worker: Worker, settings: Settings) -> None:
    """Damaged ones are reported; unchanged ones are not sent again."""
    train(client, worker)
    path = f"/v1/evaluations/{evaluated(client, worker)['id']}"
    tag = client.get(path).headers["ETag"]
    assert client.get(path, headers={"If-None-Match": tag}).status_code == 304
    (key,) = files(settings, "evaluations")
    open_blobs(settings).write(key, b"{}")
    reply = client.get(path)
    assert (reply.status_code, reply.json()["code"]) == (500, "results-corrupt")


def test_what_cannot_be_evaluated_is_refused(client: TestClient, worker: Worker) -> None:
    """At once: no labels, labels unknown to the model or of another type, other features."""
    train(client, worker)
    two, three = csv_of(20), csv_of(21, 3)
    numbers = two.replace("c0", "0").replace("c1", "1")
    continuous = "x0,x1,x2,y\n" + "".join(f"1,2,3,{k / 7}\n" for k in range(1200))
    for text, query, code in (
        ("x0,x1,x2\n1,2,3\n", {"target": "none"}, "target-missing"),
        (three, {}, "unknown-class"),
        (numbers, {}, "unknown-class"),
        (continuous, {}, "target-continuous"),
        (csv_of(20, n_features=2), {}, "feature-mismatch"),
    ):
        upload(client, text, **query)
        reply = ask(client)
        assert (reply.status_code, reply.json()["code"]) == (422, code), reply.text
        assert reply.json()["errors"][0]["pointer"] == "/dataset_id"
    extra = [reply.json()[name] for name in ("expected", "got", "first_difference")]
    assert extra == [["x0", "x1", "x2"], ["x0", "x1"], "x2"]
    for fields, status, code in (
        ({"model": "none"}, 404, "not-found"),
        ({"model": "Clouds"}, 422, "invalid-field"),
        ({"dataset_id": "ds_" + "0" * 32}, 404, "not-found"),
        ({"folds": 3}, 422, "invalid-field"),
    ):
        reply = ask(client, **fields)
        assert (reply.status_code, reply.json()["code"]) == (status, code), reply.text
    job_id = create(client, upload(client, two))
    assert client.get(f"/v1/evaluations/{job_id}").status_code == 404


class TestSmallWorkers:
    """Scores that no worker has room for."""

    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        limits = Limits(worker_memory_bytes=270 * 1024 * 1024)
        return settings.model_copy(update={"limits": limits})

    def test_too_many_scores_are_refused(self, client: TestClient, worker: Worker) -> None:
        """With the estimate, and what to do instead."""
        train(client, worker)
        text = csv_of(90, 2)
        upload(client, text + "".join(text.splitlines(keepends=True)[1:] * 1500))
        reply = ask(client)
        assert (reply.status_code, reply.json()["code"]) == (422, "plan-too-large")
        assert reply.json()["estimate_bytes"] > reply.json()["limit"]
