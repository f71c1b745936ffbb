"""Exports and imports of models of tables with categories, dates and gaps."""

from __future__ import annotations

import csv
import io
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from service.errors import InvalidContent
from service.models.artifacts import digest
from service.models.exports import document, plain
from service.models.exports.document import About
from service.models.exports.graph import feed, graph_of, input_names
from service.models.imports import model_of, read
from service.rows.cell_texts.number_text import MISSING_TEXTS
from service.settings import Limits
from svm.data.columns import Column, Columns
from svm.encoding.encoder import Encoding
from svm.kernel.kernels import GaussianKernel
from svm.model.calibration import CalibrationName
from svm.model.pipeline import FittedPipeline, Pipeline
from svm.model.serialization import to_arrays
from svm.solvers import SMO, Newton
from svm.training.training import Training
from svm.transforms.features import Interactions, Nystroem, RandomFourier, Square, Terms
from tests.service.models.test_exports import distance
from tests.service.models.test_imports import MEDIA
from tests.service.predictions.table_rows import TABLE, Values, csv_of, objects, raw_rows, written

CLOSE = 1e-9
LINEAR = Newton(C=1.0)
NUMERIC = Newton(C=1.0, loss="epsilon-insensitive")
ONLY: Columns = (TABLE[1], TABLE[4])
"""Categories alone."""
GAPS: Columns = (TABLE[0], TABLE[7])
"""Numbers with gaps alone."""
CLASHES: Columns = (
    Column("label", "number"),
    Column("v1", "category", TABLE[1].levels),
    Column("c0", "number"),
)
"""Names that the graph has for other values."""

KINDS: dict[str, tuple[Pipeline, Columns, CalibrationName | None]] = {
    "linear": (Pipeline(solver=LINEAR, scaling="standardize"), TABLE, None),
    "unscaled": (Pipeline(solver=LINEAR), TABLE, None),
    "rare": (
        Pipeline(solver=LINEAR, scaling="min-max", encoding=Encoding(min_count=45)),
        TABLE,
        "sigmoid",
    ),
    "constant": (
        Pipeline(solver=LINEAR, encoding=Encoding(missing="constant", constant=-2.5)),
        TABLE,
        "isotonic",
    ),
    "kernel": (
        Pipeline(solver=SMO(C=1.0, kernel=GaussianKernel(gamma=0.1)), scaling="standardize"),
        TABLE,
        None,
    ),
    "square": (Pipeline(solver=LINEAR, scaling="max-abs", features=Square()), TABLE, None),
    "products": (
        Pipeline(solver=LINEAR, scaling="standardize", features=Interactions()),
        TABLE,
        None,
    ),
    "terms": (
        Pipeline(
            solver=LINEAR,
            scaling="standardize",
            features=Terms(terms=[{"age": 2}, {"fare": 1, "alive": 1}, {"fare": 1}]),
        ),
        TABLE,
        None,
    ),
    "Nyström": (
        Pipeline(solver=LINEAR, scaling="standardize", features=Nystroem(n_components=20)),
        TABLE,
        None,
    ),
    "Fourier": (
        Pipeline(solver=LINEAR, scaling="standardize", features=RandomFourier(n_components=20)),
        TABLE,
        None,
    ),
    "categories": (Pipeline(solver=LINEAR, scaling="standardize"), ONLY, None),
    "categories, kernel": (
        Pipeline(solver=SMO(C=1.0, kernel=GaussianKernel(gamma=0.1))),
        ONLY,
        None,
    ),
    "gaps": (Pipeline(solver=LINEAR, scaling="standardize"), GAPS, None),
    "clashes": (Pipeline(solver=LINEAR, scaling="standardize"), CLASHES, None),
    "numbers": (Pipeline(solver=NUMERIC, scaling="standardize"), TABLE, None),
    "logarithms": (Pipeline(solver=NUMERIC, target_scale="logarithmic"), TABLE, None),
    "numbers, kernel": (
        Pipeline(
            solver=SMO(C=1.0, kernel=GaussianKernel(gamma=0.1), loss="epsilon-insensitive"),
            scaling="standardize",
        ),
        TABLE,
        None,
    ),
}


