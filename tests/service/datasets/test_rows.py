"""Rows of a dataset over HTTP: page by page, filtered and sorted."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from tests.service.datasets.test_routes import UNKNOWN, made, post, problem
from tests.service.rows.arrays import npy

pytestmark = pytest.mark.one_application

TABLE = "size,city,ok,born,label\n" + "".join(
    f"{i / 2 if i % 5 else ''},{['Oslo', 'Köln', ''][i % 3]},{str(i % 2 == 0).lower()},"
    f"2020-01-{i + 1:02},{'xy'[i % 2]}\n"
    for i in range(25)
)


def rows_of(client: TestClient, id_: str, **query: Any) -> list[dict[str, Any]]:
    """All pages."""
    rows: list[dict[str, Any]] = []
    while True:
        reply = client.get(f"/v1/datasets/{id_}/rows", params=query)
        assert reply.status_code == 200, reply.text
        page = reply.json()
        rows += page["rows"]
        if page["next_page_token"] is None:
            assert page["total"] == len(rows)
            return rows
        query["page_token"] = page["next_page_token"]


@pytest.mark.parametrize("size", [1, 7, 25, 1000])
def test_pages_have_each_row_once(client: TestClient, size: int) -> None:
    """With its number, and its cells by column; null where they are missing."""
    id_ = made(post(client, TABLE))["id"]
    rows = rows_of(client, id_, page_size=size)
    assert [row["row"] for row in rows] == list(range(1, 26))
    assert rows[7]["cells"] == {
        "label": "y",
        "size": 3.5,
        "city": "Köln",
        "ok": False,
        "born": "2020-01-08",
    }
    assert [row["cells"]["size"] is None for row in rows] == [i % 5 == 0 for i in range(25)]
    assert [row["cells"]["city"] is None for row in rows] == [i % 3 == 2 for i in range(25)]


def test_rows_are_filtered_and_sorted(client: TestClient) -> None:
    id_ = made(post(client, TABLE))["id"]
    where = json.dumps([["city", "is", "Oslo"], ["size", "at-least", "3"]])
    rows = rows_of(client, id_, where=where, sort="size", descending=True, page_size=2)
    assert [row["row"] for row in rows] == [
        i + 1 for i in reversed(range(25)) if i % 3 == 0 and i % 5 and i >= 6
    ]
    where = json.dumps([["size", "missing", ""]])
    assert [row["row"] for row in rows_of(client, id_, where=where)] == [1, 6, 11, 16, 21]
    assert rows_of(client, id_, where=json.dumps([["size", "is", "-1"]])) == []


REFUSED: dict[str, dict[str, Any]] = {
    "no JSON": {"where": "size > 3"},
    "no condition": {"where": '[["size", "is"]]'},
    "unknown test": {"where": '[["size", "like", "3"]]'},
    "unknown column": {"where": '[["age", "is", "3"]]'},
    "no number": {"where": '[["size", "is", "big"]]'},
    "too many conditions": {"where": json.dumps([["size", "missing", ""]] * 11)},
    "order by nothing": {"sort": "age"},
    "no size": {"page_size": 0},
    "too many rows": {"page_size": 1001},
    "no token": {"page_token": "abc"},
    "unknown parameter": {"limit": 3},
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_parameters_are_refused(client: TestClient, case: str) -> None:
    id_ = made(post(client, TABLE))["id"]
    reply = client.get(f"/v1/datasets/{id_}/rows", params=REFUSED[case])
    problem(reply, 400, "invalid-parameter")


def test_token_is_of_one_list(client: TestClient) -> None:
    """Not of another filter; and of `latest` it stays with the dataset where it began."""
    first = made(post(client, TABLE))["id"]
    page = client.get("/v1/datasets/latest/rows?page_size=20").json()
    made(post(client, "a,label\n1,x\n2,y\n3,x\n4,y\n"))
    token = page["next_page_token"]
    rest = client.get(f"/v1/datasets/latest/rows?page_size=20&page_token={token}").json()
    assert [row["row"] for row in rest["rows"]] == list(range(21, 26))
    for path in ("latest/rows?sort=size&", f"{first}/rows?"):
        reply = client.get(f"/v1/datasets/{path}page_token={token}")
        problem(reply, 400, "invalid-parameter")
    problem(client.get(f"{UNKNOWN}/rows"), 404, "not-found")


def test_sparse_rows_have_all_that_is_not_zero(client: TestClient) -> None:
    """However much that is."""
    lines = [f"{i % 2} " + " ".join(f"{j + 1}:{j + i}" for j in range(1, 60)) for i in range(9)]
    id_ = made(post(client, "\n".join(lines), "text/x-libsvm", dense="never"))["id"]
    rows = rows_of(client, id_, page_size=4)
    for i, row in enumerate(rows):
        assert row["cells"] == {"label": i % 2} | {str(j): j + i for j in range(1, 60)}


def test_pages_of_wide_data_are_short(client: TestClient) -> None:
    """Each row has all of its columns."""
    X = np.arange(15.0 * 19_000).reshape(15, -1)
    id_ = made(post(client, npy(X), "application/x-npy", target="none"))["id"]
    assert len(client.get(f"/v1/datasets/{id_}/rows").json()["rows"]) == 10
    cells = [list(row["cells"].values()) for row in rows_of(client, id_)]
    assert cells == X.tolist()
