"""A table in the German way is uploaded, trained on, and its own file is predicted."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from service.app import create_app
from service.jobs.engine.worker_process import Worker
from service.settings import Settings
from tests.service.models.example_models import ExampleModels

HEADER = ["Nr", "Größe", "Preis", "Anteil", "Tag", "Farbe", "Stück", "Punkt", "Klasse"]
NAMES = HEADER[1:-1]
COLORS = ["rot", "grün", "weiß"]

Row = dict[str, Any]


def values(n: int) -> list[Row]:
    """Rows as a program has them."""
    draw = np.random.default_rng(0)
    rows = []
    for i in range(n):
        size = round(float(draw.normal(2.0, 1.0)), 2)
        color = COLORS[draw.integers(3)]
        day = np.datetime64("2024-05-01") + draw.integers(300)
        rows.append(
            {
                "Nr": i + 1,
                "Größe": None if i % 9 == 4 else size,
                "Preis": float(draw.integers(1_000, 9_999_999)),
                "Anteil": round(float(draw.uniform(0, 100)), 1),
                "Tag": str(day),
                "Farbe": None if i % 11 == 5 else color,
                "Stück": int(draw.integers(0, 9)),
                "Punkt": round(float(draw.normal()), 4),
                "Klasse": "gut" if size + (color == "rot") > 2.2 else "schlecht",
            }
        )
    return rows


def german(rows: list[Row], names: list[str] = HEADER) -> bytes:
    """A file of a spreadsheet."""

    def cells(row: Row) -> list[str]:
        size, color = row["Größe"], row["Farbe"]
        year, month, day = row["Tag"].split("-")
        texts = {
            **row,
            "Größe": "k.A." if size is None else str(size).replace(".", ","),
            "Preis": f"{row['Preis']:,.2f} €".translate(str.maketrans(".,", ",.")),
            "Anteil": str(row["Anteil"]).replace(".", ",") + " %",
            "Tag": f"{day}.{month}.{year}",
            "Farbe": "k.A." if color is None else color,
            "Punkt": f"{row['Punkt']:.4f}",
        }
        return [str(texts[name]) for name in names]

    lines = [";".join(names), *(";".join(cells(row)) for row in rows)]
    return ("\r\n".join(lines) + "\r\n").encode("cp1252")


def usual(rows: list[Row], delimiter: str = ",") -> bytes:
    """The same with decimal points in UTF-8."""
    lines = [delimiter.join(HEADER)]
    for row in rows:
        cells = ["" if row[name] is None else str(row[name]) for name in HEADER]
        lines.append(delimiter.join(cells))
    return "\n".join(lines).encode()


ROWS = values(200)
FILE = german(ROWS)


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExampleModels]:
    """The models `german` of all columns, `numbers` of numbers without gaps, and `imported`."""
    settings = Settings(data_dir=tmp_path_factory.mktemp("german"), workers=0)
    with TestClient(create_app(settings)) as client:
        examples = ExampleModels(client, settings, {})
        for name, content in (
            ("german", FILE),
            ("numbers", german(ROWS, ["Preis", "Anteil", "Punkt", "Klasse"])),
        ):
            reply = client.post(
                "/v1/datasets?missing=k.A.", content=content, headers={"Content-Type": "text/csv"}
            )
            assert reply.status_code == 201, reply.text
            examples.datasets[name] = reply.json()["id"]
            examples.train(name, reply.json()["id"], solver={"name": "newton"})
        exported = client.get("/v1/models/german/versions/1/export?format=json")
        assert exported.status_code == 200, exported.text
        reply = client.post(
            "/v1/models/imported/versions",
            content=exported.content,
            headers={"Content-Type": "application/json"},
        )
        assert reply.status_code == 201, reply.text
        yield examples


def post(examples: ExampleModels, model: str, content: Any, media_type: str = "text/csv") -> Any:
    return examples.client.post(
        f"/v1/models/{model}/predict?outputs=label,decision",
        content=content,
        headers={"Content-Type": media_type},
    )


def decisions(
    examples: ExampleModels, model: str, content: Any, media_type: str = "text/csv"
) -> list[float]:
    reply = post(examples, model, content, media_type)
    assert reply.status_code == 200, reply.text
    found: list[float] = reply.json()["decision"]
    return found


def instances(rows: list[Any]) -> str:
    return json.dumps({"instances": rows})


@pytest.mark.parametrize("model", ["german", "imported"])
def test_the_training_file_is_predicted(examples: ExampleModels, model: str) -> None:
    """As the batch prediction of its dataset, and as JSON rows of the same values, to the bit."""
    reply = post(examples, model, FILE)
    assert reply.status_code == 200, reply.text
    assert reply.json()["ignored_columns"] == ["Nr", "Klasse"]
    found = reply.json()["decision"]
    assert found == decisions(examples, model, instances(ROWS), "application/json")
    lines = "\n".join(map(json.dumps, ROWS))
    assert found == decisions(examples, model, lines, "application/x-ndjson")
    assert found == decisions(examples, model, usual(ROWS))
    assert found == decisions(examples, model, usual(ROWS, "\t"), "text/tab-separated-values")
    assert found == decisions(examples, model, FILE.decode("cp1252").encode())
    right = [a == row["Klasse"] for a, row in zip(reply.json()["label"], ROWS, strict=True)]
    assert np.mean(right) > 0.8


def test_one_row_of_it(examples: ExampleModels) -> None:
    """Each alone has the bits that it has in the file; also without the header, columns turned."""
    found = decisions(examples, "german", FILE)
    turned = HEADER[::-1]
    for i in range(12):
        assert decisions(examples, "german", german([ROWS[i]])) == [found[i]]
        assert decisions(examples, "german", german([ROWS[i]], turned)) == [found[i]]
        headless = german([ROWS[i]], NAMES).split(b"\n", 1)[1]
        assert decisions(examples, "german", headless) == [found[i]]


def test_numbers_alone(examples: ExampleModels) -> None:
    """A table of finite numbers."""
    names = ["Preis", "Anteil", "Punkt"]
    found = decisions(examples, "numbers", german(ROWS, [*names, "Klasse"]))
    plain_rows = [[row[name] for name in names] for row in ROWS]
    assert found == decisions(examples, "numbers", instances(plain_rows), "application/json")
    assert found == decisions(examples, "numbers", usual(ROWS))
    assert found[:1] == decisions(examples, "numbers", german(ROWS[:1], names).split(b"\n", 1)[1])


def test_batch_prediction_has_the_same_bits(examples: ExampleModels) -> None:
    """Of the dataset that was made of the file."""
    client = examples.client
    asked = {"dataset_id": examples.datasets["german"], "model": "german", "format": "ndjson"}
    reply = client.post("/v1/batch-predictions", json=asked | {"outputs": ["decision"]})
    assert reply.status_code == 202, reply.text
    assert Worker(examples.settings, threading.Event()).take_next_job()
    content = client.get(f"{reply.headers['Location']}/results").text
    found = [json.loads(line)["decision"] for line in content.splitlines()]
    assert decisions(examples, "german", FILE) == found


def test_json_takes_dates_and_words_of_the_file(examples: ExampleModels) -> None:
    """German dates and the words for missing cells; and ISO dates and null as always."""
    row = ROWS[4]
    written = {**row, "Größe": "k.A.", "Tag": ".".join(reversed(row["Tag"].split("-")))}
    expected = decisions(examples, "german", instances([row]), "application/json")
    assert decisions(examples, "german", instances([written]), "application/json") == expected


def test_what_is_expected_is_said(examples: ExampleModels) -> None:
    """The delimiters, the form of numbers and dates."""
    body = b"Gr\xf6\xdfe;Preis\n1,5;2\n"
    problem = post(examples, "german", body).json()
    assert problem["code"] == "feature-mismatch"
    assert "';'" in problem["errors"][0]["hint"]
    bad = FILE.replace(b";0;", b";0.5;", 1).replace(b" \x80;", b";", 1)
    problem = post(examples, "german", bad).json()
    hints = [error["hint"] for error in problem["errors"]]
    assert any("decimal comma and €" in hint for hint in hints), problem
    assert any("decimal comma" in hint and "€" not in hint for hint in hints), problem
    bad = FILE.replace(ROWS[0]["Tag"][8:].encode() + b".", b"99.", 1)
    problem = post(examples, "german", bad).json()
    assert "DD.MM.YYYY" in problem["errors"][0]["hint"]


def test_the_version_shows_how_to_write_rows(examples: ExampleModels) -> None:
    """As its dataset does; an imported one too."""
    dataset = examples.client.get(f"/v1/datasets/{examples.datasets['german']}").json()
    for model in ("german", "imported"):
        version = examples.client.get(f"/v1/models/{model}/versions/1").json()
        assert version["reading"] == dataset["reading"]
    assert dataset["reading"]["columns"]["Punkt"] == {"decimal": "."}
    assert dataset["reading"]["missing"] == ["k.A."]


def test_a_reading_that_no_upload_gives(examples: ExampleModels) -> None:
    exported = examples.client.get("/v1/models/german/versions/1/export?format=json").json()
    wrong: list[Any] = [[], {"delimiter": "ab"}, {"columns": {"a": 1}}, {"missing": [1]}]
    for reading in wrong:
        exported["origin"]["reading"] = reading
        reply = examples.client.post("/v1/models/imported/versions", json=exported)
        assert reply.status_code == 422, reply.text
        assert reply.json()["code"] == "invalid-model"
