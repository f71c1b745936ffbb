"""Scores of folds that keep groups apart, beside the truth on new groups.

    python -m benchmarks.separation [COUNT]

Each draw is a table whose groups have a center and a class of their own. The truth is the accuracy
on 20,000 rows of new groups: of the models of the folds, and of the one that is trained on all
rows, which is a little better. Folds by row look at the same table.
"""

from __future__ import annotations

import sys

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


Rows = tuple[Vector, Array]


def accuracies(trained: Rows, *rows: Rows) -> list[float]:
    """Of a model with features that can know a group again."""
    features = RandomFourier(n_components=300, gamma=2.0)
    training = Training(Pipeline(solver=Newton(C=10.0), features=features), *trained, seed=0)
    for _ in training:
        pass
    fitted = training.result().fitted
    return [float((fitted.predict(X) == y).mean()) for X, y in rows]


def measured(rows: Rows, new: Rows, apart: Apart | None) -> Vector:
    """The mean accuracies of the folds: on their own rows, and on new ones."""
    X, y = rows
    pairs = folds(y, 5, seed=0, apart=apart)
    both = [accuracies((X[a], y[a]), (X[b], y[b]), new) for a, b in pairs]
    means: Vector = np.mean(both, axis=0)
    return means


def main(count: int) -> None:
    """Print the mean differences of scores and truths, and their standard errors."""
    off: dict[str, list[float]] = {}
    for draw in range(count):
        random = np.random.default_rng(draw)
        rule = random.normal(size=4)
        X, y, groups = grouped(random, int(random.integers(60, 300)), 6, rule)
        new = grouped(random, NEW // 5, 5, rule)[:2]
        [final] = accuracies((X, y), new)
        for name, apart in (("groups", Apart(groups)), ("rows", None)):
            score, of_folds = measured((X, y), new, apart)
            off.setdefault(f"by {name}, minus that of their models", []).append(score - of_folds)
            off.setdefault(f"by {name}, minus that of the final one", []).append(score - final)
    for name, values in off.items():
        error = np.std(values) / np.sqrt(len(values))
        print(f"folds {name}: {100 * np.mean(values):+.2f} ± {100 * error:.2f} points")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
