"""Tables with texts, gaps and dates: uploaded, described, loaded, appended to, split, sent."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from service.datasets.store import DatasetStore
from service.rows.cell_texts.reading import ANY_DELIMITER
from service.settings import Settings
from service.storage.blobs import open_blobs
from service.storage.database import Database
from svm.data.columns import Column
from svm.data.texts import texts_of
from tests.service.datasets.test_routes import made, post, problem

pytestmark = pytest.mark.one_application

PEOPLE = """\
id,sex,age,day,member,fare,class
1,f,22,2024-05-01,true,7.25,yes
2,m,,2024-05-02,false,71,no
3,m,NA,,true,8,yes
4,,4,2023-01-01T12:00,NA,1,yes
"""
GERMAN = """\
Nr;Größe;Preis;Tag;Farbe;Anteil;Klasse
1;1,5;1.234 €;01.05.2024;rot;5%;a
2;2,25;4.450 €;02.05.2024;grün;10%;b
3;3;1.000 €;13.05.2024;rot;20%;a
""".encode("cp1252")


def loaded(settings: Settings, dataset_id: str) -> tuple[Any, Any]:
    """The dataset as a worker loads it, and as it reads it from files."""
    database = Database(settings.database_url)
    store = DatasetStore(database, open_blobs(settings))
    dataset = store.get(dataset_id)
    data, files = store.load(dataset), store.open(dataset)
    read, X = np.asanyarray(files.X.read(np.arange(dataset.n_samples))), np.asanyarray(data.X)
    np.testing.assert_array_equal(read, X)
    everything = range(len(texts_of(X)))
    assert texts_of(read).take(everything) == texts_of(X).take(everything)
    database.close()
    return dataset, data


def test_measurements_are_no_likely_label(client: TestClient) -> None:
    """The reply names the columns that may be meant."""
    rows = [f"{'u' if i % 4 else 'v'},{'pqr'[i % 3]},{i * 1.37:.2f}" for i in range(200)]
    reply = made(post(client, "\n".join(["kind,b,t", *rows])))
    [message] = [w["message"] for w in reply["warnings"] if w["code"] == "likely-targets"]
    assert "'t'" in message
    assert "'kind', 'b'" in message


def test_reply_tells_how_this_file_was_read(client: TestClient) -> None:
    """Also if it gives an existing dataset: its own ignored columns, warnings and reading."""
    rows = [f"{i % 7},{'xy'[i % 2]}" for i in range(30)]
    first = made(post(client, "\n".join(["a,k", *rows])))
    noted = "\n".join(["note,a,k", *(f"remark number {i},{row}" for i, row in enumerate(rows))])
    again = post(client, noted)
    assert (again.status_code, again.json()["id"]) == (200, first["id"])
    assert [one["name"] for one in again.json()["ignored_columns"]] == ["note"]
    assert "ignored-column" in [one["code"] for one in again.json()["warnings"]]
    assert client.get(f"/v1/datasets/{first['id']}").json()["ignored_columns"] == []


def test_equal_tables_in_other_dialects(client: TestClient) -> None:
    """The same data in plain forms are one dataset. In others they are their own: models predict
    rows that are written as the training file."""
    plain = "n,c,day,k\n1.5,a,2024-05-31,x\n2.5,b,2024-06-30,y\n"
    german = plain.replace(",", ";").replace(".", ",")
    american = plain.replace("2024-05-31", "5/31/2024").replace("2024-06-30", "6/30/2024")
    rows = [["a", "x"], ["b", "y"]]
    records = [
        {"n": n, "c": c, "day": day, "k": k}
        for n, day, (c, k) in zip((1.5, 2.5), ("2024-05-31", "2024-06-30"), rows, strict=True)
    ]
    first = made(post(client, plain))
    for body, media_type in (
        (json.dumps(records), "application/json"),
        (plain.replace(",", "\t"), "text/tab-separated-values"),
        (f"# a comment\n{plain}", "text/csv"),
    ):
        again = post(client, body, media_type)
        assert (again.status_code, again.json()["id"]) == (200, first["id"])
    for text in (german, american, plain.replace(",", "|")):
        other = made(post(client, text))
        assert other["matrix_digest"] == first["matrix_digest"]
        assert other["id"] != first["id"]
        assert post(client, text).json()["id"] == other["id"]


def test_same_rows_in_another_file_are_described_as_they_were_sent(client: TestClient) -> None:
    """By the reply and by a validation: the dataset is the existing one, its own words stay."""
    rows = [f"{i / 2}{{}},{'pq'[i % 2]}" for i in range(40)]
    plain = "x,k\n" + "\n".join(row.format("") for row in rows)
    more = "x,note,k\n" + "\n".join(r.format(f",a free text {i}") for i, r in enumerate(rows))
    first = made(post(client, plain))
    again, only = post(client, more), post(client, more, validate_only=True).json()
    reply = again.json()
    assert (again.status_code, reply["id"]) == (200, first["id"])
    assert [one["name"] for one in reply["ignored_columns"]] == ["note"]
    assert [warning["code"] for warning in reply["warnings"]] == ["ignored-column"]
    for name in ("reading", "ignored_columns", "warnings"):
        assert reply[name] == only[name], name
    commented = post(client, f"# a comment\n{plain}").json()
    assert commented["ignored_columns"] == commented["warnings"] == []
    assert client.get(again.headers["Location"]).json() == first


@pytest.mark.parametrize("media_type", ["text/csv", "application/json", "application/x-ndjson"])
def test_likely_labels_are_named(client: TestClient, media_type: str) -> None:
    """If the last column has no label in some row, the error names those that have few values, the
    ones with the fewest first."""
    cells = [(i % 2, f"n{i}", "abc"[i % 3], i * 0.5, "pq"[i % 2]) for i in range(30)]
    names = ["lived", "name", "port", "fare", "deck"]
    rows: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in cells]
    rows[4]["deck"] = None
    body = "\n".join(map(json.dumps, rows))
    if media_type == "application/json":
        body = json.dumps(rows)
    elif media_type == "text/csv":
        lines = [",".join("" if v is None else str(v) for v in row.values()) for row in rows]
        body = "\n".join([",".join(names), *lines])
    strict = {"missing_labels": "refuse"}
    reply = problem(post(client, body, media_type, **strict), 422, "missing-value")
    assert reply["likely_targets"] == ["lived", "port"]
    assert "likely are 'lived', 'port'" in reply["detail"]
    assert reply["columns"][0]["hint"] == reply["errors"][0]["hint"]
    chosen = problem(post(client, body, media_type, target="deck", **strict), 422, "missing-value")
    assert "likely" not in chosen["detail"]
    assert made(post(client, body, media_type, target="lived"))["classes"] == [0, 1]


@pytest.mark.parametrize("name", ["PassengerId", "row", "customer_id"])
@pytest.mark.parametrize("delimiter", [",", ";"])
@pytest.mark.parametrize("kind", ["xy", "01"])
def test_numbers_of_rows_are_ignored(
    client: TestClient, name: str, delimiter: str, kind: str
) -> None:
    """Integers that count, under a name for that, whether or not other columns are numbers."""
    rows = [[f"{i + 7}", kind[i % 2], f"{i % 5 / 2}", "u" if i % 4 else "v"] for i in range(30)]
    table = [[name, "b", "c", "k"], *rows]
    reply = made(post(client, "\n".join(map(delimiter.join, table))))
    assert reply["ignored_columns"] == [{"name": name, "reason": "it numbers the rows"}]
    without = post(client, "\n".join(",".join(row[1:]) for row in table))
    assert reply["matrix_digest"] == without.json()["matrix_digest"]
    schema = json.dumps({name: {"role": "feature"}})
    kept = made(post(client, "\n".join(map(delimiter.join, table)), schema=schema))
    assert [column["name"] for column in kept["columns"]] == [name, "b", "c"]


def test_numbers_of_rows_in_json(client: TestClient) -> None:
    """As in CSV; other numbers under such a name, and counting numbers under another, are kept."""
    rows = [{"id": i, "n": i * i % 7, "step": i, "userid": i // 2, "k": i % 2} for i in range(9)]
    reply = made(client.post("/v1/datasets", json=rows))
    assert [column["name"] for column in reply["columns"]] == ["n", "step", "userid"]
    only = [{"id": i, "k": i % 2} for i in range(9)]
    body = problem(client.post("/v1/datasets", json=only), 422, "empty-data")
    assert "`schema`" in body["detail"]


def test_table_is_described(client: TestClient, settings: Settings) -> None:
    """Kinds, levels, missing cells, what is ignored and how the text was read."""
    reply = made(post(client, PEOPLE))
    kinds = [(c["name"], c["kind"], c["levels"], c["missing"]) for c in reply["columns"]]
    assert kinds == [
        ("sex", "category", ["f", "m"], 1),
        ("age", "number", None, 2),
        ("day", "date", None, 1),
        ("member", "boolean", None, 1),
        ("fare", "number", None, 0),
    ]
    assert reply["classes"] == ["no", "yes"]
    assert reply["ignored_columns"] == [{"name": "id", "reason": "it numbers the rows"}]
    assert reply["reading"]["missing"] == ["", "NA"]
    assert reply["warnings"][0]["code"] == "ignored-column"
    dataset, data = loaded(settings, reply["id"])
    assert dataset.kinds[0] == Column("sex", "category", ("f", "m"))
    nan = np.nan
    np.testing.assert_array_equal(
        data.X,
        [
            [0, 22, 19844, 1, 7.25],
            [1, nan, 19845, 0, 71],
            [1, nan, nan, 1, 8],
            [nan, 4, 19358.5, nan, 1],
        ],
    )


def test_german_table(client: TestClient, settings: Settings) -> None:
    """Semicolons, decimal commas, thousands, currency, percent, dates and Windows-1252."""
    reply = made(post(client, GERMAN))
    reading = reply["reading"]
    assert (reading["encoding"], reading["delimiter"]) == ("windows-1252", ";")
    assert (reading["decimal"], reading["thousands"]) == (",", ".")
    assert reading["columns"]["Preis"]["unit"] == "€"
    assert reading["columns"]["Tag"] == {"dates": "DD.MM.YYYY"}
    _, data = loaded(settings, reply["id"])
    expected = [[1.5, 1234, 19844, 1, 5], [2.25, 4450, 19845, 0, 10], [3, 1000, 19856, 1, 20]]
    np.testing.assert_array_equal(data.X, expected)


@pytest.mark.parametrize(
    "media_type",
    [
        *("text/csv", "text/tab-separated-values"),
        *("application/json", "application/x-ndjson", "application/vnd.apache.parquet"),
    ],
)
def test_downloads_give_back_the_table(client: TestClient, media_type: str) -> None:
    """The file of a download is the same dataset when it is uploaded again."""
    dataset = made(post(client, PEOPLE))
    path = f"/v1/datasets/{dataset['id']}/content"
    content = client.get(path, headers={"Accept": media_type})
    assert content.status_code == 200
    again = post(client, content.content, media_type)
    assert again.json()["matrix_digest"] == dataset["matrix_digest"]
    assert (again.json()["target"], again.json()["id"]) == (dataset["target"], dataset["id"])
    assert client.get(path, headers={"Accept": "application/x-npz"}).status_code == 406


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"target": "k"}, "names the `labels`, which are missing"),
        ({"labels": ["p", "q"], "target": 5}, "should be a text, not 5"),
        ({"labels": ["p", "q"], "target": "a"}, "'a' is one of `columns`"),
    ],
)
def test_wrong_name_of_labels_in_json(
    client: TestClient, members: dict[str, Any], message: str
) -> None:
    document = {"columns": ["a", "b"], "rows": [[1, 2], [3, 4]], **members}
    problem = post(client, json.dumps(document), "application/json").json()
    assert (problem["status"], problem["errors"][0]["pointer"]) == (422, "/target")
    assert message in problem["errors"][0]["message"]


def test_other_downloads(client: TestClient) -> None:
    """JSON has null for missing cells, texts and dates; Parquet has its own types."""
    import duckdb

    dataset = made(post(client, PEOPLE))
    path = f"/v1/datasets/{dataset['id']}/content"
    rows = client.get(path, headers={"Accept": "application/json"}).json()["rows"]
    assert rows[1] == ["m", None, "2024-05-02", False, 71]
    assert rows[3] == [None, 4, "2023-01-01T12:00:00Z", None, 1]
    lines = client.get(path, headers={"Accept": "application/x-ndjson"}).text.splitlines()
    assert json.loads(lines[2])["day"] is None
    parquet = client.get(path, headers={"Accept": "application/vnd.apache.parquet"}).content
    with io.BytesIO(parquet) as file:
        table = duckdb.from_parquet(file)
        types = dict(zip(table.columns, map(str, table.types), strict=True))
        assert (types["sex"], types["member"], types["day"]) == ("VARCHAR", "BOOLEAN", "TIMESTAMP")
        assert table.fetchall()[3][:2] == (None, 4.0)


@pytest.mark.parametrize(
    "media_type",
    [
        *("text/csv", "text/tab-separated-values"),
        *("application/json", "application/x-ndjson", "application/vnd.apache.parquet"),
    ],
)
@pytest.mark.parametrize("texts", ["xyz", "123"])
def test_downloads_give_back_the_weights(client: TestClient, media_type: str, texts: str) -> None:
    """As a column of the file; formats that have no place for it are not offered."""
    rows = [f"{i * 0.5},{i % 4},{texts[i % 3]},{'uv'[i % 2]}" for i in range(12)]
    schema = '{"w": {"role": "weight"}}'
    dataset = made(post(client, "\n".join(["a,w,b,k", *rows]), schema=schema))
    path = f"/v1/datasets/{dataset['id']}/content"
    content = client.get(path, headers={"Accept": media_type})
    assert content.status_code == 200
    again = post(client, content.content, media_type, schema=schema)
    assert again.json()["matrix_digest"] == dataset["matrix_digest"]
    assert client.get(path, headers={"Accept": "application/x-npz"}).status_code == 406


def test_append_merges_levels(client: TestClient, settings: Settings) -> None:
    """As if all rows had come at once; a column of another kind is refused."""
    first = made(post(client, PEOPLE))
    rows = "sex,age,day,member,fare,class\nd,5,2020-01-01,true,1,no\n,,,,2,yes\n"
    headers = {"Content-Type": "text/csv"}
    path = f"/v1/datasets/{first['id']}/append"
    both = made(client.post(path, content=rows, headers=headers))
    assert both["columns"][0]["levels"] == ["d", "f", "m"]
    whole = made(post(client, PEOPLE + "5,d,5,2020-01-01,true,1,no\n6,,,,,2,yes\n"))
    assert both["matrix_digest"] == whole["matrix_digest"]
    wrong = rows.replace("d,5", "d,old")
    body = problem(client.post(path, content=wrong, headers=headers), 422, "not-a-number")
    assert body["errors"][0]["column"] == "age"


def test_split_keeps_the_columns(client: TestClient) -> None:
    """Both parts know the levels of the whole."""
    rows = "".join(f"{i % 7},{'abc'[i % 3]},{'xy'[i % 2]}\n" for i in range(60))
    whole = made(post(client, "n,c,k\n" + rows))
    path = f"/v1/datasets/{whole['id']}/split"
    both = made(client.post(path, json={"fraction": 0.5, "seed": 1}))
    for part in both.values():
        assert part["n_samples"] == 30
        assert part["columns"][1]["levels"] == ["a", "b", "c"]


def test_schema_overrides_the_proposal(client: TestClient, settings: Settings) -> None:
    """Kinds and roles are the caller's; the weights are an array of their own."""
    rows = "n,w,k,x\n1,1,a,5\n2,0.5,b,6\n1,2,a,7\n"
    schema = {
        "n": {"kind": "category"},
        "w": {"role": "weight"},
        "k": {"role": "label"},
        "x": {"role": "ignored"},
    }
    reply = made(post(client, rows, schema=json.dumps(schema)))
    assert (reply["target"], reply["weight"]) == ("k", "w")
    assert reply["columns"][0]["levels"] == ["1", "2"]
    assert reply["ignored_columns"][0]["name"] == "x"
    _, data = loaded(settings, reply["id"])
    assert data.weights.tolist() == [1, 0.5, 2]
    bad = rows.replace("0.5", "-1")
    body = problem(post(client, bad, schema=json.dumps(schema)), 422, "not-a-number")
    assert (body["errors"][0]["row"], body["errors"][0]["column"]) == (2, "w")


