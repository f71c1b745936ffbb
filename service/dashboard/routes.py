"""The dashboard: pages at `/`, rendered on the server, for browsers with and without scripts."""

from __future__ import annotations

from service.dashboard import (
    chart_pages,
    compare_pages,
    data_pages,
    job_pages,
    list_pages,
    model_pages,
    training_pages,
)
from service.dashboard.page import ASSETS, PageContext, PageRoute, compile_templates
from service.dashboard.training_pages import job_fields
from service.web.access.scopes import Routes
from service.web.docs import DocumentedAPI
from service.web.http.compression import CompressedFiles


def mount(app: DocumentedAPI, context: PageContext) -> None:
    """Add the pages, styles and scripts to the application."""
    routes = Routes(route_class=PageRoute, include_in_schema=False)
    every = (list_pages, data_pages, training_pages, job_pages, chart_pages, compare_pages)
    for pages in (*every, model_pages):
        pages.add(routes, context)
    app.add_routes(routes)
    app.mount("/assets", CompressedFiles(directory=ASSETS))


def warm_up() -> None:
    """Prepare templates and forms, so that the first pages are fast."""
    compile_templates()
    job_fields()
