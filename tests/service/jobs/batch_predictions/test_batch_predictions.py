"""Batch predictions, carried out by a worker in this process."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from starlette.testclient import TestClient

from service.jobs import scoring
from service.jobs.batch_predictions import run as results
from service.jobs.batch_predictions.reading import predicted_rows, rows_of_class
from service.jobs.batch_predictions.schemas import Format
from service.jobs.engine.worker_process import Worker
from service.settings import Settings
from service.storage.blobs import open_blobs
from tests.service.jobs.data import carry_out, create, csv_of, files, job_body, succeeded, upload
from tests.service.jobs.stopping import StopAfter

pytestmark = pytest.mark.one_application(checkpoint_s=0.05, lease_s=30.0)

OUTPUTS = ["label", "decision", "probability"]


def trained(client: TestClient, worker: Worker, n_classes: int = 2) -> str:
    """A calibrated model `clouds`; the id of the dataset that it was trained on."""
    dataset_id = upload(client, csv_of(90, n_classes))
    held_out = {"fraction": 0.4}
    spec = job_body(dataset_id, calibration="sigmoid", validation=held_out, scaling="none")
    job_id = client.post("/v1/jobs", json=spec).json()["id"]
    succeeded(client, worker, job_id)
    return dataset_id


def ask(client: TestClient, **fields: Any) -> Any:
    body = {"dataset_id": "latest", "model": "clouds", **fields}
    return client.post("/v1/batch-predictions", json=body)


def predicted(client: TestClient, worker: Worker, **fields: Any) -> bytes:
    """The results of a batch prediction."""
    reply = ask(client, **fields)
    assert reply.status_code == 202, reply.text
    assert reply.headers["Location"] == f"/v1/batch-predictions/{reply.json()['id']}"
    succeeded(client, worker, reply.json()["id"])
    read = client.get(reply.headers["Location"]).json()
    assert (read["state"], read["fraction"]) == ("succeeded", 1.0)
    results = client.get(read["results"]["url"])
    assert results.status_code == 200
    assert results.headers["Content-Type"].partition(";")[0] == read["results"]["media_type"]
    assert len(results.content) == read["results"]["size_bytes"]
    return results.content


def online(client: TestClient, text: str) -> dict[str, Any]:
    """What `predict` says of the same rows."""
    rows = [list(map(float, line.split(",")[:3])) for line in text.splitlines()[1:]]
    asked = {"instances": rows, "outputs": OUTPUTS}
    found: dict[str, Any] = client.post("/v1/models/clouds/predict", json=asked).json()
    return found


@pytest.mark.parametrize("n_classes", [2, 3])
def test_results_are_those_of_predict(
    client: TestClient, worker: Worker, monkeypatch: pytest.MonkeyPatch, n_classes: int
) -> None:
    """In every format, in input order, to the bit; of unlabeled rows, columns in any order."""
    monkeypatch.setattr(scoring, "BLOCK_ROWS", 7)
    trained(client, worker, n_classes)
    text = csv_of(40, n_classes, seed=5)
    expected = online(client, text)
    rows = [line.split(",") for line in text.splitlines()]
    turned = "".join(",".join([row[2], row[0], row[1]]) + "\n" for row in rows)
    upload(client, turned, target="none")
    wide = [f"{name}:{label}" for name in OUTPUTS[1:] for label in expected["classes"]]
    names = ["label", "decision", *wide[n_classes:]] if n_classes == 2 else ["label", *wide]
    values = np.column_stack([expected["decision"], expected["probability"]])

    head, *records = csv.reader(io.StringIO(predicted(client, worker, outputs=OUTPUTS).decode()))
    assert head == names
    assert [record[0] for record in records] == expected["label"]
    assert (
        np.array([list(map(float, record[1:])) for record in records]).tolist() == values.tolist()
    )

    [unlikely] = expected["warnings"]
    [warning] = client.get("/v1/jobs").json()["jobs"][0]["warnings"]
    assert f"rows ({', '.join(map(str, unlikely['rows']))}) the label is not" in warning

    lines = predicted(client, worker, outputs=OUTPUTS, format="ndjson").splitlines()
    for name in OUTPUTS:
        assert [json.loads(line)[name] for line in lines] == expected[name]

    for name in OUTPUTS:
        content = predicted(client, worker, outputs=[name], format="npy")
        assert np.load(io.BytesIO(content)).tolist() == expected[name]


@pytest.mark.parametrize("format_", ["csv", "ndjson", "npy", "parquet"])
def test_some_rows_of_results_are_read(
    client: TestClient, worker: Worker, tmp_path: Path, format_: Format
) -> None:
    """For pages, in every format, and those of a predicted class."""
    trained(client, worker, 3)
    text = csv_of(40, 3, seed=5)
    expected = online(client, text)
    upload(client, text)
    outputs = OUTPUTS if format_ != "npy" else ["label"]
    path = tmp_path / "results"
    path.write_bytes(predicted(client, worker, outputs=outputs, format=format_))

    def read(rows: Sequence[int]) -> list[list[Any]]:
        with path.open("rb") as file:
            columns, cells = predicted_rows(file, format_, outputs, rows)
        assert all(len(columns) == len(row) for row in cells)
        return cells

    columns = [expected[name] for name in outputs]
    for rows in (range(20, 40), [0, 1, 7, 39], []):
        for i, row in zip(rows, read(rows), strict=True):
            wanted = [column[i] for column in columns]
            flat = [one for cell in wanted for one in (cell if isinstance(cell, list) else [cell])]
            assert row == flat
    with path.open("rb") as file:
        chosen = rows_of_class(file, format_, "label", "c1").tolist()
    assert chosen == [i for i, label in enumerate(expected["label"]) if label == "c1"] != []


def test_texts_are_predicted_as_online(client: TestClient, worker: Worker) -> None:
    """To the bit, of a dataset with its columns in another order. A missing text is no unknown
    cell."""
    head = "message,amount,label\n"
    rows = [f'"{text}",{i % 7},{"spam" if i % 2 else "ham"}' for i, text in enumerate(_texts(60))]
    dataset_id = upload(client, head + "\n".join(rows), schema='{"message": {"kind": "text"}}')
    solver = {"name": "dual-coordinate-descent"}
    succeeded(client, worker, create(client, dataset_id, solver=solver))
    new = [*_texts(20, 1), "words without any training", ""]
    asked = {"instances": [{"message": text, "amount": 1} for text in new]}
    reply = client.post("/v1/models/clouds/predict?outputs=label,decision", json=asked)
    expected = reply.json()
    assert expected["unknown_words"] == {"count": 4, "rows": [[21, 4]]}
    turned = "amount,message\n" + "".join(f'1,"{text}"\n' for text in new)
    schema = '{"message": {"kind": "text"}}'
    upload(client, turned, target="none", schema=schema)
    lines = predicted(client, worker, outputs=["label", "decision"], format="ndjson").splitlines()
    for name in ("label", "decision"):
        assert [json.loads(line)[name] for line in lines] == expected[name]
    [read] = client.get("/v1/batch-predictions").json()["batch_predictions"]
    assert read["unknown_cells"] == {"unseen": {}, "missing": {}, "words": 4}


def _texts(n: int, seed: int = 0) -> list[str]:
    words = ["free", "entry", "win", "cash,", "see", "you", "later", "card"]
    draw = np.random.default_rng(seed)
    return [" ".join(draw.choice(words, size=6)) for _ in range(n)]


def test_parquet(client: TestClient, worker: Worker, tmp_path: Any) -> None:
    """Read back by another library, the values and their order are the same."""
    trained(client, worker)
    expected = online(client, csv_of(90))
    path = tmp_path / "x.parquet"
    path.write_bytes(predicted(client, worker, outputs=["label", "decision"], format="parquet"))
    with duckdb.connect(":memory:") as connection:
        table = connection.execute("SELECT * FROM read_parquet(?)", [str(path)]).fetchnumpy()
    assert list(table["label"]) == expected["label"]
    assert table["decision"].tolist() == expected["decision"]


def test_numbers_and_their_intervals(client: TestClient, worker: Worker, tmp_path: Any) -> None:
    """Of a table with a numeric target, in every format, as `predict` has them."""
    random = np.random.default_rng(0)
    X = random.normal(size=(90, 2))
    prices = (X @ [3.0, -1.0] + random.normal(size=90) + 20.0).tolist()
    lines = [f"{a!r},{b!r},{p!r}" for (a, b), p in zip(X.tolist(), prices, strict=True)]
    dataset_id = upload(client, "\n".join(["size,age,price", *lines, ""]))
    asked = {"solver": {"name": "auto"}, "validation": {"fraction": 0.3}}
    succeeded(client, worker, create(client, dataset_id, **asked))
    body = {"instances": X.tolist(), "outputs": ["value", "interval"], "coverage": 0.8}
    expected = client.post("/v1/models/clouds/predict", json=body).json()
    both: dict[str, Any] = {"outputs": ["value", "interval"], "coverage": 0.8}
    head, *rows = csv.reader(io.StringIO(predicted(client, worker, **both).decode()))
    assert head == ["value", "interval_low", "interval_high"]
    cells = np.array(rows, dtype=np.float64)
    assert cells[:, 0].tolist() == expected["values"]
    assert cells[:, 1:].tolist() == expected["intervals"]
    records = map(json.loads, predicted(client, worker, **both, format="ndjson").splitlines())
    assert [record["interval"] for record in records] == expected["intervals"]
    path = tmp_path / "x.parquet"
    path.write_bytes(predicted(client, worker, **both, format="parquet"))
    with duckdb.connect(":memory:") as connection:
        table = connection.execute("SELECT * FROM read_parquet(?)", [str(path)]).fetchnumpy()
    assert table["interval_high"].tolist() == [high for _, high in expected["intervals"]]
    values = np.load(io.BytesIO(predicted(client, worker, format="npy")))
    assert values.tolist() == expected["values"]
    shown = client.get("/v1/batch-predictions").json()["batch_predictions"]
    assert [one["coverage"] for one in shown] == [None, 0.8, 0.8, 0.8]
    for fields, pointer in (
        ({"outputs": ["label"]}, "/outputs"),
        ({"outputs": ["interval"], "coverage": 0.99}, "/coverage"),
    ):
        reply = ask(client, **fields)
        assert (reply.status_code, reply.json()["code"]) == (422, "invalid-field")
        assert reply.json()["errors"][0]["pointer"] == pointer


def test_results_in_ranges(client: TestClient, worker: Worker) -> None:
    """A download that broke off can be continued; its digest is known."""
    trained(client, worker)
    whole = predicted(client, worker)
    url = client.get("/v1/jobs", params={"page_size": 1}).json()["jobs"][0]["id"]
    path = f"/v1/batch-predictions/{url}/results"
    part = client.get(path, headers={"Range": "bytes=10-19"})
    assert (part.status_code, part.content) == (206, whole[10:20])
    assert client.get(path).headers["Repr-Digest"].startswith("sha-256=")


def test_stopped_worker_saves_and_the_next_one_ends_with_the_same_file(
    client: TestClient, worker: Worker, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No row is predicted twice, none is left out."""
    trained(client, worker)
    whole = predicted(client, worker, outputs=OUTPUTS)
    monkeypatch.setattr(scoring, "BLOCK_ROWS", 2)
    job_id = ask(client, outputs=OUTPUTS).json()["id"]
    Worker(settings, StopAfter(20)).take_next_job()
    waiting = client.get(f"/v1/batch-predictions/{job_id}").json()
    assert waiting["state"] == "queued"
    assert 0 < waiting["fraction"] < 1
    succeeded(client, worker, job_id)
    read = client.get(f"/v1/batch-predictions/{job_id}").json()
    assert read["attempt"] == 2
    assert client.get(read["results"]["url"]).content == whole


