"""Several classes by binary problems: one for each pair of classes."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt

from svm.matrices import Vector


def pairs_of(n_classes: int) -> list[tuple[int, int]]:
    """The pairs i < j in lexicographic order; the positive class of each is j."""
    return list(combinations(range(n_classes), 2))


def one_vs_one_decision(scores: Vector, n_classes: int) -> Vector:
    """Votes per class, (n_samples, n_classes), from one score a pair, (n_samples, n_pairs).

    A score > 0 is a vote for j, else for i. The summed scores of each class, shrunk into
    -1/3 … 1/3 by the row's largest, are added: they decide between equal votes and never beat one.
    The label is the largest entry, the lower class number where even the sums are equal.
    """
    votes = np.zeros((len(scores), n_classes))
    sums = np.zeros_like(votes)
    for k, (i, j) in enumerate(pairs_of(n_classes)):
        positive = scores[:, k] > 0
        votes[:, j] += positive
        votes[:, i] += ~positive
        sums[:, j] += scores[:, k]
        sums[:, i] -= scores[:, k]
    largest = np.maximum(np.abs(sums).max(axis=1, keepdims=True), 1.0)
    decision: Vector = votes + sums / largest / 3.0
    return decision


def codes_from_decision(decision: Vector) -> npt.NDArray[np.intp]:
    """Class numbers (n_samples,) from decision values, (n_samples,) or (n_samples, n_classes)."""
    if decision.ndim == 1:
        return (decision > 0).astype(np.intp)
    codes: npt.NDArray[np.intp] = np.argmax(decision, axis=1)
    return codes
