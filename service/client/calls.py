"""Requests to the service as values, and when they are retried, for both kinds of client."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import httpx2

JSON = "application/json"
Content: TypeAlias = bytes | Path | tuple[bytes | Path, ...]
"""A body: in memory, a file to stream, or a sequence of both."""
REFUSED = (429, 503)
"""The request was not carried out; a retry can succeed."""
UNCLEAR = (408, 502, 504)
"""A proxy failed; the request was possibly carried out."""


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
    instead: Callable[[], Call] | None = None
    """Gives the request for a service that does not read the format of this one."""

    def query(self) -> dict[str, Any]:
        return {name: value for name, value in self.params.items() if value is not None}


def get(path: str, *, headers: Mapping[str, str] | None = None, **params: Any) -> Call:
    return Call(method="GET", path=path, params=params, headers=headers or {})


def delete(path: str, *, headers: Mapping[str, str] | None = None, **params: Any) -> Call:
    return Call(method="DELETE", path=path, params=params, headers=headers or {})


def rows_query(where: Sequence[Sequence[Any]], **params: Any) -> dict[str, Any]:
    """Of `GET …/rows`. A condition without a value has the empty one."""
    conditions = [[column, test, *map(str, value or [""])] for column, test, *value in where]
    return {"where": json.dumps(conditions) if conditions else None, **params}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """Number of retries, and the time between: exponential backoff with jitter, so that callers
    do not retry all at once."""

    times: int = 5
    """Most retries of a request; 0 for none."""
    first_s: float = 0.5
    longest_s: float = 30.0
    """Longest wait; there is no retry if `Retry-After` is longer."""

    def after_failure(self, call: Call, error: httpx2.TransportError, done: int) -> float | None:
        """Seconds until a retry after the `done`th failed connection; None for no retry."""
        if isinstance(error, (httpx2.UnsupportedProtocol, httpx2.LocalProtocolError)):
            return None  # the request itself is wrong
        return self._pause(done, None) if never_sent(error) or call.idempotent else None

    def after_reply(
        self, call: Call, status: int, headers: Mapping[str, str], done: int
    ) -> float | None:
        """Seconds until a retry after this reply; None for no retry."""
        requested_s = retry_after_s(headers)
        # 409: the first request with this Idempotency-Key is still in progress.
        retry = (
            status in REFUSED or status in UNCLEAR or (status == 409 and requested_s is not None)
        )
        if not retry or not (call.idempotent or status == 429):
            return None
        return self._pause(done, requested_s)

    def _pause(self, done: int, requested_s: float | None) -> float | None:
        if done > self.times or (requested_s or 0) > self.longest_s:
            return None
        backoff = min(self.first_s * 2 ** (done - 1), self.longest_s)
        if requested_s is None:
            return random.uniform(0, backoff)
        return requested_s + random.uniform(0, min(backoff, 1 + requested_s / 4))


def never_sent(error: httpx2.TransportError) -> bool:
    """Whether there was no connection."""
    return isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout))


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """`Retry-After` in seconds, whether it is a number or a date (RFC 9110, section 10.2.3)."""
    value = headers.get("retry-after", "").strip()
    if value.isdecimal():
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):  # not a date, or without a time zone
        return None
