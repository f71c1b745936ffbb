"""The audit of a training: what was found in its dataset, and what split and metrics add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from service.common.figures import first_of
from service.datasets.dataset import Dataset
from service.datasets.store import DatasetStore
from service.jobs.training.rows import LabeledRows
from service.jobs.training.schemas import TrainingOptions, ValidationDataset
from svm.audit import sampled_rows
from svm.audit.findings import Finding, listed, percent
from svm.data.matrices import Indices
from svm.data.stored_rows import piece_of, pieces
from svm.model.measures import interval
from svm.model.multiclass import label_name

SHOWN_CLASSES = 5
SHOWN_CHARACTERS = 40


def audit_of(
    dataset: Dataset,
    spec: TrainingOptions,
    validation: object,
    metrics: Mapping[str, Any],
    classes: Sequence[Any],
    more: Sequence[Finding] = (),
) -> list[dict[str, Any]]:
    """The findings that concern a training and are not muted: the order of the rows does only if
    its split is by time, and shuffles nothing. `validation` is that of the request, `metrics` by
    subset, `classes` by number."""
    measured = metrics.get("validation") or {}
    # In one table of few coarse columns different cases are equal by chance.
    copied = any(one["name"] == "duplicates" for one in dataset.audit)
    if copied or isinstance(validation, ValidationDataset):
        seen = trained_rows(measured.get("trained_rows"), _count(measured), "validation rows")
    else:
        seen = []
    own = [
        *seen,
        *_never_predicted(metrics, classes),
        *_within_baseline(measured, spec.class_weight),
        *more,
    ]
    findings = [*dataset.audit, *(finding.as_dict() for finding in own)]
    mute = set(spec.mute) | (set() if dataset.time else {"sorted-by-label"})
    return [one for one in findings if one["name"] not in mute]


def trained_rows(trained: int | None, n_samples: int, what: str) -> list[Finding]:
    """Whether half of the rows that a model is measured on, or more, are of its training: fewer may
    be equal by chance."""
    if trained is None or 2 * trained < n_samples:
        return []
    count = "All" if trained == n_samples else f"{trained:,}"
    found = f"{count} of the {n_samples:,} {what} are equal to training rows, labels included."
    numbers = {"count": trained, "n_samples": n_samples}
    return [Finding(name="trained-rows", found=found, numbers=numbers)]


def trained_groups(
    datasets: DatasetStore,
    trained: tuple[Dataset, Indices | None],
    measured: tuple[Dataset, Indices | None],
    what: str,
) -> list[Finding]:
    """Groups of another dataset's rows that are among those of the training, by their names. Of
    both the dataset and the groups of these rows. Raises Corrupt."""
    (dataset, old), (other, new) = trained, measured
    name = dataset.group
    if name is None or old is None or new is None:
        return []
    names = datasets.group_names(other, new)
    n_groups = len(names)
    both = len(np.intersect1d(names, datasets.group_names(dataset, old)))
    if not both:
        return []
    found = f"{both:,} of the {n_groups:,} groups of the {what} by `{name}` are groups of "
    found += "training rows, too."
    numbers = {"count": both, "n_groups": n_groups}
    return [Finding(name="trained-groups", found=found, columns=(name,), numbers=numbers)]


def constant_columns(rows: LabeledRows, training: Indices, dataset: Dataset) -> Iterator[Finding]:
    """Columns that vary in the dataset but not in these training rows."""
    statistics = dataset.of_columns
    if dataset.sparse or statistics is None or len(training) == len(rows):
        return
    sampled = training[sampled_rows(len(training), dataset.n_features)]
    X = np.asarray(piece_of(rows.X, slice(None), sampled))
    equal = (X[0] == X).all(axis=0)
    names: Sequence[str | int] = dataset.columns or range(dataset.n_features)
    ends = zip(statistics["min"], statistics["max"], strict=True)
    varies = [
        len(column.levels) > 1 if column.kind == "category" else low != high
        for column, (low, high) in zip(dataset.kinds, ends, strict=True)
    ]
    candidates = np.flatnonzero(equal & varies)
    if len(candidates):
        for part in map(np.asarray, pieces(rows.X, rows=training)):
            candidates = candidates[(part[:, candidates] == X[0, candidates]).all(axis=0)]
    if len(candidates):
        columns = tuple(names[j] for j in candidates.tolist())
        found = f"All training rows have the same value in {listed(columns)}."
        yield Finding(name="constant-after-splitting", found=found, columns=columns)


def _count(measured: Mapping[str, Any]) -> int:
    """Rows that were measured."""
    if "confusion_matrix" in measured:
        return int(sum(map(sum, measured["confusion_matrix"])))
    return int(measured.get("n_samples", 0))


def _never_predicted(metrics: Mapping[str, Any], classes: Sequence[Any]) -> Iterator[Finding]:
    """Classes that have training or validation rows and are predicted for none of these."""
    measured = (metrics.get(subset) or {} for subset in ("train", "validation"))
    counts = [each["confusion_matrix"] for each in measured if each.get("confusion_matrix")]
    if not counts:
        return
    confusion = np.sum(counts, axis=0)
    predicted = np.flatnonzero(confusion.sum(axis=0))
    missed = np.flatnonzero(confusion.sum(axis=1) * (confusion.sum(axis=0) == 0))
    if len(missed):
        names = [label_name(classes[k])[:SHOWN_CHARACTERS] for k in missed.tolist()]
        shown = first_of(names, SHOWN_CLASSES)
        found = f"The model never predicts {shown}."
        if len(predicted) == 1:
            only = label_name(classes[predicted[0]])[:SHOWN_CHARACTERS]
            found = f"The model predicts {only} for every row, and never {shown}."
        yield Finding(name="class-never-predicted", found=found, numbers={"count": len(missed)})


def _within_baseline(measured: Mapping[str, Any], class_weight: Any) -> Iterator[Finding]:
    """Whether the score on validation rows may be that of a model without columns. The accuracy
    says nothing if classes are weighted, or if almost all rows are in one group."""
    if counts := measured.get("confusion_matrix"):
        n = _count(measured)
        right, most = sum(row[k] for k, row in enumerate(counts)) / n, max(map(sum, counts)) / n
        rows = measured.get("n_effective", n)
        high = max(most, interval(most, rows)[1])
        if class_weight is None and rows and right <= high:
            found = (
                f"{percent(right)} of the validation rows are predicted correctly; always "
                f"predicting the largest class gives {percent(most)}, and up to {percent(high)} "
                "by chance."
            )
            numbers = {"score": right, "baseline": most}
            yield Finding(name="score-within-baseline", found=found, numbers=numbers)
    elif (baseline := measured.get("baseline")) and measured["intervals"]["mae"]:
        score, usual = measured["mae"], baseline["mae"]
        if measured["intervals"]["mae"][1] >= usual:
            than = "more than" if score > usual else "within its interval not less than"
            found = (
                f"The mean absolute error on validation rows is {score:.4g}, {than} the "
                f"{usual:.4g} of always predicting the median."
            )
            numbers = {"score": score, "baseline": usual}
            yield Finding(name="score-within-baseline", found=found, numbers=numbers)
