"""Columns beside the features: weights, groups and times of rows, in every format that has them."""

from __future__ import annotations

import csv
import io
import json
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import pytest
from starlette.testclient import TestClient

from service.rows.spec import CSV, JSON, LIBSVM, NDJSON, PARQUET, TSV, XLSX
from service.settings import Settings
from tests.service.datasets.test_routes import post, problem
from tests.service.datasets.test_tables import loaded
from tests.service.rows.arrays import parquet
from tests.service.rows.workbooks import workbook

pytestmark = pytest.mark.one_application

NAMES = ["n", "c", "patient", "when", "w", "k"]
PATIENTS = ["p2", "p10", None, "p2", 'a "b", c', "p10", None, "é", "p2", "é"]
N = len(PATIENTS)
ROWS: list[list[Any]] = [
    [i * 0.5, "xyz"[i % 3], PATIENTS[i], f"2024-01-{10 + i // 2}", 1 + i % 2, "uv"[i % 2]]
    for i in range(N)
]
ROLES = {"group": "patient", "time": "when", "weight": "w"}


def sent(reply: Any) -> dict[str, Any]:
    """The dataset, new or not."""
    assert reply.status_code in (200, 201), reply.text
    dataset: dict[str, Any] = reply.json()
    return dataset


def delimited(names: list[str], rows: list[list[Any]], delimiter: str = ",") -> str:
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter).writerows([names, *rows])
    return file.getvalue()


def in_format(media_type: str, names: list[str], rows: list[list[Any]]) -> str | bytes:
    if media_type in (CSV, TSV):
        return delimited(names, rows, "," if media_type == CSV else "\t")
    if media_type == JSON:
        return json.dumps({"columns": names, "rows": rows})
    if media_type == NDJSON:
        return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
    if media_type == XLSX:
        return workbook({"table": [names, *rows]})
    columns = [np.array(cells, dtype=object) for cells in zip(*rows, strict=True)]
    kinds = [object if any(type(one) is str for one in cells) else float for cells in columns]
    typed = [cells.astype(kind) for cells, kind in zip(columns, kinds, strict=True)]
    return parquet(dict(zip(names, typed, strict=True)))


FORMATS = (CSV, TSV, JSON, NDJSON, PARQUET, XLSX)


