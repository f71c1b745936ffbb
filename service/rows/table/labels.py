"""Labels as sorted classes and a code for each row.

Numbers are integers if every one of them is integral, so `5`, `5.0` and a CSV file's `5` are one
class; else they are floats. Text from a file is taken as numbers if all of it is numbers. Booleans
are classes of their own, `True` in a text file is a text: labels mean what they say.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from service.errors import InvalidContent
from service.rows.cell_texts.number_text import NOT_FINITE, NUMBER
from service.rows.faults import Faults, refuse
from service.rows.spec import Label

MAX_CLASSES = 1000
"""More different numbers are kept as measurements; more different texts are refused."""

_BLOCK_ROWS = 1 << 17
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_GAPS = NOT_FINITE | {"na", "n/a", "null", "none", "?", ""}


@dataclass(frozen=True, slots=True)
class Target:
    """The labels of a dataset: classes with codes, or numbers too many to be classes."""

    classes: list[Label] | None
    counts: list[int] | None
    array: npt.NDArray[Any]
    """Codes, int32; if there are no classes the numbers, float64. (n_samples,)"""
    n_distinct: int
    continuous: bool
    """Too many to be classes, and not all integral."""


class Labels:
    """Takes labels block by block, and keeps one number for each."""

    def __init__(
        self,
        faults: Faults,
        column: str | int | None = None,
        *,
        keep_text: bool = False,
        missing: frozenset[str] = frozenset({""}),
    ) -> None:
        """With `keep_text` the texts of a file are texts even if all of them are numbers.

        `missing`: texts of a file that say that there is no label.
        """
        self._words = missing
        self.hint = "remove the row, or upload without labels (target=none)"
        """What to do about a label that is missing."""
        self.count = 0
        self._faults = faults
        self._column = column
        self._keep_text = keep_text
        self._text = False  # all labels came as text, whatever they mean
        self._lookup: dict[Any, int] = {}
        self._codes: list[npt.NDArray[np.int32]] = []
        self._values: list[npt.NDArray[np.float64]] | None = None

    def add_texts(self, texts: list[str]) -> None:
        """Cells of a file; blanks around them do not count. An empty one is a fault."""
        self._text = True
        distinct = set(texts)
        if any(text != text.strip() for text in distinct):
            texts = [text.strip() for text in texts]
            distinct = set(texts)
        if not self._words.isdisjoint(distinct):
            for row, text in enumerate(texts, self.count + 1):
                if text in self._words:
                    self._missing(row, text or None)
        self._keep(texts)

    def add_codes(self, texts: list[str], codes: npt.NDArray[np.int64]) -> None:
        """Cells of a file as codes of `texts`; each of these is one of the cells so far."""
        texts = [text.strip() for text in texts]
        usual = self._values is None and self._words.isdisjoint(texts)
        if not usual or self._faults.total:
            self.add_texts([texts[code] for code in codes.tolist()])
            return
        self._text = True
        self.count += len(codes)
        own = [self._lookup.setdefault(text, len(self._lookup)) for text in texts]
        self._codes.append(np.array(own, np.int32)[codes])
        if len(self._lookup) > MAX_CLASSES:
            self._become_values()

    def add_json(self, labels: list[Any]) -> None:
        """JSON values: all text, all numbers, or all booleans.

        Raises InvalidContent `invalid-field` if kinds are mixed.
        """
        for row, label in enumerate(labels, self.count + 1):
            if label is None:
                self._missing(row, "null")
            elif not isinstance(label, (str, int, float)):
                hint = "a label is a text, a number or a boolean"
                self._faults.add("invalid-field", "the label is a list", row=row, hint=hint)
            elif isinstance(label, float) and not math.isfinite(label):
                self._not_finite(row, "1e999" if label > 0 else "-1e999")
        kinds = {type(label) for label in [*self._lookup, *labels] if label is not None}
        if self._values is not None:
            kinds.add(float)
        if len(kinds & {str, bool}) + bool(kinds & {int, float}) > 1:
            hint = "let them be all text, numbers or booleans"
            raise refuse(
                "invalid-field", "the labels are of several kinds", column=self._column, hint=hint
            )
        self._keep(labels)

    def add_numbers(self, values: npt.NDArray[Any]) -> None:
        """(rows,) numbers or booleans; one that is not finite is a fault."""
        for i in np.flatnonzero(~np.isfinite(values)):
            self._not_finite(self.count + int(i) + 1, str(values[i]))
        self._keep(values.tolist())

    def skip(self, n_rows: int) -> None:
        """Rows whose labels are unknown, since the rows themselves are wrong."""
        self.count += n_rows

    def finish(self) -> Target:
        """Raises InvalidContent."""
        self._faults.check()
        if self._values is not None:
            return _target_of_values(np.concatenate(self._values) + 0.0)
        labels: list[Any] = list(self._lookup)
        codes = np.concatenate([np.zeros(0, dtype=np.int32), *self._codes])
        self._codes.clear()  # of millions of rows it is much
        if self._text and not self._keep_text:
            numbers = [number_of(text) for text in labels]
            if None in numbers:
                self._refuse_gaps(labels, codes)
            else:
                labels = numbers
        labels = _uniform(labels)
        classes = sorted(set(labels))
        place = {label: code for code, label in enumerate(classes)}
        in_order = np.array([place[label] for label in labels], dtype=np.int32)
        for block in _blocks(codes):
            block[:] = in_order[block]
        return Target(classes, _counts(codes, len(classes)), codes, len(classes), continuous=False)

    def _keep(self, labels: list[Any]) -> None:
        first_row = self.count + 1
        self.count += len(labels)
        if self._faults.total:
            return  # the upload is refused anyway
        if self._values is not None:
            self._values.append(self._numbers(labels, first_row))
            return
        lookup = self._lookup
        for label in dict.fromkeys(labels):
            lookup.setdefault(label, len(lookup))
        self._codes.append(np.fromiter(map(lookup.__getitem__, labels), np.int32, len(labels)))
        if len(lookup) > MAX_CLASSES:
            self._become_values()

    def _become_values(self) -> None:
        distinct = list(self._lookup)
        as_numbers = self._text and not self._keep_text
        numbers = [number_of(text) for text in distinct] if as_numbers else distinct
        if not all(isinstance(number, (int, float)) for number in numbers):
            raise too_many_texts(self._column)
        values = np.array(numbers, dtype=np.float64)
        self._values = [values[codes] for codes in self._codes]
        self._lookup, self._codes = {}, []

    def _numbers(self, labels: list[Any], first_row: int) -> npt.NDArray[np.float64]:
        numbers = [number_of(label) for label in labels] if self._text else labels
        for row, (label, number) in enumerate(zip(labels, numbers, strict=True), first_row):
            if number is None:
                self._faults.add(
                    "not-a-number",
                    "is not a number, and the labels before it are",
                    row=row,
                    column=self._column,
                    value=label,
                    hint="labels are all numbers, or all texts; or say target=none",
                )
        return np.array([0 if number is None else number for number in numbers], dtype=np.float64)

    def _refuse_gaps(self, texts: list[str], codes: npt.NDArray[np.int32]) -> None:
        """Numbers beside words are not classes if the words only say that a number is missing."""
        words = {text for text in texts if number_of(text) is None}
        if len(words) == len(texts) or not all(w.lower().lstrip("+-") in _GAPS for w in words):
            return
        wrong = [self._lookup[word] for word in words]
        for i in np.flatnonzero(np.isin(codes, wrong)):
            self._missing(int(i) + 1, texts[codes[i]])
        self._faults.check()

    def _missing(self, row: int, value: str | None = None) -> None:
        self._faults.add(
            "missing-value",
            "the label is missing" if value is None else f"{value!r} is not a label",
            row=row,
            column=self._column,
            value=value,
            hint=self.hint,
        )

    def _not_finite(self, row: int, value: str) -> None:
        self._faults.add(
            "non-finite-value",
            "is not a finite label",
            row=row,
            column=self._column,
            value=value,
            hint=self.hint,
        )


def too_many_texts(column: str | int | None) -> InvalidContent:
    """The error for more than `MAX_CLASSES` different ones."""
    message = f"the labels are more than {MAX_CLASSES:,} different texts"
    hint = "name the column of the labels as target, or say target=none"
    return refuse("too-many-classes", message, column=column, hint=hint)


def wrong_count(n_labels: int, n_samples: int) -> InvalidContent:
    """The error for labels that are not as many as the rows."""
    hint = "every row has one label, in the same order"
    return refuse("label-count", f"{n_labels:,} labels for {n_samples:,} rows", hint=hint)


def joined(*parts: tuple[list[Label] | None, npt.NDArray[Any]]) -> Target:
    """The labels of parts one after another, as if they had come at once.

    A part is its classes, all of one kind in all parts, and a code for each row; or None and the
    numbers themselves. Classes without a row must not be among them. Raises InvalidContent
    `too-many-classes`.
    """
    known = [list(classes) for classes, _ in parts if classes is not None]
    labels = _uniform([label for classes in known for label in classes])
    classes = sorted(set(labels))
    if len(known) == len(parts) and len(classes) <= MAX_CLASSES:
        place = {label: code for code, label in enumerate(classes)}
        ends = np.cumsum([0, *map(len, known)])
        new = np.array([place[label] for label in labels], dtype=np.int32)
        codes = np.concatenate(
            [new[start:][array] for start, (_, array) in zip(ends, parts, strict=False)]
        )
        return Target(classes, _counts(codes, len(classes)), codes, len(classes), continuous=False)
    if labels and not isinstance(labels[0], (int, float)):
        raise refuse(
            "too-many-classes", f"more than {MAX_CLASSES:,} different texts cannot be classes"
        )
    return _target_of_values(
        np.concatenate(
            [
                array if own is None else np.array(own, dtype=np.float64)[array]
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
        counts += np.bincount(block, minlength=n_classes)
    return [int(count) for count in counts]


def _blocks(codes: npt.NDArray[np.int32]) -> Iterator[npt.NDArray[np.int32]]:
    """Views of some rows at a time: NumPy works on copies of twice the size."""
    for start in range(0, len(codes), _BLOCK_ROWS):
        yield codes[start : start + _BLOCK_ROWS]


def _target_of_values(values: npt.NDArray[np.float64]) -> Target:
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) <= MAX_CLASSES:  # few numbers, written in many ways
        codes = np.searchsorted(distinct, values).astype(np.int32)
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
