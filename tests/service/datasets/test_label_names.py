"""The label of a table whose upload names none: by its name, else by its place."""

from __future__ import annotations

import io
import json
from typing import Any
from urllib.parse import parse_qsl

import polars as pl
import pytest
from starlette.testclient import TestClient

from service.rows.spec import CSV, JSON, NDJSON, PARQUET
from tests.service.datasets.test_routes import made, post

pytestmark = pytest.mark.one_application


def _rows(names: list[str]) -> list[dict[str, Any]]:
    """Each column has two values and could be the label."""
    return [
        {name: ["u", "v"][(i >> place) % 2] + str(place) for place, name in enumerate(names)}
        for i in range(40)
    ]


def _sent(client: TestClient, names: list[str], media_type: str = CSV, **options: Any) -> Any:
    rows = _rows(names)
    body: bytes | str
    match media_type:
        case "text/csv":
            lines = (",".join(row.values()) for row in rows)
            body = "\n".join([",".join(names), *lines])
        case "application/json":
            body = json.dumps(rows)
        case "application/x-ndjson":
            body = "\n".join(map(json.dumps, rows))
        case _:
            file = io.BytesIO()
            pl.DataFrame(rows).write_parquet(file)
            body = file.getvalue()
    return made(post(client, body, media_type, **options))


def _codes(reply: Any) -> list[str]:
    return [one["code"] for one in reply["warnings"]]


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        *[("label", CSV), ("Labels", JSON), ("TARGET", NDJSON)],
        *[("class", PARQUET), ("Outcome", CSV), ("y", JSON)],
    ],
)
def test_column_called_like_a_label_is_the_label(
    client: TestClient, name: str, media_type: str
) -> None:
    """Wherever it is; the reply reports it if it is not the last one. Names are compared when the
    file is read, so each name needs one format."""
    reply = _sent(client, [name, "size", "color"], media_type)
    assert (reply["target"], reply["classes"]) == (name, ["u0", "v0"])
    [message] = [w["message"] for w in reply["warnings"] if w["code"] == "label-by-name"]
    assert f"'{name}' is taken as the label because of its name" in message
    assert "target=color" in message
    last = _sent(client, ["size", "color", name], media_type)
    assert last["target"] == name
    assert "label-by-name" not in _codes(last)


@pytest.mark.parametrize(
    ("names", "label"),
    [
        (["size", "color"], "color"),
        (["x", "y", "color"], "color"),
        (["X", "class", "y", "color"], "class"),
        (["y", "label", "color"], "label"),
        (["klass", "labeler", "yes"], "yes"),
    ],
    ids=["no such name", "a place", "a class of a place", "y is weaker", "parts of names"],
)
def test_other_names_say_nothing(client: TestClient, names: list[str], label: str) -> None:
    reply = _sent(client, names)
    assert reply["target"] == label
    assert "likely-targets" not in _codes(reply)


def test_two_such_names_leave_the_last_column_and_a_question(client: TestClient) -> None:
    reply = _sent(client, ["label", "class", "color"])
    assert reply["target"] == "color"
    [message] = [w["message"] for w in reply["warnings"] if w["code"] == "likely-targets"]
    assert "'label', 'class' are called like labels; the last column, 'color', is taken" in message


@pytest.mark.parametrize(
    ("options", "target"),
    [
        ({"target": "color"}, "color"),
        ({"target": "none"}, None),
        ({"schema": '{"label": {"role": "feature"}}'}, "color"),
        ({"schema": '{"label": {"role": "ignored"}}'}, "color"),
        ({"schema": '{"label": {"kind": "text"}}'}, "color"),
        ({"schema": '{"size": {"role": "label"}}'}, "size"),
        ({"schema": '{"label": {"kind": "category"}}'}, "label"),
        ({"group": "label"}, "color"),
    ],
    ids=["target", "none", "feature", "ignored", "text", "another label", "category", "group"],
)
def test_what_the_caller_says_counts_more(
    client: TestClient, options: dict[str, str], target: str | None
) -> None:
    reply = _sent(client, ["label", "size", "color"], **options)
    assert reply["target"] == target
    assert ("label-by-name" in _codes(reply)) == (target == "label")


def test_download_says_which_column_was_the_label(client: TestClient) -> None:
    """If an upload of it would take another one by its name."""
    first = _sent(client, ["label", "size", "color"], target="color")
    content = client.get(f"/v1/datasets/{first['id']}/content", headers={"Accept": CSV})
    query = dict(parse_qsl(content.headers["X-Upload-Query"]))
    assert query == {"target": "color"}
    again = post(client, content.content, CSV, **query).json()
    assert again["matrix_digest"] == first["matrix_digest"]
    plain = _sent(client, ["label", "size", "color"])
    content = client.get(f"/v1/datasets/{plain['id']}/content", headers={"Accept": CSV})
    assert "X-Upload-Query" not in content.headers
    assert post(client, content.content, CSV).json()["id"] == plain["id"]


def test_appended_rows_have_the_label_of_the_dataset(client: TestClient) -> None:
    """Not the column that is called so."""
    first = _sent(client, ["label", "size", "color"], target="color")
    rows = "label,size,color\nu0,v1,u2\n"
    reply = client.post(
        f"/v1/datasets/{first['id']}/append", content=rows, headers={"Content-Type": CSV}
    )
    assert reply.status_code == 201, reply.text
    assert (reply.json()["target"], reply.json()["n_samples"]) == ("color", 41)


def test_header_of_numbers_beside_a_label_first(client: TestClient) -> None:
    """The label is looked for where its name is."""
    lines = [f"{'ab'[i % 2]},{i},{i % 7}" for i in range(40)]
    reply = made(post(client, "\n".join(["label,p,q", *lines]), CSV))
    assert (reply["target"], reply["n_samples"]) == ("label", 40)
