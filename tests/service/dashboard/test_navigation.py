"""Navigation through the dashboard without scripts: forms, redirects and pages."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest
from starlette.testclient import TestClient

from service.app import create_app
from service.jobs.engine.worker_process import Worker
from service.settings import Settings
from tests.service.dashboard.browser import Browser
from tests.service.jobs.data import csv_of

pytestmark = pytest.mark.one_application

QUICK: dict[str, Any] = {"solver:auto.effort": "quick", "stopping.max_epochs": "5"}


def _upload(browser: Browser, text: str | bytes, name: str = "clouds.csv", **fields: Any) -> None:
    browser.go("/")
    browser.send("/datasets", files={"file": (name, text, "text/csv")}, **fields)


def _trained(browser: Browser, worker: Worker, **changes: Any) -> str:
    """Train on the last upload; returns the job's id."""
    browser.go("/train")
    browser.send("/train", **changes)
    assert browser.page.status == 200, browser.page.text
    job_id = browser.page.path.rpartition("/")[2]
    assert worker.take_next_job()
    return job_id


def test_upload_train_predict_by_forms(browser: Browser, worker: Worker) -> None:
    """From a file to a prediction, by links and forms."""
    _upload(browser, csv_of(n_samples=80, n_classes=3), name="My Clouds.csv")
    assert re.fullmatch(r"/datasets/ds_[0-9a-f]{32}", browser.page.path)
    assert "80" in browser.page.text
    assert "3 classes" in browser.page.text
    assert "<h1>My Clouds.csv</h1>" in browser.page.html
    browser.follow("Train a model")
    assert browser.page.form("/train").fields["validation"] == [""]
    assert browser.page.form("/train").fields["model_name"] == ["my-clouds"]
    browser.send("/train", model_name="clouds")
    assert re.fullmatch(r"/jobs/job_[0-9a-f]{32}", browser.page.path)
    assert "queued" in browser.page.text
    assert worker.take_next_job()
    browser.go(browser.page.path)
    assert "succeeded" in browser.page.text
    assert "Certified: its cost is at most" in browser.page.text
    browser.follow("See the model")
    assert browser.page.path == "/models/clouds/versions/1"
    browser.send("/models/clouds/versions/1/predict", x0="2", x1="2", x2="2")
    assert browser.page.status == 200
    assert "c2" in browser.page.html.split('id="prediction"')[1].split("</p>")[0]


@pytest.mark.parametrize("name", ["iris", "moons", "circle", "tickets"])
def test_samples_are_loaded_by_one_click(browser: Browser, client: TestClient, name: str) -> None:
    """Each creates a dataset of its name, with histograms, and is a file, too."""
    assert browser.page.path == "/"
    browser.send(f"/samples/{name}")
    assert browser.page.path.startswith("/datasets/ds_")
    assert f"<h1>{name}</h1>" in browser.page.html
    histograms = browser.page.html.count('class="histogram"')
    assert histograms == (4 if name == "iris" else 2)
    file = client.get(f"/samples/{name}.csv")
    assert file.headers["content-type"].startswith("text/csv")
    assert len(file.text.splitlines()) == 1 + client.get("/v1/datasets/latest").json()["n_samples"]
    assert client.get("/samples/none.csv").status_code == 404


def test_labels_can_be_in_a_separate_file(browser: Browser) -> None:
    """With options for LIBSVM, too."""
    files = {"file": ("rows.txt", b"1,2\n3,4\n", "text/plain"), "labels": ("y.txt", b"a\nb\n")}
    browser.go("/")
    browser.send("/datasets", files=files, header="absent")
    assert browser.page.path.startswith("/datasets/ds_"), browser.page.text
    assert "2 classes" in browser.page.text
    rows = {"file": ("few.libsvm", b"1 0:1\n-1 2:1\n"), "labels": ("", b"")}
    browser.go("/")
    browser.send("/datasets", files=rows, n_features="5", index_base="0")
    assert "5 sparse" in browser.page.text


