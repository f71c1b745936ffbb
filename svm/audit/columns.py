"""Columns that say the label, by themselves or by what is missing in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from svm.audit.findings import Finding, FindingName, listed, percent
from svm.audit.truth import Truth
from svm.data.columns import Column
from svm.data.matrices import Array, Indices, Mask, Vector
from svm.data.row_hashes import text_hashes
from svm.data.texts import texts_of

FEWEST_ROWS = 30
FEWEST_IN_CLASS = 20
"""Rows with and without a class, for missing cells."""
FEWEST_LEVELS = 10
"""Of groups."""
SINGLE, IDENTIFIER, MISSING, GROUP = 0.95, 0.5, 0.6, 0.8
"""The shares from which on something is found."""
EASY = 0.7
"""If half of the other columns remove as much by themselves, the task is an easy one."""
ROWS_OF_GROUP = (2.0, 50.0)
COLLISIONS = 5.0
"""Pairs of equal numbers that random whole numbers of this range would have."""
DATES = 6
_DIGITS = re.compile(r"[0-9]+")
_IDENTIFIER = re.compile(
    r"(?i:(?:^|.*[^a-z])(?:id|nr|no|num|number|key|uuid|index)\.?)|.*[a-z](?:Id|ID|Nr|No|Key)"
)
STRONGEST: tuple[FindingName, ...] = (
    *("equal-to-label", "missing-pattern", "identifier", "group", "single-column"),
)
"""A column is named for the first of these only."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Some rows of a table with their labels."""

    X: Vector
    """(n, n_columns) raw values, with their texts."""
    columns: Sequence[Column]
    called: Sequence[str | int]
    """The columns' names or positions."""
    truth: Truth
    classes: Sequence[Any] | None = None
    """Labels by class number; None of a numeric target."""
    target: str | None = None
    n_samples: int = 0
    """Rows of the table."""

    @property
    def label(self) -> str:
        return "the label" if self.target is None else f"`{self.target}`"


@dataclass(eq=False)
class Found:
    """Columns by what was found in them, with the share of each."""

    shares: dict[FindingName, dict[int, float]] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)

    def add(self, name: FindingName, column: int, share: float) -> None:
        self.shares.setdefault(name, {})[column] = share


def column_findings(sample: Sample) -> Iterator[Finding]:
    """At most one of each name, about all columns that it concerns."""
    truth, n = sample.truth, len(sample.X)
    if n < FEWEST_ROWS or len(np.unique(truth.y)) < 2:
        return
    found, alone = Found(), np.zeros(len(sample.columns))
    for j, column in enumerate(sample.columns):
        x = np.asarray(sample.X[:, j])
        levels = _levels(sample, x, column)
        alone[j] = _look(found, sample, j, x, levels)
    _date_pairs(found, sample, alone)
    singles = found.shares.get("single-column", {})
    if singles and _is_easy(alone, singles):
        del found.shares["single-column"]
    for name, shares in found.shares.items():
        order = sorted(shares, key=lambda j: (-shares[j], j))
        said = _sentence(name, sample, order, shares[order[0]], found)
        yield Finding(
            name=name,
            found=said[0].upper() + said[1:],
            columns=tuple(sample.called[j] for j in order),
            numbers={"share": round(shares[order[0]], 4)},
        )


