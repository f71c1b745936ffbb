"""Imports of exported models: equal to the bit, or refused with the wrong part."""

from __future__ import annotations

import io
import json
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from service.errors import InvalidContent, ServiceError
from service.models.artifacts import digest
from service.models.exports import JSON, NPZ, document
from service.models.exports.document import About
from service.models.imports import model_of, read
from service.settings import Limits
from svm.model.serialization import to_arrays
from tests.service.models.example_models import MODELS, ExampleModels
from tests.service.models.portable import KINDS, N_FEATURES, fit

MEDIA = {"json": JSON, "npz": NPZ}


def exported(client: TestClient, model: str, form: str, version: int = 1) -> bytes:
    url = f"/v1/models/{model}/versions/{version}/export"
    reply = client.get(url, params={"format": form})
    assert reply.status_code == 200, reply.text
    return reply.content


def send(client: TestClient, name: str, content: bytes, form: str, **headers: str) -> Any:
    headers = {"Content-Type": MEDIA[form], **headers}
    return client.post(f"/v1/models/{name}/versions", content=content, headers=headers)


@pytest.mark.spread(3)
@pytest.mark.parametrize("form", MEDIA)
@pytest.mark.parametrize("model", MODELS)
def test_imported_model_is_the_exported_one(examples: ExampleModels, model: str, form: str) -> None:
    """The same digest, the same predictions to the bit, and the origin."""
    client = examples.client
    reply = send(client, f"{model}-back", exported(client, model, form), form)
    assert reply.status_code == 201, reply.text
    made, first = reply.json(), client.get(f"/v1/models/{model}/versions/1").json()
    assert reply.headers["location"] == f"/v1/models/{made['name']}/versions/{made['version']}"
    assert reply.headers["etag"] == client.get(reply.headers["location"]).headers["etag"]
    for name in ("digest", "classes", "columns", "n_features"):
        assert made[name] == first[name]
    assert (made["job_id"], made["dataset_id"], made["seed"]) == (None, None, None)
    assert made["imported"]["format"] == form
    origin = made["imported"]["origin"]
    assert (origin["name"], origin["version"]) == (model, 1)
    assert origin["certificate"] == first["certificate"]
    X = np.random.default_rng(0).normal(size=(20, first["n_features"])).tolist()
    outputs = ["label", "decision", *(["probability"] if "calibration" in MODELS[model] else [])]
    body = {"instances": X, "outputs": outputs}
    answers = [
        client.post(f"/v1/models/{name}/predict", json=body).json()
        for name in (model, f"{model}-back")
    ]
    for output in outputs:
        assert answers[0][output] == answers[1][output]


def test_origin_is_kept_whatever_it_has(examples: ExampleModels) -> None:
    """Also the names by which processes of the service write what they send to each other."""
    content = json.loads(exported(examples.client, next(iter(MODELS)), "json"))
    content["origin"]["x"] = {"a dataclass": "Failure"}
    reply = send(examples.client, "any-origin", json.dumps(content).encode(), "json")
    assert reply.status_code == 201, reply.text
    assert reply.json()["imported"]["origin"] == content["origin"]


@pytest.mark.parametrize("form", MEDIA)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_can_be_imported(kind: str, form: str, tmp_path: Path) -> None:
    """With the same digest."""
    fitted = fit(KINDS[kind])
    parts = to_arrays(fitted)
    path = tmp_path / "model"
    document.write(form, parts, About(None, {}), path)  # type: ignore[arg-type]  # one of the two
    imported, about = read(path, MEDIA[form], Limits())
    assert digest(to_arrays(model_of(imported, about.columns, Limits()))) == digest(parts)


