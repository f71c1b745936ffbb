"""Tables by the Open Inference Protocol: a tensor for each column."""

from __future__ import annotations

import itertools
import json
import random
import struct
import warnings
from dataclasses import replace
from typing import Any

import httpx2
import numpy as np
import pytest

from service.errors import InvalidContent, InvalidRequest
from service.predictions.batcher import Instances, score_rows
from service.predictions.inference.wire_format import Heads, InferenceExchange
from service.predictions.loaded_models import LoadedModel
from service.rows.cell_texts.number_text import level_of
from service.settings import Limits
from svm.data.columns import UNKNOWN, Column
from svm.data.texts import texts_of
from svm.encoding.encoder import Encoding
from svm.encoding.fitting import fit_encoder
from svm.model.calibration import Calibration
from tests.service.models.registered_models import RegisteredModels, fitted_pipeline
from tests.service.predictions.predict_paths import PredictPath, predict_path, url
from tests.service.predictions.table_rows import (
    NAMES,
    TABLE,
    Cell,
    fitted_table,
    objects,
    raw_rows,
    written,
)
from tests.service.predictions.test_explanations import loaded
from tests.service.predictions.text_rows import MESSAGE, TICKET, fitted_texts, tickets

__all__ = ["predict_path", "url"]

pytestmark = pytest.mark.one_application(limits=Limits(predict_rows=2000))

CALIBRATED = replace(fitted_table(), calibration=Calibration("sigmoid", np.array([[-1.0, 0.25]])))
NAN = float("nan")
SIZE = "binary_data_size"
TICKET_NAMES = [column.name for column in TICKET]
OUTPUTS = ("label", "decision", "probability")


@pytest.fixture
def triton(url: str) -> Any:
    with warnings.catch_warnings(action="ignore"):  # of the libraries below it
        return pytest.importorskip("tritonclient.http")


def infer(
    triton: Any,
    url: str,
    model: str,
    columns: dict[str, Any],
    binary: bool,
    wanted: tuple[str, ...] = OUTPUTS,
) -> Any:
    """As users call tritonclient: an array for each column, [rows] or [rows, 1]."""
    inputs = []
    for i, (column, array) in enumerate(columns.items()):
        values = array[:, None] if i % 2 else array
        datatype = "BYTES" if values.dtype == object else "FP64"
        one = triton.InferInput(column, list(values.shape), datatype)
        inputs.append(one.set_data_from_numpy(values, binary_data=binary))
    outputs = [triton.InferRequestedOutput(name, binary_data=binary) for name in wanted]
    with triton.InferenceServerClient(url.removeprefix("http://")) as client:
        return client.infer(model, inputs, outputs=outputs)


def arrays_of(rows: list[list[Cell]]) -> dict[str, Any]:
    """Of cells as JSON has them: floats with NaN, or objects with None. A level that is a boolean
    is its text: tritonclient would send another one, "True"."""
    columns = zip(TABLE, zip(*rows, strict=True), strict=True)
    return {
        column.name: np.array(
            [level_of(cell) if column.levels and type(cell) is bool else cell for cell in cells],
            float if column.kind == "number" else object,
        )
        for column, cells in columns
    }


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("n", [1, 2, 300])
def test_a_table_is_answered_as_its_objects(
    triton: Any, url: str, registered: RegisteredModels, n: int, binary: bool
) -> None:
    """Labels, probabilities and unknown cells, to the bit; None and NaN are missing."""
    registered.add("passengers", CALIBRATED, columns=NAMES)
    for seed in range(6 if n < 300 else 2):
        X = raw_rows(n, seed)
        body = {"instances": objects(X, seed), "outputs": OUTPUTS}
        expected = httpx2.post(f"{url}/v1/models/passengers/predict", json=body).json()
        columns = arrays_of(written(X, "value", seed))
        turned = dict(random.Random(seed).sample(sorted(columns.items()), len(columns)))
        reply = infer(triton, url, "passengers", turned, binary)
        labels = [x.decode() if type(x) is bytes else x for x in reply.as_numpy("label")]
        assert labels == expected["label"]
        for name in OUTPUTS[1:]:
            assert reply.as_numpy(name).tolist() == expected[name]
        assert reply.get_response().get("parameters", {}).get("unknown") == expected.get("unknown")


