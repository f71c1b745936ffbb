"""Jobs on tables with categories, dates and missing cells, and on weighted rows."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from service.jobs.engine.worker_process import Worker
from service.settings import Settings
from svm.data.columns import Column, Columns
from svm.data.splitting import fold_numbers
from svm.encoding.encoder import Encoding
from svm.encoding.recoding import recode
from svm.model.metrics import confusion_matrix
from svm.model.pipeline import Pipeline
from svm.solvers import Newton
from svm.training.results import TrainingResult
from svm.training.training import Training
from tests.service.jobs.data import carry_out, create, csv_of, job_body, succeeded, upload
from tests.service.jobs.tables import add_table
from tests.svm.cases.tables import NAN, table

pytestmark = pytest.mark.one_application(checkpoint_s=0.05, lease_s=30.0)

NEWTON = {"name": "newton", "C": 1.0}
RARE = {"missing": "mean", "min_count": 6}
SETTINGS = Pipeline(
    solver=Newton(C=1.0),
    encoding=Encoding(missing="mean", min_count=6),
    scaling="standardize",
)


def rows(n: int = 120, seed: int = 0) -> tuple[Any, Any, Columns]:
    X, y, columns = table(n, seed=seed, n_levels=12)
    return X, np.array(["no", "yes"])[y], columns


def trained(client: TestClient, worker: Worker, dataset_id: str, **fields: Any) -> dict[str, Any]:
    body = {"solver": NEWTON, "encoding": RARE} | fields
    return succeeded(client, worker, create(client, dataset_id, **body))


def by_svm(X: Any, y: Any, columns: Columns | None, **others: Any) -> TrainingResult:
    """What the job should train."""
    training = Training(SETTINGS, X, y, seed=1, columns=columns, **others)
    for _ in training:
        pass
    return training.result()


def predicted(client: TestClient, worker: Worker, dataset_id: str) -> tuple[list[str], list[float]]:
    """Labels and decision values of a batch prediction."""
    body = {"dataset_id": dataset_id, "model": "clouds", "outputs": ["label", "decision"]}
    reply = client.post("/v1/batch-predictions", json=body | {"format": "ndjson"})
    assert reply.status_code == 202, reply.text
    succeeded(client, worker, reply.json()["id"])
    content = client.get(f"{reply.headers['Location']}/results").text
    lines = [json.loads(line) for line in content.splitlines()]
    return [line["label"] for line in lines], [line["decision"] for line in lines]


def test_job_trains_what_svm_trains(client: TestClient, worker: Worker, settings: Settings) -> None:
    """The request shows what was chosen, the metrics say what the encoder did, and predictions have
    the bits of the model that `svm` trains."""
    X, y, columns = rows()
    dataset_id = add_table(settings, X, columns, y)
    job = trained(client, worker, dataset_id)
    expected = by_svm(X, y, columns)
    assert job["spec"]["scaling"] == "standardize"
    shown = {"missing": "mean", "constant": 0.0, "min_count": 6, "unseen": "zero"}
    of_texts = {"tokens": "auto", "sublinear": False, "text_weights": {}}
    assert job["spec"]["encoding"] == shown | of_texts
    sentences = job["metrics"]["encoding"]
    assert any(text.startswith("column 5: ") and "the mean" in text for text in sentences)
    assert any(text.startswith("column 1: ") and "rare" in text for text in sentences)
    assert job["certificate"]["primal"] == expected.certificate.worst.primal
    version = client.get("/v1/models/clouds/versions/1").json()
    assert version["metrics"] == job["metrics"]
    labels, decision = predicted(client, worker, dataset_id)
    assert decision == expected.fitted.decision_function(X).tolist()
    assert labels == expected.fitted.predict(X).tolist()


def test_each_fold_learns_its_own_encoding(
    client: TestClient, worker: Worker, settings: Settings
) -> None:
    """To the last bit of the gap: an encoder that has seen the rows of the fold gives another."""
    X, y, columns = rows()
    dataset_id = add_table(settings, X, columns, y)
    job = trained(client, worker, dataset_id, validation={"folds": 3})
    codes = (y == "yes").astype(np.int64)
    numbers = fold_numbers(codes, 3, seed=1)
    whole = by_svm(X, y, columns).fitted.encoder
    assert whole is not None
    for k, fold in enumerate(job["metrics"]["validation"]["folds"]):
        kept, left = numbers != k, numbers == k
        honest = by_svm(X[kept], y[kept], columns)
        found = (honest.fitted.predict(X[left]) == "yes").astype(np.int64)
        assert fold["confusion_matrix"] == confusion_matrix(codes[left], found, 2).tolist()
        assert fold["relative_gap"] == honest.certificate.worst.relative_gap
        outputs: Any = whole.transform(X[kept])
        leak = by_svm(outputs, y[kept], None)
        assert fold["relative_gap"] != leak.certificate.worst.relative_gap


def test_other_dictionary_is_read_by_the_text_of_its_levels(
    client: TestClient, worker: Worker, settings: Settings
) -> None:
    """Evaluations, batch predictions and warm starts on a table with other levels, whose columns
    are in another order."""
    X, y, columns = rows()
    trained(client, worker, add_table(settings, X, columns, y))
    fitted = by_svm(X, y, columns)
    other, labels, _ = rows(80, seed=3)
    levels = ("another", *reversed(columns[1].levels))
    changed = (columns[0], replace(columns[1], levels=levels), *columns[2:])
    order = [5, 1, 0, 2, 3, 4]
    given = tuple(changed[j] for j in order)
    second = add_table(settings, other[:, order], given, labels)
    raw = recode(other[:, order], given, columns)
    assert (raw[:, 1] == -1).any()
    expected = fitted.fitted.predict(raw)
    found, decision = predicted(client, worker, second)
    assert found == expected.tolist()
    assert decision == fitted.fitted.decision_function(raw).tolist()
    body = {"dataset_id": second, "model": "clouds"}
    reply = client.post("/v1/evaluations", json=body)
    assert reply.status_code == 202, reply.text
    carry_out(client, worker, reply.json()["id"])
    metrics = client.get(reply.headers["Location"]).json()["metrics"]
    assert metrics["accuracy"] == (expected == labels).mean()
    assert metrics["weighted"] is None
    third = add_table(settings, other, changed, labels)
    start = {"warm_start_from": "clouds/1", "validation": {"fraction": 0.3}}
    job = trained(client, worker, third, **start)
    whole = trained(client, worker, third, warm_start_from="clouds/1")
    raw = recode(other, changed, columns)
    later = by_svm(raw, labels, columns, warm_start=fitted.warm_start)
    assert whole["certificate"]["primal"] == later.certificate.worst.primal
    assert job["metrics"]["encoding"] == whole["metrics"]["encoding"]


def test_table_without_gaps_is_scored_by_the_model_of_one_with_gaps(
    client: TestClient, worker: Worker, settings: Settings
) -> None:
    """It is stored as plain numbers. The other way is an error that names the column."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.where(X[:, 0] > 0, "yes", "no")
    columns = (Column("a"), Column("b"))
    gaps = X.copy()
    gaps[::7, 1] = NAN
    plain = add_table(settings, X, columns, y)
    gapped = add_table(settings, gaps, columns, y)
    trained(client, worker, gapped)
    labels, _ = predicted(client, worker, plain)
    assert labels == by_svm(gaps, y, columns).fitted.predict(X).tolist()
    job = trained(client, worker, plain, scaling="none")
    assert "encoding" not in job["metrics"]
    body = {"dataset_id": gapped, "model": "clouds/2"}
    for path in ("/v1/evaluations", "/v1/batch-predictions"):
        reply = client.post(path, json=body)
        assert (reply.status_code, reply.json()["code"]) == (422, "missing-value")
        assert "'b' has 9 missing cells" in reply.text
    body = job_body(gapped, solver=NEWTON, scaling="none", warm_start_from="clouds/2")
    reply = client.post("/v1/jobs", json=body | {"encoding": RARE})
    assert (reply.status_code, reply.json()["code"]) == (422, "warm-start-unsupported")
    assert "'b' has 9 missing cells" in reply.text


