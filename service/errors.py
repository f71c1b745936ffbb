"""What can go wrong, as callers see it; `web.problems` turns an error into a problem reply, whose
status is that of its code.

ServiceError
├── InvalidRequest      syntax and headers
├── InvalidContent      meaning: a row, a column, a field
├── Unauthorized        no valid key
├── Forbidden           the key lacks the required scope
├── Misdirected         the Host header names another host
├── NotFound            unknown or deleted
├── Conflict            the current state of the resource forbids it
├── PreconditionFailed  If-Match or If-None-Match does not hold
├── PreconditionRequired
├── TooLarge            over a limit
├── RangeNotSatisfiable the requested range begins after the end
├── UnsupportedFormat   the format of the body is not supported
├── NotAcceptable       no format that Accept allows
├── RateExceeded        over the rate limit
├── Unavailable         no capacity now; try again later
├── StorageFull
└── Corrupt             a stored file is damaged
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

MAX_FAULTS = 100
"""Errors listed in one reply; `errors_total` counts all of them."""
MAX_VALUE_CHARACTERS = 64
"""Longest value from a request that an error repeats."""
MAX_NAME_CHARACTERS = 200
"""Longest name from a request that a pointer repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One error: what was wrong, where, and what was expected."""

    pointer: str | None = None
    """JSON pointer into the request body (RFC 6901)."""
    row: int | None = None
    """Number of the record in the data, from 1; the header line is not counted."""
    column: str | int | None = None
    """Column name, or its position from 0 if columns have no names."""
    value: str | None = None
    """The offending value, at most 64 characters."""
    code: str
    message: str
    hint: str | None = None


def pointer(parts: Iterable[str | int]) -> str:
    """A JSON pointer (RFC 6901); the empty one is the whole document."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def pointer_to_member(path: Sequence[str | int], name: str) -> str:
    """To a member whose name comes from a request; to its object if the name is very long."""
    return pointer((*path, name) if len(name) <= MAX_NAME_CHARACTERS else path)


class ServiceError(Exception):
    """An error with a stable code, a message for people, and the faults that caused it."""

    def __init__(
        self,
        code: str,
        detail: str,
        faults: Sequence[Fault] = (),
        faults_total: int | None = None,
        extra: dict[str, Any] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        self.code = code
        self.detail = detail
        self.faults = tuple(faults[:MAX_FAULTS])
        self.faults_total = len(faults) if faults_total is None else faults_total
        self.extra = extra or {}
        """Further members of the problem, such as a limit, or the expected columns."""
        self.retry_after_s = retry_after_s
        # All of it in args, so that the error survives the way between processes.
        super().__init__(code, detail, self.faults, self.faults_total, self.extra, retry_after_s)

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"


class InvalidRequest(ServiceError):
    """The request is malformed: syntax, headers or parameters."""


class InvalidContent(ServiceError):
    """The request is well formed, but its content is not valid."""

    @classmethod
    def at(
        cls, pointer: str, code: str, message: str, hint: str | None = None, **extra: Any
    ) -> InvalidContent:
        """The error for one field of the body."""
        fault = Fault(code=code, message=message, pointer=pointer, hint=hint)
        return cls(code, message, (fault,), extra=extra)


class Unauthorized(ServiceError):
    """The request has no valid API key."""


class Forbidden(ServiceError):
    """The API key lacks the required scope; `extra` gives the `scope`."""


class Misdirected(ServiceError):
    """The request is for a host that is not this service."""


class NotFound(ServiceError):
    """No such resource, or it was deleted."""


class Conflict(ServiceError):
    """The state of a resource forbids the request."""


class PreconditionFailed(ServiceError):
    """The resource changed since the caller read it."""


class PreconditionRequired(ServiceError):
    """The request needs If-Match or If-None-Match."""


class TooLarge(ServiceError):
    """Something is over a limit; `extra` names the limit."""


class RangeNotSatisfiable(ServiceError):
    """The range begins after the end; `extra` gives the `size_bytes`."""


class UnsupportedFormat(ServiceError):
    """The route does not read this format."""


class NotAcceptable(ServiceError):
    """The reply cannot be given in a format that the caller accepts."""


class RateExceeded(ServiceError):
    """The caller is over its rate limit; `retry_after_s` is the time until a retry."""


class Unavailable(ServiceError):
    """No capacity at the moment; `retry_after_s` is the time until a retry."""


class StorageFull(ServiceError):
    """The disk has less free space than the limit; reads still work."""


class Corrupt(ServiceError):
    """A stored file does not match the digest in its row."""
