"""Routers whose routes have the dependencies and responses that every route needs."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends

from service.web.access.scopes import authorized
from service.web.bodies.parameters import known_query_parameters
from service.web.problems import ANY_PROBLEM

EVERY_ROUTE: dict[str, Any] = {
    "dependencies": [Depends(authorized), Depends(known_query_parameters)],
    "responses": ANY_PROBLEM,
}


class Routes(APIRouter):
    """The routes of a package, for `DocumentedAPI.add_routes`.

    `FastAPI.include_router` would create each route again for the application, and match each
    request's path twice. These routes do not depend on the application.
    """

    def __init__(self, prefix: str = "", tag: str | None = None, **options: Any) -> None:
        tags = None if tag is None else [tag]
        super().__init__(prefix=prefix, tags=tags, **EVERY_ROUTE, **options)  # type: ignore[arg-type]
