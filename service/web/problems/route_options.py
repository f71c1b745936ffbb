"""The methods of a path, and the formats of their bodies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Match, Mount

METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")


def headers_for(app: Starlette, path: str) -> dict[str, str]:
    """`Allow`, and `Accept-Post` and `Accept-Patch` if there are such bodies."""
    headers = {"Allow": ", ".join(methods(app, path))}
    for method in ("POST", "PATCH"):
        if formats := body_formats(app, path, method):
            headers[f"Accept-{method.capitalize()}"] = ", ".join(formats)
    return headers


def methods(app: Starlette, path: str) -> list[str]:
    """All methods of a path, which may have several routes."""
    allowed = {method for method in METHODS if any(_routes(app, path, method))}
    # No route: the path may be a file below a mount, which supports reading only.
    reading = {"GET", "HEAD"} if "GET" in allowed or not allowed else set()
    return sorted(allowed | reading | {"OPTIONS"})


def body_formats(app: Starlette, path: str, method: str) -> list[str]:
    """The media types of bodies in the OpenAPI document."""
    for route in _routes(app, path, method):
        extra: dict[str, Any] = getattr(route, "openapi_extra", None) or {}
        return list(extra.get("requestBody", {}).get("content", {}))
    return []


def _routes(app: Starlette, path: str, method: str) -> Iterator[BaseRoute]:
    scope = {"type": "http", "path": path, "root_path": "", "method": method}
    for route in _flat(app.routes):
        if not isinstance(route, Mount) and route.matches(scope)[0] is Match.FULL:
            yield route


def _flat(routes: Iterable[BaseRoute]) -> Iterator[BaseRoute]:
    for route in routes:
        included = getattr(route, "original_router", None)  # FastAPI keeps included routers
        if included is None:
            yield route
        else:
            yield from _flat(included.routes)
