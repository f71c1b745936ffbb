"""The pages of a version of a model: its use, quality and details; its plots; its card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from anyio.to_thread import run_sync
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from service.common.names import NAME, AliasName, ModelName
from service.dashboard.page import PageContext, back, check, go, last_entries, page, queue
from service.dashboard.row_inputs import MAX_INPUTS, inputs_of, line_of
from service.dashboard.snippets import snippets
from service.dashboard.why import Bars, InWords, MarkedText
from service.datasets.dataset import Dataset, ListedDataset
from service.errors import Corrupt, InvalidRequest, NotFound, ServiceError
from service.jobs.collection.schemas import JobRead
from service.jobs.core.job import Job, State
from service.jobs.core.model_columns import check_columns
from service.jobs.core.store import JobFilter
from service.jobs.evaluations.routes import Evaluations, holds_out
from service.jobs.evaluations.schemas import EvaluationCreate
from service.jobs.kinds import EVALUATION
from service.models.card import SECTIONS, card_of, training_data
from service.models.exports import formats
from service.models.plots import ONLY_OF, PlotKind, file_name
from service.models.routes import Version
from service.models.schemas import MAX_VERSION, ModelVersionRead
from service.models.versions import LATEST
from service.predictions.files import PredictedFile
from service.predictions.loaded_models import LoadedModel
from service.predictions.weights import weights_of
from service.storage.database.pages import PageRequest
from service.storage.database.tables import ModelVersion
from service.web.access.scopes import requires_scope

VERSIONS = PageRequest(size=20)
OFFERED = PageRequest(size=200)
EVALUATIONS = PageRequest(size=5)
SHOWN: dict[PlotKind, str] = {
    "predicted-against-actual": "Predicted numbers against the actual ones",
    "residuals": "Errors against the predicted numbers",
    "boundary": "Areas of the predicted classes, with the data and the margins",
    "learning-curve": "Cost, bound and gap over the epochs",
    "roc": "ROC curves",
    "margins": "Distribution of the rows' margins",
    "reliability": "Predicted probabilities against observed frequencies",
    "none-of-these": "Share of known classes that a threshold withholds",
}
"""All but the confusion matrix, which the model's page shows as a table, and costs, which the job's
page draws and links."""


@dataclass(frozen=True, slots=True)
class Plot:
    kind: PlotKind
    about: str
    reason: str | None
    """Why the plot is not available."""


def add(routes: APIRouter, context: PageContext) -> None:
    """Add them to the dashboard's routes."""
    _add_read(routes, context)
    _add_plots_and_card(routes, context)
    _add_evaluate(routes, context)
    _add_change(routes, context)


def _add_read(routes: APIRouter, context: PageContext) -> None:
    @routes.get("/models/{name}")
    async def model(request: Request, name: ModelName) -> Response:
        version = await run_sync(context.models.get_version, name)
        return await show_version(request, context, version)

    @routes.get("/models/{name}/versions/{version}")
    async def version(request: Request, name: ModelName, version: Version) -> Response:
        row = await run_sync(context.models.get_version, name, version)
        return await show_version(request, context, row)


def _add_plots_and_card(routes: APIRouter, context: PageContext) -> None:
    @routes.get("/models/{name}/versions/{version}/plots")
    async def plots(request: Request, name: ModelName, version: Version) -> Response:
        model_version = await run_sync(context.models.get_version, name, version)
        shown = []
        for kind, about in SHOWN.items():
            if ONLY_OF.get(kind, model_version.predicts) != model_version.predicts:
                continue
            reason = None
            try:
                _, content = await context.renderer.open(model_version, file_name(kind))
                content.close()
            except ServiceError as error:
                reason = error.detail
            shown.append(Plot(kind, about, reason))
        return page(request, "plots.html", name=name, version=version, plots=shown)

    @routes.get("/models/{name}/versions/{version}/card")
    def card(request: Request, name: ModelName, version: Version) -> Response:
        model_version = context.models.get_version(name, version)
        content = card_of(model_version, training_data(context.datasets, model_version))
        sections = {title: getattr(content, member) for member, title in SECTIONS.items()}
        return page(
            request,
            "card.html",
            name=name,
            version=version,
            summary=content.summary,
            sections=sections,
        )


def _add_evaluate(routes: APIRouter, context: PageContext) -> None:
    @routes.post("/models/{name}/versions/{version}/evaluate")
    @requires_scope("train")
    async def evaluate(request: Request, name: ModelName, version: Version) -> Response:
        """Of the version, and of `other` on the same data."""
        entries = await last_entries(request)
        values = {
            "dataset_id": entries.get("dataset_id", ""),
            "importance": entries.get("importance") == "true",
            "validation_only": entries.get("validation_only") == "true",
        }
        models = [f"{name}/{version}", *filter(None, [entries.get("other")])]
        bodies = [check(EvaluationCreate, values | {"model": one}) for one in models]
        replies = [await queue(request, Evaluations(context), body) for body in bodies]
        return (
            replies[0] if len(replies) == 1 else go(request, f"/compare?models={','.join(models)}")
        )


def _labels_fit(dataset: ListedDataset, version: ModelVersion) -> bool:
    same = dataset.target_kind == version.predicts and dataset.n_features >= version.n_features
    return same and set(dataset.classes or ()) <= set(version.classes)


def fitting(context: PageContext, *versions: ModelVersion) -> list[ListedDataset]:
    """Of the newest datasets those that all of the versions can be evaluated on, those that the
    fewest were trained on first."""
    newest = context.datasets.page(OFFERED).items
    fit = [one for one in newest if all(_labels_fit(one, version) for version in versions)]
    for id, columns in context.datasets.descriptions(one.id for one in fit).items():
        try:
            for version in versions:
                check_columns(columns, version)
        except ServiceError:
            fit = [one for one in fit if one.id != id]
    return sorted(fit, key=lambda one: sum(one.id == each.dataset_id for each in versions))


