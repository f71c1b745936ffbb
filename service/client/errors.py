"""Errors of calls to the service.

ClientError
├── ConnectionFailed     no reply, also after retries
├── JobFailed            a job ended without a model or results
│   └── JobCanceled
└── Problem              the service refused (RFC 9457); `code` is stable, `errors` give locations
    ├── InvalidRequest   400, 405, 406, 408, 415, 416, 421: syntax, headers, formats
    ├── NotAllowed       401, 403: no key, or one without the scope
    ├── NotFound         404
    ├── Conflict         409, 412, 428: the current state forbids it
    ├── TooLarge         413, 431
    ├── InvalidContent   422: a row, a column or a field
    ├── Overloaded       429, 503: also after the last retry
    └── ServerFault      any other 5xx
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SHOWN = 10
"""Errors that the message lists; `errors` has all of them."""


class ClientError(Exception):
    """A call failed."""


class ConnectionFailed(ClientError):
    """The service cannot be reached, or closed the connection during a reply."""


class JobFailed(ClientError):
    """A job ended without success; `job` is the job."""

    def __init__(self, job_id: str, code: str, detail: str, hint: str | None, job: Any) -> None:
        super().__init__(f"{job_id}: {detail} ({code})" + (f"; {hint}" if hint else ""))
        self.job_id = job_id
        self.code = code
        self.detail = detail
        self.hint = hint
        self.job = job


class JobCanceled(JobFailed):
    """A job was canceled; with `keep_model` it can still have a model."""


def require_success(job: Any) -> None:
    """Raises JobFailed for a job that has failed, JobCanceled for one that was canceled."""
    if job.state == "canceled":
        raise JobCanceled(job.id, "canceled", "the job was canceled", None, job)
    if job.state == "failed":
        error = {"code": "failed", "detail": "", "hint": None, **(job.error or {})}
        raise JobFailed(job.id, **error, job=job)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One error: what was wrong, where, and what was expected."""

    pointer: str | None = None
    """JSON pointer into the body."""
    row: int | None = None
    """Number of the record, from 1; a header line is not counted."""
    column: str | int | None = None
    """Column name, or position from 0 if columns have no names."""
    value: str | None = None
    """The offending value, shortened."""
    code: str
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        text = self.message
        if self.pointer is not None and self.pointer not in text:
            text = f"{self.pointer}: {text}"
        if self.row is not None and not text.startswith("row "):
            text = f"row {self.row}: {text}"
        return text if self.hint is None or self.hint in text else f"{text}; {self.hint}"


class Problem(ClientError):
    """The service refused the request, or failed."""

    def __init__(self, status: int, members: Mapping[str, Any]) -> None:
        """`members` of the problem; empty for a reply that is not from this service."""
        self.status = status
        self.code = str(members.get("code", "unknown"))
        """Stable; the service explains it at `/problems/<code>`."""
        self.title = str(members.get("title", f"status {status}"))
        self.detail = str(members.get("detail", self.title))
        self.errors = tuple(_fault(error) for error in members.get("errors", ()))
        """At most 100."""
        self.errors_total = int(members.get("errors_total", len(self.errors)))
        self.request_id: str | None = members.get("request_id")
        """Id of this request in the service's log."""
        self.members = dict(members)
        """All members, also those of this kind of problem, such as `limit_bytes`."""
        super().__init__(self._message())

    def _message(self) -> str:
        if len(self.errors) == 1 and self.errors[0].message in self.detail:
            hint = self.errors[0].hint
            text = self.detail if hint is None or hint in self.detail else f"{self.detail}; {hint}"
            return f"{text} ({self.code})"
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
    """The request has no valid API key, or the key lacks the required scope."""


class NotFound(Problem):
    """No such resource, or it was deleted."""


class Conflict(Problem):
    """The state of a resource forbids the request, or the resource changed."""


class TooLarge(Problem):
    """Something is over a limit of the service."""


class InvalidContent(Problem):
    """Well formed, but not valid; `errors` name rows, columns and fields."""


class Overloaded(Problem):
    """The service has no capacity, also after retries."""


class ServerFault(Problem):
    """An internal error of the service."""


_FAMILIES: dict[int, type[Problem]] = {
    **dict.fromkeys((400, 405, 406, 408, 415, 416, 421), InvalidRequest),
    **dict.fromkeys((401, 403), NotAllowed),
    404: NotFound,
    **dict.fromkeys((409, 412, 428), Conflict),
    **dict.fromkeys((413, 431), TooLarge),
    422: InvalidContent,
    **dict.fromkeys((429, 503), Overloaded),
}


def problem_of(status: int, members: Mapping[str, Any]) -> Problem:
    """The exception of a reply."""
    family = _FAMILIES.get(status, ServerFault if status >= 500 else Problem)
    return family(status, members)


def _fault(error: Mapping[str, Any]) -> Fault:
    known: dict[str, Any] = {name: error[name] for name in Fault.__slots__ if name in error}
    return Fault(**{"code": "", "message": "", **known})
