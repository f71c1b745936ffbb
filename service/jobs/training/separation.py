"""About the splits of a training: how far rows are apart, and what is not measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from service.common.figures import counted, percent
from service.datasets.dataset import Dataset
from service.jobs.training.rows import LabeledRows, Split
from service.jobs.training.schemas import Folds, ValidationDataset, ValidationSplit
from service.rows.cell_texts.dates import iso
from svm.data.matrices import Indices

Measured = list[tuple[Indices, Indices]]


def _measured(splits: Sequence[Split]) -> Measured:
    return [(one.training, one.validation) for one in splits if one.validation is not None]


def facts_of(rows: LabeledRows, splits: Sequence[Split], dataset: Dataset) -> dict[str, Any]:
    """What `groups` and `times` make of the splits; empty if the dataset has neither.

    `unused_rows` are neither trained on nor measured; with folds they are in none. Lists have
    one member for each split; `said` is all of it in words.
    """
    groups, times, pairs = rows.apart.groups, rows.apart.times, _measured(splits)
    if not pairs or rows.apart.is_trivial:
        return {}
    folds = splits[0].validation is None
    used = [held_out for _, held_out in pairs] + ([] if folds else [pairs[0][0]])
    everything = rows.everything
    unused = len(everything) - len(np.unique(np.concatenate(used)))
    facts: dict[str, Any] = {"unused_rows": unused}
    if groups is not None:
        sides = [(np.unique(groups[some]), np.unique(groups[other])) for some, other in pairs]
        facts |= {
            "groups": len(np.unique(np.concatenate([measured for _, measured in sides]))),
            "groups_on_both_sides": sum(len(np.intersect1d(*both)) for both in sides),
            "class_shares_off_by": _off(rows, everything, pairs) if rows.is_of_classes else None,
        }
    if times is not None:
        facts |= {
            "trained_until": _shown([times[some].max() for some, _ in pairs], dataset),
            "measured_since": _shown([times[some].min() for _, some in pairs], dataset),
        }
    return facts | {"said": _sentences(facts, dataset, folds=folds)}


def _off(rows: LabeledRows, everything: Indices, pairs: Measured) -> int:
    """By how many rows of a class validation sets differ from their share at most."""
    totals, most = np.bincount(rows.codes(everything)), 0.0
    for _, held_out in pairs:
        counts = np.bincount(rows.codes(held_out), minlength=len(totals))
        share = len(held_out) / len(everything)
        most = max(most, float(np.abs(counts - share * totals).max()))
    return round(most)


def _shown(times: Sequence[float], dataset: Dataset) -> list[Any]:
    if dataset.time_is_date:
        return [iso(time) for time in times]
    return [int(time) if time.is_integer() else float(time) for time in times]


def _sentences(facts: dict[str, Any], dataset: Dataset, *, folds: bool) -> tuple[str, ...]:
    """The facts in words."""
    said = []
    if "groups" in facts:
        count, both = facts["groups"], facts["groups_on_both_sides"]
        one = f"{counted(count, 'group')} of {dataset.group!r}"
        text = f"{one} {'was' if count == 1 else 'were'} measured, {both} on both sides of a split"
        if (off := facts["class_shares_off_by"]) is not None:
            text += "; the classes of a validation set are off their shares by "
            text += f"{counted(off, 'row')} at most"
        said.append(f"{text}.")
    if "trained_until" in facts:
        last, first = facts["trained_until"][-1], facts["measured_since"][-1]
        which = "In the last split the" if len(facts["trained_until"]) > 1 else "The"
        said.append(
            f"{which} last training row is of {last}, the first validation row of {first} "
            f"(by {dataset.time!r})."
        )
    if facts.get("unused_rows"):
        what = "in no fold" if folds else "neither trained on nor measured"
        said.append(f"{facts['unused_rows']:,} rows are {what}, to keep the others apart.")
    return tuple(said)


def unmeasured(
    rows: LabeledRows,
    splits: Sequence[Split],
    validation: ValidationSplit | Folds | ValidationDataset | None,
) -> Iterator[str]:
    """Warnings about folds that are missing, and classes that not all folds, or no validation row,
    measure."""
    pairs = _measured(splits)
    if isinstance(validation, Folds) and len(pairs) < validation.folds:
        yield (f"There are {len(pairs)} folds, not {validation.folds}: more cannot be kept apart.")
    held_out, total = sum(len(some) for _, some in pairs), len(rows.everything)
    if isinstance(validation, ValidationSplit) and 2 * held_out < validation.fraction * total:
        yield (
            f"The validation set has {held_out:,} of {total:,} rows, fewer than half of the "
            f"{percent(validation.fraction, 0)} that were asked for: the others cannot be kept "
            "apart."
        )
    by_class = isinstance(validation, Folds) or (
        isinstance(validation, ValidationSplit) and validation.stratify
    )
    if not by_class or not rows.is_of_classes:
        return
    counts = np.bincount(rows.codes(rows.everything), minlength=len(rows.classes))
    measured = np.zeros(len(counts), np.int64)
    for _, some in pairs:
        measured += np.bincount(rows.codes(some), minlength=len(counts)) > 0
    for number, label in enumerate(rows.classes):
        count, times = int(counts[number]), int(measured[number])
        has = f"Class {label!r} has {count} {'row' if count == 1 else 'rows'}"
        if isinstance(validation, Folds) and times < len(pairs):
            yield (
                f"{has}: it was measured in {times} of {len(pairs)} folds, and trained on in all."
            )
        elif times == 0 and rows.in_one_group(number):
            yield f"{has}, all of one group: it is trained on, and the class is not measured."
        elif times == 0 and not rows.apart.is_trivial:
            yield f"{has}, none of them among the validation rows: the class is not measured."
        elif times == 0 and isinstance(validation, ValidationSplit):
            yield (
                f"{has}, too few to hold out {validation.fraction:g} of them: all are trained on, "
                "and the class is not measured."
            )
