"""Cells that do not fit their column: refused with their place, never read as something else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.service.datasets.test_routes import made, post, problem

pytestmark = pytest.mark.one_application


def table(cells: list[str]) -> str:
    """A file with these cells as its column `d`."""
    return "a,d,y\n" + "".join(f"{i},{cell},{'uv'[i % 2]}\n" for i, cell in enumerate(cells))


def column(reply: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {one["name"]: one for one in reply["columns"]}["d"]
    return described


@pytest.mark.parametrize("word", ["-99", "9999", "0.0"])
def test_number_that_means_missing(client: TestClient, word: str) -> None:
    """Whether or not all other cells are plain numbers."""
    for cells in (["1", word, "2"], ["1", word, "", "NA"], ["1", f" {word}", "2.5"]):
        kept = column(made(post(client, table([*cells, "3", "4"]), missing=word)))
        assert kept["kind"] == "number"
        assert kept["missing"] == sum(cell.strip() in (word, "", "NA") for cell in cells)
        assert kept["max"] == 4


def test_boolean_that_is_demanded(client: TestClient) -> None:
    """0 and 1 are booleans if the schema reports it; another number is refused."""
    schema = '{"d": {"kind": "boolean"}}'
    assert column(made(post(client, table(["0", "1.0", "", "true"]), schema=schema)))["kind"] == (
        "boolean"
    )
    reply = problem(post(client, table(["0", "5", "1", "x"]), schema=schema), 422, "not-a-boolean")
    assert [(f["row"], f["value"]) for f in reply["errors"]] == [(2, "5"), (4, "x")]


def test_boolean_that_is_demanded_of_json(client: TestClient) -> None:
    """The same of values with types."""
    rows: list[list[Any]] = [[1, 0], [2, True], [3, None]]
    body = {"columns": ["a", "d"], "rows": rows, "labels": ["u", "v", "u"]}
    schema = '{"d": {"kind": "boolean"}}'
    assert column(made(post(client, json.dumps(body), "application/json", schema=schema)))[
        "kind"
    ] == ("boolean")
    body["rows"] = [[1, 0], [2, 5], [3, None]]
    reply = problem(
        post(client, json.dumps(body), "application/json", schema=schema), 422, "not-a-boolean"
    )
    assert [(f["row"], f["column"], f["code"]) for f in reply["errors"]] == [
        (2, "d", "not-a-boolean")
    ]


@pytest.mark.parametrize("media_type", ["text/csv", "application/json"])
def test_append_numbers_to_booleans(client: TestClient, media_type: str) -> None:
    """In a column of booleans, 1 and 0 are accepted, 5 is not."""
    base = made(post(client, "a,b,y\n1,true,u\n2,,v\n3,false,u\n"))
    for value, status in ((1, 201), (5, 422)):
        rows = {"columns": ["a", "b"], "rows": [[4, value], [5, 0]], "labels": ["u", "v"]}
        text = f"a,b,y\n4,{value},u\n5,0,v\n"
        body = text if media_type == "text/csv" else json.dumps(rows)
        reply = client.post(
            f"/v1/datasets/{base['id']}/append",
            content=body,
            headers={"Content-Type": media_type},
        )
        assert reply.status_code == status, reply.text
        if status == 422:
            assert reply.json()["errors"][0]["row"] == 1
            assert reply.json()["code"] == "not-a-boolean"


@pytest.mark.parametrize("bad", ["2024-02-30", "0000-00-01", "10000-01-01", "soon"])
def test_date_that_is_not_one(client: TestClient, bad: str) -> None:
    """One wrong cell among dates does not make levels of them."""
    cells = [f"2024-01-{day:02}" for day in range(1, 10)]
    cells[3] = bad
    reply = problem(post(client, table(cells), odd_cells="refuse"), 422, "not-a-date")
    assert [(f["row"], f["column"], f["code"]) for f in reply["errors"]] == [(4, "d", "not-a-date")]
    assert post(client, table(cells)).status_code == (201 if bad.isalpha() else 422)
    kept = column(made(post(client, table(cells), missing=bad)))
    assert (kept["kind"], kept["missing"]) == ("date", 1)


def test_date_that_is_not_one_in_json(client: TestClient) -> None:
    """Also with a demanded kind: the column is not left out in silence."""
    cells = ["2024-01-01", "2024-13-01", "2024-01-03", None]
    body = {
        "columns": ["a", "d"],
        "rows": [[i, cell] for i, cell in enumerate(cells)],
        "labels": ["u", "v", "u", "v"],
    }
    for query in ({}, {"schema": '{"d": {"kind": "date"}}'}):
        reply = problem(
            post(client, json.dumps(body), "application/json", **query), 422, "not-a-date"
        )
        assert [(f["row"], f["code"]) for f in reply["errors"]] == [(2, "not-a-date")]


@pytest.mark.parametrize("bad", ["inf", "-Infinity", "1e999"])
def test_number_that_is_not_finite(client: TestClient, bad: str) -> None:
    """However many there are, numbers do not become levels."""
    reply = problem(post(client, table(["1", bad, "2.5", bad, "3", bad])), 422, "non-finite-value")
    assert [f["row"] for f in reply["errors"]] == [2, 4, 6]


def test_more_levels_than_allowed(client: TestClient) -> None:
    """10,000 different texts are a category, one more are not."""
    for extra in (0, 1):
        texts = [f"k{i % (10_000 + extra)}" for i in range(20_100)]
        reply = made(post(client, table(texts)))
        names = [one["name"] for one in reply["columns"]]
        assert names == (["a"] if extra else ["a", "d"])
    demanded = post(client, table(texts), schema='{"d": {"kind": "category"}}')
    problem(demanded, 422, "too-many-levels")


def test_first_cells_that_are_not_row_names(client: TestClient) -> None:
    """A header with one name less is R's only if the first cells tell the rows apart."""
    lines = [f"{i % 2},1,{i},{'uv'[i % 2]}" for i in range(6)]
    problem(post(client, "\n".join(["a,b,y", *lines]), target="y"), 422, "ragged-row")
    named = [f"r{i},1,{i},{'uv'[i % 2]}" for i in range(6)]
    assert made(post(client, "\n".join(["a,b,y", *named]), target="y"))["n_features"] == 2


