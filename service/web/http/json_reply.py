"""Replies that a route makes itself, because they are kept, too."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel
from starlette.responses import Response


def json_reply(read: BaseModel, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """The reply that shows a resource, as FastAPI would write it."""
    return Response(read.model_dump_json(), status, headers, media_type="application/json")
