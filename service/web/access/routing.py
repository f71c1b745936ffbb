"""Routes that are made once, with what every route of the service needs and may answer."""

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
    """Those of a room, for `DocumentedAPI.take`.

    FastAPI makes the routes of an included router a second time, for the application, and looks
    for each request's path in both. These need nothing of the application.
    """

    def __init__(self, prefix: str = "", tag: str | None = None, **options: Any) -> None:
        tags = None if tag is None else [tag]
        super().__init__(prefix=prefix, tags=tags, **EVERY_ROUTE, **options)  # type: ignore[arg-type]
