"""Scores of folds that keep groups apart, beside the truth on new groups.

    python -m benchmarks.separation [COUNT]

Each draw is a table whose groups have a center and a class of their own. The truth is the accuracy
of the model on 20,000 rows of new groups; folds by row look at the same table.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from svm import Newton, Pipeline, Training
from svm.data.matrices import Array, Vector
from svm.data.splitting import Apart, folds
from svm.transforms.features import RandomFourier

NEW = 20_000


def grouped(
    random: np.random.Generator, n_groups: int, rows: int, rule: Vector
) -> tuple[Vector, Array, Array]:
    """Rows of a group are alike and have one class, that of their center by a noisy rule."""
    centers = random.normal(size=(n_groups, len(rule)))
    of_group = centers @ rule + random.normal(scale=1.5, size=n_groups) > 0
    groups = np.repeat(np.arange(n_groups), rows)
    X = centers[groups] + 0.1 * random.normal(size=(len(groups), len(rule)))
    return X, of_group[groups].astype(int), groups


def accuracy(X: Vector, y: Array, new: Vector, truth: Array) -> float:
    """Of a model with features that can know a group again."""
    features = RandomFourier(n_components=300, gamma=2.0)
    training = Training(Pipeline(solver=Newton(C=10.0), features=features), X, y, seed=0)
    for _ in training:
        pass
    return float((training.result().fitted.predict(new) == truth).mean())


def measured(X: Vector, y: Array, apart: Apart | None) -> float:
    """The accuracy over all folds."""
    right = []
    for training, held_out in folds(y, 5, seed=0, apart=apart):
        share = accuracy(X[training], y[training], X[held_out], y[held_out])
        right.append((share * len(held_out), len(held_out)))
    sums: Any = np.sum(right, axis=0)
    return float(sums[0] / sums[1])


def main(count: int) -> None:
    """Print the mean difference to the truth, and its standard error, by rows and by groups."""
    off: dict[str, list[float]] = {"groups": [], "rows": []}
    for draw in range(count):
        random = np.random.default_rng(draw)
        rule = random.normal(size=4)
        X, y, groups = grouped(random, int(random.integers(60, 300)), 6, rule)
        new, truth, _ = grouped(random, NEW // 5, 5, rule)
        known = accuracy(X, y, new, truth)
        off["groups"].append(measured(X, y, Apart(groups)) - known)
        off["rows"].append(measured(X, y, None) - known)
    for name, values in off.items():
        error = np.std(values) / np.sqrt(len(values))
        print(f"folds by {name}: {100 * np.mean(values):+.2f} ± {100 * error:.2f} points")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
