"""A table is uploaded, trained on, predicted, drawn and exported, as people have it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from service.app import create_app
from service.models.exports import plain
from service.settings import Settings
from tests.service.models.example_models import ExampleModels

NAMES = ["", "age", "sex", "class", "alone", "born", "port", "survived"]


def table(n: int, seed: int = 0) -> list[dict[str, str]]:
    """With an index without a name, gaps, and text that needs quotes."""
    random = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        age, sex = random.normal(40, 12), random.integers(2)
        survived = age + 20 * sex + random.normal(0, 5) < 50
        day = np.datetime64("1900-01-01") + random.integers(20_000)
        cells = (
            *(str(i), f"{age:.1f}" if random.random() < 0.8 else "", ("female", "male")[sex]),
            *(str(random.integers(1, 4)), str(bool(random.integers(2))), str(day)),
            *(random.choice(["S", 'Cork, "IE"', "Ö", ""]), "yes" if survived else "no"),
        )
        rows.append(dict(zip(NAMES, cells, strict=True)))
    return rows


def csv_of(rows: list[dict[str, str]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, NAMES, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_json(rows: list[dict[str, str]]) -> list[dict[str, Any]]:
    """As a program would send them: numbers, booleans and null."""
    return [
        {
            **row,
            "age": float(row["age"]) if row["age"] else None,
            "class": int(row["class"]),
            "alone": row["alone"] == "True",
            "port": row["port"] or None,
        }
        for row in rows
    ]


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExampleModels]:
    """Models `linear` and `kernel` of the same table."""
    settings = Settings(data_dir=tmp_path_factory.mktemp("tables"), workers=0)
    with TestClient(create_app(settings)) as client:
        examples = ExampleModels(client, settings, {})
        dataset = examples.upload(csv_of(table(300)), target="survived")
        for name, solver in (
            ("linear", {"name": "newton"}),
            ("kernel", {"name": "smo", "kernel": {"name": "gaussian", "gamma": 0.1}}),
        ):
            examples.datasets[name] = dataset
            examples.train(name, dataset, solver=solver, validation={"fraction": 0.3})
        yield examples


def predict(examples: ExampleModels, model: str, content: Any, media_type: str) -> Any:
    reply = examples.client.post(
        f"/v1/models/{model}/predict?outputs=label,decision",
        content=content,
        headers={"Content-Type": media_type},
    )
    assert reply.status_code == 200, reply.text
    return reply.json()


@pytest.mark.parametrize("model", ["linear", "kernel"])
def test_the_training_file_is_predicted_in_every_format(
    examples: ExampleModels, model: str
) -> None:
    """With the same bits, and most of its labels right; other columns are listed."""
    rows = table(300)
    content = csv_of(rows).encode()
    replies = [
        predict(examples, model, content, "text/csv"),
        predict(examples, model, json.dumps({"instances": as_json(rows)}), "application/json"),
        predict(examples, model, "\n".join(map(json.dumps, as_json(rows))), "application/x-ndjson"),
    ]
    for reply in replies:
        assert reply["ignored_columns"] == ["", "survived"]
        assert reply["decision"] == replies[0]["decision"]
    right = [a == row["survived"] for a, row in zip(replies[0]["label"], rows, strict=True)]
    assert np.mean(right) > 0.75


def test_a_version_shows_its_columns(examples: ExampleModels) -> None:
    """Kinds, levels, gaps; and in words what their encoding did, on the card too."""
    path = "/v1/models/linear/versions/1"
    version = examples.client.get(path).json()
    kinds = {column["name"]: column["kind"] for column in version["table"]["columns"]}
    assert kinds == {
        "age": "number",
        "sex": "category",
        "class": "number",
        "alone": "boolean",
        "born": "date",
        "port": "category",
    }
    sex = version["table"]["columns"][1]
    assert (sex["levels"], sex["n_levels"], sex["missing"]) == (["female", "male"], 2, 0)
    assert any("filled with the median" in note for note in version["table"]["notes"])
    card = examples.client.get(f"{path}/card").json()
    assert card["columns"] == version["table"]["notes"]
    markdown = examples.client.get(f"{path}/card", headers={"Accept": "text/markdown"}).text
    assert "| sex | category | female, male | 0 |" in markdown


@pytest.mark.spread(3)
@pytest.mark.parametrize("model", ["linear", "kernel"])
@pytest.mark.parametrize("kind", ["boundary", "learning-curve", "confusion", "roc", "margins"])
def test_plots_are_drawn(examples: ExampleModels, model: str, kind: str) -> None:
    """The boundary in the space of the encoder's outputs."""
    reply = examples.client.get(f"/v1/models/{model}/versions/1/plots/{kind}.svg")
    assert reply.status_code == 200, reply.text
    assert "<svg" in reply.text


@pytest.mark.parametrize("model", ["linear", "kernel"])
@pytest.mark.parametrize("form", ["json", "npz", "onnx"])
def test_exports_have_parity_and_come_back(
    examples: ExampleModels, model: str, form: str, tmp_path: Path
) -> None:
    """On the training rows; an import has the digest, the bits and the columns."""
    path = f"/v1/models/{model}/versions/1"
    reply = examples.client.get(f"{path}/export?format={form}")
    assert reply.status_code == 200, reply.text
    if form == "onnx":
        return
    (tmp_path / "model").write_bytes(reply.content)
    rows = as_json(table(50, 1))
    body = json.dumps({"instances": rows})
    expected = predict(examples, model, body, "application/json")
    exported = plain.load(tmp_path / "model")
    assert plain.predict(exported, rows).tolist() == expected["label"]
    if form == "json":
        assert json.loads(reply.content)["parity"]["labels_equal"] == 1.0
    reply = examples.client.post(
        "/v1/models/back/versions",
        content=reply.content,
        headers={"Content-Type": reply.headers["Content-Type"]},
    )
    assert reply.status_code == 201, reply.text
    back, version = reply.json(), examples.client.get(path).json()
    assert (back["digest"], back["table"]) == (version["digest"], version["table"])
    assert predict(examples, "back", body, "application/json")["decision"] == expected["decision"]
