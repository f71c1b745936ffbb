"""From the columns of a dataset to those that a model takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from service.datasets.dataset import Dataset, columns_of
from service.errors import MAX_FAULTS, InvalidContent
from service.models.versions import ModelVersion
from service.rows.faults import MAX_VALUE_CHARACTERS
from svm.data.columns import Column, Columns
from svm.data.matrices import is_sparse
from svm.encoding import recoding
from svm.errors import InvalidData
from svm.model.pipeline import FittedPipeline

MOST_NAMES = 20
"""Of one message."""
HINT = "use a dataset with the features that the model was trained on"


def check_columns(dataset: Dataset, version: ModelVersion) -> None:
    """Raises as `taken_by`, which needs the model itself for its levels."""
    if is_plain(version) and dataset.table is None:
        positions(dataset, version)
    else:
        _recoding(dataset, version, kinds_of(version))


def taken_by(
    fitted: FittedPipeline, dataset: Dataset, version: ModelVersion
) -> Callable[[Any], Any]:
    """From rows of the dataset to rows as the model takes them: in its order, with its levels.

    Raises InvalidContent and InvalidData (`feature-mismatch`, `missing-value`).
    """
    if fitted.columns is None and dataset.table is None:
        order = positions(dataset, version)
        return lambda X: X if order is None else X[:, order]
    recoded = _recoding(dataset, version, fitted.columns or kinds_of(version))
    return lambda X: recoded(X.toarray() if is_sparse(X) else X)


def is_plain(version: ModelVersion) -> bool:
    """Whether the model takes finite numbers only."""
    return version.result.get("table") is None


def kinds_of(version: ModelVersion) -> Columns:
    """The columns of a model, without levels."""
    table = version.result.get("table")
    if table is not None:
        return tuple(Column(column["name"], column["kind"]) for column in table["columns"])
    return tuple(Column(name) for name in version.columns or map(str, range(version.n_features)))


def unused_columns(dataset: Dataset, version: ModelVersion) -> list[str]:
    """Features of the dataset that the model does not use, at most a hundred."""
    if dataset.columns is None or version.columns is None:
        return []
    used = frozenset(version.columns)
    return [name for name in dataset.columns if name not in used][:MAX_FAULTS]


def positions(dataset: Dataset, version: ModelVersion) -> list[int] | None:
    """The position in the dataset of each of the model's features; None if they are in order and
    there are no others.

    Raises InvalidContent `feature-mismatch`.
    """
    if dataset.columns is not None and version.columns is not None:
        _require_all(dataset, version.columns)
        given = list(dataset.columns)
        if given == version.columns:
            return None
        place = {name: position for position, name in enumerate(given)}
        return [place[name] for name in version.columns]
    if dataset.n_features != version.n_features:
        message = (
            f"the model takes {version.n_features} features, the dataset has {dataset.n_features}"
        )
        fewer = min(version.n_features, dataset.n_features)
        raise _mismatch(message, version.n_features, dataset.n_features, fewer)
    return None


def _require_all(dataset: Dataset, expected: list[str]) -> None:
    """Raises InvalidContent `feature-mismatch` if the dataset lacks columns of the model."""
    assert dataset.columns is not None
    given = list(dataset.columns)
    there = frozenset(given)
    missing = [name for name in expected if name not in there]
    if not missing:
        return
    message = f"the dataset lacks the model's {_listed(missing)}"
    hint = HINT
    reasons = {one["name"]: f"its upload ignored it ({one['reason']})" for one in dataset.ignored}
    if dataset.target is not None:
        reasons[dataset.target] = "it is the label of the dataset"
    if dataset.weight is not None:
        reasons[dataset.weight] = "it has the weights of the dataset"
    if (name := next((name for name in missing if name in reasons), None)) is not None:
        message += f"; {name!r} is not a feature: {reasons[name]}"
        hint = f"upload the data again, with the role `feature` and the kind of {name!r} in "
        hint += "`schema`"
    raise _mismatch(message, expected, given[:MAX_FAULTS], missing[0], hint)


def _listed(names: list[str]) -> str:
    """Such as "columns 'a', 'b' and 7 more"."""
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    shown = ", ".join(repr(name[:MAX_VALUE_CHARACTERS]) for name in names[:MOST_NAMES])
    return f"column{'s' if len(names) > 1 else ''} {shown}{more}"


def _recoding(dataset: Dataset, version: ModelVersion, onto: Columns) -> Callable[[Any], Any]:
    positions(dataset, version)
    given = columns_of(dataset)
    named = dataset.columns is not None and version.columns is not None
    if not named:  # columns are matched by their place
        given = tuple(replace(c, name=like.name) for c, like in zip(given, onto, strict=True))
    if is_plain(version):
        used = {column.name for column in onto}
        for column, missing in zip(given, dataset.missing or (), strict=True):
            if missing and column.name in used:
                raise InvalidData(
                    "missing-value",
                    f"column {column.name!r} has {missing} missing cells, and the model was "
                    "trained on a table without any",
                )
    return recoding(given, onto)


def _mismatch(
    message: str, expected: Any, got: Any, first: str | int, hint: str = HINT
) -> InvalidContent:
    difference = {"expected": expected, "got": got, "first_difference": first}
    return InvalidContent.at("/dataset_id", "feature-mismatch", message, hint, **difference)
