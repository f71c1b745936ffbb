"""Jobs that begin at a model version, carried out by a worker in this process."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.jobs.engine.worker_process import Worker
from service.jobs.training.admission import SEEN_ROWS
from service.settings import Settings
from service.storage.database import Database
from service.storage.database.tables import IN_ROWS, model_files
from tests.service.jobs.data import carry_out, create, csv_of, job_body, read, trained, upload
from tests.service.jobs.stopping import StopAfter

pytestmark = pytest.mark.one_application(checkpoint_s=0.05, lease_s=30.0)

NEWTON = {"name": "newton", "C": 1.0}
DUAL = {"name": "dual-coordinate-descent", "C": 1.0}
KERNEL = {"name": "kernel-pegasos", "lambda": 0.05}
GAP = {"duality_gap": 1e-2, "max_epochs": 5000}


@pytest.fixture
def dataset_id(client: TestClient) -> str:
    return upload(client)


@pytest.fixture
def worker(client: TestClient, settings: Settings, dataset_id: str) -> Worker:
    return Worker(settings, threading.Event())


def append(client: TestClient, dataset_id: str, text: str) -> str:
    """The id of the dataset with the rows of `text` at its end."""
    reply = client.post(
        f"/v1/datasets/{dataset_id}/append", content=text, headers={"Content-Type": "text/csv"}
    )
    assert reply.status_code == 201, reply.text
    new_id: str = reply.json()["id"]
    return new_id


def refused(client: TestClient, dataset_id: str, **fields: Any) -> str:
    """The message with which the start is refused, at its field."""
    reply = client.post("/v1/jobs", json=job_body(dataset_id, **fields))
    assert reply.status_code == 422, reply.text
    problem = reply.json()
    assert problem["code"] == "warm-start-unsupported"
    [error] = problem["errors"]
    assert error["pointer"] == "/warm_start_from"
    message: str = error["message"]
    assert problem["detail"] == message
    return message


@pytest.mark.parametrize(
    "solver", [{"name": "pegasos", "lambda": 0.05}, NEWTON, DUAL, KERNEL], ids=lambda s: s["name"]
)
def test_model_within_its_gap_stays_as_it_is(
    client: TestClient, worker: Worker, solver: dict[str, Any]
) -> None:
    """A job that begins with a version that meets its stopping rule, on the same data, ends before
    the first epoch, or after Newton's first few, with the same values and a new bound."""
    fields: dict[str, Any] = {"solver": solver, "stopping": GAP, "scaling": "standardize"}
    first = trained(client, worker, **fields)
    second = trained(client, worker, **fields, warm_start_from="clouds/1")
    assert second["spec"]["warm_start_from"] == "clouds/1"
    assert (second["stop_reason"], second["model"]["version"]) == ("gap-reached", 2)
    if solver is not NEWTON:
        assert (second["epochs"], second["updates"]) == (0, 0)
        primals = [job["certificate"]["primal"] for job in (first, second)]
        assert primals[1] == pytest.approx(primals[0], rel=1e-9)
    assert second["epochs"] < first["epochs"]
    assert first["certificate"]["dual"] <= second["certificate"]["primal"]
    assert second["certificate"]["dual"] <= first["certificate"]["primal"]


@pytest.mark.parametrize("solver", [{"name": "pegasos", "lambda": 0.05}, DUAL, KERNEL])
@pytest.mark.parametrize("validation", [None, {"fraction": 0.25}])
def test_training_on_appended_rows_begins_where_the_other_ended(
    client: TestClient,
    worker: Worker,
    dataset_id: str,
    solver: dict[str, Any],
    validation: dict[str, Any] | None,
) -> None:
    """After two appends its curve begins, at epoch 0, below the first epoch of a training from
    zero, and the gap is reached no later. With another validation set the variables of its rows
    are lost, and a warning names validation rows that the earlier training saw."""
    fields: dict[str, Any] = {"solver": solver, "stopping": GAP, "validation": validation}
    fields["scaling"] = "none"  # a start keeps its own, so that the objectives would differ
    trained(client, worker, dataset_id=dataset_id, **fields)
    longer = append(client, append(client, dataset_id, csv_of(6, seed=1)), csv_of(6, seed=2))
    cold = trained(client, worker, dataset_id=longer, **fields)
    warm = trained(client, worker, dataset_id=longer, **fields, warm_start_from="clouds/1")
    curves = [client.get(f"/v1/jobs/{job['id']}/trace").json()["rows"] for job in (warm, cold)]
    assert [curve[0][0] for curve in curves] == [0, 1]
    if validation is None:
        assert warm["updates"] <= cold["updates"]
        assert curves[0][0][3] < curves[1][0][3]
    assert (SEEN_ROWS in warm["warnings"]) == (validation is not None)
    for a, b in ((warm, cold), (cold, warm)):
        assert a["certificate"]["dual"] <= b["certificate"]["primal"]


