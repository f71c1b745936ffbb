"""The optimum of a small problem from other libraries, between two bounds that we compute here.

Primal and dual are written out again in plain NumPy, so that nothing of `svm` is trusted.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from sklearn.svm import SVC

from svm.data.matrices import Vector
from svm.hyperparameters import Intercept
from tests.svm.cases.problems import CASES, Case


class Optimum(NamedTuple):
    lower: float
    """Dual value of a feasible point."""
    upper: float
    """Primal value of a point."""


def primal_value(case: Case, intercept: Intercept, w: Vector, b: float) -> float:
    """λ/2 ‖w‖² + (1/n) Σ sᵢ hinge, the definition."""
    losses = [
        s * max(0.0, 1.0 - y * (float(x @ w) + b))
        for x, y, s in zip(case.X, case.y, case.weights, strict=True)
    ]
    norm = float(w @ w) + (b * b if intercept == "augmented" else 0.0)
    return 0.5 * case.regularization * norm + float(np.mean(losses))


def dual_value(case: Case, intercept: Intercept, alpha: Vector) -> float:
    """(1/n) Σ αᵢ - λ/2 ‖w(α)‖², the definition; α must be feasible."""
    n, X = len(case.y), _with_constant(case, intercept)
    w = X.T @ (alpha * case.y) / (case.regularization * n)
    return float(alpha.sum()) / n - 0.5 * case.regularization * float(w @ w)


@cache
def optimum(name: str, intercept: Intercept) -> Optimum:
    """Bounds of the optimum of a case, at most 2e-5 of it apart."""
    case = CASES[name]
    result = _by_libsvm(case) if intercept == "free" else _by_lbfgs(case, intercept)
    assert result.lower * (1.0 - 1e-14) <= result.upper <= result.lower * (1.0 + 2e-5), (
        name,
        result,
    )
    return result


def _with_constant(case: Case, intercept: Intercept) -> Vector:
    if intercept != "augmented":
        return case.X
    return np.column_stack([case.X, np.ones(len(case.X))])


def _by_libsvm(case: Case) -> Optimum:
    scale = case.regularization * len(case.y)
    peer = SVC(kernel="linear", C=1.0 / scale, tol=1e-10, cache_size=1)
    peer.fit(case.X, case.y, sample_weight=case.weights)
    alpha = np.zeros(len(case.y))
    alpha[peer.support_] = np.minimum(
        np.abs(peer.dual_coef_[0]) * scale, case.weights[peer.support_]
    )
    w = peer.coef_[0]
    # The best b for this w is at a kink of the hinge sum: some row is on its margin.
    kinks = case.y - case.X @ w
    upper = min(primal_value(case, "free", w, float(b)) for b in kinks)
    return Optimum(dual_value(case, "free", alpha), upper)


def _by_lbfgs(case: Case, intercept: Intercept) -> Optimum:
    n, X = len(case.y), _with_constant(case, intercept)
    signed = X * case.y[:, None]
    quadratic = signed @ signed.T / (case.regularization * n * n)

    def negative(alpha: Vector) -> tuple[float, Vector]:
        product = quadratic @ alpha
        return 0.5 * float(alpha @ product) - float(alpha.sum()) / n, product - 1.0 / n

    alpha = np.zeros(n)
    for _ in range(20):  # a restart discards a bad history
        result = minimize(
            negative,
            alpha,
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, s) for s in case.weights],
            options={"ftol": 0.0, "gtol": 1e-14, "maxiter": 5000, "maxfun": 50000},
        )
        alpha = np.clip(result.x, 0.0, case.weights)
    w = X.T @ (alpha * case.y) / (case.regularization * n)
    b = float(w[-1]) if intercept == "augmented" else 0.0
    return Optimum(
        dual_value(case, intercept, alpha),
        primal_value(case, intercept, w[: case.X.shape[1]], b),
    )
