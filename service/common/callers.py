"""The caller of a request. Each caller has a fair share of queue and workers, and a rate limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request

from service.common.shared import Times

STATE = "caller"
"""Attribute of the request's state: its `Caller`, or None if it has no valid key."""
FIND = "find_caller"
"""Attribute of the request's state: a function that finds the caller again, because its key may
have been revoked since."""
SIGNED_IN = "signed_in"
"""Attribute of the request's state: whether its cookie has a key, valid or not."""
WITHOUT_ADDRESS = "local"


class Rate:
    """A token bucket: `per_s` requests per second, and as many at once after a pause.

    All that is kept of it is the time at which it will be full again, for all processes.
    """

    __slots__ = ("_ahead_s", "_caller", "_times", "per_s")

    def __init__(self, per_s: float, times: Times, caller: str) -> None:
        self.per_s = per_s
        self._times = times
        self._caller = hash(caller)  # forks have the same
        self._ahead_s = (max(1.0, per_s) - 1.0) / per_s

    def wait_s(self) -> float:
        """Seconds until the next request is allowed; 0 if it is allowed now."""
        full_at = self._times.at[self._times.place(self._caller)]
        return max(0.0, full_at - time.monotonic() - self._ahead_s)

    def count(self) -> None:
        """Count a request."""
        place, at = self._times.place(self._caller), self._times.at
        at[place] = max(at[place], time.monotonic()) + 1.0 / self.per_s


@dataclass(frozen=True, slots=True)
class Caller:
    """Its name, scopes and rate limit."""

    name: str
    """Of its key, or its address if no key is required."""
    scopes: frozenset[str]
    rate: Rate | None = None
    key_id: str | None = None
    """None if no key is required."""

    def has_scope(self, scope: str) -> bool:
        return scope in self.scopes or "admin" in self.scopes


def address_of(request: Request) -> str:
    return request.client.host if request.client is not None else WITHOUT_ADDRESS


def caller_of(request: Request) -> str:
    """The caller's name."""
    caller: Caller | None = getattr(request.state, STATE, None)
    return address_of(request) if caller is None else caller.name


def is_signed_in(request: Request) -> bool:
    """Whether a browser has sent the cookie with a key."""
    return getattr(request.state, SIGNED_IN, False)


def is_still_known(request: Request) -> bool:
    """Whether the key of the request is still valid."""
    find: Callable[[], Caller | None] = getattr(request.state, FIND)
    return find() is not None
