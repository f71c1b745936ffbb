"""Pages of tables with categories, dates, booleans and missing cells, without scripts."""

from __future__ import annotations

import json
import re

import pytest
from starlette.testclient import TestClient

from service.jobs.engine.worker_process import Worker
from tests.service.dashboard.browser import Browser, Page
from tests.service.rows.workbooks import workbook

pytestmark = pytest.mark.one_application

PEOPLE = "sex,age,member,born,survived\n" + "".join(
    f"{'male' if i % 3 else 'female'},{'' if i % 7 == 0 else 20 + i % 40},"
    f"{'true' if i % 2 else 'false'},19{50 + i % 40}-0{1 + i % 9}-11,{'no' if i % 3 else 'yes'}\n"
    for i in range(60)
)


def _upload(browser: Browser, text: str) -> None:
    browser.go("/")
    browser.send("/datasets", files={"file": ("people.csv", text, "text/csv")})


def test_row_of_a_table_is_predicted_by_lists_and_dates(browser: Browser, worker: Worker) -> None:
    """Levels and booleans are offered, dates have their input, empty ones are missing."""
    _upload(browser, PEOPLE)
    browser.go("/train")
    browser.send("/train", boundary="solver", solver="newton", model_name="people")
    assert worker.take_next_job()
    browser.go("/models/people")
    form = browser.page.form("/models/people/versions/1/predict")
    assert form.choices["x0"] == {"", "female", "male"}
    assert form.choices["x2"] == {"", "true", "false"}
    assert form.fields["x0"] == ["male"]  # the most frequent
    assert re.fullmatch("19[0-9]{2}-[0-9]{2}-[0-9]{2}", form.fields["x3"][0])
    assert '<input id="x3" name="x3" type="date"' in browser.page.html
    assert re.search("age: [0-9] missing cells? filled with the median", browser.page.text)
    for sex, age, label in (("female", "", "yes"), ("male", "31.5", "no")):
        browser.go("/models/people")
        browser.send("/models/people/versions/1/predict", x0=sex, x1=age, x3="")
        assert f'<p class="label">{label}</p>' in browser.page.html, browser.page.text
        assert ("or missing: age," in browser.page.text) == (age == "")
    browser.send("/models/people/versions/1/predict", x1="old")
    assert browser.page.status == 422
    assert "age" in browser.page.text
    browser.go("/models/people/versions/1/card")
    assert "sex: 2 levels" in browser.page.text


def _look(client: TestClient, text: str | bytes, name: str = "people.csv", **fields: str) -> Page:
    """What a script is shown before anything is kept."""
    reply = client.post(
        "/datasets?look=true",
        files={"file": (name, text)},
        data=fields,
        headers={"HX-Request": "true", "Origin": str(client.base_url)},
    )
    return Page(reply)


def test_columns_are_proposed_before_they_are_kept(client: TestClient) -> None:
    """With kinds, values, missing cells and the label."""
    page = _look(client, PEOPLE)
    assert page.status == 200
    assert client.get("/v1/datasets").json()["datasets"] == []
    rows = re.findall('<tr class="use-(.*?)"><th scope="row">(.*?)</th>', page.html)
    assert rows == [
        ("label", "survived"),
        ("category", "sex"),
        ("number", "age"),
        ("boolean", "member"),
        ("date", "born"),
    ]
    assert "no (40), yes (20)" in page.text
    assert "female, male" in page.text
    assert "20 to 59" in page.text
    assert "1950-01-11 to 1989" in page.text
    assert re.search('data-label="Missing">9<', page.html)
    assert "Read as UTF-8 text, commas between cells, the first line has the names" in page.text
    assert "Keep this table" in page.text


def test_texts_are_proposed_and_shown(client: TestClient, browser: Browser) -> None:
    """With the first ones; a column of names can be made one."""
    rows = [
        f"I would like to know more about order {i},Ford Pinto {i},{'pq'[i % 2]}" for i in range(20)
    ]
    content = "message,car,k\n" + "\n".join(rows) + "\n"
    page = _look(client, content)
    uses = re.findall('<option value="text"( selected)?>', page.html)
    assert uses == ["", " selected", ""]
    assert "“I would like to know more about order 0”" in page.text
    schema = '{"car": {"kind": "text"}}'
    again = _look(client, content, schema=schema)
    assert re.findall('<option value="text"( selected)?>', again.html) == [
        "",
        " selected",
        " selected",
    ]
    dataset = client.post("/v1/datasets", files={"file": ("a.csv", content)}).json()
    browser.go(f"/datasets/{dataset['id']}")
    assert "40 characters at most" in browser.page.text


