"""The pages of a version of a model: certificate, weights, aliases, predictions; its
plots; its card. The form for a row to predict has the columns of the model."""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from anyio.to_thread import run_sync
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from service.common.names import NAME, AliasName, ModelName
from service.dashboard.formatting import day
from service.dashboard.page import PageContext, back, check, go, last_entries, page, queue
from service.datasets.dataset import Dataset
from service.errors import Corrupt, InvalidRequest, NotFound, ServiceError
from service.jobs.core.store import JobFilter
from service.jobs.evaluations.routes import Evaluations
from service.jobs.evaluations.schemas import EvaluationCreate
from service.jobs.kinds import EVALUATION
from service.models.card import SECTIONS, card_of, training_data
from service.models.exports import formats
from service.models.outputs import USUAL, arrays_of
from service.models.plots import ONLY_OF, PlotKind, file_name
from service.models.routes import Version
from service.models.schemas import MAX_VERSION, ModelVersionRead
from service.models.versions import LATEST
from service.predictions.explanations import check_explainable
from service.predictions.loaded_models import LoadedModel
from service.predictions.predictor import Target
from service.predictions.schemas import PredictionQuery
from service.storage.database.pages import PageRequest
from service.storage.database.tables import ModelVersion
from service.web.access.scopes import requires_scope
from svm.data.columns import Column, Kind
from svm.data.matrices import Indices
from svm.encoding.encoder import PlainEncoder
from svm.model.multiclass import splits_of

ROUTE = "/models/{name}/versions/{version}/predict"
VERSIONS = PageRequest(size=20)
OFFERED = PageRequest(size=200)
EVALUATIONS = PageRequest(size=5)
CSV_BODY = [(b"content-type", b"text/csv; header=absent"), (b"accept", b"application/json")]
MAX_FEATURES = 20
MAX_PROBLEMS = 10
"""Weights that are shown: features, and binary problems."""
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
MAX_INPUTS = 24
"""With more columns a row is entered as a line, not with an input for each."""
MAX_OPTIONS = 200
"""A category with more levels has an input for its text."""
MAX_WORDS = 5
"""Of a text, that are listed as those that add or take most."""
MAX_COUNT = 20
"""Numbers between whole ones that are as near to each other are mostly whole."""
_Statistics: TypeAlias = tuple[float | None, float | None, float | None]


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
    _add_predict(routes, context)
    _add_evaluate(routes, context)
    _add_change(routes, context)


def _add_read(routes: APIRouter, context: PageContext) -> None:
    @routes.get("/models/{name}")
    async def model(request: Request, name: ModelName) -> Response:
        version = await run_sync(context.models.get_version, name)
        return await _show(request, context, version)

    @routes.get("/models/{name}/versions/{version}")
    async def version(request: Request, name: ModelName, version: Version) -> Response:
        row = await run_sync(context.models.get_version, name, version)
        return await _show(request, context, row)


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


def _add_predict(routes: APIRouter, context: PageContext) -> None:
    @routes.post(ROUTE)
    @requires_scope("predict")
    async def predict(request: Request, name: ModelName, version: Version) -> Response:
        sent = await last_entries(request)
        entries = {name: text.replace("\r\n", "\n") for name, text in sent.items()}
        row = await run_sync(context.models.get_version, name, version)
        try:
            answer = await _predict(context, row, entries)
        except ServiceError as error:
            return await _show(request, context, row, entries, error=error)
        return await _show(request, context, row, entries, answer)


def _add_evaluate(routes: APIRouter, context: PageContext) -> None:
    @routes.post("/models/{name}/versions/{version}/evaluate")
    @requires_scope("train")
    async def evaluate(request: Request, name: ModelName, version: Version) -> Response:
        entries = await last_entries(request)
        values = {
            "model": f"{name}/{version}",
            "dataset_id": entries.get("dataset_id", ""),
            "importance": entries.get("importance") == "true",
        }
        return await queue(request, Evaluations(context), check(EvaluationCreate, values))


def _fits(dataset: Dataset, version: ModelVersion) -> bool:
    """Whether the version can be evaluated on the dataset."""
    if version.classes:
        known = set(dataset.classes or ()) <= set(version.classes)
    else:
        known = dataset.target_kind == "numbers"
    return known and dataset.n_features == version.n_features


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

    @routes.post("/models/{name}/versions/{version}/delete")
    async def delete(request: Request, name: ModelName, version: Version) -> Response:
        await run_sync(context.models.delete_version, name, version)
        return go(request, "/models")