@pytest.mark.parametrize(
    "schema", ["{", "[]", '{"z": {"kind": "number"}}', '{"n": {"kind": "words"}}', '{"n": {}}']
)
def test_wrong_schema(client: TestClient, schema: str) -> None:
    """What is not JSON, names no column, or is not a kind."""
    problem(post(client, "n,k\n1,a\n2,b\n", schema=schema), 400, "invalid-parameter")


def test_typo_stays_an_error(client: TestClient) -> None:
    """A column of numbers with a word is refused if the caller wants it, with both ways out."""
    rows = "".join(f"{i},{'ab'[i % 2]}\n" for i in range(50)) + "oops,a\n"
    body = problem(post(client, "n,k\n" + rows, odd_cells="refuse"), 422, "not-a-number")
    assert (body["errors"][0]["row"], body["errors"][0]["value"]) == (51, "oops")
    assert "`missing`" in body["errors"][0]["hint"]
    assert "`schema`" in body["errors"][0]["hint"]
    summary = {key: body["columns"][0][key] for key in ("column", "code", "count", "examples")}
    assert summary == {"column": "n", "code": "not-a-number", "count": 1, "examples": ["oops"]}
    assert made(post(client, "n,k\n" + rows, missing="oops"))["columns"][0]["missing"] == 1


