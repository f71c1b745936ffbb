"""The form for a training, made from the schemas of `/v1/jobs` and `/v1/solvers`.

Its first part asks what a person knows, with plain labels and with what the data says about an
answer. As it begins, it sends what the API has by default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import PurePosixPath
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from service.common.figures import number, percent
from service.common.names import NAME, DatasetReference, JobId
from service.dashboard import schema_forms as form
from service.dashboard.page import PageContext, check, last_entries, page, queue
from service.dashboard.schema_forms import Entries, Field, Variants
from service.datasets.dataset import Dataset, ListedDataset
from service.datasets.store import LATEST_DATASET
from service.errors import NotFound, ServiceError
from service.jobs.collection.schemas import JobRead, KindCreate
from service.jobs.core.job import State
from service.jobs.training.routes import describe
from service.jobs.training.schemas import JobCreate, default_scaling
from service.jobs.training.submission import JobPlanRead, Trainings
from service.rows.spec import TargetKind
from service.storage.database.pages import PageRequest
from service.web.access.scopes import requires_scope
from svm.solvers import CHOICES

VERSION = rf"^{NAME.pattern}/[1-9][0-9]{{0,8}}$"
OFFERED = PageRequest(size=200)
"""Datasets to choose from."""
_WHOLE_FORM = {
    "HX-Retarget": "#train",
    "HX-Reselect": "#train",
    "HX-Reswap": "outerHTML show:#plan:top",
}
FRACTION, FOLDS = 0.25, 5
_WORDS: dict[str, tuple[str, dict[str, str]]] = {
    "solver": ("Solver", {"auto": "Automatic"}),
    "scaling": (
        "Scaling",
        {
            "": "Automatic",
            "standardize": "Standardize",
            "max-abs": "Max-abs",
            "min-max": "Min-max",
            "none": "None",
        },
    ),
    "validation": (
        "Check",
        {
            "": "None",
            "validation-split": "Hold out rows",
            "folds": "Folds",
            "validation-dataset": "Other data",
        },
    ),
    "calibration": (
        "Probabilities",
        {"": "None", "sigmoid": "By a sigmoid", "isotonic": "By steps"},
    ),
    "class_weight": (
        "Class weights",
        {
            "": "All alike",
            "balanced": "Weight rare classes up",
            "values-by-name": "Own weights",
        },
    ),
}
"""Labels of the generated fields, and of their options; others keep those of the schema."""
OF_OTHER_TARGETS: Mapping[TargetKind, frozenset[str]] = {
    "classes": frozenset({"target_scale"}),
    "numbers": frozenset(
        {"calibration", "class_weight", "classes", "left_out_groups", "multiclass"}
    ),
}
"""Fields that say nothing about a dataset's target."""
APART = {*_WORDS, "dataset_id", "model_name"}
"""Names of the generated fields that are not among the expert ones."""
OF_SOLVERS = ("effort", "C", "lambda")
"""What is asked of a solver first."""


def add(routes: APIRouter, context: PageContext) -> None:
    """Add it to the dashboard's routes."""

    @routes.get("/train")
    def train(
        request: Request,
        dataset_id: Annotated[DatasetReference, Query()] = LATEST_DATASET,
        like: Annotated[str | None, Query(pattern=VERSION)] = None,
        like_job: JobId | None = None,
    ) -> Response:
        spec: dict[str, Any] | None = None
        if like is not None:
            name, _, version = like.partition("/")
            spec = context.models.get_version(name, int(version)).spec
        elif like_job is not None:
            job = JobRead.of(context.jobs.get(like_job))
            spec = job.spec
            if job.state == State.CANCELED and job.model is not None:  # it continues from there
                kept = job.model.name, job.model.version
                spec = context.models.get_version(*kept).spec
                spec |= {"warm_start_from": "{}/{}".format(*kept)}
        if spec is not None:
            return _form(request, context, entries_like(spec))
        if dataset_id == LATEST_DATASET and not context.datasets.page(PageRequest(size=1)).items:
            return _form(request, context, {})
        return _form(
            request, context, suggestion(context.datasets.find(dataset_id), context.limits.classes)
        )

    @routes.post("/train")
    @requires_scope("train")
    async def start(request: Request) -> Response:
        entries = await last_entries(request)
        try:
            training = await run_sync(_request_of, entries)
            return await queue(request, Trainings(context), training)
        except ServiceError as error:
            return await run_sync(_form, request, context, entries, error)

    @routes.post("/train/check")
    @requires_scope("train")
    async def check(request: Request) -> Response:
        """Shows the cost; to scripts, which send every change, it does not mark the fields."""
        return await run_sync(_form, request, context, await last_entries(request))


def _request_of(entries: Entries) -> JobCreate:
    """Raises InvalidContent."""
    return check(JobCreate, form.body_of(job_fields(), entries))


def _dataset(context: PageContext, entries: Entries) -> Dataset | None:
    try:
        return context.datasets.find(entries.get("dataset_id", LATEST_DATASET))
    except NotFound:
        return None


