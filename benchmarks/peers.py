"""SVM trainers of other libraries, if installed, called so that they solve our problem.

Linear ones take an effort, passes over the data or one over a tolerance, and give the weights;
kernel ones run with their own stopping rule and give the model in LIBSVM's layout. None
is a dependency: `pip install scikit-learn-intelex snapml rehline skglm liblinear-official
libsvm-official`.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
from scipy.sparse import csr_matrix

from svm.data.matrices import Vector, is_sparse
from svm.kernel.kernels import GaussianKernel

LinearFit: TypeAlias = Callable[[int, int], Vector]
"""Weights with a seed, after an effort; some peers use no random numbers."""

TIGHT = 1e-12
"""A tolerance that never ends a fit before its passes are over."""


@dataclass(frozen=True)
class KernelSolution:
    """Dual variables of all pairs of classes, signed: (n_classes - 1, n_vectors) as in LIBSVM."""

    vectors: Vector
    coefficients: Vector
    counts: list[int]
    """Number of support vectors of each class; they are ordered by class."""

    def dual(self, kernel: GaussianKernel) -> float:
        """Σ |α| - ½ αᵀKα of all pairs together."""
        ends = np.cumsum([0, *self.counts])
        norms = np.einsum("ij,ij->i", self.vectors, self.vectors)
        total = 0.0
        for first, second in combinations(range(len(self.counts)), 2):
            sides = [slice(ends[first], ends[first + 1]), slice(ends[second], ends[second + 1])]
            rows = np.concatenate([np.arange(side.start, side.stop) for side in sides])
            a = np.concatenate(
                [self.coefficients[second - 1, sides[0]], self.coefficients[first, sides[1]]]
            )
            rows, a = rows[a != 0], a[a != 0]
            some = self.vectors[rows]
            values = kernel.of_products(some @ some.T, norms[rows], norms[rows])
            total += float(np.abs(a).sum()) - 0.5 * float(a @ values @ a)
        return total


def linear(X: Any, y: Vector, C: float) -> dict[str, LinearFit]:
    """½‖w‖² + C Σ hinge without an intercept, by every peer that is installed."""
    fits: dict[str, LinearFit] = {"LinearSVC": partial(_linear_svc, X, y, C)}
    if _installed("snapml"):
        fits["snapml"] = partial(_snapml, csr_matrix(X) if is_sparse(X) else X, y, C)
    if _installed("rehline"):
        fits["rehline"] = partial(_rehline, csr_matrix(X) if is_sparse(X) else X, y, C)
    if _installed("skglm"):
        fits["skglm"] = partial(_skglm, csr_matrix(X) if is_sparse(X) else X, y, C)
    if _installed("liblinear"):
        from liblinear.liblinearutil import problem

        fits["liblinear-official"] = partial(_liblinear, problem(y, csr_matrix(X)), X.shape[1], C)
    return fits


def kernel(
    X: Vector, labels: Any, C: float, gamma: float, threads: int
) -> dict[str, Callable[[], KernelSolution]]:
    """The Gaussian SVM with a free intercept; LIBSVM has one thread only."""
    fits: dict[str, Callable[[], KernelSolution]] = {}
    settings = {"C": C, "gamma": gamma, "cache_size": 1000}
    if threads == 1:
        from sklearn.svm import SVC

        fits["SVC"] = partial(_svc, SVC, X, labels, settings)
        if _installed("libsvm"):
            from libsvm.svmutil import svm_problem

            options = f"-s 0 -t 2 -c {C!r} -g {gamma!r} -m 1000 -q"
            fits["libsvm-official"] = partial(
                _libsvm, svm_problem(labels, csr_matrix(X)), X.shape[1], options
            )
    if _installed("sklearnex"):
        fits["intelex"] = partial(_intelex, X, labels, settings, threads)
        fits["intelex float32"] = partial(_intelex, X.astype(np.float32), labels, settings, threads)
    return fits


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _linear_svc(X: Any, y: Vector, C: float, seed: int, effort: int) -> Vector:
    from sklearn.svm import LinearSVC

    X = csr_matrix(X) if is_sparse(X) else X
    peer = LinearSVC(
        loss="hinge", C=C, max_iter=effort, tol=TIGHT, fit_intercept=False, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has not converged
        weights: Vector = peer.fit(X, y).coef_[0]
    return weights


def _snapml(X: Any, y: Vector, C: float, seed: int, effort: int) -> Vector:
    from snapml import SupportVectorMachine

    peer = SupportVectorMachine(
        max_iter=effort, regularizer=1.0 / C, tol=TIGHT, n_jobs=1, random_state=seed
    )
    peer.fit(X, y)
    return np.asarray(peer.coef_, dtype=np.float64).ravel()


def _rehline(X: Any, y: Vector, C: float, seed: int, effort: int) -> Vector:
    from rehline import plqERM_Ridge

    peer = plqERM_Ridge(loss={"name": "svm"}, C=C, max_iter=effort, tol=TIGHT, coordinate_seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has not converged
        peer.fit(X, y)
    return np.asarray(peer.coef_, dtype=np.float64).ravel()


def _skglm(X: Any, y: Vector, C: float, _seed: int, effort: int) -> Vector:
    from skglm import LinearSVC

    peer = LinearSVC(C=C, max_iter=effort, tol=TIGHT, fit_intercept=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer.fit(X, y)
    return np.asarray(peer.coef_, dtype=np.float64).ravel()


def _liblinear(problem: Any, n_features: int, C: float, _seed: int, effort: int) -> Vector:
    from liblinear.liblinearutil import train

    model = train(problem, f"-s 3 -c {C!r} -e {1.0 / effort!r} -q")
    sign = 1.0 if model.get_labels()[0] == 1 else -1.0
    return sign * np.array(model.get_decfun(0)[0][:n_features])


def _svc(svc: Any, X: Vector, labels: Any, settings: dict[str, float]) -> KernelSolution:
    model = svc(kernel="rbf", **settings).fit(X, labels)
    return KernelSolution(
        np.asarray(model.support_vectors_, dtype=np.float64),
        np.asarray(model.dual_coef_, dtype=np.float64),
        list(model.n_support_),
    )


def _intelex(X: Vector, labels: Any, settings: dict[str, float], threads: int) -> KernelSolution:
    import daal4py
    from sklearnex.svm import SVC

    daal4py.daalinit(threads)
    return _svc(SVC, X, labels, settings)


def _libsvm(problem: Any, n_features: int, options: str) -> KernelSolution:
    from libsvm.svmutil import svm_train

    model = svm_train(problem, options)
    vectors = np.zeros((model.l, n_features))
    for row, entries in zip(vectors, model.get_SV(), strict=True):
        for index, value in entries.items():
            if index > 0:
                row[index - 1] = value
    coefficients = np.array(model.get_sv_coef()).T
    return KernelSolution(vectors, coefficients, [model.nSV[k] for k in range(model.nr_class)])
