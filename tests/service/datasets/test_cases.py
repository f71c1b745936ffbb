"""Files and cells as people have them: each was refused or misread once, as a report says.

`cases/uploads.csv` has a line for each upload: `file` in `cases/tables`, `options` of the query,
what is `wanted`, and what the reply `says`: words in its warnings, in `reading`, in the ignored
columns or in the problem, separated by `;`, alternatives by `|`. `cases/cells.csv` has columns of
cells, each with the kind and the value that it should have.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import cycle, groupby, islice
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import httpx2
import pytest
from starlette.testclient import TestClient

pytestmark = pytest.mark.one_application

CASES = Path(__file__).parent / "cases"
ROWS = 40
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ASKING = ("ambiguous-number", "not-a-number", "units", "leading-zeros", "undecided-dates")
"""Codes of errors and warnings that ask what a column means."""
DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t"}


def lines(name: str) -> list[dict[str, str]]:
    with (CASES / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def parameters(cases: dict[str, Any]) -> list[Any]:
    return [pytest.param(case, id=name) for name, case in cases.items()]


def columns() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """The cells of each column by its name; a word among other cells is a column by itself."""
    for name, cells in groupby(lines("cells.csv"), lambda one: one["column"]):
        if name.startswith("word among"):
            yield from ((f"{name}: {one['cell']}", [one]) for one in cells)
        else:
            yield name, list(cells)


UPLOADS = {f"{one['file']}?{one['options']}".strip("?"): one for one in lines("uploads.csv")}
COLUMNS = dict(columns())


@pytest.mark.spread(2)
@pytest.mark.parametrize("case", parameters(UPLOADS))
def test_upload(client: TestClient, case: dict[str, str]) -> None:
    content = (CASES / "tables" / case["file"]).read_bytes()
    reply = client.post(
        "/v1/datasets",
        params=dict(parse_qsl(case["options"])),
        files={"file": (case["file"], content)},
    )
    status, *parts = case["wanted"].split("; ")
    assert reply.status_code == int(status), reply.text
    got = reply.json()
    said = json.dumps(
        {key: got.get(key) for key in ("warnings", "reading", "ignored_columns", "target")}
        if status == "201"
        else got,
        ensure_ascii=False,
    ).replace('\\"', '"')
    for words in filter(None, case["says"].split(";")):
        assert any(word in said for word in words.split("|") or words), (words, said)
    for part in parts:
        check(client, got, part)


def check(client: TestClient, got: dict[str, Any], part: str) -> None:
    columns = {one["name"]: one for one in got["columns"] or ()}
    what, _, rest = part.partition(" ")
    if what == "rows":
        assert got["n_samples"] == int(rest)
    elif what == "features":
        assert got["n_features"] == int(rest)
    elif what == "sparse":
        assert got["sparse"]
    elif what == "classes":
        assert sorted(map(str, got["classes"])) == sorted(rest.split("|"))
    elif what == "target":
        assert got["target_kind"] == rest
    elif what == "kinds":
        kinds = re.findall(r"(\S.*?)=(number|category|date|boolean)(?: |$)", rest)
        assert {name: columns[name]["kind"] for name, _ in kinds} == dict(kinds)
    elif what == "ignored":
        assert {one["name"] for one in got["ignored_columns"]} == set(rest.split())
    elif what == "levels":
        name, _, levels = rest.removeprefix("of ").partition(" ")
        assert columns[name]["levels"] == levels.split("|")
    elif what in ("encoding", "delimiter"):
        assert got["reading"][what] == rest.removeprefix("= ")
    elif found := re.fullmatch(r"(\S+) has (\d+) missing", part):
        assert columns[found[1]]["missing"] == int(found[2])
    else:
        found = re.fullmatch(r"(\S+)\[(\d+)\] = (.*)", part)
        assert found is not None, f"a part that no check knows: {part}"
        cell = content_of(client, got["id"])[int(found[2]) - 1][found[1]]
        assert same(cell, found[3])


def content_of(client: TestClient, dataset: str) -> list[dict[str, str]]:
    url = f"/v1/datasets/{dataset}/content"
    reply: httpx2.Response = client.get(url, headers={"Accept": "text/csv"})
    return list(csv.DictReader(io.StringIO(reply.text)))


def same(cell: str, wanted: str) -> bool:
    try:
        return float(cell) == pytest.approx(float(wanted))
    except ValueError:
        pass
    try:
        moments = [datetime.fromisoformat(text) for text in (cell, wanted)]
        return len({one.replace(tzinfo=one.tzinfo or UTC) for one in moments}) == 1
    except ValueError:
        return cell == wanted


@pytest.mark.spread(3)
@pytest.mark.parametrize("cells", parameters(COLUMNS))
def test_column(client: TestClient, cells: list[dict[str, str]]) -> None:
    """A column of these cells, beside a column of numbers and a label of two classes."""
    texts = texts_of(cells)
    written = io.StringIO()
    delimiter = DELIMITERS[cells[0]["delimiter"]]
    writer = csv.writer(written, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    writer.writerow(["c", "x", "y"])
    writer.writerows([text, i % 7, "pq"[i % 2]] for i, text in enumerate(texts))
    reply = client.post("/v1/datasets", files={"file": ("column.csv", written.getvalue().encode())})
    said = reply.text.replace("\\\\", "\\")
    kinds = {one["kind"] for one in cells}
    if kinds == {"ask"}:
        assert any(code in said for code in ASKING), said
        return
    assert reply.status_code == 201, said
    got = reply.json()
    kind = next((str(one["kind"]) for one in got["columns"] if one["name"] == "c"), "none")
    if kinds.isdisjoint({"missing", "missing, told"}):
        wanted = kinds.pop().replace("time", "number")
        assert kind in wanted.split(" or "), said
    rows = {text: row["c"] for text, row in zip(texts, content_of(client, got["id"]), strict=True)}
    for one in cells:
        value = rows[one["cell"]]
        if one["kind"] == "missing":
            assert value == ""
        elif one["kind"] == "missing, told":
            assert value == ""
            assert repr(one["cell"]) in json.dumps(got["warnings"], ensure_ascii=False), said
        elif kind == "boolean":
            assert value in (one["value"], str(int(one["value"] == "true"))), one
        elif kind == "category":
            assert value in (one["value"], one["cell"])
        else:
            assert same(value, one["value"]), (one, value)


def texts_of(cells: list[dict[str, str]]) -> list[str]:
    """The column: the cells again and again, or a word among others of its sort."""
    name, word = cells[0]["column"], cells[0]["cell"]
    if not name.startswith("word among"):
        return list(islice(cycle(one["cell"] for one in cells), ROWS))
    n_rows, step = (120, 120) if "120" in name else (ROWS, 10)
    if "numbers" in name:
        others = [f"{i / 2 + 5:g}" for i in range(n_rows)]
    elif "dates" in name:
        others = [f"2024-{1 + i % 12:02d}-{1 + i % 28:02d}" for i in range(n_rows)]
    else:
        others = [("red", "green", "blue")[i % 3] for i in range(n_rows)]
    return [word if i % step == 4 else text for i, text in enumerate(others)]