def rows_of(columns: Columns, n: int, seed: int, **shares: float) -> Values:
    """The first ones have dates of all times."""
    X = raw_rows(n, seed, **shares)
    X[:50, 5] = np.linspace(-719_162, 2_932_896.5, 50)
    X[50:100, 5] = np.random.default_rng(seed).integers(-719_162, 2_932_896, size=min(50, n - 50))
    if columns is TABLE:
        return X
    places = {ONLY: [1, 4], GAPS: [0, 7], CLASHES: [0, 1, 7]}[columns]
    return np.ascontiguousarray(X[:, places])


@cache
def fitted_of(kind: str) -> FittedPipeline:
    pipeline, columns, calibration = KINDS[kind]
    X = rows_of(columns, 260, 1, unknown=0.0)
    X[np.isnan(X[:, 0]), 0] = 1.0
    n_classes = 3 if kind in ("linear", "kernel") else 2
    sums = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1]) * 2
    codes = sums.astype(int) % n_classes
    labels = 1.0 + np.abs(sums) if pipeline.predicts_numbers else codes
    training = Training(pipeline, X, labels, seed=0, columns=columns)
    for _ in training:
        pass
    fitted = training.result().fitted
    if calibration is not None:
        fitted = fitted.calibrated(calibration, fitted.problem_scores(X), codes)
    return fitted


def check(fitted: FittedPipeline, results: list[Any], X: Values) -> None:
    """Labels are equal; decision values, probabilities if there are any, or numbers are close."""
    scores = fitted.scores_of_checked(X)
    if fitted.target is not None:
        assert distance(fitted, results[0], fitted.values_from_scores(scores)) <= CLOSE
        return
    decision = fitted.decision_from_scores(scores)
    assert (np.asarray(results[0]) == fitted.labels_from_decision(decision)).all()
    apart = np.abs(results[1] - decision) / np.maximum(1.0, np.abs(decision))
    assert apart.max() <= CLOSE
    if fitted.calibration is not None:
        assert np.abs(results[2] - fitted.probabilities_from_scores(scores)).max() <= CLOSE


def check_parity(kind: str, n: int, tmp_path: Path) -> None:
    fitted, columns = fitted_of(kind), KINDS[kind][1]
    X = rows_of(columns, n, 2)
    document.write("npz", to_arrays(fitted), About(None, {}), tmp_path / "model")
    model = plain.load(tmp_path / "model")
    scores = plain.scores(model, X)
    results = [plain.predict(model, X)]
    if fitted.target is None:
        results.append(plain.decision(model, scores))
    if fitted.calibration is not None:
        results.append(plain.probabilities(model, scores))
    check(fitted, results, X)
    graph = graph_of(fitted, "model")
    onnx.checker.check_model(graph, full_check=True)
    session = onnxruntime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    check(fitted, session.run(None, feed(columns, X)), X)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_model_has_parity(kind: str, tmp_path: Path) -> None:
    """With unknown levels, missing cells where training had none, and dates of all times."""
    check_parity(kind, 2000, tmp_path)


@pytest.mark.soundness
@pytest.mark.parametrize("kind", KINDS)
def test_table_models_have_parity_on_100_000_rows(kind: str, tmp_path: Path) -> None:
    """The same, on more rows."""
    check_parity(kind, 100_000, tmp_path)


@pytest.mark.parametrize("form", ["json", "npz"])
def test_the_program_takes_the_original_columns(form: Any, tmp_path: Path) -> None:
    """Rows as lists, as dictionaries and as cells of a CSV file: the raw values to the bit."""
    fitted = fitted_of("linear")
    document.write(form, to_arrays(fitted), About(None, {}), tmp_path / "model")
    model = plain.load(tmp_path / "model")
    X = raw_rows(500, 3)
    for rows in (written(X, "value", 4), objects(X, 5), objects(X)):
        assert np.array_equal(plain.raw_values(model, rows), X, equal_nan=True)
    assert plain.predict(model, objects(X)).tolist() == fitted.predict(X).tolist()


