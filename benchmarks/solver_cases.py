"""The problems that solvers are timed on.

"12k × 784" is a pair of Fashion-MNIST if it is installed, "ten classes" its first 2,000 rows of
each class. The others are made at random in the shape of known data: "500k × 54" the forest cover
types, "32k × 123" the binary features of the census (a9a), "5M × 18" the collisions of SUSY.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks import fashion_mnist
from benchmarks.problems import binary_like, cover_like, image_like, text_like
from svm import GaussianKernel
from svm.data.matrices import Vector


@dataclass(frozen=True)
class Case:
    """Data with a regularization; with γ a Gaussian kernel's, else a linear problem."""

    name: str
    X: Any
    labels: Any
    C: float
    gamma: float | None = None


def all_cases(chosen: str = "") -> list[Case]:
    """The cases whose names contain `chosen`."""
    cases: list[tuple[str, Callable[[str], Case]]] = []
    for C in (0.01, 0.1, 1.0, 100.0):
        cases.append((f"dense 12k × 784, C = {C:g}", partial(_images, C=C)))
    for C in (1.0, 100.0):
        cases.append((f"dense 500k × 54, C = {C:g}", partial(_cover, C=C)))
    cases.append(("dense 5M × 18, C = 2e-5", _collisions))
    cases.append(
        ("CSR binary 32k × 123, C = 1", lambda name: Case(name, *binary_like(32_561), 1.0))
    )
    for C in (0.1, 1.0, 10.0):
        cases.append((f"CSR text 50k × 50k, C = {C:g}", partial(_texts, C=C)))
    for C in (1.0, 10.0):
        cases.append((f"Gaussian 12k × 784, C = {C:g}", partial(_images, C=C, kernel=True)))
    cases.append(("Gaussian ten classes 20k × 784, C = 1", _ten_classes))
    return [make(name) for name, make in cases if chosen in name]


def _images(name: str, C: float, kernel: bool = False) -> Case:
    if fashion_mnist.installed():
        pair = fashion_mnist.images("train").of(0, 6)
        X, labels = pair.X / 255.0, np.where(pair.labels == 6, 1.0, -1.0)
    else:
        X, labels = image_like(12_000, 784)
    return Case(name, X, labels, C, _gamma(X) if kernel else None)


def _cover(name: str, C: float) -> Case:
    return Case(name, *cover_like(500_000), C)


def _collisions(name: str) -> Case:
    """The labels follow the first features, and a fifth of them are wrong, as with SUSY."""
    random = np.random.default_rng(0)
    X = random.normal(size=(5_000_000, 18))
    scores = X[:, :8] @ random.normal(size=8) + 2.0 * random.normal(size=len(X))
    return Case(name, X, np.where(scores > 0.0, 1.0, -1.0), 2e-5)


def _texts(name: str, C: float) -> Case:
    return Case(name, *text_like(50_000, 50_000, 0.001), C)


def _ten_classes(name: str) -> Case:
    if fashion_mnist.installed():
        some = fashion_mnist.images("train").of(*range(10), rows_of_class=2000)
        X, labels = some.X / 255.0, some.labels.astype(np.float64)
    else:
        X, _ = image_like(20_000, 784)
        labels = np.argmax(X[:, :10], axis=1).astype(np.float64)
    return Case(name, X, labels, 1.0, _gamma(X))


def _gamma(X: Vector) -> float:
    return float(GaussianKernel().fitted(X).gamma)