def test_rejected_rows_are_shown_in_a_table(browser: Browser) -> None:
    """With row, column, value and hint; nothing is stored."""
    _upload(browser, "a,b,label\n1,2,x\n3,<b>oops</b>,y\n,5,x\n4,<b>oops</b>,y\n" + "1,2,y\n" * 80)
    assert browser.page.status == 422
    problems = re.findall(r"<td[^>]*>(.*?)</td>", browser.page.html)
    assert problems[1:3] == ["2", '<code class="bad">&lt;b&gt;oops&lt;/b&gt;</code> ']
    cells = re.findall(r"<td[^>]*>(.*?)</td>", browser.page.html.partition("The cells")[2])
    assert cells[:3] == ["2", "b", '<code class="bad">&lt;b&gt;oops&lt;/b&gt;</code>']
    assert cells[5:7] == ["4", "b"]
    browser.go("/datasets")
    assert "There are no datasets yet" in browser.page.text


def test_many_rejected_cells_are_a_file(browser: Browser) -> None:
    """The page shows the first ten; the link has all of them and needs no request."""
    rows = "".join(f"1,{'oops' if i % 40 == 0 else i % 7},{'xy'[i % 2]}\n" for i in range(1200))
    _upload(browser, "a,b,label\n" + rows)
    assert browser.page.status == 422
    assert browser.page.html.partition("The cells")[2].count('<code class="bad">oops</code>') == 10
    assert "These are the first 10 of 30." in browser.page.text
    link = browser.page.links["Download all as CSV"]
    lines = unquote(link.removeprefix("data:text/csv;charset=utf-8,")).splitlines()
    assert lines[0] == "row,column,pointer,value,message,hint"
    assert [line.split(",")[:4] for line in lines[1:3]] == [
        ["1", "b", "", "oops"],
        ["41", "b", "", "oops"],
    ]
    assert len(lines) == 31


def test_refused_training_shows_errors_at_the_fields(browser: Browser) -> None:
    """The entries are kept, and each error is next to its input."""
    browser.send("/samples/moons")
    browser.go("/train")
    changes: dict[str, Any] = {"solver:auto.lambda": "minus one", "model_name": "Bad Name"}
    browser.send("/train", **changes)
    assert browser.page.status == 400
    browser.send("/train", **{**changes, "model_name": "good"})
    assert browser.page.status == 422
    form = browser.page.form("/train")
    assert form.fields["solver:auto.lambda"] == ["minus one"]
    fault = browser.page.html.partition('id="solver:auto.lambda-fault">')[2]
    assert "number" in fault.partition("</p>")[0]
    assert browser.page.headers["hx-retarget"] == "#train"  # scripts show it there


def test_refused_prediction_names_the_column(browser: Browser, worker: Worker) -> None:
    """On the page of the model, as in the API."""
    browser.send("/samples/iris")
    _trained(browser, worker)
    browser.go("/models/iris")
    browser.send("/models/iris/versions/1/predict", x2="wide")
    assert browser.page.status == 422
    assert "petal_length" in browser.page.html.split('id="prediction"')[1]
    assert re.findall(r'<p class="fault" id="(\w+)-fault">', browser.page.html) == ["x2"]
    assert 'aria-describedby="x2-fault"' in browser.page.html
    assert browser.page.html.count("&#39;wide&#39;") == 2  # at the input, and in the summary
    assert browser.page.form("/models/iris/versions/1/predict").fields["x2"] == ["wide"]


def test_linear_model_shows_weights_and_explanations(browser: Browser, worker: Worker) -> None:
    """A weight for each feature, and its contribution to a score."""
    browser.send("/samples/iris")
    _trained(browser, worker, solver="newton")
    browser.go("/models/iris")
    assert "Weights" in browser.page.text
    browser.send("/models/iris/versions/1/predict")
    assert browser.page.html.count('class="why"') == 2  # against each of the other classes
    assert "baseline" not in browser.page.text


