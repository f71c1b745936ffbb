"""`/v1/jobs` over HTTP, without workers: what is accepted, what is refused, and how."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from service.app import create_app
from service.jobs.core.job import State
from service.settings import Settings
from service.storage.database import Database
from tests.service.jobs.data import create, csv_of, job_body, read, upload
from tests.service.jobs.rows import add_dataset

pytestmark = pytest.mark.one_application

UNKNOWN = "job_" + "0" * 32
MEASURED = "a,y\n" + "".join(f"{k},{k / 7}\n" for k in range(1, 303))
COUNTED = "a,y\n" + "".join(f"{k},{k}\n" for k in range(1, 303))
HINGE = {"name": "newton", "loss": "hinge"}
NUMERIC = {"name": "newton", "loss": "epsilon-insensitive"}


def add_row(settings: Settings) -> str:
    database = Database(settings.database_url)
    dataset_id = add_dataset(database)
    database.close()
    return dataset_id


@pytest.fixture
def dataset_id(client: TestClient, settings: Settings) -> str:
    """A dataset of which only the row is there: nothing here reads its data."""
    return add_row(settings)


def test_accepted_job_is_located_and_its_spec_complete(client: TestClient, dataset_id: str) -> None:
    """The reply shows every default, and the job can be found where Location says."""
    body = job_body(seed=None, tags={"team": "x"})
    reply = client.post("/v1/jobs", json=body)
    assert reply.status_code == 202
    assert "Retry-After" in reply.headers
    job = reply.json()
    assert client.get(reply.headers["Location"]).json() == job
    assert (job["state"], job["attempt"], job["tags"]) == ("queued", 0, {"team": "x"})
    spec = job["spec"]
    assert spec["dataset_id"] == job["dataset_id"] == dataset_id
    assert spec["solver"]["lambda"] == 0.01
    assert spec["stopping"] == {
        "max_epochs": 1000,
        "duality_gap": 1e-3,
        "cost_change": None,
        "max_updates": None,
        "patience": None,
        "time_budget_s": None,
    }
    assert isinstance(spec["seed"], int)
    assert spec["scaling"] == "standardize"


def test_latest_means_the_dataset_uploaded_last(
    client: TestClient, settings: Settings, dataset_id: str
) -> None:
    """It is resolved once, when the job is created."""
    newer = add_row(settings)
    assert read(client, create(client, "latest"))["dataset_id"] == newer
    assert read(client, create(client, dataset_id))["dataset_id"] == dataset_id


def test_what_was_there_already_is_the_latest_again(client: TestClient) -> None:
    """An upload followed by a training trains on that file, even if it was uploaded before."""
    first, second = upload(client), upload(client, csv_of(seed=1))
    assert read(client, create(client, "latest"))["dataset_id"] == second
    assert upload(client) == first
    assert read(client, create(client, "latest"))["dataset_id"] == first
    listed = client.get("/v1/datasets").json()["datasets"]
    assert [dataset["id"] for dataset in listed] == [second, first]  # as they were made


def test_latest_without_any_dataset_is_not_found(client: TestClient) -> None:
    """The detail says what to do."""
    reply = client.post("/v1/jobs", json=job_body())
    assert (reply.status_code, reply.json()["code"]) == (404, "not-found")
    assert "upload" in reply.json()["detail"]


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"solver": {"name": "pegasos", "lambda": 1.0, "C": 1.0}}, "/solver"),
        ({"solver": {"name": "pegasos", "lambda": 0}}, "/solver/lambda"),
        ({"solver": {"name": "pegasos", "lambda": True}}, "/solver/lambda"),
        ({"solver": {"name": "gradient-descent", "C": 1.797e308}}, "/solver/C"),
        ({"solver": {"name": "newton", "C": 5e-324}}, "/solver/C"),
        ({"solver": {"name": "pegasos", "C": "1"}}, "/solver/C"),
        ({"solver": {"name": "perceptron"}}, "/solver/name"),
        ({"solver": {}}, "/solver/name"),
        ({"solver": {"name": "pegasos", "gamma": 1}}, "/solver/gamma"),
        ({"scaling": "log"}, "/scaling"),
        ({"stopping": {"max_epochs": 0}}, "/stopping/max_epochs"),
        ({"stopping": {"cost_change": {"epsilon": -1.0}}}, "/stopping/cost_change/epsilon"),
        ({"validation": {"fraction": 1.0}}, "/validation/fraction"),
        ({"validation": {}}, "/validation/fraction"),
        ({"validation": 3}, "/validation"),
        ({"validation": {"folds": 1}}, "/validation/folds"),
        ({"validation": {"folds": 101}}, "/validation/folds"),
        ({"validation": {"folds": True}}, "/validation/folds"),
        ({"validation": {"folds": 3, "fraction": 0.5}}, "/validation/fraction"),
        ({"class_weight": {"a": -1}}, "/class_weight/a"),
        ({"class_weight": "even"}, "/class_weight"),
        ({"priority": 101}, "/priority"),
        ({"seed": -1}, "/seed"),
        ({"seed": 2**53}, "/seed"),
        ({"tags": {"a b": "x"}}, "/tags/a b"),
        ({"color": "red"}, "/color"),
    ],
)
def test_wrong_field_is_pointed_at(
    client: TestClient, dataset_id: str, fields: dict[str, Any], pointer: str
) -> None:
    """422 `invalid-field`, and nothing is queued."""
    reply = client.post("/v1/jobs", json=job_body(**fields))
    assert reply.status_code == 422, reply.text
    problem = reply.json()
    assert problem["code"] == "invalid-field"
    assert [error["pointer"] for error in problem["errors"]] == [pointer]
    assert client.get("/v1/jobs").json()["jobs"] == []


@pytest.mark.parametrize(
    ("solver", "pointer", "message", "hint"),
    [
        (
            {"name": "newton", "C": -1},
            "/C",
            "Input should be at least 1e-100",
            "Weight of the losses",
        ),
        ({"name": "newton", "lamda": 1}, "/lamda", "There is no such field", "mean `lambda`? "),
        (
            {"name": "newton", "gamma": 1},
            "/gamma",
            "There is no such field",
            "known fields are `C`, ",
        ),
        (
            {"name": "smo", "kernel": {"name": "RBF", "gamma": 1}},
            "/kernel/name",
            '"RBF" is not a known value',
            "did you mean `gaussian`? one of 'linear', 'gaussian', 'polynomial'",
        ),
        (
            {"name": "smo", "kernel": "RBF"},
            "/kernel",
            '"RBF" is not a known value',
            "did you mean `gaussian`? one of 'linear', 'gaussian', 'polynomial'",
        ),
        (
            {"name": "smo", "kernel": 1},
            "/kernel",
            "Input should be an object",
            'such as {"name": "linear"}; names are linear, gaussian, polynomial',
        ),
        (
            {"name": "smo", "kernel": {"name": "gaussian", "sigma": 2.0}},
            "/kernel/sigma",
            "There is no such field",
            "did you mean `gamma`, which is 1 / (2 sigma²)? known fields are `gamma`, `name`",
        ),
        (
            {"name": "LinearSVC"},
            "/name",
            '"LinearSVC" is not a known value',
            "did you mean `newton` for a linear model? one of ",
        ),
        (
            {"name": "rbf"},
            "/name",
            '"rbf" is not a known value',
            'did you mean `smo` with the kernel {"name": "gaussian"}? one of ',
        ),
        (
            {"name": "svr"},
            "/name",
            '"svr" is not a known value',
            "did you mean `smo`, whose loss `epsilon-insensitive` is for a numeric target? one of ",
        ),
        ({"name": "newton", "alpha": 1}, "/alpha", "There is no such field", "mean `lambda`? "),
        (
            {"name": "smo", "kernel": {"name": "gaussian", "gama": 1}},
            "/kernel/gama",
            "There is no such field",
            "did you mean `gamma`? known fields are `gamma`, `name`",
        ),
        (
            {"name": "smo", "kernel": {"name": "gaussian", "gamma": "wide"}},
            "/kernel/gamma",
            "Input should be a valid number, or 'median', 'scale' or 'auto'",
            "between rows",
        ),
        (
            {"name": "gradient-descent", "learning_rate": {"name": "fast"}},
            "/learning_rate/name",
            '"fast" is not a known value',
            "one of 'inverse-time', 'inverse-square-root'",
        ),
    ],
)
def test_wrong_field_is_explained(
    client: TestClient,
    dataset_id: str,
    solver: dict[str, Any],
    pointer: str,
    message: str,
    hint: str,
) -> None:
    """One error a mistake, of the form that the caller chose, with what the document says of it."""
    (error,) = client.post("/v1/jobs", json=job_body(solver=solver)).json()["errors"]
    assert (error["pointer"], error["message"]) == (f"/solver{pointer}", message)
    assert hint in error["hint"]


def test_hint_is_no_paragraph(client: TestClient, dataset_id: str) -> None:
    """Platt's name leads to the sigmoid."""
    asked = job_body(calibration="platt", validation={"fraction": 0.2})
    [error] = client.post("/v1/jobs", json=asked).json()["errors"]
    assert error["message"] == "Input should be 'sigmoid' or 'isotonic'"
    assert "`sigmoid` (Platt's)" in error["hint"]
    assert error["hint"].count(". ") == 0


