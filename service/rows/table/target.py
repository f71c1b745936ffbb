"""The labels of a dataset: its classes, and which of them are equal to those of another one."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from service.rows.cell_texts.number_text import NUMBER, level_of
from service.rows.faults import refuse
from service.rows.spec import Label

MAX_CLASSES = 1000
"""More different numbers are kept as measurements; more different texts are refused."""

_BLOCK_ROWS = 1 << 17
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Target:
    """The labels of a dataset: classes with codes, or numbers too many to be classes."""

    classes: list[Label] | None
    counts: list[int] | None
    array: npt.NDArray[Any]
    """(n_samples,) codes, int32, -1 if there is no label; without classes the numbers, float64, NaN
    if there is none."""
    n_distinct: int
    continuous: bool
    """Too many to be classes, and not all integral."""
    missing: dict[str, int] = field(default_factory=dict)
    """How many rows have no label, by the word that they have instead; "" for an empty cell."""
    warnings: list[dict[str, Any]] = field(default_factory=list)
    likely: list[str] = field(default_factory=list)
    """Other columns that may hold the labels, if the caller named none."""

    @property
    def labeled(self) -> npt.NDArray[np.bool_]:
        """(n_samples,) whether each row has a label."""
        labeled: npt.NDArray[np.bool_] = (
            ~np.isnan(self.array) if self.classes is None else self.array >= 0
        )
        return labeled


def matched(labels: Sequence[Label], classes: Sequence[Label]) -> list[int | None]:
    """For each label its number among the classes of a dataset or a model; None for another one."""
    kind, numbers = kind_of(classes), {label: number for number, label in enumerate(classes)}
    same = [as_kind(label, kind) for label in labels]
    return [None if label is None else numbers.get(label) for label in same]


def as_kind(label: Label, kind: str) -> Label | None:
    """The label as a text or a number, since `"1"` is 1; None if it cannot be one."""
    if kind == "boolean" or isinstance(label, bool):
        return label if kind_of([label]) == kind else None
    if kind == "text":
        return level_of(label)
    return number_of(label) if isinstance(label, str) else label


def kind_of(classes: Sequence[Label] | None) -> str:
    """What all labels are: text, boolean or number."""
    label = classes[0] if classes else 0.0
    return {str: "text", bool: "boolean"}.get(type(label), "number")


def joined(*parts: tuple[Sequence[Label | None] | None, npt.NDArray[Any]]) -> Target:
    """The labels of parts one after another, as if they had come at once.

    A part is its classes, all of one kind in all parts, and a code for each row; or None and the
    numbers themselves. A class may be None: no label. Classes without a row must not be among them.
    Raises InvalidContent `too-many-classes`.
    """
    known = [list(classes) for classes, _ in parts if classes is not None]
    there = [label for classes in known for label in classes if label is not None]
    meant = dict(zip(there, _uniform(there), strict=True))
    classes = sorted(set(meant.values()))
    if len(known) == len(parts) and len(classes) <= MAX_CLASSES:
        number = {label: code for code, label in enumerate(classes)}
        place = {None: -1} | {label: number[same] for label, same in meant.items()}
        codes = [
            np.array([*(place[label] for label in own), -1], dtype=np.int32)[array]
            for own, (_, array) in zip(known, parts, strict=True)
        ]
        array = np.concatenate(codes)
        return Target(classes, _counts(array, len(classes)), array, len(classes), continuous=False)
    if any(isinstance(label, (str, bool)) for label in there):
        raise refuse(
            "too-many-classes", f"more than {MAX_CLASSES:,} different texts cannot be classes"
        )
    return _target_of_values(
        np.concatenate(
            [
                array if own is None else np.array([*own, None], dtype=np.float64)[array]
                for own, array in parts
            ]
        )
    )


def number_of(text: str) -> int | float | None:
    """The number in a cell, None for other texts and for one that is not finite."""
    if _INTEGER.fullmatch(text):
        return int(text)
    if NUMBER.fullmatch(text):
        value = float(text)
        return value if math.isfinite(value) else None
    return None


def _counts(codes: npt.NDArray[np.int32], n_classes: int) -> list[int]:
    """How many rows each class has."""
    counts = np.zeros(n_classes, dtype=np.int64)
    for block in _blocks(codes):
        counts += np.bincount(block[block >= 0], minlength=n_classes)
    return [int(count) for count in counts]


def _blocks(codes: npt.NDArray[np.int32]) -> Iterator[npt.NDArray[np.int32]]:
    """Views of some rows at a time: NumPy works on copies of twice the size."""
    for start in range(0, len(codes), _BLOCK_ROWS):
        yield codes[start : start + _BLOCK_ROWS]


def _target_of_values(values: npt.NDArray[np.float64]) -> Target:
    distinct, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    if len(distinct) <= MAX_CLASSES:  # few numbers, written in many ways
        codes = np.where(np.isnan(values), -1, np.searchsorted(distinct, values)).astype(np.int32)
        classes = _uniform(distinct.tolist())
        return Target(classes, counts.tolist(), codes, len(classes), continuous=False)
    continuous = not bool((distinct == np.floor(distinct)).all())
    return Target(None, None, values, len(distinct), continuous)


def _uniform(labels: list[Any]) -> list[Any]:
    """Numbers as integers if all of them are integral, else as floats; the rest as it is."""
    if not labels or isinstance(labels[0], (str, bool)):
        return labels
    if all(_is_integral(label) for label in labels):
        return [int(label) for label in labels]
    return [float(label) + 0.0 for label in labels]


def _is_integral(label: int | float) -> bool:
    if isinstance(label, int):
        return abs(label) < 2**63
    return label.is_integer() and abs(label) < 2**53
