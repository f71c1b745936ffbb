"""What changed between two models, and comparisons of which one can act on the entries."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from service.common.figures import at_most
from service.jobs.engine.worker_process import Worker
from tests.service.dashboard.browser import Browser
from tests.service.models.registered_models import RegisteredModels, registered
from tests.service.predictions.test_numbers import model_of_numbers

__all__ = ["registered"]

pytestmark = pytest.mark.one_application

Train = Callable[..., dict[str, Any]]


def table(n: int = 120, columns: str = "age,port", seed: int = 0) -> str:
    """Two classes of which the second column says much."""
    random = np.random.default_rng(seed)
    lines = [f"{columns},label"]
    for i in range(n):
        port = ("Q" if i % 3 else "C") if random.random() < 0.9 else "S"
        lines.append(f"{random.integers(1, 90)},{port},{'no' if i % 3 else 'yes'}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def train(client: TestClient, worker: Worker) -> Train:
    def train(
        content: str, name: str = "people.csv", read_as: Mapping[str, str] = {}, **body: Any
    ) -> dict[str, Any]:
        files = {"file": (name, content)}
        dataset = client.post("/v1/datasets", files=files, data={"name": name, **read_as}).json()
        request = {
            "dataset_id": dataset["id"],
            "model_name": "people",
            "solver": {"name": "newton"},
            "validation": {"fraction": 0.25},
            "seed": 1,
        }
        reply = client.post("/v1/jobs", json=request | body)
        assert reply.status_code == 202, reply.text
        assert worker.take_next_job()
        job: dict[str, Any] = client.get(f"/v1/jobs/{reply.json()['id']}").json()
        assert job["state"] == "succeeded", job
        return job

    return train


def _lines(browser: Browser) -> dict[str, tuple[str, str]]:
    row = r'<tr><th scope="row">(.*?)</th><td[^>]*>(.*?)</td><td[^>]*>(.*?)</td></tr>'
    plain = re.sub("</?strong>", "", browser.page.html)
    return {name: (one, other) for name, one, other in re.findall(row, plain)}


def test_versions_differ_in_what_was_set(
    browser: Browser, client: TestClient, train: Train
) -> None:
    """Named by its place in words; the same rows decide whether one is better."""
    train(table(400), solver={"name": "newton", "C": 1e-6})
    train(table(400))
    train(table(400), solver={"name": "smo"}, class_weight="balanced", seed=2)
    browser.go("/compare?models=people/2,people/3")
    names = list(_lines(browser))
    of_solver = [name.startswith("Solver") for name in names]
    assert names.index("Class weight") == len(names) - of_solver[::-1].index(True)
    assert names.index("Seed") > names.index("Class weight")
    browser.go("/models/people/versions/2")
    browser.go(browser.page.links["to this one"])
    assert browser.page.path == "/compare"
    lines = _lines(browser)
    assert lines["Solver, C"] == ("1e-06", "1")
    assert "Seed" not in lines
    assert "Rows" not in lines
    for version, bound in enumerate(lines["Cost above the lowest, at most"], 1):
        found = client.get(f"/v1/models/people/versions/{version}").json()["certificate"]
        assert bound == at_most(found["excess"])
    assert lines["Accuracy, validation set"][0] != lines["Accuracy, validation set"][1]
    assert re.search(r"[0-9.]+ % \([0-9.]+ to [0-9.]+ %\)", lines["Accuracy, validation set"][1])
    assert "people.csv, 400 rows" in browser.page.text
    of = "On the same 100 validation rows in [0-9]+ groups of equal rows, people version 2 is right"
    assert re.search(of, browser.page.text), browser.page.text
    assert "this is beyond chance" in browser.page.text
    browser.go("/compare?models=people/2,people/2")
    assert "Both have the same score on the same 100 validation rows" in browser.page.text
    assert "their digests are equal" in browser.page.text


@pytest.mark.parametrize("group", ["group", None], ids=["groups", "equal rows"])
def test_rows_of_groups_are_not_many(browser: Browser, train: Train, group: str | None) -> None:
    """Equal rows, with a random label for each group of them, tell nothing about two models: the
    groups are compared, or the different rows."""
    random = np.random.default_rng(5)
    lines = ["a,b,g,label"]
    for g in range(60):
        a, b, label = *random.normal(size=2).round(3), random.integers(0, 2)
        lines += [f"{a},{b},g{g},{'yes' if label else 'no'}"] * 40
    read_as = {"group": "g"} if group else {"schema": '{"g": {"role": "ignored"}}'}
    for weight in (1.0, 1.6):
        train("\n".join(lines), read_as=read_as, class_weight={"no": 1.0, "yes": weight})
    browser.go("/compare?models=people/1,people/2")
    of = "groups, people" if group else "groups of equal rows"
    assert re.search(rf"On the same [0-9]+ validation rows in [0-9]+ {of}", browser.page.text)
    assert "this can be chance" in browser.page.text


def test_paired_difference_is_that_of_the_confusion_matrices(
    browser: Browser, client: TestClient, train: Train
) -> None:
    """Of the versions, measured by their jobs."""
    for C in (1e-6, 1.0):
        train(table(), solver={"name": "newton", "C": C})
    shares = [
        client.get(f"/v1/models/people/versions/{n}").json()["metrics"]["validation"]["accuracy"]
        for n in (1, 2)
    ]
    browser.go("/compare?models=people/1,people/2")
    shown = re.search(r"is right on ([0-9.]+) % more", browser.page.text)
    assert shown is not None
    assert float(shown[1]) == pytest.approx(100 * abs(shares[1] - shares[0]), abs=0.05)


def test_versions_differ_in_their_data(browser: Browser, client: TestClient, train: Train) -> None:
    """Rows, columns and kinds, also once the data were deleted."""
    first = train(table(), name="first.csv")
    train(table(200, "age,gate", seed=2).replace("yes", "maybe"), name="second.csv")
    browser.go("/compare?models=people/1,people/2")
    lines = _lines(browser)
    assert lines["Data"] == ("first.csv", "second.csv")
    assert lines["Rows"] == ("120", "200")
    assert lines["Only in this one"] == ("port", "gate")
    assert lines["Classes"] == ("no, yes", "maybe, no")
    assert "measured on different rows" in browser.page.text
    assert "Evaluate both" not in browser.page.text  # on data that only one of them takes
    client.delete(f"/v1/jobs/{first['id']}")
    client.delete(f"/v1/datasets/{first['dataset_id']}")
    browser.go("/compare?models=people/1,people/2")
    lines = _lines(browser)
    assert lines["Data"] == ("deleted", "second.csv")
    assert lines["Rows"] == ("–", "200")
    assert lines["Training time"][0] == "–"


def test_two_models_are_evaluated_on_the_same_data(
    browser: Browser, client: TestClient, worker: Worker, train: Train
) -> None:
    """By one click, if they were measured on different rows."""
    for seed in (1, 7942442842624654):
        train(table(), seed=seed)
    page = browser.go("/compare?models=people/1,people/2")
    assert "measured on different rows" in page.text
    assert _lines(browser)["Seed"] == ("1", "7942442842624654")
    browser.send("/models/people/versions/1/evaluate")
    assert browser.page.path == "/compare"
    assert "2 evaluations of them have not ended" in browser.page.text
    assert browser.page.links["the jobs"] == "/jobs?kind=evaluate"
    for _ in range(2):
        assert worker.take_next_job()
    found = client.get("/v1/evaluations").json()["evaluations"]
    assert {one["model"]["version"] for one in found} == {1, 2}
    assert len({one["dataset_id"] for one in found}) == 1
    page = browser.go("/compare?models=people/1,people/2")
    assert "have not ended" not in page.text
    assert "Accuracy on people.csv" in _lines(browser)


def test_evaluations_on_the_same_rows_tell_which_is_better(
    browser: Browser, client: TestClient, worker: Worker, train: Train
) -> None:
    """Beyond chance if the intervals do not overlap on new rows, not on rows that were trained on.
    Data that neither was trained on are offered first, and the latest rows count."""
    content = re.sub("(?m)^([0-9]+),", r"\1.5,", table(200, seed=4))  # no row of the training
    files = {"file": ("new.csv", content)}
    new = client.post("/v1/datasets", files=files, data={"name": "new.csv"}).json()["id"]
    for C in (1e-6, 1.0):
        train(table(400), solver={"name": "newton", "C": C}, validation=None)
    page = browser.go("/compare?models=people/1,people/2")
    assert re.findall(r"<option[^>]*>([^ ]+)", page.html) == ["new.csv", "people.csv"]

    def evaluate(version: int, dataset: str, **options: Any) -> str:
        body = {"model": f"people/{version}", "dataset_id": dataset, **options}
        job: str = client.post("/v1/evaluations", json=body).json()["id"]
        assert worker.take_next_job()
        return job

    alone = evaluate(1, new)
    assert "Accuracy on" not in browser.go("/compare?models=people/1,people/2").text
    evaluate(2, new, leave_out_trained=True)
    assert "Accuracy on" not in browser.go("/compare?models=people/1,people/2").text
    beside = evaluate(2, new, importance=True)
    text = browser.go("/compare?models=people/1,people/2").text
    lines = _lines(browser)
    accuracies = [
        client.get(f"/v1/evaluations/{job}").json()["metrics"]["accuracy"]
        for job in (alone, beside)
    ]
    assert accuracies[1] > accuracies[0]
    for shown, accuracy in zip(lines["Accuracy on new.csv"], accuracies, strict=True):
        assert re.fullmatch(rf"{100 * accuracy:.1f} % \([0-9.]+ to [0-9.]+ %\)", shown)
    assert "Evaluated on the same 200 rows of new.csv, people version 2 has the higher" in text
    assert "do not overlap, so this is beyond chance" in text
    assert "evaluate both" not in text
    own = client.get("/v1/models/people/versions/1").json()["dataset_id"]
    for version in (1, 2):
        evaluate(version, own)
    text = browser.go("/compare?models=people/1,people/2").text
    assert "400 of the rows are equal to training rows of people version 1" in text
    assert "beyond chance" not in text


def test_selected_evaluations_lead_to_their_models(
    browser: Browser, client: TestClient, worker: Worker, train: Train
) -> None:
    dataset = [train(table())["dataset_id"], train(table(), seed=2)["dataset_id"]][0]
    jobs = []
    for version in (1, 2, 2):
        body = {"model": f"people/{version}", "dataset_id": dataset}
        jobs.append(client.post("/v1/evaluations", json=body).json()["id"])
    reply = client.post("/compare", data={"id": jobs[:2]})
    assert "What changed: people version 1 and people version 2" in reply.text
    for chosen in (jobs[1:], jobs[:1]):
        reply = client.post("/compare", data={"id": chosen})
        assert reply.status_code == 400
        assert "evaluations of two different versions" in reply.text


def test_folds_leave_it_open_which_is_better(browser: Browser, train: Train) -> None:
    """What single rows were predicted as was not kept."""
    train(table(), solver={"name": "newton", "C": 1e-6}, validation={"folds": 3})
    train(table(), validation={"folds": 3})
    page = browser.go("/compare?models=people/1,people/2")
    assert "measured on the same rows, but what was predicted" in page.text


def test_numbers_are_compared(browser: Browser, worker: Worker, train: Train) -> None:
    """By the absolute errors of single rows, and by evaluations of both."""
    random = np.random.default_rng(3)
    rows = [f"{a:.3f},{3 * a + random.normal():.3f}" for a in random.uniform(0, 9, 160)]
    content = "a,price\n" + "\n".join(rows) + "\n"
    for C in (1e-6, 1.0):
        train(content, model_name="prices", solver={"name": "newton", "C": C})
    page = browser.go("/compare?models=prices/1,prices/2")
    assert "the mean absolute error of prices version 2 is smaller by" in page.text
    assert "this is beyond chance" in page.text
    assert "Root of the mean squared error, validation set" in _lines(browser)
    browser.send("/models/prices/versions/1/evaluate")
    while worker.take_next_job():
        pass
    page = browser.go("/compare?models=prices/1,prices/2")
    shown = _lines(browser)["Mean absolute error on people.csv"]
    assert all(re.fullmatch(r"[0-9.]+ \([0-9.]+ to [0-9.]+\)", one) for one in shown)
    assert "prices version 2 has the smaller mean absolute error" in page.text
    assert "rows are equal to training rows of prices version 1" in page.text
    assert page.text.count("beyond chance") == 1  # only on the rows of the validation set


def test_classes_and_numbers_are_not_compared(
    browser: Browser, registered: RegisteredModels
) -> None:
    registered.add("iris")
    registered.add("prices", model_of_numbers(), columns=["a", "b", "c"])
    page = browser.go("/compare?models=iris,prices/1")
    assert page.status == 200
    assert "One predicts classes and the other numbers" in page.text


def test_imported_and_damaged_models_have_a_difference(
    browser: Browser, client: TestClient, registered: RegisteredModels, train: Train
) -> None:
    """Of what is known."""
    train(table())
    exported = client.get("/v1/models/people/versions/1/export", params={"format": "npz"}).content
    headers = {"Content-Type": "application/x-npz"}
    reply = client.post("/v1/models/people/versions", content=exported, headers=headers)
    assert reply.status_code == 201, reply.text
    page = browser.go("/compare?models=people/1,people/2")
    assert page.status == 200
    assert "people version 2 was not measured" in page.text
    assert "people version 2: imported, with unknown settings" in page.text
    registered.replace_file(registered.registry.get_version("people", 1), None)
    assert browser.go("/compare?models=people/1,people/1").status == 200


@pytest.mark.parametrize(
    ("models", "status"),
    [
        pytest.param("people/1", 400, id="one"),
        pytest.param("a,b,c", 400, id="three"),
        pytest.param("people/1,<b>/2", 400, id="markup"),
        pytest.param("a" * 5000, 400, id="long"),
        pytest.param("none/1,none/2", 404, id="unknown"),
        pytest.param("people/999999999,people/1", 404, id="unknown version"),
    ],
)
def test_nonsense_is_not_compared(client: TestClient, models: str, status: int) -> None:
    reply = client.get("/compare", params={"models": models})
    assert reply.status_code == status
    assert "This did not work" in reply.text


def test_two_models_are_selected_in_a_list(browser: Browser, registered: RegisteredModels) -> None:
    """And one of them becomes the default by one click."""
    registered.add("iris")
    registered.add("iris")
    browser.go("/models/iris")
    page = browser.go("/compare?models=iris/2,iris/1")
    assert "What changed: iris version 2 and iris version 1" in page.text
    browser.send("/models/iris/aliases", version="1")
    assert browser.page.path == "/models/iris/versions/1"
    assert dict(registered.registry.get("iris").aliases) == {"default": 1}
    assert "iris version 1 is the default" in browser.go("/compare?models=iris/2,iris/1").text


def _compared(client: TestClient, worker: Worker, **body: Any) -> str:
    files = {"file": ("people.csv", table())}
    dataset = client.post("/v1/datasets", files=files, data={"name": "people"}).json()
    grid = {"solver": [{"name": "newton"}], "C": [1e-6, 1.0, 2.0]}
    request = {"dataset_id": dataset["id"], "grid": grid, "validation": {"fraction": 0.25}}
    job = client.post("/v1/comparisons", json=request | {"seed": 1} | body).json()
    assert worker.take_next_job()
    return str(job["id"])


def _entry(client: TestClient, job: str, rank: int) -> dict[str, Any]:
    entries = client.get(f"/v1/comparisons/{job}").json()["entries"]
    return next(entry for entry in entries if entry["rank"] == rank)


def test_an_entry_is_trained_by_one_click(
    browser: Browser, client: TestClient, worker: Worker
) -> None:
    """With its settings, rows and seed: the model has the score of the entry. It is not a version
    of the model of the data, whose latest version answers."""
    job = _compared(client, worker)
    entry = _entry(client, job, 3)
    browser.go(f"/jobs/{job}")
    assert '<span class="tag">best</span>' in browser.page.html
    assert re.search("1–[23] tie", browser.page.text), re.findall(
        "data-label=.Rank.*", browser.page.html
    )
    browser.send(f"/comparisons/{job}/train", only=str(entry["number"]))
    trained = browser.page.path.rpartition("/")[2]
    assert worker.take_next_job()
    made = client.get(f"/v1/jobs/{trained}").json()
    assert made["state"] == "succeeded"
    assert made["spec"]["solver"] == entry["spec"]["solver"]
    assert made["metrics"]["validation"]["accuracy"] == entry["score"]
    assert made["model"] == {"name": "people-newton", "version": 1}
    client.post(f"/comparisons/{job}/promote", data={"only": str(entry["number"])})
    assert worker.take_next_job()
    assert client.get("/v1/models/people").json()["aliases"] == {"default": 1}


def test_an_entry_is_promoted(browser: Browser, client: TestClient, worker: Worker) -> None:
    """The kept model at once, another one once it is trained."""
    job = _compared(client, worker, model_name="kept")
    browser.go(f"/jobs/{job}")
    assert browser.page.html.count('href="/models/kept/versions/1"') >= 2  # the row, too
    best, other = (str(_entry(client, job, rank)["number"]) for rank in (1, 2))
    headers = {"Origin": str(client.base_url)}
    address = f"/comparisons/{job}/promote"
    reply = client.post(address, data={"only": best}, headers=headers)
    assert reply.url.path == "/models/kept/versions/1"
    assert client.get("/v1/models/kept").json()["aliases"] == {"default": 1}
    reply = client.post(address, data={"only": other}, headers=headers)
    assert reply.url.path.startswith("/jobs/job_")
    assert worker.take_next_job()
    assert client.get("/v1/models/kept").json()["aliases"] == {"default": 2}
    for number, version in ((best, 1), (other, 2)):  # which exists by now
        reply = client.post(address, data={"only": number}, headers=headers)
        assert reply.url.path == f"/models/kept/versions/{version}"
        assert client.get("/v1/models/kept").json()["aliases"] == {"default": version}


def test_a_kept_model_is_promoted_without_its_data(client: TestClient, worker: Worker) -> None:
    job = _compared(client, worker, model_name="kept")
    dataset_id = client.get(f"/v1/jobs/{job}").json()["dataset_id"]
    assert client.delete(f"/v1/datasets/{dataset_id}").status_code == 204
    best = str(_entry(client, job, 1)["number"])
    reply = client.post(f"/comparisons/{job}/promote", data={"only": best})
    assert reply.url.path == "/models/kept/versions/1"
    assert client.get("/v1/models/kept").json()["aliases"] == {"default": 1}


def test_a_canceled_comparison_is_started_again(browser: Browser, client: TestClient) -> None:
    """By its first button, on the same data."""
    first, _ = (
        client.post("/v1/datasets", files={"file": (name, table(seed=k))}).json()["id"]
        for k, name in enumerate(("first.csv", "second.csv"))
    )
    grid = {"solver": [{"name": "newton"}]}
    body = {"dataset_id": first, "grid": grid, "validation": {"fraction": 0.25}}
    job = client.post("/v1/comparisons", json=body).json()["id"]
    browser.go(f"/jobs/{job}")
    browser.send(f"/jobs/{job}/cancel")
    address = f"/compare?dataset_id={first}#new"
    assert f'<a class="button primary" href="{address}">' in browser.page.html
    assert browser.go(address).form("/comparisons").fields["dataset_id"] == [first]


def test_several_entries_are_trained_and_their_curves_compared(
    client: TestClient, worker: Worker
) -> None:
    job = _compared(client, worker)
    reply = client.post(f"/comparisons/{job}/train", data={"id": ["2", "3"]})
    assert reply.url.path == "/compare"
    assert len(reply.url.params["jobs"].split(",")) == 2
    assert reply.status_code == 200


@pytest.mark.parametrize(
    "form",
    [{}, {"only": "9"}, {"id": ["1", "<b>"]}, {"id": [str(i) for i in range(1, 20)]}],
    ids=["none", "unknown", "nonsense", "many"],
)
@pytest.mark.parametrize("action", ["train", "promote"])
def test_nonsense_is_not_trained(
    client: TestClient, worker: Worker, form: dict[str, Any], action: str
) -> None:
    job = _compared(client, worker)
    assert client.post(f"/comparisons/{job}/{action}", data=form).status_code == 400
    other = client.post(f"/comparisons/job_{0:032x}/{action}", data={"only": "1"})
    assert other.status_code == 404