async def _show(
    request: Request,
    context: PageContext,
    version: ModelVersion,
    entries: Mapping[str, str] | None = None,
    answer: Mapping[str, Any] | None = None,
    error: ServiceError | None = None,
) -> Response:
    loaded = await _load(context, version)
    weights = None if loaded is None else weights_of(loaded)

    def show() -> Response:
        name = version.model_name
        dataset = training_data(context.datasets, version)
        inputs = [] if loaded is None else inputs_of(loaded, dataset)
        labeled = [one for one in context.datasets.page(OFFERED).items if one.target_kind]
        job_filter = JobFilter(kind=EVALUATION.name, model_name=name)
        evaluations = context.jobs.page(job_filter, EVALUATIONS).items
        faults = {fault.column: fault for fault in error.faults} if error else {}
        return page(
            request,
            "model.html",
            error,
            model=context.models.get(name),
            version=ModelVersionRead.of(version),
            versions=context.models.versions(name, VERSIONS),
            dataset=dataset,
            job_exists=_exists(context, version.job_id),
            datasets=[one for one in labeled if _fits(one, version)],
            evaluations=evaluations,
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
            entries=entries,
            answer=answer,
            marked=[] if answer is None else marked_texts(answer, inputs, entries or {}),
            url=str(request.base_url).rstrip("/"),
            example_json=json.dumps([one.example for one in inputs]),
            example_python=[one.example for one in inputs],
        )

    return await run_sync(show)


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