def test_kernel_model_shows_what_each_column_adds(browser: Browser, worker: Worker) -> None:
    browser.send("/samples/iris")
    _trained(browser, worker, solver="smo")
    browser.go("/models/iris")
    browser.send("/models/iris/versions/1/predict")
    bars = browser.page.html.split('<table class="why">')[1:]
    assert len(bars) == 2
    for table in bars:
        for name in ("petal_length = 3.76", "intercept", "baseline", "Sum"):
            assert table.count(f'<th scope="row">{name}</th>') == 1
    assert "from the baseline, the mean of the support vectors, to this row" in browser.page.text
    assert "They add up to it, up to less than a millionth." in browser.page.text


def test_card_and_exports_are_linked(browser: Browser, worker: Worker, client: TestClient) -> None:
    """The card has sentences; the exports can be downloaded."""
    browser.send("/samples/iris")
    _trained(browser, worker, solver="newton")
    browser.go("/models/iris")
    assert {"ONNX", "NPZ"} <= browser.page.links.keys()
    assert client.get(browser.page.links["JSON"]).json()["origin"]["name"] == "iris"
    browser.follow("Card")
    assert "A linear classifier for 3 classes" in browser.page.text
    card = client.get("/v1/models/iris/versions/1/card").json()
    assert all(sentence in html.unescape(browser.page.html) for sentence in card["limits"])
    browser.follow("iris, version 1")
    assert browser.page.path == "/models/iris/versions/1"


def test_wide_model_has_one_input(browser: Browser, worker: Worker, client: TestClient) -> None:
    """With many features, rows are entered as lines; each has a prediction."""
    _upload(browser, csv_of(n_features=230))
    _trained(browser, worker, model_name="wide", solver="newton")
    browser.go("/models/wide")
    row = browser.page.form("/models/wide/versions/1/predict").fields["rows"][0].strip()
    assert len(row.split(",")) == 230
    browser.send("/models/wide/versions/1/predict", rows=f"{row}\n{row}\n")
    assert browser.page.html.count('class="answer"') == 2


def test_calibrated_model_shows_probabilities(
    browser: Browser, worker: Worker, client: TestClient
) -> None:
    """They sum to 1; if the label is not the likeliest class, the reason is beside it."""
    _upload(browser, csv_of(n_samples=200))
    _trained(
        browser,
        worker,
        model_name="sure",
        validation="validation-split",
        calibration="sigmoid",
        solver="newton",
    )
    browser.go("/models/sure")
    browser.send("/models/sure/versions/1/predict", x0="9", x1="9", x2="9")
    table = browser.page.html.partition("Probabilities")[2].partition("</table>")[0]
    shares = [float(share) for share in re.findall("([0-9.]+) %", table)]
    assert len(shares) == 2
    assert sum(shares) == pytest.approx(100, abs=0.2)
    reason = "Another class has the largest probability"
    assert reason not in browser.page.html
    rows = [[x, x, x] for x in np.linspace(-1, 2, 500).tolist()]
    asked = {"instances": rows, "outputs": ["probability"]}
    [warning] = client.post("/v1/models/sure/predict", json=asked).json()["warnings"]
    row = rows[warning["rows"][0] - 1]
    entries: dict[str, Any] = {f"x{j}": str(x) for j, x in enumerate(row)}
    browser.send("/models/sure/versions/1/predict", **entries)
    assert reason in browser.page.html