@pytest.mark.parametrize("media_type", FORMATS)
def test_roles_are_arrays_beside_the_features(
    client: TestClient, settings: Settings, media_type: str
) -> None:
    """Of equal content equal ones, with the same digest, in every format."""
    dataset = sent(post(client, in_format(media_type, NAMES, ROWS), media_type, **ROLES))
    assert [dataset[role] for role in ROLES] == list(ROLES.values())
    assert [one["name"] for one in dataset["columns"]] == ["n", "c"]
    stored, data = loaded(settings, dataset["id"])
    assert data.weights.tolist() == [row[4] for row in ROWS]
    assert data.groups.tolist() == [2, 1, 4, 2, 0, 1, 5, 3, 2, 3]
    assert (data.times - data.times[0]).tolist() == [i // 2 for i in range(N)]
    assert (stored.time_is_date, stored.statistics["group"]) == (
        True,
        {"distinct": 4, "largest": 3},
    )
    day = data.times[0]
    assert stored.statistics["time"] == {"min": day, "max": day + 4, "distinct": 5}
    same = sent(post(client, delimited(NAMES, ROWS), **ROLES))
    assert same["matrix_digest"] == dataset["matrix_digest"]


@pytest.mark.parametrize("media_type", [CSV, TSV, JSON, NDJSON, PARQUET])
@pytest.mark.parametrize("features", [["n", "c"], ["n"]])
def test_downloads_give_back_the_roles(
    client: TestClient, media_type: str, features: list[str]
) -> None:
    """Also beside plain numbers; formats without a place for them are not offered."""
    names = [*features, *NAMES[2:]]
    rows = [[row[NAMES.index(name)] for name in names] for row in ROWS]
    dataset = sent(post(client, delimited(names, rows), **ROLES))
    path = f"/v1/datasets/{dataset['id']}/content"
    content = client.get(path, headers={"Accept": media_type})
    assert content.status_code == 200
    query = dict(parse_qsl(content.headers["X-Upload-Query"]))
    assert query == ROLES
    again = sent(post(client, content.content, media_type, **query))
    assert again["id"] == dataset["id"]
    assert client.get(path, headers={"Accept": "application/x-npz"}).status_code == 406


@pytest.mark.parametrize("dense", ["always", "never"])
def test_libsvm_has_groups(client: TestClient, settings: Settings, dense: str) -> None:
    """`qid`, as SVMlight and scikit-learn write them, also beside weights; they come back."""
    lines = "1 qid:7 1:1 3:2\n2 qid:7 cost:2 2:1\n1 qid:b 3:4\n2 1:1\n"
    dataset = sent(post(client, lines, LIBSVM, dense=dense))
    assert (dataset["group"], dataset["weight"], dataset["time"]) == ("group", "weight", None)
    if dense == "always":
        _, data = loaded(settings, dataset["id"])
        assert (data.groups.tolist(), data.weights.tolist()) == ([0, 0, 1, 2], [1, 2, 1, 1])
    else:
        content = client.get(f"/v1/datasets/{dataset['id']}/content").text
        assert content.startswith("1 qid:7 cost:1 1:1 3:2\n")
        assert sent(post(client, content, LIBSVM, dense=dense))["id"] == dataset["id"]


def test_times_are_dates_or_numbers(client: TestClient, settings: Settings) -> None:
    """Numbers stay as they are; equal numbers and dates are not the same dataset."""
    texts = {"date": ["1970-01-02", "1970-01-03"], "number": ["1", "2"], "comma": ["1,5", "2,5"]}
    digests = set()
    for kind, cells in texts.items():
        text = "n;t;k\n" + "".join(f"{i};{cells[i // 2]};{i % 2}\n" for i in range(4))
        dataset = sent(post(client, text, time="t"))
        stored, data = loaded(settings, dataset["id"])
        assert stored.time_is_date == (kind == "date")
        assert data.times.tolist() == ([1.5, 1.5, 2.5, 2.5] if kind == "comma" else [1, 1, 2, 2])
        digests.add(dataset["matrix_digest"])
    assert len(digests) == len(texts)


@pytest.mark.parametrize("media_type", FORMATS)
@pytest.mark.parametrize(("cell", "code"), [(None, "missing-value"), ("soon", "not-a-date")])
def test_each_row_needs_a_time(
    client: TestClient, media_type: str, cell: str | None, code: str
) -> None:
    rows = [[*row] for row in ROWS]
    rows[6][3] = cell
    error = problem(
        post(client, in_format(media_type, NAMES, rows), media_type, **ROLES), 422, code
    )
    assert [(one["row"], one["column"]) for one in error["errors"]] == [(7, "when")]


def test_groups_are_as_many_as_rows(client: TestClient, settings: Settings) -> None:
    """There is no limit of levels; numbers are texts as they are written."""
    n = 25_000
    text = "n,g,k\n" + "".join(f"{i % 7},{i:05},{i % 2}\n" for i in reversed(range(n)))
    dataset = sent(post(client, text, group="g"))
    stored, data = loaded(settings, dataset["id"])
    assert stored.statistics["group"] == {"distinct": n, "largest": 1}
    assert data.groups.tolist() == list(reversed(range(n)))


def test_append_joins_groups(client: TestClient, settings: Settings) -> None:
    """As if all rows had come at once; both sides have the same roles."""
    first = sent(post(client, delimited(NAMES, ROWS[:4]), **ROLES))
    path, headers = f"/v1/datasets/{first['id']}/append", {"Content-Type": CSV}
    both = sent(client.post(path, content=delimited(NAMES, ROWS[4:]), headers=headers))
    whole = sent(post(client, delimited(NAMES, ROWS), **ROLES))
    assert both["matrix_digest"] == whole["matrix_digest"]
    without = delimited([n for n in NAMES if n != "patient"], [r[:2] + r[3:] for r in ROWS])
    error = problem(client.post(path, content=without, headers=headers), 422, "feature-mismatch")
    assert "the dataset has groups, the rows have none" in error["detail"]
    later = [[*row[:3], 7, *row[4:]] for row in ROWS]
    body = client.post(path, content=delimited(NAMES, later), headers=headers)
    assert problem(body, 422, "not-a-date")["errors"][0]["column"] == "when"


def test_parts_have_the_roles(client: TestClient, settings: Settings) -> None:
    """Those of their rows only, as if each had been uploaded by itself; so do rows with a label."""
    rows = [[i, f"g{i % 5}", f"2024-02-{1 + i:02}", "uv"[i % 2]] for i in range(20)]
    names, roles = ["n", "patient", "when", "k"], {"group": "patient", "time": "when"}
    whole = sent(post(client, delimited(names, rows), **roles))
    split = sent(client.post(f"/v1/datasets/{whole['id']}/split", json={"fraction": 0.25}))
    before: tuple[set[str], set[str]] = set(), set()
    for part in split.values():
        _, data = loaded(settings, part["id"])
        own = [rows[int(i)] for i in np.asarray(data.X)[:, 0]]
        same = sent(post(client, delimited(names, own), **roles))
        groups, times = {str(row[1]) for row in own}, {str(row[2]) for row in own}
        assert groups.isdisjoint(before[0])
        assert not before[1] or max(before[1]) < min(times)
        before = groups, times
        assert (same["matrix_digest"], part["time"]) == (part["matrix_digest"], "when")
    one = sent(post(client, delimited(names, [[*row[:1], "g", *row[2:]] for row in rows]), **roles))
    reply = client.post(f"/v1/datasets/{one['id']}/split", json={"fraction": 0.25})
    assert "all rows are of one group" in problem(reply, 422, "not-separable")["detail"]
    gaps = [[*row[:3], "" if i == 3 else row[3]] for i, row in enumerate(rows)]
    labeled = sent(post(client, delimited(names, gaps), **roles))
    same = sent(post(client, delimited(names, rows[:3] + rows[4:]), **roles))
    assert labeled["matrix_digest"] == same["matrix_digest"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group": "z"}, "no column 'z'"),
        ({"group": "patient", "time": "patient"}, "`time` names 'patient', which has another"),
        ({"group": "c", "schema": '{"c": {"kind": "category"}}'}, "has another role or kind"),
        ({"schema": '{"c": {"role": "time"}, "n": {"role": "time"}}'}, "two columns with the role"),
        ({"group": "k", "target": "k"}, "`target` names 'k'"),
    ],
)
def test_roles_that_contradict(client: TestClient, options: dict[str, str], message: str) -> None:
    body = problem(post(client, delimited(NAMES, ROWS), **options), 400, "invalid-parameter")
    assert message in body["detail"]