@pytest.mark.parametrize(
    ("kernel", "means"),
    [
        ("linear", {"name": "linear"}),
        ("rbf", {"name": "gaussian", "gamma": "median"}),
        ({"name": "rbf", "gamma": "scale"}, {"name": "gaussian", "gamma": "scale"}),
        ("poly", {"name": "polynomial", "degree": 3, "gamma": 1.0, "coef0": 1.0}),
    ],
)
def test_kernels_have_the_names_of_scikit_learn(
    client: TestClient, dataset_id: str, kernel: Any, means: dict[str, Any]
) -> None:
    """A name alone is enough, for solvers and features; the job has the object that it means."""
    fields: dict[str, Any] = {
        "solver": {"name": "smo", "kernel": kernel},
        "features": {"name": "nystroem", "kernel": kernel},
    }
    reply = client.post("/v1/jobs", json=job_body(**fields))
    assert reply.status_code == 202, reply.text
    spec = reply.json()["spec"]
    assert spec["solver"]["kernel"] == spec["features"]["kernel"] == means


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("C", "`C` in `solver`"),
        ("lambda_", "`lambda` in `solver`"),
        ("kernel", "`kernel` in `solver`"),
        ("gamma", "`gamma` in `solver.kernel`"),
        ("max_epochs", "`max_epochs` in `stopping`"),
        ("fraction", "`fraction` in `validation`"),
    ],
)
def test_field_beside_the_object_that_has_it(
    client: TestClient, dataset_id: str, name: str, place: str
) -> None:
    """The hint says where it belongs."""
    fields: dict[str, Any] = {name: 1}
    (error,) = client.post("/v1/jobs", json=job_body(**fields)).json()["errors"]
    assert error["hint"].startswith(f"did you mean {place}? known fields are ")


