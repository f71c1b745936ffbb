"""The Open Inference Protocol: asked by tritonclient, and by hand where that is too kind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import gzip
import json
import time
import tracemalloc
import warnings
import zlib
from typing import Any

import httpx2
import numpy as np
import orjson
import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from service.app import create_app
from service.errors import ServiceError
from service.predictions.inference.wire_format import MOST_REMEMBERED, Heads, InferenceExchange
from service.settings import Limits, Settings
from service.storage.database.tables import model_versions, models
from tests.service.models.registered_models import RegisteredModels, fitted_pipeline
from tests.service.predictions.predict_paths import PredictPath, predict_path, served, url
from tests.service.predictions.test_bodies import model

__all__ = ["predict_path", "url"]

pytestmark = pytest.mark.one_application(
    limits=Limits(predict_body_bytes=1_000_000, predict_rows=1000)
)

PATH = "/v2/models/iris/infer"
X = np.random.default_rng(0).normal(size=(7, 3))


def test_too_large_a_json_part_says_what_to_send() -> None:
    """Which a client of the protocol can do."""
    body = b'{"inputs": ["BYTES", "' + b":" * 600_000 + b'"]}'
    with pytest.raises(ServiceError, match="fewer tensors"):
        InferenceExchange([], Limits(), {}).read(body, model())


class TestTriton:
    """Every call of tritonclient.http that the protocol has."""

    @pytest.fixture
    def triton(self, url: str) -> Any:
        self.url = url.removeprefix("http://")
        with warnings.catch_warnings(action="ignore"):  # of the libraries below it
            return pytest.importorskip("tritonclient.http")

    def test_health_and_metadata(self, registered: RegisteredModels, triton: Any) -> None:
        """Live, ready, what there is, what it takes."""
        registered.add("iris", fitted_pipeline(("a", "b", "c")))
        damaged = registered.add("iris", fitted_pipeline((1, 2)))
        with triton.InferenceServerClient(self.url) as client:
            assert client.is_server_live()
            assert client.is_server_ready()
            assert client.is_model_ready("iris")
            assert client.is_model_ready("iris", "1")
            assert not client.is_model_ready("iris", "3")
            assert not client.is_model_ready("none")
            assert client.get_server_metadata()["name"] == "svm-service"
            assert "binary_tensor_data" in client.get_server_metadata()["extensions"]
            metadata = client.get_model_metadata("iris", "1")
            assert metadata["versions"] == ["1", "2"]
            assert metadata["inputs"] == [{"name": "x", "datatype": "FP64", "shape": [-1, 3]}]
            assert metadata["outputs"][:2] == [
                {"name": "label", "datatype": "BYTES", "shape": [-1]},
                {"name": "decision", "datatype": "FP64", "shape": [-1, 3]},
            ]
            outputs = client.get_model_metadata("iris")["outputs"]
            assert outputs[0]["datatype"] == "INT64"
            registered.replace_file(damaged, b"")
            with pytest.raises(triton.InferenceServerException, match="damaged"):
                self.infer(triton, client)
            assert not client.is_model_ready("iris", "2")
            index = client.get_model_repository_index()
            assert [(entry["version"], entry["state"]) for entry in index] == [
                ("1", "READY"),
                ("2", "UNAVAILABLE"),
            ]

    @pytest.mark.parametrize("binary_in", [True, False])
    @pytest.mark.parametrize("binary_out", [True, False, None])
    @pytest.mark.parametrize("classes", [("no", "yes"), ("a", "ü", "c"), (3, 5), (0.5, 1.5)])
    def test_infer(
        self,
        registered: RegisteredModels,
        triton: Any,
        classes: tuple[Any, ...],
        binary_in: bool,
        binary_out: bool | None,
    ) -> None:
        """The model's labels and the bits of its values, however the tensors travel."""
        fitted = fitted_pipeline(classes, scaled=True)
        registered.add("iris", fitted)
        with triton.InferenceServerClient(self.url) as client:
            for version in ("", "1"):
                reply = self.infer(triton, client, binary_in, binary_out, version)
                labels = reply.as_numpy("label").tolist()
                labels = [x.decode() if isinstance(x, bytes) else x for x in labels]
                assert labels == fitted.predict(X).tolist()
                decision = reply.as_numpy("decision")
                assert decision.tobytes() == fitted.decision_function(X).tobytes()
                head = reply.get_response()
                assert (head["model_name"], head["model_version"]) == ("iris", "1")
                assert head["id"] == "mine"

    @pytest.mark.parametrize("coding", ["gzip", "deflate"])
    def test_compression(self, registered: RegisteredModels, triton: Any, coding: str) -> None:
        """Of the request and of the reply."""
        fitted = fitted_pipeline()
        registered.add("iris", fitted)
        with triton.InferenceServerClient(self.url) as client:
            for _ in range(2):
                reply = self.infer(
                    triton,
                    client,
                    request_compression_algorithm=coding,
                    response_compression_algorithm=coding,
                )
                decision = reply.as_numpy("decision")
                assert decision.tobytes() == fitted.decision_function(X).tobytes()

    def test_errors_are_told(self, registered: RegisteredModels, triton: Any) -> None:
        """As the client expects them."""
        registered.add("iris", fitted_pipeline(n_features=4))
        with triton.InferenceServerClient(self.url) as client:
            with pytest.raises(triton.InferenceServerException, match="4 are expected") as caught:
                self.infer(triton, client)
            assert caught.value.status() == "422"
            with pytest.raises(triton.InferenceServerException, match="no model none"):
                client.get_model_metadata("none")

    @staticmethod
    def infer(
        triton: Any,
        client: Any,
        binary_in: bool = True,
        binary_out: bool | None = None,
        version: str = "",
        **options: Any,
    ) -> Any:
        tensor = triton.InferInput("x", list(X.shape), "FP64")
        tensor.set_data_from_numpy(X, binary_data=binary_in)
        outputs = None
        if binary_out is not None:
            outputs = [
                triton.InferRequestedOutput(name, binary_data=binary_out)
                for name in ("label", "decision")
            ]
        return client.infer("iris", [tensor], version, outputs, request_id="mine", **options)