def test_none_and_nan_are_missing(triton: Any, url: str, registered: RegisteredModels) -> None:
    """What tritonclient makes of them where an array has objects, in columns of every kind."""
    registered.add("tickets", fitted_texts(TICKET), columns=TICKET_NAMES)
    rows: list[list[Any]] = [
        [1.5, "free entry", "my card", True, "card"],
        [None] * 5,
        [np.nan, np.nan, "", np.nan, np.nan],
    ]
    sent = [dict(zip(TICKET_NAMES, rows[i], strict=True)) for i in (0, 1, 1)]
    path = f"{url}/v1/models/tickets/predict"
    expected = httpx2.post(path, json={"instances": sent, "outputs": ["decision"]}).json()
    columns = zip(TICKET_NAMES, zip(*rows, strict=True), strict=True)
    arrays = {name: np.array(cells, object) for name, cells in columns}
    for binary in (True, False):
        reply = infer(triton, url, "tickets", arrays, binary, OUTPUTS[:2])
        assert reply.as_numpy("decision").tolist() == expected["decision"]
        assert reply.get_response()["parameters"]["unknown"] == expected["unknown"]


def test_none_and_nan_may_be_levels() -> None:
    """Of a column that has them, they are no missing cells."""
    columns = (Column("a", "category", ("None", "card", "nan")), Column("b", "category", ("x",)))
    X = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
    encoder, scaling = fit_encoder(Encoding(), "standardize", X, columns)
    fitted = replace(
        fitted_pipeline(n_features=encoder.n_outputs), scaling=scaling, encoder=encoder
    )
    model = loaded(fitted, ["a", "b"])
    cells = ["None", "card", "nan"]
    inputs = [{"name": n, "shape": [3], "datatype": "BYTES", "data": cells} for n in "ab"]
    asked = read(model, {"inputs": inputs})
    assert np.array_equal(np.asarray(asked.X), [[0, NAN], [1, UNKNOWN], [2, NAN]], equal_nan=True)


def read(model: LoadedModel, head: Any, tail: bytes = b"", heads: Heads | None = None) -> Instances:
    """As the server reads it."""
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    headers = [(b"inference-header-content-length", b"%d" % len(text))]
    exchange = InferenceExchange(headers, Limits(), {} if heads is None else heads)
    return exchange.read(text + tail, model)


def test_pandas_codec_of_mlserver(url: str, registered: RegisteredModels) -> None:
    """What `PandasCodec.encode_request(frame).model_dump_json()` of MLServer 1.7.1 is, by hand: it
    is too large to install."""
    registered.add("passengers", CALIBRATED, columns=NAMES)
    datatypes = {"age": "FP64", "fare": "FP64", "alive": "BOOL", "class: é": "BYTES"}
    X = raw_rows(50, 3)
    X[:, [1, 2, 3, 4, 5, 6]] = raw_rows(50, 4, unknown=0.1, missing=0.0)[:, [1, 2, 3, 4, 5, 6]]
    rows = written(X, "value")
    texts = {"content_type": "str"}
    inputs = []
    for j, name in enumerate(NAMES):
        cells: list[Any] = [row[j] for row in rows]
        one: dict[str, Any] = {"name": name, "shape": [50, 1]}
        one["datatype"] = datatypes.get(name, "BYTES")
        if one["datatype"] == "BYTES":
            one["parameters"] = texts
        if name == "class: é":  # a column of numbers and texts
            cells = [json.dumps(int(c) if c in ("1", "2", "3") else c) for c in cells]
            one["parameters"] = {"content_type": "pd_json"}
        inputs.append(one | {"data": cells})
    body = {"parameters": {"content_type": "pd"}, "inputs": inputs}
    reply = httpx2.post(f"{url}/v2/models/passengers/infer", json=body)
    assert reply.status_code == 200, reply.text
    answer = {one["name"]: one["data"] for one in reply.json()["outputs"]}
    body = {"instances": objects(X), "outputs": OUTPUTS}
    expected = httpx2.post(f"{url}/v1/models/passengers/predict", json=body).json()
    assert answer["label"] == expected["label"]
    assert answer["decision"] == expected["decision"]
    assert answer["probability"] == list(np.ravel(expected["probability"]))
    assert reply.json()["parameters"]["unknown"] == expected["unknown"]


def tensor(name: str, cells: Any, datatype: str = "BYTES", **more: Any) -> dict[str, Any]:
    return {"name": name, "shape": [len(cells)], "datatype": datatype, "data": cells, **more}


