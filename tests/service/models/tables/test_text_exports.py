"""Exports and imports of models of tables with texts."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.errors import InvalidContent
from service.models.artifacts import digest
from service.models.exports import document
from service.models.exports.document import About
from service.models.exports.graph import graph_of
from service.models.imports import model_of, read
from service.settings import Limits
from svm.data.columns import Column
from svm.data.texts import TextList, with_texts
from svm.encoding.encoder import Encoding
from svm.kernel.kernels import GaussianKernel
from svm.model.pipeline import FittedPipeline, Pipeline
from svm.model.serialization import to_arrays
from svm.solvers import SMO, Newton
from svm.training.training import Training
from tests.service.models.test_imports import MEDIA

LINEAR = Newton(C=1.0, loss="squared-hinge")
COLUMNS = (
    Column("note", "text"),
    Column("size"),
    Column("color", "category", ("blue", "red")),
    Column("title", "text"),
)
NAMES = [column.name for column in COLUMNS]
SENTENCE = (
    "free entry Free ENTRY win card bill 10 0.5 a I x² ﬁne Straße ÉCLAIR e\u0301clair naïve dont "
    "сообщение 请帮帮我 ありがとう مرحبا שלום ภาษาไทย 😀 👍🏽 \u200b İstanbul ǅ ½ foo_bar a-b "
    "don't \ud800"
)
WORDS = SENTENCE.split()
KINDS: dict[str, Pipeline] = {
    "usual": Pipeline(solver=LINEAR),
    "standardized": Pipeline(solver=LINEAR, scaling="standardize", multiclass="one-vs-rest"),
    "weighted": Pipeline(
        solver=LINEAR,
        scaling="max-abs",
        encoding=Encoding(tokens="both", min_count=3, sublinear=True, text_weights={"title": 2.5}),
    ),
    "words": Pipeline(solver=LINEAR, encoding=Encoding(tokens="words")),
    "characters": Pipeline(solver=LINEAR, encoding=Encoding(tokens="characters")),
    "kernel": Pipeline(
        solver=SMO(C=1.0, kernel=GaussianKernel(gamma=0.5)), encoding=Encoding(tokens="both")
    ),
    "numbers": Pipeline(solver=Newton(C=1.0, loss="epsilon-insensitive"), scaling="standardize"),
}


def table(n: int, seed: int) -> list[dict[str, Any]]:
    """Rows as in JSON; some cells are missing, some words come only in rows to predict."""
    random = np.random.default_rng(seed)
    words = WORDS if seed == 0 else [*WORDS, "new", "other"]
    rows = []
    for i in range(n):
        note = " ".join(random.choice(words, size=int(random.integers(0, 15))))
        row = {
            "note": None if i % 11 == 5 else note,
            "size": None if i % 7 == 3 else round(float(random.normal()), 3),
            "color": ("red", "blue", None)[int(random.integers(3))],
            "title": ("\t" if i % 3 else "").join(random.choice(words, size=2)),
        }
        rows.append(row)
    return rows


def raw_rows(rows: list[dict[str, Any]]) -> Any:
    """The raw values, as the service reads them."""
    texts: list[str] = []
    X = np.full((len(rows), len(COLUMNS)), np.nan)
    for i, row in enumerate(rows):
        for j, column in enumerate(COLUMNS):
            cell = row[column.name]
            if cell is None or (column.kind == "text" and not cell.strip()):
                continue
            if column.kind == "text":
                texts.append(cell)
                cell = len(texts) - 1
            X[i, j] = column.levels.index(cell) if column.levels else cell
    return with_texts(X, TextList(texts))


@cache
def fitted_of(kind: str) -> FittedPipeline:
    rows = table(120, 0)
    labels: Any = ["win" in (row["note"] or "") for row in rows]
    labels = np.array(labels) + 2 * np.array(["card" in row["title"] for row in rows])
    labels = labels + 0.5 if KINDS[kind].predicts_numbers else labels
    training = Training(KINDS[kind], raw_rows(rows), labels, seed=0, columns=COLUMNS)
    for _ in training:
        pass
    return training.result().fitted


PROGRAM = """
import csv, json, sys
import numpy as np

program = {}
exec(str(np.load("model.npz")["readme"]), program)
model = program["load"]("model.npz")
with open("rows.json", encoding="utf-8", errors="surrogatepass") as file:
    from_json = json.load(file)
with open("rows.csv", encoding="utf-8", errors="surrogatepass", newline="") as file:
    from_csv = list(csv.DictReader(file))
for row in from_csv:
    row["size"] = float(row["size"]) if row["size"] else None
for rows in (from_json, from_csv):
    print(json.dumps([program[name](model, rows).tolist() for name in ("predict", "scores")]))