def test_roles_are_suggested(client: TestClient) -> None:
    """By the name of a column and its few rows a level, and by the order of the file. Nothing
    changes by itself, and what has its role is not suggested."""
    days = [f"2024-03-{1 + i // 3:02}" for i in range(60)]
    rows = [[f"u{i % 12}", day, i % 7, "uv"[i % 2]] for i, day in enumerate(days)]
    text = delimited(["user_id", "day", "n", "k"], rows)
    dataset = sent(post(client, text, validate_only="true"))
    hints = {one["code"]: one for one in dataset["warnings"] if one["code"].startswith("likely-")}
    assert {code: one["columns"] for code, one in hints.items()} == {
        "likely-group": ["user_id"],
        "likely-time": ["day"],
    }
    assert "12 values with 5 rows each" in hints["likely-group"]["message"]
    assert "make it the group" in hints["likely-group"]["message"]  # pages show it, too
    assert (dataset["group"], dataset["n_features"]) == (None, 3)
    others = [delimited(["color", "day", "n", "k"], rows[::-1])]
    others.append(delimited(["user_id", "day", "n", "k"], [["u", *row[1:]] for row in rows[::-1]]))
    for other, roles in (
        (others[0], {}),
        (others[1], {}),
        (text, {"group": "user_id", "time": "day"}),
    ):
        codes = [one["code"] for one in sent(post(client, other, **roles))["warnings"]]
        assert not {"likely-group", "likely-time"}.intersection(codes)


def test_features_may_be_called_like_roles(client: TestClient) -> None:
    """They are downloaded in every format."""
    text = delimited(["weight", "group", "time", "k"], [[i, i % 3, i % 4, i % 2] for i in range(9)])
    dataset = sent(post(client, text))
    path = f"/v1/datasets/{dataset['id']}/content"
    content = client.get(path, headers={"Accept": PARQUET})
    assert content.status_code == 200
    assert sent(post(client, content.content, PARQUET))["matrix_digest"] == dataset["matrix_digest"]


def test_groups_are_told_apart_by_all_their_digits(client: TestClient) -> None:
    """Whole numbers beyond 2^53, in every format; `17.0` is `17`; NA is a name, as in JSON."""
    numbers = [1234567890123456700 + i % 5 for i in range(20)]
    lines = "".join(f"{number},{i % 7},{i % 2}\n" for i, number in enumerate(numbers))
    arrays = {"g": np.array(numbers), "x": np.arange(20) % 7, "y": np.arange(20) % 2}
    sent = [("text/csv", f"g,x,y\n{lines}".encode()), (PARQUET, parquet(arrays))]
    found = [
        client.post(
            "/v1/datasets?group=g", content=content, headers={"Content-Type": media_type}
        ).json()
        for media_type, content in sent
    ]
    assert found[0]["matrix_digest"] == found[1]["matrix_digest"]
    parts = client.post(f"/v1/datasets/{found[0]['id']}/split", json={"fraction": 0.4}).json()
    assert parts["test"]["n_samples"] == 8
    whole, real, named = (
        client.post("/v1/datasets?group=g", content=text, headers={"Content-Type": "text/csv"})
        for text in (
            "g,x,y\n" + "".join(f"{i % 4},{i},{i % 2}\n" for i in range(20)),
            "g,x,y\n" + "".join(f"{i % 4}.0,{i},{i % 2}\n" for i in range(20)),
            "g,x,y\n" + "".join(f"{('NA', 'DE')[i % 2]},{i},{i % 3}\n" for i in range(20)),
        )
    )
    assert whole.json()["id"] == real.json()["id"]
    parts = client.post(f"/v1/datasets/{named.json()['id']}/split", json={"fraction": 0.5}).json()
    assert parts["test"]["n_samples"] == 10


def test_lines_of_libsvm_may_have_a_group_and_no_feature(client: TestClient) -> None:
    headers = {"Content-Type": "text/x-libsvm"}
    body = "1 qid:3 2:2\n-1 qid:4 cost:2\n1 qid:5\n"
    reply = client.post("/v1/datasets", content=body, headers=headers)
    assert reply.status_code == 201, reply.text
    path = f"/v1/datasets/{reply.json()['id']}/content"
    text = client.get(path, headers={"Accept": LIBSVM})
    again = client.post("/v1/datasets", content=text.content, headers=headers)
    assert again.json()["id"] == reply.json()["id"]
