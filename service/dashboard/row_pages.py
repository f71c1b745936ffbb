"""The rows of a dataset, a part of its page: filtered, sorted, and page by page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Depends, Query

from service.dashboard.page import PageContext
from service.datasets.browse import DatasetRows, RowsPage, ShownColumn
from service.datasets.conditions import Condition, Order, Test, conditions_of
from service.datasets.dataset import Dataset
from service.errors import InvalidRequest, NotFound
from service.jobs.batch_predictions.reading import predicted_rows, rows_of_class
from service.jobs.batch_predictions.run import LABELS
from service.jobs.core.job import Job
from service.jobs.kinds import BATCH_PREDICTION
from service.models.outputs import offer_of_version
from svm.model.multiclass import label_name

STEP = 20
"""Rows on one page."""
FAR = 1 << 40
TESTS: Mapping[Test, str] = {
    "is": "is",
    "contains": "contains",
    "at-least": "at least",
    "at-most": "at most",
    "missing": "is missing",
}
COLUMNS = 50
"""Columns on one page."""
CHIPS = 12
"""Classes with a link each; others are typed."""
SUGGESTED = 100


@dataclass(frozen=True, slots=True)
class RowsQuery:
    """What the address of the page asks for."""

    conditions: tuple[Condition, ...]
    order: Order | None
    offset: int
    row: int | None

    def address(self, first: int, **changes: Any) -> str:
        """That of the same rows with some changes; without an offset the first of them."""
        conditions = changes.get("conditions", self.conditions)
        order: Order | None = changes.get("order", self.order)
        pairs: list[tuple[str, Any]] = []
        if conditions:
            *others, last = conditions
            pairs += [("where", written(others))] * bool(others)
            pairs += [("column", last.column), ("test", last.test), ("value", last.value)]
        if order is not None:
            pairs.append(("sort", order.column))
            pairs += [("descending", "true")] * order.descending
        pairs += [
            (name, n) for name, n in (("first", first), ("offset", changes.get("offset"))) if n
        ]
        return f"?{urlencode(pairs)}#rows"


def written(conditions: Sequence[Condition]) -> str:
    """Several conditions as `where` has them."""
    return json.dumps([astuple(one) for one in conditions], ensure_ascii=False)


def _query(
    where: Annotated[str, Query(max_length=10_000)] = "[]",
    column: str = "",
    test: Annotated[Test, Query()] = "is",
    value: str = "",
    sort: str = "",
    descending: bool = False,
    offset: Annotated[int, Query(ge=0, le=FAR)] = 0,
    row: Annotated[int | None, Query(ge=1, le=FAR)] = None,
) -> RowsQuery:
    """`where`: conditions besides that of `column`, `test` and `value`. A parameter comes once."""
    conditions = conditions_of(where)
    if column:
        conditions.append(Condition(column, test, value))
    order = Order(sort, descending) if sort else None
    return RowsQuery(tuple(conditions), order, offset, row)


Asked = Annotated[RowsQuery, Depends(_query)]


@dataclass(frozen=True, slots=True)
class RowsView:
    """The rows with all that is around them; without `rows` what is wrong with the filter."""

    query: RowsQuery
    rows: RowsPage | None
    error: InvalidRequest | None
    choices: list[ShownColumn]
    """Columns to filter by."""
    first: int

    def at(self, offset: int) -> str:
        return self.query.address(self.first, offset=offset)

    @property
    def where(self) -> str:
        """All conditions, for a form that adds one."""
        return written(self.query.conditions)

    @property
    def unsorted(self) -> str:
        return self.query.address(self.first, order=None)

    @property
    def heads(self) -> list[str]:
        """For each column the address that sorts by it, or the other way if it does so already."""
        order = self.query.order
        return [
            self.query.address(
                self.first,
                order=Order(
                    column.name,
                    order is not None and order.column == column.name and not order.descending,
                ),
            )
            for column in (self.rows.columns if self.rows else ())
        ]

    @property
    def without(self) -> list[tuple[Condition, str]]:
        """The conditions, each with the address without it."""
        given = self.query.conditions
        return [
            (one, self.query.address(self.first, conditions=given[:i] + given[i + 1 :]))
            for i, one in enumerate(given)
        ]

    @property
    def of_classes(self) -> list[tuple[str, str]]:
        """The address with the rows of each class, if these are few."""
        levels = self.suggested
        if not 2 <= len(levels) <= CHIPS:
            return []
        name = self.choices[0].name
        others = tuple(one for one in self.query.conditions if one.column != name)
        conditions = ((*others, Condition(name, "is", level)) for level in levels)
        return [
            (level, self.query.address(self.first, conditions=one))
            for level, one in zip(levels, conditions, strict=True)
        ]

    @property
    def suggested(self) -> list[str]:
        """The classes."""
        label = self.choices[0] if self.choices and self.choices[0].role == "label" else None
        if label is not None and label.kind == "boolean":
            return ["false", "true"]
        return list(label.levels[:SUGGESTED]) if label is not None else []


def view_of(
    context: PageContext, dataset: Dataset, query: RowsQuery, first: int, columns: int
) -> RowsView:
    """Raises Corrupt."""
    table = DatasetRows(context.datasets, dataset)
    shown = [*table.leading, *table.features(first, columns)]
    choices = [one for one in shown if one.role != "entries"]
    try:
        rows = table.page(
            query.conditions,
            query.order,
            offset=query.offset,
            limit=STEP,
            first=first,
            columns=columns,
            row=query.row,
        )
    except InvalidRequest as error:
        return RowsView(_possible(table, query), None, error, choices, first)
    return RowsView(query, rows, None, choices, first)


def _possible(table: DatasetRows, query: RowsQuery) -> RowsQuery:
    """What is refused, without the conditions that no cell can meet, or else without the last."""
    kept = []
    for one in query.conditions:
        with suppress(InvalidRequest):
            table.check(one)
            kept.append(one)
    if len(kept) < len(query.conditions):
        return replace(query, conditions=tuple(kept))
    if query.order is not None or query.row is not None:
        return replace(query, order=None, row=None)
    return replace(query, conditions=tuple(kept[:-1]))


@dataclass(frozen=True, slots=True)
class PredictedView:
    """Predictions with the columns of the data after them."""

    rows: RowsPage
    predicted: str
    """The class that rows are filtered by, or nothing."""
    classes: list[str]
    """To filter by."""

    def at(self, offset: int) -> str:
        given = {"predicted": self.predicted} if self.predicted else {}
        return f"?{urlencode({**given, 'offset': offset})}#rows"


def predicted_view(
    context: PageContext, job: Job, predicted: str, offset: int
) -> PredictedView | None:
    """None if there are no predictions, or the data were deleted. Raises Corrupt, Unavailable."""
    if job.kind != BATCH_PREDICTION.name or (file := context.jobs.open_results(job)) is None:
        return None
    spec, model = job.spec, job.spec["model"]
    names: dict[str, Sequence[str]] = {}
    labels, classes = [one for one in spec["outputs"] if one in LABELS], []
    with file:
        with suppress(NotFound):  # columns without names are numbered
            version = context.models.get_version(model["name"], model["version"])
            names = {name: one.columns for name, one in offer_of_version(version).items()}
            classes = list(map(label_name, version.classes)) if labels else []
        try:
            table = DatasetRows(context.datasets, context.datasets.get(job.dataset_id))
            among = None
            if predicted and labels:
                among = rows_of_class(file, spec["format"], labels[0], predicted)
            rows = table.page(offset=offset, limit=STEP, columns=COLUMNS, among=among)
        except NotFound:
            return None
        places = [number - 1 for number in rows.numbers]
        columns, cells = predicted_rows(file, spec["format"], spec["outputs"], places, names)
    both = [[*a, *b] for a, b in zip(cells, rows.cells, strict=True)]
    rows = replace(rows, columns=[*columns, *rows.columns], cells=both)
    return PredictedView(rows, predicted, classes)
