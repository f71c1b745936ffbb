"""JSON replies of routes that need the bytes of the reply, to store them."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel
from starlette.responses import Response


def json_reply(read: BaseModel, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """The reply with a resource, as FastAPI would write it."""
    return Response(read.model_dump_json(), status, headers, media_type="application/json")