def _look(found: Found, sample: Sample, j: int, x: Vector, levels: Indices) -> float:
    """The share of the error that the column removes alone; what is strongest is `found`."""
    truth, column = sample.truth, sample.columns[j]
    n, n_levels = len(x), int(levels.max()) + 1
    if n_levels < 2:
        return 0.0
    ordered = column.kind in ("number", "date")
    repeats = n_levels <= n / 5
    share = truth.share_by_neighbors(x) if ordered else 0.0
    if repeats or not ordered:
        share = max(share, truth.share_by_levels(levels))
    if _is_equal(sample, x, levels, ordered):
        found.add("equal-to-label", j, 1.0)
        return share
    gap, said = _missing(sample, x)
    if gap >= MISSING:
        found.add("missing-pattern", j, gap)
        found.texts[j] = said
        return share
    number = x if ordered else _numbers_inside(sample, x, column)
    if number is not None and _identifies(number, column, levels):
        by_number = share if ordered else truth.share_by_neighbors(number)
        if by_number >= IDENTIFIER:
            found.add("identifier", j, by_number)
            return share
    levels, n_levels = _apart(levels, np.isnan(x))
    rows = _rows_of_level(levels, sample.n_samples)
    if n_levels >= FEWEST_LEVELS and ROWS_OF_GROUP[0] <= rows <= ROWS_OF_GROUP[1]:
        company, beside, count = truth.share_by_company(levels)
        # Values of which few repeat, by rounding, are no groups.
        usual = n * (1 - (1 - n / max(n, sample.n_samples)) ** (rows - 1))
        known = count >= max(FEWEST_ROWS, usual / 2)
        if known and company >= GROUP and (not ordered or beside < IDENTIFIER):
            found.add("group", j, company)
            found.texts[j] = f"{rows:.0f}"
            return share
    if share >= SINGLE:
        found.add("single-column", j, share)
    return share


def _levels(sample: Sample, x: Vector, column: Column) -> Indices:
    """(n,) equal for equal cells, and one for the missing ones; ascending with numbers."""
    if column.kind == "text":
        given = np.flatnonzero(~np.isnan(x))
        hashes = np.zeros(len(x), dtype=np.uint64)
        hashes[given] = text_hashes(texts_of(sample.X), x[given].astype(np.int64))
        return np.unique(hashes, return_inverse=True)[1]
    return np.unique(x, return_inverse=True)[1]


def _is_equal(sample: Sample, x: Vector, levels: Indices, ordered: bool) -> bool:
    """Whether each value has a label of its own, in all rows."""
    truth = sample.truth
    if truth.numeric:
        if not ordered or np.isnan(x).any() or levels.max() < FEWEST_LEVELS:
            return False
        one, other = (values / np.abs(values).max() for values in (x, truth.labels))
        one, other = one - one.mean(), other - other.mean()
        rest = other - (one @ other / (one @ one)) * one
        return bool(np.abs(rest).max() <= 1e-9 * np.abs(other).max())
    n_classes = int(truth.y.max()) + 1
    if levels.max() + 1 != n_classes:
        return False
    return len(truth.pairs(levels, np.ones(len(x), bool))[0]) == n_classes


def _missing(sample: Sample, x: Vector) -> tuple[float, str]:
    """The largest difference of the share of missing cells, between a class, or a third of the rows
    by a numeric target, and the others; and both shares in words."""
    missing = np.isnan(x)
    if not missing.any():
        return 0.0, ""
    truth = sample.truth
    groups = (truth.y * (2.999 if truth.numeric else 1)).astype(np.int64)
    sizes, holes = np.bincount(groups), np.bincount(groups, missing)
    others = len(x) - sizes
    enough = (sizes >= FEWEST_IN_CLASS) & (others >= FEWEST_IN_CLASS)
    if not enough.any():
        return 0.0, ""
    here = holes / np.maximum(sizes, 1)
    there = (missing.sum() - holes) / np.maximum(others, 1)
    k = int(np.argmax(np.where(enough, np.abs(here - there), -1)))
    if truth.numeric:
        whose = f"the rows with the {('lowest', 'middle', 'highest')[k]} third of {sample.label}"
    else:
        code = int(np.unique(truth.labels)[k])
        label = str(code if sample.classes is None else sample.classes[code])[:64]
        whose = f"the rows of {label!r}"
    said = f"is empty in {percent(here[k])} of {whose} and {percent(there[k])} of the others"
    return float(abs(here[k] - there[k])), said


def _numbers_inside(sample: Sample, x: Vector, column: Column) -> Vector | None:
    """(n,) the longest number in each text, such as 123 in `P-00123`; None if texts are without."""
    given = np.flatnonzero(~np.isnan(x))
    if column.kind not in ("category", "text") or len(given) < FEWEST_ROWS:
        return None
    codes = x[given].astype(np.int64).tolist()
    texts = texts_of(sample.X).take(codes) if column.kind == "text" else column.levels
    names = texts if column.kind == "text" else [texts[code] for code in codes]
    runs = [_DIGITS.findall(name) for name in names]
    if not all(runs):
        return None
    numbers = np.full(len(x), np.nan)
    numbers[given] = [float(max(each, key=len)[:15]) for each in runs]
    return numbers


