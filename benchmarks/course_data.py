"""Data for the algorithms of docs/courses.md, made without a network:

    python -m benchmarks.course_data FOLDER

`moons.csv` and `circle.csv` are drawn here, `iris.csv` and `digits-5-6.csv` (8 × 8 pixels) come
with scikit-learn. `rows.npz` and `columns.npz` are for the plots of time by size. `fashion.npz` has
all ten classes of Fashion-MNIST, if the Debian package `dataset-fashion-mnist` is installed; a
training on a pair names it by `"classes": [0, 6]`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, load_iris

from benchmarks import fashion_mnist
from benchmarks.course_documents import as_csv, moons
from svm.data.matrices import Vector

Labeled = tuple[Vector, Any]
"""(n_samples, n_features) and the labels."""


def circle() -> Labeled:
    """300 points of a square; those near its center are of class 1."""
    X = np.random.default_rng(7).uniform(-1.0, 1.0, (300, 2)).round(6)
    return X, np.where((X**2).sum(axis=1) < 0.5, 1, -1)


def iris() -> Labeled:
    X, labels = load_iris(return_X_y=True)
    return X, labels


def digits() -> Labeled:
    """The fives and sixes."""
    X, labels = load_digits(return_X_y=True)
    chosen = (labels == 5) | (labels == 6)
    return X[chosen], labels[chosen]


def clouds(n_samples: int, n_features: int) -> Labeled:
    """Two classes on both sides of a plane, with some rows on the wrong side."""
    random = np.random.default_rng(0)
    X = random.normal(size=(n_samples, n_features))
    scores = X @ random.normal(size=n_features) / np.sqrt(n_features)
    return X, np.where(scores + 0.5 * random.normal(size=n_samples) > 0.0, 1, -1)


TABLES = {"moons": moons, "circle": circle, "iris": iris, "digits-5-6": digits}
NAMES = {"circle": ("x", "y")}
"""Of columns that requests name."""
SIZES = {"rows": (20_000, 64), "columns": (1_000, 2_048)}


def write(folder: Path) -> list[Path]:
    """Write all files; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    return [*write_tables(folder), *write_arrays(folder)]


def write_tables(folder: Path) -> list[Path]:
    """Write those with few rows, as CSV."""
    written = []
    for name, table in TABLES.items():
        written.append(folder / f"{name}.csv")
        written[-1].write_bytes(as_csv(*table(), NAMES.get(name)))
    return written


def write_arrays(folder: Path) -> list[Path]:
    """Write those that show how times grow, as NPZ."""
    written = []
    arrays: dict[str, tuple[Any, Any]] = {name: clouds(*size) for name, size in SIZES.items()}
    if fashion_mnist.installed():
        images = fashion_mnist.images("train")
        arrays["fashion"] = images.X, images.labels
    for name, (X, labels) in arrays.items():
        written.append(folder / f"{name}.npz")
        np.savez(written[-1], X=X, y=labels)
    return written


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    print(*write(parser.parse_args().folder), sep="\n")
