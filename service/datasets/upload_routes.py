"""The ways to new datasets over HTTP: upload, append, split."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, Query
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from service.common.encodings import media_type_of, unsupported_type
from service.common.names import DatasetId
from service.common.strict_json import decode_json
from service.datasets.dataset import SENT, Dataset, Origin
from service.datasets.examples import request_body
from service.datasets.schemas import (
    MAX_NAME,
    NAMED_DELIMITERS,
    AppendOptions,
    DatasetRead,
    DatasetSplit,
    DatasetSplitRead,
    UploadOptions,
)
from service.datasets.store import DatasetStore
from service.errors import InvalidRequest, UnsupportedFormat
from service.rows.cell_texts.encodings import is_text_codec
from service.rows.format_table import ARCHIVES, FORMATS, LABEL_FORMATS, SUFFIXES, known_type
from service.rows.formats.arrow import require_pyarrow
from service.rows.parser import Parser
from service.rows.spec import (
    ARROW,
    BESIDE,
    CSV,
    DELIMITED,
    UNKNOWN,
    ZIP,
    Parsed,
    ParseSpec,
    ReadLimits,
    ReadOptions,
    Roles,
    SentFile,
    SplitSpec,
)
from service.rows.table.layout import check_roles
from service.settings import Limits
from service.storage.blobs import Blobs
from service.web.access.scopes import requires_scope
from service.web.bodies import idempotency
from service.web.bodies.control_bodies import json_body, json_request
from service.web.bodies.idempotency import Also, Creation, Once, json_reply
from service.web.bodies.receiving import unless_disconnected
from service.web.bodies.uploads import FormPart, IncomingBody, parameter
from service.web.bodies.validation import parameter_error
from service.web.http.headers import etag
from service.web.problems import responses

DatasetSplitBody = Annotated[DatasetSplit, Depends(json_body(DatasetSplit))]

_UPLOAD = (
    *("malformed-json", "malformed-request", "invalid-parameter", "bad-encoding"),
    *("body-too-large", "too-many-rows", "too-many-columns", "too-many-values"),
    *("unsupported-format", "format-mismatch", "decompression-limit"),
    *("empty-data", "bad-column-name", "feature-mismatch", "target-missing", "label-count"),
    *("not-a-number", "missing-value", "non-finite-value", "ragged-row", "invalid-field"),
    *("not-a-boolean", "not-a-date"),
    *("csv-cell-too-large", "csv-unterminated-quote", "libsvm-index"),
    *("npy-unsupported", "npy-corrupt", "npz-unsafe", "columnar-unsupported"),
    *("archive-unsupported", "too-many-classes", "too-many-levels", "ambiguous-number"),
    *("parsing-failed", "process-lost", "storage-full"),
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
        "the data as `file`. Either may come with `Content-Encoding: gzip`. Each column gets a "
        "kind (number, boolean, date, category, text) from all of its cells; `schema` overrides "
        "it. Identifiers and constant texts are ignored, with a warning. A column of numbers with "
        "few other cells is refused, with each of them. `reading` says how the text was read. As "
        "labels booleans stay booleans, in CSV and TSV texts. JSON may also be a list of objects, "
        "an object of columns, or pandas' `split`. LIBSVM data of which at least half is not 0 "
        "become dense. The same values, labels and names again, in any format, give the existing "
        "dataset, with its name and this file's `reading`, `ignored_columns` and `warnings`.",
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
        "uploaded in one piece: same `matrix_digest`, classes merged. The dataset stays, as "
        "the `parent` of the new one. The body is as in an upload. Its columns are "
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
                *(
                    "unsupported-format",
                    "invalid-field",
                    "class-too-small",
                    "not-separable",
                    "target-missing",
                ),
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
    origin = SENT
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


FORM = "multipart/form-data"
_SAY_NOTHING = ("", "text/plain", "application/octet-stream", "application/vnd.ms-excel")
"""What browsers and curl send for files that they do not know."""
_UTF8 = (None, "utf-8", "utf8", "us-ascii", "ascii")
"""What the media type says of texts that may be anything else: clients say it of all texts."""


@dataclass(frozen=True, slots=True)
class Upload:
    """An upload on disk."""

    options: UploadOptions
    spec: ParseSpec


async def receive(body: IncomingBody, query: UploadOptions, folder: Path, limits: Limits) -> Upload:
    """Stream the body into `folder`. Raises ServiceError for what is wrong with the request."""
    sizes = limits.upload_bytes, limits.inflated_bytes
    if body.media_type == FORM:
        parts = await body.save_form(folder, ("file", "labels"), *sizes)
        return of_form(parts, query, folder, limits)
    sent_type = known_type(body.media_type)
    if sent_type not in (*FORMATS, *ARCHIVES.values()):
        raise unsupported_type(sent_type, (*FORMATS, ZIP, FORM), CSV)
    if sent_type == ARROW:
        require_pyarrow()
    path = folder / "body"
    await body.save(path, *sizes)
    options = _with_parameters(query, body.content_type)
    return Upload(options, _spec(options, SentFile(str(path), sent_type), None, folder, limits))


def of_form(
    parts: dict[str, FormPart], query: UploadOptions, folder: Path, limits: Limits
) -> Upload:
    """The upload that a form has. Raises ServiceError for what is wrong with it."""
    file = parts.pop("file", None)
    if file is None or file.path is None:
        raise InvalidRequest("malformed-request", "the form has no part `file` with the data")
    labels = parts.pop("labels", None)
    if labels is not None and not (labels.size or labels.filename):
        labels = None  # a page sends an empty part if no file was chosen
    options = _with_parameters(_options(parts, query), file.content_type)
    sent_labels = None if labels is None else _sent(labels, LABEL_FORMATS)
    sent = _sent(file, (*FORMATS, UNKNOWN))
    return Upload(options, _spec(options, sent, sent_labels, folder, limits))


def _options(parts: dict[str, FormPart], query: UploadOptions) -> UploadOptions:
    """The query's parameters and the form's fields; they must not contradict each other."""
    # Generated clients send the defaults of the query beside the form.
    given = query.model_dump(exclude_defaults=True, by_alias=True)
    fields = {name: part.text for name, part in parts.items() if part.size}
    try:
        options = type(query).model_validate(given | fields)
    except ValidationError as error:
        errors = [{**item, "loc": ("form", *item["loc"])} for item in error.errors()]
        raise parameter_error(errors) from None
    taken = options.model_dump(by_alias=True)
    for name in fields:
        if name in given and taken[name] != given[name]:
            message = f"{name[:64]!r} is one thing in the query and another in the form"
            raise InvalidRequest("invalid-parameter", message)
    return options


def _with_parameters(options: UploadOptions, content_type: str) -> UploadOptions:
    """The options, and what the media type says of header (RFC 4180) and encoding if they do not.

    Raises UnsupportedFormat for an encoding that is not read.
    """
    said: dict[str, str] = {}
    sent_type = media_type_of(content_type)
    tabular = known_type(sent_type) in DELIMITED
    header = parameter(content_type, "header")
    if options.header == "auto" and tabular and header in ("present", "absent"):
        said["header"] = header
    charset = charset_of(content_type)
    if charset is not None and options.encoding == "auto":
        said["encoding"] = charset
    return options.model_copy(update=said)


def charset_of(content_type: str) -> str | None:
    """The encoding of a text by its media type; None if it is not said, or UTF-8.

    Raises UnsupportedFormat for one that is not read.
    """
    charset = parameter(content_type, "charset")
    if charset in _UTF8:
        return None
    if not (known_type(media_type_of(content_type)) in DELIMITED and is_text_codec(charset)):
        message = f"send text as UTF-8, not as {charset[:40]}"
        raise UnsupportedFormat("unsupported-format", message)
    return charset


def _spec(
    options: UploadOptions,
    file: SentFile,
    labels: SentFile | None,
    folder: Path,
    limits: Limits,
) -> ParseSpec:
    return ParseSpec(
        file=file,
        out=str(folder),
        limits=read_limits(limits),
        labels=labels,
        asked=read_options(options),
    )


def read_options(options: UploadOptions) -> ReadOptions:
    """What the reader is asked: None for what is left to it. Raises InvalidRequest."""
    auto = ("delimiter", "encoding", "decimal", "thousands", "sheet")
    names = {one.name for one in fields(ReadOptions)}.difference(auto, ("missing", "schema"))
    said: dict[str, Any] = {name: _unless_auto(getattr(options, name)) for name in auto}
    said["delimiter"] = NAMED_DELIMITERS.get(said["delimiter"], said["delimiter"])
    return ReadOptions(
        **options.model_dump(include=names),
        **said,
        missing=_words(options.missing),
        schema=_roles(options),
    )


def _unless_auto(option: str | None) -> str | None:
    return None if option == "auto" else option


def _words(option: str) -> list[str]:
    words = [word.strip() for word in (_unless_auto(option) or "").split(",")]
    return [word for word in words if word]


def _roles(options: UploadOptions) -> Roles:
    """What `schema` says, and the parameters for one role each. Raises InvalidRequest."""
    try:
        document = decode_json(options.schema_.strip().encode() or b"{}")
    except InvalidRequest as error:
        message = f"`schema` is not JSON: {error.detail}"
        raise InvalidRequest("invalid-parameter", message) from None
    roles = check_roles(document)
    for role in BESIDE:
        name = getattr(options, role)
        if name and roles.setdefault(name, {"role": role}) != {"role": role}:
            message = f"`{role}` names {name[:64]!r}, which has another role or kind; leave out one"
            raise InvalidRequest("invalid-parameter", message)
    return roles


def read_limits(limits: Limits) -> ReadLimits:
    """What a parsing process has to know of them."""
    return ReadLimits(**{field.name: getattr(limits, field.name) for field in fields(ReadLimits)})


def _sent(part: FormPart, offered: tuple[str, ...]) -> SentFile:
    """Raises UnsupportedFormat for a format that is not offered."""
    sent_type = known_type(media_type_of(part.content_type))
    suffix = PurePosixPath(part.filename).suffix.lower()
    # Clients that look a name up say `text/csv` of data.csv.gz.
    archive = ARCHIVES.get(suffix, sent_type)
    if archive in ARCHIVES.values():
        return SentFile(str(part.path), archive, part.filename)
    unread_text = sent_type.startswith("text/") and sent_type not in offered  # a9a.t is troff
    if sent_type in _SAY_NOTHING or unread_text:
        plain = suffix in ("", ".txt") or suffix not in SUFFIXES
        sent_type = UNKNOWN if plain and UNKNOWN in offered else SUFFIXES.get(suffix, CSV)
    if sent_type not in offered:
        raise unsupported_type(sent_type, offered, CSV)
    return SentFile(str(part.path), sent_type, part.filename)