def test_other_kind_is_refused_at_once(
    client: TestClient, worker: Worker, settings: Settings
) -> None:
    """With the column and both kinds; by evaluations, batch predictions and warm starts."""
    X, y, columns = rows()
    trained(client, worker, add_table(settings, X, columns, y))
    changed = (replace(columns[0], kind="date"), *columns[1:])
    other = add_table(settings, np.trunc(X), changed, y)
    body = {"dataset_id": other, "model": "clouds"}
    for path in ("/v1/evaluations", "/v1/batch-predictions"):
        reply = client.post(path, json=body)
        assert (reply.status_code, reply.json()["code"]) == (422, "feature-mismatch")
        assert "the kind date" in reply.text
    body = job_body(other, solver=NEWTON, encoding=RARE, warm_start_from="clouds/1")
    reply = client.post("/v1/jobs", json=body)
    assert (reply.status_code, reply.json()["code"]) == (422, "warm-start-unsupported")
    assert "the kind date" in reply.text


def test_weighted_rows(client: TestClient, worker: Worker, settings: Settings) -> None:
    """Trained with their weights; metrics count them both ways, those of folds too."""
    X, y, columns = rows()
    weights = np.random.default_rng(2).integers(0, 4, size=len(y)).astype(float)
    dataset_id = add_table(settings, X, columns, y, weights)
    job = trained(client, worker, dataset_id, validation={"folds": 3})
    expected = by_svm(X, y, columns, weights=weights)
    assert job["certificate"]["primal"] == expected.certificate.worst.primal
    right = expected.fitted.predict(X) == y
    metrics = job["metrics"]["train"]
    assert metrics["accuracy"] == right.mean()
    weighted = metrics["weighted"]
    assert weighted["accuracy"] == pytest.approx(weights[right].sum() / weights.sum())
    pooled = job["metrics"]["validation"]["weighted"]
    assert np.sum(pooled["confusion_matrix"]) == weights.sum()
    reply = client.post("/v1/evaluations", json={"dataset_id": dataset_id, "model": "clouds"})
    carry_out(client, worker, reply.json()["id"])
    evaluated = client.get(reply.headers["Location"]).json()["metrics"]
    assert evaluated["weighted"] == weighted


