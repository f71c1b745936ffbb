"""Plots, exports and imports of model versions over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, Path, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from service.charts.chart import MEDIA_TYPES as CHARTS
from service.charts.chart import ChartFormat
from service.common.names import ModelName
from service.errors import UnsupportedFormat
from service.models import exports
from service.models.derived.renderer import Renderer
from service.models.exports import JSON, MEDIA_TYPES, NPZ, ExportFormat
from service.models.plots import PlotKind, file_name
from service.models.registry import ModelRegistry
from service.models.routes import Version, etag_of
from service.models.schemas import ModelVersionRead
from service.settings import Limits
from service.storage.blobs import Blobs
from service.storage.database.tables import ModelVersion
from service.web.access.scopes import Routes
from service.web.bodies.idempotency import Once
from service.web.bodies.uploads import IncomingBody
from service.web.http.downloads import RANGE_PARAMETERS, download, downloads
from service.web.problems import responses

_IMPORTED = {JSON: "json", NPZ: "npz"}
_EXAMPLE = {
    "format": "svm-service-model",
    "format_version": 1,
    "columns": ["length", "width"],
    "origin": {},
    "model": {
        "format": 1,
        "classes": {"dtype": "<U1", "shape": [2], "values": ["a", "b"]},
        "scaling": "none",
        "features": {"name": "identity"},
        "n_features": 2,
        "multiclass": "one-vs-one",
        "coefficients": {"dtype": "<f8", "shape": [1, 2], "values": [0.5, -1.25]},
        "intercepts": {"dtype": "<f8", "shape": [1], "values": [0.125]},
    },
}
_IMPORT_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {"schema": {"type": "object"}, "example": _EXAMPLE},
            NPZ: {
                "schema": {
                    "type": "string",
                    "format": "binary",
                    "description": "An export with `format=npz`.",
                    "example": "@model.npz",
                }
            },
        },
    }
}

_DERIVED = (
    *("invalid-name", "invalid-parameter", "invalid-header", "not-found", "precondition-failed"),
    *("range-not-satisfiable", "making-failed", "process-lost", "model-corrupt"),
    *("dataset-corrupt", "storage-full"),
)

ImportedName = Annotated[ModelName, Field(examples=["iris-imported"])]
"""Not the model that the other examples train."""


def router(registry: ModelRegistry, renderer: Renderer, blobs: Blobs, limits: Limits) -> Routes:
    """Plots, exports and imports."""
    routes = Routes("/v1/models", "models")
    _add_plots(routes, registry, renderer)
    _add_export(routes, registry, renderer)
    _add_import(routes, registry, renderer, blobs, limits)
    return routes


def _add_plots(routes: APIRouter, registry: ModelRegistry, renderer: Renderer) -> None:
    @routes.get(
        "/{name}/versions/{version}/plots/{kind}.{format}",
        operation_id="get_plot",
        summary="Get a plot of a version",
        description="An SVG picture of at most 200 kB with a title and a description, or its "
        "points as CSV; the same bytes every time. Compressed, if you accept gzip, it has no "
        "`Repr-Digest`.\n\n"
        "- `boundary`: areas of the predicted classes with the data, and the margins of two "
        "classes; in the plane of the data's two principal components if there are more than two "
        "features. Without the data's points if the dataset was deleted.\n"
        "- `learning-curve`: cost, lower bound and relative gap over the epochs.\n"
        "- `cost-by-epoch`, `cost-by-update`, `cost-by-time`: cost in the constants of the "
        "solver's objective and errors, with every point of the job's `trace`.\n"
        "- `confusion`: the confusion matrix of the validation set, else of the training set.\n"
        "- `roc`: a curve for each class against the others, with the areas under them.\n"
        "- `margins`: the distribution of the rows' margins.\n"
        "- `reliability`: predicted probabilities against observed frequencies.\n"
        "- `none-of-these`: the share of known rows whose labels a threshold withholds.\n"
        "- `predicted-against-actual`, `residuals`: of a model of numbers the predictions of rows "
        "against their targets, and actual minus predicted against predicted, with lines at ±ε. "
        "Those of the validation set, else of the training set.\n"
        "\n`boundary`, and `confusion` to `none-of-these`, are plots of classes.\n"
        "\nPlots that need the data use at most 5,000 rows.",
        response_class=Response,
        responses={
            **downloads(*CHARTS.values()),
            **responses(*_DERIVED, "plot-unavailable", "not-calibrated"),
        },
        openapi_extra=RANGE_PARAMETERS,
    )
    async def get_plot(
        request: Request,
        name: ModelName,
        version: Version,
        kind: Annotated[PlotKind, Path(description="Kind of the plot.", examples=["boundary"])],
        format: Annotated[ChartFormat, Path(examples=["svg"])],
    ) -> Response:
        model_version = await run_sync(registry.get_version, name, version)
        row, content = await renderer.open(model_version, file_name(kind, format))
        return download(
            request,
            content,
            size_bytes=row.size_bytes,
            sha256=row.file_sha256,
            media_type=CHARTS[format],
            filename=f"{name}-{version}-{kind}.{format}",
            headers={
                "Content-Disposition": f'inline; filename="{name}-{version}-{kind}.{format}"',
                # The picture runs and loads nothing, also if it is opened by itself.
                "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
            },
        )


def _add_export(routes: APIRouter, registry: ModelRegistry, renderer: Renderer) -> None:
    @routes.get(
        "/{name}/versions/{version}/export",
        operation_id="export_model_version",
        summary="Export a version",
        description="The complete model in double precision: scaling, feature map, kernel, "
        "decisions by votes, probabilities.\n\n"
        "- `npz`: plain NumPy arrays; the member `readme` is a Python file that predicts with "
        "NumPy alone.\n"
        "- `json`: the same parts as JSON.\n"
        "- `onnx`: a graph for any ONNX runtime; input `X`, outputs `label`, `decision` and, of a "
        "calibrated model, `probability`; `value` of a model of numbers. Needs the extra `onnx` on "
        "the service's machine.\n"
        "\nThe header `Svm-Parity`, also in the file, compares the file's predictions with the "
        "service's: number of training rows compared, share of equal labels, and the largest "
        "difference of decision values, relative to the value or to 1, the margin; of numbers, "
        "relative to the number or to the target's standard deviation. It is missing "
        "if the training data were deleted. JSON and NPZ files can be imported again.",
        response_class=Response,
        responses={
            **downloads(*MEDIA_TYPES.values()),
            **responses(*_DERIVED, "export-unsupported"),
        },
        openapi_extra=RANGE_PARAMETERS,
    )
    async def export_version(
        request: Request,
        name: ModelName,
        version: Version,
        format: Annotated[ExportFormat, Query(description="Format of the file.", examples=["npz"])],
    ) -> Response:
        model_version = await run_sync(registry.get_version, name, version)
        row, content = await renderer.open(model_version, exports.file_name(format))
        return download(
            request,
            content,
            size_bytes=row.size_bytes,
            sha256=row.file_sha256,
            media_type=MEDIA_TYPES[format],
            filename=f"{name}-{version}.{format}",
            headers=_parity(row.about["parity"]),
        )


def _add_import(
    routes: APIRouter, registry: ModelRegistry, renderer: Renderer, blobs: Blobs, limits: Limits
) -> None:
    @routes.post(
        "/{name}/versions",
        status_code=201,
        operation_id="import_model_version",
        summary="Import a version",
        description="Stores a model that was exported as JSON or NPZ, by this or another service, "
        "as the next version of this name. Every part is checked; the version has the digest of "
        "the exported one and predicts the same bits. `imported` shows the file's own claims "
        "about its origin. The version has no metrics and no certificate, since nothing was "
        "measured here: use an evaluation. Limits: `upload_bytes` (`/v1/info`), also after "
        "decompression, and 8,000,000 numbers as JSON, as for exports.",
        response_model=ModelVersionRead,
        responses=responses(
            *("invalid-name", "invalid-parameter", "malformed-json", "malformed-request"),
            *("body-too-large", "decompression-limit", "unsupported-format"),
            *("invalid-model", "making-failed", "process-lost", "storage-full"),
        ),
        openapi_extra=_IMPORT_BODY,
    )
    async def import_version(request: Request, once: Once, name: ImportedName) -> Response:
        body = IncomingBody(request)
        if body.media_type not in _IMPORTED:
            accepted = " or ".join(_IMPORTED)
            raise UnsupportedFormat("unsupported-format", f"send the model as {accepted}")
        blobs.check_room()
        with blobs.temporary_folder() as folder:
            path = folder / "model"
            await body.save(path, limits.upload_bytes, limits.upload_bytes)

            async def keep() -> Response:
                model = await renderer.read(path, body.media_type)
                imported = {"format": _IMPORTED[body.media_type], "origin": model.origin}
                also = once.record(_reply_to)
                version = await run_sync(
                    registry.add_imported, model.prepared, name, imported, also
                )
                return _reply_to(version)

            return await once.perform(keep)


def _reply_to(version: ModelVersion) -> Response:
    read = ModelVersionRead.of(version)
    location = f"/v1/models/{version.model_name}/versions/{version.version}"
    headers = {"Location": location, "ETag": etag_of(read)}
    return Response(read.model_dump_json(), 201, headers, media_type="application/json")


def _parity(parity: Mapping[str, Any] | None) -> dict[str, str]:
    """As a dictionary of structured fields (RFC 9651)."""
    if parity is None:
        return {}
    figures = [f"rows={parity['rows']}"]
    if "labels_equal" in parity:
        figures.append(f"labels-equal={parity['labels_equal']:.9f}")
    for kind in ("score", "value"):
        if f"max_{kind}_difference" in parity:
            figures.append(f'max-{kind}-difference="{parity[f"max_{kind}_difference"]:.2e}"')
    return {"Svm-Parity": ", ".join(figures)}
