"""One search: models, data and jobs by name, the guide, and the operations of the API."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from service.common.callers import STATE
from service.common.figures import counted
from service.dashboard.page import PageContext, page
from service.jobs.core.store import JobFilter
from service.jobs.kinds import KINDS
from service.storage.database.pages import PageRequest
from service.web.access.scopes import requires_scope
from service.web.search import Result, find, guide, operations

MAX_WORDS = 200
"""Characters of a search."""
SHOWN = PageRequest(size=5)


def add(routes: APIRouter, context: PageContext) -> None:
    """Add it to the dashboard's routes."""

    @routes.get("/search")
    @requires_scope(None)  # the guide and `/docs` need no key; what is stored does
    def search(request: Request, q: Annotated[str, Query(max_length=MAX_WORDS)] = "") -> Response:
        words = q.strip()
        caller = getattr(request.state, STATE)
        own = _own(context, words) if words and caller and caller.has_scope("read") else {}
        groups = {
            **own,
            "Guide": find(words, guide()),
            "API": find(words, operations(request.app.document)),
        }
        groups = {name: results for name, results in groups.items() if results}
        return page(request, "search.html", words=words, groups=groups)


def _own(context: PageContext, text: str) -> dict[str, list[Result]]:
    """What is stored under such a name, the newest of each kind."""
    jobs = context.jobs.page(JobFilter(name=text), SHOWN).items
    return {
        "Models": [
            Result(f"/models/{model.name}", model.name, f"version {model.latest_version}")
            for model in context.models.page(SHOWN, text).items
        ],
        "Data": [
            Result(
                f"/datasets/{one.id}",
                one.name or "unnamed",
                f"{counted(one.n_samples, 'row')}, {counted(one.n_features, 'feature')}",
            )
            for one in context.datasets.page(SHOWN, name=text).items
        ],
        "Jobs": [
            Result(f"/jobs/{job.id}", KINDS[job.kind].title(job.spec), f"{job.state}, {job.id}")
            for job in jobs
        ],
    }