def test_undecided_decimal_mark(client: TestClient) -> None:
    """Both readings of a cell, and the parameter that decides."""
    text = "a;b;k\n1.234;2;x\n4.450;3;y\n"
    body = problem(post(client, text), 422, "ambiguous-number")
    assert "1.234 or 1234" in body["detail"]
    assert "decimal=" in body["detail"]
    assert made(post(client, text, decimal=","))["columns"][0]["max"] == 4450
    assert made(post(client, text, decimal="."))["columns"][0]["max"] == 4.45


def test_a_column_is_a_feature_if_the_caller_says_so(client: TestClient) -> None:
    """It has the kind that fits, or the error says what to do."""
    rows = [f"{i},name {i},same,,{i * 7 % 5},{'xy'[i % 2]}" for i in range(1, 31)]
    text = "\n".join(["id,Name,c,none,n,k", *rows])
    ignored = made(post(client, text))["ignored_columns"]
    assert [column["name"] for column in ignored] == ["id", "Name", "c", "none"]
    asked = {name: {"role": "feature"} for name in ("id", "Name", "c")}
    reply = made(post(client, text, schema=json.dumps(asked)))
    assert [column["name"] for column in reply["ignored_columns"]] == ["none"]
    kinds = {column["name"]: (column["kind"], column["n_levels"]) for column in reply["columns"]}
    assert kinds == {
        "id": ("number", None),
        "Name": ("category", 30),
        "c": ("category", 1),
        "n": ("number", None),
    }
    body = problem(post(client, text, schema='{"none": {"role": "feature"}}'), 422, "empty-data")
    assert body["errors"][0]["column"] == "none"
    assert "number, category, boolean, date or text" in body["errors"][0]["hint"]
    long = "a,b,k\n" + "".join(f"t{i},{i},{i % 2}\n" for i in range(10_002))
    schema = '{"a": {"role": "feature"}}'
    body = problem(post(client, long, schema=schema), 422, "too-many-levels")
    assert "role `ignored`" in body["errors"][0]["hint"]
    unnamed = ",a,k\n1,2,x\n3,4,y\n"
    body = problem(
        post(client, unnamed, schema='{"": {"role": "feature"}}'), 400, "invalid-parameter"
    )
    assert "name" in body["detail"]