async def _predict(
    context: PageContext, version: ModelVersion, entries: Mapping[str, str]
) -> Mapping[str, Any]:
    """The prediction for the entries: an input for each feature, or lines."""
    loaded = await context.loaded_models.get(version.model_name, version.version)
    outputs, fitted = arrays_of(loaded.offer), loaded.fitted
    if fitted.conformal is not None and not fitted.conformal.allows(USUAL.coverage):
        outputs.remove("interval")
    if fitted.rejection is not None and not fitted.rejection.allows(USUAL.withheld):
        outputs.remove("label_or_none")
    by_field = "rows" not in entries
    if by_field:
        rows = row_of(entries, version.n_features)
        if fitted.encoder.texts:  # any text may be a name
            rows = line_of([column.name for column in fitted.columns]) + rows
        with suppress(ServiceError):
            check_explainable(loaded)
            outputs.append("explanation")
    else:
        rows = entries["rows"]
    target = Target(version.model_name, version.version, ROUTE)
    query = PredictionQuery(outputs=",".join(outputs))
    call = context.predictor.call_of(target, CSV_BODY, query)
    reply = await context.predictor.answer(call, rows.encode())
    answer: dict[str, Any] = json.loads(reply.body)
    return answer


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A text that was predicted, cut into its words and what is between them."""

    column: str
    pieces: list[tuple[str, float]]
    """Each with what it adds."""

    @property
    def largest(self) -> float:
        return max((abs(value) for _, value in self.pieces), default=0.0)

    def strongest(self, sign: int) -> list[tuple[str, float]]:
        """Words that add most, or of the sign -1 take most; each once, with all that it adds."""
        words: dict[str, float] = defaultdict(float)
        for word, value in self.pieces:
            words[word.lower()] += value
        ordered = sorted(words.items(), key=lambda one: -sign * one[1])[:MAX_WORDS]
        return [(word, value) for word, value in ordered if sign * value > 0.0]


def marked_texts(
    answer: Mapping[str, Any], inputs: Sequence[Input], entries: Mapping[str, str]
) -> list[MarkedText]:
    """The texts of the predicted row, with what their words add to the score of the predicted
    class, on average over its binary problems; or to the number."""
    label = (answer.get("label") or [None])[0]
    sums: dict[str, dict[tuple[int, int], float]] = defaultdict(lambda: defaultdict(float))
    problems = 0
    for problem in (answer.get("explanation") or [[]])[0]:
        classes = problem["classes"]
        if classes and label not in classes:
            continue
        problems += 1
        sign = 1.0 if not classes or classes[-1] == label else -1.0
        for text in problem.get("texts") or ():
            for start, end, value in text["marks"]:
                sums[text["column"]][start, end] += sign * value
    marked = []
    for i, one in enumerate(inputs):
        text, pieces, at = entries.get(f"x{i}", ""), [], 0
        for (start, end), value in sorted(sums.get(one.label, {}).items()):
            pieces += [(text[at:start], 0.0), (text[start:end], value / problems)]
            at = end
        if pieces:
            marked.append(MarkedText(one.label, [*pieces, (text[at:], 0.0)]))
    return marked


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


@dataclass(frozen=True, slots=True)
class Weights:
    """The largest weights, for each of the first binary problems."""

    problems: list[str]
    features: list[str]
    values: list[list[float]]
    """By feature, then by problem."""
    intercepts: list[float]
    largest: float
    n_features: int
    n_problems: int


def weights_of(model: LoadedModel) -> Weights | None:
    """None if the model has a kernel, or no features but texts and such without names."""
    fitted = model.fitted
    if fitted.kernel is not None:
        return None
    given = [f"feature {i}" for i in range(model.n_features)]
    if model.columns is not None:
        given = fitted.encoder.names_before_texts
    names = fitted.features.output_names(given)
    if not names:
        return None
    titles = ["value"]
    if fitted.target is None:
        splits = splits_of(fitted.multiclass, len(model.classes))
        titles = [" : ".join(str(model.classes[code]) for code in one.classes) for one in splits]
    shown = fitted.coefficients[:MAX_PROBLEMS, : len(names)]
    sizes = np.abs(shown).max(axis=0)
    order = np.argsort(-sizes, kind="stable")[:MAX_FEATURES]
    return Weights(
        problems=titles[:MAX_PROBLEMS],
        features=[names[i] for i in order],
        values=shown[:, order].T.tolist(),
        intercepts=fitted.intercepts[:MAX_PROBLEMS].tolist(),
        largest=float(sizes.max(initial=0.0)),
        n_features=len(names),
        n_problems=len(titles),
    )


@dataclass(frozen=True, slots=True)
class Input:
    """The input of one column."""

    label: str
    kind: Kind
    options: tuple[str, ...]
    """Texts to choose from; none if the value is typed in."""
    may_be_empty: bool
    """Whether an empty input is a missing cell."""
    example: float | str | bool | None

    @property
    def text(self) -> str:
        """The example as an input shows it."""
        if isinstance(self.example, bool):
            return "true" if self.example else "false"
        if isinstance(self.example, float):
            return str(self.example).removesuffix(".0")
        return self.example or ""


def inputs_of(model: LoadedModel, dataset: Dataset | None) -> list[Input]:
    """An input for each column, with an example row: means and frequent levels of the training
    data, which `dataset` is if it is still there."""
    names = model.columns or [f"feature {i}" for i in range(model.n_features)]
    encoder = model.fitted.encoder
    statistics = _statistics(dataset, model.n_features)
    if isinstance(encoder, PlainEncoder):
        return [
            Input(name, "number", (), False, _round(*one) or 0.0)
            for name, one in zip(names, statistics, strict=True)
        ]
    inputs, start = [], 0
    for j, (name, column, one) in enumerate(zip(names, encoder.columns, statistics, strict=True)):
        optional = column.kind in ("category", "text") or not encoder.refuses_missing
        options: tuple[str, ...] = ()
        example: float | str | bool | None
        if column.kind == "category":
            counts = encoder.counts[start : start + len(column.levels)]
            start += len(column.levels)
            example = _most_frequent(column, counts, int(encoder.missing[j]))
            options = column.levels if len(column.levels) <= MAX_OPTIONS else ()
        elif column.kind == "text":
            example = next(iter(_texts_like(dataset, name)), None)
        else:
            example = _example(column, one)
            options = ("true", "false") if column.kind == "boolean" else ()
        inputs.append(Input(name, column.kind, options, optional, example))
    return inputs


def line_of(cells: list[str]) -> str:
    """The row as a line of CSV."""
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue()


def row_of(entries: Mapping[str, str], n_features: int) -> str:
    """The row that was entered, as a line of CSV."""
    return line_of([entries.get(f"x{i}", "") for i in range(n_features)])


def _most_frequent(column: Column, counts: Indices, missing: int) -> str | None:
    return None if missing >= counts.max(initial=0) else column.levels[int(counts.argmax())]


def _texts_like(dataset: Dataset | None, column: str) -> Sequence[str]:
    """Examples of the texts in a column of the training data, if they are known."""
    known: Mapping[str, Any] = {} if dataset is None else dataset.statistics.get("texts", {})
    examples: Sequence[str] = known.get(column, {}).get("examples", ())
    return examples


def _example(column: Column, statistics: _Statistics) -> float | str | bool | None:
    mean = statistics[0]
    if mean is None:
        return None
    match column.kind:
        case "boolean":
            return mean > 0.5
        case "date":
            return day(mean)
        case _:
            return _round(*statistics)


def _statistics(dataset: Dataset | None, n_features: int) -> list[_Statistics]:
    """Mean, lowest and highest value of each feature."""
    if dataset is None or dataset.of_columns is None:
        return [(0.0, None, None)] * n_features
    mean, low, high = (dataset.of_columns[name] for name in ("mean", "min", "max"))
    return list(zip(mean, low, high, strict=True))


def _round(mean: float | None, low: float | None, high: float | None) -> float | None:
    """The mean as a likely value: whole if the range is that of a count, else with three
    significant digits."""
    if mean is None:
        return None
    if low is None or high is None or low % 1 or high % 1 or high - low > MAX_COUNT:
        return float(f"{mean:.3g}")
    return float(round(mean))
