"""Which model a path asks for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from service.models.schemas import MAX_VERSION
from service.predictions.loaded_models import Reference
from service.web.http.names import NAME

_NAME = NAME.pattern.encode()
_PATH = re.compile(
    rb"/(?:v1/models/(?P<name>%b)(?:/versions/(?P<version>[1-9][0-9]{0,17})|/aliases/(?P<alias>%b))?/predict"
    rb"|v2/models/(?P<model>%b)(?:/versions/(?P<number>[1-9][0-9]{0,17}))?/infer)"
    % (_NAME, _NAME, _NAME)
)


@dataclass(frozen=True, slots=True)
class Target:
    """A model as a request names it, and the route that it came by."""

    name: str
    reference: Reference
    route: str
    """The route's template, as metrics show it."""
    inference: bool = False
    """By the Open Inference Protocol."""


def find_target(path: bytes) -> Target | None:
    """What a path below `/v1/models` or `/v2/models` asks to predict; None for any other path."""
    match = _PATH.fullmatch(path)
    if match is None:
        return None
    part = {name: value.decode() for name, value in match.groupdict().items() if value is not None}
    number = int(part.get("version") or part.get("number") or 1)
    if number > MAX_VERSION:
        return None
    if "model" in part:
        below = "/versions/{version}" if "number" in part else ""
        reference: Reference = number if "number" in part else None
        return Target(part["model"], reference, f"/v2/models/{{name}}{below}/infer", True)
    if "version" in part:
        return Target(part["name"], number, "/v1/models/{name}/versions/{version}/predict")
    if "alias" in part:
        return Target(part["name"], part["alias"], "/v1/models/{name}/aliases/{alias}/predict")
    return Target(part["name"], None, "/v1/models/{name}/predict")
