"""The card of a version on a page: what it is, what is known of it, and what is not."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from service.dashboard.context import Parts
from service.dashboard.page import page
from service.models.card import card_of, training_data
from service.models.routes import Version
from service.web.http.names import ModelName


def add(routes: APIRouter, parts: Parts) -> None:
    """Add it to the dashboard's routes."""

    @routes.get("/models/{name}/versions/{version}/card")
    def card(request: Request, name: ModelName, version: Version) -> Response:
        found = parts.models.get_version(name, version)
        written = card_of(found, training_data(parts.datasets, found))
        return page(request, "card.html", name=name, version=version, card=written)