def _form(
    request: Request, context: PageContext, entries: Entries, error: ServiceError | None = None
) -> Response:
    offered: list[ListedDataset] = list(context.datasets.page(OFFERED).items)
    dataset = _dataset(context, entries)
    if dataset is not None and dataset.id not in {one.id for one in offered}:
        offered.insert(0, dataset)
    cost: JobPlanRead | None = None
    refusal: ServiceError | None = None
    if error is None and dataset is not None:
        try:
            cost = Trainings(context).plan(_request_of(entries))
        except ServiceError as why:
            refusal = why
    if "hx-request" not in request.headers and request.method == "POST":
        error = error or refusal  # without scripts, errors are shown at the fields
    faults = {fault.pointer: fault for fault in error.faults if fault.pointer} if error else {}
    kind = (dataset.target_kind if dataset is not None else None) or "classes"
    apart = {*APART, *OF_OTHER_TARGETS[kind]}
    expert = [field for field in job_fields() if field.name not in apart]

    def opened(fields: Sequence[Field]) -> bool:
        """Whether one of them has an error, or is not as the form begins."""
        marked = (pointer.startswith(field.pointer) for pointer in faults for field in fields)
        return any(marked) or is_unusual(fields, entries)

    response = page(
        request,
        "train.html",
        error,
        dataset=dataset,
        datasets=offered,
        name=next(field for field in job_fields() if field.name == "model_name"),
        questions=() if dataset is None else questions(dataset),
        expert=expert,
        opened=opened,
        of_solvers=OF_SOLVERS,
        entries=entries,
        cost=cost,
        refusal=refusal,
        faults=faults,
        solvers={name: describe(name) for name in CHOICES},
    )
    if error is not None:  # a script replaces the whole form, to show errors at its fields
        response.headers.update(_WHOLE_FORM)
    return response


@cache
def job_fields() -> tuple[Field, ...]:
    """The generated fields. The first call takes 0.1 s."""
    solver, *others = form.fields_of(JobCreate.model_json_schema(), ("solver", "features"))
    assert isinstance(solver, Variants)
    others.sort(key=lambda field: field.name in KindCreate.model_fields)
    return (replace(solver, default="auto"), *others)


def questions(dataset: Dataset) -> tuple[Variants, ...]:
    """The fields with plain labels, and with what speaks for an answer."""
    fields = {field.name: field for field in job_fields()}
    notes = {
        "solver": "Automatic tries straight and curved boundaries and several C, and keeps the "
        "simplest that is as good as the best. What you set below is not searched.",
        "scaling": _scaling_of(dataset),
        "validation": "Measures the model on rows that it was not trained on. Automatic estimates "
        f"that score even without. Each fold is one more training; {FOLDS} folds are usual.",
        "calibration": "They need a check: hundreds of rows for a sigmoid, thousands for steps.",
        "class_weight": _smallest(dataset),
    }
    of_other_targets = OF_OTHER_TARGETS[dataset.target_kind or "classes"]
    return tuple(
        _ask(fields[name], *words, notes[name])
        for name, words in _WORDS.items()
        if name not in of_other_targets
    )


def suggestion(dataset: Dataset, most_classes: int) -> dict[str, str]:
    """Entries that are suggested for the data; more classes than `most_classes` cannot be trained
    in pairs."""
    spec = {"dataset_id": dataset.id, "model_name": name_for(dataset)}
    if dataset.target_kind == "classes" and len(dataset.classes or ()) > most_classes:
        spec["multiclass"] = "one-vs-rest"
    return entries_like(spec)


def entries_like(spec: Mapping[str, Any]) -> dict[str, str]:
    """Entries that give the settings of a training again, with numbers to begin with in the checks
    that it does not have."""
    entries = form.entries_of(job_fields(), spec)
    for name, usual in (("validation-split.fraction", FRACTION), ("folds.folds", FOLDS)):
        entries[f"validation:{name}"] = entries[f"validation:{name}"] or str(usual)
    return entries


def is_unusual(some: Sequence[Field], entries: Entries) -> bool:
    """Whether a field is not as the form begins; every training has a seed."""
    fields = [field for field in some if field.name != "seed"]
    return form.body_of(fields, entries) != form.body_of(fields, form.entries_of(fields, {}))


def _ask(field: Field, label: str, words: Mapping[str, str], note: str) -> Variants:
    """The field as buttons, those of `words` first."""
    if isinstance(field, form.Choice):
        values = ("",) * ("" in words) + field.options
        options = {value: form.Variant(value=value, label=value) for value in values}
    else:
        assert isinstance(field, Variants)
        options = {option.value: option for option in field.options}
    ordered = [value for value in dict.fromkeys((*words, *options)) if value in options]
    return Variants(
        name=field.name,
        pointer=field.pointer,
        label=label,
        help=note,
        options=tuple(
            replace(options[value], label=words.get(value, options[value].label))
            for value in ordered
        ),
        default=field.default,
    )


def _scaling_of(dataset: Dataset) -> str:
    """What is automatic, with the reason."""
    chosen = default_scaling(dataset)
    if chosen == "none":
        return "None here: columns of sparse data have nearly the same range."
    if chosen == "max-abs":
        return "Max-abs here: columns have different ranges, and zeros of sparse data stay zeros."
    deviations = [value for value in (dataset.of_columns or {}).get("std", ()) if value]
    if not deviations:
        return "Standardize here: each column then has the same influence."
    ratio = number(max(deviations) / min(deviations))
    return f"Standardize here: one column varies {ratio} times as much as another."


def _smallest(dataset: Dataset) -> str:
    counts = dataset.class_counts
    if not counts:
        return ""
    return f"The smallest class has {percent(min(counts) / sum(counts))} of the rows."


def name_for(dataset: Dataset) -> str:
    """A name for a model of the data."""
    stem = PurePosixPath(dataset.name or "").stem.lower()
    name = re.sub(r"[^a-z0-9]+", "-", stem).strip("-").lstrip("0123456789-")[:63].rstrip("-")
    return name if NAME.fullmatch(name) else "model"
