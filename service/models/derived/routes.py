"""Files made of a version, over HTTP: its plots."""

from __future__ import annotations

from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from service.models.derived.workshop import Workshop
from service.models.plots import PlotKind, file_name
from service.models.registry import ModelRegistry
from service.models.routes import Version
from service.web.downloads import RANGE_PARAMETERS, download, downloads
from service.web.names import ModelName
from service.web.problems import responses

SVG = "image/svg+xml"

_DERIVED = (
    *("invalid-name", "invalid-parameter", "invalid-header", "not-found", "precondition-failed"),
    *("range-not-satisfiable", "making-failed", "model-corrupt", "dataset-corrupt", "storage-full"),
)


def router(registry: ModelRegistry, workshop: Workshop) -> APIRouter:
    """What is made of versions when somebody asks for it."""
    routes = APIRouter(prefix="/v1/models", tags=["models"])

    @routes.get(
        "/{name}/versions/{version}/plots/{kind}.svg",
        operation_id="get_plot",
        summary="Get a plot of a version",
        description="A picture of at most 200 kB on a white card, the same bytes every time, with "
        "a title and a description for those who do not see it.\n\n"
        "- `boundary`: areas of the predicted classes with the data, and the margins of two "
        "classes; in the plane of the data's two principal components if there are more than two "
        "features. Without the data's points once these are deleted.\n"
        "- `learning-curve`: cost, lower bound and relative gap over the epochs.\n"
        "- `confusion`: the confusion matrix of the held-out rows, else of the training rows.\n"
        "- `roc`: a curve for each class against the others, with the areas under them.\n"
        "- `margins`: how far the rows are on their right side.\n"
        "- `reliability`: probabilities against how often they are right, of a calibrated model.\n"
        "\nWhere the data are needed, at most 5,000 rows of them are used.",
        response_class=Response,
        responses={
            **downloads(SVG),
            **responses(*_DERIVED, "plot-unavailable", "not-calibrated"),
        },
        openapi_extra=RANGE_PARAMETERS,
    )
    async def get_plot(
        request: Request,
        name: ModelName,
        version: Version,
        kind: Annotated[PlotKind, Path(description="What it shows.", examples=["boundary"])],
    ) -> Response:
        found = await run_sync(registry.get_version, name, version)
        row, content = await workshop.open(found, file_name(kind))
        return download(
            request,
            content,
            size_bytes=row.size_bytes,
            sha256=row.file_sha256,
            media_type=SVG,
            filename=f"{name}-{version}-{kind}.svg",
            headers={
                "Content-Disposition": f'inline; filename="{name}-{version}-{kind}.svg"',
                # Nothing in it runs or loads anything, whoever opens it by itself.
                "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
            },
        )

    return routes
