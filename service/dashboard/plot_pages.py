"""The plots of a version on a page: drawn when it is first looked at, then at hand."""

from __future__ import annotations

from dataclasses import dataclass

from anyio.to_thread import run_sync
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from service.dashboard.context import Parts
from service.dashboard.page import page
from service.errors import ServiceError
from service.models.plots import PlotKind, file_name
from service.models.routes import Version
from service.web.http.names import ModelName

SHOWN: dict[PlotKind, str] = {
    "boundary": "Areas of the predicted classes, with the data and the margins",
    "learning-curve": "Cost, bound and gap over the epochs",
    "roc": "ROC curves",
    "margins": "How far rows are on their right side",
    "reliability": "Probabilities against how often they are right",
}
"""All but the confusion matrix, which the model's page has as a table."""


@dataclass(frozen=True, slots=True)
class Plot:
    kind: PlotKind
    about: str
    reason: str | None
    """Why there is none."""


def add(routes: APIRouter, parts: Parts) -> None:
    """Add it to the dashboard's routes."""

    @routes.get("/models/{name}/versions/{version}/plots")
    async def plots(request: Request, name: ModelName, version: Version) -> Response:
        found = await run_sync(parts.models.get_version, name, version)
        drawn = []
        for kind, about in SHOWN.items():
            reason = None
            try:
                _, content = await parts.renderer.open(found, file_name(kind))
                content.close()
            except ServiceError as error:
                reason = error.detail
            drawn.append(Plot(kind, about, reason))
        return page(request, "plots.html", name=name, version=version, plots=drawn)
