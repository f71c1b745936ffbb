"""Entries of a comparison on parts of the data: some rows, or some columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Self

import numpy as np
from annotated_types import Ge, MinLen
from pydantic import model_validator

from service.common.schemas import WriteModel
from service.datasets.dataset import Dataset
from service.errors import InvalidContent
from service.jobs.training.schemas import JobCreate, ValidationSplit
from svm.data.matrices import Indices
from svm.data.randomness import generator
from svm.data.splitting import held_out_rows


class Sizes(WriteModel):
    """Train every entry on parts of the data of these sizes, one after the other."""

    rows: Annotated[list[Annotated[int, Ge(2)]], MinLen(1)] | None = None
    """Counts of training rows: every part has the same share of each class, and is in the next
    larger one."""
    columns: Annotated[list[Annotated[int, Ge(1)]], MinLen(1)] | None = None
    """Counts of features: the first ones, in the order of the data."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.rows is None) == (self.columns is None):
            raise ValueError("give counts of `rows` or of `columns`, one of both")
        return self


class SizedEntry(JobCreate):
    """An entry on a part of the training rows or of the features."""

    rows: int | None
    columns: int | None


Size = tuple[int | None, int | None]


def size_of(entry: JobCreate) -> Size:
    """(training rows, features) of a part of the data; None is all of them."""
    return (entry.rows, entry.columns) if isinstance(entry, SizedEntry) else (None, None)


def sized(entry: JobCreate, sizes: Sizes | None) -> Iterator[JobCreate]:
    """The entry on each of the parts; itself if there are none."""
    if sizes is None:
        yield entry
        return
    fields = {name: getattr(entry, name) for name in JobCreate.model_fields}
    for rows in sizes.rows or []:
        yield SizedEntry.model_construct(**fields, rows=rows, columns=None)
    for columns in sizes.columns or []:
        yield SizedEntry.model_construct(**fields, rows=None, columns=columns)


def check_sizes(sizes: Sizes, validation: object, dataset: Dataset) -> None:
    """Raises InvalidContent if a part has more than there is, or too little to train on. `dataset`
    has only the classes that are trained on."""
    if not isinstance(validation, ValidationSplit):
        message = "parts of the data are measured on one validation set"
        raise InvalidContent.at(
            "/validation", "invalid-field", message, "give `validation` a `fraction`"
        )
    counts = dataset.class_counts or ()
    groups = counts if validation.stratify else (sum(counts),)
    most = sum(n - held_out_rows(n, validation.fraction) for n in groups)
    for number, rows in enumerate(sizes.rows or []):
        if not len(counts) <= rows <= most:
            message = f"expected {len(counts)} … {most} training rows, got {rows}"
            raise InvalidContent.at(f"/sizes/rows/{number}", "invalid-field", message)
    for number, columns in enumerate(sizes.columns or []):
        if columns > dataset.n_features:
            message = f"the data has {dataset.n_features} features, got {columns}"
            raise InvalidContent.at(f"/sizes/columns/{number}", "invalid-field", message)


def part_of(rows: Indices, codes: Indices, count: int, seed: int) -> Indices:
    """`count` of the rows, ascending, of which `codes` are the classes.

    The rows of each class come in a random order, at even distances; so the first ones have the
    same share of each class, and at least one row of each.
    """
    shuffled = generator("sizes", seed).permutation(len(rows))
    place = np.empty(len(rows))
    for code in np.unique(codes):
        members = shuffled[codes[shuffled] == code]
        place[members] = np.arange(len(members)) / len(members)
    chosen: Indices = np.sort(rows[np.argsort(place, kind="stable")[:count]])
    return chosen
