"""Files as people have them, by body and by form: workbooks, archives of one file."""

from __future__ import annotations

import gzip

import pytest
from starlette.testclient import TestClient

from service.rows.spec import CSV, XLSX, ZIP
from tests.service.datasets.test_routes import made, post, problem
from tests.service.rows.workbooks import workbook, zipped

pytestmark = pytest.mark.one_application

BOOK = workbook({"Notes": [["nothing", "here"]], "Data": [["a", "k"], [1, "x"], [2.5, "y"]]})


def test_workbook(client: TestClient) -> None:
    """As the body, and in a form whose part only has a name; downloads are of other formats."""
    dataset = made(post(client, BOOK, XLSX, sheet="Data"))
    assert (dataset["format"], dataset["reading"]["sheet"]) == (XLSX, "Data")
    files = {"file": ("book.xlsx", BOOK, "application/octet-stream")}
    again = client.post("/v1/datasets", files=files, data={"sheet": "Data"})
    assert (again.status_code, again.json()["id"]) == (200, dataset["id"])
    content = f"/v1/datasets/{dataset['id']}/content"
    assert client.get(content).text == "a,k\n1,x\n2.5,y\n"
    assert client.get(content, headers={"Accept": XLSX}).status_code == 406
    wrong = problem(post(client, BOOK, XLSX, sheet="Date"), 400, "invalid-parameter")
    assert "'Notes', 'Data'" in wrong["detail"]
    problem(post(client, "a,b\n1,2\n", sheet="Data"), 400, "invalid-parameter")


def test_archives(client: TestClient) -> None:
    """As the body, and in forms under the types that clients give them."""
    table = b"a,k\n1,x\n2.5,y\n"
    dataset = made(post(client, zipped({"d.csv": table}), ZIP))
    assert dataset["format"] == CSV
    compressed = gzip.compress(table)
    for name, content, media_type in (
        ("d.csv.zip", zipped({"d.csv": table}), "application/x-zip-compressed"),
        ("d.csv.gz", compressed, "application/x-gzip"),
        ("d.csv.gz", compressed, "text/csv"),
        ("d.csv.gz", gzip.compress(table[:4]) + gzip.compress(table[4:]), "text/csv"),
        ("d.csv.gz", compressed, "application/octet-stream"),
    ):
        reply = client.post("/v1/datasets", files={"file": (name, content, media_type)})
        assert (reply.status_code, reply.json()["id"]) == (200, dataset["id"])
    labels = {"file": ("X.csv", b"a\n1\n2.5\n"), "labels": ("y.txt.gz", gzip.compress(b"x\ny\n"))}
    reply = client.post("/v1/datasets", files=labels)
    assert made(reply)["classes"] == ["x", "y"]
    problem(post(client, zipped({"a": table, "b": table}), ZIP), 422, "archive-unsupported")
    assert post(client, compressed, "application/gzip").json()["id"] == dataset["id"]
    appended = client.post(
        f"/v1/datasets/{dataset['id']}/append",
        content=zipped({"more.csv": table}),
        headers={"Content-Type": ZIP},
    )
    assert made(appended)["n_samples"] == 4
