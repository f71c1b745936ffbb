"""Predictions on the page of a version: of one row, with its explanation and what would change it;
and of a file, shown and downloaded with its own columns. The page has more than the answer, so that
a key needs both scopes, `predict` and `read`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from service.common.callers import STATE
from service.common.names import ModelName
from service.dashboard import row_inputs, why
from service.dashboard.model_pages import RowOfData, Use, show_version
from service.dashboard.page import PageContext, last_entries
from service.dashboard.row_pages import FAR
from service.datasets.browse import DatasetRows
from service.datasets.schemas import UploadOptions
from service.datasets.upload_routes import receive
from service.errors import InvalidContent, ServiceError, TooLarge
from service.jobs.core.model_columns import check_columns
from service.jobs.training.admission import refuse_at
from service.models.card import training_data
from service.models.outputs import USUAL, arrays_of
from service.models.routes import Version
from service.predictions.changes import largest_moves, smallest_changes
from service.predictions.explanations import compare_with_means, strongest_columns, why_unexplained
from service.predictions.files import PredictedFile, predict_file
from service.predictions.predictor import Target
from service.predictions.schemas import PredictionQuery
from service.predictions.wire_format import PlainExchange
from service.storage.database.tables import ModelVersion
from service.web.access.scopes import require, requires_scope
from service.web.bodies.uploads import IncomingBody

ROUTE = "/models/{name}/versions/{version}/predict"
FILE_ROUTE = "/models/{name}/versions/{version}/predict-file"
CSV_BODY = [(b"content-type", b"text/csv; header=absent"), (b"accept", b"application/json")]


def add(routes: APIRouter, context: PageContext) -> None:
    """Add them to the dashboard's routes."""

    @routes.post(ROUTE)
    @requires_scope("predict")
    async def predict(request: Request, name: ModelName, version: Version) -> Response:
        require(getattr(request.state, STATE), "read")
        sent = await last_entries(request)
        entries = {name: text.replace("\r\n", "\n") for name, text in sent.items()}
        row = await run_sync(context.models.get_version, name, version)
        return await show_version(request, context, row, await _predict(context, row, entries))

    @routes.get(ROUTE)
    @requires_scope("predict")
    async def explain(
        request: Request,
        name: ModelName,
        version: Version,
        dataset_id: str,
        row: Annotated[int, Query(ge=1, le=FAR)],
    ) -> Response:
        """A row of a dataset, filled in."""
        require(getattr(request.state, STATE), "read")
        model_version = await run_sync(context.models.get_version, name, version)
        entries, origin = await run_sync(_of_data, context, model_version, dataset_id, row)
        use = await _predict(context, model_version, entries)
        return await show_version(request, context, model_version, replace(use, origin=origin))

    @routes.post(FILE_ROUTE)
    @requires_scope("predict")
    async def predict_all(
        request: Request, name: ModelName, version: Version, download: bool = False
    ) -> Response:
        """Nothing is kept: the page shows the first rows, and sends the file again to download
        them."""
        require(getattr(request.state, STATE), "read")
        row = await run_sync(context.models.get_version, name, version)
        try:
            predicted = await _predict_file(request, context, row)
        except ServiceError as error:
            return await show_version(request, context, row, Use(file_error=error))
        if not download:
            return await show_version(request, context, row, Use(file=predicted))
        filename = f"{name}-{version}-predictions.csv"
        headers = {"Content-Disposition": f'attachment; filename="{filename}"'}
        content = await run_sync(predicted.as_csv)
        return Response(content, headers=headers, media_type="text/csv")


def _of_data(
    context: PageContext, version: ModelVersion, dataset_id: str, number: int
) -> tuple[dict[str, str], RowOfData]:
    """The entries for a row. Raises ServiceError."""
    dataset = context.datasets.get(dataset_id)
    with refuse_at("/dataset_id"):
        check_columns(dataset, version)
    label, cells = DatasetRows(context.datasets, dataset).whole(number)
    if version.columns and dataset.columns:
        named = dict(zip(dataset.columns, cells, strict=True))
        cells = [named.get(name) for name in version.columns]
    return row_inputs.entries_of(cells), RowOfData(dataset, number, label)


