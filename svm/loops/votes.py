"""Votes of the pairs of classes, row by row."""

from __future__ import annotations

import numpy as np

from svm.data.matrices import Vector
from svm.loops import compiled


@compiled
def votes_and_sums(scores: Vector, out: Vector) -> None:
    """out (n, n_classes) from scores (n, n_pairs) of the pairs i < j: how many pairs each class
    wins, and its summed scores scaled to -1/3 … 1/3 by the row's largest."""
    n, n_classes = out.shape
    sums = np.empty(n_classes)
    for row in range(n):
        won = out[row]
        won[:] = 0.0
        sums[:] = 0.0
        pair = 0
        for i in range(n_classes):
            for j in range(i + 1, n_classes):
                score = scores[row, pair]
                sums[i] -= score
                sums[j] += score
                if score > 0.0:
                    won[j] += 1.0
                else:
                    won[i] += 1.0
                pair += 1
        largest = 1.0
        for i in range(n_classes):
            largest = max(largest, abs(sums[i]))
        for i in range(n_classes):
            won[i] += sums[i] / largest / 3.0
