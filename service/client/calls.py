"""What is asked of the service, before anything is sent: one value for both kinds of client."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

JSON = "application/json"
Content: TypeAlias = bytes | Path | tuple[bytes | Path, ...]
"""A body: in memory, a file to be streamed, or both by turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request."""

    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    """Of the query; None is left out."""
    headers: Mapping[str, str] = field(default_factory=dict)
    content: Content | None = None
    drawn: bool = False
    """Show how much of the file is on its way."""
    repeatable: bool = True
    """Sent again, it changes nothing more: safe to repeat when nobody knows what became of it."""
    wait_s: float = 0
    """How long the service may let us wait, beyond the usual."""

    def query(self) -> dict[str, Any]:
        return {name: value for name, value in self.params.items() if value is not None}


def get(path: str, *, headers: Mapping[str, str] | None = None, **params: Any) -> Call:
    return Call(method="GET", path=path, params=params, headers=headers or {})


def delete(path: str, *, headers: Mapping[str, str] | None = None, **params: Any) -> Call:
    return Call(method="DELETE", path=path, params=params, headers=headers or {})


def send_json(method: str, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Call:
    """PUT, PATCH, and those POSTs that say what shall be and not what shall happen."""
    content = json.dumps(body, allow_nan=False).encode()
    return Call(
        method=method, path=path, headers={"Content-Type": JSON, **(headers or {})}, content=content
    )


def create(
    path: str, content: Any, media_type: str = JSON, params: Mapping[str, Any] | None = None
) -> Call:
    """A POST that makes something, once: the key tells the service when it comes again."""
    if media_type == JSON and not isinstance(content, (bytes, Path, tuple)):
        content = json.dumps(content, allow_nan=False).encode()
    return Call(
        method="POST",
        path=path,
        params=params or {},
        headers={"Content-Type": media_type, "Idempotency-Key": uuid.uuid4().hex},
        content=content,
    )


def below(*parts: object) -> str:
    """A path of these parts, each escaped."""
    return "/" + "/".join(quote(str(part), safe="") for part in parts)


def model_path(model: str) -> str:
    """Of `flowers`, of the version `flowers/3`, or of the alias `flowers/candidate`."""
    name, _, which = model.partition("/")
    if not which:
        return below("v1", "models", name)
    return below("v1", "models", name, "versions" if which.isdecimal() else "aliases", which)


def patient(call: Call, wait_s: float) -> Call:
    """The same, for an answer that may take so much longer."""
    return replace(call, wait_s=wait_s)
