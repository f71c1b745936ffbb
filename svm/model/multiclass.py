"""Several classes by binary problems: one for each pair of classes, or one for each class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import combinations
from typing import Any, Literal

import numpy as np

from svm.data.matrices import CACHED_VALUES, Array, Indices, Signs, Vector

MulticlassName = Literal["one-vs-one", "one-vs-rest"]

_ZERO = np.zeros(())
"""Compared in half the time of a number of Python's."""
FEW_CLASSES = 32
"""Up to this number, a product with zeros for other pairs takes less time than to choose pairs."""


@dataclass(frozen=True, slots=True)
class BinarySplit:
    """The classes on the two sides of a binary problem, by number."""

    negative: tuple[int, ...]
    positive: int

    @property
    def classes(self) -> tuple[int, ...]:
        """The pair (i, j) of two classes; (j,) for j against all others."""
        return (*self.negative, self.positive) if len(self.negative) == 1 else (self.positive,)


def rows_and_sides(
    splits: Iterable[BinarySplit], codes: Array
) -> Iterator[tuple[Indices | None, Signs]]:
    """For each split the rows whose class `codes` (n_samples,) are in it, None for all; and ±1 for
    each of them."""
    known = codes if codes.dtype.kind == "u" else codes[codes >= 0]  # code -1 is no class
    counts = np.bincount(known).tolist()
    rows_of = cache(lambda k: np.flatnonzero(codes == k))
    for split in splits:
        classes, rows = (*split.negative, split.positive), None
        if sum(counts[k] for k in classes if k < len(counts)) < len(codes):
            rows = np.concatenate([rows_of(k) for k in classes])
            rows.sort(kind="stable")  # merges the ascending runs
        positive = (codes if rows is None else codes[rows]) == split.positive
        yield rows, 2 * positive.view(np.int8) - np.int8(1)


def splits_of(scheme: MulticlassName, n_classes: int) -> list[BinarySplit]:
    """The binary problems: pairs i < j in lexicographic order, or one per class; two classes: one.

    The positive class of a pair is j.
    """
    if scheme == "one-vs-one" or n_classes == 2:
        return [BinarySplit((i,), j) for i, j in combinations(range(n_classes), 2)]
    everything = range(n_classes)
    return [BinarySplit(tuple(i for i in everything if i != j), j) for j in everything]


def decision(scheme: MulticlassName, scores: Vector, n_classes: int) -> Vector:
    """Decision values from one score a binary problem, (n_samples, n_problems).

    Two classes: (n_samples,). More: (n_samples, n_classes); the largest is that of the label.
    """
    if n_classes == 2:
        return scores[:, 0]
    return scores if scheme == "one-vs-rest" else one_vs_one_decision(scores, n_classes)


def one_vs_one_decision(scores: Vector, n_classes: int) -> Vector:
    """Votes per class, (n_samples, n_classes), from one score a pair, (n_samples, n_pairs).

    A score > 0 is a vote for j, else for i. The summed scores of each class, scaled to
    -1/3 … 1/3 by the row's largest, are added: they decide between equal votes only. The label is
    the largest entry; if even the sums are equal, the lower class number.
    """
    lower = np.arange(n_classes - 1.0, -1.0, -1.0)  # pairs in which each class is i
    values = np.empty((len(scores), n_classes))
    rows = max(1, CACHED_VALUES // n_classes**2)
    for start in range(0, len(scores), rows):
        some = np.ascontiguousarray(scores[start : start + rows])
        sums = _sums_by_class(some, n_classes)
        votes = _sums_by_class((some > 0.0).astype(np.float64), n_classes) + lower
        largest = np.maximum(np.abs(sums).max(axis=1, keepdims=True), 1.0)
        values[start : start + rows] = votes + sums / largest / 3.0
    return values


def _sums_by_class(values: Vector, n_classes: int) -> Vector:
    """Over the pairs of each class, (n_samples, n_classes): added for j, subtracted for i."""
    sums: Vector
    if n_classes <= FEW_CLASSES:
        sums = np.matvec(_signs(n_classes), values)
    else:
        pairs, signs = _pairs_of_classes(n_classes)
        sums = np.vecdot(np.take(values, pairs, axis=1), signs)
    return sums


@lru_cache(maxsize=8)
def _signs(n_classes: int) -> Vector:
    """(n_classes, n_pairs): +1 if the class is j in the pair, -1 if it is i, else 0."""
    pairs, signs = _pairs_of_classes(n_classes)
    matrix = np.zeros((n_classes, n_classes * (n_classes - 1) // 2))
    np.put_along_axis(matrix, pairs, signs, axis=1)
    return matrix


@lru_cache(maxsize=8)
def _pairs_of_classes(n_classes: int) -> tuple[Indices, Vector]:
    """For each class the numbers of its pairs, and +1 if it is j, -1 if it is i: both (n_classes,
    n_classes - 1)."""
    lower, higher = np.triu_indices(n_classes, 1)
    every = np.arange(n_classes)[:, None]
    pairs = np.nonzero((lower == every) | (higher == every))[1].reshape(n_classes, -1)
    return pairs, np.where(higher[pairs] == every, 1.0, -1.0)


def codes_from_decision(decision: Vector) -> Array:
    """Class numbers (n_samples,) from decision values, (n_samples,) or (n_samples, n_classes)."""
    if decision.ndim == 1:
        return (decision > _ZERO).view(np.int8)
    codes: Array = np.argmax(decision, axis=1)
    return codes


def certainty(scheme: MulticlassName, scores: Vector, codes: Array, n_classes: int) -> Vector:
    """(n_samples,) how far the classes `codes`, which are those of `decision`, are from losing.

    Two classes: the absolute decision value. One-vs-rest: the decision value of the class.
    One-vs-one: the smallest score by which it beats another class; votes tell less, since most
    rows have all of them. `scores` as for `decision`.
    """
    if n_classes == 2:
        return np.abs(scores[:, 0])
    rows = np.arange(len(scores))
    if scheme == "one-vs-rest":
        return np.asarray(scores[rows, codes])
    pairs, signs = _pairs_of_classes(n_classes)
    smallest: Vector = scores[rows, pairs[codes, 0]] * signs[codes, 0]
    for k in range(1, n_classes - 1):
        np.minimum(smallest, scores[rows, pairs[codes, k]] * signs[codes, k], out=smallest)
    return smallest


def codes_of(classes: Array, labels: Array) -> Indices:
    """Class numbers (n_samples,) of labels; -1 for one that is not among the sorted classes."""
    codes = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    codes[classes[codes] != labels] = -1
    return codes


def label_name(label: Any) -> str:
    """A label as a key of a JSON object."""
    return str(label).lower() if isinstance(label, bool) else str(label)