@pytest.mark.parametrize("names", [["a", "b", "c"], None])
def test_a_model_of_numbers_takes_columns_too(
    url: str, registered: RegisteredModels, names: list[str] | None
) -> None:
    """Of every type, in any order, as lists or bytes, few and many rows: the bits of the matrix."""
    fitted = fitted_pipeline(n_features=3)
    registered.add("iris", fitted, columns=names)
    path = f"{url}/v2/models/iris"
    assert httpx2.get(path).json()["inputs"] == [
        {"name": "x", "datatype": "FP64", "shape": [-1, 3]}
    ]
    for n in (1, 2000):
        X = np.random.default_rng(n).normal(size=(n, 3))
        X[:, 1] = np.round(X[:, 1] * 30)
        expected = fitted.decision_function(X).tolist()
        texts = [repr(value) for value in X[:, 0].tolist()]
        a = [tensor("a", X[:, 0].tolist(), "FP64"), tensor("a", texts)]
        b = [tensor("b", X[:, 1].tolist(), kind) for kind in ("INT16", "FP32", "INT64")]
        c = tensor("c", X[:, 2].tolist(), "FP64")
        for one, other in itertools.product(a, b):
            reply = httpx2.post(f"{path}/infer", json={"inputs": [c, one, other]})
            if names is None:
                assert (reply.status_code, reply.json()["code"]) == (422, "invalid-field")
                assert "the columns of the model have no names" in reply.text
                continue
            assert reply.json()["outputs"][1]["data"] == expected, reply.text
        if names is None:
            continue
        described = [
            {"name": name, "shape": [n, 1], "datatype": datatype, "parameters": {SIZE: size * n}}
            for name, datatype, size in (("b", "INT8", 1), ("c", "FP64", 8), ("a", "FP64", 8))
        ]
        head = json.dumps({"inputs": described}).encode()
        tail = X[:, 1].astype("i1").tobytes() + X[:, 2].tobytes() + X[:, 0].tobytes()
        headers = {"Inference-Header-Content-Length": str(len(head))}
        reply = httpx2.post(f"{path}/infer", content=head + tail, headers=headers)
        assert reply.json()["outputs"][1]["data"] == expected


def test_a_model_of_one_number(url: str, registered: RegisteredModels) -> None:
    """Its tensor may be [rows], or texts, of any name."""
    fitted = fitted_pipeline(n_features=1)
    registered.add("iris", fitted, columns=["a"])
    values = [0.5, -2.0]
    expected = fitted.decision_function(np.array([values]).T).tolist()
    for sent in (tensor("x", values, "FP64"), tensor("a", ["0.5", "-2"])):
        for shape in ([2], [2, 1]):
            body = {"inputs": [sent | {"shape": shape}]}
            reply = httpx2.post(f"{url}/v2/models/iris/infer", json=body)
            assert reply.json()["outputs"][1]["data"] == expected, reply.text


def test_metadata_of_tables(url: str, registered: RegisteredModels) -> None:
    """Every column with its type."""
    version = registered.add("passengers", CALIBRATED, columns=NAMES)
    table = {"columns": [{"name": column.name, "kind": column.kind} for column in TABLE]}
    registered.set_result(version, {**version.result, "table": table})
    listed = httpx2.get(f"{url}/v2/models/passengers").json()["inputs"]
    kinds = {"age": "FP64", "fare": "FP64", "alive": "BOOL"}
    assert listed == [
        {"name": name, "datatype": kinds.get(name, "BYTES"), "shape": [-1]} for name in NAMES
    ]