def test_comparison_of_encodings(client: TestClient, worker: Worker, settings: Settings) -> None:
    """Each entry has its own; the best becomes a model with the metrics of a job."""
    X, y, columns = rows()
    weights = np.arange(len(y)) % 3 + 0.5
    dataset_id = add_table(settings, X, columns, y, weights)
    specs = [
        {"solver": NEWTON},
        {"solver": NEWTON, "encoding": RARE},
        {"solver": {"name": "newton", "C": 0.1}, "encoding": RARE},
        {"solver": NEWTON, "encoding": {"missing": "refuse"}},
    ]
    body = {
        "dataset_id": dataset_id,
        "specs": specs,
        "validation": {"folds": 2},
        "model_name": "clouds",
        "warm_starts": False,
        "refit": "all",
        "seed": 1,
    }
    reply = client.post("/v1/comparisons", json=body)
    assert reply.status_code == 202, reply.text
    succeeded(client, worker, reply.json()["id"])
    entries = client.get(reply.headers["Location"]).json()["entries"]
    by_number = {entry["number"]: entry for entry in entries}
    assert by_number[4]["error"]["code"] == "missing-value"
    assert by_number[2]["spec"]["scaling"] == "standardize"
    expected = by_svm(X, y, columns, weights=weights)
    assert by_number[2]["certificate"]["primal"] == expected.certificate.worst.primal
    version = client.get("/v1/models/clouds/versions/1").json()
    best = by_number[entries[0]["number"]]["spec"]
    again = trained(client, worker, dataset_id, **{k: best[k] for k in ("solver", "encoding")})
    assert version["metrics"]["train"] == again["metrics"]["train"]
    assert version["metrics"]["encoding"] == again["metrics"]["encoding"]
    assert version["metrics"]["validation"]["weighted"]["accuracy"] > 0.5


