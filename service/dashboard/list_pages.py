"""The lists of datasets, jobs and models: filters, orders, and deletions of several at once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlencode

from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from service.common.keys import Scope
from service.common.names import NAME, ModelName
from service.dashboard.page import PageContext, back, form_of, page
from service.errors import InvalidRequest, NotFound, ServiceError
from service.jobs.collection.schemas import JobRead
from service.jobs.core.job import State
from service.jobs.core.store import JobFilter
from service.jobs.kinds import KINDS, KindName
from service.models.versions import Model
from service.storage.database.pages import Page, PageRequest
from service.storage.database.tables import ModelVersion
from service.web.access.scopes import requires_scope
from service.web.http.pagination import MAX_PAGE_SIZE, PageParams, next_page_token

MAX_TEXT = 200
LISTED = 20
"""Of what is to be deleted, that a page names."""
Section: TypeAlias = Literal["datasets", "jobs", "models"]
Sort: TypeAlias = Literal[
    "newest", "oldest", "name", "name-down", "rows", "rows-down", "columns", "columns-down"
]
_IDS: Mapping[Section, re.Pattern[str]] = {
    "datasets": re.compile("ds_[0-9a-f]{32}"),
    "jobs": re.compile("job_[0-9a-f]{32}"),
    "models": re.compile(rf"{NAME.pattern}(/[1-9][0-9]{{0,8}})?"),
}


@dataclass(frozen=True, slots=True)
class Listing:
    """A list as it was asked for, from which links to other orders and filters are made."""

    path: str
    given: Mapping[str, str]
    """Parameters of the query, but for the token of the page."""
    page: PageRequest

    @property
    def sort(self) -> str:
        return self.given.get("sort", "newest")

    @property
    def text(self) -> str | None:
        """What names must contain; characters that no name has are left out."""
        return "".join(filter(str.isprintable, self.given.get("q", ""))).strip() or None

    @property
    def is_filtered(self) -> bool:
        return bool(self.given.keys() - {"sort", "page_size"})

    def at(self, **changes: str | None) -> str:
        """The address of this list with other parameters."""
        values = {name: value for name, value in {**self.given, **changes}.items() if value}
        return f"{self.path}?{urlencode(values)}" if values else self.path

    def after(self, some: Page[Any]) -> str | None:
        """The address of the next page."""
        token = next_page_token(self.page, some)
        return token and self.at(page_token=token)


def _listing(
    request: Request,
    page_: PageParams,
    q: Annotated[str, Query(max_length=MAX_TEXT)] = "",
    sort: Sort = "newest",
) -> Listing:
    given = {
        name: value
        for name, value in request.query_params.items()
        if value and name != "page_token"
    }
    by, _, down = sort.partition("-")
    ages = {"newest": (False, ""), "oldest": (True, "")}
    ascending, by = ages.get(sort, (not down, by))
    return Listing(request.url.path, given, replace(page_, ascending=ascending, by=by))


Asked = Annotated[Listing, Depends(_listing)]


def add(routes: APIRouter, context: PageContext) -> None:
    """Add them to the dashboard's routes."""
    _add_lists(routes, context)
    _add_deletion(routes, context, "datasets", "admin")
    _add_deletion(routes, context, "jobs", "train")
    _add_deletion(routes, context, "models", "admin")


