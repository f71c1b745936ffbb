"""The first page, and the pages of datasets: upload, show, delete.

Before an upload is kept, a page shows its columns, and what is wrong with them, in words.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, Query
from fastapi import Path as InPath
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from service.common.figures import number
from service.common.names import DatasetId
from service.dashboard.formatting import day, without_location
from service.dashboard.list_pages import with_latest
from service.dashboard.page import HERE, PageContext, go, page
from service.dashboard.row_pages import COLUMNS, STEP, TESTS, Asked, view_of
from service.datasets.dataset import SENT, Dataset
from service.datasets.reading import reading_in_words
from service.datasets.schemas import MAX_NAME, ColumnRead, DatasetRead, UploadOptions
from service.datasets.upload_routes import Upload, read_limits, receive
from service.errors import Fault, InvalidContent, NotFound, ServiceError
from service.jobs.collection.schemas import JobRead
from service.jobs.core.job import State
from service.jobs.core.store import JobFilter
from service.jobs.kinds import TRAINING
from service.rows.format_table import FORMATS
from service.rows.spec import CSV, LIBSVM, NPY, NPZ, ParseSpec, Roles, SentFile
from service.rows.table.beside import WORDS
from service.rows.table.layout import NO_TARGET
from service.storage.database.pages import PageRequest
from service.web.access.scopes import requires_scope
from service.web.bodies.uploads import IncomingBody
from service.web.problems import PROBLEMS

SAMPLES = {
    "iris": "Three kinds of iris by four lengths. 150 rows.",
    "moons": "Two interleaved half moons, not linearly separable. 400 rows.",
    "circle": "Inside or outside of a circle: separable by squares of the features. 400 rows.",
    "tickets": "Messages to the support of a shop, and their topic, one of seven. 480 rows.",
}
RECENT = PageRequest(size=5)
FIXED = (LIBSVM, NPY, NPZ)
"""Formats whose columns are numbers, with nothing to choose."""
SHOWN_CHARACTERS = 40
SHOWN_LEVELS = 6
SHOWN_COLUMNS = 200
"""Columns of a proposal with a choice; all are kept."""
EXAMPLES = 5
MANY_CLASSES = 20
"""With more of them the number of binary problems matters."""
_NUMBERS = ("not-a-number", "non-finite-value")


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

    @routes.get("/samples/{name}.csv")
    def sample_file(name: Annotated[str, InPath()]) -> Response:
        return FileResponse(_sample(name), media_type=CSV)

    @routes.post("/samples/{name}")
    @requires_scope("train")
    async def sample(request: Request, name: Annotated[str, InPath()]) -> Response:
        path = _sample(name)
        context.blobs.check_room()
        with context.blobs.temporary_folder() as folder:
            spec = ParseSpec(
                file=SentFile(str(path), CSV),
                out=str(folder),
                limits=read_limits(context.limits),
            )
            dataset = await _keep(context, folder, Upload(UploadOptions(name=name), spec))
        return go(request, f"/datasets/{dataset.id}")


def _sample(name: str) -> Path:
    if name not in SAMPLES:
        raise NotFound("not-found", f"there is no sample {name}")
    return HERE / "samples" / f"{name}.csv"


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
    target = None if error is not None else upload.options.target
    extra = {} if error is None else error.extra
    warned = {one.code: one for one in ([] if read is None else read.warnings)}
    likely = warned.get("likely-targets")
    classes = (None if read is None else read.classes) or [""]
    numbers = type(classes[0]) is int
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
        likely=extra.get("likely_targets") or (likely.columns or [] if likely else []),
        as_label="category" if "numeric-target" in warned else "number" if numbers else None,
        problems=[] if error is None else column_problems(error, _options(upload)),
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
        request: Request,
        id: DatasetId,
        asked: Asked,
        first: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
    ) -> Response:
        row = context.datasets.get(id)
        read = DatasetRead.of(row)
        columns = read.columns
        shown = None if columns is None else columns[first : first + COLUMNS]
        jobs = context.jobs.page(JobFilter(dataset_id=id), RECENT).items
        trained = JobFilter(dataset_id=id, kind=TRAINING.name, state=State.SUCCEEDED)
        view = view_of(context, row, asked, first, COLUMNS)
        return page(
            request,
            "dataset.html",
            view.error,
            dataset=row,
            view=view,
            tests=TESTS,
            step=STEP,
            left_out=((row.reading or {}).get("unlabeled") or {}).get("count", 0),
            columns=shown,
            values=[values_of(column) for column in shown or ()],
            ignored=read.ignored_columns,
            reading=reading_in_words(read.reading),
            first=first,
            columns_step=COLUMNS,
            bars=context.distributions.of(row, first, COLUMNS) if shown else None,
            jobs=[JobRead.of(job) for job in jobs],
            explainers=context.jobs.page(trained, RECENT).items if asked.row and view.rows else [],
            target_statistics=read.target_statistics,
            times=_times(row),
            trainable=row.n_distinct_labels > 1 and row.target_kind is not None,
        )


@dataclass(frozen=True, slots=True)
class ProposedColumn:
    """One column of the file."""

    name: str
    """As `schema` and `target` call it."""
    use: str
    """A kind, or another role than that of a feature."""
    values: str
    """Levels, a range, or why the column is ignored."""
    missing: int


@dataclass(frozen=True, slots=True)
class ColumnProblem:
    """What is wrong with some cells of a column."""

    column: str
    message: str
    count: int
    examples: list[str]
    hint: str | None
    actions: tuple[str, ...]
    """What can be done about it: some of `missing`, `category`, `text`, `ignored`, `label`,
    `decimal`."""


def proposed_columns(read: DatasetRead, target: str | None, roles: Roles) -> list[ProposedColumn]:
    """The columns: label, those beside the features, features, then ignored ones. `target` and
    `roles`: as the upload gives them."""
    features = read.columns or []
    names = [column.name for column in features if column.name is not None]
    label = read.target
    if len(names) < len(features):
        names, label = _positions(read, target)
    rows = []
    if label is not None:
        rows.append(ProposedColumn(label, "label", _labels(read), 0))
    rows += [
        ProposedColumn(name, role, f"{words} of the rows", 0)
        for role, words in WORDS.items()
        if (name := getattr(read, role)) is not None
    ]
    rows += [
        ProposedColumn(name, column.kind, values_of(column), column.missing)
        for name, column in zip(names, features, strict=True)
    ]
    for one in read.ignored_columns:
        decided = roles.get(one.name, {}).get("role") == "ignored"
        reason = "as you decided" if decided else one.reason
        rows.append(ProposedColumn(one.name, "ignored", reason, 0))
    return rows


def values_of(column: ColumnRead) -> str:
    """The levels, the range or the first texts of a feature."""
    if column.kind == "category":
        return _first(column.levels or [], column.n_levels or 0)
    if column.kind == "boolean":
        return "true, false"
    if column.texts is not None:
        shown = (f"“{_shortened(example)}”" for example in column.texts.examples)
        return f"{', '.join(shown)}; {column.texts.characters_max:,} characters at most"
    if column.min is None or column.max is None:
        return ""
    return _range(column.min, column.max, of_dates=column.kind == "date")


def _range(low: float, high: float, *, of_dates: bool) -> str:
    show = day if of_dates else number
    return f"{show(low)} to {show(high)}"


def _shortened(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"


def _times(dataset: Dataset) -> str | None:
    if dataset.time is None:
        return None
    times = dataset.statistics["time"]
    return _range(times["min"], times["max"], of_dates=dataset.time_is_date)


def column_problems(error: ServiceError, options: Collection[str]) -> list[ColumnProblem]:
    """What is wrong, by column; empty if the error is about something else. `options`: those that
    uploads of the format have."""
    first: dict[tuple[str, str], Fault] = {}
    for fault in error.faults:
        if fault.column is not None:
            first.setdefault((str(fault.column), fault.code), fault)
    counted = error.extra.get("columns") or _count(error.faults)
    if not first:
        return []
    return [_problem(one, first.get((str(one["column"]), one["code"])), options) for one in counted]


def _problem(
    counted: Mapping[str, Any], fault: Fault | None, options: Collection[str]
) -> ColumnProblem:
    code, examples = counted["code"], counted["examples"]
    message = PROBLEMS[code].title if code in PROBLEMS else code
    if fault is not None and code not in _NUMBERS:
        message = without_location(fault.message)
    actions: tuple[str, ...] = ()
    if code in _NUMBERS:
        actions = ("category", "ignored", "label")
        if examples and not any("," in example for example in examples):
            actions = ("missing", *actions)
    elif code in ("too-many-levels", "csv-cell-too-large"):
        actions = ("text", "ignored", "label")
    elif code == "ambiguous-number":
        actions = ("decimal", "category", "ignored")
    needed = {"missing": "missing", "decimal": "decimal", "label": "target"}
    actions = tuple(one for one in actions if needed.get(one, "schema") in options)
    return ColumnProblem(
        column=str(counted["column"]),
        message=message,
        count=counted["count"],
        examples=examples,
        hint=counted["hint"] if not actions else None,
        actions=actions,
    )


def _count(faults: tuple[Fault, ...]) -> list[dict[str, Any]]:
    """The faults summed by column, if the error does not say how many there are."""
    counted: dict[tuple[str, str], dict[str, Any]] = {}
    for fault in faults:
        if fault.column is None:
            continue
        start = {"column": fault.column, "code": fault.code, "hint": fault.hint}
        one = counted.setdefault(
            (str(fault.column), fault.code), {**start, "count": 0, "examples": []}
        )
        one["count"] += 1
        examples = one["examples"]
        if fault.value is not None and fault.value not in examples and len(examples) < EXAMPLES:
            examples.append(fault.value)
    return list(counted.values())


def _positions(read: DatasetRead, target: str | None) -> tuple[list[str], str | None]:
    """Positions of the features, and of the label, in a file without names."""
    taken = {one.name for one in read.ignored_columns} | {*map(partial(getattr, read), WORDS)}
    labeled = read.n_distinct_labels > 0
    n_cells = read.n_features + len(taken - {None}) + labeled
    kept = [str(i) for i in range(n_cells) if str(i) not in taken]
    if not labeled:
        return kept[: read.n_features], None
    label = target if target in kept else kept[-1]
    return [name for name in kept if name != label], label


def _labels(read: DatasetRead) -> str:
    if read.classes is None or read.class_counts is None:
        return f"{read.n_distinct_labels:,} different numbers: regression, a number is predicted"
    counts = zip(read.classes, read.class_counts, strict=True)
    k = len(read.classes)
    shown = _first([f"{label} ({count:,})" for label, count in counts], k)
    if k <= MANY_CLASSES:
        return shown
    return (
        f"{shown}. {k:,} classes: one-vs-rest trains {k:,} instead of {k * (k - 1) // 2:,} problems"
    )


def _first(names: Sequence[str], count: int) -> str:
    """The first of `count` names, and how many more there are."""
    shown = ", ".join(names[:SHOWN_LEVELS])
    more = count - SHOWN_LEVELS
    return f"{shown} and {more:,} more" if more > 0 else shown