def test_the_program_takes_the_texts_of_a_csv_file(tmp_path: Path) -> None:
    """As `csv.DictReader` gives them: an empty or blank number, boolean or date is missing."""
    document.write("npz", to_arrays(fitted_of("linear")), About(None, {}), tmp_path / "model")
    model = plain.load(tmp_path / "model")
    X = raw_rows(500, 3)
    for seed in (None, 4):
        rows = list(csv.DictReader(io.StringIO(csv_of(written(X, "text", seed)).decode())))
        assert np.array_equal(plain.raw_values(model, rows), X, equal_nan=True)
    for blank in ("", " \t"):
        assert np.isnan(plain.raw_values(model, [[blank] * len(TABLE)])).all()
    assert plain.MISSING == MISSING_TEXTS


def test_a_graph_takes_strings_for_categories() -> None:
    """An input for each column, by its name."""
    fitted = fitted_of("linear")
    graph = graph_of(fitted, "model")
    session = onnxruntime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    kinds = {one.name: one.type for one in session.get_inputs()}
    assert kinds == {
        column.name: "tensor(string)" if column.kind == "category" else "tensor(double)"
        for column in TABLE
    }
    row = {"age": 31.5, "sex": "male", "class: é": "2", "alive": 1.0, "size": "2.5"}
    row |= {"born": 19844.0, "port": "", "fare": np.nan}
    cells = {
        name: np.array([[cell]], dtype=object if isinstance(cell, str) else np.float64)
        for name, cell in row.items()
    }
    X = np.array([[31.5, 1, 1, 1, 1, 19844.0, np.nan, np.nan]])
    assert session.run(["label"], cells)[0] == fitted.predict(X)
    assert input_names(CLASHES) == ["label_", "v1", "c0"]


@pytest.mark.parametrize("form", MEDIA)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_model_can_be_imported(kind: str, form: Any, tmp_path: Path) -> None:
    """With the same digest."""
    fitted, columns = fitted_of(kind), KINDS[kind][1]
    parts = to_arrays(fitted)
    path = tmp_path / "model"
    document.write(form, parts, About([column.name for column in columns], {}), path)
    imported, about = read(path, MEDIA[form], Limits())
    model = model_of(imported, about.columns, Limits())
    assert digest(to_arrays(model)) == digest(parts)
    X = rows_of(columns, 300, 6)
    assert model.scores_of_checked(X).tobytes() == fitted.scores_of_checked(X).tobytes()


TAMPERED: dict[str, Any] = {
    "a level twice": lambda columns: columns[1].update(levels=["male", "male"]),
    "levels out of order": lambda columns: columns[1].update(levels=["male", "female"]),
    "a blank level": lambda columns: columns[1].update(levels=[" ", "male"]),
    "levels of a number": lambda columns: columns[0].update(levels=["1"]),
    "an unknown kind": lambda columns: columns[0].update(kind="picture"),
    "a name twice": lambda columns: columns[0].update(name="sex"),
    "another name": lambda columns: columns[0].update(name="AGE"),
    "no kind": lambda columns: columns[0].pop("kind"),
    "one more": lambda columns: columns.append({"name": "x", "kind": "number", "levels": []}),
    "too many levels": lambda columns: columns[1].update(levels=[f"{i:05}" for i in range(10_001)]),
    "a level that is a number": lambda columns: columns[1].update(levels=[1, 2]),
    "an object": lambda columns: columns.__setitem__(0, 7),
}


@pytest.mark.parametrize("tampering", TAMPERED)
def test_invalid_columns_are_refused(tampering: str, tmp_path: Path) -> None:
    """As every other part that our own training does not make."""
    path = tmp_path / "model"
    names = [column.name for column in TABLE]
    document.write("json", to_arrays(fitted_of("linear")), About(names, {}), path)
    content = json.loads(path.read_bytes())
    TAMPERED[tampering](content["model"]["columns"])
    path.write_text(json.dumps(content))
    imported, about = read(path, MEDIA["json"], Limits())
    with pytest.raises(InvalidContent, match="invalid-model"):
        model_of(imported, about.columns, Limits())
