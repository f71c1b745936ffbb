"""`/problems`: the meaning of each problem, as JSON and as pages for browsers."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Path
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from service.common.content_negotiation import choose
from service.errors import NotFound
from service.web.access.scopes import Routes, requires_scope
from service.web.problems import PROBLEMS, Frame, ProblemKindRead, responses

JSON, HTML = "application/json", "text/html"
VARY = {"Vary": "Accept"}


class ProblemKindPage(BaseModel):
    problems: list[ProblemKindRead]


def router(frame: Frame) -> Routes:
    """Routes that require no key."""
    routes = Routes("/problems", "operations")
    page: dict[int | str, dict[str, Any]] = {200: {"content": {HTML: {}}}}

    @routes.get(
        "",
        operation_id="list_problems",
        summary="List all kinds of problems",
        response_model=ProblemKindPage,
        responses={**page, **responses("not-acceptable")},
    )
    @requires_scope(None)
    async def all_problems(request: Request, response: Response) -> ProblemKindPage | Response:
        """Every `code` that a reply of type `application/problem+json` can carry; a page for
        browsers."""
        kinds = [PROBLEMS[code] for code in sorted(PROBLEMS)]
        if choose(request, (JSON, HTML)) == HTML:
            return _page(frame, request, "Problems", kinds)
        response.headers.update(VARY)
        return ProblemKindPage(problems=kinds)

    @routes.get(
        "/{code}",
        operation_id="get_problem",
        summary="Explain one kind of problem",
        response_model=ProblemKindRead,
        responses={**page, **responses("not-found", "not-acceptable")},
    )
    @requires_scope(None)
    async def one_problem(
        request: Request,
        response: Response,
        code: Annotated[str, Path(description="The problem's `code`.", examples=["not-found"])],
    ) -> ProblemKindRead | Response:
        """What a problem's `type` links to; a page for browsers."""
        if code not in PROBLEMS:
            raise NotFound("not-found", f"there is no problem '{code}'")
        if choose(request, (JSON, HTML)) == HTML:
            return _page(frame, request, PROBLEMS[code].title, [PROBLEMS[code]])
        response.headers.update(VARY)
        return PROBLEMS[code]

    return routes


def _page(
    frame: Frame, request: Request, title: str, kinds: Sequence[ProblemKindRead]
) -> HTMLResponse:
    sections = "".join(
        f"<section><h2>{_text(kind.title)}</h2>\n<p>{_text(kind.description)}</p>\n"
        f'<p class="soft"><a href="/problems/{kind.code}"><code>{kind.code}</code></a>, '
        f"status {kind.status}</p></section>\n"
        for kind in kinds
    )
    crumb = "" if len(kinds) > 1 else '<p class="crumb"><a href="/problems">All problems</a></p>'
    main = f"{crumb}\n<h1>Problems</h1>\n{sections}"
    return HTMLResponse(frame(request, title, main), headers=VARY)


def _text(words: str) -> str:
    """As HTML; text between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(words))