def ask(
    predict_path: PredictPath,
    *,
    data: Any = None,
    tail: bytes = b"",
    head: Any = None,
    **tensor: Any,
) -> Any:
    """An infer request made by hand."""
    described = {"name": "x", "shape": [7, 3], "datatype": "FP64", **tensor}
    if data is not None:
        described["data"] = data
    document = {"inputs": [described]} if head is None else head
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    headers = {"Inference-Header-Content-Length": str(len(content))} if tail else {}
    return predict_path.post(PATH, content=content + tail, headers=headers)


@pytest.mark.parametrize(
    ("datatype", "kind"),
    [
        ("FP64", "f8"),
        ("FP32", "f4"),
        ("FP16", "f2"),
        ("INT64", "i8"),
        ("UINT8", "u1"),
        ("BOOL", "?"),
    ],
)
def test_tensors_of_every_type(
    predict_path: PredictPath, registered: RegisteredModels, datatype: str, kind: str
) -> None:
    """Flat, nested or as bytes: the same bits; a number is what its type makes of it."""
    fitted = fitted_pipeline()
    registered.add("iris", fitted)
    values = (np.abs(X) * 3).astype(kind)
    expected = fitted.decision_function(values.astype(np.float64)).tolist()
    data = values.tolist()
    for reply in (
        ask(predict_path, datatype=datatype, data=data),
        ask(predict_path, datatype=datatype, data=[value for row in data for value in row]),
        ask(predict_path, datatype=datatype, tail=values.tobytes()),
        ask(
            predict_path,
            datatype=datatype,
            tail=values.tobytes(),
            parameters={"binary_data_size": values.nbytes},
        ),
    ):
        assert reply.status_code == 200, reply.text
        outputs = {output["name"]: output for output in reply.json()["outputs"]}
        assert outputs["decision"]["data"] == expected
        assert outputs["decision"]["shape"] == [7]