def test_aliases_are_moved_and_removed(
    browser: Browser, worker: Worker, client: TestClient
) -> None:
    """In the same registry as by the API."""
    browser.send("/samples/moons")
    for _ in range(2):
        _trained(browser, worker, **QUICK)
    browser.go("/models/moons/versions/1")
    browser.send("/models/moons/aliases", alias="stable")
    assert client.get("/v1/models/moons/aliases/stable").json()["version"] == 1
    browser.go("/models/moons/versions/2")
    browser.send("/models/moons/aliases", alias="stable")
    assert client.get("/v1/models/moons/aliases/stable").json()["version"] == 2
    browser.send("/models/moons/aliases/stable/remove")
    assert client.get("/v1/models/moons/aliases/stable").status_code == 404
    for wrong in ("latest", "No Name"):
        browser.go("/models/moons/versions/2")
        browser.send("/models/moons/aliases", alias=wrong)
        assert browser.page.status == 400


def test_job_is_paused_resumed_and_canceled(browser: Browser, client: TestClient) -> None:
    """Each button is shown only if it can be used."""
    browser.send("/samples/moons")
    browser.go("/train")
    browser.send("/train")
    path = browser.page.path
    actions = [form.action for form in browser.page.forms]
    assert actions == [f"{path}/pause", f"{path}/cancel"]
    browser.send(f"{path}/pause")
    assert client.get(f"/v1{path}").json()["state"] == "paused"
    browser.send(f"{path}/resume")
    assert client.get(f"/v1{path}").json()["state"] == "queued"
    browser.send(f"{path}/cancel")
    assert "canceled" in browser.page.text
    assert [form.action for form in browser.page.forms] == ["/jobs/delete"]
    browser.send("/jobs/delete")
    assert browser.page.path == "/jobs/delete"
    browser.send("/jobs/delete")
    assert browser.page.path == "/jobs"
    assert browser.go(path).status == 404


def test_training_can_start_from_the_settings_of_another(browser: Browser, worker: Worker) -> None:
    """Of a job or a version: with the seed, too."""
    browser.send("/samples/circle")
    changes: dict[str, Any] = {
        "solver": "pegasos",
        "solver:pegasos.lambda": "0.02",
        "features": "square",
        "seed": "7",
    }
    job_id = _trained(browser, worker, **changes, **QUICK)
    for page in (f"/jobs/{job_id}", "/models/circle"):
        browser.go(page)
        browser.follow("Train with changes")
        fields = browser.page.form("/train").fields
        assert fields["solver"] == ["pegasos"]
        assert fields["solver:pegasos.lambda"] == ["0.02"]
        assert fields["features"] == ["square"]
        assert fields["stopping.max_epochs"] == ["5"]
        assert fields["seed"] == ["7"]


def test_learning_curve_is_drawn_by_the_server(browser: Browser, worker: Worker) -> None:
    """Before the first point, and against what is chosen; its files have the same points."""
    browser.send("/samples/moons")
    browser.go("/train")
    browser.send("/train", **QUICK)
    job = browser.page.path
    assert "no points yet" in browser.page.text
    assert "no points yet" in browser.go(f"{job}/curve").text
    assert worker.take_next_job()
    browser.go(job)
    assert 'data-name="cost"' in browser.page.html
    browser.follow("by epoch")
    assert ">epoch</text>" in browser.page.html
    assert browser.go(f"{job}/curve?against=epoch").status == 200
    points = _points(browser.go(f"{job}/charts/curve.csv?against=epoch").html)
    assert list(points) == ["cost", "bound", "gap"]
    assert points["cost"][-1] >= points["bound"][-1]
    for address in (f"{job}/charts/roc.svg", f"{job}/charts/luck.svg", f"{job}/charts/curve.png"):
        assert browser.go(address).status in (400, 404)
    assert browser.go(f"{job}?against=luck").status == 400


