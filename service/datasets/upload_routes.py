"""The ways to new datasets over HTTP: upload, append, split."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from service.datasets.dataset import Dataset, Origin
from service.datasets.examples import request_body
from service.datasets.schemas import (
    MAX_NAME,
    AppendOptions,
    DatasetRead,
    DatasetSplit,
    DatasetSplitRead,
    UploadOptions,
)
from service.datasets.store import DatasetStore
from service.datasets.uploads import Upload, read_limits, receive
from service.rows.parser import Parser
from service.rows.spec import Parsed, SplitSpec
from service.settings import Limits
from service.storage.blobs import Blobs
from service.web.access.scopes import requires_scope
from service.web.bodies import idempotency
from service.web.bodies.control_bodies import json_body, json_request
from service.web.bodies.idempotency import Also, Creation, Once
from service.web.bodies.uploads import IncomingBody
from service.web.http.etags import etag
from service.web.http.json_reply import json_reply
from service.web.http.names import DatasetId
from service.web.problems import responses
from service.web.server.disconnects import unless_disconnected

DatasetSplitBody = Annotated[DatasetSplit, Depends(json_body(DatasetSplit))]

_UPLOAD = (
    *("malformed-json", "malformed-request", "invalid-parameter", "bad-encoding"),
    *("body-too-large", "too-many-rows", "too-many-columns", "too-many-values"),
    *("unsupported-format", "format-mismatch", "decompression-limit"),
    *("empty-data", "bad-column-name", "feature-mismatch", "target-missing", "label-count"),
    *("not-a-number", "missing-value", "non-finite-value", "ragged-row", "invalid-field"),
    *("not-a-boolean", "not-a-date"),
    *("csv-cell-too-large", "csv-unterminated-quote", "libsvm-index"),
    *(
        "npy-unsupported",
        "npy-corrupt",
        "npz-unsafe",
        "columnar-unsupported",
        "archive-unsupported",
    ),
    *(
        "too-many-classes",
        "too-many-levels",
        "ambiguous-number",
        "parsing-failed",
        "process-lost",
        "storage-full",
    ),
    *idempotency.PROBLEMS,
)


def add(
    routes: APIRouter, store: DatasetStore, parser: Parser, blobs: Blobs, limits: Limits
) -> None:
    """Add them to the routes of datasets."""
    _add_upload(routes, store, parser, blobs, limits)
    _add_split(routes, store, parser, blobs, limits)


def _add_upload(
    routes: APIRouter, store: DatasetStore, parser: Parser, blobs: Blobs, limits: Limits
) -> None:
    @routes.post(
        "",
        status_code=201,
        operation_id="create_dataset",
        summary="Upload a dataset",
        description="The body is the data itself, its format the `Content-Type`; or a form with "
        "the data as `file`. Either may come with `Content-Encoding: gzip`, and each file may be "
        "in a zip file of its own, or compressed by gzip; then its suffix is its format. Each "
        "column gets a kind (number, boolean, date, category) from all of its cells; `schema` "
        "overrides it. Missing cells are kept as missing. Identifiers, free text and constant "
        "texts are ignored, with a warning. A column of numbers with few other cells is refused, "
        "with each of them. `reading` says how the text was read. As labels booleans stay "
        "booleans, in CSV and TSV texts. JSON may also be a list of objects, as pandas writes it "
        "with `orient='records'`, `{'records': […]}`, an object of columns, or `split`. LIBSVM "
        "data of which at least half is not 0 become dense. The same values, labels and names "
        "again, in any format, give the existing dataset, with its name, and with what is true of "
        "this file: `reading`, `ignored_columns` and `warnings`.",
        response_model=DatasetRead,
        responses={
            200: {"model": DatasetRead, "description": "It exists, or was only validated."},
            **responses(*_UPLOAD),
        },
        openapi_extra=request_body(),
    )
    @requires_scope("train")
    async def create_dataset(
        request: Request, once: Once, query: Annotated[UploadOptions, Query()]
    ) -> Response:
        blobs.check_room()
        with blobs.temporary_folder() as folder:
            upload = await receive(IncomingBody(request), query, folder, limits)
            return await once.perform(partial(_keep, request, once, store, parser, folder, upload))

    @routes.post(
        "/{id}/append",
        status_code=201,
        operation_id="append_to_dataset",
        summary="Append rows to a dataset",
        description="Makes a new dataset of all rows, the present ones first, as if they had been "
        "uploaded in one piece: same `matrix_digest`, classes merged. The dataset itself stays as "
        "it is, and is the `parent` of the new one. The body is as in an upload. Its columns are "
        "matched by name if both sides have names, else by position; its labels are of the "
        "same kind, or there are none on either side. The same rows again give the existing "
        "dataset.",
        response_model=DatasetRead,
        responses={
            200: {"model": DatasetRead, "description": "It exists, or was only validated."},
            **responses(*_UPLOAD, "not-found", "label-mismatch", "dataset-corrupt"),
        },
        openapi_extra=request_body(),
    )
    @requires_scope("train")
    async def append_to_dataset(
        request: Request, once: Once, id: DatasetId, query: Annotated[AppendOptions, Query()]
    ) -> Response:
        blobs.check_room()
        with blobs.temporary_folder() as folder:
            upload = await receive(IncomingBody(request), query, folder, limits)

            async def append() -> Response:
                parent = await run_sync(store.get, id)
                stored = await run_sync(store.copy, parent, folder / "parent")
                onto = replace(upload, spec=replace(upload.spec, onto=stored))
                return await _keep(request, once, store, parser, folder, onto, parent)

            return await once.perform(append)


def _add_split(
    routes: APIRouter, store: DatasetStore, parser: Parser, blobs: Blobs, limits: Limits
) -> None:
    @routes.post(
        "/{id}/split",
        status_code=201,
        operation_id="split_dataset",
        summary="Split a dataset in two",
        description="Makes two new datasets: `test` of the share `fraction` of the rows, `train` "
        "of the rest. Which rows is a function of the body: a job on the whole dataset with the "
        "same `seed` and the body's `fraction` and `stratify` as its `validation` trains on the "
        "rows of `train`. The same split again gives the existing datasets.",
        response_model=DatasetSplitRead,
        responses={
            200: {"model": DatasetSplitRead, "description": "Both exist."},
            **responses(
                *("malformed-json", "invalid-parameter", "not-found", "body-too-large"),
                *("unsupported-format", "invalid-field", "class-too-small", "target-missing"),
                *("target-continuous", "too-many-rows", "parsing-failed", "dataset-corrupt"),
                *("process-lost", "storage-full", *idempotency.PROBLEMS),
            ),
        },
        openapi_extra=json_request(DatasetSplit, {"fraction": 0.25, "stratify": True, "seed": 42}),
    )
    @requires_scope("train")
    async def split_dataset(once: Once, id: DatasetId, body: DatasetSplitBody) -> Response:
        async def split() -> Response:
            whole = await run_sync(store.get, id)
            blobs.check_room()
            with blobs.temporary_folder() as folder:
                spec = SplitSpec(
                    stored=await run_sync(store.copy, whole, folder / "whole"),
                    **body.model_dump(),
                    train=str(folder / "train"),
                    test=str(folder / "test"),
                    limits=read_limits(limits),
                )
                parts = await parser.split(spec)
                add = partial(_add_part, store, whole)
                train, first = await run_sync(add, parts.train, folder / "train")
                # With the second one both are there. Without it the first is found again.
                also = once.record(partial(_both, train, is_new=True))
                test, second = await run_sync(add, parts.test, folder / "test", also)
                return _both(train, test, first or second)

        return await once.perform(split)


async def _keep(
    request: Request,
    once: Creation,
    store: DatasetStore,
    parser: Parser,
    folder: Path,
    upload: Upload,
    parent: Dataset | None = None,
) -> Response:
    """Read what lies in `folder`, keep it unless it is only validated, and describe it. If the
    client disconnects while it is read, nothing is kept."""
    parsed = await unless_disconnected(request.receive, parser.parse(upload.spec))
    name, media_type = upload.options.name, parsed.media_type
    origin = None
    if parent is not None:
        name, origin = name or parent.name, Origin(parent.id, parent.n_samples)
    if upload.options.validate_only:
        size = sum((folder / f"{array}.npy").stat().st_size for array in parsed.arrays)
        return json_reply(DatasetRead.of_parsed(parsed, name, media_type, size, origin), 200)
    add = partial(
        store.add,
        *(parsed, folder),
        name=name,
        media_type=media_type,
        origin=origin,
        also=once.record(partial(_one, is_new=True)),
    )
    dataset, is_new = await run_sync(add)
    return _one(dataset.read_from(parsed), is_new)


def _one(dataset: Dataset, is_new: bool) -> Response:
    headers = {"Location": f"/v1/datasets/{dataset.id}", "ETag": etag(dataset.etag)}
    return json_reply(DatasetRead.of(dataset), 201 if is_new else 200, headers)


def _both(train: Dataset, test: Dataset, is_new: bool) -> Response:
    both = DatasetSplitRead(train=DatasetRead.of(train), test=DatasetRead.of(test))
    return json_reply(both, 201 if is_new else 200)


def _add_part(
    store: DatasetStore,
    whole: Dataset,
    parsed: Parsed,
    folder: Path,
    also: Also[Dataset] | None = None,
) -> tuple[Dataset, bool]:
    ending = f"-{folder.name}"
    name = None if whole.name is None else whole.name[: MAX_NAME - len(ending)] + ending
    origin = Origin(whole.id)
    return store.add(parsed, folder, name=name, media_type=whole.format, origin=origin, also=also)