def test_kserve_client(predict_path: PredictPath, registered: RegisteredModels) -> None:
    """What kserve's InferenceRESTClient sends and reads, by hand: it is too large to install."""
    registered.add("iris")
    assert predict_path.get("/v2/health/live").json() == {"live": True}
    assert predict_path.get("/v2/health/ready").json() == {"ready": True}
    assert predict_path.get("/v2/models/iris/ready").json() == {"name": "iris", "ready": True}
    body = {
        "id": "8a",
        "inputs": [
            {"name": "input-0", "shape": [1, 3], "datatype": "FP64", "data": [[1.0, 2.0, 3.0]]}
        ],
    }
    headers = {"Content-Type": "application/json"}
    reply = predict_path.post(PATH, content=json.dumps(body).encode(), headers=headers).json()
    assert reply["model_name"] == "iris"
    assert reply["id"] == "8a"
    assert [output["name"] for output in reply["outputs"]][:2] == ["label", "decision"]


ONE = b'{"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP64", "data": [1, 2, 3]}]}'
BAD: dict[str, tuple[dict[str, Any], int, str]] = {
    "no JSON": ({"head": b"{"}, 400, "malformed-json"),
    "a name twice": ({"head": ONE[:-1] + b', "inputs": []}'}, 400, "malformed-json"),
    "a name twice in a tensor": (
        {"head": ONE.replace(b'"name"', b'"name": "y", "name"')},
        400,
        "malformed-json",
    ),
    "17 levels": (
        {"head": ONE[:-1] + b', "parameters": {"a": ' + b"[" * 15 + b"]" * 15 + b"}}"},
        400,
        "malformed-json",
    ),
    "a gap": ({"data": [0.0] * 20 + [None]}, 422, "missing-value"),
    "too large an integer": ({"data": [0.0] * 20 + [10**400]}, 422, "non-finite-value"),
    "no tensor": ({"head": {"inputs": []}}, 422, "invalid-field"),
    "two tensors": ({"head": {"inputs": [{}, {}]}}, 422, "invalid-field"),
    "an unknown member": ({"head": {"input": []}}, 422, "invalid-field"),
    "a list": ({"head": []}, 422, "invalid-field"),
    "another type": ({"datatype": "BYTES", "data": ["a"]}, 422, "invalid-field"),
    "another shape": ({"shape": [21], "data": [0.0] * 21}, 422, "invalid-field"),
    "a wide shape": ({"shape": [7, 4], "data": [0.0] * 28}, 422, "feature-mismatch"),
    "no rows": ({"shape": [0, 3], "data": []}, 422, "empty-data"),
    "too many rows": ({"shape": [1001, 3], "data": [0.0] * 3003}, 413, "too-many-rows"),
    "too few numbers": ({"data": [0.0] * 20}, 422, "invalid-field"),
    "ragged rows": ({"data": [[0.0] * 3] * 6 + [[0.0] * 2]}, 422, "invalid-field"),
    "a word": ({"data": [0.0] * 20 + ["1"]}, 422, "not-a-number"),
    "a truth": ({"data": [0.0] * 20 + [True]}, 422, "not-a-number"),
    "a fraction": ({"datatype": "INT64", "data": [0] * 20 + [0.5]}, 422, "not-a-number"),
    "too large a number": ({"datatype": "INT8", "data": [0] * 20 + [200]}, 422, "not-a-number"),
    "beyond all types": ({"datatype": "INT64", "data": [0] * 20 + [10**400]}, 422, "not-a-number"),
    "infinite in FP32": ({"datatype": "FP32", "data": [1e300] * 21}, 422, "non-finite-value"),
    "NaN bytes": ({"tail": np.full((7, 3), np.nan).tobytes()}, 422, "non-finite-value"),
    "booleans that are numbers": (
        {"datatype": "BOOL", "tail": bytes([2]) * X.size},
        400,
        "malformed-request",
    ),
    "too few bytes": ({"tail": b"1234567"}, 400, "malformed-request"),
    "a wrong size": (
        {"tail": X.tobytes(), "parameters": {"binary_data_size": 8}},
        422,
        "invalid-field",
    ),
    "bytes and data": ({"tail": X.tobytes(), "data": X.tolist()}, 400, "malformed-request"),
    "a type that is not a text": ({"datatype": {}, "data": []}, 422, "invalid-field"),
    **{
        f"{name} = {value}": (
            {
                "head": {
                    "inputs": [{"shape": [1, 3], "datatype": "FP64", "data": [1, 2, 3]}],
                    name: value,
                }
            },
            422,
            "invalid-field",
        )
        for name, value in (
            ("parameters", False),
            ("parameters", {"binary_data_output": 1}),
            ("outputs", 0),
            ("outputs", [{"name": {}}]),
            ("outputs", [{"name": "label", "parameters": []}]),
            ("outputs", [{"name": "label", "parameters": {"binary_data": "yes"}}]),
        )
    },
    "an unknown output": (
        {
            "head": {
                "inputs": [{"shape": [1, 3], "datatype": "FP64", "data": [1, 2, 3]}],
                "outputs": [{"name": "y"}],
            }
        },
        422,
        "invalid-field",
    ),
}


