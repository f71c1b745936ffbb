"""Many classes in pairs, beside SVC and LinearSVC: CPU seconds of one training, in one thread.

    python -m benchmarks pairs

Ours is certified to a relative gap of 1e-3; the peers have their default tolerances.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.svm import SVC, LinearSVC

from benchmarks.alternate import cpu_seconds
from svm import SVMClassifier
from svm.data.matrices import Array, Vector

CELLS = ((20, 4_000, 30), (100, 20_000, 30), (10, 2_000, 30))
"""Classes, rows and features."""
RUNS = 3
MODELS: dict[str, Callable[[], Any]] = {
    "ours": lambda: SVMClassifier("auto"),
    "SVC": lambda: SVC(kernel="linear"),
    "LinearSVC": lambda: LinearSVC(loss="hinge", max_iter=10_000),
}


def clouds(n_classes: int, n: int, d: int, seed: int = 0) -> tuple[Vector, Array]:
    """Overlapping clouds of equal size."""
    random = np.random.default_rng(seed)
    labels = np.arange(n) % n_classes
    return random.normal(size=(n_classes, d))[labels] + random.normal(size=(n, d)), labels


def main() -> None:
    warnings.simplefilter("ignore")
    for cell in CELLS:
        X, labels = clouds(*cell)
        fits = {name: partial(make().fit, X, labels) for name, make in MODELS.items()}
        medians = cpu_seconds(fits, RUNS)
        shown = ", ".join(f"{name} {value:.3f} s" for name, value in medians.items())
        ratio = medians["ours"] / medians["SVC"]
        print(
            f"{cell[0]} classes, {cell[1]:,} × {cell[2]}: {shown}; {ratio:.2f} of SVC", flush=True
        )


if __name__ == "__main__":
    main()
