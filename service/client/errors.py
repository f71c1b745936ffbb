"""What can go wrong when the service is called.

ClientError
├── ConnectionFailed     no answer, also when asked again
├── JobFailed            a job that was waited for ended without a model or results
│   └── JobCanceled
└── Problem              the service refused (RFC 9457); `code` is stable, `errors` say where
    ├── InvalidRequest   400, 406, 408, 415, 416: syntax, headers, formats
    ├── NotAllowed       401, 403: no key, or one without the scope
    ├── NotFound         404
    ├── Conflict         409, 412, 428: the present state forbids it
    ├── TooLarge         413, 431
    ├── InvalidContent   422: a row, a column or a field
    ├── Overloaded       429, 503: still so after the last retry
    └── ServerFault      any other 5xx
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SHOWN = 10
"""Errors that the message lists; `errors` has all that the service told."""


class ClientError(Exception):
    """A call had no success."""


class ConnectionFailed(ClientError):
    """The service cannot be reached, or left in the middle of an answer."""


class JobFailed(ClientError):
    """A job ended without success; `job` has all that is known of it."""

    def __init__(self, job_id: str, code: str, detail: str, hint: str | None, job: Any) -> None:
        super().__init__(f"{job_id}: {detail} ({code})" + (f"; {hint}" if hint else ""))
        self.job_id = job_id
        self.code = code
        self.detail = detail
        self.hint = hint
        self.job = job


class JobCanceled(JobFailed):
    """A job was canceled; with `keep_model` it may have left a model all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One thing that was wrong, where, and what was expected."""

    code: str
    message: str
    pointer: str | None = None
    """JSON pointer into the body."""
    row: int | None = None
    """Record number, the first one is 1; a header does not count."""
    column: str | int | None = None
    """Column name, or position from 0 where columns have no names."""
    value: str | None = None
    """The offending value, shortened."""
    hint: str | None = None

    def __str__(self) -> str:
        told = self.message
        if self.pointer is not None and self.pointer not in told:
            told = f"{self.pointer}: {told}"
        if self.row is not None and not told.startswith("row "):
            told = f"row {self.row}: {told}"
        return told if self.hint is None or self.hint in told else f"{told}; {self.hint}"


class Problem(ClientError):
    """The service refused the request, or could not carry it out."""

    def __init__(self, status: int, members: Mapping[str, Any]) -> None:
        """`members` are those of the problem; without any, an answer that is none of ours."""
        self.status = status
        self.code = str(members.get("code", "unknown"))
        """Stable; `/problems/<code>` of the service explains it."""
        self.title = str(members.get("title", f"status {status}"))
        self.detail = str(members.get("detail", self.title))
        self.errors = tuple(_place(error) for error in members.get("errors", ()))
        """At most 100 of them."""
        self.errors_total = int(members.get("errors_total", len(self.errors)))
        self.request_id: str | None = members.get("request_id")
        """By which the service's log tells of this request."""
        self.members = dict(members)
        """All of it, with what only this kind of problem has, such as `limit_bytes`."""
        super().__init__(self._message())

    def _message(self) -> str:
        if len(self.errors) == 1 and self.errors[0].message in self.detail:
            hint = self.errors[0].hint
            told = self.detail if hint is None or hint in self.detail else f"{self.detail}; {hint}"
            return f"{told} ({self.code})"
        lines = [f"{self.detail} ({self.code})"]
        shown = [str(error) for error in self.errors[:SHOWN]]
        if len(self.errors) > 1 or any(line not in self.detail for line in shown):
            lines += [f"  {line}" for line in shown]
        if self.errors_total > len(shown) > 0:
            lines.append(f"  … and {self.errors_total - len(shown):,} more")
        return "\n".join(lines)


class InvalidRequest(Problem):
    """Malformed: syntax, headers, parameters or formats."""


class NotAllowed(Problem):
    """There is no API key with the request, or it lacks the scope."""


class NotFound(Problem):
    """No such resource, or it was deleted."""


class Conflict(Problem):
    """The state of a resource forbids the request, or it changed meanwhile."""


class TooLarge(Problem):
    """Something is over a limit of the service."""


class InvalidContent(Problem):
    """Well formed, but what it says cannot be; `errors` name rows, columns and fields."""


class Overloaded(Problem):
    """The service has no capacity, also when asked again."""


class ServerFault(Problem):
    """The service could not do what it should."""


_FAMILIES: dict[int, type[Problem]] = {
    **dict.fromkeys((400, 405, 406, 408, 415, 416), InvalidRequest),
    **dict.fromkeys((401, 403), NotAllowed),
    404: NotFound,
    **dict.fromkeys((409, 412, 428), Conflict),
    **dict.fromkeys((413, 431), TooLarge),
    422: InvalidContent,
    **dict.fromkeys((429, 503), Overloaded),
}


def problem_of(status: int, members: Mapping[str, Any]) -> Problem:
    """The exception for a reply."""
    family = _FAMILIES.get(status, ServerFault if status >= 500 else Problem)
    return family(status, members)


def _place(error: Mapping[str, Any]) -> Place:
    known: dict[str, Any] = {name: error[name] for name in Place.__slots__ if name in error}
    return Place(**{"code": "", "message": "", **known})