def _add_change(routes: APIRouter, context: PageContext) -> None:
    @routes.post("/models/{name}/aliases")
    @requires_scope("train")
    async def set_alias(request: Request, name: ModelName) -> Response:
        entries = await last_entries(request)
        alias, version = _alias(entries.get("alias", "")), _number(entries)
        await run_sync(context.models.set_alias, name, alias, version)
        return go(request, f"/models/{name}/versions/{version}")

    @routes.post("/models/{name}/aliases/{alias}/remove")
    @requires_scope("train")
    async def remove_alias(request: Request, name: ModelName, alias: AliasName) -> Response:
        version = _number(await last_entries(request))
        await run_sync(context.models.remove_alias, name, alias)
        return back(f"/models/{name}/versions/{version}")


@dataclass(frozen=True, slots=True)
class RowOfData:
    """The row of a dataset that was filled in."""

    dataset: Dataset
    number: int
    label: Any
    """None if it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What was predicted on the page, and why."""

    entries: Mapping[str, str] | None = None
    answer: Mapping[str, Any] | None = None
    error: ServiceError | None = None
    origin: RowOfData | None = None
    why: Sequence[Bars] = ()
    marked: Sequence[MarkedText] = ()
    changes: Sequence[InWords] = ()
    notes: Sequence[str] = ()
    searched: int = 0
    file: PredictedFile | None = None
    file_error: ServiceError | None = None


NOTHING = Use()


async def show_version(
    request: Request, context: PageContext, version: ModelVersion, use: Use = NOTHING
) -> Response:
    """The page of a version."""
    loaded = await _load(context, version)
    weights = None if loaded is None else weights_of(loaded)

    def show() -> Response:
        name, error = version.model_name, use.error
        dataset = training_data(context.datasets, version)
        inputs = [] if loaded is None else inputs_of(loaded, dataset)
        offered = fitting(context, version)
        measured = _measured_on(version, offered)
        job_filter = JobFilter(kind=EVALUATION.name, model_name=name)
        evaluations = context.jobs.page(job_filter, EVALUATIONS).items
        faults = {fault.column: fault for fault in error.faults} if error else {}
        return page(
            request,
            "model.html",
            error or use.file_error,
            model=context.models.get(name),
            version=ModelVersionRead.of(version),
            versions=context.models.versions(name, VERSIONS),
            dataset=dataset,
            job_exists=_exists(context, version.job_id),
            datasets=offered,
            evaluations=list(map(JobRead.of, evaluations)),
            measured=measured,
            measured_by=_of_version(evaluations, version, measured),
            dataset_names=context.datasets.names([job.dataset_id for job in evaluations]),
            weights=weights,
            calibrated=loaded is not None and loaded.fitted.calibration is not None,
            damaged=loaded is None,
            formats=[
                form for form in formats() if not (form == "onnx" and "text" in version.kinds)
            ],
            inputs=inputs,
            faults=[faults.get(one.label, faults.get(i)) for i, one in enumerate(inputs)],
            by_field=version.n_features <= MAX_INPUTS,
            example_line=line_of([one.text for one in inputs]).rstrip(),
            use=use,
            limits=context.limits,
            snippets=snippets(
                str(request.base_url).rstrip("/"),
                *(name, version.version, inputs),
                named=version.columns is not None,
                plain=loaded is not None and loaded.fitted.encoder.is_plain,
            ),
        )

    return await run_sync(show)


def _measured_on(version: ModelVersion, offered: Sequence[ListedDataset]) -> dict[str, Any] | None:
    """What an evaluation asks that shows the rows which the version was measured on, or else those
    that it was trained on; None if they are not among what is offered."""
    validation = version.spec.get("validation") or {}
    dataset_id = validation.get("dataset_id", version.dataset_id)
    if all(one.id != dataset_id for one in offered):
        return None
    return {"dataset_id": dataset_id, "validation_only": holds_out(version)}


def _of_version(
    evaluations: Sequence[Job], version: ModelVersion, asked: Mapping[str, Any] | None
) -> str | None:
    """The latest evaluation of the version that was asked this and has ended well."""
    wanted = {**(asked or {}), "model": {"name": version.model_name, "version": version.version}}
    ended = [job for job in evaluations if asked and job.state == State.SUCCEEDED]
    same = (
        job.id for job in ended if wanted == {name: job.spec.get(name, False) for name in wanted}
    )
    return next(same, None)


async def _load(context: PageContext, version: ModelVersion) -> LoadedModel | None:
    """None if its file is damaged."""
    try:
        return await context.loaded_models.get(version.model_name, version.version)
    except Corrupt:
        return None


def _exists(context: PageContext, job_id: str | None) -> bool:
    with suppress(NotFound):
        if job_id is not None:
            context.jobs.get(job_id)
            return True
    return False


def _alias(name: str) -> str:
    if NAME.fullmatch(name) is None or name == LATEST:
        raise InvalidRequest(
            "invalid-name",
            "an alias is 1 to 63 lower-case letters, digits and hyphens, begins with a letter and "
            "does not end with a hyphen; `latest` is always the highest version",
        )
    return name


def _number(entries: Mapping[str, str]) -> int:
    version = entries.get("version", "")
    if not (version.isascii() and version.isdecimal() and 0 < int(version) <= MAX_VERSION):
        raise InvalidRequest("invalid-parameter", "give the number of a version")
    return int(version)
