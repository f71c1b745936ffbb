"""Labels as sorted classes and a code for each row, or as numbers: a numeric target.

Numbers are integers if every one of them is integral, so `5`, `5.0` and a CSV file's `5` are one
class; else they are floats. Text from a file is taken as numbers if all of it is numbers that say
the same as texts: `007` does not. Booleans are classes of their own, `True` in a text file is a
text: labels mean what they say. A row may have no label. `join_labels` is the one place that
decides whether numbers are classes.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from service.errors import InvalidContent
from service.rows.cell_texts.number_styles import NumberStyle, is_number, is_sure, survey
from service.rows.cell_texts.number_text import NUMBER, is_not_finite, level_of, number_hint
from service.rows.faults import Faults, refuse, warning
from service.rows.spec import LIBSVM, Label, LabelKind, ParseSpec

_CHANGES = re.compile(r"[+-]?0[0-9]+|[+-]?[0-9]{19,}")
"""Digits that are other digits as a number."""
_GAPS = frozenset({"nan", "na", "n/a", "null", "none", "?"})
"""Words that among numbers say that one is missing."""
MOST_CLASSES = 20
"""More different numbers are a numeric target, unless the caller says otherwise."""
MAX_CLASSES = 1000
"""More different numbers always are; more different texts are refused."""
SHARE_OF_NUMBERS = 0.9
"""Of different texts, from which on the others are probably mistakes."""
_BLOCK_ROWS = 1 << 17
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


class Labels:
    """Takes labels block by block, and keeps one number for each."""

    def __init__(
        self,
        faults: Faults,
        column: str | int | None = None,
        *,
        kind: LabelKind | None = None,
        missing: frozenset[str] = frozenset({""}),
        decimal: str | None = None,
        most: int = MOST_CLASSES,
    ) -> None:
        """`kind`: that which the caller or the dataset demands. `most`: as for `join_labels`.

        `missing`: texts of a file that say that there is no label. `decimal`: the mark that the
        caller gives.
        """
        self.count = 0
        self._words = missing
        self._faults = faults
        self._column = column
        self._kind = kind
        self._demanded = kind == "number"
        self._most = most
        self._decimal = decimal
        self._number: Callable[[str], int | float | None]
        self._number = _with_comma if decimal == "," else number_of
        self._text = False  # all labels came as text, whatever they mean
        self._lookup: dict[Any, int] = {None: -1}
        self._codes: list[npt.NDArray[np.int32]] = []
        self._values: list[npt.NDArray[np.float64]] | None = None
        self._missing: Counter[str] = Counter()
        self._warnings: list[dict[str, Any]] = []

    def add_texts(self, texts: list[str]) -> None:
        """Cells of a file; blanks around them do not count."""
        self._text = True
        distinct = set(texts)
        if any(text != text.strip() for text in distinct):
            texts = [text.strip() for text in texts]
            distinct = set(texts)
        if self._words.isdisjoint(distinct):
            self._keep(texts)
            return
        self._missing.update(text for text in texts if text in self._words)
        self._keep([None if text in self._words else text for text in texts])

    def add_codes(self, texts: list[str], codes: npt.NDArray[np.int64]) -> None:
        """Cells of a file as codes of `texts`; each of these is one of the cells so far."""
        texts = [text.strip() for text in texts]
        if self._values is not None or self._faults.total:
            self.add_texts([texts[code] for code in codes.tolist()])
            return
        self._text = True
        self.count += len(codes)
        for code, text in enumerate(texts):
            if text in self._words and (n_rows := int(np.count_nonzero(codes == code))):
                self._missing[text] += n_rows
        own = [-1 if text in self._words else self._code(text) for text in texts]
        self._codes.append(np.array(own, np.int32)[codes])
        self._bound()

    def add_json(self, labels: list[Any]) -> None:
        """JSON values: all text, all numbers, or all booleans; null if there is no label.

        Raises InvalidContent `invalid-field` if kinds are mixed.
        """
        for row, label in enumerate(labels, self.count + 1):
            if label is None:
                self._missing["null"] += 1
            elif not isinstance(label, (str, int, float)):
                hint = "a label is a text, a number or a boolean"
                self._faults.add("invalid-field", "the label is a list", row=row, hint=hint)
            elif isinstance(label, float) and not math.isfinite(label):
                self._not_finite(row, "1e999" if label > 0 else "-1e999")
        if self._kind == "category":
            labels = [label if label is None else level_of(label) for label in labels]
        elif self._kind == "number" and any(isinstance(label, str) for label in labels):
            self._text = True
            labels = [label if label is None else level_of(label) for label in labels]
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
        """(rows,) numbers or booleans; NaN if there is no label, and one that is not finite is a
        fault."""
        for i in np.flatnonzero(np.isinf(values)):
            self._not_finite(self.count + int(i) + 1, str(values[i]))
        missing = np.isnan(values)
        labels = values.tolist()
        if missing.any():
            self._missing["NaN"] += int(np.count_nonzero(missing))
            pairs = zip(labels, missing.tolist(), strict=True)
            labels = [None if gone else label for label, gone in pairs]
        if self._kind == "category":
            labels = [None if label is None else level_of(label) for label in labels]
        self._keep(labels)

    def skip(self, n_rows: int) -> None:
        """Rows whose labels are unknown, since the rows themselves are wrong."""
        self.count += n_rows

    def finish(self, n_samples: int | None = None) -> Target:
        """Raises InvalidContent, also if they are not as many as the rows."""
        if n_samples not in (None, self.count):
            message = f"{self.count:,} labels for {n_samples:,} rows"
            hint = "every row has one label, in the same order"
            raise refuse("label-count", message, hint=hint)
        self._faults.check()
        if self._values is not None:
            return self._target(None, np.concatenate(self._values) + 0.0)
        labels: list[Any] = list(self._lookup)[1:]
        codes = np.concatenate([np.zeros(0, dtype=np.int32), *self._codes])
        self._codes.clear()  # of millions of rows it is much
        if self._text and self._kind != "category":
            labels = self._meanings(labels, codes)
        return self._target(labels, codes)

    def _target(self, labels: list[Any] | None, array: npt.NDArray[Any]) -> Target:
        target = join_labels((labels, array), numbers=self._demanded, most=self._most)
        return replace(
            target,
            demanded=self._demanded,
            missing=dict(self._missing),
            warnings=self._warnings,
        )

    def _meanings(self, texts: list[str], codes: npt.NDArray[np.int32]) -> list[Any]:
        """What the texts of a file mean: themselves, numbers, or None for no label."""
        numbers = [self._number(text) for text in texts]
        others = [text for text, number in zip(texts, numbers, strict=True) if number is None]
        many = self._demanded or len(texts) > MOST_CLASSES
        if many and not all(map(_is_gap, others)) and self._read_styled(texts):
            numbers = [self._number(text) for text in texts]
            others = [text for text, number in zip(texts, numbers, strict=True) if number is None]
        if self._kind is None and (len(others) == len(texts) or not all(map(_is_gap, others))):
            self._warn_of_numbers(texts, others)
            return texts
        for text in others:
            rows = np.flatnonzero(codes == texts.index(text))
            if text.lower() in _GAPS:
                self._missing[text] += len(rows)
            elif is_not_finite(text):
                self._not_finite(int(rows[0]) + 1, text)
            else:
                self._not_a_number(int(rows[0]) + 1, text, "is not a number")
        self._faults.check()
        changed = next(filter(_CHANGES.fullmatch, texts), None)
        if changed is None or self._kind == "number":
            return numbers
        code = "leading-zeros" if "0" in changed[:2] else "long-numbers"
        message = f"the labels stay texts, since {changed[:64]!r} as a number would lose digits"
        hint = "if they are numbers, say in `schema` that the kind of the label is number"
        self._warnings.append(warning(code, f"{message}; {hint}"))
        pairs = zip(texts, numbers, strict=True)
        return [None if number is None else text for text, number in pairs]

    def _read_styled(self, texts: list[str]) -> bool:
        """Whether all labels are numbers in one style that they leave no doubt about, such as
        `$1,350,000`; if so, they are read in it."""
        words = [text for text in texts if not _is_gap(text)]
        found = survey(words)
        if not words or found.mixed or not is_sure(found.unit):
            return False
        mark = self._decimal or found.decided
        if mark is None and (found.only or found.either):
            return False
        style = NumberStyle(mark or ".", found.unit, scaled=found.scaled)
        values = list(map(style.value, words))
        if None in values:
            return False
        self._number = style.value
        message = f"the labels are read as numbers {style.described}: {words[0]!r} is {values[0]!r}"
        self._warnings.append(warning("numeric-target", message))
        return True

    def _warn_of_numbers(self, labels: list[str], others: list[str]) -> None:
        """If the `others`, which are not numbers, would be with a decimal point, or are few."""
        words = [text for text in others if not _is_gap(text)]
        n_numbers = len(labels) - len(others)
        if words and n_numbers > max(MOST_CLASSES, SHARE_OF_NUMBERS * len(labels)):
            message = f"the labels stay texts, since {words[0][:64]!r} is not a number as most are"
            hint = "correct it; or if it says that there is none, name it in `missing`"
            self._warnings.append(warning("nearly-read", f"{message}: {hint}"))
            return
        if not words or not all(map(is_number, words)):
            return
        hint = number_hint(words[0]) or "write them plainly"
        if "," in words[0]:
            hint += ", or say decimal=,"
            hint += "" if survey(words).decided else " or decimal=."
        message = f"the labels stay texts, such as {words[0]!r}; if they are numbers, {hint}"
        self._warnings.append(warning("nearly-read", message))

    def _code(self, label: Any) -> int:
        return self._lookup.setdefault(label, len(self._lookup) - 1)

    def _keep(self, labels: list[Any]) -> None:
        """None for no label."""
        first_row = self.count + 1
        self.count += len(labels)
        if self._faults.total:
            return  # the upload is refused anyway
        if self._values is not None:
            self._values.append(self._numbers(labels, first_row))
            return
        for label in dict.fromkeys(labels):
            self._code(label)
        lookup = self._lookup
        self._codes.append(np.fromiter(map(lookup.__getitem__, labels), np.int32, len(labels)))
        self._bound()

    def _bound(self) -> None:
        """Take labels that are too many to be classes as numbers."""
        if len(self._lookup) - 1 <= MAX_CLASSES:
            return
        distinct: list[Any] = list(self._lookup)[1:]
        codes = np.concatenate(self._codes)
        if self._text and self._kind != "category":
            others = (text for text in distinct if self._number(text) is None)
            if not all(map(_is_gap, others)) and not self._read_styled(distinct):
                raise too_many_texts(self._column)
            self._kind = "number"  # digits that would change, too: texts would be too many
            distinct = self._meanings(distinct, codes)
        if any(isinstance(label, str) for label in distinct):
            raise too_many_texts(self._column)
        values = np.array([*distinct, None], dtype=np.float64)  # None becomes NaN
        self._values = [values[codes]]
        self._lookup, self._codes = {}, []

    def _numbers(self, labels: list[Any], first_row: int) -> npt.NDArray[np.float64]:
        numbers = labels
        if self._text:
            numbers = [None if label is None else self._number(label) for label in labels]
            for row, (label, number) in enumerate(zip(labels, numbers, strict=True), first_row):
                if number is not None or label is None:
                    continue
                if label.lower() in _GAPS:
                    self._missing[label] += 1
                else:
                    message = "is not a number, and the labels before it are"
                    self._not_a_number(row, label, message)
        return np.array(numbers, dtype=np.float64)

    def _not_a_number(self, row: int, value: str, message: str) -> None:
        hint = number_hint(value) or "labels are all numbers, or all texts; or say target=none"
        if is_number(value):
            hint = "say decimal=, or decimal=., or write the labels plainly"
        column = self._column
        self._faults.add("not-a-number", message, value, hint, row=row, column=column)

    def _not_finite(self, row: int, value: str) -> None:
        self._faults.add(
            "non-finite-value",
            "is not a finite label",
            row=row,
            column=self._column,
            value=value,
            hint="remove the row, or upload without labels (target=none)",
        )


def _with_comma(text: str) -> int | float | None:
    """The number in a cell with a decimal comma."""
    return NumberStyle(",").value(text) if "," in text or "." in text else number_of(text)


def _is_gap(text: str) -> bool:
    return text.lower() in _GAPS or is_not_finite(text)


def too_many_texts(column: str | int | None) -> InvalidContent:
    """The error for more than `MAX_CLASSES` different ones."""
    message = f"the labels are more than {MAX_CLASSES:,} different texts"
    hint = "name the column of the labels as target, or say target=none"
    return refuse("too-many-classes", message, column=column, hint=hint)


@dataclass(frozen=True, slots=True)
class Target:
    """The labels of a dataset: classes with codes, or numbers."""

    classes: list[Label] | None
    counts: list[int] | None
    array: npt.NDArray[Any]
    """(n_samples,) codes, int32, -1 if there is no label; without classes the numbers, float64, NaN
    if there is none."""
    n_distinct: int
    continuous: bool
    """Numbers, and not all of them whole."""
    demanded: bool = False
    """The caller says that they are numbers."""
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


def match_labels(labels: Sequence[Label], classes: Sequence[Label]) -> list[int | None]:
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


def most_classes(spec: ParseSpec) -> int:
    """How many different whole numbers of an upload are classes: those of LIBSVM files are, and
    those that are appended to such classes."""
    before = (spec.onto.classes if spec.onto is not None else None) or ()
    kept = spec.file.media_type == LIBSVM or len(before) > MOST_CLASSES
    return MAX_CLASSES if kept else MOST_CLASSES


def join_labels(
    *parts: tuple[Sequence[Label | None] | None, npt.NDArray[Any]],
    numbers: bool = False,
    most: int = MOST_CLASSES,
) -> Target:
    """The labels of parts one after another, as if they had come at once.

    A part is its classes, all of one kind in all parts, and a code for each row; or None and the
    numbers themselves. A class may be None: no label. Classes without a row must not be among them.
    They are a numeric target if the caller demands `numbers`, if more than `most` are different, or
    if not all are whole. Raises InvalidContent `too-many-classes`.
    """

    def are_numbers(distinct: npt.NDArray[np.float64]) -> bool:
        whole = bool((distinct == np.floor(distinct)).all())
        return numbers or len(distinct) > most or not whole

    known = [list(classes) for classes, _ in parts if classes is not None]
    there = [label for classes in known for label in classes if label is not None]
    meant = dict(zip(there, _uniform(there), strict=True))
    classes = sorted(set(meant.values()))
    named = any(isinstance(label, (str, bool)) for label in there)
    few = len(known) == len(parts) and len(classes) <= MAX_CLASSES
    if few and (named or not are_numbers(np.array(classes, dtype=np.float64))):
        number = {label: code for code, label in enumerate(classes)}
        place = {None: -1} | {label: number[same] for label, same in meant.items()}
        parts_codes = [
            np.array([*(place[label] for label in own), -1], dtype=np.int32)[array]
            for own, (_, array) in zip(known, parts, strict=True)
        ]
        array = np.concatenate(parts_codes)
        return Target(classes, _counts(array, len(classes)), array, len(classes), continuous=False)
    if named:
        raise refuse(
            "too-many-classes", f"more than {MAX_CLASSES:,} different texts cannot be classes"
        )
    values = np.concatenate(
        [
            array if own is None else np.array([*own, None], dtype=np.float64)[array] + 0.0
            for own, array in parts
        ]
    )
    distinct, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    if are_numbers(distinct):
        continuous = not bool((distinct == np.floor(distinct)).all())
        return Target(None, None, values, len(distinct), continuous)
    # Few numbers, written in many ways.
    codes = np.where(np.isnan(values), -1, np.searchsorted(distinct, values)).astype(np.int32)
    classes = _uniform(distinct.tolist())
    return Target(classes, counts.tolist(), codes, len(classes), continuous=False)


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
