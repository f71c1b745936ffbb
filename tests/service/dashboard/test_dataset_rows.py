"""The rows of a dataset on its page: filtered, sorted, page by page, without scripts."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from html import unescape
from typing import Any
from urllib.parse import urlencode

import numpy as np
import polars as pl
import pytest
from starlette.testclient import TestClient

from service.dashboard.row_pages import STEP
from service.datasets.browse import SCANS, DatasetRows, scanning
from service.datasets.conditions import Condition, Order
from service.datasets.store import DatasetStore
from service.errors import InvalidRequest, NotFound, Unavailable
from service.jobs.engine.worker_process import Worker
from service.settings import Settings
from service.storage.blobs import open_blobs
from service.storage.database import Database

pytestmark = pytest.mark.one_application

N = 117
AGES = [None if i % 9 == 4 else float((i * 37) % 50) + (0.5 if i % 2 else 0) for i in range(N)]
CITIES = [None if i % 11 == 3 else ["Oslo", "Köln", "Ab'x\"<b>"][i % 3] for i in range(N)]
MEMBERS = [i % 4 == 0 for i in range(N)]
BORN = [f"20{10 + i % 7}-0{1 + i % 9}-11" for i in range(N)]
NOTES = [f"note {i} says 'DROP TABLE' {'urgent ' * (i % 5)}{'xyz' * i}"[:90] for i in range(N)]
LABELS = [["no", "yes"][(i * i) % 3 % 2] for i in range(N)]
FRAME = pl.DataFrame(
    {
        "age": AGES,
        "city": CITIES,
        "member": MEMBERS,
        "born": pl.Series(BORN).str.to_date(),
        "note": NOTES,
        "who": [f"g{i // 3}" for i in range(N)],
        "mass": [1.0 + i % 2 for i in range(N)],
        "answer": LABELS,
    }
)
ROLES: dict[str, Any] = {"group": "who", "weight": "mass", "schema": '{"note": {"kind": "text"}}'}


def _file(format_: str) -> tuple[bytes, str]:
    file = io.BytesIO()
    match format_:
        case "csv":
            FRAME.write_csv(file)
            return file.getvalue(), "text/csv"
        case "parquet":
            FRAME.write_parquet(file)
            return file.getvalue(), "application/vnd.apache.parquet"
        case _:
            FRAME.with_columns(pl.col("born").cast(pl.String)).write_ndjson(file)
            return file.getvalue(), "application/x-ndjson"


def _upload(client: TestClient, content: bytes, media_type: str, **options: Any) -> str:
    headers = {"Content-Type": media_type}
    reply = client.post("/v1/datasets", params=options, content=content, headers=headers)
    assert reply.status_code in (200, 201), reply.text
    id_: str = reply.json()["id"]
    return id_


@pytest.fixture(params=["csv", "parquet", "ndjson"])
def people(client: TestClient, request: pytest.FixtureRequest) -> str:
    return _upload(client, *_file(request.param), **ROLES)


@pytest.fixture
def table(client: TestClient) -> str:
    return _upload(client, *_file("csv"), **ROLES)


def _page(client: TestClient, id_: str, status: int = 200, **query: Any) -> str:
    reply = client.get(f"/datasets/{id_}?{urlencode(query, doseq=True)}")
    assert reply.status_code == status, reply.text
    return reply.text


def _table(html: str) -> dict[int, dict[str, str]]:
    """The cells by number of the row and name of the column, in the order of the page."""
    part = re.search('<table class="cells">(.*?)</table>', html, re.DOTALL)
    if part is None:
        return {}
    head, body = part[1].split("</thead>")
    texts = [
        unescape(re.sub("<[^>]*>", "", re.sub('<span class="soft">.*?</span>', "", one))).strip()
        for one in re.findall('<th scope="col"[^>]*>(.*?)</th>', head, re.DOTALL)
    ]
    rows = {}
    for row in re.findall("<tr.*?</tr>", body, re.DOTALL):
        cells = re.findall("<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        plain = [unescape(re.sub("<[^>]*>", "", cell)).strip() for cell in cells]
        rows[int(plain[0].replace(",", ""))] = dict(zip(texts[1:], plain[1:], strict=True))
    return rows


def _all(client: TestClient, id_: str, **query: Any) -> list[tuple[int, dict[str, str]]]:
    """All pages, one after the other, by their links."""
    html, rows = _page(client, id_, **query), []
    while True:
        rows += list(_table(html).items())
        after = re.search('<a [^>]*href="([^"]*)#rows">After</a>', html)
        if after is None:
            return rows
        html = client.get(f"/datasets/{id_}{unescape(after[1])}").text


def _age(i: int, missing: float) -> float:
    age = AGES[i]
    return missing if age is None else age


def _condition(column: str, test: str, value: str = "") -> dict[str, str]:
    return {"column": column, "test": test, "value": value}


def test_cells_are_those_that_were_sent(client: TestClient, people: str) -> None:
    """Levels, dates, booleans, groups, weights and labels; missing cells are marked."""
    rows = _all(client, people)
    assert [number for number, _ in rows] == list(range(1, N + 1))
    for i, (_, cells) in enumerate(rows):
        age = AGES[i]
        assert cells["age"] == ("missing" if age is None else f"{age:g}")
        assert cells["city"] == (CITIES[i] or "missing")
        assert cells["member"] == str(MEMBERS[i]).lower()
        assert (cells["born"], cells["note"]) == (BORN[i], NOTES[i].rstrip())
        assert (cells["answer"], cells["who"]) == (LABELS[i], f"g{i // 3}")
        assert cells["mass"] == str(1 + i % 2)
    assert '<span class="missing">missing</span>' in _page(client, people)


FILTERS: dict[str, tuple[dict[str, str], Callable[[int], bool]]] = {
    "class": (_condition("answer", "is", "yes"), lambda i: LABELS[i] == "yes"),
    "level": (_condition("city", "is", "Köln"), lambda i: CITIES[i] == "Köln"),
    "hostile level": (_condition("city", "is", "Ab'x\"<b>"), lambda i: CITIES[i] == "Ab'x\"<b>"),
    "part of a level": (_condition("city", "contains", "oS"), lambda i: CITIES[i] == "Oslo"),
    "missing level": (_condition("city", "missing"), lambda i: CITIES[i] is None),
    "missing number": (_condition("age", "missing"), lambda i: AGES[i] is None),
    "at least": (_condition("age", "at-least", "20.5"), lambda i: _age(i, 0) >= 20.5),
    "at most": (_condition("age", "at-most", "1e1"), lambda i: _age(i, 99) <= 10),
    "number": (_condition("age", "is", "24"), lambda i: AGES[i] == 24),
    "boolean": (_condition("member", "is", "TRUE"), lambda i: MEMBERS[i]),
    "day": (_condition("born", "is", "2010-01-11"), lambda i: BORN[i] == "2010-01-11"),
    "up to a day": (_condition("born", "at-most", "2012-03-11"), lambda i: BORN[i] <= "2012-03-11"),
    "text": (_condition("note", "contains", "URGENT u"), lambda i: "urgent u" in NOTES[i]),
    "SQL": (_condition("note", "contains", "' OR 1=1; --"), lambda i: False),
    "a regular expression": (_condition("note", "contains", "note .*"), lambda i: False),
    "group": (_condition("who", "is", "g4"), lambda i: i // 3 == 4),
    "weight": (_condition("mass", "at-least", "1.5"), lambda i: i % 2 == 1),
    "two conditions": (
        {"where": '[["answer", "is", "no"]]', **_condition("age", "at-least", "30")},
        lambda i: LABELS[i] == "no" and _age(i, 0) >= 30,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILTERS)
def test_filter_keeps_exactly_the_rows_that_meet_it(
    client: TestClient, table: str, name: str
) -> None:
    query, meets = FILTERS[name]
    numbers = [number for number, _ in _all(client, table, **query)]
    assert numbers == [i + 1 for i in range(N) if meets(i)]


@pytest.mark.parametrize("descending", [False, True], ids=["ascending", "descending"])
def test_order_is_stable_and_has_each_row_once(
    client: TestClient, table: str, descending: bool
) -> None:
    """Missing cells come last; equal rows keep their order; texts and levels by the alphabet."""
    sign = -1 if descending else 1
    numbers = [number for number, _ in _all(client, table, sort="age", descending=descending)]
    key = [(AGES[i] is None, sign * _age(i, 0)) for i in range(N)]
    assert numbers == [i + 1 for i in sorted(range(N), key=key.__getitem__)]
    for column, values in (("note", NOTES), ("city", CITIES), ("born", BORN), ("who", None)):
        rows = _all(client, table, sort=column, descending=descending)
        assert sorted(number for number, _ in rows) == list(range(1, N + 1))
        given = [cells[column] for _, cells in rows if cells[column] != "missing"]
        assert given == sorted(given, reverse=descending)
        missing = [cells[column] == "missing" for _, cells in rows]
        assert missing == sorted(missing), values


REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "unknown column": (_condition("agee", "is", "3"), "there is no column 'agee'"),
    "hostile column": (_condition('age" OR 1=1', "is", "3"), "there is no column"),
    "NaN": (_condition("age", "is", "NaN"), "'NaN' is not a finite number"),
    "infinity": (_condition("age", "at-least", "1e999"), "'1e999' is not a finite number"),
    "no number": (_condition("age", "at-most", "old"), "'old' is not a finite number"),
    "text of a number": (_condition("age", "contains", "3"), "say is, at-least, at-most"),
    "bound of a level": (_condition("city", "at-least", "3"), "say is, contains or missing"),
    "no date": (_condition("born", "is", "yesterday"), "none such as 2024-12-31"),
    "no boolean": (_condition("member", "is", "maybe"), "is true or false"),
    "order by nothing": ({"sort": "nothing"}, "there is no column 'nothing'"),
    "row beyond": ({"row": str(N + 1)}, f"there is no row {N + 1}"),
    "too many conditions": (
        {"where": json.dumps([["age", "missing", ""]] * 11)},
        "at most 10",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_filter_is_named_beside_the_form(client: TestClient, table: str, name: str) -> None:
    """The rest of the page is there, with a way back to all rows."""
    query, message = REFUSED[name]
    html = _page(client, table, 400, **query)
    assert message.lower() in unescape(html).lower()
    assert "Show all rows" in html
    assert 'id="columns"' in html


def test_wrong_condition_does_not_stay(client: TestClient, table: str) -> None:
    """Those that were right do, each with a link that removes it."""
    right = json.dumps([["age", "at-least", "30"]])
    html = _page(client, table, 400, where=right, **_condition("age", "at-most", "old"), sort="age")
    given = re.search('name="where" value="([^"]*)"', html)
    assert given is not None
    assert unescape(given[1]) == right
    assert "age at least 30 <" in html
    assert "age at most" not in html
    assert 'name="sort" value="age"' in html


def test_long_texts_are_whole_on_the_page_of_their_row(client: TestClient) -> None:
    texts = [f"{i} " + "many words " * 100 + "end" for i in range(20)]
    text = "t,label\n" + "".join(f"{one},{'xy'[i % 2]}\n" for i, one in enumerate(texts))
    id_ = _upload(client, text.encode(), "text/csv", schema='{"t": {"kind": "text"}}')
    rows = _table(_page(client, id_, row=3))
    assert rows[3]["t"] == texts[2]
    assert rows[4]["t"].endswith("…")
    assert len(rows[4]["t"]) <= 120


@pytest.mark.parametrize(
    "query",
    [{"test": "like"}, {"where": '[["a", "is"]]'}, {"row": "0"}, {"offset": "-1"}, {"row": "1e9"}],
    ids=["test", "where", "row 0", "negative offset", "no number"],
)
def test_malformed_address_is_a_problem(
    client: TestClient, table: str, query: dict[str, str]
) -> None:
    assert "problem" in _page(client, table, 400, **query)


def test_row_is_shown_on_its_page_and_marked(client: TestClient, table: str) -> None:
    """Also among the rows that a filter keeps."""
    html = _page(client, table, row=57)
    assert list(_table(html)) == list(range(41, 61))
    marked = re.findall('<tr id="row" class="marked-row" aria-current="true">.*?>([0-9]+)<', html)
    assert marked == ["57"]
    html = _page(client, table, row=57, column="age", test="at-least", value="0")
    assert 57 in _table(html)


def test_page_beyond_the_last_row_has_none(client: TestClient, table: str) -> None:
    assert _table(_page(client, table, offset=10_000)) == {}


def test_sparse_rows_show_what_is_not_zero(client: TestClient) -> None:
    """A feature is filtered and sorted by its position, zeros included."""
    lines = [f"{i % 2} {i + 1}:{i + 1} 500:0.5" for i in range(30)]
    id_ = _upload(client, "\n".join(lines).encode(), "text/x-libsvm", dense="never")
    rows = _all(client, id_)
    assert rows[3] == (4, {"label": "1", "entries": "3: 4, 499: 0.5"})
    found = _all(client, id_, **_condition("3", "at-least", "1"))
    assert [number for number, _ in found] == [4]
    order = [number for number, _ in _all(client, id_, sort="3", descending=True)]
    assert order == [4, *(n for n in range(1, 31) if n != 4)]


def test_wide_data_show_some_columns_of_each_row(client: TestClient) -> None:
    X = np.arange(4000.0).reshape(2, 2000)
    file = io.BytesIO()
    np.save(file, X)
    id_ = _upload(client, file.getvalue(), "application/x-npy", target="none")
    html = _page(client, id_, first=1950)
    assert list(_table(html)[2]) == [str(i) for i in range(1950, 2000)]
    assert _table(html)[2]["1999"] == "3999"
    found = _all(client, id_, **_condition("1999", "at-least", "2000"))
    assert [number for number, _ in found] == [2]
    assert len(html) < 200_000


def test_data_too_large_to_sort_still_have_pages(client: TestClient, settings: Settings) -> None:
    """The message says how much would be read; rows are still found by their number."""
    text = "a,b,label\n" + "".join(f"{i},{i % 7},{'xy'[i % 2]}\n" for i in range(20_000))
    id_ = _upload(client, text.encode(), "text/csv")
    store = DatasetStore(Database(settings.database_url), open_blobs(settings))
    rows = DatasetRows(store, store.get(id_), most_bytes=319_999)
    with pytest.raises(InvalidRequest, match="filtered or sorted by 'a': 0 MB would be read, at m"):
        rows.page(order=Order("a"), limit=STEP, columns=9)
    assert rows.page(limit=STEP, columns=9, row=19_999).numbers[-2:] == [19_999, 20_000]
    first = _table(_page(client, id_, sort="a", descending=True))
    assert list(first) == list(range(20_000, 20_000 - STEP, -1))


def test_texts_are_read_for_a_few_requests_only(
    client: TestClient, table: str, settings: Settings
) -> None:
    """Each condition counts; a large scan waits for one other, and is refused if several wait."""
    store = DatasetStore(Database(settings.database_url), open_blobs(settings))
    dataset = store.get(table)
    rows = DatasetRows(store, dataset, most_texts=2 * N)
    twice = [Condition("note", "contains", "note")] * 2
    assert rows.page(twice, limit=STEP, columns=9).total == N
    assert rows.page([], Order("note"), limit=STEP, columns=9).total == N
    with pytest.raises(InvalidRequest, match=f"by 'note': {3 * N} texts would be read, at most"):
        rows.page(twice, Order("note"), limit=STEP, columns=9)
    text = "t,label\n" + "".join(f"word {i} of a text,{'xy'[i % 2]}\n" for i in range(20_000))
    large = _upload(client, text.encode(), "text/csv", schema='{"t": {"kind": "text"}}')
    with ExitStack() as others:
        others.enter_context(scanning())
        for _ in range(SCANS - 1):
            others.enter_context(ThreadPoolExecutor(1)).submit(_scan)
        refused = client.get(f"/datasets/{large}?sort=t")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
        assert list(_table(_page(client, table, sort="note")))
        assert list(_table(_page(client, large)))
    assert list(_table(_page(client, large, sort="t")))[:3] == [1, 2, 11]


def _scan() -> None:
    with suppress(Unavailable), scanning():
        pass


def test_data_deleted_while_they_are_read_are_not_found(
    client: TestClient, table: str, settings: Settings
) -> None:
    store = DatasetStore(Database(settings.database_url), open_blobs(settings))
    dataset = store.get(table)
    assert client.delete(f"/v1/datasets/{table}").status_code == 204
    with pytest.raises(NotFound):
        DatasetRows(store, dataset).page(limit=STEP, columns=9)


def test_names_of_columns_are_written_safely(client: TestClient) -> None:
    """In the table, in the form and in addresses."""
    names = ["<script>", 'a"b&c', "ü 🎉 " + "n" * 180]
    text = ",".join('"' + name.replace('"', '""') + '"' for name in [*names, "label"]) + "\n"
    text += "".join(f"{i},{i * 2},{-i},{'xy'[i % 2]}\n" for i in range(30))
    id_ = _upload(client, text.encode(), "text/csv")
    html = _page(client, id_, sort=names[1], descending=True)
    assert "<script>" not in re.sub("<script (src|type)", "", html)
    assert list(_table(html))[:2] == [30, 29]
    found = _all(client, id_, **_condition(names[2], "at-most", "-29"))
    assert [number for number, _ in found] == [30]


def _evaluated(
    client: TestClient, worker: Worker, id_: str, name: str
) -> tuple[str, dict[str, Any]]:
    """The page and the metrics of a model on the data that it was trained on."""
    body = {"dataset_id": id_, "model_name": name, "solver": {"name": "newton"}, "seed": 1}
    assert client.post("/v1/jobs", json=body).status_code == 202
    assert worker.take_next_job()
    job = client.post("/v1/evaluations", json={"dataset_id": id_, "model": name}).json()["id"]
    assert worker.take_next_job()
    evaluation = client.get(f"/v1/evaluations/{job}").json()
    return client.get(f"/jobs/{job}").text, evaluation["metrics"]


def test_wrong_rows_of_an_evaluation_lead_to_the_rows(client: TestClient, worker: Worker) -> None:
    """From a cell of the confusion matrix to its rows, and from each to its place in the data."""
    rng = np.random.default_rng(3)
    size = rng.normal(size=150).round(3)
    labels = ["yes" if one + rng.normal() > 0 else "no" for one in size]
    text = "size,label\n" + "".join(f"{a},{b}\n" for a, b in zip(size, labels, strict=True))
    id_ = _upload(client, text.encode(), "text/csv")
    html, metrics = _evaluated(client, worker, id_, "sizes")
    for i, j in ((0, 1), (1, 0)):
        count = metrics["confusion_matrix"][i][j]
        assert f'<a href="#wrong-{i}-{j}">{count}<' in html
        part = html.partition(f'id="wrong-{i}-{j}"')[2].partition("</tbody>")[0]
        links = re.findall(rf'href="(/datasets/{id_}\?row=[0-9]+)#row">([0-9]+)<', part)
        assert len(links) == count > 3
        for address, number in links[:3]:
            shown = client.get(address).text
            assert _table(shown)[int(number)]["label"] == ["no", "yes"][i]
            assert 'aria-current="true"><th scope="row" class="num"><a' in shown
        (why,) = re.findall(rf'href="(/models/sizes/[^"]*row={links[0][1]})#prediction">', part)
        explained = client.get(unescape(why)).text
        assert f"labeled <strong>{['no', 'yes'][i]}</strong>" in explained
        assert f'<p class="label">{["no", "yes"][j]}</p>' in explained


def test_wrong_rows_that_are_not_listed_are_counted(client: TestClient, worker: Worker) -> None:
    """Beside the first of a pair of classes, all others; then how many of them are listed."""
    rng = np.random.default_rng(5)
    rows = [f"{rng.normal():.3f},{'yes' if rng.random() < 0.5 else 'no'}" for _ in range(600)]
    id_ = _upload(client, "\n".join(["size,label", *rows]).encode(), "text/csv")
    html, metrics = _evaluated(client, worker, id_, "coins")
    counts = 0
    for i, j in ((0, 1), (1, 0)):
        actual, predicted = ("no", "yes")[i], ("no", "yes")[j]
        listed = sum(one["actual"] == actual for one in metrics["wrong_rows"])
        if (count := metrics["confusion_matrix"][i][j]) > listed > 3:
            said = (
                f"{count - 3} more of {actual} taken for {predicted}, {listed - 3} of them listed"
            )
            assert said in html
            assert f"and {count - listed} that are not listed" in html
            counts += 1
    assert counts


@pytest.mark.parametrize("format_", ["csv", "ndjson", "parquet", "npy"])
def test_predictions_are_shown_beside_their_rows(
    client: TestClient, worker: Worker, format_: str
) -> None:
    """Page by page; without the data they can only be downloaded."""
    id_ = _upload(client, *_file("csv"), **ROLES)
    body = {"dataset_id": id_, "model_name": "answers", "solver": {"name": "newton"}}
    assert client.post("/v1/jobs", json=body).status_code == 202
    assert worker.take_next_job()
    asked: dict[str, Any] = {"dataset_id": id_, "model": "answers", "format": format_}
    asked |= {"outputs": ["label"] if format_ == "npy" else ["label", "decision"]}
    job = client.post("/v1/batch-predictions", json=asked).json()["id"]
    queued = client.get(f"/jobs/{job}").text
    assert "Table of predictions" not in queued
    assert worker.take_next_job()
    results = client.get(f"/v1/batch-predictions/{job}/results")
    html = client.get(f"/jobs/{job}?offset=100").text
    rows = _table(html)
    assert list(rows) == list(range(101, N + 1))
    assert rows[101]["answer"] == LABELS[100]
    assert rows[101]["born"] == BORN[100]
    if format_ == "csv":
        labels = [line.split(",")[0] for line in results.text.splitlines()[1:]]
        assert [cells["label"] for cells in rows.values()] == labels[100:]
        assert "decision" in rows[101]
    every = {**_table(client.get(f"/jobs/{job}").text)}
    for offset in range(20, N, 20):
        every |= _table(client.get(f"/jobs/{job}?offset={offset}").text)
    (name,) = [one for one in every[1] if one.startswith("label")]
    chosen = every[1][name]
    of_class = {row: cells for row, cells in every.items() if cells[name] == chosen}
    filtered = client.get(f"/jobs/{job}", params={"predicted": chosen, "offset": 20}).text
    assert f"<option selected>{chosen}<" in filtered
    assert _table(filtered) == dict(list(of_class.items())[20:40])
    assert f'href="?predicted={chosen}&amp;offset=0#rows">First<' in filtered
    assert f"of {len(of_class)}<" in filtered
    assert 20 < len(of_class) < N
    assert _table(client.get(f"/jobs/{job}?predicted=nothing").text) == {}
    assert f'href="/datasets/{id_}?row=101#row"' in html
    assert 'href="?offset=80#rows">Before<' in html
    assert _table(client.get(f"/jobs/{job}?offset={10**12}").text) == {}
    assert client.delete(f"/v1/datasets/{id_}").status_code == 204
    assert "The data were deleted" in client.get(f"/jobs/{job}").text
