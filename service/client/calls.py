"""Requests to the service as values, for both kinds of client."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

JSON = "application/json"
Content: TypeAlias = bytes | Path | tuple[bytes | Path, ...]
"""A body: in memory, a file to stream, or a sequence of both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request."""

    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    """Query parameters; None is left out."""
    headers: Mapping[str, str] = field(default_factory=dict)
    content: Content | None = None
    progress_bar: bool = False
    """Show the progress of an upload."""
    idempotent: bool = True
    """Whether a retry is safe if the first request was possibly carried out."""
    wait_s: float = 0
    """Added to the usual timeout, for a long poll."""

    def query(self) -> dict[str, Any]:
        return {name: value for name, value in self.params.items() if value is not None}


def get(path: str, *, headers: Mapping[str, str] | None = None, **params: Any) -> Call:
    return Call(method="GET", path=path, params=params, headers=headers or {})


def delete(path: str, *, headers: Mapping[str, str] | None = None, **params: Any) -> Call:
    return Call(method="DELETE", path=path, params=params, headers=headers or {})


def send_json(method: str, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Call:
    """PUT, PATCH, and idempotent POSTs."""
    content = json.dumps(body, allow_nan=False).encode()
    return Call(
        method=method, path=path, headers={"Content-Type": JSON, **(headers or {})}, content=content
    )


def create(
    path: str, content: Any, media_type: str = JSON, params: Mapping[str, Any] | None = None
) -> Call:
    """A POST that creates a resource, once: with a key, so that the service recognizes a retry."""
    if media_type == JSON and not isinstance(content, (bytes, Path, tuple)):
        content = json.dumps(content, allow_nan=False).encode()
    return Call(
        method="POST",
        path=path,
        params=params or {},
        headers={"Content-Type": media_type, "Idempotency-Key": uuid.uuid4().hex},
        content=content,
    )


def path_of(*parts: object) -> str:
    """A path of these parts, each escaped."""
    return "/" + "/".join(quote(str(part), safe="") for part in parts)


def model_path(model: str) -> str:
    """The path of `flowers`, its version `flowers/3`, or its alias `flowers/candidate`."""
    name, _, version = model.partition("/")
    if not version:
        return path_of("v1", "models", name)
    kind = "versions" if version.isdecimal() else "aliases"
    return path_of("v1", "models", name, kind, version)