def _identifies(number: Vector, column: Column, levels: Indices) -> bool:
    """Whether the values are all different whole numbers, as those that are counted up are: random
    ones would meet. Without that, they need the name of an identifier."""
    given = number[~np.isnan(number)]
    n, n_different = len(given), len(np.unique(given))
    whole = n >= FEWEST_ROWS and bool((given == np.floor(given)).all())
    if not whole or n_different < n or column.kind == "date":
        return False
    expected = n * n / (2 * max(1.0, float(given.max() - given.min())))
    named = column.kind != "number" or _IDENTIFIER.fullmatch(column.name) is not None
    return expected >= COLLISIONS or named


def _apart(levels: Indices, missing: Mask) -> tuple[Indices, int]:
    """The levels, each missing cell one of its own, and how many there are without these."""
    n_levels = int(levels.max()) + 1
    apart = np.where(missing, n_levels + np.cumsum(missing), levels)
    return np.unique(apart, return_inverse=True)[1], n_levels - bool(missing.any())


def _rows_of_level(levels: Indices, n_samples: int) -> float:
    """Rows that the level of a row has in the whole table, estimated by pairs of a sample."""
    n, counts = len(levels), np.bincount(levels).astype(np.float64)
    pairs = (counts * (counts - 1)).sum() / (n * (n - 1))
    return float(1 + pairs * (max(n_samples, n) - 1))


def _date_pairs(found: Found, sample: Sample, alone: Array) -> None:
    """Dates whose distance says the label, if neither does."""
    dates = [j for j, column in enumerate(sample.columns) if column.kind == "date"][:DATES]
    for one, other in combinations(dates, 2):
        if max(alone[one], alone[other]) < SINGLE:
            share = sample.truth.share_by_neighbors(sample.X[:, other] - sample.X[:, one])
            if share >= SINGLE:
                shares = found.shares.setdefault("date-after-event", {})
                shares[one] = max(share, shares.get(one, 0.0))
                shares[other] = max(share, shares.get(other, 0.0))


def _is_easy(alone: Array, singles: dict[int, float]) -> bool:
    """Whether the other columns say nearly as much: labels that anything tells are no leak."""
    others = np.delete(alone, list(singles)[:1])
    return len(others) > 0 and float(np.median(others)) >= EASY


def _sentence(
    name: FindingName, sample: Sample, order: Sequence[int], share: float, found: Found
) -> str:
    names = [sample.called[j] for j in order]
    first, label = listed(names[:1]), sample.label
    also = f" So for {listed(names[1:])}." if len(names) > 1 else ""
    if name == "equal-to-label":
        if sample.truth.numeric:
            return f"{first} is {label}, up to a factor and an offset, in every row.{also}"
        return f"Each value of {first} has a label of its own, the same in every row.{also}"
    if name == "missing-pattern":
        return f"{first} {found.texts[order[0]]}.{also}"
    if name == "date-after-event":
        return f"The time between {listed(names[:2])} alone {_says(sample, share)}."
    if name == "group":
        rows = found.texts[order[0]]
        return (
            f"Values of {first} repeat, in about {rows} rows each, and go with {label}: the other "
            f"rows of the same value {_says(sample, share, many=True)}.{also}"
        )
    if name == "identifier":
        number = "" if sample.columns[order[0]].kind == "number" else "The number in "
        return f"{number}{first}, different in every row, {_says(sample, share)}.{also}"
    return f"{first} alone {_says(sample, share)}.{also}"


def _says(sample: Sample, share: float, *, many: bool = False) -> str:
    """How good a prediction with this share of the usual errors removed is."""
    s = "" if many else "s"
    if sample.truth.numeric:
        return f"explain{s} {percent(share)} of the order of {sample.label}"
    y = sample.truth.y.astype(np.int64)
    largest = float(np.bincount(y).max()) / len(y)
    right = largest + share * (1 - largest)
    return f"give{s} {percent(right)} of the labels; the largest class is {percent(largest)}"