def test_deleted_job_takes_its_results_along(
    client: TestClient, worker: Worker, settings: Settings
) -> None:
    """The file goes with the row; a sweep would find it else."""
    trained(client, worker)
    predicted(client, worker)
    assert len(files(settings, "predictions")) == 1
    job_id = client.get("/v1/jobs", params={"page_size": 1}).json()["jobs"][0]["id"]
    assert client.delete(f"/v1/batch-predictions/{job_id}").status_code == 204
    assert files(settings, "predictions") == []
    assert client.get(f"/v1/batch-predictions/{job_id}").status_code == 404


def test_damaged_results_are_told(client: TestClient, worker: Worker, settings: Settings) -> None:
    """No caller gets other bytes than those that were written."""
    trained(client, worker)
    predicted(client, worker)
    (key,) = files(settings, "predictions")
    open_blobs(settings).write(key, b"x")
    job_id = client.get("/v1/jobs", params={"page_size": 1}).json()["jobs"][0]["id"]
    reply = client.get(f"/v1/batch-predictions/{job_id}/results")
    assert (reply.status_code, reply.json()["code"]) == (500, "results-corrupt")


def test_canceled_batch_has_no_results(client: TestClient, worker: Worker) -> None:
    """409 where they would be; so before the job has run."""
    trained(client, worker)
    job_id = ask(client).json()["id"]
    path = f"/v1/batch-predictions/{job_id}"
    assert client.get(f"{path}/results").status_code == 409
    assert client.post(f"/v1/jobs/{job_id}/cancel", json={}).status_code in (200, 202)
    assert client.get(path).json()["state"] == "canceled"
    assert client.get(f"{path}/results").json()["code"] == "invalid-state"