def test_training_without_a_solver_is_by_auto(client: TestClient, dataset_id: str) -> None:
    body = job_body()
    del body["solver"]
    reply = client.post("/v1/jobs", json=body)
    assert reply.status_code == 202, reply.text
    assert reply.json()["spec"]["solver"]["name"] == "auto"


@pytest.mark.parametrize(
    "fields", [{"model_name": "Iris"}, {"model_name": "../x"}, {"set_alias": "latest"}]
)
def test_bad_name_is_refused(client: TestClient, dataset_id: str, fields: dict[str, Any]) -> None:
    """Names of models and aliases follow one rule; `latest` cannot be set."""
    reply = client.post("/v1/jobs", json=job_body(**fields))
    assert (reply.status_code, reply.json()["code"]) == (400, "invalid-name")


def test_unknown_dataset_is_not_found(client: TestClient) -> None:
    """Another id than any that exists."""
    reply = client.post("/v1/jobs", json=job_body("ds_" + "0" * 32))
    assert (reply.status_code, reply.json()["code"]) == (404, "not-found")


@pytest.mark.parametrize(
    ("text", "query", "fields", "code", "pointer"),
    [
        (csv_of(), {"target": "none"}, {}, "target-missing", "/dataset_id"),
        (csv_of(n_classes=1), {}, {}, "single-class", "/dataset_id"),
        (csv_of(303, n_classes=101), {}, {}, "too-many-classes", "/dataset_id"),
        (
            csv_of(61) + "1,2,3,rare\n",
            {},
            {"validation": {"fraction": 0.2}, "calibration": "sigmoid"},
            "class-too-small",
            "/calibration",
        ),
        (
            csv_of(4),
            {},
            {"validation": {"folds": 5}},
            "class-too-small",
            "/validation/folds",
        ),
        (MEASURED, {}, {"solver": HINGE}, "target-continuous", "/dataset_id"),
        (COUNTED, {}, {"solver": HINGE}, "too-many-classes", "/dataset_id"),
        (csv_of(), {}, {"solver": NUMERIC}, "label-mismatch", "/dataset_id"),
        (MEASURED, {"target": "none"}, {"solver": NUMERIC}, "target-missing", "/dataset_id"),
        ("a,y\n1,.5\n2,.5\n", {}, {}, "single-class", "/dataset_id"),
        (
            "a,y\n1,.5\n2,1.5\n",
            {},
            {"validation": {"folds": 5}},
            "class-too-small",
            "/validation/folds",
        ),
        (
            "a,y\n1,.5\n2,1.5\n",
            {},
            {"validation": {"folds": 2}},
            "class-too-small",
            "/validation/folds",
        ),
        (
            MEASURED,
            {},
            {"validation": {"fraction": 0.999}},
            "class-too-small",
            "/validation/fraction",
        ),
    ],
    ids=[
        *("unlabeled", "one class", "101 classes", "class of one row", "folds", "measured"),
        *("counted", "texts", "no numbers", "one number", "few numbers"),
        *("one row in the other fold", "one row left"),
    ],
)
def test_data_that_cannot_be_trained_on_is_refused_before_queueing(
    client: TestClient,
    text: str,
    query: dict[str, str],
    fields: dict[str, Any],
    code: str,
    pointer: str,
) -> None:
    """422 with the code of the reason; nothing is queued."""
    # Features must be numbers, so `target=none` goes without the label column.
    if query.get("target") == "none":
        text = "".join(line.rpartition(",")[0] + "\n" for line in text.splitlines())
    upload(client, text, **query)
    reply = client.post("/v1/jobs", json=job_body(**fields))
    assert (reply.status_code, reply.json()["code"]) == (422, code)
    assert reply.json()["errors"][0]["pointer"] == pointer
    assert client.get("/v1/jobs").json()["jobs"] == []


