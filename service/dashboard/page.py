"""How the dashboard's pages are answered: templates, forms, and errors on a page of their own."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Coroutine
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs

import jinja2
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from service import __version__
from service.dashboard import formatting
from service.errors import InvalidRequest, ServiceError, UnsupportedFormat
from service.web.access.authenticator import COOKIE
from service.web.bodies.control_bodies import read_limited, validated
from service.web.bodies.validation import parameter_error
from service.web.problems import status_of
from service.web.problems.codes import PROBLEMS

HERE = Path(__file__).parent
ASSETS = HERE / "assets"
FORM = "application/x-www-form-urlencoded"
Model = TypeVar("Model", bound=BaseModel)
FOREVER = "public, max-age=31536000, immutable"


class Assets(StaticFiles):
    """Styles and scripts; their addresses change with them, so browsers may keep them."""

    def __init__(self) -> None:
        super().__init__(directory=ASSETS)

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        if scope["query_string"]:
            response.headers["Cache-Control"] = FOREVER
        return response


@cache
def asset(name: str) -> str:
    """The address of a file of the assets."""
    return f"/assets/{name}?v={hashlib.sha256((ASSETS / name).read_bytes()).hexdigest()[:12]}"


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals.update(asset=asset, release=__version__)
    environment.filters.update(
        number=formatting.number,
        percent=formatting.percent,
        duration=formatting.duration,
        size=formatting.size,
        moment=formatting.moment,
        code=formatting.code,
        placeless=formatting.placeless,
        short=formatting.short,
        certificate=formatting.certificate,
    )
    return environment


_TEMPLATES = _environment()


def compile_templates() -> None:
    """Do now what the first pages would wait for."""
    for name in _TEMPLATES.list_templates(extensions=["html"]):
        _TEMPLATES.get_template(name)


def page(request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """A page; its address names the place in the navigation."""
    place = request.scope["path"].split("/")[1]
    text = _TEMPLATES.get_template(template).render(
        place=place, signed_in=COOKIE in request.cookies, **context
    )
    # Pages show what may have changed a moment ago.
    return HTMLResponse(text, status, headers={"Cache-Control": "no-store"})


def go(request: Request, path: str) -> Response:
    """Another page, after a form was sent. Scripts that sent it are told to go there, too."""
    if "hx-request" in request.headers:
        return Response(status_code=204, headers={"HX-Redirect": path})
    return back(path)


def back(path: str) -> Response:
    """The page to be read again; a script that sent the form takes from it what it shows."""
    return RedirectResponse(path, 303)


async def form_of(request: Request) -> dict[str, list[str]]:
    """What was filled in, by the names of the inputs. Raises TooLarge, UnsupportedFormat."""
    body = await read_limited(request, request.app.state.limits.control_body_bytes)
    if request.headers.get("content-type", FORM).partition(";")[0] != FORM:
        raise UnsupportedFormat("unsupported-format", f"send the form as {FORM}")
    try:
        return parse_qs(body.decode(), keep_blank_values=True, max_num_fields=1000)
    except ValueError:
        detail = "the form cannot be read: it is not UTF-8, or has too many fields"
        raise InvalidRequest("malformed-request", detail) from None


def checked(model: type[Model], values: dict[str, Any]) -> Model:
    """What was filled in as a request, by the same rules as its JSON. Raises ServiceError."""
    return validated(model, json.dumps(values).encode())


class PageRoute(APIRoute):
    """A page: what goes wrong is told on a page, too."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handler(request)
            except ServiceError as error:
                return problem_page(request, error)
            except RequestValidationError as error:
                return problem_page(request, parameter_error(error.errors()))

        return answer


def problem_page(request: Request, error: ServiceError) -> Response:
    """What went wrong, with all its places."""
    known = PROBLEMS.get(error.code)
    reply = page(
        request,
        "problem.html",
        status_of(error),
        error=error,
        title=known.title if known else error.code,
        about=known.description if known else None,
    )
    if error.retry_after_s is not None:
        reply.headers["Retry-After"] = str(math.ceil(error.retry_after_s))
    return reply