assert not {"svm", "service", "scipy", "numba"} & set(sys.modules)
"""


@pytest.mark.parametrize("kind", KINDS)
def test_the_program_predicts_files_of_texts(kind: str, tmp_path: Path) -> None:
    """CSV and JSON, in a process of its own, with NumPy alone: the same labels, and decisions to
    1e-12."""
    fitted, rows = fitted_of(kind), table(60, 1)
    document.write("npz", to_arrays(fitted), About(NAMES, {}), tmp_path / "model.npz")
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, NAMES)
    writer.writeheader()
    writer.writerows(rows)
    (tmp_path / "rows.csv").write_bytes(text.getvalue().encode("utf-8", "surrogatepass"))
    content = json.dumps(rows, ensure_ascii=False)
    (tmp_path / "rows.json").write_bytes(content.encode("utf-8", "surrogatepass"))
    command = [sys.executable, "-I", "-c", PROGRAM]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    X = raw_rows(rows)
    expected = fitted.problem_scores(X)
    for line in done.stdout.splitlines():
        labels, scores = json.loads(line)
        if fitted.target is None:
            assert labels == fitted.predict(X).tolist()
        apart = np.abs(np.array(scores) - expected) / np.maximum(1.0, np.abs(expected))
        assert apart.max() <= 1e-12


def test_onnx_refuses_texts() -> None:
    """The error names the column, and the formats that take them."""
    ways = r"use npz, which contains a program in Python that predicts from npz and json"
    with pytest.raises(InvalidContent, match=rf"column 'note' has texts.* {ways}"):
        graph_of(fitted_of("usual"), "model")


@pytest.mark.parametrize("form", MEDIA)
@pytest.mark.parametrize("kind", KINDS)
def test_every_model_of_texts_can_be_imported(kind: str, form: Any, tmp_path: Path) -> None:
    """With the same digest, and the same bits."""
    fitted = fitted_of(kind)
    document.write(form, to_arrays(fitted), About(NAMES, {}), tmp_path / "model")
    imported, about = read(tmp_path / "model", MEDIA[form], Limits())
    model = model_of(imported, about.columns, Limits())
    assert digest(to_arrays(model)) == digest(to_arrays(fitted))
    X = raw_rows(table(60, 1))
    assert model.problem_scores(X).tobytes() == fitted.problem_scores(X).tobytes()


def _tokens(model: dict[str, Any], change: Any) -> None:
    part = model["texts_tokens"]
    tokens = bytes(part["values"]).decode("utf-8", "surrogatepass").split("\n")
    values = list("\n".join(change(tokens)).encode("utf-8", "surrogatepass"))
    part.update(values=values, shape=[len(values)])


TAMPERED: dict[str, Any] = {
    "no tokens": lambda model: model.pop("texts_tokens"),
    "tokens out of order": lambda model: _tokens(model, lambda t: t[::-1]),
    "a token twice": lambda model: _tokens(model, lambda t: [t[0], t[0], *t[2:]]),
    "a token more": lambda model: _tokens(model, lambda t: [*t, "more"]),
    "not UTF-8": lambda model: model["texts_tokens"]["values"].__setitem__(0, 255),
    "a large octet": lambda model: model["texts_tokens"]["values"].__setitem__(0, 256),
    "a token of no text": lambda model: model["texts_counts"]["values"].__setitem__(0, 0),
    "more texts than there are": lambda model: model["texts_counts"]["values"].__setitem__(0, 999),
    "one column of texts": lambda model: model["texts"].pop(),
    "no part": lambda model: model["texts"][0].update(parts=[]),
    "another part": lambda model: model["texts"][0]["parts"][0].__setitem__(0, "lines"),
    "a part twice": lambda model: model["texts"][0]["parts"].append(["words", 1]),
    "a negative size": lambda model: model["texts"][0]["parts"][0].__setitem__(1, -1),
    "no number": lambda model: model["texts"][0].update(n_texts="120"),
    "an unknown member": lambda model: model["texts"][0].update(weight=2.0),
    "a negative weight": lambda model: model["encoding"].update(text_weights={"note": -1.0}),
    "no texts": lambda model: [model.pop(name) for name in list(model) if "texts" in name],
}


@pytest.mark.parametrize("tampering", TAMPERED)
def test_invalid_texts_are_refused(tampering: str, tmp_path: Path) -> None:
    """As every other part that our own training does not make."""
    path = tmp_path / "model"
    document.write("json", to_arrays(fitted_of("usual")), About(NAMES, {}), path)
    content = json.loads(path.read_bytes())
    TAMPERED[tampering](content["model"])
    path.write_text(json.dumps(content))
    with pytest.raises(InvalidContent, match="invalid-model"):
        _import(path)


def _import(path: Path) -> FittedPipeline:
    imported, about = read(path, MEDIA["json"], Limits())
    return model_of(imported, about.columns, Limits())
