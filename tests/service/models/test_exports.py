"""Exports predict the same as the service, with NumPy alone and with onnxruntime."""

from __future__ import annotations

import io
import json
from functools import cache
from pathlib import Path
from typing import Any, get_args

import numpy as np
import onnx
import onnxruntime
import pytest

from service.models.exports import MEDIA_TYPES, ExportFormat, document, plain
from service.models.exports.document import About
from service.models.exports.graph import graph_of
from svm.data.matrices import Vector
from svm.model.pipeline import FittedPipeline
from svm.model.serialization import to_arrays
from svm.transforms.features import FeatureMap, Identity
from svm.transforms.scaling import Scaling
from tests.service.models.example_models import MODELS, ExampleModels
from tests.service.models.portable import KINDS, fit, rows_to_predict

FORMATS = get_args(ExportFormat)
CLOSE = 1e-9


@cache
def fitted_of(kind: str) -> FittedPipeline:
    return fit(KINDS[kind])


def by_numpy(fitted: FittedPipeline, form: ExportFormat, path: Path) -> dict[str, Any]:
    """The model, written to a file and read again."""
    document.write(form, to_arrays(fitted), About(None, {}), path)
    return plain.load(path)


def session_of(fitted: FittedPipeline) -> onnxruntime.InferenceSession:
    model = graph_of(fitted, "model")
    onnx.checker.check_model(model, full_check=True)
    return onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )


def check_parity(fitted: FittedPipeline, X: Vector, tmp_path: Path) -> None:
    """All labels are equal, all decision values, probabilities and numbers close, in both
    formats."""
    if fitted.target is not None:
        return check_numbers(fitted, X, tmp_path)
    scores = fitted.problem_scores(X)
    decision = fitted.decision_from_scores(scores)
    labels = fitted.labels_from_decision(decision)
    model = by_numpy(fitted, "npz", tmp_path / "model")
    results: list[tuple[Any, Any, Any]] = []
    values = plain.scores(model, X)
    probability = plain.probabilities(model, values) if fitted.calibration else None
    results.append((plain.predict(model, X), plain.decision(model, values), probability))
    outputs = session_of(fitted).run(None, {"X": X})
    results.append((outputs[0], outputs[1], outputs[2] if fitted.calibration else None))
    for other_labels, other_decision, other_probability in results:
        assert (np.asarray(other_labels) == labels).all()
        apart = np.abs(other_decision - decision) / np.maximum(1.0, np.abs(decision))
        assert apart.max() <= CLOSE
        if other_probability is not None:
            expected = fitted.probabilities_from_scores(scores)
            assert np.abs(other_probability - expected).max() <= CLOSE
    if fitted.rejection is None:
        return
    known = fitted.codes_and_certainty(scores)[1]
    clear = np.abs(known - fitted.rejection.threshold(0.2)) > CLOSE * np.abs(known)
    given = plain.labels_or_none(model, values, 0.2)
    assert (np.array(given, dtype=object) == fitted.labels_or_none(X, 0.2))[clear].all()
    assert 0 < given.count(None) < len(X)
    with pytest.raises(ValueError, match="needs more rows"):
        plain.labels_or_none(model, values, 0.001)


def check_numbers(fitted: FittedPipeline, X: Vector, tmp_path: Path) -> None:
    expected = fitted.predict(X)
    model = by_numpy(fitted, "npz", tmp_path / "model")
    session = session_of(fitted)
    assert [output.name for output in session.get_outputs()] == ["value"]
    for values in (plain.predict(model, X), session.run(["value"], {"X": X})[0]):
        assert values.shape == expected.shape
        assert distance(fitted, values, expected) <= CLOSE
    scores = plain.scores(model, X)
    for coverage in (0.5, 0.9):
        ends = fitted.intervals_from_scores(fitted.problem_scores(X), coverage)
        assert distance(fitted, plain.intervals(model, scores, coverage), ends) <= CLOSE
    with pytest.raises(ValueError, match="needs the errors of more rows"):
        plain.intervals(model, scores, 0.999)


def distance(fitted: FittedPipeline, values: Vector, expected: Vector) -> float:
    """Relative to the number, or to the standard deviation of the target, the larger one; of a
    model of logarithms to the number."""
    assert fitted.target is not None
    unit = 0.0 if fitted.target.logarithm else fitted.target.scale
    return float((np.abs(values - expected) / np.maximum(unit, np.abs(expected))).max())


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_has_parity(kind: str, tmp_path: Path) -> None:
    """On new rows, with zeros and outliers among them."""
    fitted = fitted_of(kind)
    check_parity(fitted, rows_to_predict(2000, len(fitted.classes)), tmp_path)


