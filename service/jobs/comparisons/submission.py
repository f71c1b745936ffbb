"""From a request for a comparison to a job that can be queued."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from service.datasets.dataset import Dataset
from service.errors import Fault, InvalidContent
from service.jobs.collection.schemas import JobErrorRead
from service.jobs.collection.submission import Draft, Submission
from service.jobs.comparisons.entries import check_sizes, entries_of, size_of, spec_of
from service.jobs.comparisons.results import Error
from service.jobs.comparisons.schemas import ComparisonCreate, ComparisonPlanRead, EntryPlanRead
from service.jobs.kinds import COMPARISON
from service.jobs.training.admission import (
    check_labels,
    check_spec,
    labeled_as,
    most_classes,
    peak_bytes,
    rows_stay_in_files,
)
from service.jobs.training.schemas import Folds, JobCreate
from service.settings import Limits
from svm.errors import InvalidHyperparameter
from svm.model.measures import Confusion, Errors


class Comparisons(Submission[ComparisonCreate]):
    """Refuses only those of which every entry is known to fail."""

    kind = COMPARISON

    def draft(self, body: ComparisonCreate) -> Draft:
        body, dataset, _, _ = self._check(body)
        return Draft(body.model_dump(mode="json", by_alias=True), dataset, body.model_name)

    def plan(self, body: ComparisonCreate) -> ComparisonPlanRead:
        """What `queue` would queue. Raises as it does."""
        body, dataset, entries, refusals = self._check(body)
        each, models = 1, 0
        if isinstance(body.validation, Folds):
            each = body.validation.folds + (body.refit == "all")
            models = int(body.refit == "best" and body.model_name is not None)
        return ComparisonPlanRead(
            trainings=each * refusals.count(None) + models,
            entries=[
                _plan(number, entry, refusal, dataset, self.stores.limits.worker_memory_bytes)
                for number, (entry, refusal) in enumerate(
                    zip(entries, refusals, strict=True), start=1
                )
            ],
        )

    def _check(
        self, body: ComparisonCreate
    ) -> tuple[ComparisonCreate, Dataset, list[JobCreate], list[InvalidContent | None]]:
        """The request with defaults filled in, and its entries with their errors."""
        found = self.stores.datasets.find(body.dataset_id)
        body = body.with_loss(found)
        dataset = labeled_as(body.target_kind, found, self.stores.limits.classes)
        body = body.on(dataset)
        labels = dataset.only(body.classes)
        check_labels(labels, most_classes(body, self.stores.limits))
        if body.sizes is not None:
            check_sizes(body.sizes, body.validation, labels)
        entries = self._entries(body)
        body = _ranked(body)
        refusals = refusals_of(entries, dataset, self.stores.limits)
        if None not in refusals:
            assert refusals[0] is not None
            raise _at_entries(refusals[0], body)
        return body, dataset, entries, refusals

    def _entries(self, body: ComparisonCreate) -> list[JobCreate]:
        limit = self.stores.limits.comparison_entries
        try:
            return entries_of(body, limit)
        except (
            InvalidHyperparameter
        ) as error:  # of a grid: not every value is valid for every solver
            fault = Fault(code="invalid-field", message=str(error), pointer="/grid")
            raise InvalidContent("invalid-field", f"/grid: {error}", (fault,)) from None
        except OverflowError:
            raise InvalidContent.at(
                "/specs" if body.grid is None else "/grid",
                "plan-too-large",
                f"these are more than {limit} entries",
                "split the request, or take fewer values",
                limit=limit,
            ) from None


def _ranked(body: ComparisonCreate) -> ComparisonCreate:
    """With a score that ranks its entries. Raises InvalidContent."""
    scores = (Errors if body.target_kind == "numbers" else Confusion).SCORES
    if body.rank_by is not None and body.rank_by not in scores:
        message = f"the entries predict {body.target_kind}, which have no "
        message += body.rank_by
        hint = "leave out `rank_by`, or give one of " + ", ".join(scores)
        raise InvalidContent.at("/rank_by", "invalid-field", message, hint)
    return body.model_copy(update={"rank_by": body.rank_by or scores[0]})


def refusals_of(
    entries: Sequence[JobCreate], dataset: Dataset, limits: Limits
) -> list[InvalidContent | None]:
    """Errors of each entry that are known before it is trained."""

    def refusal(entry: JobCreate) -> InvalidContent | None:
        try:
            check_spec(entry, dataset, limits)
        except InvalidContent as error:
            return error
        return None

    return [refusal(entry) for entry in entries]


def problem_of(refusal: InvalidContent | None) -> Error | None:
    """A refusal as the problem of an entry."""
    if refusal is None:
        return None
    hint = refusal.faults[0].hint if refusal.faults else None
    return {"code": refusal.code, "detail": refusal.detail, "hint": hint}


def _at_entries(refusal: InvalidContent, body: ComparisonCreate) -> InvalidContent:
    """A refusal of the first entry, pointing into the request for the comparison."""

    def place(pointer: str | None) -> str:
        shared = pointer is not None and pointer.startswith("/validation")
        return str(pointer) if shared else "/specs/0" if body.specs else "/grid"

    faults = tuple(replace(fault, pointer=place(fault.pointer)) for fault in refusal.faults)
    return InvalidContent(refusal.code, refusal.detail, faults, extra=refusal.extra)


def _plan(
    number: int,
    entry: JobCreate,
    refusal: InvalidContent | None,
    dataset: Dataset,
    worker_memory_bytes: int,
) -> EntryPlanRead:
    in_files: bool | None = None
    memory: int | None = None
    error: dict[str, Any] | None = problem_of(refusal)
    if error is None:
        in_files = rows_stay_in_files(entry, dataset, worker_memory_bytes)
        memory = peak_bytes(entry, dataset, in_files=in_files)
    return EntryPlanRead(
        number=number,
        spec=spec_of(entry),
        rows=size_of(entry)[0],
        columns=size_of(entry)[1],
        memory_bytes=memory,
        rows_in_files=in_files,
        error=None if error is None else JobErrorRead(**error),
    )
