"""Columns of texts: which ones they are, how they are described, loaded, split, refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from service.rows.spec import CSV, JSON, NDJSON
from service.settings import Settings
from svm.data.texts import texts_of
from tests.service.datasets.test_routes import made, post, problem
from tests.service.datasets.test_tables import loaded
from tests.service.rows.reading import upload
from tests.service.rows.test_digest import table, texts_in

pytestmark = pytest.mark.one_application

VERBS, THINGS = ("lost", "need", "sold", "broke"), ("my card", "a loan", "the old phone", "a key")


def sentence(i: int) -> str:
    """A text of seven words or so, different from others."""
    return f"I {VERBS[i % 4]} {THINGS[i // 4 % 4]} on day {i} and would like help"


def table_of(cells: list[str]) -> str:
    rows = ([cell, i % 7, "pq"[i % 2]] for i, cell in enumerate(cells))
    return table([["c", "x", "k"], *rows], ",")


@pytest.mark.parametrize(
    ("cells", "kind", "says"),
    [
        ([sentence(i) for i in range(40)], "text", "its words become features"),
        ([sentence(i) for i in range(6)], "text", "its words become features"),
        ([sentence(i % 24) for i in range(200)], "text", "its words become features"),
        ([sentence(i % 12) for i in range(200)], "category", "kind is text"),
        ([f"很好的商品推荐购买第{i}次" for i in range(40)], "text", "its words"),
        (
            [f"question about my {sentence(i)[2:12]} no {i % 30}" for i in range(200)],
            "text",
            "words",
        ),
        (
            [f"need help with {THINGS[i % 4]} {chr(97 + i % 26) * 3}" for i in range(900)],
            "category",
            "is text",
        ),
        (
            [f"BEAVER MEDICAL GROUP {chr(65 + i % 26) * 3}" for i in range(200)],
            "category",
            "is text",
        ),
        (["Ford Pinto", "Audi 100 Ls", "Fiat Strada Custom"] * 20, "category", None),
        ([f"Ford Pinto Wagon {i}" for i in range(40)], "ignored", "kind is text"),
        ([f"Ford Pinto Wagon {i % 30}" for i in range(40)], "category", "kind is text"),
        ([f"Braund, Mr. Owen Harris {i}" for i in range(40)], "ignored", "kind is text"),
        ([f"https://www.town-of-{i}.ca/a/page" for i in range(40)], "ignored", "every text"),
        ([f"{i} Main St, Durham, NC 27705" for i in range(40)], "ignored", "kind is text"),
        ([f"A-{1000 + i}" for i in range(40)], "ignored", "every text is different"),
        ([f"+49 170 12 {i:02} {i:02}-x" for i in range(40)], "ignored", "every text is different"),
        ([f"{i:064x}x" for i in range(40)], "ignored", "every text is different"),
    ],
)
def test_which_columns_are_texts(
    client: TestClient, cells: list[str], kind: str, says: str | None
) -> None:
    """Sentences are; of names the reply says how to make texts of them."""
    reply = made(post(client, table_of(cells)))
    kinds = {column["name"]: column["kind"] for column in reply["columns"]}
    assert kinds.get("c", "ignored") == kind
    messages = [one["message"] for one in reply["warnings"] if one["columns"] == ["c"]]
    assert [says in message for message in messages] == ([] if says is None else [True])


def test_first_line_that_is_a_row_is_reported(client: TestClient) -> None:
    """A file of texts and labels without names; the hint of a prediction says it, too."""
    content = "".join(f"{sentence(i)},{'pq'[i % 2]}\n" for i in range(40))
    [warned] = made(post(client, content))["warnings"]
    assert warned["code"] == "text-column"
    assert "the first line must hold the names" in warned["message"]
    assert "say that names are absent" in warned["message"]
    reply = made(post(client, content, header="absent"))
    assert (reply["n_samples"], reply["columns"][0]["kind"]) == (40, "text")
    assert "names are absent" not in json.dumps(reply["warnings"])


def test_texts_are_described(client: TestClient, settings: Settings) -> None:
    """How long they are, how many are different, and how some begin. They are loaded with their
    rows."""
    cells = [sentence(i // 2) for i in range(40)] + ["", "  ", "a", "word " * 100]
    reply = made(post(client, table_of(cells), schema='{"c": {"kind": "text"}}', missing="a"))
    [column, _] = reply["columns"]
    characters = sum(len(cell) for cell in cells if len(cell) > 2)
    assert column["texts"] == {
        "characters": characters,
        "characters_median": 43.0,
        "characters_max": 500,
        "distinct_share": 21 / 41,
        "examples": [sentence(0), sentence(1), sentence(2)],
    }
    assert (column["missing"], column["min"], reply["warnings"]) == (3, None, [])
    assert reply["reading"]["missing"] == ["a"]
    dataset, data = loaded(settings, reply["id"])
    assert dataset.kinds[0].characters == characters
    there = data.X[~np.isnan(data.X[:, 0]), 0]
    assert texts_of(there).take(there.astype(int).tolist()) == [*cells[:40], cells[43]]


def test_rows_with_texts_are_split(client: TestClient) -> None:
    """Each part has the texts of its rows only."""
    cells = [sentence(i) for i in range(40)]
    parent = made(post(client, table_of(cells)))
    path = f"/v1/datasets/{parent['id']}/split"
    parts = client.post(path, json={"fraction": 0.25}).json()
    found = []
    for part in (parts["train"], parts["test"]):
        content = client.get(f"/v1/datasets/{part['id']}/content", headers={"Accept": JSON}).json()
        assert content["columns"] == ["c", "x"]
        found.append([row[0] for row in content["rows"]])
    assert sorted(found[0] + found[1]) == sorted(cells)
    assert [found[i] == sorted(found[i], key=cells.index) for i in (0, 1)] == [True, True]
    assert [part["columns"][0]["texts"]["distinct_share"] for part in parts.values()] == [1.0, 1.0]


def test_appended_texts_in_another_order() -> None:
    """Columns are matched by name. Rows without a label, and a column that counts the rows, are
    left out before."""
    rows = [[i, sentence(i), f"re: {sentence(i * i)}", "pq"[i % 2]] for i in range(12)]
    rows[3][3] = rows[7][1] = ""
    first = upload(table([["id", "body", "subject", "k"], *rows], ","))
    assert first.parsed.columns == ["body", "subject"]
    kept = rows[:3] + rows[4:]
    expected = [[row[1] or None for row in kept], [row[2] for row in kept]]
    assert texts_in(first) == expected
    more = [["007", "1.5", "q"], ["", "see you", "p"]]
    joined = upload(table([["subject", "body", "k"], *more], ","), onto=first)
    assert texts_in(joined) == [[*expected[0], "1.5", "see you"], [*expected[1], "007", None]]
    counts = {one["name"]: (one["missing"], one["characters"]) for one in joined.parsed.table}
    assert counts["subject"] == (1, sum(len(str(text)) for text in expected[1]) + 3)


@pytest.mark.parametrize(
    ("cell", "code", "says"),
    [
        ("a\0b", "invalid-field", "NUL"),
        ("x" * (512 * 1024 + 1), "csv-cell-too-large", "524,288 bytes"),
        ("é" * (256 * 1024 + 1), "csv-cell-too-large", "524,288 bytes"),
        (["a"], "invalid-field", "is not a text"),
    ],
)
def test_cells_that_are_no_texts(client: TestClient, cell: Any, code: str, says: str) -> None:
    """They are refused with their row."""
    rows = [{"c": sentence(i) if i != 5 else cell, "k": "pq"[i % 2]} for i in range(12)]
    schema = '{"c": {"kind": "text"}}'
    bodies = [(NDJSON, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))]
    if isinstance(cell, str) and "\0" not in cell:
        bodies.append((CSV, table([["c", "k"], *(list(row.values()) for row in rows)], ",")))
    for media_type, content in bodies:
        body = problem(post(client, content, media_type, schema=schema, target="k"), 422, code)
        assert (body["errors"][0]["row"], body["errors"][0]["column"]) == (6, "c")
        assert says in body["detail"]


def test_half_of_a_pair_of_surrogates_is_refused(client: TestClient) -> None:
    """JSON can spell it, but it is no character."""
    line = '{"c": "half \\ud83d of it", "k": "p"}\n'
    body = problem(post(client, line * 3, NDJSON, target="k"), 400, "malformed-json")
    assert "surrogate" in body["detail"]


def test_documents_are_texts(client: TestClient) -> None:
    """Far longer than any other cell may be; also if all of them are."""
    cells = [f'{sentence(i)}, "quoted"\n\n' * 1500 for i in range(12)]
    reply = made(post(client, table_of(cells)))
    assert reply["columns"][0]["kind"] == "text"
    again = client.get(f"/v1/datasets/{reply['id']}/content", headers={"Accept": JSON}).json()
    assert [row[0] for row in again["rows"]] == cells


def test_many_columns_of_texts() -> None:
    """Each comes back as it was, whatever the order in which their rows came."""
    rows = [[f"text {i} of {j}" if (i + j) % 3 else None for j in range(200)] for i in range(500)]
    names = [f"c{j}" for j in range(200)]
    schema = {name: {"kind": "text"} for name in names}
    body = json.dumps({"columns": names, "rows": rows})
    result = upload(body, JSON, schema=schema, target="none")
    assert texts_in(result) == [list(column) for column in zip(*rows, strict=True)]
    other = upload(table([names, *rows], ","), CSV, schema=schema, target="none")
    assert other.parsed.matrix_digest == result.parsed.matrix_digest


def test_a_hundred_thousand_short_texts() -> None:
    """More than a category has levels."""
    cells = [f"see you there at {i} or so" for i in range(100_000)]
    result = upload(table([["c", "k"], *([c, "pq"[len(c) % 2]] for c in cells)], ","))
    assert result.parsed.table[0]["kind"] == "text"
    assert texts_in(result) == [cells]
    assert result.arrays["codes"].dtype == np.int32
