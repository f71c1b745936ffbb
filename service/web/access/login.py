"""The page `/login` stores an API key in a cookie of the browser.

Scripts cannot read the cookie, and pages of other sites cannot make the browser send it.
"""

from __future__ import annotations

from urllib.parse import parse_qs

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from service.web.access.authenticator import COOKIE, Authenticator
from service.web.access.scopes import LoginNeeded, requires_scope
from service.web.bodies.control_bodies import read_limited
from service.web.problems import plain_page

LIMIT_BYTES = 4096


def mount(app: FastAPI, authenticator: Authenticator) -> None:
    """Add `/login` and `/logout`, and redirect browsers without a key to `/login`."""

    @app.exception_handler(LoginNeeded)
    async def _login_needed(request: Request, _: LoginNeeded) -> Response:
        return RedirectResponse("/login", 303)

    @app.get("/login", include_in_schema=False)
    @requires_scope(None)
    async def login(request: Request) -> Response:
        return HTMLResponse(_page(request, ""))

    @app.post("/login", include_in_schema=False)
    @requires_scope(None)
    async def enter(request: Request) -> Response:
        form = parse_qs((await read_limited(request, LIMIT_BYTES)).decode("utf-8", "replace"))
        text = form.get("key", [""])[0].strip()
        header = (b"authorization", f"Bearer {text}".encode())
        if authenticator.authenticate([header], "") is None:
            return HTMLResponse(_page(request, "This key is unknown or revoked."), 401)
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


def _page(request: Request, problem: str) -> str:
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
