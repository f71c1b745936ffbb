"""From the columns and classes of a dataset to those of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from service.common.figures import first_of
from service.datasets.dataset import Dataset
from service.errors import MAX_FAULTS, InvalidContent
from service.rows.faults import listed
from service.rows.spec import Description, Label
from service.rows.table.beside import WORDS
from service.rows.table.labels import match_labels
from service.storage.database.tables import ModelVersion
from svm.data.columns import Column, Columns, PlainColumns
from svm.data.matrices import is_sparse
from svm.encoding.recoding import recoding
from svm.errors import InvalidData
from svm.model.pipeline import FittedPipeline


class TakesColumns(Protocol):
    """A model, or the data of one that is to be trained."""

    @property
    def columns(self) -> Sequence[str] | None: ...
    @property
    def n_features(self) -> int: ...


HINT = "use a dataset with the features that the model was trained on"


def check_columns(dataset: Description, version: ModelVersion) -> None:
    """Raises as `adapt_rows`, which needs the model itself for its levels."""
    recode_onto(dataset, version, kinds_of(version))


def adapt_rows(
    fitted: FittedPipeline, dataset: Dataset, version: ModelVersion
) -> Callable[[Any], Any]:
    """From rows of the dataset to rows as the model takes them: in its order, with its levels.

    Raises InvalidContent and InvalidData (`feature-mismatch`, `missing-value`).
    """
    return recode_onto(dataset, version, fitted.columns)


def kinds_of(version: ModelVersion) -> Columns:
    """The columns of a model, without levels."""
    table = version.result.get("table")
    if table is None:
        return PlainColumns(version.columns, version.n_features)
    return tuple(
        Column(one["name"], one["kind"], missing=one["missing"]) for one in table["columns"]
    )


def unused_columns(dataset: Dataset, version: ModelVersion) -> list[str]:
    """Features of the dataset that the model does not use, at most a hundred."""
    if dataset.columns is None or version.columns is None:
        return []
    used = frozenset(version.columns)
    return [name for name in dataset.columns if name not in used][:MAX_FAULTS]


def labeled_for(
    dataset: Dataset, classes: Sequence[Label], *, some: bool = False
) -> tuple[Dataset, npt.NDArray[np.int64] | None]:
    """The dataset with labels of the kind that a model predicts, and for each of its classes the
    number among those of the model. Without `classes` the model predicts numbers: None.

    Raises InvalidData: `target-missing`, `target-continuous`, `label-mismatch`, and `unknown-class`
    for a label that the model does not know; with `some` this has the number -1.
    """
    labeled = dataset.taken_as("classes" if classes else "numbers")
    if classes:
        return labeled or dataset, class_numbers(labeled or dataset, classes, some=some)
    if dataset.n_distinct_labels == 0:
        raise InvalidData("target-missing", "the dataset has no labels to compare with")
    if labeled is None:
        shown = ", ".join(repr(label) for label in (dataset.classes or ())[:3])
        message = f"the model predicts numbers, and the labels of the dataset are classes: {shown}"
        raise InvalidData("label-mismatch", message)
    return labeled, None


def class_numbers(
    dataset: Dataset, classes: Sequence[Label], *, some: bool = False
) -> npt.NDArray[np.int64]:
    """For each of the dataset's classes its number among those of a model.

    Raises InvalidData: `target-missing`, `target-continuous`, and `unknown-class` for a label that
    the model does not know; with `some` this has the number -1.
    """
    if dataset.n_distinct_labels == 0:
        raise InvalidData("target-missing", "the dataset has no labels to compare with")
    if dataset.classes is None:
        many = f"{dataset.n_distinct_labels:,} different values"
        message = f"the model predicts classes, and the labels of the dataset are numbers: {many}"
        raise InvalidData("target-continuous", message)
    numbers = match_labels(dataset.classes, classes)
    if None in numbers and not some:
        label = dataset.classes[numbers.index(None)]
        shown = first_of(list(map(repr, classes)), 5)
        message = f"the model has no class {label!r}; its classes are {shown}"
        raise InvalidData("unknown-class", message)
    return np.array([-1 if number is None else number for number in numbers])


def positions(dataset: Description, model: TakesColumns) -> list[int] | None:
    """The position in the dataset of each of the model's features; None if they are in order and
    there are no others.

    Raises InvalidContent `feature-mismatch`.
    """
    if dataset.columns is not None and model.columns is not None:
        _require_all(dataset, list(model.columns))
        given = list(dataset.columns)
        if given == list(model.columns):
            return None
        place = {name: position for position, name in enumerate(given)}
        return [place[name] for name in model.columns]
    if dataset.n_features != model.n_features:
        message = (
            f"the model takes {model.n_features} features, the dataset has {dataset.n_features}"
        )
        fewer, hint = min(model.n_features, dataset.n_features), HINT
        if dataset.sparse and dataset.n_features < model.n_features:
            hint = f"upload the data again with n_features={model.n_features}: LIBSVM files leave "
            hint += "out features that are 0"
        raise _mismatch(message, model.n_features, dataset.n_features, fewer, hint)
    return None


def _require_all(dataset: Description, expected: list[str]) -> None:
    """Raises InvalidContent `feature-mismatch` if the dataset lacks columns of the model."""
    assert dataset.columns is not None
    given = list(dataset.columns)
    there = frozenset(given)
    missing = [name for name in expected if name not in there]
    if not missing:
        return
    noun = "column" if len(missing) == 1 else "columns"
    message = f"the dataset lacks the model's {noun} {listed(missing)}"
    hint = HINT
    reasons = {one["name"]: f"its upload ignored it ({one['reason']})" for one in dataset.ignored}
    if dataset.target is not None:
        reasons[dataset.target] = "it is the label of the dataset"
    for one in dataset.beside:
        reasons[one["name"]] = f"it has the {WORDS[one['role']]} of the dataset"
    if (name := next((name for name in missing if name in reasons), None)) is not None:
        message += f"; {name!r} is not a feature: {reasons[name]}"
        hint = f"upload the data again, with the role `feature` and the kind of {name!r} in "
        hint += "`schema`"
    raise _mismatch(message, expected, given[:MAX_FAULTS], missing[0], hint)


def recode_onto(dataset: Description, model: TakesColumns, onto: Columns) -> Callable[[Any], Any]:
    """From rows of the dataset to those of the columns `onto` of a model. Raises as
    `adapt_rows`."""
    order, given = positions(dataset, model), dataset.kinds
    plain = isinstance(onto, PlainColumns)
    if plain and dataset.is_plain:  # maybe sparse
        return lambda X: X if order is None else X[:, order]
    if dataset.columns is None or model.columns is None:  # columns are matched by their place
        given = [replace(c, name=like.name) for c, like in zip(given, onto, strict=True)]
    used = {column.name for column in onto} if plain else set()
    for column in given:
        if column.missing and column.name in used:
            raise InvalidData(
                "missing-value",
                f"column {column.name!r} has {column.missing} missing cells, and the model was "
                "trained on a table without any",
            )
    recoded = recoding(given, onto)
    return lambda X: recoded(X.toarray() if is_sparse(X) else X)


def _mismatch(
    message: str, expected: Any, got: Any, first: str | int, hint: str = HINT
) -> InvalidContent:
    difference = {"expected": expected, "got": got, "first_difference": first}
    return InvalidContent.at("/dataset_id", "feature-mismatch", message, hint, **difference)