@pytest.mark.parametrize(
    ("text", "fields", "pointer", "said"),
    [
        (MEASURED, {"class_weight": "balanced"}, "/class_weight", "no classes to weigh"),
        (MEASURED, {"multiclass": "one-vs-rest"}, "/multiclass", "is one problem"),
        (MEASURED, {"classes": ["1", "2"]}, "/classes", "has none"),
        (
            MEASURED,
            {"validation": {"fraction": 0.2}, "calibration": "sigmoid"},
            "/calibration",
            "no probabilities",
        ),
        (
            MEASURED,
            {"validation": {"fraction": 0.2, "stratify": True}},
            "/validation/stratify",
            "no classes to stratify by",
        ),
        ("a,y\n1,0.5\n2,-3\n", {"target_scale": "logarithmic"}, "/target_scale", "label is -3"),
        ("a,y\n1,0.5\n2,1e200\n", {}, "/dataset_id", "at most 1e+100"),
        (csv_of(), {"target_scale": "logarithmic"}, "/target_scale", "classes have no scale"),
        (csv_of(), {"solver": {"name": "newton", "epsilon": 0.1}}, "/solver/epsilon", "classes"),
    ],
)
def test_what_classes_or_numbers_do_not_have_is_refused(
    client: TestClient, text: str, fields: dict[str, Any], pointer: str, said: str
) -> None:
    """Each in one sentence that says which of both the labels are."""
    upload(client, text)
    reply = client.post("/v1/jobs", json=job_body(**fields))
    assert (reply.status_code, reply.json()["code"]) == (422, "invalid-field"), reply.text
    (error,) = reply.json()["errors"]
    assert error["pointer"] == pointer
    assert said in error["message"]


