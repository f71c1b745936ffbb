"""The form for a training, made from the schemas of `/v1/jobs` and `/v1/solvers`.

Its first part asks what a person knows, with suggestions from the data. These inputs are those of
the generated form, with plain labels. Two are its own: the boundary, of which the solver is one
answer, and the weight of the errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import PurePosixPath
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from service.common.names import NAME, DatasetReference, JobId
from service.dashboard import schema_forms as form
from service.dashboard.formatting import counted, number, percent
from service.dashboard.page import PageContext, check, last_entries, page, queue
from service.dashboard.schema_forms import Entries, Field, Variants
from service.datasets.dataset import Dataset
from service.datasets.store import LATEST_DATASET
from service.errors import InvalidContent, NotFound, ServiceError
from service.jobs.collection.schemas import KindCreate
from service.jobs.comparisons.schemas import ComparisonCreate
from service.jobs.comparisons.submission import Comparisons
from service.jobs.training.routes import describe
from service.jobs.training.schemas import JobCreate, default_scaling
from service.jobs.training.submission import JobPlanRead, Trainings
from service.rows.spec import TargetKind
from service.storage.database.pages import PageRequest
from service.web.access.scopes import requires_scope
from svm.data.splitting import held_out_rows
from svm.model.multiclass import splits_of
from svm.solvers import CHOICES
from svm.solvers.protocol import ChoosesSolver

VERSION = rf"^{NAME.pattern}/[1-9][0-9]{{0,8}}$"
OFFERED = PageRequest(size=200)
"""Datasets to choose from."""
_WHOLE_FORM = {
    "HX-Retarget": "#train",
    "HX-Reselect": "#train",
    "HX-Reswap": "outerHTML show:#plan:top",
}
FRACTION, FOLDS = 0.25, 5
CURVED_ROWS = (200, 5_000)
"""With fewer rows a straight boundary is suggested because it has less to learn; with more, because
the time of a kernel grows with the square of the rows."""
ROWS_A_COLUMN = 10
"""With fewer a curved boundary was the worse one, with more as good or better: on the samples, and
on iris, wine, cancer, digits and diabetes of scikit-learn."""
FACTORS = (0.01, 0.1, 1, 10, 100)
"""The values of C to try are these times the one given."""
C = form.Text(
    name="C", pointer="/solver/C", label="C", numeric=True, bounds="number > 0", default="1"
)
LAMBDA = form.Text(
    name="lambda", pointer="/solver/lambda", label="λ", numeric=True, bounds="number > 0"
)
SWEEP = form.Switch(name="sweep", pointer="/grid", label="Try five values of C")
STRENGTH = Variants(
    name="strength",
    pointer="",
    label="Errors",
    help="C: fewer errors ← 100 · 10 · 1 · 0.1 → wider margin. λ is 1/(n C).",
    options=(
        form.Variant(
            value=C.name,
            label="By C",
            content=form.Group(name="", pointer="", label="", fields=(C, SWEEP), fixed={}),
        ),
        form.Variant(value=LAMBDA.name, label="By λ", content=LAMBDA),
    ),
    default=C.name,
)
"""The weight of the errors, which all solvers have."""
_SOLVER: dict[str, dict[str, Any]] = {
    "straight": {"name": "auto"},
    "curved": {"name": "auto", "kernel": {"name": "gaussian"}},
}
_WORDS = {
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
            "validation-split": "Hold out rows",
            "folds": "Folds",
            "validation-dataset": "Other data",
            "": "None",
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
APART = {"boundary", *_WORDS, "dataset_id", "model_name"}
"""Names of the generated fields that are not among the expert ones."""


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
            spec = context.jobs.get(like_job).spec
        if spec is not None:
            return _form(request, context, entries_like(spec))
        if dataset_id == LATEST_DATASET and not context.datasets.page(PageRequest(size=1)).items:
            return _form(request, context, {})
        return _form(request, context, suggestion(context.datasets.find(dataset_id)))

    @routes.post("/train")
    @requires_scope("train")
    async def start(request: Request) -> Response:
        entries = await last_entries(request)
        try:
            training, comparison = await run_sync(_requests, context, entries)
            if comparison is not None:
                return await queue(request, Comparisons(context), comparison)
            return await queue(request, Trainings(context), training)
        except ServiceError as error:
            return await run_sync(_form, request, context, entries, error)

    @routes.post("/train/check")
    @requires_scope("train")
    async def check(request: Request) -> Response:
        """Shows the cost; to scripts, which send every change, it does not mark the fields."""
        return await run_sync(_form, request, context, await last_entries(request))


def _requests(context: PageContext, entries: Entries) -> tuple[JobCreate, ComparisonCreate | None]:
    """The training, and the comparison if several values of C are to be tried. Raises
    InvalidRequest, InvalidContent."""
    body = body_from(entries, _dataset(context, entries))
    try:
        training = check(JobCreate, body)
    except InvalidContent as error:
        raise in_words(error) from None
    if not is_sweep(entries):
        return training, None
    return training, check(ComparisonCreate, sweep_of(body))


@dataclass(frozen=True, slots=True)
class Cost:
    """What would be queued, and what it would cost."""

    plan: JobPlanRead
    trainings: int
    seconds: float | None


def _cost(context: PageContext, entries: Entries) -> Cost:
    """Raises as the submission does."""
    training, comparison = _requests(context, entries)
    plan = Trainings(context).plan(training)
    trainings = plan.trainings
    if comparison is not None:
        trainings = Comparisons(context).plan(comparison).trainings
    each = _about_seconds(training, plan, context.datasets.find(training.dataset_id))
    return Cost(plan, trainings, None if each is None else trainings * each)


def _about_seconds(body: JobCreate, plan: JobPlanRead, dataset: Dataset) -> float | None:
    """The order of magnitude for one training by `auto`; None for other solvers.

    The constants fit 100 to 100,000 rows with up to 300 columns on one core. With a kernel, C
    matters: it decides how many rows become support vectors.
    """
    if not isinstance(body.solver, ChoosesSolver):
        return None
    share = 1.0
    n_classes = len(body.classes or dataset.classes or (0, 0))
    if plan.binary_problems == len(splits_of("one-vs-one", n_classes)):
        share = 2 / n_classes
    if body.solver.kernel is None:
        each = 5e-8 * share * dataset.size_bytes / 8
    else:
        each = 2e-8 * (share * plan.n_samples) ** 2 * max(1.0, body.solver.C or 1.0) ** 0.5
    return plan.binary_problems * (0.01 + each)


def _dataset(context: PageContext, entries: Entries) -> Dataset | None:
    try:
        return context.datasets.find(entries.get("dataset_id", LATEST_DATASET))
    except NotFound:
        return None


def _form(
    request: Request, context: PageContext, entries: Entries, error: ServiceError | None = None
) -> Response:
    offered = list(context.datasets.page(OFFERED).items)
    dataset = _dataset(context, entries)
    if dataset is not None and dataset.id not in {one.id for one in offered}:
        offered.insert(0, dataset)
    cost: Cost | None = None
    refusal: ServiceError | None = None
    if error is None and dataset is not None:
        try:
            cost = _cost(context, entries)
        except ServiceError as why:
            refusal = why
    if "hx-request" not in request.headers and request.method == "POST":
        error = error or refusal  # without scripts, errors are shown at the fields
    faults = {fault.pointer: fault for fault in error.faults if fault.pointer} if error else {}
    kind = (dataset.target_kind if dataset is not None else None) or "classes"
    apart = {*APART, *OF_OTHER_TARGETS[kind]}
    expert = [field for field in job_fields() if field.name not in apart]
    marked = [
        pointer for pointer in faults for field in expert if pointer.startswith(field.pointer)
    ]
    response = page(
        request,
        "train.html",
        error,
        dataset=dataset,
        datasets=offered,
        name=next(field for field in job_fields() if field.name == "model_name"),
        questions=() if dataset is None else questions(dataset),
        expert=expert,
        opened=bool(marked) or is_expert(expert, entries),
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
    """The generated fields, the solver as part of the boundary. The first call takes 0.1 s."""
    solver, *others = form.fields_of(JobCreate.model_json_schema(), ("solver", "features"))
    assert isinstance(solver, Variants)
    others.sort(key=lambda field: field.name in KindCreate.model_fields)
    return (_boundary(solver), *others)


def _boundary(solver: Variants) -> Variants:
    """The shape of the boundary, from which a solver follows; or a solver by its name, without C
    and λ, which are asked once for all."""
    options = []
    for option in solver.options:
        assert isinstance(option.content, form.Group)
        own = tuple(one for one in option.content.fields if one.key not in (C.name, LAMBDA.name))
        options.append(replace(option, content=replace(option.content, fields=own)))
    by_name = replace(solver, options=tuple(options), default="auto")
    return Variants(
        name="boundary",
        pointer=solver.pointer,
        label="Boundary",
        options=(
            form.Variant(value="automatic", label="Automatic"),
            form.Variant(value="straight", label="Straight (linear)", constant=_SOLVER["straight"]),
            form.Variant(value="curved", label="Curved (Gaussian)", constant=_SOLVER["curved"]),
            form.Variant(value="solver", label="Choose a solver", content=by_name),
        ),
        default="automatic",
    )


def questions(dataset: Dataset) -> tuple[Variants, ...]:
    """The fields with plain labels, and with what speaks for an answer."""
    fields = {field.name: field for field in job_fields()}
    notes = {
        "scaling": _scaling_of(dataset),
        "validation": f"Folds take one more training each; {FOLDS} are usual.",
        "calibration": "They need a check: hundreds of rows for a sigmoid, thousands for steps.",
        "class_weight": _smallest(dataset),
    }
    boundary = fields["boundary"]
    assert isinstance(boundary, Variants)
    of_other_targets = OF_OTHER_TARGETS[dataset.target_kind or "classes"]
    asked = [
        _ask(fields[name], *words, notes[name])
        for name, words in _WORDS.items()
        if name not in of_other_targets
    ]
    return (replace(boundary, help=_suggested_boundary(dataset)[1]), STRENGTH, *asked)


def suggestion(dataset: Dataset) -> dict[str, str]:
    """Entries that are suggested for the data."""
    counts = dataset.class_counts or (dataset.n_samples,) * (dataset.target_kind == "numbers")
    fits = any(held_out_rows(count, FRACTION) for count in counts)
    suggested = {
        "dataset_id": dataset.id,
        "model_name": _name_for(dataset),
        "validation": {"fraction": FRACTION} if fits else None,
    }
    return {**_with_numbers(form.entries_of(job_fields(), suggested)), C.name: C.default}


def entries_like(spec: Mapping[str, Any]) -> dict[str, str]:
    """Entries that give the settings of a training again."""
    solver = dict(spec.get("solver", {}))  # an imported version has none
    strengths = {name: solver.pop(name, None) for name in (C.name, LAMBDA.name)}
    boundary = job_fields()[0]
    assert isinstance(boundary, Variants)
    by_name = [one.content for one in boundary.options if one.content is not None]
    written = form.entries_of(by_name, {"solver": solver})  # with all defaults
    usual = (
        one for one in _SOLVER.values() if form.entries_of(by_name, {"solver": one}) == written
    )
    entries = form.entries_of(job_fields(), {**spec, "solver": next(usual, solver)})
    strength = C.name if strengths[LAMBDA.name] is None else LAMBDA.name
    weight = form.text_of(strengths[strength] or C.default)
    return {**_with_numbers(entries), C.name: C.default, STRENGTH.name: strength, strength: weight}


def body_from(entries: Entries, dataset: Dataset | None) -> dict[str, Any]:
    """The request for a training; its dataset decides what is automatic."""
    body = form.body_of(job_fields(), entries)
    if "solver" not in body:
        shape = "straight" if dataset is None else _suggested_boundary(dataset)[0]
        body["solver"] = _SOLVER[shape]
    strength = _strength(entries)
    if strength in entries:
        body["solver"] = {**body["solver"], strength: form.number_in(entries[strength].strip())}
    return body


def in_words(error: ServiceError) -> ServiceError:
    """The error, with what it says of C and λ in the words of the form."""
    faults, detail = [], error.detail
    for fault in error.faults:
        label = {C.pointer: C.label, LAMBDA.pointer: LAMBDA.label}.get(fault.pointer or "")
        if label is not None:
            message = f"{label} is {fault.value}; give a positive number, such as 1"
            detail = detail.replace(f"{fault.pointer}: {fault.message}", message)
            fault = replace(fault, message=message, hint=None)
        faults.append(fault)
    return type(error)(error.code, detail, tuple(faults), error.faults_total, error.extra)


def is_sweep(entries: Entries) -> bool:
    """Whether five values of C are to be tried."""
    return _strength(entries) == C.name and SWEEP.name in entries


def _strength(entries: Entries) -> str:
    by_lambda = entries.get(STRENGTH.name, STRENGTH.default) == LAMBDA.name
    return LAMBDA.name if by_lambda else C.name


def sweep_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """The request for a comparison of five values of C, from a valid one for a training.

    Raises InvalidContent for settings that comparisons do not have.
    """
    solver = dict(body["solver"])
    middle = solver.pop("C", 1)
    grid = {"solver": [solver], "C": [float(f"{factor * middle:.12g}") for factor in FACTORS]}
    without = body.keys() - ComparisonCreate.model_fields.keys() - {"solver"}
    for name in without:
        if body[name] != JobCreate.model_fields[name].default:
            raise _without(f"/{name}", name)
    if "validation" not in body:
        raise InvalidContent.at("/validation", "invalid-field", "a check has to rank the values")
    kept = body.keys() - without - {"solver"}
    return {name: body[name] for name in kept} | {"grid": grid}


def is_expert(expert: Sequence[Field], entries: Entries) -> bool:
    """Whether an expert field is not as the form begins; every training has a seed."""
    fields = [field for field in expert if field.name != "seed"]
    return form.body_of(fields, entries) != form.body_of(fields, form.entries_of(fields, {}))


def _ask(field: Field, label: str, words: Mapping[str, str], note: str) -> Variants:
    """The field as buttons, those of `words` first."""
    if isinstance(field, form.Choice):
        values = ("",) * ("" in words) + field.options
        options = {value: form.Variant(value=value, label=value) for value in values}
    else:
        assert isinstance(field, Variants)
        options = {option.value: replace(option, help="") for option in field.options}
    ordered = [value for value in (*words, *(options.keys() - words)) if value in options]
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


def _suggested_boundary(dataset: Dataset) -> tuple[str, str]:
    """With the reason."""
    n, d = dataset.n_samples, dataset.n_features
    size = f"{counted(d, 'column')}, {counted(n, 'row')}"
    if dataset.sparse:
        return "straight", f"Straight here: {size}, most of them 0."
    if dataset.text_columns:
        return "straight", "Straight here: texts have thousands of different words."
    if n < ROWS_A_COLUMN * d or not CURVED_ROWS[0] <= n <= CURVED_ROWS[1]:
        return "straight", f"Straight here: {size}."
    return "curved", f"Curved here: {size}."


def _scaling_of(dataset: Dataset) -> str:
    """What is automatic, with the reason."""
    chosen = default_scaling(dataset)
    if chosen == "none":
        return "None here: the columns of sparse data count nearly alike."
    if chosen == "max-abs":
        return "Max-abs here: the columns differ, and it keeps the zeros of sparse data."
    deviations = [value for value in (dataset.of_columns or {}).get("std", ()) if value]
    if not deviations:
        return "Standardize here: columns then count alike."
    return f"Standardize here: the columns differ 1 : {number(max(deviations) / min(deviations))}."


def _smallest(dataset: Dataset) -> str:
    counts = dataset.class_counts
    if not counts:
        return ""
    return f"The smallest class has {percent(min(counts) / sum(counts))} of the rows."


def _name_for(dataset: Dataset) -> str:
    stem = PurePosixPath(dataset.name or "").stem.lower()
    name = re.sub(r"[^a-z0-9]+", "-", stem).strip("-").lstrip("0123456789-")[:63].rstrip("-")
    return name if NAME.fullmatch(name) else "model"


def _with_numbers(entries: dict[str, str]) -> dict[str, str]:
    """With numbers to begin with in the choices that are not taken yet."""
    for name, usual in (("validation-split.fraction", FRACTION), ("folds.folds", FOLDS)):
        entries[f"validation:{name}"] = entries[f"validation:{name}"] or str(usual)
    return entries


def _without(pointer: str, name: str) -> InvalidContent:
    message = f"five values of C cannot be tried with `{name}`; leave one of the two out"
    return InvalidContent.at(pointer, "invalid-field", message)