def test_same_split_of_the_same_data_tells_the_truth(client: TestClient, worker: Worker) -> None:
    """The validation rows are those of the earlier training, so no warning is due."""
    fields: dict[str, Any] = {"validation": {"fraction": 0.25}, "stopping": {"max_epochs": 2}}
    trained(client, worker, **fields)
    assert trained(client, worker, **fields, warm_start_from="clouds/1")["warnings"] == []
    other = trained(client, worker, **fields, warm_start_from="clouds/1", seed=2)
    assert other["warnings"] == [SEEN_ROWS]


def test_alias_names_a_start(client: TestClient, worker: Worker) -> None:
    """It means the version that it points to now, which the spec shows."""
    trained(client, worker, set_alias="good")
    trained(client, worker)
    for reference, version in (("good", 1), ("latest", 2)):
        job_id = create(client, warm_start_from=f"clouds/{reference}")
        assert read(client, job_id)["spec"]["warm_start_from"] == f"clouds/{version}"


def test_scaling_of_the_start_is_the_default(client: TestClient, worker: Worker) -> None:
    """Other data, or another release, would choose another one."""
    trained(client, worker, scaling="min-max")
    assert trained(client, worker, warm_start_from="clouds/1")["spec"]["scaling"] == "min-max"


def test_any_dataset_for_a_solver_on_weights(client: TestClient, worker: Worker) -> None:
    """Pegasos continues on other rows of the same form; a solver that works on rows cannot."""
    trained(client, worker)
    trained(client, worker, solver=DUAL)
    other = upload(client, csv_of(30, seed=5))
    assert trained(client, worker, dataset_id=other, warm_start_from="clouds/1")["warnings"] == []
    message = refused(client, other, solver=DUAL, warm_start_from="clouds/2")
    assert "does not begin with the rows" in message
    trained(client, worker, dataset_id=other, solver=NEWTON, warm_start_from="clouds/2")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"solver": DUAL}, "dual-coordinate-descent can start from models of"),
        ({"scaling": "max-abs"}, "scaling: the model has standardize, the training max-abs"),
        ({"features": {"name": "square"}}, "features.name: the model has identity"),
        ({"multiclass": "one-vs-rest"}, "multiclass: the model has one-vs-one"),
        ({"dataset_id": (60, 2, 2)}, "features: the model has 3, the dataset 2"),
        ({"dataset_id": (60, 3, 3)}, "classes: the model has ['c0', 'c1'], the dataset"),
        ({"dataset_id": "names"}, "feature 2: the model has 'x1', the dataset 'width'"),
    ],
)
def test_first_difference_is_named(
    client: TestClient, worker: Worker, dataset_id: str, fields: dict[str, Any], message: str
) -> None:
    """Nothing is queued for a start that cannot be."""
    trained(client, worker, stopping={"max_epochs": 1})
    data = fields.get("dataset_id", dataset_id)
    if data == "names":
        data = upload(client, csv_of().replace("x1", "width"))
    elif isinstance(data, tuple):
        n_samples, n_classes, n_features = data
        data = upload(client, csv_of(n_samples, n_classes, n_features))
    found = refused(client, **{**fields, "dataset_id": data, "warm_start_from": "clouds/1"})
    assert message in found
    assert not worker.take_next_job()


@pytest.mark.parametrize("reference", ["clouds/9", "clouds/nothing", "unknown/1"])
def test_unknown_start_is_not_found(client: TestClient, worker: Worker, reference: str) -> None:
    """As an unknown dataset is."""
    trained(client, worker, stopping={"max_epochs": 1})
    reply = client.post("/v1/jobs", json=job_body(warm_start_from=reference))
    assert (reply.status_code, reply.json()["code"]) == (404, "not-found")


