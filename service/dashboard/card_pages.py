"""The page with the card of a version."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from service.dashboard.context import PageContext
from service.dashboard.page import page
from service.models.card import card_of, training_data
from service.models.routes import Version
from service.web.http.names import ModelName


def add(routes: APIRouter, context: PageContext) -> None:
    """Add it to the dashboard's routes."""

    @routes.get("/models/{name}/versions/{version}/card")
    def card(request: Request, name: ModelName, version: Version) -> Response:
        model_version = context.models.get_version(name, version)
        content = card_of(model_version, training_data(context.datasets, model_version))
        return page(request, "card.html", name=name, version=version, card=content)