def test_numbers_are_not_row_names(client: TestClient) -> None:
    """An unquoted comma makes a cell more, and must not move the names; R counts from 1."""
    comma = [f"{i * 3},{i},5,{'uv'[i % 2]}" for i in range(6)]
    problem(post(client, "\n".join(["a,b,y", *comma]), target="y"), 422, "ragged-row")
    counted = [f"{i},1,{i * i},{'uv'[i % 2]}" for i in range(1, 7)]
    assert made(post(client, "\n".join(["a,b,y", *counted]), target="y"))["n_features"] == 2


def test_cell_that_looks_like_a_comment(client: TestClient) -> None:
    """Excel's #N/A in the first column is a cell, and not the header."""
    reply = made(post(client, "v,w,y\n#N/A,1,u\n2,3,v\n4,5,u\n6,7,v\n"))
    assert [column["name"] for column in reply["columns"]] == ["v", "w"]
    assert reply["columns"][0]["missing"] == 1
    named = made(post(client, "#v,w,y\n1,1,u\n2,3,v\n"))
    assert [column["name"] for column in named["columns"]] == ["#v", "w"]


@pytest.mark.parametrize("rest", ["", ",,"])
def test_title_above_the_names(client: TestClient, rest: str) -> None:
    """It is left out, with a warning, if all lines below it agree; else one error says what to
    remove."""
    rows = [f"{i},{'xy'[i % 2]},{'uv'[i % 3 == 0]}" for i in range(9)]
    title = f"Report of 2024{rest}"
    reply = made(post(client, "\n".join([title, "", "a,b,y", *rows])))
    assert (reply["n_samples"], reply["reading"]["first_line"]) == (9, 3)
    (warning,) = (one for one in reply["warnings"] if one["code"] == "left-out-lines")
    assert "line 3" in warning["message"]
    assert "'Report of 2024'" in warning["message"]
    rows[4] += ",1"
    body = problem(post(client, "\n".join([title, "a,b,y", *rows])), 422, "ragged-row")
    assert body["errors_total"] == 1
    assert "'Report of 2024' alone" in body["detail"]


def test_two_encodings_in_a_file(client: TestClient) -> None:
    """A row of Windows-1252 in a file of UTF-8 is refused, with its line; not read as nonsense."""
    lines = [f"{i},Müller {i % 3},{'uv'[i % 2]}".encode() for i in range(9)]
    lines[6] = lines[6].decode().encode("cp1252")
    mixed = b"\n".join([b"a,b,y", *lines])
    body = problem(post(client, mixed), 400, "bad-encoding")
    assert "line 8" in body["detail"]
    assert made(post(client, mixed, encoding="windows-1252"))["n_samples"] == 9
    most = b"\n".join(
        [b"a,b,y", *(line.decode("utf-8", "replace").encode("cp1252", "replace") for line in lines)]
    )
    assert made(post(client, most))["n_samples"] == 9