def test_bad_requests_are_told_in_the_protocols_form(
    predict_path: PredictPath, registered: RegisteredModels
) -> None:
    """`application/json` with `error`, and what every problem has."""
    registered.add("iris")
    for name, (request, status, code) in BAD.items():
        for _ in range(2):
            reply = ask(predict_path, **request)
            assert (reply.status_code, reply.json().get("code")) == (status, code), (
                name,
                reply.text,
            )
            assert reply.headers["Content-Type"] == "application/json"
            assert reply.json()["error"].startswith(reply.json()["detail"])
    for path in ("/v2/models/none", "/v2/models/iris/versions/7", "/v2/models/none/ready"):
        reply = predict_path.get(path)
        assert reply.status_code == 404
        assert reply.headers["Content-Type"] == "application/json"
        assert "there is no" in reply.json()["error"]
    headers = {"Inference-Header-Content-Length": "999"}
    reply = predict_path.post(PATH, content=b"{}", headers=headers)
    assert (reply.status_code, reply.json()["code"]) == (400, "invalid-header")
    deep = ONE[:-1] + b', "parameters": {"a": ' + b"[" * 14 + b"]" * 14 + b', "b": ":"}}'
    assert ask(predict_path, head=deep).status_code == 200
    assert ask(predict_path, data=X.tolist()).status_code == 200


def test_a_bad_number_is_called_by_its_column(
    predict_path: PredictPath, registered: RegisteredModels
) -> None:
    """By the name that the model has for it; a wrong width says what is expected."""
    registered.add("iris", columns=["a", "b", "c"])
    for value in (None, True, 10**400, "1"):
        (fault,) = ask(predict_path, data=[0.0] * 19 + [value, 0.0]).json()["errors"]
        assert (fault["row"], fault["column"]) == (7, "b")
    problem = ask(predict_path, shape=[7, 2], data=[0.0] * 14).json()
    assert (problem["expected"], problem["got"], problem["first_difference"]) == (3, 2, "c")


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_reply_is_compressed_for_who_asks_for_one_coding(
    predict_path: PredictPath, registered: RegisteredModels, coding: str
) -> None:
    """Not for who lists all that it knows, as every HTTP library does."""
    registered.add("iris")
    content = json.dumps(
        {"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP64", "data": [1, 2, 3]}]}
    ).encode()
    expected = predict_path.post(
        PATH, content=content, headers={"Accept-Encoding": "gzip, deflate"}
    )
    assert "Content-Encoding" not in expected.headers
    packed = predict_path.post(PATH, content=content, headers={"Accept-Encoding": coding})
    assert packed.headers["Content-Encoding"] == coding
    assert packed.json() == expected.json()
    sent = (gzip.compress if coding == "gzip" else zlib.compress)(content)
    assert (
        predict_path.post(PATH, content=sent, headers={"Content-Encoding": coding}).json()
        == expected.json()
    )


def test_shutdown_is_not_ready(settings: Settings) -> None:
    """503, with `ready` false."""
    app = create_app(settings)
    with served(app) as url, httpx2.Client(base_url=url) as client:
        app.health.draining = True
        reply = client.get("/v2/health/ready")
        assert (reply.status_code, reply.json()["ready"]) == (503, False)