def test_jobs_are_compared_on_one_objective(browser: Browser, worker: Worker) -> None:
    """Costs relative to one bound; the page says if they cannot be compared."""
    browser.send("/samples/moons")
    chosen = [_trained(browser, worker, solver="newton")]
    chosen += [_trained(browser, worker, solver=solver, **QUICK) for solver in ("pegasos", "smo")]
    browser.go("/compare")
    browser.send("/compare", id=chosen[:2])
    assert "do not minimize" not in browser.page.text
    assert '<span class="proven certified">' in browser.page.html
    [address] = re.findall(r'href="(/compare/costs.csv[^"]*)"', browser.page.html)
    points = _points(browser.go(html.unescape(address)).html)
    assert [name.split()[0] for name in points] == ["newton", "pegasos"]
    assert all(excess > 0 for line in points.values() for excess in line)
    assert min(next(iter(points.values()))) < 0.01
    browser.go("/compare")
    browser.send("/compare", id=chosen)
    assert "These jobs differ in kernel" in browser.page.text


def _points(table: str) -> dict[str, list[float]]:
    """The values of each series of a chart."""
    points: dict[str, list[float]] = {}
    for name, _, value in list(csv.reader(io.StringIO(table)))[1:]:
        points.setdefault(name, []).append(float(value))
    return points


def test_only_trainings_are_compared(browser: Browser, worker: Worker) -> None:
    """Other jobs are not listed, and a request for one is refused with the reason."""
    browser.send("/samples/iris")
    trained = _trained(browser, worker, solver="newton")
    browser.go("/models/iris")
    browser.send("/models/iris/versions/1/evaluate")
    other = browser.page.path.rpartition("/")[2]
    browser.go("/compare")
    offered = [form.choices["id"] for form in browser.page.forms if "id" in form.choices]
    assert offered == [{trained}]
    page = browser.go(f"/compare?jobs={trained},{other}")
    assert page.status == 400
    assert "select trainings only" in page.text


def test_copied_calls_run(browser: Browser, worker: Worker, client: TestClient) -> None:
    """The page's command for curl calls this model; the journeys run it, and Python's."""
    browser.send("/samples/iris")
    _trained(browser, worker, **QUICK)
    browser.go("/models/iris")
    shown = browser.page.html.partition('<pre id="curl"')[2].partition("<code>")[2]
    curl = html.unescape(shown.partition("</code>")[0])
    url = re.search(r"curl (\S+)", curl)
    body = re.search(r"-d '(.*)'", curl, re.S)
    assert url is not None
    assert body is not None
    reply = client.post(url[1].removeprefix(str(client.base_url)), json=json.loads(body[1]))
    assert reply.status_code == 200, reply.text
    assert len(reply.json()["label"]) == 1


def test_pages_work_without_data(browser: Browser) -> None:
    """Every page in the navigation says that there are no data yet."""
    for name in ("Data", "Train", "Jobs", "Models", "Compare"):
        browser.go("/")
        browser.follow(name)
        assert browser.page.status == 200
        assert "There are no " in browser.page.text


def test_model_is_evaluated_and_drawn(browser: Browser, worker: Worker, client: TestClient) -> None:
    """On labeled data, by a job whose page shows the metrics; the plots are embedded."""
    browser.send("/samples/iris")
    iris = browser.page.path.rpartition("/")[2]
    _trained(browser, worker, solver="newton", validation="validation-split")
    _upload(browser, csv_of(n_features=4))  # of other classes
    page = browser.go("/models/iris/versions/1")
    evaluate = "/models/iris/versions/1/evaluate"
    at_once, chosen = (form for form in page.forms if form.action == evaluate)
    assert at_once.fields["dataset_id"] == [iris]
    assert chosen.choices["dataset_id"] == {iris}
    client.post("/v1/evaluations", json={"dataset_id": iris, "model": "iris"})
    assert worker.take_next_job()
    browser.go(page.path)
    browser.send(evaluate)
    assert "Evaluation of iris" in browser.page.text
    assert worker.take_next_job()
    browser.go(browser.page.path)
    assert "evaluated on the validation set of iris" in browser.page.text
    assert "accuracy on the validation set" in browser.page.text
    measured = client.get("/v1/models/iris/versions/1").json()["metrics"]["validation"]
    found = client.get(browser.page.path.replace("jobs", "v1/evaluations")).json()["metrics"]
    assert found["confusion_matrix"] == measured["confusion_matrix"]
    evaluation = browser.page.path
    browser.go(page.path)
    browser.follow("See which rows are wrong")
    assert browser.page.path == evaluation
    assert "Area under ROC" in browser.page.text
    assert browser.page.html.count('data-name="setosa') == 2  # ROC, precision and recall
    assert client.get(f"{browser.page.path}/charts/residuals.svg").status_code == 404
    for name in ("roc", "precision-recall", "margins"):
        address = f"{browser.page.path}/charts/{name}"
        assert f'href="{address}.svg"' in browser.page.html
        picture = client.get(f"{address}.svg")
        assert picture.headers["content-type"] == "image/svg+xml"
        assert ElementTree.fromstring(picture.content).get("role") == "img"
        assert "setosa" in client.get(f"{address}.csv").text
    browser.go(page.path)
    browser.follow("See the plots")
    plot = r'<img src="/v1/models/iris/versions/1/plots/[a-z-]+.svg"'
    assert len(re.findall(plot, browser.page.html)) == 5
    assert "Predicted probabilities against observed frequencies: " in browser.page.text