@pytest.mark.parametrize("reference", ["clouds", "clouds/", "clouds/0", "Clouds/1", "a/1/2", 3])
def test_what_is_no_version_is_refused(client: TestClient, reference: Any) -> None:
    """The form is `name/version`."""
    reply = client.post("/v1/jobs", json=job_body(warm_start_from=reference))
    assert (reply.status_code, reply.json()["code"]) == (422, "invalid-field")
    assert reply.json()["errors"][0]["pointer"] == "/warm_start_from"


@pytest.mark.parametrize("solver", [{"name": "pegasos", "lambda": 0.01}, DUAL])
def test_stopped_and_resumed_equals_undisturbed(
    client: TestClient,
    worker: Worker,
    settings: Settings,
    dataset_id: str,
    solver: dict[str, Any],
) -> None:
    """The checkpoint of a warm training fits the attempt that resumes it."""
    fields: dict[str, Any] = {"solver": solver, "stopping": {"max_epochs": 2000}}
    trained(client, worker, dataset_id=dataset_id, **fields)
    longer = append(client, dataset_id, csv_of(20, seed=1))
    fields |= {"dataset_id": longer, "warm_start_from": "clouds/1"}
    fields["stopping"] = {"max_epochs": 2000, "duality_gap": 1e-15}
    job = carry_out(client, Worker(settings, StopAfter(100)), create(client, **fields))
    assert job["state"] == "queued"
    job = carry_out(client, worker, job["id"])
    assert (job["state"], job["attempt"]) == ("succeeded", 2)
    assert all("ended before it converged" in warning for warning in job["warnings"])
    trained(client, worker, **fields)
    versions = client.get("/v1/models/clouds/versions").json()["versions"]
    assert versions[0]["digest"] == versions[1]["digest"] != versions[2]["digest"]


def test_start_of_a_waiting_job_is_kept(client: TestClient, worker: Worker) -> None:
    """Neither the version nor its model can be deleted before the job has ended."""
    trained(client, worker, stopping={"max_epochs": 1})
    trained(client, worker, stopping={"max_epochs": 1})
    job_id = create(client, warm_start_from="clouds/1")
    for path in ("/v1/models/clouds/versions/1", "/v1/models/clouds?force=true"):
        reply = client.delete(path)
        assert (reply.status_code, reply.json()["code"]) == (409, "resource-in-use")
        assert job_id in reply.json()["detail"]
    assert client.delete("/v1/models/clouds/versions/2").status_code == 204
    carry_out(client, worker, job_id)
    assert client.delete("/v1/models/clouds/versions/1").status_code == 204


def test_lost_state_fails_the_job_and_nothing_else(
    client: TestClient, worker: Worker, settings: Settings
) -> None:
    """The job says what is wrong; the model itself still predicts."""
    trained(client, worker, stopping={"max_epochs": 1})
    database = Database(settings.database_url)
    with database.write() as connection:
        lost = model_files.c.name.startswith(f"{IN_ROWS}warm-starts/")
        assert connection.execute(model_files.delete().where(lost)).rowcount == 1
    database.close()
    job = carry_out(client, worker, create(client, warm_start_from="clouds/1"))
    assert (job["state"], job["error"]["code"]) == ("failed", "model-corrupt")
    reply = client.post("/v1/models/clouds/predict", json={"instances": [[0, 0, 0]]})
    assert reply.status_code == 200


def test_catalog_tells_what_a_solver_takes(client: TestClient) -> None:
    """Which models it continues from, what it inherits, and whether the rows must be the same."""
    by_name = {each["name"]: each for each in client.get("/v1/solvers").json()["solvers"]}
    assert by_name["pegasos"]["warm_start"]["continues_from"] == ["pegasos", "subgradient"]
    needs = {name: each["warm_start"]["needs_rows"] for name, each in by_name.items()}
    assert needs["dual-coordinate-descent"]
    assert needs["kernel-pegasos"]
    assert not needs["newton"]
    assert all(each["warm_start"]["takes"] for each in by_name.values())
