"""The first page, and the pages of datasets: upload, show, delete."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import APIRouter, Query
from fastapi import Path as InPath
from starlette.requests import Request
from starlette.responses import Response

from service.common.names import DatasetId
from service.dashboard.model_pages import with_latest
from service.dashboard.page import HERE, PageContext, go, page
from service.dashboard.proposals import (
    SHOWN_COLUMNS,
    column_problems,
    proposed_columns,
    reading_in_words,
    values_of,
)
from service.datasets.dataset import SENT, Dataset
from service.datasets.schemas import MAX_NAME, DatasetRead, UploadOptions
from service.datasets.upload_routes import Upload, read_limits, receive
from service.errors import InvalidContent, NotFound, ServiceError
from service.jobs.collection.schemas import JobRead
from service.jobs.core.store import JobFilter
from service.rows.format_table import FORMATS
from service.rows.spec import CSV, LIBSVM, NPY, NPZ, ParseSpec, SentFile
from service.rows.table.layout import NO_TARGET
from service.storage.database.pages import PageRequest
from service.web.access.scopes import requires_scope
from service.web.bodies.uploads import IncomingBody
from service.web.http.pagination import PageParams, next_page_token
from service.web.problems import PROBLEMS

SAMPLES = {
    "iris": "Three kinds of iris by four lengths. 150 rows.",
    "moons": "Two interleaved half moons, not linearly separable. 400 rows.",
    "circle": "Inside or outside of a circle: separable by squares of the features. 400 rows.",
}
RECENT = PageRequest(size=5)
FIXED = (LIBSVM, NPY, NPZ)
"""Formats whose columns are numbers, with nothing to choose."""
COLUMNS = 50
"""Columns on one page of a dataset."""


def add(routes: APIRouter, context: PageContext) -> None:
    """Add them to the dashboard's routes."""
    _add_home(routes, context)
    _add_upload(routes, context)
    _add_dataset(routes, context)


def _add_home(routes: APIRouter, context: PageContext) -> None:
    @routes.get("/")
    def home(request: Request) -> Response:
        jobs = context.jobs.page(JobFilter(), RECENT).items
        return page(
            request,
            "home.html",
            samples=SAMPLES,
            limit_bytes=context.limits.upload_bytes,
            datasets=context.datasets.page(RECENT).items,
            jobs=[JobRead.of(job) for job in jobs],
            names=context.datasets.names([job.dataset_id for job in jobs]),
            models=with_latest(context, context.models.page(RECENT).items),
        )

    @routes.get("/datasets")
    def datasets(request: Request, page_: PageParams) -> Response:
        datasets = context.datasets.page(page_)
        more = next_page_token(page_, datasets)
        return page(
            request,
            "datasets.html",
            datasets=datasets.items,
            more=more,
            limit_bytes=context.limits.upload_bytes,
        )


def _add_upload(routes: APIRouter, context: PageContext) -> None:
    @routes.post("/datasets")
    @requires_scope("train")
    async def upload(request: Request, look: bool = False) -> Response:
        """`look`: show the columns and keep nothing, if there is something to choose."""
        context.blobs.check_room()
        with context.blobs.temporary_folder() as folder:
            upload = await receive(IncomingBody(request), UploadOptions(), folder, context.limits)
            try:
                if look and upload.spec.file.media_type not in FIXED:
                    return _proposal(request, upload, await _look(context, upload))
                dataset = await _keep(context, folder, upload)
            except InvalidContent as error:
                read = await _without_labels(context, folder, upload)
                return _proposal(request, upload, read, error)
        return go(request, f"/datasets/{dataset.id}")

    @routes.post("/samples/{name}")
    @requires_scope("train")
    async def sample(request: Request, name: Annotated[str, InPath()]) -> Response:
        if name not in SAMPLES:
            raise NotFound("not-found", f"there is no sample {name}")
        context.blobs.check_room()
        with context.blobs.temporary_folder() as folder:
            spec = ParseSpec(
                file=SentFile(str(HERE / "samples" / f"{name}.csv"), CSV),
                out=str(folder),
                limits=read_limits(context.limits),
            )
            dataset = await _keep(context, folder, Upload(UploadOptions(name=name), spec))
        return go(request, f"/datasets/{dataset.id}")