A, B, C = tensor("a", [1.0, 2.0], "FP64"), tensor("b", ["x", "y"]), tensor("c", [0, 1], "INT8")
BAD: dict[str, tuple[Any, str, str | None, str]] = {
    "an unknown name": ([A, B, C, {**C, "name": "d"}], "feature-mismatch", "/inputs/3/name", "'d'"),
    "a name twice": ([A, B, C, B], "feature-mismatch", "/inputs/3/name", "repeats 'b'"),
    "a missing name": ([A, C], "feature-mismatch", "/inputs", "lacks 'b'"),
    "a matrix": (
        [{**A, "name": "x", "shape": [1, 2]}],
        "feature-mismatch",
        "/inputs",
        "lacks 'a', 'b', 'c'; not of the model: 'x'",
    ),
    "no name": ([A, B, {**C, "name": 5}], "invalid-field", "/inputs/2/name", "name of a column"),
    "other rows": ([A, B, tensor("c", [1], "INT8")], "invalid-field", "/inputs/2/shape", "2 rows"),
    "two columns in one": (
        [A, B, {**C, "shape": [1, 2]}],
        "invalid-field",
        "/inputs/2/shape",
        "give [rows] or [rows, 1]",
    ),
    "a type": ([A, B, {**C, "datatype": {}}], "invalid-field", "/inputs/2/datatype", "BYTES, FP64"),
    "no data": (
        [A, B, {"name": "c", "shape": [2], "datatype": "FP64"}],
        "invalid-field",
        "/inputs/2/data",
        "list of 2 cells",
    ),
    "a word": ([{**A, "datatype": "BYTES", "data": ["1", "x"]}, B, C], "not-a-number", None, "'x'"),
    "a list": ([A, {**B, "data": ["x", ["y"]]}, C], "invalid-field", None, "row 2, column 'b'"),
    "a text of numbers": ([{**A, "data": [1.0, "2"]}, B, C], "not-a-number", None, "of type FP64"),
    "a fraction": ([A, B, {**C, "data": [None, 0.5]}], "not-a-number", None, "row 2, column 'c'"),
    "too large": ([A, B, {**C, "data": [0, 128]}], "not-a-number", None, "row 2, column 'c'"),
    "infinite": (
        [{**A, "datatype": "FP32", "data": [0.0, 1e300]}, B, C],
        "non-finite-value",
        None,
        "row 2, column 'a'",
    ),
    "beyond all": (
        [{**A, "datatype": "BYTES", "data": [0.0, 10**400]}, B, C],
        "non-finite-value",
        None,
        "row 2, column 'a'",
    ),
    "missing": ([{**A, "data": [None, 2.0]}, B, C], "missing-value", None, "row 1, column 'a'"),
    "no truth": ([A, B, {**C, "data": [0, 2]}], "not-a-boolean", None, "row 2, column 'c'"),
    "no JSON": (
        [A, {**B, "parameters": {"content_type": "pd_json"}}, C],
        "malformed-json",
        None,
        "row 1",
    ),
}


