"""`/v1/comparisons`: several trainings on one dataset, ranked."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import Path, Request, Response

from service import charts
from service.charts.chart import MEDIA_TYPES, ChartFormat
from service.common.names import JobId
from service.datasets.store import LATEST_DATASET, DatasetStore
from service.errors import NotFound
from service.jobs.collection.routes import Collection, JobAccess
from service.jobs.collection.schemas import Form
from service.jobs.collection.submission import Stores
from service.jobs.comparisons import schemas
from service.jobs.comparisons.entries import entries_of
from service.jobs.comparisons.results import EntryResult, read_results, report
from service.jobs.comparisons.size_plot import SizePlot, plot
from service.jobs.comparisons.submission import Comparisons
from service.jobs.core.job import Job, State
from service.jobs.core.store import JobStore
from service.jobs.kinds import COMPARISON
from service.jobs.training.routes import PROBLEMS
from service.web.access.scopes import Routes, requires_scope
from service.web.problems import responses
from svm.data.splitting import held_out_rows

EXAMPLE = {
    "dataset_id": LATEST_DATASET,
    "grid": {
        "solver": [{"name": "dual-coordinate-descent"}, {"name": "smo"}],
        "C": [0.1, 1.0, 10.0],
        "gamma": [0.1, "median"],
    },
    "scaling": "max-abs",
    "validation": {"fraction": 0.25},
    "seed": 1,
    "model_name": "iris",
}


def router(stores: Stores, access: JobAccess) -> Routes:
    form = Form(
        model=schemas.ComparisonRead,
        read=partial(comparison, stores.jobs),
        item=schemas.ComparisonSummary,
        page=schemas.ComparisonPage,
        description="Its entries, the best first: scores, certificates and curves of cost against "
        "time. While it runs, the results so far, at most some seconds old.",
        problems=("results-corrupt",),
    )
    collection = Collection(access, form, COMPARISON)
    comparisons = Comparisons(stores)
    collection.add_create(
        comparisons,
        schemas.ComparisonCreate,
        EXAMPLE,
        *PROBLEMS,
        summary="Compare trainings, or search hyperparameters",
        description="Queues one job that trains every entry on the same rows, ranks them by their "
        "scores on the other rows, and keeps the best as a version of `model_name`, if that is "
        "given. An entry that cannot be trained is listed with its problem; the others are "
        "trained.",
        plan=comparisons.plan,
        plan_model=schemas.ComparisonPlanRead,
    )
    _add_plot(collection.add_rest(), form)
    return collection.routes


def _add_plot(collection: Collection, form: Form) -> None:
    @collection.routes.get(
        "/{id}/plots/{kind}.{format}",
        operation_id="get_comparison_plot",
        summary="Get a plot of a comparison",
        description="Training time against the training rows or the features of entries on parts "
        "of the data (`sizes`), or against the support vectors of any entries, as a picture with "
        "logarithmic axes, or its points as CSV. While the comparison runs, of the entries that "
        "have finished.",
        response_class=Response,
        responses={
            200: {
                "description": "The chart.",
                "content": {name: {} for name in MEDIA_TYPES.values()},
            },
            **responses("invalid-parameter", "not-found", "plot-unavailable", *form.problems),
        },
    )
    @requires_scope("read", "train")
    def get_plot(
        request: Request,
        id: JobId,
        kind: Annotated[
            SizePlot, Path(description="Kind of the plot.", examples=["time-by-support-vectors"])
        ],
        format: Annotated[ChartFormat, Path(description="Picture or points.", examples=["svg"])],
    ) -> Response:
        shown = form.read(collection.get(request, id))
        assert isinstance(shown, schemas.ComparisonRead)
        chart = plot(kind, [entry.model_dump() for entry in shown.entries])
        return Response(charts.write(chart, format), media_type=MEDIA_TYPES[format])


def comparison(jobs: JobStore, job: Job) -> schemas.ComparisonRead:
    """Raises Corrupt."""
    if file := jobs.open_results(job):
        with file:
            results = schemas.ComparisonResults.model_validate_json(file.read())
    else:
        results = schemas.ComparisonResults.model_validate(_so_far(jobs, job))
    return schemas.ComparisonRead(
        **schemas.ComparisonSummary.values(job),
        dataset_digest=job.dataset_digest,
        entries=results.entries,
        objectives=results.objectives,
    )


def _so_far(jobs: JobStore, job: Job) -> dict[str, Any]:
    body = schemas.ComparisonCreate.from_spec(job.spec)
    entries = entries_of(body)
    results = None
    file = jobs.open_checkpoint(job)
    if file is None and job.checkpoint_key is not None:  # a newer one has replaced it
        file = jobs.open_checkpoint(jobs.get(job.id))
    if file is not None:
        with file:
            results = read_results(file)
    shown = report(entries, results or [EntryResult() for _ in entries], body.ranking)
    if job.state == State.RUNNING:
        for entry in shown["entries"]:
            if entry["number"] == job.progress.get("entry") and entry["state"] == "waiting":
                entry["state"] = "running"
    return shown


def tested_rows(row: Job, datasets: DatasetStore) -> int | None:
    """How many rows the accuracies of a comparison were measured on; None if its entries are ranked
    by another score, or its data were deleted."""
    validation = row.spec.get("validation", {})
    if row.spec.get("rank_by") != "accuracy" or not {"folds", "fraction"} & validation.keys():
        return None
    try:
        dataset = datasets.get(row.dataset_id).only(row.spec.get("classes"))
    except NotFound:
        return None
    if "folds" in validation:
        return sum(count for count in dataset.class_counts or () if count > 1)
    groups = dataset.class_counts if validation.get("stratify") else None
    fraction = validation["fraction"]
    return sum(held_out_rows(count, fraction) for count in groups or (dataset.n_samples,))