@pytest.mark.parametrize(
    ("text", "solver", "loss"),
    [
        (csv_of(), {"name": "newton"}, None),
        (MEASURED, {"name": "newton"}, "epsilon-insensitive"),
        (MEASURED, {"name": "auto"}, "epsilon-insensitive"),
        (MEASURED, {"name": "smo", "loss": "squared-epsilon-insensitive"}, None),
        ("a,y\n" + "".join(f"{k},{k % 30}\n" for k in range(90)), HINGE, None),
        ("a,y\n" + "".join(f"{k},{k % 3}\n" for k in range(90)), NUMERIC, None),
    ],
)
def test_loss_follows_the_labels_unless_it_is_given(
    client: TestClient, text: str, solver: dict[str, Any], loss: str | None
) -> None:
    """The `spec` shows it, and whether the validation set has the same share of each class; the
    same request again is what `spec` says."""
    upload(client, text)
    body = job_body(solver=solver, validation={"fraction": 0.2})
    spec = client.post("/v1/jobs", json=body).json()["spec"]
    assert spec["solver"]["loss"] == solver.get("loss", loss)
    numbers = "epsilon" in (spec["solver"]["loss"] or "")
    assert spec["validation"]["stratify"] is not numbers
    plan = client.post("/v1/jobs", params={"validate_only": True}, json=spec)
    assert plan.status_code == 200, plan.text
    n_classes = 30 if solver is HINGE else 2
    assert plan.json()["binary_problems"] == n_classes * (n_classes - 1) // 2
    assert (plan.json()["spread"] is None) or not numbers
    assert plan.json()["memory_bytes"] > 0


UNEVEN = "a,b,y\n" + "".join(f"{i % 7},{i % 3 * 1000},{i % 2}\n" for i in range(60))


@pytest.mark.parametrize(
    ("media_type", "text", "scaling"),
    [
        ("text/csv", csv_of(), "standardize"),
        ("text/csv", UNEVEN, "standardize"),
        ("text/x-libsvm", "1 1:1 2:-100\n-1 1:0.5 9:3\n" * 5, "none"),
        ("text/x-libsvm", "1 1:1 2:-101\n-1 1:0.5 9:3\n" * 5, "max-abs"),
        ("text/x-libsvm", "1 1:1 2:-100\n-1 1:0.5 30000:3\n" * 5, "none"),
        ("text/x-libsvm", "1 1:1 2:-101\n-1 1:0.5 30000:3\n" * 5, "max-abs"),
    ],
)
def test_scaling_follows_from_the_data(
    client: TestClient, media_type: str, text: str, scaling: str
) -> None:
    """It is the same for trainings and comparisons, and the spec shows it."""
    reply = client.post("/v1/datasets", content=text, headers={"Content-Type": media_type})
    assert reply.status_code == 201, reply.text
    assert read(client, create(client))["spec"]["scaling"] == scaling
    body = {"dataset_id": "latest", "specs": [{"solver": {"name": "newton"}}]}
    reply = client.post("/v1/comparisons", json=body | {"validation": {"fraction": 0.2}})
    assert reply.json()["spec"]["scaling"] == scaling


@pytest.mark.parametrize("scaling", ["standardize", "min-max"])
def test_scaling_that_would_make_sparse_data_dense_is_refused(
    client: TestClient, scaling: str
) -> None:
    """The hint names the scaling that does not."""
    text = "".join(f"{sign} 1:{k} 9:0.5\n" for k in range(1, 9) for sign in (1, -1))
    reply = client.post(
        "/v1/datasets", content=text.encode(), headers={"Content-Type": "text/x-libsvm"}
    )
    assert reply.status_code == 201, reply.text
    reply = client.post("/v1/jobs", json=job_body(scaling=scaling))
    assert (reply.status_code, reply.json()["code"]) == (422, "scaling-unsupported")
    assert "max-abs" in reply.json()["errors"][0]["hint"]
    create(client, scaling="max-abs")


def test_dataset_of_a_waiting_job_cannot_be_deleted(client: TestClient, dataset_id: str) -> None:
    """Until the job has ended."""
    job_id = create(client)
    reply = client.delete(f"/v1/datasets/{dataset_id}")
    assert (reply.status_code, reply.json()["code"]) == (409, "resource-in-use")
    client.post(f"/v1/jobs/{job_id}/cancel")
    assert client.delete(f"/v1/datasets/{dataset_id}").status_code == 204
    assert read(client, job_id)["state"] == "canceled"


def test_list_filters_and_pages(client: TestClient, dataset_id: str) -> None:
    """Newest first, in pages that hold every job once."""
    ids = [create(client, tags={"n": str(k % 2)}) for k in range(5)]
    client.post(f"/v1/jobs/{ids[0]}/cancel")
    found, query = [], {"page_size": "2"}
    while True:
        page = client.get("/v1/jobs", params=query).json()
        found += [job["id"] for job in page["jobs"]]
        if page["next_page_token"] is None:
            break
        query["page_token"] = page["next_page_token"]
    assert found == ids[::-1]

    def ids_where(**query: str) -> list[str]:
        return [job["id"] for job in client.get("/v1/jobs", params=query).json()["jobs"]]

    assert ids_where(state="canceled") == [ids[0]]
    assert ids_where(tag="n=1") == [ids[3], ids[1]]
    assert ids_where(model_name="other") == []
    assert len(ids_where(dataset_id=dataset_id)) == 5


