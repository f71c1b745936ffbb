"""Comparisons, carried out by a worker in this process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from service.jobs.engine.worker_process import Worker
from service.settings import Limits, Settings
from tests.service.jobs.data import carry_out, csv_of, files, read, succeeded, upload
from tests.service.jobs.stopping import StopAfter, carry_out_until

pytestmark = pytest.mark.one_application(checkpoint_s=0.02, lease_s=30.0)

TIMES = ("elapsed_s", "cpu_s")


CIRCLE = "a,b,label\n" + "\n".join(
    f"{a},{b},{'in' if a * a + b * b < 1.4 else 'out'}"
    for a, b in np.random.default_rng(0).normal(size=(300, 2)).round(3).tolist()
)


def linear(*Cs: float, **fields: Any) -> list[dict[str, Any]]:
    return [{"solver": {"name": "newton", "C": C, **fields}} for C in Cs]


def ask(client: TestClient, query: dict[str, Any] | None = None, **fields: Any) -> Any:
    body = {"dataset_id": "latest", "seed": 1, **fields}
    return client.post("/v1/comparisons", json=body, params=query)


def asked(client: TestClient, **fields: Any) -> str:
    reply = ask(client, **fields)
    assert reply.status_code == 202, reply.text
    assert reply.headers["Location"] == f"/v1/comparisons/{reply.json()['id']}"
    assert {entry["state"] for entry in reply.json()["entries"]} <= {"waiting", "failed"}
    job_id: str = reply.json()["id"]
    return job_id


def shown(client: TestClient, job_id: str) -> dict[str, Any]:
    reply = client.get(f"/v1/comparisons/{job_id}")
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def compared(client: TestClient, worker: Worker, **fields: Any) -> dict[str, Any]:
    """A finished comparison."""
    job_id = asked(client, **fields)
    succeeded(client, worker, job_id)
    return shown(client, job_id)


def timeless(comparison: dict[str, Any]) -> list[dict[str, Any]]:
    """Its entries without what a clock says."""
    entries = []
    for entry in comparison["entries"]:
        kept = {name: value for name, value in entry.items() if name not in TIMES}
        entries.append(kept | {"trace": entry["trace"]["rows"][-1][1:]})
    return entries


@pytest.mark.parametrize("n_classes", [2, 3])
def test_entries_are_ranked_by_their_scores(
    client: TestClient, worker: Worker, n_classes: int
) -> None:
    """Each as the job with its spec would be; the best becomes a version of the model."""
    upload(client, csv_of(90, n_classes))
    specs = [*linear(0.001, 1.0), {"solver": {"name": "pegasos", "lambda": 0.01}}]
    found = compared(
        client, worker, specs=specs, model_name="best", set_alias="found", warm_starts=False
    )
    entries = found["entries"]
    assert [entry["rank"] for entry in entries] == [1, 2, 3]
    scores = [entry["score"] for entry in entries]
    assert scores == sorted(scores, reverse=True)
    assert {entry["number"] for entry in entries} == {1, 2, 3}
    assert found["best"] == entries[0]["number"]
    assert found["score"] == scores[0]
    for entry in entries:
        assert entry["state"] == "finished"
        assert entry["train"]["accuracy"] > 0.3
        assert entry["certificate"]["relative_gap"] <= 1e-2
        assert entry["elapsed_s"] > 0
        assert entry["trace"]["columns"] == ["elapsed_s", "primal", "dual", "gap"]
        primal, dual = entry["trace"]["rows"][-1][1:3]
        assert 0 < dual <= primal
    assert found["model"] == {"name": "best", "version": 1}
    version = client.get("/v1/models/best/versions/1").json()
    assert version["spec"] == entries[0]["spec"] | {"set_alias": "found"}
    assert version["metrics"]["validation"]["accuracy"] == scores[0]
    aliases = client.get("/v1/models/best/aliases").json()["aliases"]
    assert [alias["alias"] for alias in aliases if alias["alias"] != "latest"] == ["found"]
    job = client.post("/v1/jobs", json=entries[0]["spec"]).json()
    assert carry_out(client, worker, job["id"])["metrics"]["validation"]["accuracy"] == scores[0]
    chosen, trained = (
        client.get(f"/v1/models/best/versions/{k}/export?format=json").json()["model"]
        for k in (1, 2)
    )
    # Its validation rows did not choose the model of the job, and say when to withhold a label.
    del trained["rejection_decisions"]
    assert trained == chosen
    listed = client.get("/v1/comparisons").json()["comparisons"]
    assert [(each["id"], each["best"]) for each in listed] == [(found["id"], found["best"])]


def test_grid_has_every_combination_that_makes_sense(client: TestClient) -> None:
    """γ multiplies only what has one; equal entries are one; the plan says what each needs."""
    upload(client)
    grid = {
        "solver": [
            {"name": "newton"},
            {"name": "smo"},
            {"name": "smo", "kernel": {"name": "linear"}},
        ],
        "C": [0.1, 1.0, 0.1],
        "gamma": [0.5, "median"],
        "scaling": ["none", "standardize"],
    }
    reply = ask(client, {"validate_only": "true"}, grid=grid, specs=linear(0.1))
    assert reply.status_code == 200, reply.text
    plan = reply.json()
    combinations = 2 * 2 + 2 * 2 * 2 + 2 * 2
    assert len(plan["entries"]) == plan["trainings"] == combinations  # the spec is one of them
    gammas = [
        (entry["spec"]["solver"].get("kernel") or {}).get("gamma") for entry in plan["entries"]
    ]
    assert (gammas.count(0.5), gammas.count("median")) == (4, 4)
    assert all(entry["memory_bytes"] > 0 for entry in plan["entries"])
    assert client.get("/v1/comparisons").json()["comparisons"] == []
    features = [{"name": "random-fourier", "n_components": 8}, {"name": "identity"}]
    grid = {"solver": [{"name": "pegasos"}], "lambda": [0.1, 1.0], "features": features}
    plan = ask(client, {"validate_only": "true"}, grid=grid | {"gamma": [1.0, 2.0]}).json()
    assert [
        (entry["spec"]["features"].get("gamma"), entry["spec"]["solver"]["lambda"])
        for entry in plan["entries"]
    ] == [(1.0, 0.1), (1.0, 1.0), (2.0, 0.1), (2.0, 1.0), (None, 0.1), (None, 1.0)]


@pytest.mark.parametrize("solver", ["newton", "dual-coordinate-descent", "smo"])
def test_warm_starts_make_no_entry_worse(client: TestClient, worker: Worker, solver: str) -> None:
    """Each is within its gap of the optimum, by a bound that entries from zero confirm."""
    upload(client, csv_of(90, 3))
    grid = {"solver": [{"name": solver}], "C": [10.0, 0.1, 1.0]}
    warm, cold = (
        compared(client, worker, grid=grid, warm_starts=warm_starts)
        for warm_starts in (True, False)
    )
    starts = {entry["number"]: entry["warm_start_from"] for entry in warm["entries"]}
    assert starts == {2: None, 3: 2, 1: 3}
    others = {entry["number"]: entry for entry in cold["entries"]}
    for entry in warm["entries"]:
        other = others[entry["number"]]
        assert other["warm_start_from"] is None
        assert entry["certificate"]["relative_gap"] <= 1e-3
        primal, dual = entry["trace"]["rows"][-1][1:3]
        other_primal, other_dual = other["trace"]["rows"][-1][1:3]
        assert max(dual, other_dual) <= min(primal, other_primal) * (1 + 1e-9)
        assert primal <= other_primal * (1 + 1.5e-3)


@pytest.mark.parametrize("refit", ["best", "all"])
def test_folds_measure_every_row_once(client: TestClient, worker: Worker, refit: str) -> None:
    """As a job's folds do; the kept model is trained on all rows. Entries show its training on all
    rows if all have one, else that of the first fold."""
    upload(client, csv_of(60, 2))
    fields = {"specs": linear(0.01, 1.0), "validation": {"folds": 3}, "rank_by": "macro_f1"}
    fields |= {"model_name": "best", "refit": refit}
    found = compared(client, worker, **fields)
    plan = ask(client, {"validate_only": "true"}, **fields).json()
    assert plan["trainings"] == {"best": 2 * 3 + 1, "all": 2 * 3 + 2}[refit]
    kept = client.get("/v1/models/best/versions/1/card").json()
    assert "folds" in str(kept)
    for entry in found["entries"]:
        assert len(entry["validation"]["folds"]) == 3
        assert entry["score"] == entry["validation"]["macro_f1"]
        job_id = client.post("/v1/jobs", json={**entry["spec"], "model_name": "m"}).json()["id"]
        metrics = carry_out(client, worker, job_id)["metrics"]
        assert metrics["validation"]["accuracy"] == entry["validation"]["accuracy"]
        assert [fold["accuracy"] for fold in metrics["validation"]["folds"]] == (
            entry["validation"]["folds"]
        )
        same = metrics["train"]["accuracy"] == entry["train"]["accuracy"]
        assert same or refit == "best"
        if entry["rank"] == 1 and refit == "best":
            export = "versions/1/export?format=json"
            models = [client.get(f"/v1/models/{m}/{export}").json()["model"] for m in ("best", "m")]
            assert models[0]["coefficients"] == models[1]["coefficients"]
        client.delete("/v1/models/m")


def test_next_best_is_trained_on_all_rows_if_the_best_cannot_be(
    client: TestClient, settings: Settings, worker: Worker
) -> None:
    """Two workers are lost while they train it: the entry has failed, and the next one is kept."""
    upload(client, csv_of(60, 2))
    endless = {"max_epochs": 300, "duality_gap": 1e-300}
    specs = [{"solver": {"name": "pegasos", "C": C}, "stopping": endless} for C in (0.01, 1.0)]
    for stopping in (first := StopAfter(10**9)), None:
        job_id = asked(client, specs=specs, validation={"folds": 2}, model_name="kept")
        # Of the five trainings the last is on all rows.
        assert Worker(settings, stopping or StopAfter(int(0.9 * first.looked))).take_next_job()
    assert read(client, job_id)["state"] == "queued"
    entries = shown(client, job_id)["entries"]
    assert [entry["state"] for entry in entries] == ["finished"] * 2
    best, other = (entry["number"] for entry in entries)
    for _ in range(2):  # leases that run out
        assert worker._leases.take("dies", -1.0) is not None
    succeeded(client, worker, job_id)
    found = shown(client, job_id)
    assert [(e["number"], e["rank"]) for e in found["entries"]] == [(other, 1), (best, None)]
    assert found["entries"][1]["error"]["code"] == "worker-lost"
    assert found["entries"][1]["certificate"] is None
    assert (found["best"], found["model"]) == (other, {"name": "kept", "version": 2})


def test_validation_rows_that_were_trained_on_are_counted(
    client: TestClient, worker: Worker
) -> None:
    """Rows that the file has twice can be on both sides; the kept model has the number, too."""
    lines = csv_of(60).splitlines(keepends=True)
    upload(client, "".join([*lines, *lines[1:]]))
    specs = [{"solver": {"name": "newton"}}]
    found = compared(client, worker, specs=specs, model_name="kept", validation={"folds": 5})
    assert 60 < found["trained_rows"] <= 120
    assert "are equal to training rows" in client.get(f"/jobs/{found['id']}").text
    version = client.get("/v1/models/kept/versions/1").json()
    assert version["metrics"]["validation"]["trained_rows"] == found["trained_rows"]
    upload(client, "".join([*lines, *lines[1:20]]))
    fields = {"specs": specs, "model_name": "kept", "validation": {"folds": 5}}
    rest = compared(client, worker, **fields, leave_out_trained=True)
    validation = client.get("/v1/models/kept/versions/2").json()["metrics"]["validation"]
    assert rest["trained_rows"] == validation["trained_rows"] == 0
    assert 0 < validation["left_out_rows"] <= 38
    assert sum(map(sum, validation["confusion_matrix"])) == 79 - validation["left_out_rows"]


def test_costs_are_compared_on_one_objective_only(client: TestClient, worker: Worker) -> None:
    """Entries with equal λ, data and intercept share the best bound that any of them found."""
    upload(client, csv_of(90, 2))
    specs = [
        {"solver": {"name": "newton", "lambda": 0.01}},
        {"solver": {"name": "pegasos", "lambda": 0.01}, "stopping": {"max_epochs": 3}},
        {"solver": {"name": "newton", "lambda": 0.1}},
        {"solver": {"name": "newton", "lambda": 0.01}, "scaling": "none"},
    ]
    found = compared(client, worker, specs=specs)
    groups = {tuple(sorted(each["entries"])) for each in found["objectives"]}
    assert groups == {(1, 2), (3,), (4,)}
    entries = {entry["number"]: entry for entry in found["entries"]}
    shared = next(each for each in found["objectives"] if len(each["entries"]) == 2)
    assert shared["entries"] == [1, 2]
    assert shared["excess"][0] < shared["excess"][1]
    assert shared["dual"] == max(entries[k]["trace"]["rows"][-1][2] for k in (1, 2))
    assert {entries[1]["objective"], entries[2]["objective"]} == {shared["number"]}
    assert entries[2]["stop_reason"] == "max-epochs"


def test_an_entry_that_fails_leaves_the_others(client: TestClient, worker: Worker) -> None:
    """What diverges, and what does not fit the data, is listed last with its problem."""
    upload(client)
    diverging = {"name": "gradient-descent", "C": 1e6, "learning_rate": 1e200, "batch_size": "all"}
    specs = [
        {"solver": diverging},
        {"solver": {"name": "newton"}, "class_weight": {"unknown": 2.0}},
        *linear(1.0),
    ]
    found = compared(client, worker, specs=specs, model_name="best")
    assert [entry["number"] for entry in found["entries"]] == [3, 1, 2]
    assert [entry["rank"] for entry in found["entries"]] == [1, None, None]
    errors = [entry["error"] and entry["error"]["code"] for entry in found["entries"]]
    assert errors == [None, "diverged", "unknown-class"]
    assert found["model"] == {"name": "best", "version": 1}
    job_id = asked(client, specs=specs[:2])
    job = carry_out(client, worker, job_id)
    assert (job["state"], job["error"]["code"]) == ("failed", "diverged")
    assert {entry["state"] for entry in shown(client, job_id)["entries"]} == {"failed"}


SEARCH: dict[str, Any] = {
    "grid": {"solver": [{"name": "smo"}, {"name": "newton"}], "C": [1.0, 0.1, 10.0]},
    "specs": [
        {"solver": {"name": "pegasos", "lambda": 0.01}, "stopping": {"max_epochs": 40}},
        {"solver": {"name": "auto", "C": 0.5}},
    ],
    "validation": {"folds": 2},
    "model_name": "best",
}


@pytest.mark.parametrize("validation", [{"fraction": 0.4}, {"folds": 3}])
def test_entries_are_compared_row_by_row(
    client: TestClient, worker: Worker, validation: dict[str, Any]
) -> None:
    """A curved boundary with almost the same C is a tie, a straight one inside of a circle is not.
    Another score is no mean over rows."""
    upload(client, CIRCLE)
    curved = [{"solver": {"name": "smo", "C": C, "kernel": "rbf"}} for C in (1.0, 1.1)]
    specs = [*curved, *linear(1.0)]
    entries = compared(client, worker, specs=specs, validation=validation)["entries"]
    assert entries[0]["behind"] is None
    for entry, tie in zip(entries[1:], (True, False), strict=True):
        behind = entry["behind"]
        assert behind["difference"] == pytest.approx(entries[0]["score"] - entry["score"])
        assert behind["interval"][0] < behind["difference"] < behind["interval"][1]
        assert (behind["tie"], behind["interval"][0] <= 0.0) == (tie, tie)
    ranked = compared(client, worker, specs=specs, validation=validation, rank_by="macro_f1")
    assert [entry["behind"] for entry in ranked["entries"]] == [None] * 3


@pytest.mark.parametrize("validation", [{"fraction": 0.4}, {"folds": 3}], ids=["split", "folds"])
@pytest.mark.parametrize("numbers", [False, True], ids=["classes", "numbers"])
def test_entries_are_compared_group_by_group(
    client: TestClient, worker: Worker, validation: dict[str, Any], numbers: bool
) -> None:
    """Not row by row, if rows have groups, of which each has one label that has no reason."""
    lines = ["a,b,g,label"]
    random = np.random.default_rng(7)
    for g in range(40):
        a, b, of_class, number = *random.normal(size=2).round(3), *random.normal(size=2).round(3)
        label = number if numbers else "yes" if of_class > 0 else "no"
        lines += [f"{a},{b},g{g},{label}"] * 40
    upload(client, "\n".join(lines), group="g")
    specs = linear(1e-6, 1.0)
    entries = compared(client, worker, specs=specs, validation=validation)["entries"]
    assert entries[1]["behind"]["difference"] > 0.0
    assert entries[1]["behind"]["tie"]


@pytest.mark.long
def test_stopped_workers_save_and_the_last_one_ends_with_the_same_results(
    client: TestClient, worker: Worker, settings: Settings
) -> None:
    """Wherever it was stopped: entries, ranks and the kept model are those of an undisturbed one;
    what is done can be seen meanwhile."""
    upload(client, csv_of(90, 3))
    whole = compared(client, worker, **SEARCH)
    job_id = asked(client, **SEARCH)
    seen, stops = 0, 0
    while read(client, job_id)["state"] == "queued" and stops < 40:
        stops += 1
        Worker(settings, StopAfter(60)).take_next_job()
        meanwhile = [entry["state"] for entry in shown(client, job_id)["entries"]]
        assert meanwhile.count("finished") >= seen
        seen = meanwhile.count("finished")
    if read(client, job_id)["state"] == "queued":
        carry_out(client, worker, job_id)
    found = shown(client, job_id)
    assert found["state"] == "succeeded", found["error"]
    assert found["attempt"] > 3
    assert timeless(found) == timeless(whole)
    versions = client.get("/v1/models/best/versions").json()["versions"]
    assert len({version["digest"] for version in versions}) == 1
    assert files(settings, "checkpoints") == []


def test_canceled_comparison_keeps_what_it_has_found(client: TestClient, worker: Worker) -> None:
    """Asked to keep the model, it is that of the best entry so far."""
    upload(client, csv_of(90, 2))
    endless = {"solver": {"name": "pegasos"}, "stopping": {"max_epochs": 10**9}}
    job_id = asked(client, specs=[*linear(1.0), endless], model_name="best")

    def keep() -> None:
        reply = client.post(f"/v1/jobs/{job_id}/cancel", json={"keep_model": True})
        assert reply.status_code == 202

    carry_out_until(client, worker, job_id, keep, lambda progress: progress["entry"] == 2)
    found = shown(client, job_id)
    assert (found["state"], found["best"]) == ("canceled", 1)
    assert [entry["state"] for entry in found["entries"]] == ["finished", "waiting"]
    assert found["model"] == {"name": "best", "version": 1}


def test_entry_that_costs_workers_their_lives_is_left_out(
    client: TestClient, settings: Settings, worker: Worker
) -> None:
    """After two of them the comparison continues with the next entry."""
    upload(client)
    job_id = asked(client, specs=linear(1.0, 2.0))
    for _ in range(2):  # leases that run out
        assert worker._leases.take("dies", -1.0) is not None
    succeeded(client, worker, job_id)
    errors = {
        e["number"]: e["error"] and e["error"]["code"] for e in shown(client, job_id)["entries"]
    }
    assert errors == {1: "worker-lost", 2: None}


def test_what_cannot_be_compared_is_refused(client: TestClient) -> None:
    """At once, with a pointer into the request."""
    upload(client)
    newton = {"name": "newton"}
    polynomial = {"name": "smo", "kernel": {"name": "polynomial"}}
    for fields, status, code, pointer in (
        ({}, 422, "invalid-field", ""),
        ({"specs": []}, 422, "invalid-field", ""),
        (
            {"specs": linear(1.0), "validation": {"dataset_id": "latest"}},
            *(422, "invalid-field", "/validation/fraction"),
        ),
        ({"specs": [{"solver": {"name": "none"}}]}, 422, "invalid-field", "/specs/0/solver/name"),
        ({"grid": {"solver": []}}, 422, "invalid-field", "/grid/solver"),
        ({"grid": {"solver": [newton], "C": [-1]}}, 422, "invalid-field", "/grid/C/0"),
        ({"grid": {"solver": [newton], "C": [1], "lambda": [1]}}, 422, "invalid-field", "/grid"),
        ({"grid": {"solver": [polynomial], "gamma": ["median"]}}, 422, "invalid-field", "/grid"),
        ({"specs": linear(1.0), "set_alias": "x"}, 422, "invalid-field", ""),
        ({"specs": linear(1.0), "model_name": "X"}, 400, "invalid-name", "/model_name"),
        ({"specs": linear(*range(1, 102))}, 422, "plan-too-large", "/specs"),
        (
            {"specs": linear(1.0), "validation": {"folds": 100}},
            *(422, "class-too-small", "/validation/folds"),
        ),
        (
            {"specs": [{"solver": newton, "class_weight": {"x": 1.0}}]},
            *(422, "unknown-class", "/specs/0"),
        ),
    ):
        reply = ask(client, **fields)
        assert (reply.status_code, reply.json()["code"]) == (status, code), (fields, reply.text)
        assert reply.json()["errors"][0]["pointer"] == pointer, (fields, reply.text)
    upload(client, "x,y\n1,2\n3,4\n", target="none")
    assert ask(client, specs=linear(1.0)).json()["code"] == "target-missing"
    assert (
        client.get("/v1/info").json()["limits"]["comparison_entries"] == Limits().comparison_entries
    )
