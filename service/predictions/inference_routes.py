"""The Open Inference Protocol, path for path, so that its clients work unchanged."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import orjson
from anyio.to_thread import run_sync
from fastapi import Depends
from starlette.requests import Request
from starlette.responses import Response

from service import __version__
from service.common.event_stream import Health, shutting_down
from service.common.names import ModelName
from service.errors import Unavailable
from service.models.outputs import arrays_of, offer_of_version
from service.models.registry import ModelRegistry
from service.models.routes import Version
from service.predictions.datatypes import datatype_of
from service.predictions.inference import schemas
from service.predictions.inference.column_tensors import DATATYPES
from service.predictions.inference.wire_format import HEAD_LENGTH
from service.predictions.predictor import Predictor, Target
from service.predictions.routes import respond
from service.storage.database.tables import ModelVersion
from service.web.access.scopes import Routes, requires_scope
from service.web.bodies.control_bodies import json_body, json_request
from service.web.problems import responses

EXAMPLE = {
    "inputs": [
        {
            "name": "x",
            "shape": [2, 4],
            "datatype": "FP64",
            "data": [5.1, 3.5, 1.4, 0.2, 6.7, 3.0, 5.2, 2.3],
        }
    ],
    "outputs": [{"name": "label"}],
}


def _errors(*codes: str) -> dict[int | str, dict[str, Any]]:
    """As `responses`, in the protocol's form of errors."""
    documented = responses(*codes)
    for reply in documented.values():
        (content,) = reply["content"].values()
        reply["content"] = {"application/json": content}
    return documented


_BINARY = {"schema": {"type": "string", "format": "binary"}}
_REQUEST = json_request(schemas.InferCreate, EXAMPLE)
_REQUEST["requestBody"]["content"]["application/octet-stream"] = {
    "schema": {
        **_BINARY["schema"],
        "description": "The JSON part, as long as `Inference-Header-Content-Length` says, then the "
        "tensors.",
        "example": "@request.bin",
    }
}
_REQUEST["parameters"] = [
    {
        "name": HEAD_LENGTH,
        "in": "header",
        "description": "Bytes of the JSON part, if tensors follow it.",
        "schema": {"type": "integer", "minimum": 0},
    }
]
_INFER: dict[str, Any] = {
    "response_model": schemas.InferRead,
    "response_model_exclude_none": True,
    "openapi_extra": _REQUEST,
    "description": "One tensor of numbers, [rows, features], or one, [rows], for each column, "
    "named as it; in JSON or as bytes behind it. Outputs are `label`, `decision`, `probability` if "
    "calibrated; of a model of numbers `value`; if asked for, `label_or_none`, empty texts for "
    "none, and `interval`.",
    "responses": {200: {"content": {"application/octet-stream": _BINARY}}}
    | _errors(
        *("malformed-json", "malformed-request", "invalid-name", "invalid-parameter"),
        *("invalid-header", "not-found", "body-too-large", "too-many-rows"),
        *("decompression-limit", "unsupported-format", "format-mismatch", "invalid-field"),
        *("empty-data", "feature-mismatch", "not-a-number", "missing-value", "non-finite-value"),
        *("not-a-boolean", "not-a-date", "unseen-level"),
        *("model-corrupt", "overloaded"),
    ),
}
_FOUND: dict[str, Any] = {"responses": _errors("invalid-name", "invalid-parameter", "not-found")}
_ASKED_READY: dict[str, Any] = {
    "responses": _errors("invalid-name", "invalid-parameter", "not-found", "model-not-ready")
}


