"""Predictions over HTTP: by model, by version, by alias."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from service.common.names import AliasName, ModelName
from service.models.routes import Version
from service.predictions.loaded_models import Reference
from service.predictions.predictor import PredictionCall, Predictor, Target
from service.predictions.schemas import PredictionCreate, PredictionQuery, PredictionRead
from service.rows.format_table import FORMATS, ROW_FORMATS
from service.rows.spec import ARROW, DELIMITED, JSON, LIBSVM, NDJSON
from service.web.access.scopes import Routes, requires_scope
from service.web.bodies.control_bodies import json_request, read_limited
from service.web.bodies.receiving import unless_disconnected
from service.web.problems import responses

EXAMPLE = {
    "instances": [[5.1, 3.5, 1.4, 0.2], [6.7, 3.0, 5.2, 2.3]],
    "outputs": ["label", "decision"],
}
_BODY = (
    "Rows are lists of numbers in feature order, or objects with the model's feature names; CSV "
    "may begin with a line of names. JSON may also be written as for an upload. Named columns that "
    "the model does not use are ignored, and listed as `ignored_columns`; cells that are missing "
    "or that no training row had are listed as `unknown`. "
    "`outputs`, `coverage` and `withheld` are members of a JSON body or query parameters. "
    "Accept picks the reply's format. A row's result is the same to the bit in any format and "
    "in any batch. "
)
_AS_PREDICT = "Rows and replies are those of `predict`."
Asked = Annotated[PredictionQuery, Query()]
_EXAMPLES = {
    **{
        media_type: "5.1,3.5,1.4,0.2\n6.7,3.0,5.2,2.3\n".replace(",", delimiter)
        for media_type, delimiter in DELIMITED.items()
    },
    NDJSON: "[5.1, 3.5, 1.4, 0.2]\n[6.7, 3.0, 5.2, 2.3]\n",
    LIBSVM: "1:5.1 2:3.5 3:1.4 4:0.2\n1:6.7 2:3.0 3:5.2 4:2.3\n",
}


def _request() -> dict[str, Any]:
    """The `openapi_extra=` of a prediction: every format of rows."""
    request = json_request(PredictionCreate, EXAMPLE)
    for known in (FORMATS[media_type] for media_type in ROW_FORMATS if media_type != JSON):
        body: dict[str, Any] = {"schema": {"type": "string"}}
        if known.magic:
            body["schema"] |= {"format": "binary", "example": f"@X{known.suffixes[0]}"}
        elif known.media_type in _EXAMPLES:
            body["example"] = _EXAMPLES[known.media_type]
        request["requestBody"]["content"][known.media_type] = body
    return request


_REPLIES: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "text/csv": {"schema": {"type": "string"}},
            "application/x-ndjson": {"schema": {"type": "string"}},
            "application/x-npy": {"schema": {"type": "string", "format": "binary"}},
            ARROW: {"schema": {"type": "string", "format": "binary"}},
        }
    }
}
_DOCUMENTED: dict[str, Any] = {
    "response_model": PredictionRead,
    "response_model_exclude_none": True,
    "openapi_extra": _request(),
    "responses": _REPLIES
    | responses(
        *("malformed-json", "bad-encoding", "invalid-name", "invalid-parameter", "not-found"),
        *("not-acceptable", "body-too-large", "too-many-rows", "decompression-limit"),
        *("unsupported-format", "format-mismatch"),
        *("invalid-field", "empty-data", "feature-mismatch", "ragged-row"),
        *("not-a-boolean", "not-a-date", "unseen-level"),
        *("not-a-number", "missing-value", "non-finite-value", "csv-unterminated-quote"),
        *(
            "csv-cell-too-large",
            "libsvm-index",
            "npy-unsupported",
            "npy-corrupt",
            "columnar-unsupported",
        ),
        *("explanation-unsupported", "not-calibrated", "model-corrupt", "overloaded"),
    ),
}


async def respond(request: Request, predictor: Predictor, call: PredictionCall) -> Response:
    """Raises ServiceError: for a model that there is not, before the body is read."""
    await predictor.check(call)
    body = await read_limited(request, predictor.body_limit_bytes, "SVM_LIMITS__PREDICT_BODY_BYTES")
    reply = await unless_disconnected(request.receive, predictor.answer(call, body))
    # `Response` would add a charset to its own `media_type`.
    headers = {"Content-Type": reply.media_type, **dict(reply.headers)}
    return Response(reply.body, headers=headers)


def router(predictor: Predictor) -> Routes:
    """The `predict` routes below `/v1/models/{name}`. They document what the protocol class mostly
    answers, and answer the rest: what is rare, and what is wrong."""
    routes = Routes("/v1/models/{name}", "predictions")

    async def answer(
        request: Request, name: str, reference: Reference, query: PredictionQuery
    ) -> Response:
        target = Target(name, reference, request.scope["route"].path)
        call = predictor.call_of(target, request.scope["headers"], query)
        return await respond(request, predictor, call)

    @routes.post(
        "/predict",
        operation_id="predict",
        summary="Predict with a model",
        description=f"{_BODY}The alias `default` answers if it is set, else the latest version.",
        **_DOCUMENTED,
    )
    @requires_scope("predict")
    async def predict(request: Request, name: ModelName, query: Asked) -> Response:
        return await answer(request, name, None, query)

    @routes.post(
        "/versions/{version}/predict",
        operation_id="predict_by_version",
        summary="Predict with a version of a model",
        description=_AS_PREDICT,
        **_DOCUMENTED,
    )
    @requires_scope("predict")
    async def predict_by_version(
        request: Request, name: ModelName, version: Version, query: Asked
    ) -> Response:
        return await answer(request, name, version, query)

    @routes.post(
        "/aliases/{alias}/predict",
        operation_id="predict_by_alias",
        summary="Predict with the version an alias points to",
        description=f"{_AS_PREDICT} The reply names the version that answered.",
        **_DOCUMENTED,
    )
    @requires_scope("predict")
    async def predict_by_alias(
        request: Request, name: ModelName, alias: AliasName, query: Asked
    ) -> Response:
        return await answer(request, name, alias, query)

    return routes