async def _look(context: PageContext, upload: Upload) -> DatasetRead:
    """What would be kept."""
    parsed = await context.parser.parse(upload.spec)
    return DatasetRead.of_parsed(parsed, None, upload.spec.file.media_type, 0, SENT)


async def _without_labels(context: PageContext, folder: Path, upload: Upload) -> DatasetRead | None:
    """The columns of a file whose label was refused, to choose another one from; None if something
    else is wrong."""
    if upload.spec.file.media_type in FIXED or upload.spec.labels is not None:
        return None
    said = upload.spec.asked.schema
    roles = {name: one for name, one in said.items() if one.get("role") != "label"}
    out = folder / "without-labels"
    out.mkdir()
    spec = replace(upload.spec, out=str(out)).asking(target=NO_TARGET, schema=roles)
    try:
        return await _look(context, replace(upload, spec=spec))
    except ServiceError:
        return None


def _options(upload: Upload) -> set[str]:
    """The options that uploads of this format have; of an archive those of a table."""
    media_type = upload.spec.file.media_type
    return {"target", *FORMATS[CSV if media_type not in FORMATS else media_type].options}


def _proposal(
    request: Request,
    upload: Upload,
    read: DatasetRead | None,
    error: InvalidContent | None = None,
) -> Response:
    known = None if error is None else PROBLEMS.get(error.code)
    target = None if error is not None else upload.options.target
    return page(
        request,
        "proposal.html",
        error,
        scripted="hx-request" in request.headers,
        read=read,
        reading=None if read is None else reading_in_words(read.reading),
        columns=[] if read is None else proposed_columns(read, target, upload.spec.asked.schema),
        limit=SHOWN_COLUMNS,
        separate_labels=upload.spec.labels is not None,
        likely=[] if error is None else error.extra.get("likely_targets", []),
        problems=[] if error is None else column_problems(error, _options(upload)),
        title=known.title if known else "",
        about=known.description if known else None,
    )


async def _keep(context: PageContext, folder: Path, upload: Upload) -> Dataset:
    parsed = await context.parser.parse(upload.spec)

    def add() -> Dataset:
        name, media_type = upload.options.name or _name_of(upload), upload.spec.file.media_type
        return context.datasets.add(parsed, folder, name=name, media_type=media_type)[0]

    return await run_sync(add)


def _name_of(upload: Upload) -> str | None:
    """The file's name, shortened to a valid name of a dataset."""
    name = "".join(filter(str.isprintable, upload.spec.file.name.replace("\\", "/")))
    return PurePosixPath(name).name[:MAX_NAME] or None


def _add_dataset(routes: APIRouter, context: PageContext) -> None:
    @routes.get("/datasets/{id}")
    def dataset(
        request: Request, id: DatasetId, first: Annotated[int, Query(ge=0, le=10_000_000)] = 0
    ) -> Response:
        row = context.datasets.get(id)
        read = DatasetRead.of(row)
        columns = read.columns
        shown = None if columns is None else columns[first : first + COLUMNS]
        jobs = context.jobs.page(JobFilter(dataset_id=id), RECENT).items
        return page(
            request,
            "dataset.html",
            dataset=row,
            columns=shown,
            values=[values_of(column) for column in shown or ()],
            ignored=read.ignored_columns,
            reading=reading_in_words(read.reading),
            first=first,
            step=COLUMNS,
            bars=context.distributions.of(row, first, COLUMNS) if shown else None,
            jobs=[JobRead.of(job) for job in jobs],
            trainable=row.n_distinct_labels > 1 and row.classes is not None,
        )

    @routes.post("/datasets/{id}/delete")
    async def delete(request: Request, id: DatasetId) -> Response:
        await run_sync(context.datasets.delete, id, lambda _: None)
        return go(request, "/datasets")
