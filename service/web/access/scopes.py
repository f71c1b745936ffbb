"""Authentication, and what each route needs.

A route says the scope that it needs by `@needs("train")` on its function, by `@needs("read",
"train")` where one of them is enough, and by `@needs(None)` where everybody may ask. Without it
reading needs `read` and everything else `admin`: to forget it opens nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from service.errors import Forbidden, Misdirected, RateExceeded, Unauthorized
from service.web.access import keys
from service.web.access.authenticator import COOKIE, Gate
from service.web.http.callers import FIND, STATE, Caller, address_of
from service.web.problems import render

QUIET = frozenset({"/livez", "/readyz"})
"""Probes have no rate."""
SCHEME = {
    "type": "http",
    "scheme": "bearer",
    "description": "An API key: `svm-service keys create NAME --scope read --scope predict`. "
    "Scopes are read, predict, train and admin, which includes the others.",
}

_FOREIGN_HOST = Misdirected(
    "foreign-host",
    "the Host header names a host that is not allowed; use localhost or an IP address, or have the "
    "operator add the name to SVM_HOSTS",
)
_ATTRIBUTE = "svm_scope"
_SAFE = ("GET", "HEAD", "OPTIONS")

Function = TypeVar("Function", bound=Callable[..., Any])


class LoginNeeded(Exception):
    """A browser asked for a page that it may not see yet."""


def needs(*scopes: keys.Scope | None) -> Callable[[Function], Function]:
    """What a route's function needs, one of these scopes; None: nothing."""

    def mark(function: Function) -> Function:
        setattr(function, _ATTRIBUTE, tuple(filter(None, scopes)))
        return function

    return mark


def scopes_of(function: Callable[..., Any] | None, method: str) -> tuple[keys.Scope, ...]:
    """Those of which a route's function needs one when it is asked by `method`; none where
    everybody may ask."""
    usual: tuple[keys.Scope, ...] = ("read",) if method in _SAFE else ("admin",)
    found: tuple[keys.Scope, ...] = getattr(function, _ATTRIBUTE, usual)
    return found


async def authorized(request: Request) -> None:
    """A dependency of every route, the first one. Raises Unauthorized, Forbidden, LoginNeeded."""
    if request.method not in _SAFE:
        _check_origin(request)
    scopes = scopes_of(request.scope["endpoint"], request.method)
    if not scopes:
        return
    caller: Caller | None = getattr(request.state, STATE)
    if caller is None:
        if not request.scope["route"].include_in_schema and request.method in _SAFE:
            raise LoginNeeded
        raise _unauthorized(request)
    require(caller, *scopes)


def require(caller: Caller, *scopes: keys.Scope) -> None:
    """Raises Forbidden where the caller has none of the scopes."""
    if not any(map(caller.may, scopes)):
        raise Forbidden(
            "forbidden",
            f"the key {caller.name} lacks the required scope {' or '.join(scopes)}",
            extra={"scope": scopes[0]},
        )


class Admission:
    """A middleware: who asks, and whether it asks too often."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        if not self._gate.is_for(scope["headers"]):
            await render(request, _FOREIGN_HOST)(scope, receive, send)
            return
        find = partial(self._gate.find, scope["headers"], address_of(request))
        caller = find()
        scope["state"] |= {STATE: caller, FIND: find}
        rate = None if caller is None else caller.rate
        if rate is not None and scope["path"] not in QUIET:
            wait_s = rate.wait_s()
            if wait_s > 0:
                detail = f"rate limit exceeded: {rate.per_s:g} requests per second; retry later"
                error = RateExceeded("rate-exceeded", detail, retry_after_s=wait_s)
                await render(request, error)(scope, receive, send)
                return
            rate.count()
        await self._app(scope, receive, send)


def _unauthorized(request: Request) -> Unauthorized:
    if "authorization" in request.headers or COOKIE in request.cookies:
        return Unauthorized("unauthorized", "the API key is unknown or revoked")
    return Unauthorized("unauthorized", "send an API key as `Authorization: Bearer svm_…`")


def _check_origin(request: Request) -> None:
    """Pages of other sites may make a browser send requests, with its cookies and from within its
    network, but the browser tells so. Raises Forbidden."""
    if "authorization" in request.headers:
        return  # no other site knows a key
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if site in ("same-origin", "none") or (site is None and origin is None):
        return
    if site is None and urlsplit(origin or "").netloc == request.headers.get("host"):
        return
    raise Forbidden(
        "cross-site-request",
        "a page of another site sent this request; send it from a page of this service",
    )
