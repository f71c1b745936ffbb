"""Slow, obvious NumPy versions of every compiled loop, row by row like the formulas.

They compute in float64 on dense rows, and are compared with the sparse and single-precision loops
too. They return new arrays and change none.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from svm.data.matrices import Floats, Indices, Vector
from svm.hyperparameters import Intercept


def scores(X: Vector, w: Vector, intercept: float) -> Vector:
    return np.array([float(np.dot(x, w)) + intercept for x in X])


def combination(X: Vector, coefficients: Vector) -> Vector:
    total = np.zeros(X.shape[1])
    for x, coefficient in zip(X, coefficients, strict=True):
        total = total + coefficient * x
    return total


def squared_norms(X: Vector) -> Vector:
    return np.array([float(np.dot(x, x)) for x in X])


def pegasos(
    X: Vector,
    y: Floats,
    weights: Vector,
    regularization: float,
    intercept: Intercept,
    orders: list[Indices],
    margins: Vector | None = None,
) -> tuple[Vector, float, Indices]:
    """(w, b, violations) after all orders, as in the paper: w shrinks at every step."""
    w, b = np.zeros(X.shape[1]), 0.0
    violations = np.zeros(len(y), dtype=np.int64)
    for t, i in enumerate(np.concatenate(orders), start=1):
        margin = y[i] * (float(np.dot(X[i], w)) + b)
        rate = 1.0 / (regularization * t)
        w = (1.0 - 1.0 / t) * w
        if intercept == "augmented":
            b = (1.0 - 1.0 / t) * b
        if margin < (1.0 if margins is None else margins[i]):
            violations[i] += 1
            w = w + rate * weights[i] * y[i] * X[i]
            if intercept == "augmented":
                b = b + rate * weights[i] * y[i]
            elif intercept == "free":
                b = b + min(rate, 1.0 / np.sqrt(t)) * weights[i] * y[i]
    return w, b, violations


def dual_coordinate_descent(
    X: Vector,
    y: Floats,
    weights: Vector,
    regularization: float,
    augmented: bool,
    alpha: Vector,
    order: Indices,
    margins: Vector | None = None,
) -> tuple[Vector, Vector]:
    """(α, the projected gradients) after one over-relaxed pass over `order`.

    w is computed from α for every row, with the constant feature as a column of X.
    """
    if augmented:
        X = np.column_stack([X, np.ones(len(X))])
    scale = 1.0 / (regularization * len(y))
    alpha, projected = alpha.copy(), np.zeros(len(order))
    for k, i in enumerate(order):
        w = scale * combination(X, alpha * y)
        gradient = y[i] * float(np.dot(X[i], w)) - (1.0 if margins is None else margins[i])
        curvature = scale * float(np.dot(X[i], X[i]))
        target = alpha[i] - 1.5 * gradient / curvature if curvature > 0.0 else np.inf
        if alpha[i] <= 0.0:
            projected[k] = min(gradient, 0.0)
        elif alpha[i] >= weights[i]:
            projected[k] = max(gradient, 0.0)
        else:
            projected[k] = gradient
        if projected[k] != 0.0:
            alpha[i] = min(max(target, 0.0), weights[i])
    return alpha, projected


def stated_cost(
    X: Vector, y: Floats, weights: Vector, C: float, intercept: Intercept, w: Vector, b: float
) -> float:
    """½‖w‖² + C Σ sᵢ hinge."""
    norm = float(np.dot(w, w)) + (b * b if intercept == "augmented" else 0.0)
    return 0.5 * norm + C * hinge_sum(X, y, weights, w, b)


def hinge_sum(X: Vector, y: Floats, weights: Vector, w: Vector, b: float) -> float:
    total = 0.0
    for x, label, weight in zip(X, y, weights, strict=True):
        total += weight * max(0.0, 1.0 - label * (float(np.dot(x, w)) + b))
    return total


def gradient_descent(
    X: Vector,
    y: Floats,
    weights: Vector,
    C: float,
    intercept: Intercept,
    learning_rate: float,
    batches: list[Indices],
    whole: bool,
    w: Vector,
) -> list[tuple[Vector, float, float]]:
    """(w, b, cost) after every update, one for each batch."""
    b, path = 0.0, []
    for batch in batches:
        share = 1.0 if whole else len(batch) / len(y)
        gradient, gradient_b = share * w, share * b if intercept == "augmented" else 0.0
        for i in batch:
            if y[i] * (float(np.dot(X[i], w)) + b) < 1.0:
                gradient = gradient - C * weights[i] * y[i] * X[i]
                gradient_b -= C * weights[i] * y[i]
        w = w - learning_rate * gradient
        if intercept != "none":
            b = b - learning_rate * gradient_b
        path.append((w, b, stated_cost(X, y, weights, C, intercept, w, b)))
    return path


def smoothed_changes(costs: list[float], smoothing: float) -> list[float]:
    """Δ_k = s Δ_{k-1} + (1 - s) 100 |f_{k-1} - f_k| / f_{k-1} for k = 1, 2, …; Δ_0 = 0."""
    change, changes = 0.0, []
    for previous, cost in pairwise(costs):
        change = smoothing * change + (1.0 - smoothing) * 100.0 * abs(previous - cost) / previous
        changes.append(change)
    return changes


def smoothed_hinge(margin: float, mu: float) -> float:
    """ℓ_μ of `svm.solvers.newton`, from its definition: max over 0 ≤ a ≤ 1 of a(1 - m) - μa²/2."""
    a = min(max((1.0 - margin) / mu, 0.0), 1.0)
    return a * (1.0 - margin) - 0.5 * mu * a * a


def slopes(y: Floats, scores: Vector, centers: Vector, mu: float) -> Vector:
    rows = zip(y, scores, centers, strict=True)
    return np.array([min(max(c + (1.0 - label * f) / mu, 0.0), 1.0) for label, f, c in rows])


def slope_and_curvature(
    margins: Vector, changes: Vector, weights: Vector, mu: float, t: float
) -> tuple[float, float]:
    slope = curvature = 0.0
    for margin, change, weight in zip(margins, changes, weights, strict=True):
        short = 1.0 - (margin + t * change)
        slope += weight * -min(max(short / mu, 0.0), 1.0) * change
        if 0.0 < short < mu:
            curvature += weight / mu * change * change
    return slope, curvature


def curvature_product(X: Vector, curvature: Vector, v: Vector, b: float) -> tuple[Vector, float]:
    """(Σ cᵢ x̃ᵢ x̃ᵢᵀ)(v, b) with a constant feature in x̃, by building the matrix."""
    extended = np.column_stack([X, np.ones(len(X))])
    hessian = extended.T @ np.diag(curvature) @ extended
    product: Vector = hessian @ np.append(v, b)
    return product[:-1], float(product[-1])


def solve_pairs(
    gram: Vector, y: Floats, upper: Vector, a: Vector, scores: Vector, steps: int
) -> tuple[Vector, Vector]:
    """(a, scores) after some steps in the pair of Fan, Chen and Lin (2005), WSS 2."""
    a, scores = a.copy(), scores.copy()
    for _ in range(steps):
        residuals = y - scores
        rises = np.where(y > 0, a < upper, a > 0)
        falls = np.where(y > 0, a > 0, a < upper)
        i = int(np.argmax(np.where(rises, residuals, -np.inf)))
        curvature = np.maximum(gram[i, i] + np.diag(gram) - 2 * gram[i], 1e-12)
        decrease = np.where(
            falls & (residuals < residuals[i]), (residuals[i] - residuals) ** 2 / curvature, -np.inf
        )
        j = int(np.argmax(decrease))
        change = (residuals[i] - residuals[j]) / curvature[j]
        change = min(change, upper[i] - a[i] if y[i] > 0 else a[i])
        change = min(change, a[j] if y[j] > 0 else upper[j] - a[j])
        a[i] += y[i] * change
        a[j] -= y[j] * change
        scores = scores + change * (gram[i] - gram[j])
    return a, scores


def solve_singles(
    gram: Vector, y: Floats, upper: Vector, a: Vector, scores: Vector, steps: int
) -> tuple[Vector, Vector]:
    """(a, scores) after some steps in the variable that promises the largest decrease."""
    a, scores = a.copy(), scores.copy()
    for _ in range(steps):
        gradient = y * scores - 1.0
        projected = np.where(a <= 0, np.minimum(gradient, 0), gradient)
        projected = np.where(a >= upper, np.maximum(gradient, 0), projected)
        i = int(np.argmax(projected**2 / np.diag(gram)))
        new = min(max(a[i] - gradient[i] / gram[i, i], 0.0), upper[i])
        scores = scores + (new - a[i]) * y[i] * gram[i]
        a[i] = new
    return a, scores