def test_refused_missing_cells_are_refused_at_once(client: TestClient, settings: Settings) -> None:
    """With the column, and what else can be done."""
    X, y, columns = rows()
    dataset_id = add_table(settings, X, columns, y)
    body = job_body(dataset_id, solver=NEWTON, encoding={"missing": "refuse"})
    reply = client.post("/v1/jobs", json=body)
    assert reply.status_code == 422, reply.text
    [error] = reply.json()["errors"]
    assert (error["code"], error["pointer"]) == ("missing-value", "/encoding/missing")
    assert "'column 3'" in error["message"]


def test_column_that_the_upload_ignored_is_named(
    client: TestClient, worker: Worker, settings: Settings
) -> None:
    """With the reason, and the way out: a test set may have one level only."""
    text = "n,k,y\n" + "".join(f"{i % 7},{'ab'[i % 3 == 0]},{'uv'[i % 2]}\n" for i in range(40))
    trained(client, worker, upload(client, text), encoding={})
    constant = text.replace(",b,", ",a,").replace("0,a,u\n", "0,a,v\n", 1)
    body = {"dataset_id": upload(client, constant), "model": "clouds"}
    for path in ("/v1/evaluations", "/v1/batch-predictions"):
        reply = client.post(path, json=body)
        assert (reply.status_code, reply.json()["code"]) == (422, "feature-mismatch")
        assert "its upload ignored it (constant: every cell is 'a')" in reply.json()["detail"]
        assert "the kind of 'k' in `schema`" in reply.text


@pytest.mark.parametrize("category", [True, False])
def test_other_columns_of_a_dataset_are_ignored(
    client: TestClient, worker: Worker, category: bool
) -> None:
    """In any order, with the label among them, and gaps in what is not used: the results are
    those of the same rows without other columns."""
    text = "n,k,y\n" + "".join(f"{i % 7},{i % 3},{'uv'[i % 2]}\n" for i in range(40))
    if category:
        text = text.replace(",0,", ",a,").replace(",1,", ",b,").replace(",2,", ",c,")
    plain = upload(client, text)
    trained(client, worker, plain, encoding={}) if category else carry_out(
        client, worker, create(client, plain, solver=NEWTON)
    )
    cells = [line.split(",") for line in text.splitlines()]
    other = "more,k,y,gap,n\n"
    for i, (n, k, y) in enumerate(cells[1:]):
        other += f"{i % 5},{k},{y},{i % 4 or ''},{n}\n"
    wide = upload(client, other, target="y")
    assert predicted(client, worker, wide) == predicted(client, worker, plain)
    metrics = []
    for dataset_id, ignored in ((plain, []), (wide, ["more", "gap"])):
        body = {"dataset_id": dataset_id, "model": "clouds"}
        for path in ("/v1/evaluations", "/v1/batch-predictions"):
            reply = client.post(path, json=body)
            assert reply.status_code == 202, reply.text
            carry_out(client, worker, reply.json()["id"])
            done = client.get(reply.headers["Location"]).json()
            assert (done["state"], done["ignored_columns"]) == ("succeeded", ignored)
            metrics.append(done.get("metrics"))
    assert metrics[0] == metrics[2]