def test_proposal_names_the_sheet_of_a_workbook(client: TestClient) -> None:
    """Also if the caller named none."""
    book = workbook({"Notes": [["a", "y"], [1, "no"], [2, "yes"]], "Data": [["a"], [1]]})
    text = _look(client, book, "book.xlsx").text
    assert "Read as the sheet “Notes”, the first line has the names." in text


def test_choices_of_columns_change_the_proposal(client: TestClient) -> None:
    """As the form sends them: `schema` and `target`."""
    schema = (
        '{"sex": {"role": "ignored"}, "age": {"kind": "category"}, "member": {"role": "label"}}'
    )
    page = _look(client, PEOPLE, schema=schema)
    found = re.findall('<tr class="use-(.*?)"><th scope="row">(.*?)</th>', page.html)
    assert {name: use for use, name in found} == {
        **{"member": "label", "age": "category", "born": "date"},
        **{"survived": "category", "sex": "ignored"},
    }
    assert "as you decided" in page.text


def test_roles_beside_the_features_are_chosen(client: TestClient, browser: Browser) -> None:
    """On the page of a new dataset; the page of a dataset shows them."""
    text = "".join(f"{i % 7},p{i % 5},2024-01-{1 + i:02},{i % 2}\n" for i in range(20))
    schema = '{"patient": {"role": "group"}, "day": {"role": "time"}}'
    page = _look(client, "n,patient,day,k\n" + text, schema=schema)
    found = re.findall('<tr class="use-(.*?)"><th scope="row">(.*?)</th>', page.html)
    assert found == [("label", "k"), ("group", "patient"), ("time", "day"), ("number", "n")]
    unnamed = _look(client, text, schema='{"1": {"role": "group"}}', header="absent")
    assert '<tr class="use-group"><th scope="row">1</th>' in unnamed.html
    files = {"file": ("a.csv", "n,patient,day,k\n" + text)}
    stored = client.post("/v1/datasets", files=files, data={"schema": schema}).json()
    browser.go(f"/datasets/{stored['id']}")
    assert "patient 5 groups, 4 rows at most" in browser.page.text
    assert "day 2024-01-01 to 2024-01-20" in browser.page.text


def test_columns_without_names_are_called_by_position(client: TestClient) -> None:
    """Those of the file, whichever is the label."""
    text = "".join(f"{i % 2},a{i % 3},{i}.5,w{i % 4}\n" for i in range(20))
    for target, expected in (
        ("", {"0": "number", "1": "category", "2": "number", "3": "label"}),
        ("0", {"0": "label", "1": "category", "2": "number", "3": "category"}),
        ("none", {"0": "number", "1": "category", "2": "number", "3": "category"}),
    ):
        page = _look(client, text, target=target, header="absent")
        found = re.findall('<tr class="use-(.*?)"><th scope="row">(.*?)</th>', page.html)
        assert {name: use for use, name in found} == expected


def test_problems_are_shown_by_column_with_ways_out(client: TestClient) -> None:
    """How many cells, which texts, and a button for each decision."""
    rows = [
        f"{'n.v.' if i % 30 == 7 else i},{'<oops>' if i % 40 == 3 else i},x{i % 2}"
        for i in range(90)
    ]
    page = _look(client, "size,price,label\n" + "\n".join(rows) + "\n")
    assert page.status == 422
    problems = page.html.partition("Problems by column")[2].partition("</table>")[0]
    assert re.findall('<th scope="row">(.*?)</th>', problems) == ["price", "size"]
    assert re.findall('data-label="Cells">(.*?)<', problems) == ["3", "3"]
    assert '<code class="bad">&lt;oops&gt;</code>' in problems
    assert '<button type="button" data-set="missing" value="n.v.">' in problems
    assert '<button type="button" data-set="use" data-column="size" value="category">' in problems
    schema, missing = '{"price": {"kind": "category"}}', "n.v."
    text = "size,price,label\n" + "\n".join(rows) + "\n"
    assert _look(client, text, schema=schema, missing=missing).status == 200


