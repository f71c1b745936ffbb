"""Routes: authentication, rate limits, and the scope that each requires.

`@requires_scope("train")` on a route's function requires this scope, `@requires_scope("read",
"train")` one of several, and `@requires_scope(None)` no API key at all. Without a decorator,
reading requires `read` and everything else `admin`, so a forgotten decorator opens nothing.

The page `/login` stores an API key in a cookie of the browser. Scripts cannot read the cookie, and
pages of other sites cannot make the browser send it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qs

import structlog
from fastapi import APIRouter, Depends, FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from service.common import keys
from service.common.answerer import RawHeaders
from service.common.callers import FIND, SIGNED_IN, STATE, Caller, address_of, is_signed_in
from service.errors import Forbidden, Misdirected, RateExceeded, Unauthorized
from service.storage.database.audit import Actor, acting
from service.web.access.authenticator import COOKIE, Authenticator, cookie_of, without_cookies
from service.web.bodies.control_bodies import read_limited
from service.web.bodies.validation import known_query_parameters
from service.web.problems import ANY_PROBLEM, plain_page, render

QUIET = frozenset({"/livez", "/readyz"})
"""Probes, which have no rate limit."""
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
LOGIN_BYTES = 4096


class LoginNeeded(Exception):
    """A browser requested a page that requires an API key."""


def requires_scope(*scopes: keys.Scope | None) -> Callable[[Function], Function]:
    """Decorates a route's function: the caller needs one of these scopes; None: no API key."""

    def mark(function: Function) -> Function:
        setattr(function, _ATTRIBUTE, tuple(filter(None, scopes)))
        return function

    return mark


def scopes_of(function: Callable[..., Any] | None, method: str) -> tuple[keys.Scope, ...]:
    """The scopes of which a caller needs one for `method`; empty if no API key is required."""
    usual: tuple[keys.Scope, ...] = ("read",) if method in _SAFE else ("admin",)
    scopes: tuple[keys.Scope, ...] = getattr(function, _ATTRIBUTE, usual)
    return scopes


async def authorized(request: Request) -> None:
    """A dependency of every route, the first one. Raises Unauthorized, Forbidden, LoginNeeded."""
    if request.method not in _SAFE:
        check_origin(request.scope["headers"])
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
    """Raises Forbidden if the caller has none of the scopes."""
    if not any(map(caller.has_scope, scopes)):
        raise Forbidden(
            "forbidden",
            f"the key {caller.name} lacks the required scope {' or '.join(scopes)}",
            extra={"scope": scopes[0]},
        )


class Admission:
    """A middleware that finds the caller of a request and applies its rate limit."""

    def __init__(self, app: ASGIApp, authenticator: Authenticator) -> None:
        self._app = app
        self._authenticator = authenticator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        headers = scope["headers"]
        if not self._authenticator.allows_host(headers):
            await render(request, _FOREIGN_HOST)(scope, receive, send)
            return
        address = address_of(request)
        find = partial(self._authenticator.authenticate, headers, address)
        caller = find()
        scope["state"] |= {STATE: caller, FIND: find, SIGNED_IN: cookie_of(headers) is not None}
        scope["headers"] = without_cookies(headers)
        key_id = None if caller is None else caller.key_id
        structlog.contextvars.bind_contextvars(key=key_id)
        rate = None if caller is None else caller.rate
        if rate is not None and scope["path"] not in QUIET:
            wait_s = rate.wait_s()
            if wait_s > 0:
                detail = f"rate limit exceeded: {rate.per_s:g} requests per second; retry later"
                error = RateExceeded("rate-exceeded", detail, retry_after_s=wait_s)
                await render(request, error)(scope, receive, send)
                return
            rate.count()
        name = address if caller is None else caller.name
        with acting(Actor(name, key_id, address, request.state.request_id)):
            await self._app(scope, receive, send)


def _unauthorized(request: Request) -> Unauthorized:
    if "authorization" in request.headers or is_signed_in(request):
        return Unauthorized("unauthorized", "the API key is unknown or revoked")
    return Unauthorized("unauthorized", "send an API key as `Authorization: Bearer svm_…`")


def check_origin(headers: RawHeaders) -> None:
    """Refuse a request, not a safe one, that a browser sent for a page of another site. The browser
    would add its cookies, and may be in the service's network. Raises Forbidden."""
    values = dict(headers)
    if b"authorization" in values:
        return  # pages of other sites have no API key
    site, origin = values.get(b"sec-fetch-site"), values.get(b"origin")
    if site is None:
        if origin is None or origin.partition(b"://")[1:] == (b"://", values.get(b"host")):
            return
    elif site in (b"same-origin", b"none"):
        return
    raise Forbidden(
        "cross-site-request",
        "a page of another site sent this request; send it from a page of this service",
    )


EVERY_ROUTE: dict[str, Any] = {
    "dependencies": [Depends(authorized), Depends(known_query_parameters)],
    "responses": ANY_PROBLEM,
}


class Routes(APIRouter):
    """The routes of a package, for `DocumentedAPI.add_routes`.

    `FastAPI.include_router` would create each route again for the application, and match each
    request's path twice. These routes do not depend on the application.
    """

    def __init__(self, prefix: str = "", tag: str | None = None, **options: Any) -> None:
        tags = None if tag is None else [tag]
        super().__init__(prefix=prefix, tags=tags, **EVERY_ROUTE, **options)  # type: ignore[arg-type]


def mount_login(app: FastAPI, authenticator: Authenticator) -> None:
    """Add `/login` and `/logout`, and redirect browsers without a key to `/login`."""

    @app.exception_handler(LoginNeeded)
    async def _login_needed(request: Request, _: LoginNeeded) -> Response:
        return RedirectResponse("/login", 303)

    @app.get("/login", include_in_schema=False)
    @requires_scope(None)
    async def login(request: Request) -> Response:
        return HTMLResponse(_login_page(request, ""))

    @app.post("/login", include_in_schema=False)
    @requires_scope(None)
    async def enter(request: Request) -> Response:
        form = parse_qs((await read_limited(request, LOGIN_BYTES)).decode("utf-8", "replace"))
        text = form.get("key", [""])[0].strip()
        header = (b"authorization", f"Bearer {text}".encode())
        if authenticator.authenticate([header], "") is None:
            return HTMLResponse(_login_page(request, "This key is unknown or revoked."), 401)
        response = RedirectResponse("/", 303)
        secure = request.url.scheme == "https"
        response.set_cookie(COOKIE, text, httponly=True, samesite="strict", secure=secure)
        return response

    @app.post("/logout", include_in_schema=False)
    @requires_scope(None)
    async def leave() -> Response:
        response = RedirectResponse("/login", 303)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response


def _login_page(request: Request, problem: str) -> str:
    return plain_page(
        request,
        "Sign in",
        f"""<h1>Sign in</h1>
<form class="card narrow" method="post" action="/login">
<div class="field"><label for="key">API key</label>
<input id="key" name="key" type="password" autocomplete="current-password" required autofocus
placeholder="svm_…" aria-describedby="problem"{' aria-invalid="true"' if problem else ""}>
<p class="fault" id="problem" role="alert">{problem}</p></div>
<button class="primary">Sign in</button>
</form>
<p class="soft">An operator creates keys with
<code>svm-service keys create NAME --scope read --scope train</code>; the first one is in the
file <code>first-key</code> of the data directory.</p>
""",
    )
