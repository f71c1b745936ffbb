"""Small binary problems of every kind, in every form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from svm.data.matrices import Matrix, Vector
from svm.hyperparameters import Hyperparameters, Intercept
from svm.kernel.kernels import LinearKernel
from svm.problem.problem import Problem
from svm.solvers import SOLVERS, AnySolver

Form = Literal["dense-float64", "dense-float32", "csr-float64", "csr-float32"]
FORMS: tuple[Form, ...] = get_args(Form)
INTERCEPTS: tuple[Intercept, ...] = get_args(Intercept)


@dataclass(frozen=True)
class Case:
    """Data of a binary problem; every value of X is a float32 number, so that forms agree."""

    X: Vector
    """(n_samples, n_features)"""
    y: Vector
    weights: Vector
    regularization: float


def in_form(X: Vector, form: Form) -> Matrix:
    """X as a dense or CSR matrix in one of the two precisions."""
    layout, dtype = form.split("-")
    dense = np.ascontiguousarray(X, dtype=dtype)
    return csr_array(dense) if layout == "csr" else dense


def problem_of(
    case: Case, intercept: Intercept, form: Form = "dense-float64", **others: Any
) -> Problem:
    return Problem(
        X=in_form(case.X, form),
        some_rows=np.arange(len(case.y)),
        y=case.y.astype(np.int8),
        unequal_weights=case.weights,
        regularization=case.regularization,
        intercept=intercept,
        **others,
    )


def intercepts_of(solver: str) -> tuple[Intercept, ...]:
    """The treatments of the intercept that a solver offers."""
    kind: Any = SOLVERS[solver]
    offered = []
    for intercept in INTERCEPTS:
        try:
            kind(intercept=intercept)
        except ValueError:
            continue
        offered.append(intercept)
    return tuple(offered)


def solver_of(name: str, **hyperparameters: Any) -> AnySolver:
    """The solver of that name; with the linear kernel, if any, so that all have the same optima."""
    kind: type[Hyperparameters] = SOLVERS[name]
    if "kernel" in kind.__dataclass_fields__:
        hyperparameters.setdefault("kernel", LinearKernel())
    solver: Any = kind(**hyperparameters)
    chosen: AnySolver = solver
    return chosen


SOLVER_INTERCEPTS = [(name, each) for name in SOLVERS for each in intercepts_of(name)]


def _case(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
    regularization: float = 0.05,
) -> Case:
    rows = np.asarray(X).astype(np.float32).astype(np.float64)
    labels = np.asarray(y, dtype=np.float64)
    loss_weights = np.ones(len(labels)) if weights is None else np.asarray(weights, np.float64)
    return Case(rows, labels, loss_weights, regularization)


def _cases() -> dict[str, Case]:
    random = np.random.default_rng(20)
    X = random.normal(size=(40, 4))
    noisy = np.where(X[:, 0] - X[:, 1] + random.normal(size=40) > 0.2, 1.0, -1.0)
    clear = np.where(X[:, 0] > 0, 1.0, -1.0)
    apart = X.copy()
    apart[:, 0] += 2.0 * clear
    rare = np.where(np.argsort(np.argsort(X[:, 0] + random.normal(size=40))) >= 37, 1.0, -1.0)
    flat = X.copy()
    flat[:, 1], flat[:, 2], flat[7:10] = 1.0, 0.0, 0.0
    few = np.array([[0.5, 1.0], [1.0, -0.5], [0.0, 0.0], [2.0, 1.0]])
    wide = random.normal(size=(10, 30))
    return {
        "noisy": _case(X, noisy),
        "separable": _case(apart, clear),
        "unbalanced": _case(X, rare),
        "weighted": _case(X, noisy, random.uniform(0.2, 3.0, size=40)),
        "duplicated rows, some with both labels": _case(
            few[[0, 0, 0, 1, 1, 2, 2, 3, 3, 3]], [1, 1, -1, 1, -1, 1, -1, 1, 1, -1]
        ),
        "constant columns and rows of zeros": _case(flat, noisy),
        "one feature": _case(X[:12, :1], noisy[:12]),
        "two rows": _case([[1.0, 2.0], [0.5, -1.0]], [1, -1]),
        "one row in a class": _case(X, np.where(np.arange(40) == 5, 1.0, -1.0)),
        "more features than rows": _case(wide, np.where(np.arange(10) % 2, 1.0, -1.0)),
        "little regularization": _case(X, noisy, regularization=1e-4),
        "much regularization": _case(X, noisy, regularization=20.0),
    }


CASES = _cases()


def blobs(n_classes: int, n_rows: int = 15, n_features: int = 3) -> tuple[Vector, npt.NDArray[Any]]:
    """Overlapping clouds of `n_rows` rows a class: X, and the class numbers."""
    random = np.random.default_rng(n_classes)
    labels = np.tile(np.arange(n_classes), n_rows)
    centers = random.normal(scale=1.5, size=(n_classes, n_features))
    X = centers[labels] + random.normal(size=(len(labels), n_features))
    return X.astype(np.float32).astype(np.float64), labels
