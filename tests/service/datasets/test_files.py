"""Files as people have them, by body and by form: workbooks, archives of one file."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from service.rows.spec import XLSX
from tests.service.datasets.test_routes import made, post, problem
from tests.service.rows.workbooks import workbook

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
    assert client.get(content).text == "a,k\n1.0,x\n2.5,y\n"
    assert client.get(content, headers={"Accept": XLSX}).status_code == 406
    wrong = problem(post(client, BOOK, XLSX, sheet="Date"), 400, "invalid-parameter")
    assert "'Notes', 'Data'" in wrong["detail"]
    problem(post(client, "a,b\n1,2\n", sheet="Data"), 400, "invalid-parameter")
