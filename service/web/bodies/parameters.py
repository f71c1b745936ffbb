"""Refuses unknown query parameters, query parameters given twice, and slashes within names."""

from __future__ import annotations

from collections import Counter

from fastapi.dependencies.models import Dependant
from pydantic import BaseModel
from starlette.requests import Request

from service.common.names import INVALID_NAME
from service.errors import Fault, InvalidRequest
from service.web.bodies.validation import unknown_parameter


async def known_query_parameters(request: Request) -> None:
    """A dependency of every route. Raises InvalidRequest `invalid-parameter` and `invalid-name`."""
    check_path(request)
    if not request.query_params:
        return
    known = _query_names(request.scope["route"].dependant)
    counts = Counter(name for name, _ in request.query_params.multi_items())
    for name, count in counts.items():
        if name not in known:
            raise unknown_parameter(name, known)
        if count > 1:
            raise InvalidRequest("invalid-parameter", f"query parameter '{name}' is given twice")


def check_path(request: Request) -> None:
    """Raises InvalidRequest `invalid-name` for a name with an encoded slash: decoded, it would be
    another path than the caller meant."""
    if b"%2f" in (request.scope.get("raw_path") or b"").lower():
        message, hint = "a name in the path contains a slash", "send it without a slash"
        fault = Fault(code=INVALID_NAME, message=message, value="%2f", hint=hint)
        raise InvalidRequest(INVALID_NAME, f"{message}; {hint}", (fault,))


def _query_names(dependant: Dependant) -> set[str]:
    names: set[str] = set()
    for parameter in dependant.query_params:
        model = parameter.field_info.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):  # one model for all parameters
            names.update(field.alias or name for name, field in model.model_fields.items())
        else:
            names.add(parameter.alias)
    return names.union(*(_query_names(below) for below in dependant.dependencies))
