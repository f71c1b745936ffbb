"""The page of a version predicts rows and files, without scripts."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import numpy as np
import pytest
from httpx2 import Response
from starlette.testclient import TestClient

from service.dashboard.row_inputs import Input
from service.dashboard.snippets import snippets
from service.dashboard.why import bars_of
from service.jobs.engine.worker_process import Worker
from tests.service.dashboard.browser import Browser, Page
from tests.service.rows.workbooks import workbook

pytestmark = pytest.mark.one_application

HEADER = ["id", "sex", "age", "born", "survived"]
ROWS = [
    [
        f"{'female' if i % 2 else 'male'}".join(["P", f"-{i}"]),
        "female" if i % 2 else "male",
        "" if i % 9 == 4 else str(20 + i % 40),
        f"19{50 + i % 40}-0{1 + i % 9}-11",
        "yes" if i % 2 else "no",
    ]
    for i in range(60)
]


def text_of(header: list[str], rows: list[list[str]], delimiter: str = ",") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows([header, *rows])
    return text.getvalue()


@pytest.fixture
def people(browser: Browser, worker: Worker) -> str:
    """The page of a model whose label follows `sex`."""
    browser.send("/datasets", files={"file": ("people.csv", text_of(HEADER, ROWS))})
    browser.go("/train")
    browser.send("/train", boundary="solver", solver="newton", model_name="people")
    assert worker.take_next_job()
    return "/models/people/versions/1"


def send(client: TestClient, page: str, content: Any, name: str, download: bool) -> Response:
    return client.post(
        f"{page}/predict-file" + ("?download=true" if download else ""),
        files={"file": (name, content)},
        headers={"Origin": str(client.base_url)},
    )


def test_page_has_three_parts(browser: Browser, people: str) -> None:
    """One number of quality; what the version is, is folded."""
    page = browser.go(people)
    titles = re.findall(r"<h2[^>]*>([^<]*)</h2>", page.html.partition('id="details"')[0])
    assert titles == ["Use", "Quality"]
    assert page.html.count('class="headline"') == 1
    folded = page.html.split('<details class="fine" id="details">')[1]
    for part in ("Versions and aliases", "Digest of the model", "Delete this version", "Weights"):
        assert part in folded


def test_row_is_explained_with_its_own_values(browser: Browser, people: str) -> None:
    """Bars, largest first; and the change of one column that changes the label."""
    browser.go(people)
    page = browser.send(f"{people}/predict", x0="male", x1="30", x2="")
    assert '<p class="label">no</p>' in page.html
    (table,) = page.html.split('<table class="why">')[1:]
    names = re.findall('<th scope="row">(.*?)</th>', table.partition("</table>")[0])
    assert names[0] == "sex = male"
    assert {"age = 30", "born is missing", "intercept"} < set(names)
    assert names[-1] == "Sum"
    assert "To the right: for no. To the left: for yes." in page.text
    assert "sex = female (now male) → yes" in page.text


def test_value_far_outside_is_told(browser: Browser, people: str) -> None:
    """In words, with the range of the training rows; a value that is near is not."""
    browser.go(people)
    page = browser.send(f"{people}/predict", x0="male", x1="4000", x2="1954-05-11")
    assert "age = 4000 is far outside of the training rows (20 to 59)." in page.text
    assert "born = " not in page.html.partition("</section>")[0].partition("Why")[0]
    browser.go(people)
    page = browser.send(f"{people}/predict", x0="male", x1="70", x2="")
    assert "far outside" not in page.text


def test_row_of_the_data_is_filled_in_and_explained(browser: Browser, people: str) -> None:
    """By a link beside the row; a missing cell stays one."""
    data = browser.go(people).links["people.csv"]
    shown = browser.go(f"{data}?row=5")
    page = browser.go(shown.links["people, version 1"])
    assert (page.status, page.path) == (200, f"{people}/predict")
    assert "Row 5 of people.csv , labeled no ; predicted: no" in page.text
    assert page.links["Row 5 of people.csv"].endswith("?row=5#row")
    fields = page.form(f"{people}/predict").fields
    assert fields == {"x0": ["male"], "x1": [""], "x2": ["1954-05-11"]}
    assert "sex = male" in page.text
    assert "people, version 1" not in browser.go(data).links
    for query in (f"dataset_id={data[10:]}&row=61", f"dataset_id=ds_{32 * '0'}&row=1", "row=1"):
        assert 400 <= browser.go(f"{people}/predict?{query}").status < 500


def test_row_of_other_data_is_filled_in_by_name(browser: Browser, people: str) -> None:
    """With levels that the model does not know; data without its columns are refused."""
    header = ["age", "note", "sex", "born", "survived"]
    rows = [
        [str(i), f"n{i % 3}", ["male", "neither"][i % 2], f"1990-01-{i + 10}", "no"]
        for i in range(9)
    ]
    browser.go("/")
    browser.send("/datasets", files={"file": ("other.csv", text_of(header, rows))})
    other = browser.page.path.rpartition("/")[2]
    page = browser.go(f"{people}/predict?dataset_id={other}&row=4")
    assert "Unknown to the model, or missing: sex neither" in page.text
    assert page.form(f"{people}/predict").fields["x0"] == ["neither"]
    text = text_of(["age", "survived"], [["3", "no"], ["4", "yes"]])
    browser.go("/")
    browser.send("/datasets", files={"file": ("less.csv", text)})
    less = browser.page.path.rpartition("/")[2]
    page = browser.go(f"{people}/predict?dataset_id={less}&row=1")
    assert page.status == 422
    assert "sex" in page.text


def test_wide_and_sparse_rows_are_filled_in_as_a_line(client: TestClient, worker: Worker) -> None:
    """With all of their zeros."""
    lines = [f"{i % 2} {i % 2 + 1}:{i + 1} 230:0.5" for i in range(40)]
    headers = {"Content-Type": "text/x-libsvm"}
    sent = client.post(
        "/v1/datasets", params={"dense": "never"}, headers=headers, content="\n".join(lines)
    )
    body = {"dataset_id": sent.json()["id"], "model_name": "wide", "solver": {"name": "newton"}}
    assert client.post("/v1/jobs", json=body).status_code == 202
    assert worker.take_next_job()
    page = Page(
        client.get(f"/models/wide/versions/1/predict?dataset_id={body['dataset_id']}&row=4")
    )
    (line,) = page.form("/models/wide/versions/1/predict").fields["rows"]
    assert line.strip() == ",".join(["0", "4", *["0"] * 227, "0.5"])
    assert "predicted: 1" in page.text
    for one in ("What would change the answer", "of the 24 that contribute most", "220 other col"):
        assert one in page.text
    sent = client.post(
        "/models/wide/versions/1/predict",
        data={"rows": line + line},
        headers={"Origin": str(client.base_url)},
    )
    assert sent.text.count("Only a single row is explained.") == 1


def test_row_of_many_columns_has_named_inputs_and_an_explanation(
    browser: Browser, worker: Worker
) -> None:
    """Folded after the first ones; the fold is open if a value in it is refused."""
    names = [f"measure {j}" for j in range(150)]
    rows = [[str((7 * i + j * i) % 11) for j in range(150)] + ["ab"[i % 2]] for i in range(60)]
    browser.go("/")
    browser.send("/datasets", files={"file": ("many.csv", text_of([*names, "class"], rows))})
    data = browser.page.path
    browser.go("/train")
    browser.send("/train", boundary="solver", solver="newton", model_name="many")
    assert worker.take_next_job()
    page = browser.go(browser.go(f"{data}?row=5").links["many, version 1"])
    fields = page.form("/models/many/versions/1/predict").fields
    assert fields == {f"x{j}": [cell] for j, cell in enumerate(rows[4][:-1])}
    for one in ("138 other columns", "To the right: for", "of the 24 that contribute most"):
        assert one in page.text
    assert len(page.html.encode()) < 80_000
    assert "<details open><summary>138" not in page.html
    page = browser.send("/models/many/versions/1/predict", x140="much")
    assert "<details open><summary>138" in page.html


def test_bars_sum_to_the_score(browser: Browser, people: str, client: TestClient) -> None:
    """Also those that are summed as other columns."""
    row = {"sex": "male", "age": 30, "born": None}
    body = {"instances": [row], "outputs": ["label", "decision", "explanation"]}
    answer = client.post("/v1/models/people/predict", json=body).json()
    (problem,) = answer["explanation"][0]
    problem["terms"] |= {f"more {i}": 0.001 * i for i in range(15)}
    problem["score"] += sum(0.001 * i for i in range(15))
    (why,) = bars_of(answer, [], {})
    assert sum(bar.term for bar in why.bars) == pytest.approx(why.score)
    assert why.score == pytest.approx(-problem["score"])  # for `no`, the first class
    assert [bar.label for bar in why.bars][-2:] == ["8 other columns", "intercept"]
    sizes = [abs(bar.term) for bar in why.bars[:-2]]
    assert sizes == sorted(sizes, reverse=True)
    for bar in why.bars:
        end = bar.x + (bar.width if bar.term > 0 else 0)
        start = why.zero if bar.term > 0 else why.zero - bar.width
        assert bar.x == pytest.approx(start)
        assert 0 <= end <= 200.001


def test_numbers_that_are_not_centered_are_compared_with_their_means(
    client: TestClient, worker: Worker
) -> None:
    """Not with 0; the sums stay. Whole numbers change to whole ones."""
    lines = [f"{2000 + i % 40},{i % 7},{'ab'[i % 2]},{i % 40 > 20}" for i in range(120)]
    text = "\n".join(["year,count,letter,late", *lines])
    page = train(client, worker, text, "m", scaling="none")
    data = {"x0": "2021", "x1": "3", "x2": "a"}
    reply = client.post(f"{page}/predict", data=data, headers={"Origin": str(client.base_url)})
    (table,) = reply.text.split('<table class="why">')[1:]
    found = re.findall(
        '<th scope="row">(.*?)</th>.*?<td class="num">(.*?)</td>', table.partition("</table>")[0]
    )
    terms = {name: float(term.replace("−", "-").replace(",", "")) for name, term in found}
    total = terms.pop("Sum")
    assert sum(terms.values()) == pytest.approx(total, abs=0.02)
    assert abs(terms["year = 2021"]) < 5  # 2019.5 is the mean
    assert "mean of each number and date, and intercept" in terms
    changes = re.findall("<strong>year</strong> (?:at most|at least) (.*?) <", reply.text)
    assert changes
    assert all(one.isdecimal() for one in changes)


FILES: dict[str, Any] = {
    "people.csv": text_of(HEADER, ROWS),
    "german.csv": text_of(HEADER, ROWS, ";").encode("utf-16"),
    "people.tsv": text_of(HEADER, ROWS, "\t"),
    "people.json": json.dumps([dict(zip(HEADER, row, strict=True)) for row in ROWS]),
    "people.ndjson": "\n".join(json.dumps(dict(zip(HEADER, row, strict=True))) for row in ROWS),
    "people.xlsx": workbook({"Data": [HEADER, *ROWS]}),
}


@pytest.mark.parametrize("name", FILES)
def test_file_is_predicted_with_its_own_columns(client: TestClient, people: str, name: str) -> None:
    """Columns that the model does not know stay; its label is compared; nothing is kept."""
    before = client.get("/v1/datasets").json()
    reply = send(client, people, FILES[name], name, download=True)
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-disposition"].endswith('"people-1-predictions.csv"')
    header, *rows = csv.reader(io.StringIO(reply.text))
    assert header == [*HEADER, "predicted_survived"]
    assert [row[0] for row in rows] == [row[0] for row in ROWS]
    assert [row[-1] for row in rows] == [row[4] for row in ROWS]
    shown = Page(send(client, people, FILES[name], name, download=False))
    assert "60 rows predicted. 60 of 60 rows with a known class (100 %) right" in shown.text
    assert shown.html.count('<td class="predicted">') == 10
    assert client.get("/v1/datasets").json() == before


BAD = {
    "missing column": (text_of(["id", "sex", "born"], [["1", "male", "1990-01-01"]]), "age"),
    "bad cell": (text_of(HEADER[:4], [["1", "male", "old", "1990-01-01"]]), "old"),
    "no rows": (text_of(HEADER, []), "row"),
    "empty": ("", "empty"),
    "another program": ("%PDF-1.7 ...", "PDF"),
    "broken archive": (b"PK\x03\x04 nothing", "archive"),
    "ragged": ("id,sex,age,born\n1,male,3,1990-01-01\n1,2\n", "2"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("download", [False, True], ids=["shown", "downloaded"])
def test_bad_file_is_an_error_on_the_page(
    client: TestClient, people: str, case: str, download: bool
) -> None:
    """In words, with what is wrong; nothing is kept."""
    content, word = BAD[case]
    reply = send(client, people, content, "rows.bin", download)
    assert 400 <= reply.status_code < 500
    page = Page(reply)
    assert "Predict a file" in page.text
    answer = page.html.split('id="file-answer"')[1]
    assert 'role="alert"' in answer
    assert word in answer.split("</section>")[0]
    assert "Traceback" not in page.text


def test_forms_without_a_file_are_refused(client: TestClient, people: str) -> None:
    """By a page."""
    reply = client.post(f"{people}/predict-file", data={"a": "b"})
    assert 400 <= reply.status_code < 500


def test_arrays_are_predicted(browser: Browser, worker: Worker, client: TestClient) -> None:
    """Of a model without names: its features alone, or labels in a place of their own."""
    random = np.random.default_rng(0)
    X = random.normal(size=(40, 3))
    y = (X[:, 0] > 0).astype(float)
    content = io.BytesIO()
    np.save(content, np.column_stack([X, y]))
    browser.send("/datasets", files={"file": ("a.npy", content.getvalue())})
    browser.go("/train")
    browser.send("/train", boundary="solver", solver="newton", model_name="arrays")
    assert worker.take_next_job()
    lines = "".join(
        f"{int(label)} " + " ".join(f"{j + 1}:{x}" for j, x in enumerate(row)) + "\n"
        for row, label in zip(X.tolist(), y.tolist(), strict=True)
    )
    only = io.BytesIO()
    np.save(only, X)
    page = "/models/arrays/versions/1"
    labels = set()
    for name, sent in (("b.npy", only.getvalue()), ("c.svm", lines)):
        reply = send(client, page, sent, name, download=True)
        assert reply.status_code == 200, reply.text
        header, *rows = csv.reader(io.StringIO(reply.text))
        assert header[-1] == "predicted_label"
        assert [float(cell) for cell in rows[5][:3]] == X[5].tolist()
        labels.add(tuple(row[-1] for row in rows))
    assert len(labels) == 1
    reply = send(client, page, content.getvalue(), "a.npy", download=True)  # one of them the label
    assert reply.status_code == 422
    assert "has 4 columns" in Page(reply).text


def train(
    client: TestClient,
    worker: Worker,
    text: str,
    name: str,
    scaling: str = "standardize",
    **params: str,
) -> str:
    """A linear model; the address of its page."""
    headers = {"Content-Type": "text/csv"}
    sent = client.post("/v1/datasets", params=params, headers=headers, content=text)
    solver = {"name": "newton"}
    body = {"dataset_id": sent.json()["id"], "model_name": name, "solver": solver}
    assert client.post("/v1/jobs", json=body | {"scaling": scaling}).status_code == 202
    assert worker.take_next_job()
    return f"/models/{name}/versions/1"


SIGNS = [(i % 7 - 3, i % 5) for i in range(40)]
TRAINED = {
    "without names": ("".join(f"{a},{b},{a > 0}\n" for a, b in SIGNS), {"header": "absent"}),
    "names are numbers": (
        "".join(["1,2,label\n", *(f"{a},{b},{a > 0}\n" for a, b in SIGNS)]),
        {"header": "present"},
    ),
    "label first": (
        "".join(f"{a > 0},{a},{b}\n" for a, b in SIGNS),
        {"header": "absent", "target": "0"},
    ),
    "category": (
        "".join(f"{'big' if a > 0 else 'small'},{b},{a > 0}\n" for a, b in SIGNS),
        {"header": "absent"},
    ),
}
PREDICTED = {
    "header of almost numbers": (
        "without names",
        "2020_01,1_0\n5,1\n-5,1\n5,2\n",
        "True False True",
    ),
    "header of almost no numbers": ("without names", "nan_1,nan\n5,1\n", "True"),
    "header of words": ("without names", "a,b\n5,1\n", "True"),
    "row": ("without names", "5,1\n", "True"),
    "cell that is a name": ("names are numbers", "-3,1\n3,5\n", "False True"),
    "names in another order": ("names are numbers", "2,1\n9,-3\n9,3\n", "False True"),
    "words are levels": ("category", "big,0\nsmall,0\n", "True False"),
    "label somewhere": ("label first", "True,5,-9\n", None),
    "label somewhere, names": ("without names", "a,b,label\n1,2,True\n", None),
    "rows of a table with names": ("names are numbers", "5,-9,True\n", None),
}


@pytest.mark.parametrize("case", PREDICTED)
def test_each_row_of_a_file_is_predicted(client: TestClient, worker: Worker, case: str) -> None:
    """Whether it has names or not; columns are not guessed."""
    model, text, labels = PREDICTED[case]
    training, params = TRAINED[model]
    page = train(client, worker, training, "m", **params)
    reply = send(client, page, text, "rows.csv", download=True)
    if labels is None:
        assert reply.status_code == 422
        assert "3 columns without names that the model knows; the model takes 2" in reply.text
        return
    assert reply.status_code == 200, reply.text
    header, *rows = csv.reader(io.StringIO(reply.text))
    assert [row[-1] for row in rows] == labels.split()
    shown = Page(send(client, page, text, "rows.csv", download=False))
    assert ("names no columns" in shown.text) == (header[0] == "column_1")


def test_truth_is_read_as_labels_are(client: TestClient, worker: Worker) -> None:
    """Missing and infinite labels are left out; commas are what they are in the training file."""
    lines = (f"{i / 4:.2f};{i % 3};{i / 2:.2f}".replace(".", ",") for i in range(40))
    page = train(client, worker, "\n".join(["a;b;y", *lines]), "m", target="y")
    text = "a;b;y;predicted_y\n2,00;1;4,00;1\n1,00;1;nan;1\n1,00;1;inf;1\n1,00;1;1e999;1\n"
    shown = Page(send(client, page, text, "rows.csv", download=False))
    (error,) = re.findall(r"Mean absolute error (\S+) on 1 row,", shown.text)
    assert float(error) < 0.5
    header = send(client, page, text, "rows.csv", download=True).text.partition("\n")[0]
    assert header == "a,b,y,predicted_y,predicted_predicted_y"


def test_unknown_cells_of_a_file_are_told(client: TestClient, people: str) -> None:
    """By column; a column of lists is left out, as in uploads."""
    row = {"sex": "neither", "age": 30, "born": None, "x": [1]}
    shown = Page(send(client, people, json.dumps([row, row]), "rows.json", download=False))
    assert "sex has 2 cells with a level that training did not have" in shown.text
    assert "born has 2 missing cells, and had none in training" in shown.text


@pytest.mark.filterwarnings("ignore:overflow")
def test_large_row_is_predicted_without_explanation(client: TestClient, worker: Worker) -> None:
    """Its terms are too large."""
    text, params = TRAINED["without names"]
    page = train(client, worker, text, "m", **params)
    origin = {"Origin": str(client.base_url)}
    for value, n_tables in (("5", 1), ("1e306", 0)):
        reply = client.post(f"{page}/predict", data={"x0": value, "x1": "1"}, headers=origin)
        assert '<p class="label">True</p>' in reply.text
        assert reply.text.count('<table class="why">') == n_tables


def test_limits_of_files_are_those_of_predictions(client: TestClient, people: str) -> None:
    """Not those of uploads."""
    sent = {"PREDICT_ROWS": "sex,age,born\n" + 100_001 * "a,1,2000-01-01\n"}
    sent["PREDICT_BODY_BYTES"] = "x" * 34_000_000
    for setting, text in sent.items():
        reply = send(client, people, text, "rows.csv", download=False)
        assert reply.status_code == 413
        assert f"SVM_LIMITS__{setting}" in reply.text


def test_promotion_is_one_click(browser: Browser, people: str, worker: Worker) -> None:
    """The effect is stated before."""
    assert "answered by this one, the latest" in browser.go(people).text
    browser.go("/train")
    browser.send("/train", boundary="solver", solver="newton", model_name="people")
    assert worker.take_next_job()
    page = browser.go(people)
    assert "answered by version 2 , the latest" in page.text
    page = browser.send("/models/people/aliases")
    assert page.path == people
    assert "answered by this one, the default" in page.text


def test_snippets_quote_any_name() -> None:
    """For shells, JSON and Python."""
    name = 'it\'s "so" $HOME \\ ü'
    inputs = [
        Input(name, "category", (), True, "o'Brien"),
        Input("n", "number", (), False, 1.5),
        Input("gap", "category", (), True, None),
    ]
    curl, python, triton = snippets("http://localhost:1", "m", 2, inputs, named=True, plain=False)
    assert "o'\"'\"'Brien" in curl.text
    for one in (python, triton):
        compile(one.text, one.id, "exec")
        assert repr(name) in one.text
