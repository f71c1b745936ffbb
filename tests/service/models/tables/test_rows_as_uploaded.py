"""Rows to predict are read as uploads are: cells, names, encodings, files as people have them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from starlette.testclient import TestClient

from service.app import create_app
from service.rows.spec import PARQUET, XLSX
from service.settings import Settings
from tests.service.models.example_models import ExampleModels
from tests.service.rows.workbooks import workbook

CSV, JSON = "text/csv", "application/json"
DAYS = [f"2024-01-{i:02},{100 + 31.5 * i!r},{'q' if i < 16 else 'p'}" for i in range(1, 31)]
PEOPLE = [f"{i},{20 + 7 * i % 60},{'abc'[i % 3]},{'pq'[i % 2]}" for i in range(1, 41)]
DAY = {"day": "2024-01-25", "amount": 1150.5}


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExampleModels]:
    """The models `days` of a date and a number, and `people` of a file whose `id` is ignored."""
    settings = Settings(data_dir=tmp_path_factory.mktemp("people"), workers=0)
    with TestClient(create_app(settings)) as client:
        examples = ExampleModels(client, settings, {})
        files = {"days": ["day,amount,y", *DAYS], "people": ["id,age,city,y", *PEOPLE]}
        for name, lines in files.items():
            reply = client.post(
                "/v1/datasets", content="\n".join(lines), headers={"Content-Type": CSV}
            )
            assert reply.status_code == 201, reply.text
            examples.datasets[name] = reply.json()["id"]
            examples.train(name, reply.json()["id"], solver={"name": "newton"})
        yield examples


def post(examples: ExampleModels, model: str, content: Any, media_type: str) -> Any:
    path = f"/v1/models/{model}/predict?outputs=label,decision"
    return examples.client.post(path, content=content, headers={"Content-Type": media_type})


def decisions(examples: ExampleModels, model: str, content: Any, media_type: str = CSV) -> Any:
    reply = post(examples, model, content, media_type)
    assert reply.status_code == 200, reply.text
    return reply.json()["decision"]


def parquet(folder: Path, columns: str) -> bytes:
    path = folder / "rows.parquet"
    duckdb.sql(f"COPY (SELECT {columns}) TO '{path}' (FORMAT parquet)")
    return path.read_bytes()


ROWS = {
    "numbers as texts": (JSON, {**DAY, "amount": "1150.5"}),
    "blanks around names": (JSON, {" day": DAY["day"], "amount ": 1150.5}),
    "CSV": (CSV, "day,amount\n2024-01-25,1150.5\n"),
    "no header": (CSV, "2024-01-25,1150.5\n"),
    "blanks in the header": (CSV, " amount, day \n1150.5,2024-01-25\n"),
    "semicolons": (CSV, "day;amount\n2024-01-25;1150.5\n"),
    "UTF-16": (CSV, "day,amount\n2024-01-25,1150.5\n".encode("utf-16")),
    "UTF-16 without a mark": (CSV, "day,amount\n2024-01-25,1150.5\n".encode("utf-16-le")),
    "UTF-16 and semicolons": (CSV, "day;amount\n2024-01-25;1150.5\n".encode("utf-16")),
    "UTF-16, as it says": (f"{CSV}; charset=UTF-16BE", "2024-01-25,1150.5\n".encode("utf-16-be")),
    "EBCDIC, as it says": (
        f'{CSV}; charset="cp500"',
        "day,amount\n2024-01-25,1150.5\n".encode("cp500"),
    ),
    "NDJSON": ("application/x-ndjson", json.dumps({"day ": DAY["day"], "amount": "1150.5"})),
    "columns": (JSON, json.dumps({"day ": [DAY["day"]], "amount": [1150.5]})),
    "split": (JSON, json.dumps({"columns": [" amount", "day"], "rows": [[1150.5, DAY["day"]]]})),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_as_people_write_them(examples: ExampleModels, name: str) -> None:
    """The decision of the plain row, to the bit."""
    media_type, body = ROWS[name]
    content = json.dumps({"instances": [body]}) if isinstance(body, dict) else body
    wanted = decisions(examples, "days", json.dumps({"instances": [DAY]}), JSON)
    assert decisions(examples, "days", content, media_type) == wanted


def test_workbooks_and_parquet_files_are_rows(examples: ExampleModels, tmp_path: Path) -> None:
    """By the names of their columns; others are listed, and missing cells named."""
    plain = json.dumps({"instances": [DAY]})
    wanted = decisions(examples, "days", plain, JSON)
    columns = "1150.5 AS amount, 'a, \"b\"' AS note, DATE '2024-01-25' AS day"
    sheet: list[list[Any]] = [["amount", "note", "day"], [1150.5, 'a, "b"', "2024-01-25"]]
    for media_type, content in (
        (PARQUET, parquet(tmp_path, columns)),
        (XLSX, workbook({"rows": sheet})),
    ):
        reply = post(examples, "days", content, media_type)
        assert reply.status_code == 200, reply.text
        assert reply.json()["decision"] == wanted
        assert reply.json()["ignored_columns"] == ["note"]
    content = parquet(tmp_path, "NULL::DOUBLE AS amount, DATE '2024-01-25' AS day")
    unknown = post(examples, "days", content, PARQUET).json()["unknown"]
    assert unknown == {"count": 1, "cells": [{"row": 1, "column": "amount", "value": ""}]}


def test_wrong_files_of_rows_are_refused(examples: ExampleModels, tmp_path: Path) -> None:
    """With the reason, as uploads are."""
    for media_type, content, code, says in (
        (PARQUET, b"PAR1 and no more PAR1", "columnar-unsupported", "damaged"),
        (PARQUET, b"day,amount\n", "format-mismatch", "something else"),
        (PARQUET, parquet(tmp_path, "1 AS amount"), "feature-mismatch", "lacks 'day'"),
        (PARQUET, parquet(tmp_path, "'x' AS amount, '?' AS day"), "not-a-number", "row 1, column"),
        (PARQUET, parquet(tmp_path, "1 AS a FROM range(200000)"), "too-many-rows", "100,000"),
        (XLSX, b"PK\x03\x04[Content_Types].xml", "archive-unsupported", "save the workbook"),
    ):
        reply = post(examples, "days", content, media_type)
        problem = reply.json()
        assert 400 <= reply.status_code < 500, (says, reply.text)
        assert (problem["code"], says in problem["detail"]) == (code, True), reply.text
    assert post(examples, "days", b"", "text/csv; charset=klingon").status_code == 415


def test_rows_without_names_may_have_the_ignored_columns(examples: ExampleModels) -> None:
    """As the lines of the training file are, with their labels or without."""
    rows = [line.split(",") for line in PEOPLE[:5]]
    wanted = decisions(examples, "people", "\n".join(f"{row[1]},{row[2]}" for row in rows))
    for cells in (slice(0, 3), slice(0, 4)):
        body = "\n".join(",".join(row[cells]) for row in rows)
        assert decisions(examples, "people", body) == wanted
    reply = post(examples, "people", "1,2,30,b\n1,2,30,b,5\n", CSV)
    assert (reply.status_code, reply.json()["code"]) == (422, "ragged-row")
    reply = post(examples, "people", "1,2,30,b,5\n", CSV)
    assert (reply.status_code, reply.json()["code"]) == (422, "feature-mismatch")
    reply = post(examples, "people", "1,30,x\n2,,b\n", CSV)
    assert reply.json()["unknown"]["cells"] == [
        {"row": 1, "column": "city", "value": "x"},
        {"row": 2, "column": "age", "value": ""},
    ]