def test_dates_of_two_forms(client: TestClient) -> None:
    """They are a category, and a warning says why."""
    cells = ["2024-01-15", "16.01.2024"] * 6
    reply = made(post(client, table(cells)))
    assert column(reply)["kind"] == "category"
    [message] = [w["message"] for w in reply["warnings"] if w["code"] == "undecided-dates"]
    assert "several forms" in message


def test_dates_with_two_readings_that_are_demanded(client: TestClient) -> None:
    """The error shows both forms; it does not say that the cells are no dates."""
    schema = '{"d": {"kind": "date"}}'
    body = problem(
        post(client, table(["01/02/2024", "03/04/2024"] * 4), schema=schema), 422, "not-a-date"
    )
    assert "DD/MM/YYYY or MM/DD/YYYY" in body["detail"]
    assert "YYYY-MM-DD" in body["detail"]


@pytest.mark.parametrize("cells", [["1%", "2", "3%", "4"] * 4, ["$1", "€2", "$3", "€4"] * 4])
def test_numbers_with_several_units(client: TestClient, cells: list[str]) -> None:
    """The unit is wrong, not the number."""
    body = problem(post(client, table(cells)), 422, "not-a-number")
    assert "another unit" in body["detail"]
    assert "same unit" in body["columns"][0]["hint"]


@pytest.mark.parametrize("others", ["xyz", "123"])
def test_numbers_that_begin_with_zero(client: TestClient, others: str) -> None:
    """Postal codes are read as numbers, and a warning shows one of them."""
    lines = [f"0{1067 + i % 5},{others[i % 3]},{'uv'[i % 2]}" for i in range(20)]
    reply = made(post(client, "\n".join(["zip,b,y", *lines])))
    [warning] = [w for w in reply["warnings"] if w["code"] == "leading-zeros"]
    assert warning["columns"] == ["zip"]
    assert "'01067'" in warning["message"]
    said = made(
        post(client, "\n".join(["zip,b,y", *lines]), schema='{"zip": {"kind": "category"}}')
    )
    assert said["columns"][0]["levels"][0] == "01067"
    assert "leading-zeros" not in {w["code"] for w in said["warnings"]}


def test_whole_numbers_that_are_rounded(client: TestClient) -> None:
    """Identifiers of 17 digits become equal as numbers: a warning is given."""
    lines = [f"{2**60 + i},{i % 3},{'uv'[i % 2]}" for i in range(20)]
    reply = made(post(client, "\n".join(["account,b,y", *lines])))
    [warning] = [w for w in reply["warnings"] if w["code"] == "inexact-integers"]
    assert warning["columns"] == ["account"]


def test_schema_against_the_label(client: TestClient) -> None:
    """The label is not a feature, and what is ignored cannot be the label."""
    text = table(["1", "2", "3", "4"])
    reply = problem(
        post(client, text, schema='{"y": {"role": "feature"}}'), 400, "invalid-parameter"
    )
    assert "but it is the label" in reply["detail"]
    for role in ("ignored", "weight"):
        schema = json.dumps({"d": {"role": role}})
        said = post(client, text, schema=schema, target="d")
        reply = problem(said, 400, "invalid-parameter")
        assert "`target` names 'd'" in reply["detail"]


def test_rows_of_another_width_in_a_large_file(client: TestClient) -> None:
    """A cell too many and one too few in the next row; blank lines and comments do not count."""
    lines = [f"{i % 7},{'abc'[i % 3]},{'xy'[i % 2]}" for i in range(20_000)]
    whole = "n,c,k\n" + "\n".join(lines)
    expected = made(post(client, whole))
    between = [*lines[:9_000], "", "# a comment", "   ", *lines[9_000:]]
    assert post(client, "n,c,k\n" + "\n".join(between)).json()["id"] == expected["id"]
    lines[12_000] += ",1"
    lines[12_001] = "1,a"
    body = problem(post(client, "n,c,k\n" + "\n".join(lines)), 422, "ragged-row")
    assert [error["row"] for error in body["errors"]] == [12_001, 12_002]
