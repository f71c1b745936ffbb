"""What can go wrong, as callers see it; `web.problems` turns each family into a problem reply.

ServiceError
├── InvalidRequest      syntax and headers
├── InvalidContent      meaning: a row, a column, a field
├── Unauthorized        no valid key
├── Forbidden           the key does not go so far
├── Misdirected         for another host
├── NotFound            unknown or deleted
├── Conflict            the resource's present state forbids it
├── PreconditionFailed  If-Match or If-None-Match does not hold
├── PreconditionRequired
├── TooLarge            over a limit
├── RangeNotSatisfiable no byte of the range asked for exists
├── UnsupportedFormat   the format of the body
├── NotAcceptable       the format asked for
├── Timeout             the body stopped coming
├── RateExceeded        the caller asks too often
├── Unavailable         no capacity now; try again later
├── StorageFull
└── Corrupt             something stored is not what was stored
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MAX_FAULTS = 100
"""Faults listed in one reply; the total is always given."""
MAX_NAME_CHARACTERS = 200
"""Of a name from outside that a pointer repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that was wrong, where it was, and what was expected."""

    code: str
    message: str
    pointer: str | None = None
    """JSON pointer into the request body (RFC 6901)."""
    row: int | None = None
    """Record number in the data, the first one is 1; a header line does not count."""
    column: str | int | None = None
    """Column name, or its position from 0 where columns have no names."""
    value: str | None = None
    """The offending value, at most 64 characters."""
    hint: str | None = None


def pointer(parts: Sequence[str | int]) -> str:
    """A JSON pointer (RFC 6901); the empty one is the whole document."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def pointer_to_member(path: Sequence[str | int], name: str) -> str:
    """To a member whose name comes from outside; to its object where the name is very long."""
    return pointer((*path, name) if len(name) <= MAX_NAME_CHARACTERS else path)


class ServiceError(Exception):
    """An error with a stable code, a sentence for people, and the faults that led to it."""

    def __init__(
        self,
        code: str,
        detail: str,
        faults: tuple[Fault, ...] = (),
        faults_total: int | None = None,
        extra: dict[str, Any] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        # All of it in args, so that the error survives pickling between processes.
        super().__init__(code, detail, faults, faults_total, extra, retry_after_s)
        self.code = code
        self.detail = detail
        self.faults = faults[:MAX_FAULTS]
        self.faults_total = len(faults) if faults_total is None else faults_total
        self.extra = extra or {}
        """Further members of the problem, such as a limit or the expected and received columns."""
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"


class InvalidRequest(ServiceError):
    """The request is malformed: syntax, headers or parameters."""


class InvalidContent(ServiceError):
    """The request is well formed, but what it says cannot be."""


class Unauthorized(ServiceError):
    """The request has no API key, or none that counts."""


class Forbidden(ServiceError):
    """The caller may not do this; `extra` gives the `scope` that is needed."""


class Misdirected(ServiceError):
    """The request is for a host that is not this service."""


class NotFound(ServiceError):
    """No such resource, or it was deleted."""


class Conflict(ServiceError):
    """The state of a resource forbids the request."""


class PreconditionFailed(ServiceError):
    """The resource changed since the caller looked at it."""


class PreconditionRequired(ServiceError):
    """The request needs If-Match or If-None-Match."""


class TooLarge(ServiceError):
    """Something is over a limit; `extra` names the limit."""


class RangeNotSatisfiable(ServiceError):
    """The range begins after the end; `extra` gives the `size_bytes`."""


class UnsupportedFormat(ServiceError):
    """The body's format is not one the route reads."""


class NotAcceptable(ServiceError):
    """The reply cannot be given in a format that the caller accepts."""


class Timeout(ServiceError):
    """The request's body stopped coming."""


class RateExceeded(ServiceError):
    """The caller sends more requests than it may; `retry_after_s` says when to try again."""


class Unavailable(ServiceError):
    """No capacity at the moment; `retry_after_s` says when to try again."""


class StorageFull(ServiceError):
    """The disk is below its watermark; reads go on."""


class Corrupt(ServiceError):
    """A stored file is not what its row says."""