def test_index_of_ten_thousand_models_does_not_hold_the_loop(
    client: TestClient, registered: RegisteredModels
) -> None:
    """All are listed, by name and number. It took a second of the event loop: what counts is the
    loop's own work, since the machine may be busy, in the best of three rounds."""
    registered.add("model-0")
    names = [f"model-{number}" for number in range(1, 10_000)]
    with registered.database.write() as connection:
        for table in (models, model_versions):
            row = connection.execute(sa.select(table)).mappings().one()
            key = "name" if table is models else "model_name"
            connection.execute(table.insert(), [{**row, key: name} for name in names])
    longest: list[float] = []

    async def watch() -> None:
        while True:
            begun = time.thread_time()
            await asyncio.sleep(0)
            longest[-1] = max(longest[-1], time.thread_time() - begun)

    assert client.portal is not None
    gc.freeze()  # what the tests have made so far
    for _ in range(3):
        longest.append(0.0)
        watching = client.portal.start_task_soon(watch)
        reply = client.post("/v2/repository/index")
        watching.cancel()
        index = reply.json()
        assert [entry["name"] for entry in index] == sorted(["model-0", *names])
        assert index[0] == {"name": "model-0", "version": "1", "state": "READY", "reason": ""}
    gc.unfreeze()
    assert min(longest) < 0.02


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"re": 1}, "/re: There is no such field; known fields are `ready`"),
        ({"Ready": True}, "did you mean `ready`?"),
        ([], "the body: Input should be an object"),
    ],
)
def test_error_of_the_protocol_has_the_hint(client: TestClient, body: Any, said: str) -> None:
    """Its clients show `error` alone."""
    reply = client.post("/v2/repository/index", json=body)
    assert reply.status_code == 422
    assert said in reply.json()["error"]


def test_heads_that_are_sent_again_mean_the_same_and_no_more(
    url: str, registered: RegisteredModels
) -> None:
    """Their numbers, and the model that is asked, may be others."""
    models = {"iris": fitted_pipeline(), "other": fitted_pipeline(("a", "b"), seed=1)}
    models["wide"] = fitted_pipeline(n_features=4)
    for name, fitted in models.items():
        registered.add(name, fitted)
    tensor = {"name": "x", "shape": [1, 3], "datatype": "FP64"}
    outputs = [{"name": "decision", "parameters": {"binary_data": True}}]
    head = json.dumps({"inputs": [tensor], "outputs": outputs}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    for row in X:
        for name, fitted in models.items():
            path = f"{url}/v2/models/{name}/infer"
            reply = httpx2.post(path, content=head + row.tobytes(), headers=headers)
            if name == "wide":
                assert (reply.status_code, reply.json()["code"]) == (422, "feature-mismatch")
                continue
            end = int(reply.headers["Inference-Header-Content-Length"])
            assert reply.content[end:] == fitted.decision_function(row[None]).tobytes()


def test_heads_that_are_remembered_take_little_memory() -> None:
    """In all, whatever fills them: texts, or the smallest items, which take twenty times more."""
    heads: Heads = {}
    asked = model(n_features=3)
    data = X.tobytes()
    tensor: dict[str, Any] = {"name": "x", "shape": X.shape, "datatype": "FP64"}

    def read(number: int, tensor: dict[str, Any], **other: Any) -> None:
        head = orjson.dumps({"inputs": [tensor], "id": f"{number}", **other})
        headers = [(b"inference-header-content-length", b"%d" % len(head))]
        with contextlib.suppress(ServiceError):
            InferenceExchange(headers, Limits(), heads).read(head + data, asked)

    names = list(map(chr, range(ord("A"), ord("W"))))
    wide = model(n_features=len(names), columns=names)

    def read_columns(number: int) -> None:
        size = {"parameters": {"binary_data_size": 8}}
        columns = [{"name": n, "datatype": "FP64", "shape": [1], **size} for n in names]
        head = orjson.dumps({"inputs": columns, "id": f"{number}" * 50})
        headers = [(b"inference-header-content-length", b"%d" % len(head))]
        InferenceExchange(headers, Limits(), heads).read(head + bytes(8 * len(names)), wide)

    read(0, tensor)
    read_columns(0)
    assert len(heads) == 2
    tracemalloc.start(1)
    try:
        for number in range(80):
            small: list[object] = [{}] * 600
            read(number, tensor | {"data": small})
            read(number, tensor | {"parameters": {"binary_data_size": small}})
            read(number, tensor | {"parameters": {"x": small}})
            read(number, tensor, id=f"{number}" + "x" * 1900)
            read_columns(number)
        assert 0 < len(heads) <= MOST_REMEMBERED
        assert tracemalloc.get_traced_memory()[0] < 1024 * 1024
    finally:
        tracemalloc.stop()
