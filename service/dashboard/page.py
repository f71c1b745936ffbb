"""What all pages share: their context, templates, forms, redirects, and error pages."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import getmembers, isfunction
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs

import jinja2
from anyio.to_thread import run_sync
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from markupsafe import Markup
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from service import __version__
from service.charts import svg
from service.common import figures
from service.common.callers import caller_of, is_signed_in
from service.dashboard import formatting
from service.dashboard.charts import evaluation_charts, objective_chart
from service.datasets.distributions import Distributions
from service.errors import InvalidRequest, NotFound, ServiceError, UnsupportedFormat
from service.jobs.collection.submission import Body, Stores, Submission
from service.jobs.kinds import KINDS
from service.models import measured
from service.models.derived.renderer import Renderer
from service.predictions.loaded_models import LoadedModels
from service.predictions.predictor import Predictor
from service.rows.parser import Parser
from service.storage.blobs import Blobs
from service.web.bodies.control_bodies import read_control_body, validated
from service.web.bodies.validation import parameter_error
from service.web.frame import bar, frame_files
from service.web.http.compression import versioned
from service.web.problems import PROBLEMS, status_of
from svm.audit.findings import told
from svm.training.candidates import TITLES

HERE = Path(__file__).parent
ASSETS = HERE / "assets"
FORM = "application/x-www-form-urlencoded"
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageContext(Stores):
    """The stores and services that the pages use, the same as the routes of the API."""

    parser: Parser
    blobs: Blobs
    renderer: Renderer
    loaded_models: LoadedModels
    predictor: Predictor
    distributions: Distributions
    has_workers: bool
    """Whether this service has workers, or those of others may take its jobs."""


@cache
def asset(name: str) -> str:
    """The address of an asset."""
    return versioned(f"/assets/{name}", ASSETS / name)


class _Environment(jinja2.Environment):
    """An entry that a record does not have is None: older releases recorded less. All other names
    must be there."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        value = super().getattr(obj, attribute)
        absent = isinstance(value, jinja2.Undefined) and (obj is None or isinstance(obj, Mapping))
        return None if absent else value

    def getitem(self, obj: Any, argument: Any) -> Any:
        if obj is None:
            return None
        return obj.get(argument) if isinstance(obj, Mapping) else super().getitem(obj, argument)


def _bar(current: str, words: str) -> Markup:
    return Markup(bar(current, words))


def _environment() -> jinja2.Environment:
    environment = _Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals.update(asset=asset, release=__version__, families=TITLES, words="")
    environment.globals.update(frame_files=Markup(frame_files()), bar=_bar)
    for module in (figures, measured, formatting):
        environment.filters |= dict(getmembers(module, isfunction))
    environment.tests["of_numbers"] = measured.are_of_numbers
    environment.filters["drawn"] = lambda chart: Markup(svg.write(chart, page=True))
    environment.filters |= {"charts_of": evaluation_charts, "costs_of": objective_chart}
    environment.filters["problem"] = PROBLEMS.get
    environment.filters["told"] = told
    environment.filters["job_title"] = lambda job: KINDS[job.kind].title(job.spec)
    return environment


_TEMPLATES = _environment()


def compile_templates() -> None:
    """Compile all templates, so that the first pages are fast."""
    for name in _TEMPLATES.list_templates(extensions=["html"]):
        _TEMPLATES.get_template(name)


def page(
    request: Request, template: str, error: ServiceError | None = None, **context: Any
) -> HTMLResponse:
    """A page, with the status of the error that it shows, if there is one; the first part of its
    path is the section in the navigation."""
    section = request.scope["path"].split("/")[1]
    text = _TEMPLATES.get_template(template).render(
        section=section, signed_in=is_signed_in(request), error=error, **context
    )
    status = 200 if error is None else status_of(error.code)
    # What pages show can change at any time.
    return HTMLResponse(text, status, headers={"Cache-Control": "no-store"})


def render_framed(request: Request, title: str, main: str) -> str:
    """A page of another package, whose main part is HTML."""
    template = _TEMPLATES.get_template("framed.html")
    signed_in = is_signed_in(request)
    return template.render(section="", signed_in=signed_in, title=title, main=Markup(main))


def go(request: Request, path: str) -> Response:
    """Redirect to another page after a form; also if a script sent it."""
    if "hx-request" in request.headers:
        return Response(status_code=204, headers={"HX-Redirect": path})
    return back(path)


def back(path: str) -> Response:
    """Redirect to the page to show again; scripts take the part that they replace."""
    return RedirectResponse(path, 303)


async def form_of(request: Request) -> dict[str, list[str]]:
    """The entries of a form by names of inputs. Raises TooLarge, UnsupportedFormat."""
    body = await read_control_body(request)
    if request.headers.get("content-type", FORM).partition(";")[0] != FORM:
        raise UnsupportedFormat("unsupported-format", f"send the form as {FORM}")
    try:
        return parse_qs(body.decode(), keep_blank_values=True, max_num_fields=1100)
    except ValueError:
        detail = "the form cannot be read: it is not UTF-8, or has too many fields"
        raise InvalidRequest("malformed-request", detail) from None


async def last_entries(request: Request) -> dict[str, str]:
    """The last entry of each input of a form. Raises as `form_of`."""
    return {name: values[-1] for name, values in (await form_of(request)).items()}


async def queue(request: Request, submission: Submission[Body], body: Body) -> Response:
    """Queue a job, and go to its page. Raises as the submission."""
    caller, request_id = caller_of(request), request.state.request_id
    job = await run_sync(submission.queue, body, caller, request_id)
    return go(request, f"/jobs/{job.id}")


def check(model: type[Model], values: dict[str, Any]) -> Model:
    """The values as a request, validated like its JSON. Raises ServiceError."""
    return validated(model, json.dumps(values).encode())


class PageRoute(APIRoute):
    """A page; errors are shown on a page, too."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handler(request)
            except ServiceError as error:
                return problem_page(request, error)
            except RequestValidationError as error:
                if any(fault["loc"][0] == "path" for fault in error.errors()):  # such as an id
                    detail = f"there is nothing at {request.url.path}"
                    return problem_page(request, NotFound("not-found", detail))
                return problem_page(request, parameter_error(error.errors()))

        return answer


def problem_page(request: Request, error: ServiceError) -> Response:
    """The page of an error, with all its details."""
    reply = page(request, "problem.html", error)
    if error.retry_after_s is not None:
        reply.headers["Retry-After"] = str(math.ceil(error.retry_after_s))
    return reply