def test_a_feature_of_json_if_the_caller_says_so(client: TestClient) -> None:
    rows = [{"Name": f"name {i}", "n": i % 5, "k": i % 2} for i in range(30)]
    schema = '{"Name": {"role": "feature"}}'
    reply = client.post("/v1/datasets", params={"schema": schema}, json=rows)
    assert made(reply)["columns"][0]["n_levels"] == 30


@pytest.mark.parametrize("name", ["w", "x"])
def test_only_features_and_labels_have_kinds(client: TestClient, name: str) -> None:
    """A kind of the weights or an ignored column is not obeyed: it is refused."""
    roles: dict[str, dict[str, str]] = {"w": {"role": "weight"}, "x": {"role": "ignored"}}
    roles[name] = roles.get(name, {}) | {"kind": "number"}
    text = "n,w,x,k\n1,1,5,0\n2,1,6,1\n"
    body = problem(post(client, text, schema=json.dumps(roles)), 400, "invalid-parameter")
    assert repr(name) in body["detail"]
    assert "has no kind" in body["detail"]


@pytest.mark.parametrize("delimiter", ANY_DELIMITER)
def test_any_delimiter_can_be_named(client: TestClient, delimiter: str) -> None:
    """The parameter allows marks that are not recognized by themselves."""
    table = [["n", "c", "k"], ["1", "a", "x"], ["2", "b", "y"]]
    reply = made(post(client, "\n".join(map(delimiter.join, table)), delimiter=delimiter))
    assert reply["reading"]["delimiter"] == delimiter
    assert [column["kind"] for column in reply["columns"]] == ["number", "category"]


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_weights_are_read_like_numbers(
    client: TestClient, settings: Settings, delimiter: str
) -> None:
    """With a decimal comma; with two readings they are refused."""
    schema = '{"w": {"role": "weight"}}'
    lines = [["n", "w", "c", "k"], ["1", "0,5", "x", "a"], ["2", "1.000,25", "y", "b"]]
    dataset = made(post(client, "\n".join(map(delimiter.join, lines)), schema=schema))
    weights = loaded(settings, dataset["id"])[1].weights
    assert weights is not None
    assert weights.tolist() == [0.5, 1000.25]
    lines[1][1], lines[2][1] = "1.500", "2.250"
    undecided = "\n".join(map(";".join, lines))
    body = problem(post(client, undecided, schema=schema), 422, "ambiguous-number")
    assert body["errors"][0]["column"] == "w"