def router(predictor: Predictor, registry: ModelRegistry, health: Health) -> Routes:
    """Everything below `/v2`."""
    routes = Routes("/v2", "open inference protocol")

    @routes.get("", operation_id="get_v2_server", summary="What serves here")
    async def server() -> schemas.ServerMetadata:
        """Name, version and the protocol's extensions that are offered."""
        extensions = ["binary_tensor_data", "model_repository"]
        return schemas.ServerMetadata(
            name="svm-service", version=__version__, extensions=extensions
        )

    @routes.get("/health/live", operation_id="get_v2_live", summary="Is the server alive?")
    @requires_scope(None)
    async def live() -> schemas.Live:
        """Answers as long as the process can answer anything."""
        return schemas.Live(live=True)

    @routes.get(
        "/health/ready",
        operation_id="get_v2_ready",
        summary="Is the server ready?",
        responses=_errors("shutting-down"),
    )
    @requires_scope(None)
    async def ready() -> schemas.Ready:
        """Until a shutdown has begun; every model can be asked for."""
        if health.draining:
            raise shutting_down(ready=False)
        return schemas.Ready(ready=True)

    @routes.get(
        "/models/{name}",
        operation_id="get_v2_model",
        summary="What a model takes and gives",
        **_FOUND,
    )
    def model(name: ModelName) -> schemas.ModelMetadata:
        """Of the version that answers for the model, and the numbers of all versions."""
        return _metadata(registry, registry.get_version(name))

    @routes.get(
        "/models/{name}/versions/{version}",
        operation_id="get_v2_model_version",
        summary="What a version of a model takes and gives",
        **_FOUND,
    )
    def model_version(name: ModelName, version: Version) -> schemas.ModelMetadata:
        """And the numbers of all versions."""
        return _metadata(registry, registry.get_version(name, version))

    @routes.get(
        "/models/{name}/ready",
        operation_id="get_v2_model_ready",
        summary="Can a model answer?",
        **_ASKED_READY,
    )
    def model_ready(name: ModelName) -> schemas.ModelReady:
        """Yes, unless the file of the version that answers for it is damaged."""
        return _ready(registry.get_version(name))

    @routes.get(
        "/models/{name}/versions/{version}/ready",
        operation_id="get_v2_model_version_ready",
        summary="Can a version of a model answer?",
        **_ASKED_READY,
    )
    def version_ready(name: ModelName, version: Version) -> schemas.ModelReady:
        """Yes, unless its file is damaged."""
        return _ready(registry.get_version(name, version))

    async def infer(request: Request, name: str, version: int | None) -> Response:
        target = Target(name, version, request.scope["route"].path, inference=True)
        call = predictor.call_of(target, request.scope["headers"])
        return await respond(request, predictor, call)

    @routes.post(
        "/models/{name}/infer",
        operation_id="infer",
        summary="Predict with a model",
        **_INFER,
    )
    @requires_scope("predict")
    async def infer_model(request: Request, name: ModelName) -> Response:
        return await infer(request, name, None)

    @routes.post(
        "/models/{name}/versions/{version}/infer",
        operation_id="infer_by_version",
        summary="Predict with a version of a model",
        **_INFER | {"description": "As `infer` of a model."},
    )
    @requires_scope("predict")
    async def infer_version(request: Request, name: ModelName, version: Version) -> Response:
        return await infer(request, name, version)

    @routes.post(
        "/repository/index",
        operation_id="get_v2_index",
        summary="All versions of all models",
        response_model=list[schemas.IndexEntry],
        openapi_extra=json_request(schemas.IndexRequest, {"ready": True}, required=False),
        responses=_errors(
            *("malformed-json", "invalid-field", "body-too-large", "unsupported-format")
        ),
    )
    @requires_scope("read")
    async def index(
        asked: Annotated[schemas.IndexRequest, Depends(json_body(schemas.IndexRequest))],
    ) -> Response:
        """By name and number, each with its state."""
        content = await run_sync(_index, registry, asked.ready)
        return Response(content, media_type="application/json")

    return routes


def _index(registry: ModelRegistry, ready: bool) -> bytes:
    """A list of `IndexEntry`, written batch by batch: in one piece it would stop other threads."""
    batches = []
    for rows in registry.index():
        entries = [
            {
                "name": row.model_name,
                "version": str(row.version),
                "state": "READY" if row.sound else "UNAVAILABLE",
                "reason": "" if row.sound else "the file is damaged",
            }
            for row in rows
            if row.sound or not ready
        ]
        batches.append(orjson.dumps(entries)[1:-1])
    return b"[" + b",".join(filter(None, batches)) + b"]"


def _metadata(registry: ModelRegistry, version: ModelVersion) -> schemas.ModelMetadata:
    offer = offer_of_version(version)
    types = {"label": datatype_of(np.asarray(version.classes)), "label_or_none": "BYTES"}
    return schemas.ModelMetadata(
        name=version.model_name,
        versions=[str(number) for number in registry.version_numbers(version.model_name)],
        platform="svm-service",
        inputs=_inputs(version),
        outputs=[
            schemas.TensorMetadata(
                name=name, datatype=types.get(name, "FP64"), shape=[-1, *offer[name].shape]
            )
            for name in arrays_of(offer)
        ],
    )


def _inputs(version: ModelVersion) -> list[schemas.TensorMetadata]:
    """A matrix of numbers; of a table with others a tensor for each column."""
    if version.kinds.isdisjoint(("category", "date", "text")):
        return [schemas.TensorMetadata(name="x", datatype="FP64", shape=[-1, version.n_features])]
    return [
        schemas.TensorMetadata(
            name=column["name"], datatype=DATATYPES.get(column["kind"], "FP64"), shape=[-1]
        )
        for column in version.result["table"]["columns"]
    ]


def _ready(version: ModelVersion) -> schemas.ModelReady:
    if version.quarantined_at is not None:
        raise Unavailable(
            "model-not-ready",
            f"the file of {version.model_name} version {version.version} is damaged",
            extra={"name": version.model_name, "ready": False},
        )
    return schemas.ModelReady(name=version.model_name, ready=True)