def test_solvers_are_compared_by_one_job(browser: Browser, worker: Worker) -> None:
    """Every solver with every C on the same rows, ranked; with curves for each objective."""
    browser.send("/samples/moons")
    browser.go("/compare")
    browser.send("/comparisons", solver=["newton", "pegasos"], C="0.1, 1", model_name="best")
    assert browser.page.status == 200, browser.page.text
    assert browser.page.html.count("waiting") == 4
    assert worker.take_next_job()
    browser.go(browser.page.path)
    assert browser.page.html.count(">Promote</button>") == 4
    job = browser.page.path
    addresses = re.findall(rf'href="({job}/charts/objective-[0-9]+.csv)"', browser.page.html)
    assert addresses
    for address in addresses:
        assert len(_points(browser.go(address).html)) == 2
    assert browser.go(f"{job}/charts/objective-99.csv").status == 404
    browser.go(job)
    browser.follow("See the model")
    assert browser.page.path == "/models/best/versions/1"
    browser.go("/compare")
    browser.send("/comparisons", solver=["newton"], C="one")
    assert browser.page.status == 422
    browser.go("/compare")
    browser.send("/comparisons", solver=["newton"], C="1", rows="20, 40")
    assert worker.take_next_job()
    browser.go(browser.page.path)
    assert "plots/time-by-rows.svg" in browser.page.html


def test_service_with_keys_asks_browsers_for_one(tmp_path: Path) -> None:
    """Without a key, pages redirect to the login; with one they are shown until the logout."""
    settings = Settings(data_dir=tmp_path / "var", workers=0, auth="on")
    with TestClient(create_app(settings)) as client:
        reply = client.get("/jobs", follow_redirects=False)
        assert (reply.status_code, reply.headers["location"]) == (303, "/login")
        key = (settings.data_dir / "first-key").read_text().strip()
        assert client.post("/login", data={"key": key}).url.path == "/"
        browser = Browser(client)
        browser.send("/samples/moons")
        assert browser.page.status == 200
        browser.send("/logout")
        assert browser.go("/jobs").path == "/login"


def test_cost_is_shown_before_the_start(browser: Browser, client: TestClient) -> None:
    """Memory and number of problems; nothing is queued, and the entries are kept."""
    browser.send("/samples/iris")
    browser.go("/train")
    form = browser.page.form("/train")
    form.action = "/train/check"
    browser.send("/train/check", model_name="costly")
    cost = r"About 1 s, at most [0-9]+ MB 150 rows, 3 binary problems"
    assert re.search(cost, browser.page.text)
    assert browser.page.form("/train").fields["model_name"] == ["costly"]
    assert client.get("/v1/jobs").json()["jobs"] == []