def test_bad_columns_are_refused(predict_path: PredictPath, registered: RegisteredModels) -> None:
    """With their place, whether the columns are read at once or not."""
    columns = (Column("a"), Column("b", "category", ("x", "y")), Column("c", "boolean"))
    X = np.array([[0.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    encoder, scaling = fit_encoder(Encoding(missing="refuse"), "standardize", X, columns)
    fitted = replace(
        fitted_pipeline(n_features=encoder.n_outputs), scaling=scaling, encoder=encoder
    )
    registered.add("table", fitted, columns=["a", "b", "c"])
    assert predict_path.post("/v2/models/table/infer", json={"inputs": [C, A, B]}).is_success
    for name, (inputs, code, place, message) in BAD.items():
        reply = predict_path.post("/v2/models/table/infer", json={"inputs": inputs})
        problem = reply.json()
        assert reply.status_code in (400, 422), (name, reply.text)
        assert problem["code"] == code, (name, reply.text)
        assert message in problem["error"], (name, reply.text)
        if place is not None:
            assert problem["errors"][0]["pointer"] == place, (name, reply.text)


TEXT_MODEL = loaded(fitted_texts(MESSAGE), ["message"])


def texts_read(part: bytes, n: int) -> list[str]:
    described = {"name": "m", "shape": [n], "datatype": "BYTES", "parameters": {SIZE: len(part)}}
    X = np.asanyarray(read(TEXT_MODEL, {"inputs": [described]}, part).X)
    cells = X[:, 0].tolist()
    return ["" if cell != cell else texts_of(X).take([int(cell)])[0] for cell in cells]


def packed(texts: list[str]) -> bytes:
    return b"".join(struct.pack("<I", len(t.encode())) + t.encode() for t in texts)


def test_texts_of_any_length_are_read() -> None:
    """At once, or one by one if a length takes two bytes; damaged ones are refused or mean what
    they say."""
    draw = random.Random(0)
    for _ in range(300):
        n = draw.randint(1, 6)
        sizes = draw.choices([0, 1, 5, 127, 128, 255, 256, 700], k=n)
        texts = ["".join(draw.choices("abé ", k=size)).strip() for size in sizes]
        part = packed(texts)
        assert texts_read(part, n) == texts
        damaged = bytearray(part)
        damaged[draw.randrange(len(part))] = draw.choice([0, 1, 4, 255, draw.randrange(256)])
        expected = _one_by_one(bytes(damaged), n)
        if expected is None:
            with pytest.raises((InvalidContent, InvalidRequest)):
                texts_read(bytes(damaged), n)
        else:
            assert texts_read(bytes(damaged), n) == ["" if not t.strip() else t for t in expected]


def _one_by_one(part: bytes, n: int) -> list[str] | None:
    texts = []
    try:
        for _ in range(n):
            (length,) = struct.unpack_from("<I", part)
            if length > len(part) - 4:
                return None
            texts.append(part[4 : 4 + length].decode())
            part = part[4 + length :]
    except (struct.error, UnicodeDecodeError):
        return None
    return None if part or "\0" in "".join(texts) else texts


def test_heads_are_remembered_without_sizes() -> None:
    """One for all texts; a size that is no tensor's, or that JSON does not have, is not taken for
    one."""
    heads: Heads = {}

    def head_of(part: bytes) -> bytes:
        one = {"name": "m", "shape": [1], "datatype": "BYTES", "parameters": {SIZE: len(part)}}
        return json.dumps({"inputs": [one]}).encode()

    for text in ("a", "lost card", "é" * 200):
        asked = read(TEXT_MODEL, head_of(packed([text])), packed([text]), heads)
        assert texts_of(np.asanyarray(asked.X)).take([0]) == [text]
        assert len(heads) == 1
    part = packed(["a"])
    for size in (b"0405", b"5.0", b"-5", b"5e0", b"4", b"99999999999999999999", b"5 5"):
        sent = head_of(part).replace(b": 5}", b": %b}" % size)
        for some in (heads, {}):
            with pytest.raises((InvalidContent, InvalidRequest)):
                read(TEXT_MODEL, sent, part, some)
    for other in (b'{"x":{"binary_data_size":5}}', b'{"y\\"binary_data_size":5}'):
        for text in ("a", "ab"):
            part = packed([text])
            sent = head_of(part)[:-1] + b',"parameters":%b}' % other
            asked = read(TEXT_MODEL, sent, part, heads)
            assert texts_of(np.asanyarray(asked.X)).take([0]) == [text]
        assert len(heads) == 1


def test_a_size_that_is_left_out_is_not_another_ones() -> None:
    """Though the rest of the JSON part is known."""
    heads: Heads = {}
    model = loaded(fitted_pipeline(n_features=2), ["a", "b"])
    size: dict[str, Any] = {"parameters": {SIZE: 8}}
    a, b = tensor("a", [1.0], "FP64", **size), tensor("b", [2.0], "FP64", **size)
    del a["data"], b["data"]
    empty = {**a, "parameters": {}}, {**b, "parameters": {}}
    tail = np.array([1.0, 2.0]).tobytes()
    for _ in range(2):
        for inputs in ([a, b], [a, empty[1]]):
            asked = read(model, {"inputs": inputs}, tail, heads)
            assert np.asarray(asked.X).tolist() == [[1.0, 2.0]]
        for inputs in ([empty[0], b], [*empty]):
            with pytest.raises((InvalidContent, InvalidRequest)):
                read(model, {"inputs": inputs}, tail, heads)
        text = json.dumps({"inputs": [a, b]}).encode().replace(b'"binary_data_size": 8', b"\xff")
        with pytest.raises(InvalidRequest):
            read(model, text, tail, heads)
    assert len(heads) == 1


def test_one_row_of_columns_and_many() -> None:
    """Tickets have the same bits alone and together, at once or row by row."""
    rows = tickets(60, 7)
    model = loaded(fitted_texts(TICKET), TICKET_NAMES)
    inputs = [
        tensor(column.name, [row[j] for row in rows], "BYTES") for j, column in enumerate(TICKET)
    ]
    asked = read(model, {"inputs": inputs})
    expected = score_rows(model, asked.X).decision
    for i in range(len(rows)):
        one = [{**given, "shape": [1, 1], "data": given["data"][i : i + 1]} for given in inputs]
        assert score_rows(model, read(model, {"inputs": one}).X).decision[0] == expected[i]