def _add_lists(routes: APIRouter, context: PageContext) -> None:
    @routes.get("/datasets")
    def datasets(request: Request, listing: Asked) -> Response:
        some = context.datasets.page(listing.page, name=listing.text)
        return page(
            request,
            "datasets.html",
            list=listing,
            datasets=some.items,
            more=listing.after(some),
            limit_bytes=context.limits.upload_bytes,
        )

    @routes.get("/jobs")
    def jobs(
        request: Request,
        listing: Asked,
        state: Annotated[State | None, Query()] = None,
        kind: Annotated[KindName | Literal[""], Query()] = "",
        model_name: Annotated[ModelName | None, Query()] = None,
    ) -> Response:
        listed = JobFilter(state=state, kind=kind or None, model_name=model_name, name=listing.text)
        some = context.jobs.page(listed, listing.page)
        return page(
            request,
            "jobs.html",
            list=listing,
            jobs=[JobRead.of(job) for job in some.items],
            names=context.datasets.names([job.dataset_id for job in some.items]),
            more=listing.after(some),
            state=state,
            kind=kind,
            states=list(State),
            kinds=KINDS.values(),
            counts=context.jobs.counts(),
            model_name=model_name,
        )

    @routes.get("/models")
    def models(request: Request, listing: Asked) -> Response:
        some = context.models.page(listing.page, listing.text)
        listed = with_latest(context, some.items)
        return page(request, "models.html", list=listing, models=listed, more=listing.after(some))


def with_latest(
    context: PageContext, models: Sequence[Model]
) -> list[tuple[Model, ModelVersion | None]]:
    """Each model with its latest version, if it has one."""
    latest = context.models.find_all((model.name, model.latest_version or 0) for model in models)
    versions = (None if isinstance(version, NotFound) else version for version in latest)
    return list(zip(models, versions, strict=True))


def chosen_in(form: Mapping[str, list[str]], section: Section) -> list[str]:
    """The ids of the rows that were selected, each once. Raises InvalidRequest."""
    ids = list(dict.fromkeys(form.get("id", [])))
    if not ids or len(ids) > MAX_PAGE_SIZE:
        detail = f"select rows of the list, {MAX_PAGE_SIZE:,} at most"
        raise InvalidRequest("invalid-parameter", detail)
    if not all(map(_IDS[section].fullmatch, ids)):
        detail = f"an entry is not the id of one of the {section}"
        raise InvalidRequest("invalid-parameter", detail)
    return ids


def _add_deletion(routes: APIRouter, context: PageContext, section: Section, scope: Scope) -> None:
    @routes.post(f"/{section}/delete")
    @requires_scope(scope)
    async def delete(request: Request) -> Response:
        """Asks first; then shows what could not be deleted, row by row."""
        form = await form_of(request)
        ids = chosen_in(form, section)
        if "confirmed" not in form:
            titles = await run_sync(_titles, context, section, ids[:LISTED])
            return page(request, "delete.html", ids=ids, titles=titles, failed={}, of=section)
        failed = await run_sync(_delete_all, context, section, ids)
        if not failed:
            return back(f"/{section}")
        titles = await run_sync(_titles, context, section, list(failed)[:LISTED])
        return page(request, "delete.html", ids=ids, titles=titles, failed=failed, of=section)


def _titles(context: PageContext, section: Section, ids: Sequence[str]) -> dict[str, str]:
    """Of those that are still there, or of any model; what an id is called."""
    if section == "models":
        return {one: one.replace("/", ", version ") for one in ids}
    if section == "datasets":
        return {one: name or "unnamed" for one, name in context.datasets.names(ids).items()}
    titles = {}
    for one in ids:
        with suppress(NotFound):
            job = context.jobs.get(one)
            titles[one] = KINDS[job.kind].title(job.spec)
    return titles


def _delete_all(context: PageContext, section: Section, ids: Sequence[str]) -> dict[str, str]:
    """Why some were not deleted. What was deleted before is as it should be."""
    failed = {}
    for one in ids:
        try:
            _delete(context, section, one)
        except NotFound:
            pass
        except ServiceError as error:
            failed[one] = error.detail
    return failed


def _delete(context: PageContext, section: Section, reference: str) -> None:
    name, _, version = reference.partition("/")
    if section == "datasets":
        context.datasets.delete(reference, lambda _: None)
    elif section == "jobs":
        context.jobs.delete(reference)
    elif version:
        context.models.delete_version(name, int(version))
    else:
        context.models.delete(name)