@pytest.mark.parametrize(
    "query", ["state=done", "tag=team", "wait_s=1", "page_size=0", "dataset_id=7", "color=red"]
)
def test_wrong_filter_is_refused(client: TestClient, query: str) -> None:
    """400, whatever is wrong with it."""
    reply = client.get(f"/v1/jobs?{query}")
    assert (reply.status_code, reply.json()["code"]) == (400, "invalid-parameter")


def test_labels_are_called_tags(client: TestClient, dataset_id: str) -> None:
    """The hint names `tags`, in bodies and in filters; labels are class labels."""
    reply = client.post("/v1/jobs", json=job_body(labels={"team": "x"}))
    assert (reply.status_code, reply.json()["errors"][0]["pointer"]) == (422, "/labels")
    assert reply.json()["errors"][0]["hint"].startswith("did you mean `tags`? known fields are ")
    reply = client.post("/v1/jobs", json=job_body(solver={"name": "newton", "labels": {}}))
    assert reply.json()["errors"][0]["hint"].startswith("known fields are "), "a solver has no tags"
    reply = client.get("/v1/jobs?label=team=x")
    assert (reply.status_code, reply.json()["code"]) == (400, "invalid-parameter")
    assert reply.json()["errors"][0]["hint"].startswith("did you mean `tag`? known parameters: ")


def test_unknown_and_malformed_ids(client: TestClient) -> None:
    """404 for an unknown id, 400 for text that is not an id."""
    assert client.get(f"/v1/jobs/{UNKNOWN}").status_code == 404
    assert client.post(f"/v1/jobs/{UNKNOWN}/cancel").status_code == 404
    assert client.get("/v1/jobs/7").json()["code"] == "invalid-parameter"


def test_trace_offers_json_and_csv_only(client: TestClient, dataset_id: str) -> None:
    """An empty table before the training; 406 for other formats."""
    job_id = create(client)
    assert client.get(f"/v1/jobs/{job_id}/trace").json()["rows"] == []
    reply = client.get(f"/v1/jobs/{job_id}/trace", headers={"Accept": "image/png"})
    assert (reply.status_code, reply.json()["code"]) == (406, "not-acceptable")


def test_jobs_are_counted_by_state(client: TestClient, dataset_id: str) -> None:
    """Operators see the queue in the metrics."""
    create(client)
    client.post(f"/v1/jobs/{create(client)}/cancel")
    lines = client.get("/metrics").text.splitlines()
    for state in State:
        expected = 1.0 if state in (State.QUEUED, State.CANCELED) else 0.0
        assert f'svm_jobs{{state="{state}"}} {expected}' in lines


def test_full_queue_says_when_to_come_again(settings: Settings) -> None:
    """503 with Retry-After."""
    limits = settings.limits.model_copy(update={"queued_jobs": 1})
    with TestClient(create_app(settings.model_copy(update={"limits": limits}))) as client:
        add_row(settings)
        create(client)
        reply = client.post("/v1/jobs", json=job_body())
        assert (reply.status_code, reply.json()["code"]) == (503, "queue-full")
        assert int(reply.headers["Retry-After"]) > 0


def test_plan_tells_the_cost_and_queues_nothing(client: TestClient) -> None:
    """`validate_only`: the same refusals as for a job, else what a worker needs."""
    dataset_id = upload(client, csv_of(n_classes=3))
    body = job_body(dataset_id, validation={"folds": 4})
    plan = client.post("/v1/jobs", json=body, params={"validate_only": True})
    assert plan.status_code == 200, plan.text
    assert plan.json()["trainings"] == 5
    assert plan.json()["binary_problems"] == 3
    assert 2**26 < plan.json()["memory_bytes"] < 2**31
    assert client.get("/v1/jobs").json()["jobs"] == []
    body["validation"] = {"folds": 61}
    refused = client.post("/v1/jobs", json=body, params={"validate_only": True})
    assert (refused.status_code, refused.json()["code"]) == (422, "class-too-small")