def test_cells_that_training_did_not_have_are_counted_by_column(
    client: TestClient, worker: Worker
) -> None:
    """In evaluations and batch predictions, on the page and for plain models too."""
    lines = [f"{i % 7},{'abc'[i % 3]},{i % 5},{'uv'[i % 2]}" for i in range(60)]
    trained(client, worker, upload(client, "\n".join(["n,k,m,y", *lines])), encoding={})
    for k, line in enumerate(["1,new,2,u", ",other,3,v", ",a,,u", "2,new,1,v"]):
        lines[k] = line
    asked = {"dataset_id": upload(client, "\n".join(["n,k,m,y", *lines])), "model": "clouds"}
    for path in ("/v1/evaluations", "/v1/batch-predictions"):
        reply = client.post(path, json=asked)
        assert reply.json()["unknown_cells"] is None
        carry_out(client, worker, reply.json()["id"])
        done = client.get(reply.headers["Location"]).json()
        cells = {"unseen": {"k": 3}, "missing": {"n": 2, "m": 1}, "words": 0}
        assert done["unknown_cells"] == cells, path
        page = client.get(f"/jobs/{done['id']}").text
        if path == "/v1/evaluations":
            assert "k has 3 cells with a level that training did not have" in page
            assert "m has 1 missing cell, and had none in training" in page
    plain = upload(client, csv_of(40))
    carry_out(client, worker, create(client, plain, model_name="plain", solver=NEWTON))
    reply = client.post("/v1/evaluations", json={"dataset_id": plain, "model": "plain"})
    carry_out(client, worker, reply.json()["id"])
    assert client.get(reply.headers["Location"]).json()["unknown_cells"] is None


def test_missing_columns_are_one_error(client: TestClient, worker: Worker) -> None:
    """With every name; and if one is there, but not as a feature, with the way out."""
    text = "n,k,m,y\n" + "".join(f"{i % 7},{i % 3},{i % 5},{'uv'[i % 2]}\n" for i in range(40))
    carry_out(client, worker, create(client, upload(client, text), solver=NEWTON))
    lacking = upload(client, "n,y\n1,u\n2,v\n")
    labels = upload(client, "n,y,m,k\n1,0,3,u\n2,1,4,v\n", target="k")
    for path in ("/v1/evaluations", "/v1/batch-predictions"):
        body = client.post(path, json={"dataset_id": lacking, "model": "clouds"}).json()
        assert body["code"] == "feature-mismatch"
        assert "lacks the model's columns 'k', 'm'" in body["detail"]
    reply = client.post("/v1/batch-predictions", json={"dataset_id": labels, "model": "clouds"})
    assert "'k' is not a feature: it is the label of the dataset" in reply.json()["detail"]


def test_groups_and_times_may_come_with_rows(client: TestClient, worker: Worker) -> None:
    """They are ignored in rows to predict, with names or as the training file has them, and no
    features of a dataset for a model."""
    rows = [f"{i % 7},p{i % 5},{i % 3},2024-01-{1 + i // 2:02},{'uv'[i % 2]}" for i in range(40)]
    text = "\n".join(["n,patient,m,day,y", *rows, ""])
    roles = {"group": "patient", "time": "day"}
    dataset_id = upload(client, text, **roles)
    carry_out(client, worker, create(client, dataset_id, solver=NEWTON))
    replies = []
    for body in (text, "\n".join(rows), "n,m\n" + "".join(f"{i % 7},{i % 3}\n" for i in range(40))):
        headers = {"Content-Type": "text/csv", "Accept": "application/json"}
        reply = client.post("/v1/models/clouds/predict", content=body, headers=headers)
        assert reply.status_code == 200, reply.text
        replies.append(reply.json()["label"])
    assert replies[0] == replies[1] == replies[2]
    evaluation = client.post("/v1/evaluations", json={"dataset_id": dataset_id, "model": "clouds"})
    carry_out(client, worker, evaluation.json()["id"])
    as_group = upload(client, text, group="m")
    reply = client.post("/v1/evaluations", json={"dataset_id": as_group, "model": "clouds"})
    assert "'m' is not a feature: it has the groups of the dataset" in reply.json()["detail"]
