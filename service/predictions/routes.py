"""Predictions over HTTP: by model, by version, by alias."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from service.errors import UnsupportedFormat
from service.models.schemas import MAX_VERSION
from service.predictions.loaded_models import Reference
from service.predictions.predictor import Predictor
from service.predictions.schemas import PredictionCreate, PredictionRead
from service.web.bodies import json_request, read_limited
from service.web.names import AliasName, ModelName
from service.web.problems import responses

Version = Annotated[
    int, Path(ge=1, le=MAX_VERSION, description="Number of the version.", examples=[1])
]

EXAMPLE = {
    "instances": [[5.1, 3.5, 1.4, 0.2], [6.7, 3.0, 5.2, 2.3]],
    "outputs": ["label", "decision"],
}
_BODY = "Rows are lists of numbers in feature order, or objects with the model's feature names. "
_DOCUMENTED: dict[str, Any] = {
    "response_model": PredictionRead,
    "response_model_exclude_none": True,
    "openapi_extra": json_request(PredictionCreate, EXAMPLE),
    "responses": responses(
        *("malformed-json", "invalid-name", "invalid-parameter", "not-found"),
        *("body-too-large", "too-many-rows", "unsupported-format"),
        *("invalid-field", "empty-data", "feature-mismatch", "ragged-row"),
        *("not-a-number", "missing-value", "non-finite-value", "model-corrupt"),
    ),
}


def router(predictor: Predictor, body_limit_bytes: int) -> APIRouter:
    """The `predict` routes below `/v1/models/{name}`."""
    routes = APIRouter(prefix="/v1/models/{name}", tags=["predictions"])

    async def answer(request: Request, name: str, reference: Reference) -> Response:
        _check_format(request)
        body = await read_limited(request, body_limit_bytes)
        reply = await predictor.answer(name, reference, body)
        return Response(reply, media_type="application/json")

    @routes.post(
        "/predict",
        operation_id="predict",
        summary="Predict with a model",
        description=f"{_BODY}The alias `default` answers where it is set, else the latest version.",
        **_DOCUMENTED,
    )
    async def predict(request: Request, name: ModelName) -> Response:
        return await answer(request, name, None)

    @routes.post(
        "/versions/{version}/predict",
        operation_id="predict_by_version",
        summary="Predict with a version of a model",
        description=_BODY,
        **_DOCUMENTED,
    )
    async def predict_by_version(request: Request, name: ModelName, version: Version) -> Response:
        return await answer(request, name, version)

    @routes.post(
        "/aliases/{alias}/predict",
        operation_id="predict_by_alias",
        summary="Predict with the version an alias points to",
        description=f"{_BODY}The reply names the version that answered.",
        **_DOCUMENTED,
    )
    async def predict_by_alias(request: Request, name: ModelName, alias: AliasName) -> Response:
        return await answer(request, name, alias)

    return routes


def _check_format(request: Request) -> None:
    media_type = request.headers.get("content-type", "application/json").partition(";")[0]
    if media_type.strip().lower() != "application/json":
        raise UnsupportedFormat("unsupported-format", "send the rows as application/json")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise UnsupportedFormat("unsupported-format", "send the rows without Content-Encoding")
