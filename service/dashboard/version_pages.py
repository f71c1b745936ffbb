"""The pages with the plots and with the card of a version."""

from __future__ import annotations

from dataclasses import dataclass

from anyio.to_thread import run_sync
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from service.common.names import ModelName
from service.dashboard.context import PageContext
from service.dashboard.page import page
from service.errors import ServiceError
from service.models.card import card_of, training_data
from service.models.plots import PlotKind, file_name
from service.models.routes import Version

SHOWN: dict[PlotKind, str] = {
    "boundary": "Areas of the predicted classes, with the data and the margins",
    "learning-curve": "Cost, bound and gap over the epochs",
    "roc": "ROC curves",
    "margins": "Distribution of the rows' margins",
    "reliability": "Predicted probabilities against observed frequencies",
}
"""All but the confusion matrix, which the model's page shows as a table, and costs, which the job's
page draws and links."""


@dataclass(frozen=True, slots=True)
class Plot:
    kind: PlotKind
    about: str
    reason: str | None
    """Why the plot is not available."""


def add(routes: APIRouter, context: PageContext) -> None:
    """Add them to the dashboard's routes."""

    @routes.get("/models/{name}/versions/{version}/plots")
    async def plots(request: Request, name: ModelName, version: Version) -> Response:
        model_version = await run_sync(context.models.get_version, name, version)
        shown = []
        for kind, about in SHOWN.items():
            reason = None
            try:
                _, content = await context.renderer.open(model_version, file_name(kind))
                content.close()
            except ServiceError as error:
                reason = error.detail
            shown.append(Plot(kind, about, reason))
        return page(request, "plots.html", name=name, version=version, plots=shown)

    @routes.get("/models/{name}/versions/{version}/card")
    def card(request: Request, name: ModelName, version: Version) -> Response:
        model_version = context.models.get_version(name, version)
        content = card_of(model_version, training_data(context.datasets, model_version))
        return page(request, "card.html", name=name, version=version, card=content)