def test_refused_label_leaves_the_choice_of_another(client: TestClient) -> None:
    """The columns are shown, and none is chosen."""
    text = PEOPLE.replace("male,21,", "male,,", 1) + "male,30,true,1960-01-01,\n"
    page = _look(client, text, missing_labels="refuse")
    assert page.status == 422
    assert "The label is missing" in page.text
    assert 'data-set="missing_labels" value="drop"' in page.html
    assert "Which column do you want to predict?" in page.text
    assert "Not kept" not in page.text
    assert 'role="alert"' not in page.html
    assert '<option value="" selected>choose a column</option>' in page.html
    assert "<option>sex</option>" in page.html
    assert "Keep this table" not in page.text
    assert _look(client, text, target="sex").status == 200


def test_many_classes_say_how_many_problems_they_are(client: TestClient) -> None:
    """A label that was chosen by its name is reported, with the way to the last column."""
    rows = "".join(f"c{i % 300},{i},{'pq'[i % 2]}\n" for i in range(900))
    page = _look(client, "class,size,color\n" + rows)
    assert "300 classes: one-vs-rest trains 300 instead of 44,850 problems" in page.text
    assert "'class' is taken as the label because of its name" in page.text
    numbers = "".join(f"{i * 1.37:.2f},{i % 7}\n" for i in range(90))
    assert "regression, a number is predicted" in _look(client, "y,size\n" + numbers).text


def test_page_of_a_table_shows_kinds_and_what_is_ignored(browser: Browser) -> None:
    """Kinds, levels, missing cells, ignored columns and how the text was read."""
    header, *lines = PEOPLE.splitlines()
    lines = [f"passenger number {i},{line}" for i, line in enumerate(lines)]
    _upload(browser, "\n".join([f"name,{header}", *lines]) + "\n")
    assert browser.page.path.startswith("/datasets/ds_")
    text = browser.page.text
    for expected in ("category", "boolean", "female, male", "1950-01-11 to 1989", "Read as UTF-8"):
        assert expected in text
    assert re.search("Ignored columns name an identifier or free text", text)
    html = browser.page.html
    assert html.count('class="histogram"') == 4
    assert re.search('aria-label="sex: female, male">', html)
    assert re.search('aria-label="age: [^"]*, [0-9.]+ % missing">', html)
    counts = re.findall("<title>(female|male): ([0-9]+)</title>", html)
    assert {name for name, _ in counts} == {"female", "male"}


def test_ways_out_are_those_of_the_format(client: TestClient) -> None:
    """JSON has no words for missing cells: its columns can be a category or ignored."""
    rows = [["big" if i in (3, 4) else i] for i in range(60)]  # one would be an odd cell
    data = {"columns": ["size"], "rows": rows, "labels": ["a", "b"] * 30}
    reply = client.post(
        "/datasets?look=true",
        files={"file": ("sizes.json", json.dumps(data), "application/json")},
        headers={"HX-Request": "true", "Origin": str(client.base_url)},
    )
    assert reply.status_code == 422
    assert 'data-column="size" value="ignored"' in reply.text
    assert 'data-set="missing"' not in reply.text


def test_likely_labels_come_first(client: TestClient) -> None:
    """One click chooses one of them: a button in the problem, or the first of the list."""
    text = PEOPLE.replace("male,21,", "male,,", 1) + "male,30,true,1960-01-01,\n"
    page = _look(client, text, missing_labels="refuse")
    assert '<button type="button" data-set="target" value="sex">sex</button>' in page.html
    assert '<optgroup label="Likely"><option>' in page.html
    assert page.html.count("<option>sex</option>") == 1


def test_whole_numbers_are_classes_or_amounts(client: TestClient) -> None:
    """One button takes them for the other; columns that look more like labels have one each."""
    few = "a,grade\n" + "".join(f"{i * 0.5},{i % 5}\n" for i in range(60))
    button = '<button type="button" data-set="label" data-column="grade" value="{}">'
    assert button.format("number") in _look(client, few).html
    chosen = {"schema": '{"grade": {"role": "label", "kind": "number"}}'}
    assert "regression, a number is predicted" in _look(client, few, **chosen).text
    many = "a,grade\n" + "".join(f"{i * 0.5},{i % 40}\n" for i in range(160))
    assert button.format("category") in _look(client, many).html
    chosen = {"schema": '{"grade": {"role": "label", "kind": "category"}}'}
    assert "40 classes: one-vs-rest" in _look(client, many, **chosen).text
    text = "color,size\n" + "".join(f"{'rg'[i % 2]},{i * 1.5}\n" for i in range(90))
    page = _look(client, text)
    assert (
        '<button type="button" data-set="target" value="color">Predict color</button>' in page.html
    )
