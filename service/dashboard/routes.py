"""The dashboard: pages at `/`, made on the server, for browsers with and without scripts."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI

from service.dashboard import (
    card_pages,
    compare_pages,
    data_pages,
    job_pages,
    model_pages,
    plot_pages,
    training_pages,
)
from service.dashboard.page import Assets, PageRoute
from service.dashboard.parts import Parts


def mount(app: FastAPI, parts: Parts) -> None:
    """Offer the pages, and the styles and scripts that they use."""
    routes = APIRouter(route_class=PageRoute, include_in_schema=False)
    for pages in (
        data_pages,
        training_pages,
        job_pages,
        model_pages,
        card_pages,
        plot_pages,
        compare_pages,
    ):
        pages.add(routes, parts)
    app.include_router(routes)
    app.mount("/assets", Assets())