def test_what_cannot_be_predicted_is_refused(client: TestClient, worker: Worker) -> None:
    """At once: unknown models, other features, outputs that the model or the format lacks."""
    dataset_id = trained(client, worker)
    upload(client, csv_of(20, n_features=2))
    for fields, status, code in (
        ({}, 422, "feature-mismatch"),
        ({"model": "none"}, 404, "not-found"),
        ({"model": "clouds/7"}, 404, "not-found"),
        ({"model": "Clouds"}, 422, "invalid-field"),
        ({"dataset_id": "ds_" + "0" * 32}, 404, "not-found"),
        ({"outputs": []}, 422, "invalid-field"),
        ({"outputs": ["explanation"]}, 422, "invalid-field"),
        ({"dataset_id": dataset_id, "outputs": OUTPUTS, "format": "npy"}, 422, "invalid-field"),
    ):
        reply = ask(client, **fields)
        assert (reply.status_code, reply.json()["code"]) == (status, code), (fields, reply.text)
    job_id = create(client, dataset_id)
    assert client.get(f"/v1/batch-predictions/{job_id}").status_code == 404
    assert client.get("/v1/batch-predictions").json()["batch_predictions"] == []
    succeeded(client, worker, job_id)
    reply = ask(client, dataset_id=dataset_id, outputs=["probability"])
    assert (reply.status_code, reply.json()["code"]) == (422, "not-calibrated")