def test_imported_version_has_card_page_and_export(examples: ExampleModels) -> None:
    """They work; what was not measured here is stated as unknown."""
    client = examples.client
    send(client, "imported", exported(client, "kernel", "npz"), "npz")
    url = "/v1/models/imported/versions/1"
    card = client.get(f"{url}/card").json()
    assert "imported" in card["summary"]
    assert "no certificate" in card["certificate"][0]
    markdown = client.get(f"{url}/card", headers={"Accept": "text/markdown"}).text
    assert "name (claimed)" in markdown
    assert client.get("/models/imported", headers={"Accept": "text/html"}).status_code == 200
    for kind in ("roc", "confusion", "learning-curve"):
        reply = client.get(f"{url}/plots/{kind}.svg")
        assert (reply.status_code, reply.json()["code"]) == (404, "plot-unavailable")
    assert client.get(f"{url}/plots/boundary.svg").status_code == 200
    again = client.get(f"{url}/export", params={"format": "json"})
    assert "svm-parity" not in again.headers
    assert again.json()["origin"]["name"] == "kernel"
    job = {
        "dataset_id": examples.datasets["kernel"],
        "model_name": "warm",
        "solver": {"name": "pegasos", "lambda": 0.1},
        "warm_start_from": "imported/1",
    }
    refused = client.post("/v1/jobs", json=job)
    assert (refused.status_code, refused.json()["code"]) == (422, "warm-start-unsupported")


