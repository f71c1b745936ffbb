"""Groups are on one side of each split, and training is in the past."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from service.jobs.engine.worker_process import Worker
from svm.model.measures import interval
from tests.service.jobs.data import carry_out, create, succeeded, trained, upload

pytestmark = pytest.mark.one_application

DAY = np.datetime64("2026-01-01")


def visits(n_patients: int = 60, each: int = 8, seed: int = 0) -> str:
    """Patients whose rows are alike and whose class is chance: a model can know a patient again,
    but predicts nothing about new ones."""
    random = np.random.default_rng(seed)
    lines = ["x,y,z,patient,when,ill"]
    for patient in range(n_patients):
        center, ill = random.normal(size=3), random.integers(2)
        for visit in range(each):
            cells = ",".join(f"{x:.4f}" for x in center + 0.01 * random.normal(size=3))
            day = DAY + int(random.integers(200)) if visit else DAY + patient
            lines.append(f"{cells},p{patient},{day},{'yes' if ill else 'no'}")
    return "\n".join(lines) + "\n"


KERNEL = {"name": "smo", "C": 10.0, "kernel": {"name": "gaussian", "gamma": 20.0}}


def test_a_score_by_groups_is_that_of_new_groups(client: TestClient, worker: Worker) -> None:
    """By rows, the model knows each patient again; by patients, it guesses."""
    fields = {"solver": KERNEL, "validation": {"folds": 5}}
    ignored = {"when": {"role": "ignored"}}
    schema = json.dumps(ignored | {"patient": {"role": "ignored"}})
    upload(client, visits(), target="ill", schema=schema)
    assert trained(client, worker, **fields)["metrics"]["validation"]["accuracy"] > 0.9
    upload(client, visits(), target="ill", group="patient", schema=json.dumps(ignored))
    job = trained(client, worker, **fields)
    measured = job["metrics"]["validation"]
    assert 0.3 < measured["accuracy"] < 0.7
    assert measured["split"]["groups_on_both_sides"] == 0
    assert measured["split"]["groups"] == 60
    assert measured["split"]["class_shares_off_by"] <= 8
    assert any("0 on both sides of a split" in note for note in job["notes"])


@pytest.mark.parametrize("validation", [{"fraction": 0.25}, {"folds": 4}])
@pytest.mark.parametrize("group", [None, "patient"])
def test_training_is_in_the_past(
    client: TestClient, worker: Worker, validation: dict[str, Any], group: str | None
) -> None:
    roles = {"time": "when"} | (
        {"group": group} if group else {"schema": '{"patient": {"role": "ignored"}}'}
    )
    upload(client, visits(), target="ill", **roles)
    job = trained(client, worker, validation=validation | {"gap": 7})
    split = job["metrics"]["validation"]["split"]
    ends = zip(split["trained_until"], split["measured_since"], strict=True)
    for last, first in ends:
        assert np.datetime64(first) - np.datetime64(last) >= np.timedelta64(7, "D")
    assert split.get("groups_on_both_sides", 0) == 0
    assert split["unused_rows"] > 0
    assert any("last training row is of 2026-" in note for note in job["notes"])
    card = client.get("/v1/models/clouds/versions/1/card").json()
    assert "last training row is of 2026-" in str(card)


def test_fewer_groups_than_folds(client: TestClient, worker: Worker) -> None:
    """And a class in one group only: the warnings say both."""
    text = visits(4) + "".join(f"0.{i},1,1,p9,2026-02-01,odd\n" for i in range(5))
    upload(client, text, target="ill", group="patient")
    job = trained(client, worker, validation={"folds": 10})
    assert any("not 10: more cannot be kept apart" in said for said in job["warnings"])
    assert any("'odd' has 5 rows" in said for said in job["warnings"])
    assert job["metrics"]["validation"]["split"]["groups_on_both_sides"] == 0


def test_what_cannot_be_kept_apart_is_refused(client: TestClient, worker: Worker) -> None:
    upload(
        client,
        visits(1, 20).replace("no\n", "yes\n").replace("yes\n", "no\n", 5),
        target="ill",
        group="patient",
    )
    for validation in ({"folds": 3}, {"fraction": 0.3}):
        fields = {"dataset_id": "latest", "model_name": "m", "solver": {"name": "newton"}}
        reply = client.post("/v1/jobs", json={**fields, "validation": validation})
        assert reply.status_code == 422, reply.text
        assert reply.json()["errors"][0]["code"] == "not-separable"
        assert "all rows are of one group by 'patient'" in reply.text
    upload(client, visits(5), target="ill", group="patient")
    reply = client.post("/v1/jobs", json={**fields, "validation": {"folds": 3, "gap": 2}})
    assert reply.status_code == 422
    assert "no column of times" in reply.text
    late = visits(5) + "1,1,1,p9,2027-02-01,odd\n"
    upload(client, late, target="ill", time="when")
    job = carry_out(client, worker, create(client, validation={"folds": 3}))
    assert job["state"] == "failed"
    assert job["error"]["code"] == "not-separable"


def test_probabilities_and_auto_keep_groups_apart(client: TestClient, worker: Worker) -> None:
    upload(client, visits(), target="ill", group="patient", time="when")
    for fields in (
        {"solver": {"name": "auto"}, "validation": {"folds": 5}},
        {"solver": {"name": "newton"}, "validation": {"fraction": 0.3}, "calibration": "sigmoid"},
    ):
        job = trained(client, worker, **fields)
        assert job["metrics"]["validation"]["accuracy"] < 0.75
    comparison = client.post(
        "/v1/comparisons",
        json={
            "dataset_id": "latest",
            "specs": [{"solver": {"name": "newton", "C": C}} for C in (0.1, 1.0)],
            "validation": {"folds": 3},
            "model_name": "kept",
            "seed": 1,
        },
    )
    assert comparison.status_code == 202, comparison.text
    carry_out(client, worker, comparison.json()["id"])
    version = client.get("/v1/models/kept/versions/1").json()
    assert version["metrics"]["validation"]["split"]["groups_on_both_sides"] == 0


def test_parts_of_a_dataset_have_a_gap(client: TestClient) -> None:
    """As the validation set of a job with the same seed."""
    dataset_id = upload(client, visits(), target="ill", time="when", group="patient")
    body = {"fraction": 0.3, "gap": 10}
    parts = client.post(f"/v1/datasets/{dataset_id}/split", json=body).json()
    texts = {name: client.get(f"/v1/datasets/{parts[name]['id']}/content").text for name in parts}
    days = {
        name: [np.datetime64(line.split(",")[-2]) for line in text.splitlines()[1:]]
        for name, text in texts.items()
    }
    assert min(days["test"]) - max(days["train"]) >= np.timedelta64(10, "D")
    timeless = upload(client, visits(), target="ill", group="patient")
    reply = client.post(f"/v1/datasets/{timeless}/split", json=body)
    assert reply.status_code == 422
    assert reply.json()["errors"][0]["pointer"] == "/gap"


def test_groups_of_a_validation_dataset_that_were_trained_on(
    client: TestClient, worker: Worker
) -> None:
    """Are found by their names, whatever their numbers; so are those of an evaluation."""
    other = upload(client, visits(20, seed=1).replace("p3,", "q,"), target="ill", group="patient")
    upload(client, visits(10), target="ill", group="patient")
    job = trained(client, worker, validation={"dataset_id": other})
    [found] = [one for one in job["audit"] if one["name"] == "trained-groups"]
    assert found["grade"] == "error"
    assert found["numbers"] == {"count": 9, "n_groups": 20}
    assert found["columns"] == ["patient"]
    header, rows = visits(20).split("\n", 1)
    text = f"{header}\n{rows.replace(',p', ',r')}"
    new = upload(client, text, target="ill", group="patient")
    upload(client, visits(10), target="ill", group="patient")
    job = trained(client, worker, validation={"dataset_id": new})
    assert "trained-groups" not in {one["name"] for one in job["audit"]}
    whole = "9 of the 20 groups of the rows by `patient` are groups of training rows, too."
    for dataset_id, expected in ((other, whole), (new, "")):
        asked = {"dataset_id": dataset_id, "model": "clouds"}
        evaluation = client.post("/v1/evaluations", json=asked).json()["id"]
        warnings = " ".join(carry_out(client, worker, evaluation)["warnings"])
        assert expected in warnings
        assert ("groups of training rows" in warnings) == bool(expected)


def test_some_classes_only(client: TestClient, worker: Worker) -> None:
    """With groups and times; a class whose rows all have weight 0 is refused."""
    lines = ["g,t,w,x,z,y"]
    random = np.random.default_rng(0)
    for i in range(120):
        y = "abc"[i % 3]
        cells = ",".join(f"{x:.3f}" for x in random.normal(size=2) + i % 3)
        lines.append(f"g{i // 3 % 20},{i},{0 if y == 'c' else 1},{cells},{y}")
    text = "\n".join(lines) + "\n"
    upload(client, text, group="g", time="t", schema='{"w": {"role": "ignored"}}')
    for validation in ({"fraction": 0.3}, {"folds": 2}, {"folds": 3, "gap": 2}):
        solver = {"name": "auto"}
        job = trained(client, worker, solver=solver, validation=validation, classes=["a", "b"])
        assert job["metrics"]["validation"]["split"]["groups_on_both_sides"] == 0
    upload(client, text, weight="w", schema='{"g": {"role": "ignored"}, "t": {"role": "ignored"}}')
    for measured in (None, {"folds": 3}):
        asked = create(client, solver={"name": "newton"}, validation=measured)
        job = carry_out(client, worker, asked)
        assert job["error"]["code"] == "class-too-small"
        assert "every row of class 'c' has weight 0" in job["error"]["detail"]
    trained(client, worker, solver={"name": "newton"}, classes=["a", "b"])
    light = re.sub(r",0(,[^,]+,[^,]+,c)\n", r",1\1\n", text, count=2)
    upload(client, light, weight="w", schema='{"g": {"role": "ignored"}, "t": {"role": "ignored"}}')
    fields = {"solver": {"name": "newton"}, "calibration": "sigmoid"}
    for seed in range(4):  # two rows of the class count, one for each side
        job = trained(client, worker, **fields, validation={"fraction": 0.5}, seed=seed)
        assert len(job["metrics"]["validation"]["confusion_matrix"]) == 3


def test_rows_of_weight_0_are_split_alike_everywhere(client: TestClient, worker: Worker) -> None:
    """The parts of a dataset are the rows of a job with the same seed."""
    random = np.random.default_rng(0)
    rows = [f"{i},{random.normal():.3f},{'ab'[i % 2]},{int(i % 3 > 0)}" for i in range(90)]
    dataset_id = upload(client, "i,x,y,w\n" + "\n".join(rows) + "\n", weight="w", target="y")
    body = {"fraction": 0.3, "seed": 5}
    test = client.post(f"/v1/datasets/{dataset_id}/split", json=body).json()["test"]
    job = trained(client, worker, validation={"fraction": 0.3}, seed=5)
    counts = np.sum(job["metrics"]["validation"]["confusion_matrix"], axis=1).tolist()
    assert test["class_counts"] == counts
    lines = client.get(f"/v1/datasets/{test['id']}/content").text.splitlines()[1:]
    assert sum(line.split(",")[2] == "0" for line in lines) == 2 * 4  # of 15 in each class


def test_plots_show_the_rows_of_the_job(client: TestClient, worker: Worker) -> None:
    """Of its classes, as it split them, without those that were left out."""
    random = np.random.default_rng(3)
    rows = [f"{i / 99},{random.normal() + 2 * (i % 2):.2f},{'acb'[i % 3]}" for i in range(90)]
    rows += rows[:30]  # some of these are on both sides
    upload(client, "t,x,y\n" + "\n".join(rows) + "\n", target="y")
    for fields in ({}, {"leave_out_trained": True}):
        job = trained(
            client, worker, classes=["a", "b"], validation={"fraction": 0.4}, **fields, seed=2
        )
        measured = job["metrics"]["validation"]
        count = np.sum(measured["confusion_matrix"])
        assert bool(fields) == (measured["trained_rows"] == 0)
        version = f"/v1/models/clouds/versions/{job['model']['version']}"
        for kind, what in (("margins", f"{count} validation"), ("boundary", "80 training")):
            plot = client.get(f"{version}/plots/{kind}.svg")
            assert plot.status_code == 200, plot.text
            assert f"{what} rows" in plot.text


@pytest.mark.parametrize("validation", [{"fraction": 0.3}, {"folds": 3}])
def test_a_comparison_without_a_model_says_how_it_split(
    client: TestClient, worker: Worker, validation: dict[str, Any]
) -> None:
    """And what its best entry shows: patients whose class is chance."""
    schema = json.dumps({"when": {"role": "ignored"}})
    upload(client, visits(), target="ill", group="patient", schema=schema)
    body = {"dataset_id": "latest", "grid": {"solver": [KERNEL]}, "validation": validation}
    comparison = client.post("/v1/comparisons", json=body | {"seed": 1}).json()["id"]
    job = succeeded(client, worker, comparison)
    assert job["metrics"]["validation"]["split"]["groups_on_both_sides"] == 0
    assert any("0 on both sides of a split" in note for note in job["notes"])
    assert "score-within-baseline" in {one["name"] for one in job["audit"]}


def test_one_group_does_not_make_a_score_one_of_chance(client: TestClient, worker: Worker) -> None:
    """Nothing is known of others: neither that the model is good nor that it is not."""
    rows = [f"{i % 2 * 4 + i % 7 / 10},p{i // 50},{'ab'[i % 2]}" for i in range(100)]
    upload(client, "x,patient,y\n" + "\n".join(rows) + "\n", target="y", group="patient")
    job = trained(client, worker, validation={"fraction": 0.5}, seed=1)
    measured = job["metrics"]["validation"]
    assert (measured["accuracy"], measured["n_groups"], measured["n_effective"]) == (1.0, 1, 0.0)
    assert "score-within-baseline" not in {one["name"] for one in job["audit"]}


def _rows_of(measured: dict[str, Any]) -> int:
    return int(sum(map(sum, measured["confusion_matrix"])))


@pytest.mark.parametrize("validation", [{"fraction": 0.25}, {"folds": 4}], ids=["split", "folds"])
def test_intervals_are_those_of_groups(
    client: TestClient, worker: Worker, validation: dict[str, Any]
) -> None:
    """A model guesses new patients, of whom all rows are right or wrong: they count as about one
    row each, in metrics, on cards, on pages and in evaluations."""
    schema = json.dumps({"when": {"role": "ignored"}})
    upload(client, visits(), target="ill", group="patient", schema=schema)
    measured = trained(client, worker, solver=KERNEL, validation=validation)["metrics"]
    measured = measured["validation"]
    n, n_groups = _rows_of(measured), measured["split"]["groups"]
    assert measured["n_groups"] == n_groups
    assert 0.5 * n_groups < measured["n_effective"] < 1.5 * n_groups < n / 4
    ends = interval(measured["accuracy"], measured["n_effective"])
    shown = "{:.1f} to {:.1f} %".format(*(100 * end for end in ends))
    card = str(client.get("/v1/models/clouds/versions/1/card").json())
    assert f"of {n:,} validation rows in {n_groups} groups are predicted correctly" in card
    assert shown in card
    told = f"These rows are in {n_groups} groups: the share of one model can be further off."
    assert (told in card) == ("fraction" in validation)
    page = client.get("/models/clouds/versions/1").text
    assert f"{shown} with 95 % confidence, from {n:,} rows in {n_groups} groups" in page
    upload(client, visits(seed=1), target="ill", group="patient", schema=schema)
    body = {"model": "clouds", "dataset_id": "latest"}
    job = client.post("/v1/evaluations", json=body).json()
    assert worker.take_next_job()
    metrics = client.get(f"/v1/evaluations/{job['id']}").json()["metrics"]
    assert (metrics["n_groups"], metrics["n_distinct"]) == (60, None)
    assert 30 < metrics["n_effective"] < 90
    assert "from 480 rows in 60 groups" in client.get(f"/jobs/{job['id']}").text


def test_what_auto_expects_has_the_interval_of_groups(client: TestClient, worker: Worker) -> None:
    schema = json.dumps({"when": {"role": "ignored"}})
    upload(client, visits(), target="ill", group="patient", schema=schema)
    job = trained(client, worker, solver={"name": "auto"}, validation=None)
    search = job["search"]
    assert search["n_groups"] == 60
    assert search["n_effective"] < 200
    assert "from 480 rows in 60 groups" in client.get("/models/clouds/versions/1").text


def test_entries_of_a_comparison_have_the_intervals_of_groups(
    client: TestClient, worker: Worker
) -> None:
    schema = json.dumps({"when": {"role": "ignored"}})
    upload(client, visits(), target="ill", group="patient", schema=schema)
    specs = [{"solver": KERNEL}, {"solver": {"name": "newton"}}]
    body = {"dataset_id": "latest", "validation": {"folds": 4}, "specs": specs}
    job = client.post("/v1/comparisons", json=body).json()
    assert worker.take_next_job()
    entries = client.get(f"/v1/comparisons/{job['id']}").json()["entries"]
    page = client.get(f"/jobs/{job['id']}").text
    for entry in entries:
        assert entry["validation"]["n_effective"] < 200
        ends = interval(entry["score"], entry["validation"]["n_effective"])
        assert "{:.1f} to {:.1f} %".format(*(100 * end for end in ends)) in page


def test_intervals_of_errors_are_those_of_groups(client: TestClient, worker: Worker) -> None:
    """With folds and without; as rows they would be less than half as wide."""
    random = np.random.default_rng(0)
    lines = ["x,patient,price"]
    for patient in range(40):
        off = random.normal()
        for x in random.normal(size=20):
            lines.append(f"{x:.4f},p{patient},{x + off + 0.05 * random.normal():.4f}")
    widths = []
    for roles in ({"group": "patient"}, {"schema": '{"patient": {"role": "ignored"}}'}):
        upload(client, "\n".join(lines) + "\n", target="price", **roles)
        measured = trained(client, worker, validation={"folds": 4})["metrics"]["validation"]
        assert measured.get("n_groups") == (40 if "group" in roles else None)
        low, high = measured["intervals"]["mae"]
        widths.append(high - low)
    assert widths[0] > 2.0 * widths[1]
    card = str(client.get("/v1/models/clouds/versions/1/card").json())
    assert "On 800 validation rows in 40 groups, half of its errors" in card


def test_copies_count_as_one_row(client: TestClient, worker: Worker) -> None:
    """A table with each row three times; equal rows of one that has few coarse columns do not."""
    header, *rows = visits(60, 1).splitlines()
    ignored = json.dumps({"when": {"role": "ignored"}, "patient": {"role": "ignored"}})
    copied = "\n".join([header, *np.repeat(rows, 3)]) + "\n"
    upload(client, copied, target="ill", schema=ignored)
    measured = trained(client, worker, solver=KERNEL, validation={"fraction": 0.5})["metrics"]
    measured = measured["validation"]
    assert 30 < measured["n_distinct"] < _rows_of(measured)
    assert measured["n_effective"] < 1.1 * measured["n_distinct"]
    page = client.get("/models/clouds/versions/1").text
    assert (
        f"from {_rows_of(measured)} rows in {measured['n_distinct']} groups of equal rows" in page
    )
    coarse = "a,b,label\n" + "".join(f"{i % 3},{i % 2},{'yn'[i % 5 > 1]}\n" for i in range(200))
    upload(client, coarse)
    job = trained(client, worker, validation={"fraction": 0.5})
    assert "n_effective" not in job["metrics"]["validation"]
