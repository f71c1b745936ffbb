"""What a path offers: its methods, and the formats of bodies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Match, Mount

METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")


def headers_for(app: Starlette, path: str) -> dict[str, str]:
    """`Allow`, and `Accept-Post` and `Accept-Patch` where there are such bodies."""
    headers = {"Allow": ", ".join(methods(app, path))}
    for method in ("POST", "PATCH"):
        if formats := body_formats(app, path, method):
            headers[f"Accept-{method.capitalize()}"] = ", ".join(formats)
    return headers


def methods(app: Starlette, path: str) -> list[str]:
    """All of them, also those of other routes of the path."""
    found = {method for method in METHODS if any(_routes(app, path, method))}
    # Nothing found: a file below a mount, which can only be read.
    reading = {"GET", "HEAD"} if "GET" in found or not found else set()
    return sorted(found | reading | {"OPTIONS"})


def body_formats(app: Starlette, path: str, method: str) -> list[str]:
    """The media types of bodies, as the document lists them."""
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
        included = getattr(route, "original_router", None)  # FastAPI keeps routers as they came
        if included is None:
            yield route
        else:
            yield from _flat(included.routes)