async def _predict(context: PageContext, version: ModelVersion, entries: Mapping[str, str]) -> Use:
    """The prediction for the entries: an input for each feature, or lines; or what is wrong with
    them."""
    try:
        return await _predicted(context, version, entries)
    except ServiceError as error:
        return Use(entries=entries, error=error)


async def _predicted(
    context: PageContext, version: ModelVersion, entries: Mapping[str, str]
) -> Use:
    """Raises ServiceError."""
    loaded = await context.loaded_models.get(version.model_name, version.version)
    outputs, fitted = arrays_of(loaded.offer), loaded.fitted
    if fitted.conformal is not None and not fitted.conformal.allows(USUAL.coverage):
        outputs.remove("interval")
    if fitted.rejection is not None and not fitted.rejection.allows(USUAL.withheld):
        outputs.remove("label_or_none")
    if "rows" in entries:
        rows = entries["rows"]
        cells: Mapping[str, str] = row_inputs.read_line(rows, version.n_features)
    else:
        rows, cells = row_inputs.row_of(entries, version.n_features), entries or {"x0": ""}
        if fitted.encoder.texts:  # any text may be a name
            rows = row_inputs.line_of([column.name for column in fitted.columns]) + rows
    unexplained = why_unexplained(loaded, 1 if cells else 2)
    outputs += [] if unexplained else ["explanation"]
    target = Target(version.model_name, version.version, ROUTE)
    query = PredictionQuery(outputs=",".join(outputs))
    call = context.predictor.call_of(target, CSV_BODY, query)
    try:
        reply = await context.predictor.answer(call, rows.encode())
    except InvalidContent as error:
        if error.code != "non-finite-value" or outputs[-1] != "explanation":
            raise
        query = PredictionQuery(outputs=",".join(outputs[:-1]))  # its terms may be too large
        call = context.predictor.call_of(target, CSV_BODY, query)
        reply = await context.predictor.answer(call, rows.encode())
    answer: dict[str, Any] = json.loads(reply.body)
    if not cells:
        return Use(entries=entries, answer=answer, notes=[unexplained])
    assert isinstance(call.exchange, PlainExchange)
    asked = await run_sync(call.exchange.read, rows.encode(), loaded)

    def explain() -> Use:
        dataset = training_data(context.datasets, version)
        among: list[int] = []
        inputs, ranges = (
            row_inputs.inputs_of(loaded, dataset),
            row_inputs.ranges_of(dataset, version.n_features),
        )
        for row in answer.get("explanation", ()):
            compare_with_means(loaded, row_inputs.means_of(dataset, version.n_features), row)
            among = strongest_columns(loaded, row)
        search = smallest_changes if loaded.classes else largest_moves
        return Use(
            entries=entries,
            answer=answer,
            why=why.bars_of(answer, inputs, cells),
            marked=why.marked_texts(answer, inputs, cells),
            changes=list(why.in_words(loaded, search(loaded, asked.X, ranges, among))),
            notes=[unexplained, *why.far_in_words(loaded, asked.X, ranges)],
            searched=len(among),
        )

    return await run_sync(explain)


async def _predict_file(
    request: Request, context: PageContext, version: ModelVersion
) -> PredictedFile:
    model = await context.loaded_models.get(version.model_name, version.version)
    dataset = await run_sync(training_data, context.datasets, version)
    context.blobs.check_room()
    limits = context.limits.model_copy(update={"upload_bytes": context.limits.predict_body_bytes})
    with context.blobs.temporary_folder() as folder:
        try:
            upload = await receive(IncomingBody(request), UploadOptions(), folder, limits)
        except TooLarge as error:
            detail = error.detail.replace("__UPLOAD_BYTES", "__PREDICT_BODY_BYTES")
            raise TooLarge(error.code, detail, extra=error.extra) from None
        return await predict_file(
            model,
            upload.spec.file,
            folder,
            Target(version.model_name, version.version, FILE_ROUTE),
            None if dataset is None else dataset.target,
            parser=context.parser,
            predictor=context.predictor,
            limits=context.limits,
        )