def test_import_happens_once(examples: ExampleModels) -> None:
    """The same Idempotency-Key gives the first reply, and no second version."""
    client, content = examples.client, exported(examples.client, "plane", "json")
    key = {"Idempotency-Key": "import-1"}
    first, again = (send(client, "once", content, "json", **key) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json() == first.json()
    assert len(client.get("/v1/models/once/versions").json()["versions"]) == 1


def test_refused_import_leaves_no_version(examples: ExampleModels) -> None:
    """Problems name the wrong part; media types and JSON are checked as on other routes."""
    client = examples.client
    content = json.loads(exported(client, "plane", "json"))
    content["model"]["intercepts"]["values"][0] = "0.5"
    reply = send(client, "refused", json.dumps(content).encode(), "json")
    assert (reply.status_code, reply.json()["code"]) == (422, "invalid-model")
    assert reply.json()["errors"][0]["pointer"] == "/model/intercepts"
    reply = send(client, "refused", b'{"model": NaN}', "json")
    assert (reply.status_code, reply.json()["code"]) == (400, "malformed-json")
    reply = client.post(
        "/v1/models/refused/versions", content=b"x", headers={"Content-Type": "a/b"}
    )
    assert (reply.status_code, reply.json()["code"]) == (415, "unsupported-format")
    assert client.get("/v1/models/refused").status_code == 404


Document = dict[str, Any]


def _part(name: str, **change: Any) -> Callable[[Document], None]:
    def tamper(document: Document) -> None:
        document["model"][name] = {**document["model"][name], **change}

    return tamper


def _model(**change: Any) -> Callable[[Document], None]:
    def tamper(document: Document) -> None:
        document["model"].update(change)

    return tamper


def _top(**change: Any) -> Callable[[Document], None]:
    return lambda document: document.update(change)


def _without(name: str) -> Callable[[Document], None]:
    def tamper(document: Document) -> None:
        del document["model"][name]

    return tamper


ONE = {"dtype": "<f8", "shape": [1], "values": [1.0]}

TAMPERED: dict[str, Callable[[Document], None]] = {
    "another format": _top(format="pmml"),
    "another version": _top(format_version=2),
    "a member more": _top(extra=1),
    "columns twice": _top(columns=["a"] * 6),
    "too few columns": _top(columns=["a"]),
    "columns of numbers": _top(columns=[1, 2]),
    "origin a text": _top(origin="x"),
    "no model": _top(model=[]),
    "an unknown part": _model(weights=ONE),
    "a part missing": _without("intercepts"),
    "classes missing": _without("classes"),
    "scale missing": _without("scaling_scale"),
    "n_features true": _model(n_features=True),
    "n_features negative": _model(n_features=-1),
    "n_features huge": _model(n_features=10**12),
    "n_features other": _model(n_features=7),
    "an unknown scheme": _model(multiclass="one-vs-all"),
    "a scheme of other shape": _model(multiclass=3),
    "an unknown scaling": _model(scaling="log"),
    "a scaling without offset": _model(scaling="max-abs"),
    "an array for a text": _model(scaling=ONE),
    "a text for an array": _model(intercepts="x"),
    "a list for an array": _model(intercepts=[1.0]),
    "an unknown map": _model(features={"name": "wavelet"}),
    "a map with a parameter more": _model(features={"name": "identity", "degree": 2}),
    "a map that lacks its arrays": _model(features={"name": "random-fourier"}),
    "a map of too many features": _model(features={"name": "polynomial", "degree": 99}),
    "a kernel without vectors": _model(kernel={"name": "linear"}),
    "vectors without a kernel": _model(vectors={"dtype": "<f8", "shape": [0, 6], "values": []}),
    "calibration without knots": _model(calibration="sigmoid"),
    "knots without calibration": _model(calibration_knots=ONE),
    "objects": _part("intercepts", dtype="|O"),
    "single precision": _part("intercepts", dtype="<f4"),
    "another shape": _part("intercepts", shape=[1, 1]),
    "a shape of 0": _part("intercepts", shape=[0], values=[]),
    "a negative shape": _part("intercepts", shape=[-1]),
    "fewer values": _part("coefficients", values=[1.0]),
    "values of text": _part("intercepts", values=["1"]),
    "boolean values": _part("intercepts", values=[True]),
    "a member of an array": _part("intercepts", order="F"),
    "a scale of 0": _part("scaling_scale", values=[0.0] * 6),
    "classes twice": _part("classes", values=["no", "no"]),
    "classes descending": _part("classes", values=["yes", "no"]),
    "one class": _part("classes", shape=[1], values=["no"]),
    "classes of two dimensions": _part("classes", shape=[2, 1]),
    "classes too long for their type": _part("classes", dtype="<U2"),
    "whole intercepts": _part("intercepts", dtype="<i8", values=[1]),
    "certainties out of order": _part("rejection_decisions", shape=[2], values=[2.0, 1.0]),
    "no certainties": _part("rejection_decisions", shape=[0], values=[]),
}


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A JSON export of a model of two classes and six scaled features."""
    path = tmp_path_factory.mktemp("valid") / "model"
    document.write("json", to_arrays(fit(KINDS["standardized"])), About(None, {}), path)
    return path.read_bytes()


def refusal(path: Path, media_type: str) -> ServiceError:
    try:
        parts, about = read(path, media_type, Limits())
        model_of(parts, about.columns, Limits())
    except ServiceError as error:
        return error
    raise AssertionError("it was accepted as a valid model")


@pytest.mark.parametrize("tampering", TAMPERED)
def test_invalid_documents_are_refused(valid: bytes, tmp_path: Path, tampering: str) -> None:
    """No training can produce these parts."""
    content = json.loads(valid)
    TAMPERED[tampering](content)
    path = tmp_path / "model"
    path.write_text(json.dumps(content))
    error = refusal(path, JSON)
    assert isinstance(error, InvalidContent)
    assert error.code == "invalid-model"
    assert len(error.detail) < 500


@pytest.mark.parametrize(
    ("kind", "part", "change"),
    [
        ("isotonic", "calibration_knots", lambda knots: knots[::-1]),
        ("isotonic", "calibration_values", lambda values: values + 1.0),
        ("isotonic", "calibration_starts", lambda starts: starts + 1),
        ("sigmoid", "calibration_knots", lambda knots: knots * np.inf),
        ("Gaussian kernel", "kernel", lambda _: '{"gamma": "median", "name": "gaussian"}'),
        ("Gaussian kernel", "kernel", lambda _: '{"gamma": -1, "name": "gaussian"}'),
        ("Gaussian kernel, sparse", "vectors_indices", lambda indices: indices + 100),
        ("Gaussian kernel, sparse", "vectors_indptr", lambda ends: ends[::-1].copy()),
        ("Nyström", "features_weights", lambda weights: weights[:, :1]),
        ("random Fourier", "features_directions", lambda W: W[:10]),
        ("linear", "intercepts", lambda b: b * np.nan),
        ("linear", "intercepts", lambda b: b.astype(object)),
    ],
)
def test_invalid_archives_are_refused(
    kind: str, part: str, change: Callable[[Any], Any], tmp_path: Path
) -> None:
    """An array of objects is not unpickled, and no invalid part is accepted."""
    parts = to_arrays(fit(KINDS[kind]))
    path = tmp_path / "model"
    document.write("npz", parts, About(None, {}), path)
    with np.load(path, allow_pickle=False) as archive:
        members = dict(archive)
    with np.errstate(invalid="ignore"):
        members[part] = np.asarray(change(parts[part]))
    np.savez(path.with_suffix(".npz"), **members)
    error = refusal(path.with_suffix(".npz"), NPZ)
    assert isinstance(error, InvalidContent)
    assert error.code == "invalid-model"


def test_malformed_archives_are_refused(tmp_path: Path) -> None:
    """Garbage, a false header, a path outside, a duplicate member, one that inflates too much."""
    path = tmp_path / "model"
    document.write("npz", to_arrays(fit(KINDS["linear"])), About(None, {}), path)
    good = path.read_bytes()
    lying = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        lying, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
    )
    cases: list[tuple[bytes, list[tuple[str, bytes]]]] = [
        (b"", []),
        (b"PK\x03\x04garbage", []),
        (good[: len(good) // 2], []),
        (good, [("../x.npy", b"")]),
        (good, [("vectors.npy", lying.getvalue())]),
        (good, [("vectors.npy", b"\x93NUMPY\x03\x00")]),
        (good, [(f"part_{k}.npy".replace("0", "a"), b"") for k in range(1, 40)]),
        (good, [("vectors.npy", b"\x93NUMPY\x02\x00" + b"\xff" * 4 + bytes(10**6))]),
    ]
    for content, added in cases:
        path.write_bytes(content)
        if added:
            with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
                for name, member in added:
                    archive.writestr(name, member)
        error = refusal(path, NPZ)
        assert isinstance(error, InvalidContent)
        assert error.code == "invalid-model"


def _document(parts: bytes) -> bytes:
    about = b'{"format": "svm-service-model", "format_version": 1, "columns": null, "origin": {}'
    return b'%b, "model": {%b}}' % (about, parts)


def _coefficients(value: bytes, count: int) -> bytes:
    start = b'"coefficients": {"dtype": "<f8", "shape": [1, %d], "values": [' % count
    return _document(start + b",".join([value] * count) + b"]}")


def _archive(method: int = zipfile.ZIP_DEFLATED, **members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return file.getvalue()


def _npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


ABOUT = _npy(np.array('{"format": "svm-service-model", "format_version": 1, "origin": {}}'))
LARGE = 500_000

BOMBS: dict[str, tuple[bytes, str, str]] = {
    "an unknown part": (
        _document(b'"x": [' + b"[1]," * LARGE + b"1]"),
        JSON,
        "not a part of a model",
    ),
    "lists for numbers": (_coefficients(b"[1]", LARGE), JSON, "not of the type <f8"),
    "objects for numbers": (_coefficients(b"{}", LARGE), JSON, "not of the type <f8"),
    "too many numbers": (
        _coefficients(b"1", LARGE).replace(b"[1, %d]" % LARGE, b"[1, 8000001]"),
        JSON,
        "more than 8,000,000 numbers",
    ),
    "more values than in the shape": (
        _coefficients(b"1", LARGE).replace(b"[1, %d]" % LARGE, b"[1, 2]"),
        JSON,
        "number of its values",
    ),
    "a long part": (_document(b'"scaling": "' + b"a" * LARGE + b'"'), JSON, "too long"),
    "an origin of many lists": (
        _document(b"").replace(b'"origin": {}', b'"origin": {"x": [' + b"[]," * LARGE + b"1]}"),
        JSON,
        "too long",
    ),
    "many long classes": (
        _document(b'"classes": {"dtype": "<U9999", "shape": [9999999], "values": []}'),
        JSON,
        "number of classes is not",
    ),
    "bzip2": (_archive(zipfile.ZIP_BZIP2, about=ABOUT), NPZ, "compressed in a way"),
    "LZMA": (_archive(zipfile.ZIP_LZMA, about=ABOUT), NPZ, "compressed in a way"),
    "an about of zeros": (_archive(about=_npy(np.zeros(LARGE))), NPZ, "inflates to more than"),
    "vectors of zeros": (
        _archive(about=ABOUT, vectors=_npy(np.zeros((1, LARGE)))),
        NPZ,
        "inflates to more than",
    ),
    "a long about": (
        _archive(zipfile.ZIP_STORED, about=_npy(np.array("a" * 5 * LARGE))),
        NPZ,
        "elements of type",
    ),
    "an about of many lists": (
        _archive(zipfile.ZIP_STORED, about=_npy(np.array("[" + "[]," * LARGE + "1]"))),
        NPZ,
        "too long",
    ),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_use_little_memory(bomb: str, tmp_path: Path) -> None:
    """They are refused before they are read completely."""
    content, media_type, message = BOMBS[bomb]
    path = tmp_path / "model"
    path.write_bytes(content)
    tracemalloc.start()
    error = refusal(path, media_type)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert message in error.detail
    assert error.code in ("invalid-model", "decompression-limit")
    assert peak_bytes < 12 * 1024**2


@pytest.mark.parametrize("form", MEDIA)
def test_large_model_uses_little_memory(form: str, tmp_path: Path) -> None:
    """Its arrays stay in files, and its digest is the same."""
    parts = to_arrays(fit(KINDS["Gaussian kernel"]))
    rng = np.random.default_rng(0)
    parts["vectors"] = rng.normal(size=(60_000, N_FEATURES))
    parts["coefficients"] = rng.normal(size=(1, 60_000))
    path = tmp_path / "model"
    document.write(form, parts, About(None, {}), path)  # type: ignore[arg-type]  # one of the two
    tracemalloc.start()
    imported, about = read(path, MEDIA[form], Limits())
    model = model_of(imported, about.columns, Limits())
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 8 * 1024**2
    assert digest(to_arrays(model)) == digest(parts)


TARGETS: dict[str, Callable[[Document], None]] = {
    "a scale of 0": _model(target={"center": 0.0, "epsilon": 0.1, "logarithm": False, "scale": 0}),
    "a center that is a text": _model(target={"center": "0", "scale": 1.0}),
    "a logarithm of 1": _model(target={"center": 0.0, "logarithm": 1, "scale": 1.0}),
    "a member more": _model(target={"center": 0.0, "scale": 1.0, "shift": 1.0}),
    "a list": _model(target=[1.0]),
    "classes": _part("classes", shape=[2], values=[0.0, 1.0]),
    "no target": _without("target"),
    "errors out of order": _part("conformal_residuals", shape=[2], values=[2.0, 1.0]),
    "negative errors": _part("conformal_residuals", shape=[1], values=[-1.0]),
    "no errors": _part("conformal_residuals", shape=[0], values=[]),
    "certainties of labels": _model(
        rejection_decisions={"dtype": "<f8", "shape": [1], "values": [1.0]}
    ),
    "a gap among the coefficients": _part("intercepts", values=[None]),
    "probabilities": _model(
        calibration="sigmoid",
        calibration_knots={"dtype": "<f8", "shape": [1, 2], "values": [1.0, 0.0]},
    ),
}


@pytest.mark.parametrize("tampering", TARGETS)
def test_invalid_models_of_numbers_are_refused(tampering: str, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    document.write("json", to_arrays(fit(KINDS["numbers"])), About(None, {}), path)
    content = json.loads(path.read_bytes())
    TARGETS[tampering](content)
    path.write_text(json.dumps(content))
    refusal(path, JSON)
