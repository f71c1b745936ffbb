"""Datasets over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated
from urllib.parse import urlencode

from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from service.common.content_negotiation import choose
from service.common.label_names import called_label
from service.common.names import AnyDatasetId, DatasetId
from service.common.schemas import MAX_TAGS
from service.datasets import upload_routes
from service.datasets.browse import DatasetRows
from service.datasets.conditions import Order, conditions_of
from service.datasets.contents import Contents, formats_of
from service.datasets.dataset import Dataset
from service.datasets.schemas import (
    DatasetPage,
    DatasetRead,
    DatasetSummary,
    DatasetUpdate,
    RowPage,
    RowRead,
)
from service.datasets.store import DatasetStore
from service.rows.faults import invalid_field
from service.rows.format_table import DOWNLOADS, FORMATS
from service.rows.parser import Parser
from service.rows.rendering import label_name
from service.rows.spec import DELIMITED
from service.settings import Limits
from service.storage.blobs import Blobs
from service.storage.database.pages import Page
from service.web.access.scopes import Routes, requires_scope
from service.web.bodies.control_bodies import json_body, json_request
from service.web.http import headers as etags
from service.web.http.downloads import RANGE_PARAMETERS, download, downloads
from service.web.http.headers import check_if_match, etag, not_modified
from service.web.http.pagination import PageParams, TagFilter, next_page_token
from service.web.problems import responses

DatasetUpdateBody = Annotated[DatasetUpdate, Depends(json_body(DatasetUpdate))]

MOST_CELLS = 200_000
"""On one page of rows."""
_WITH_ETAG = ("invalid-parameter", "not-found", *etags.PROBLEMS)


def router(
    store: DatasetStore, contents: Contents, parser: Parser, blobs: Blobs, limits: Limits
) -> Routes:
    """`/v1/datasets` and all below it."""
    routes = Routes("/v1/datasets", "datasets")
    upload_routes.add(routes, store, parser, blobs, limits)
    _add_read(routes, store)
    _add_rows(routes, store)
    _add_content(routes, store, contents)
    _add_change(routes, store)
    return routes


def _add_read(routes: APIRouter, store: DatasetStore) -> None:
    @routes.get(
        "",
        operation_id="list_datasets",
        summary="List datasets",
        description="Newest first, without their columns.",
        responses=responses("invalid-parameter"),
    )
    def list_datasets(page: PageParams, tag: TagFilter) -> DatasetPage:
        listed = store.page(page, tag)
        return DatasetPage(
            datasets=[DatasetSummary.model_validate(dataset) for dataset in listed.items],
            next_page_token=next_page_token(page, listed),
        )

    @routes.get(
        "/{id}",
        operation_id="get_dataset",
        summary="Get a dataset",
        description="Its size, classes, columns with their statistics, and what to be aware of.",
        response_model=DatasetRead,
        responses=responses(*_WITH_ETAG),
    )
    def get_dataset(
        request: Request, response: Response, id: AnyDatasetId
    ) -> DatasetRead | Response:
        dataset = store.find(id)
        response.headers["ETag"] = etag(dataset.etag)
        return not_modified(request, etag(dataset.etag)) or DatasetRead.of(dataset)


def _add_rows(routes: APIRouter, store: DatasetStore) -> None:
    @routes.get(
        "/{id}/rows",
        operation_id="list_rows",
        summary="Read rows of a dataset",
        description="A page of wide data has fewer rows than `page_size`.",
        responses=responses("invalid-parameter", "not-found", "dataset-corrupt"),
    )
    def list_rows(
        id: AnyDatasetId,
        page: PageParams,
        where: Annotated[
            str,
            Query(
                max_length=10_000,
                description="Conditions, all to be met, in JSON: `[[column, test, value], …]`, "
                'such as `[["age", "at-least", "30"]]`; tests are is, contains, at-least, at-most, '
                "missing.",
            ),
        ] = "[]",
        sort: Annotated[str, Query(description="The column to sort by.")] = "",
        descending: Annotated[bool, Query(description="Largest first.")] = False,
    ) -> RowPage:
        first, offset = (id, 0) if page.after is None else page.after
        dataset = store.find(str(first))  # a token stays with what `latest` was
        rows = DatasetRows(store, dataset, most_entries=dataset.n_features)
        limit = max(1, min(page.size, MOST_CELLS // rows.width))
        order = Order(sort, descending) if sort else None
        found = rows.page(
            *(conditions_of(where), order),
            offset=int(offset),
            limit=limit,
            columns=dataset.n_features,
        )
        end = found.offset + len(found.cells)
        after = (dataset.id, end) if end < found.total else None
        return RowPage(
            rows=[RowRead(row=n, cells=cells) for n, cells in found.named],
            total=found.total,
            next_page_token=next_page_token(page, Page((), after)),
        )


def _add_content(routes: APIRouter, store: DatasetStore, contents: Contents) -> None:
    @routes.get(
        "/{id}/content",
        operation_id="download_dataset",
        summary="Download a dataset's data",
        description="In the format that `Accept` prefers; CSV or, of sparse data, LIBSVM if it "
        "says nothing. Numbers are written so that they are the same when read again: an upload of "
        "the file has the same `matrix_digest` (of data without labels with `target=none`). JSON, "
        "NDJSON, NPZ and Parquet keep the kind of the labels; CSV and TSV know only text. NPY "
        "holds labels that are numbers, as its last column. `X-Upload-Query` names the columns "
        "with roles, as an upload does.",
        response_class=Response,
        responses={
            **downloads(*DOWNLOADS),
            **responses(
                *(*_WITH_ETAG, "not-acceptable", "range-not-satisfiable"),
                *("parsing-failed", "process-lost", "dataset-corrupt", "storage-full"),
            ),
        },
        openapi_extra=RANGE_PARAMETERS,
    )
    async def download_dataset(request: Request, id: AnyDatasetId) -> Response:
        dataset = await run_sync(store.find, id)
        media_type = choose(request, formats_of(dataset))
        content = await contents.open(dataset, media_type)
        reply = download(
            request,
            content.file,
            size_bytes=content.size_bytes,
            sha256=content.sha256,
            media_type=_with_parameters(media_type, dataset),
            filename=dataset.id + FORMATS[media_type].suffixes[0],
        )
        reply.headers["Vary"] = "Accept"
        if dataset.columns and (names := _roles(dataset)):
            reply.headers["X-Upload-Query"] = urlencode(names)
        return reply


def _roles(dataset: Dataset) -> dict[str, str]:
    """What an upload of the file has to say of its columns: also which one is the label, if another
    one is called so."""
    names = {one["role"]: one["name"] for one in dataset.beside}
    label = label_name(dataset)
    called = called_label([*(dataset.columns or ()), label])
    if dataset.n_distinct_labels and len(called) == 1 and called != [label]:
        names["target"] = label
    return names


def _with_parameters(media_type: str, dataset: Dataset) -> str:
    if not media_type.startswith("text/"):
        return media_type
    header = f"; header={'present' if dataset.columns else 'absent'}"
    return f"{media_type}; charset=utf-8" + (header if media_type in DELIMITED else "")


def _add_change(routes: APIRouter, store: DatasetStore) -> None:
    @routes.patch(
        "/{id}",
        operation_id="update_dataset",
        summary="Change a dataset's name and tags",
        description="The data never change. What the body does not mention stays; null removes.",
        response_model=DatasetRead,
        responses=responses(
            *(*_WITH_ETAG, "malformed-json", "body-too-large"),
            *("unsupported-format", "invalid-field"),
        ),
        openapi_extra=json_request(
            DatasetUpdate, {"name": "iris", "tags": {"team": "x"}}, required=False
        ),
    )
    @requires_scope("train")
    def update_dataset(
        request: Request, response: Response, id: DatasetId, body: DatasetUpdateBody
    ) -> DatasetRead:
        def change(dataset: Dataset) -> tuple[str | None, Mapping[str, str]]:
            check_if_match(request, etag(dataset.etag))
            return _merged(dataset, body)

        dataset = store.update(id, change)
        response.headers["ETag"] = etag(dataset.etag)
        return DatasetRead.of(dataset)

    @routes.delete(
        "/{id}",
        status_code=204,
        operation_id="delete_dataset",
        summary="Delete a dataset",
        description="Refused while a job that has not ended uses it. Models trained on it stay.",
        responses=responses(*_WITH_ETAG, "resource-in-use"),
    )
    def delete_dataset(request: Request, id: DatasetId) -> None:
        store.delete(id, lambda dataset: check_if_match(request, etag(dataset.etag)))


def _merged(dataset: Dataset, body: DatasetUpdate) -> tuple[str | None, Mapping[str, str]]:
    name = body.name if "name" in body.model_fields_set else dataset.name
    changed = {**dataset.tags, **body.tags}
    tags = {key: value for key, value in changed.items() if value is not None}
    if len(tags) > MAX_TAGS:
        raise invalid_field("/tags", f"at most {MAX_TAGS} tags are allowed")
    return name, tags