@pytest.mark.parametrize("others", ["xyz", "123"])
@pytest.mark.parametrize("word", ["NA", "null", "?"])
def test_labels_with_gaps(client: TestClient, others: str, word: str) -> None:
    """A word for missing cells is not a class, whether or not the features are numbers: the row is
    left out, the word and its count are in a warning."""
    rows = [f"{i},{others[i % 3]},{word if i == 4 else 'ab'[i % 2]}" for i in range(12)]
    reply = made(post(client, "\n".join(["n,c,k", *rows])))
    assert (reply["n_samples"], reply["classes"]) == (11, ["a", "b"])
    assert reply["reading"]["unlabeled"] == {"count": 1, "words": {word: 1}, "rows": [5]}
    messages = [one["message"] for one in reply["warnings"] if one["code"] == "missing-labels"]
    assert f"'{word}' once" in messages[0]


def test_table_without_features_says_why(client: TestClient) -> None:
    """Each column with its reason."""
    rows = [f"t {i},same,{'ab'[i % 2]}" for i in range(12)]
    body = problem(post(client, "\n".join(["n,c,k", *rows])), 422, "empty-data")
    assert "'n' (an identifier or free text" in body["detail"]
    assert "'c' (constant: every cell is 'same')" in body["detail"]


def test_another_kind_of_appended_rows(client: TestClient) -> None:
    parent = made(post(client, "n,c,k\n1,a,x\n2,b,y\n"))
    path = f"/v1/datasets/{parent['id']}/append"
    rows: Any = {"content": "n,c,k\n3,a,x\n", "headers": {"Content-Type": "text/csv"}}
    schema = '{"n": {"kind": "category"}}'
    body = problem(client.post(path, params={"schema": schema}, **rows), 400, "invalid-parameter")
    assert "number in the dataset" in body["detail"]
    made(client.post(path, params={"schema": '{"n": {"kind": "number"}}'}, **rows))


@pytest.mark.parametrize(
    ("weights", "code", "row"),
    [
        (("0", "0", "-0.0"), "empty-data", None),
        (("1", "-2", "1"), "not-a-number", 2),
        (("1", "1", "inf"), "non-finite-value", 3),
        (("1", "x", "2"), "not-a-number", 2),
        (("1", "1", "nan"), "missing-value", 3),
        (("", "1", "1"), "missing-value", 1),
        (("1", "1e200", "1"), "not-a-number", 2),
        (("1e-200", "1", "1"), "not-a-number", 1),
    ],
)
def test_weights_that_no_job_takes(
    client: TestClient, weights: tuple[str, ...], code: str, row: int | None
) -> None:
    text = "n,w,k\n" + "".join(f"{i},{w},{i % 2}\n" for i, w in enumerate(weights))
    body = problem(post(client, text, schema='{"w": {"role": "weight"}}'), 422, code)
    assert (body["errors"][0].get("row"), body["errors"][0]["column"]) == (row, "w")