@pytest.mark.soundness
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_has_parity_on_100_000_rows(kind: str, tmp_path: Path) -> None:
    """The same, on more rows."""
    fitted = fitted_of(kind)
    check_parity(fitted, rows_to_predict(100_000, len(fitted.classes)), tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_json_and_npz_have_the_same_bits(kind: str, tmp_path: Path) -> None:
    """Numbers as text are read with the same bits."""
    fitted = fitted_of(kind)
    one, other = (by_numpy(fitted, form, tmp_path / form) for form in ("json", "npz"))
    assert {*other} - {*one} == {"about", "readme"}
    for name, part in one.items():
        if isinstance(part, np.ndarray):
            assert part.dtype == other[name].dtype
            assert part.tobytes() == other[name].tobytes()
        else:
            assert part == other[name]


def test_equal_votes_give_the_same_class(tmp_path: Path) -> None:
    """Votes in a circle by equal scores, and scores of exactly 0: the lower class number."""
    circle = np.array([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0]])
    fitted = FittedPipeline(
        classes=np.array([10, 20, 30]),
        scaling=Scaling(),
        features=FeatureMap(Identity(), 2),
        coefficients=circle,
        intercepts=np.zeros(3),
    )
    X = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.5, 3.0], [0.0, 7.0]])
    check_parity(fitted, X, tmp_path)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("model", ["prices", "tails"])
def test_export_of_numbers_states_its_parity(
    numeric: ExampleModels, model: str, form: ExportFormat, tmp_path: Path
) -> None:
    """In the unit of the target, relative to its spread; an imported file is the same model."""
    client = numeric.client
    url = f"/v1/models/{model}/versions/1"
    reply = client.get(f"{url}/export", params={"format": form})
    assert reply.status_code == 200, reply.text
    figures = reply.headers["svm-parity"]
    assert figures.startswith("rows=120, max-value-difference=")
    assert float(figures.partition("=")[2].split('"')[1]) <= CLOSE
    if form == "onnx":
        return
    headers = {"Content-Type": MEDIA_TYPES[form]}
    again = client.post("/v1/models/back/versions", content=reply.content, headers=headers)
    assert again.status_code == 201, again.text
    version = client.get(url).json()
    assert (again.json()["digest"], again.json()["classes"]) == (version["digest"], [])


@pytest.mark.spread(2)
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("model", MODELS)
def test_export_states_its_parity(examples: ExampleModels, model: str, form: ExportFormat) -> None:
    """In the reply and in the file; a second download is the same file."""
    url = f"/v1/models/{model}/versions/1/export"
    reply = examples.client.get(url, params={"format": form})
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == MEDIA_TYPES[form]
    figures = reply.headers["svm-parity"]
    assert "labels-equal=1.000000000" in figures
    if form == "json":
        about = json.loads(reply.content)
    elif form == "npz":
        with np.load(io.BytesIO(reply.content), allow_pickle=False) as archive:
            about = json.loads(archive["about"].item())
    else:
        (entry,) = onnx.load_from_string(reply.content).metadata_props
        about = json.loads(entry.value)
    assert about["parity"]["labels_equal"] == 1.0
    assert about["parity"]["max_score_difference"] <= CLOSE
    version = examples.client.get(f"/v1/models/{model}/versions/1").json()
    for name in ("digest", "metrics", "certificate", "dataset_digest", "seed"):
        assert about["origin"][name] == version[name]
    assert about["columns"] == version["columns"]
    again = examples.client.get(url, params={"format": form})
    assert again.content == reply.content
    assert again.headers["etag"] == reply.headers["etag"]


def test_readme_in_the_archive_predicts(examples: ExampleModels, tmp_path: Path) -> None:
    """The NPZ file and NumPy are enough to get labels and probabilities."""
    url = "/v1/models/ten/versions/1/export"
    path = tmp_path / "ten.npz"
    path.write_bytes(examples.client.get(url, params={"format": "npz"}).content)
    with np.load(path, allow_pickle=False) as archive:
        program: dict[str, Any] = {}
        exec(archive["readme"].item(), program)
    model = program["load"](path)
    X = np.random.default_rng(0).normal(size=(40, 8))
    body = {"instances": X.tolist(), "outputs": ["label", "probability"]}
    answer = examples.client.post("/v1/models/ten/versions/1/predict", json=body).json()
    assert program["predict"](model, X).tolist() == answer["label"]
    probability = program["probabilities"](model, program["scores"](model, X))
    np.testing.assert_allclose(probability, answer["probability"], rtol=0, atol=CLOSE)


def test_model_too_large_for_a_format_is_refused(examples: ExampleModels) -> None:
    """The message names the limit, and a format without it."""
    large_model = FittedPipeline(
        classes=np.array([0, 1]),
        scaling=Scaling(),
        features=FeatureMap(Identity(), 9_000_000),
        coefficients=np.zeros((1, 9_000_000)),
        intercepts=np.zeros(1),
    )
    with pytest.raises(Exception, match="use npz"):
        document.write("json", to_arrays(large_model), About(None, {}), Path("/dev/null"))


def test_unknown_format_is_a_problem(examples: ExampleModels) -> None:
    for query in ({"format": "pmml"}, {}):
        reply = examples.client.get("/v1/models/ten/versions/1/export", params=query)
        assert (reply.status_code, reply.json()["code"]) == (400, "invalid-parameter")