def test_imported_models_give_the_probabilities_that_they_have(
    client: TestClient, worker: Worker
) -> None:
    """Whether a model has probabilities depends on the model, not on a training request."""
    dataset_id = trained(client, worker)
    text = client.get("/v1/models/clouds/versions/1/export", params={"format": "json"}).content
    imported = client.post(
        "/v1/models/back/versions", content=text, headers={"Content-Type": "application/json"}
    ).json()
    assert imported["calibration"] == "sigmoid"
    first, second = (
        predicted(client, worker, model=model, dataset_id=dataset_id, outputs=OUTPUTS)
        for model in ("clouds", "back")
    )
    assert first == second
    outputs = client.get("/v2/models/back").json()["outputs"]
    assert [output["name"] for output in outputs] == [*OUTPUTS, "label_or_none"]
    asked = {"dataset_id": dataset_id, "model": "back"}
    job = carry_out(client, worker, client.post("/v1/evaluations", json=asked).json()["id"])
    evaluation = client.get(f"/v1/evaluations/{job['id']}").json()
    assert evaluation["metrics"]["calibration"]["log_loss"] > 0


def test_labels_alone_are_cells_of_csv(tmp_path: Path) -> None:
    """Quoted where a reader needs it, also around a lone carriage return."""
    path, codes = tmp_path / "labels", np.array([0, 1, 0], dtype=np.int32)
    for classes in (["a,b", "c"], ["one\rline", "c"], ["two\r\nlines", '"']):
        results.write("csv", path, np.array(classes), {"label": codes}, {"label": ["label"]})
        with path.open(newline="") as file:
            rows = list(csv.reader(file))
        assert rows == [["label"], *([classes[code]] for code in codes)]
