"""The algorithms of the course documents, written from their text, on the data of docs/courses.md.

They share no code with `svm`: own draws, own loops, one row after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_iris

from benchmarks.course_data import circle
from tests.svm.cases.real_data import digits, tutorial

Vector = NDArray[np.float64]
Run = Callable[[int], float]
"""The figure of a literal run, by its seed."""

UPDATES = 4000
LAMBDA = 1.0
GAMMA = 0.01
C = 100.0


def _digits(part: str) -> tuple[Vector, Vector]:
    X, labels = digits(part)
    return X, np.where(labels == 6, 1.0, -1.0)


def _error(scores: Vector, y: Vector) -> float:
    return 100.0 * float(np.mean(np.where(scores > 0, 1.0, -1.0) != y))


def pegasos(
    intercept: str = "none",
    *,
    k: int = 1,
    project: bool = False,
    each_row_once: bool = False,
    average: bool = False,
    patience: int = 0,
) -> Run:
    """Test error in percent after 4,000 updates: figures 1 and 2 of the paper; the intercept as a
    constant feature, or with b ← b + η y. With patience, the lowest after an epoch, once as many
    epochs had no lower one."""

    def run(seed: int) -> float:
        X, y = _digits("train")
        held_out, expected = _digits("test")
        if intercept == "augmented":
            X, held_out = (np.column_stack([part, np.ones(len(part))]) for part in (X, held_out))
        random, w, b = np.random.default_rng(seed), np.zeros(X.shape[1]), 0.0
        total, total_b = np.zeros_like(w), 0.0
        rows, errors = random.permutation(len(y)), [np.inf]
        for t in range(1, UPDATES + 1):
            if each_row_once or patience:
                rows = random.permutation(len(y)) if (t - 1) % len(y) == 0 else rows
                batch = rows[(t - 1) % len(y) : (t - 1) % len(y) + 1]
            else:
                batch = random.integers(len(y), size=k)
            eta = 1.0 / (LAMBDA * t)
            violating = batch[y[batch] * (X[batch] @ w + b) < 1.0]
            w = (1.0 - eta * LAMBDA) * w + eta / k * (y[violating] @ X[violating])
            if intercept == "free":
                b += eta / k * float(y[violating].sum())
            if project:
                w = min(1.0, 1.0 / (np.sqrt(LAMBDA) * max(float(np.linalg.norm(w)), 1e-300))) * w
            total, total_b = total + w, total_b + b
            if patience and t % len(y) == 0:
                errors.append(_error(held_out @ w + b, expected))
                if len(errors) - 1 - int(np.argmin(errors)) == patience:
                    return min(errors)
        if average:
            w, b = total / UPDATES, total_b / UPDATES
        return _error(held_out @ w + b, expected)

    return run


def kernel_pegasos(seed: int) -> float:
    """Test error in percent after 4,000 updates: figure 3 of the paper, Gaussian kernel."""
    X, y = _digits("train")
    held_out, expected = _digits("test")

    def kernel(A: Vector, B: Vector) -> Vector:
        squares = (A**2).sum(axis=1)[:, None] - 2.0 * A @ B.T + (B**2).sum(axis=1)
        values: Vector = np.exp(-GAMMA * squares)
        return values

    K, counts = kernel(X, X), np.zeros(len(y))
    random, λ = np.random.default_rng(seed), 0.01
    for t in range(1, UPDATES + 1):
        i = random.integers(len(y))
        if y[i] / (λ * t) * float((counts * y) @ K[i]) < 1.0:
            counts[i] += 1
    return _error(kernel(held_out, X) @ (counts * y), expected)


def subgradient(step: str, features: Callable[[Vector], Vector], *, penalized: bool = True) -> Run:
    """Training error in percent after 50 passes over the circle, ‖w‖² + C Σ hinge with C = 1; the
    intercept penalized as a weight, or not."""

    def run(seed: int) -> float:
        X, labels = circle()
        X, y = features(X), labels.astype(float)
        X = np.column_stack([X, np.ones(len(y))])
        λ, w = 2.0 / len(y), np.zeros(X.shape[1])
        random, t = np.random.default_rng(seed), 0
        for epoch in range(1, 51):
            t = 0 if step == "restarted" else t
            for i in random.permutation(len(y)):
                t += 1
                eta = {"doubled": 2.0 / (λ * t), "per-epoch": 1.0 / (λ * epoch)}.get(
                    step, 1.0 / (λ * t)
                )
                violated = y[i] * (X[i] @ w) < 1.0
                kept = np.full(len(w), 1.0 - eta * λ)
                kept[-1] = kept[-1] if penalized else 1.0
                w = kept * w
                w += eta * y[i] * X[i] if violated else 0.0
        return _error(X @ w, y)

    return run


def squares(X: Vector) -> Vector:
    return X**2


def with_product(X: Vector) -> Vector:
    return np.column_stack([X**2, X[:, 0] * X[:, 1]])


def descent(
    batch: int | None, eta: float, epsilon: float, smoothing: float, start: float = 0.0
) -> list[Run]:
    """The tutorial's descent on ½‖w‖² + C Σ hinge: number of updates, first cost, last cost."""

    @cache
    def costs(seed: int) -> list[float]:
        X, labels = tutorial()
        y, random = labels.astype(float), np.random.default_rng(seed)
        if batch is not None:
            rows = random.permutation(len(y))
            X, y = X[rows], y[rows]
        w, b, change = start * random.normal(size=len(X.T)), 0.0, 0.0
        size = len(y) if batch is None else batch
        batches = -(-len(y) // size)

        def cost() -> float:
            hinge = float(np.maximum(0.0, 1.0 - y * (X @ w + b)).sum())
            return 0.5 * float(w @ w) + C * hinge

        found = [cost()]
        while True:
            k = len(found) - 1
            part = slice(k % batches * size, (k % batches + 1) * size)
            inside = y[part] * (X[part] @ w + b) < 1.0
            signs = y[part][inside]
            w, b = w - eta * (w - C * (signs @ X[part][inside])), b + eta * C * float(signs.sum())
            found.append(cost())
            percent = 100.0 * abs(found[k] - found[k + 1]) / found[k]
            change = smoothing * change + (1.0 - smoothing) * percent
            if change < epsilon:
                return found

    return [
        lambda seed: float(len(costs(seed)) - 1),
        lambda seed: costs(seed)[0],
        lambda seed: costs(seed)[-1],
    ]


def one_vs_one(seed: int, classes: tuple[int, ...] = (0, 1, 2)) -> float:
    """Accuracy in percent on 30 % of iris, left out: Pegasos for each pair (λ = 0.01, 50 passes),
    then votes."""
    X, codes = load_iris(return_X_y=True)
    X, codes = X[np.isin(codes, classes)], codes[np.isin(codes, classes)]
    random = np.random.default_rng(seed)
    train = np.concatenate(
        [random.permutation(np.flatnonzero(codes == code))[:35] for code in classes]
    )
    mean, scale = X[train].mean(axis=0), X[train].std(axis=0)
    X = np.column_stack([(X - mean) / scale, np.ones(len(X))])
    votes = np.zeros((len(X), 3))
    for i, j in combinations(classes, 2):
        rows = train[(codes[train] == i) | (codes[train] == j)]
        y, w, t = np.where(codes == j, 1.0, -1.0), np.zeros(X.shape[1]), 0
        for _ in range(50):
            for row in random.permutation(rows):
                t += 1
                violated = y[row] * (X[row] @ w) < 1.0
                w = (1.0 - 1.0 / t) * w + (y[row] * X[row] / (0.01 * t) if violated else 0.0)
        scores = X @ w
        votes[:, j] += scores > 0
        votes[:, i] += scores <= 0
    others = np.setdiff1d(np.arange(len(X)), train)
    return 100.0 * float(np.mean(votes[others].argmax(axis=1) == codes[others]))


BATCH = descent(None, 3e-7, 0.25, 0.0)
BATCH_FROM_RANDOM = descent(None, 3e-7, 0.25, 0.0, start=0.01)
STOCHASTIC = descent(1, 1e-4, 0.001, 0.5)
MINI_BATCH = descent(20, 1e-5, 0.01, 0.5)

LITERAL: dict[str, Run] = {
    "Figure 1, without intercept": pegasos(),
    "Every row once an epoch": pegasos(each_row_once=True),
    "The optional projection": pegasos(project=True),
    "Figure 2, mini-batches of 10": pegasos(k=10),
    "With intercept, a constant feature": pegasos("augmented"),
    "With intercept, its own step": pegasos("free"),
    "Every row once an epoch, with that intercept": pegasos("free", each_row_once=True),
    "The mean of the iterates": pegasos(average=True),
    "Until the error on other rows falls no further": pegasos(patience=3),
    "Figure 3, Gaussian kernel": kernel_pegasos,
    "x² of both columns": subgradient("continued", squares),
    "x², y² and x·y": subgradient("continued", with_product),
    "Without a transform": subgradient("continued", lambda X: X),
    "Steps that start again in each pass": subgradient("restarted", squares),
    "Steps 2/(λt)": subgradient("doubled", squares),
    "Steps 1/(λ·epoch)": subgradient("per-epoch", squares),
    "An intercept that is not penalized": subgradient("continued", squares, penalized=False),
    "Three classes by votes of pairs": one_vs_one,
    "Two of the three classes": lambda seed: one_vs_one(seed, (1, 2)),
    "Batch descent: updates": BATCH[0],
    "Batch descent: cost before the first update": BATCH[1],
    "Batch descent: last cost": BATCH[2],
    "Small random weights to start from: last cost": BATCH_FROM_RANDOM[2],
    "Stochastic descent: updates": STOCHASTIC[0],
    "Stochastic descent: last cost": STOCHASTIC[2],
    "Mini-batches of 20: updates": MINI_BATCH[0],
    "Mini-batches of 20: last cost": MINI_BATCH[2],
}


def span(name: str, seeds: range = range(20)) -> tuple[float, float]:
    """The least and the largest figure of the literal runs."""
    figures = [LITERAL[name](seed) for seed in seeds]
    return min(figures), max(figures)
