"""What the kernel itself allows, if a model was trained on Nyström features.

Such a model is a function Σ βⱼ k(zⱼ, x) of the kernel's space, where its norm is at most ‖w‖: with
the kernel itself, its cost is at most the one that was minimized. Every feasible α gives a lower
bound of the lowest possible cost, from the kernel values between the rows with αᵢ > 0. Mixtures
of two are tried: the slopes of the trained model, and those of a last solve that knows how much of
each row the features miss, eᵢ = k(xᵢ, xᵢ) - ‖φ(xᵢ)‖². If these parts were orthogonal, they would
add eᵢ αᵢ² to the squared norm in the dual: a hinge smoothed by μᵢ = sᵢ eᵢ/(λn) for row i.

With many rows of αᵢ > 0 the kernel values would cost more than the training. Then the rows are
divided into B groups, and only values within a group are computed: the missing parts v of the
groups have ‖Σ v‖² ≤ B Σ ‖v‖². The bound is less tight, and costs a share of 1/B.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from svm.data.matrices import Vector
from svm.data.stored_rows import Rows, is_csr, stored_values
from svm.kernel.kernels import AnyKernel
from svm.problem import objectives
from svm.problem.certificate import PairCertificate
from svm.problem.problem import LinearClassifier, Problem
from svm.solvers.smoothing import smoothed_hinge
from svm.training.binary_training import BinaryTraining
from svm.training.preparation import Prepared
from svm.transforms.features import Nystroem

ROUNDING = 1e-6
"""Relative error of ‖φ(x)‖² in the directions in which the landmarks hardly extend."""
SMOOTHINGS = tuple(4.0**-k for k in range(12))
"""Of the trained model's hinge: the one whose slopes give the best bound is taken."""
LEAST_SMOOTHING = 0.1
"""Of a row in the last solve."""
LAST_GAIN = 1e-5
"""The last solve ends if a step gains less than this share of the cost."""
MOST_STEPS = 25
CORRELATED_ROWS = 512
"""Rows whose missing parts are compared with those of all rows."""
MIXTURES = np.stack([np.linspace(0.0, 1.0, 33), np.linspace(1.0, 0.0, 33)], axis=1)
VALUE_COST = 90.0, 1000.0
"""Of one kernel value besides its inner product, in multiplications: dense, sparse."""
LEAST_WORK = 1 << 28
"""Multiplications that are always allowed: 10 ms."""


def bound_of(prepared: Prepared, pair: BinaryTraining) -> float:
    """A lower bound of the optimum of a pair's problem with the kernel itself; the same bits after
    any interruption. The last solve and the kernel values take at most half of the work of the
    feature map each, in multiplications."""
    spec, X = prepared.steps.features.spec, prepared.unmapped
    assert isinstance(spec, Nystroem)
    assert X is not None
    problem, classifier = _served(prepared, pair)
    n, m = problem.X.shape
    work = 0.5 * n * m * (prepared.steps.features.n_inputs + m) / len(prepared.problem_classes)
    with np.errstate(over="ignore", under="ignore"):
        return kernel_bound(problem, classifier, spec.kernel, X, work)


def _served(prepared: Prepared, pair: BinaryTraining) -> tuple[Problem, LinearClassifier]:
    """The pair's problem with the features that the model computes of rows to predict: they are
    not rounded, also if it was trained in single precision."""
    classifier = pair.solver.classifier(pair.problem, pair.state)
    assert isinstance(classifier, LinearClassifier)
    if pair.problem.dtype == np.float64:
        return pair.problem, classifier
    return replace(pair.problem, X=prepared.served, shared_norms=None), classifier


def with_kernel(
    prepared: Prepared, pair: BinaryTraining, own: PairCertificate, bound: float
) -> PairCertificate:
    """The certificate of the same model with the kernel itself, from its `own` with features."""
    problem, classifier = _served(prepared, pair)
    cost, stated = own.primal, own.solver_objective
    if problem is not pair.problem:
        cost = objectives.primal(problem, classifier.coefficients, classifier.intercept)
        stated = pair.solver.stated(problem, cost)
    factor = 1.0 + ROUNDING
    return replace(own, primal=factor * cost, solver_objective=factor * stated, dual=bound)


def kernel_bound(
    problem: Problem, classifier: LinearClassifier, kernel: AnyKernel, X: Rows, work: float
) -> float:
    """A lower bound of the optimum with the kernel.

    `X`: the rows of the problem's matrix before the feature map. `work`: about how many
    multiplications the last solve may take, and so may the kernel values.
    """
    work = max(work, LEAST_WORK)
    exact = replace(problem, X=X, kernel=kernel, shared_norms=None)
    trained = _trained(problem, classifier)
    n_groups = _groups_for(X, int(np.count_nonzero(trained)), work)
    missing = kernel.of_norms(exact.squared_norms) - problem.squared_norms
    missing *= n_groups - 1.0 + _correlation(problem, exact, trained, missing)
    alpha = np.stack([trained, _last_solve(problem, classifier, missing, work)], axis=1)
    # The largest multiples in the box, so that any mixture times 0 … 1 is feasible.
    alpha /= np.maximum((alpha / problem.weights[:, None]).max(axis=0), 1e-300)
    margins = 1.0 if problem.margins is None else problem.margins[:, None]
    means, forms = (margins * alpha).mean(axis=0), forms_above(problem, exact, alpha, n_groups)
    if problem.ridge is not None:
        scale = 1.0 / (problem.regularization * problem.n_samples)
        forms += scale * (alpha.T * problem.ridge) @ alpha
    return max(
        objectives.best_multiple(problem, float(m @ means), float(m @ forms @ m)) for m in MIXTURES
    )


def forms_above(problem: Problem, exact: Problem, alpha: Vector, n_groups: int) -> Vector:
    """An upper bound of the squared norms of w(α) with the kernel, and of their inner product,
    (2, 2), for the columns of α (n_samples, 2)."""
    support = np.flatnonzero(alpha.any(axis=1))
    missing = np.zeros((2, 2))
    signed = _signed(problem, alpha.T).T
    for k in range(n_groups):
        some = support[k::n_groups]
        group = np.zeros_like(alpha)
        group[some] = alpha[some]
        forms = objectives.inner_forms(exact.on(some), signed[some])
        missing += (1.0 + ROUNDING) * forms - _mapped_forms(problem, group)
    return _mapped_forms(problem, alpha) + n_groups * missing


def _trained(problem: Problem, classifier: LinearClassifier) -> Vector:
    """α from the slopes at the model's scores: that with the best bound for its features."""
    scores = problem.scores(classifier.coefficients, classifier.intercept)
    smoothings = (smoothed_hinge.STEEP,) if problem.loss.squared else SMOOTHINGS
    tried = (problem.weights * smoothed_hinge.slopes_at(problem, scores, mu) for mu in smoothings)
    return objectives.feasible(
        problem, max(tried, key=lambda alpha: objectives.dual(problem, alpha))
    )


def _groups_for(X: Rows, n_support: int, work: float) -> int:
    each = stored_values(X) / X.shape[0] + VALUE_COST[is_csr(X)]
    return max(1, int(0.5 * n_support * n_support * each / work))


def _correlation(problem: Problem, exact: Problem, alpha: Vector, missing: Vector) -> float:
    """How much larger the squared norm of Σ αᵢ yᵢ (missing part of row i) is than the sum of the
    squared norms, at least 1: estimated from some rows i and all j."""
    support = np.flatnonzero(alpha)
    some = support[:: 1 + len(support) // CORRELATED_ROWS]
    signed = _signed(problem, alpha)
    everywhere = (
        objectives.sums_over(exact, some, signed)
        - problem.scores(*objectives.primal_point(problem, alpha))[some]
    )
    alone = float(np.square(signed[some]) @ missing[some])
    return max(1.0, float(signed[some] @ everywhere) / alone) if alone > 0.0 else 1.0


def _last_solve(
    problem: Problem, classifier: LinearClassifier, missing: Vector, work: float
) -> Vector:
    """α at the optimum with row-wise smoothing. Divided by μᵢ, every shortfall has smoothing 1."""
    y, s, point = (
        problem.y,
        problem.weights,
        np.append(classifier.coefficients, classifier.intercept),
    )
    mu = s * missing / (problem.regularization * problem.n_samples)
    if problem.loss.squared:  # which is as a smoothing by ½, without an upper bound
        mu = smoothed_hinge.unit_of(problem) * (0.5 + np.maximum(mu, 0.0))
    else:
        mu = np.maximum(mu, LEAST_SMOOTHING)
    flat = replace(problem, margins=None, unequal_weights=s * mu)
    steep, centers = replace(problem, unequal_weights=s / mu), np.zeros(problem.n_samples)
    for _ in range(MOST_STEPS):
        short = problem.shortfalls(problem.scores(point[:-1], point[-1])) / mu
        slopes = np.clip(short, 0.0, 1.0)
        active = np.flatnonzero((short > 0.0) & (short < 1.0))
        work -= 0.25 * len(active) * problem.n_features**2  # of the Hessian, in single precision
        if work < 0.0:
            break
        derivative = smoothed_hinge.gradient(problem, point, slopes)
        step, _ = smoothed_hinge.solver_of_hessian(
            steep, smoothed_hinge.Active.at(active, 1.0), rough=True
        )[0](-derivative)
        cost = float((flat.weights * slopes * (short - 0.5 * slopes)).mean())
        if -float(derivative @ step) <= LAST_GAIN * cost:
            break
        changes = problem.scores(step[:-1], step[-1]) / mu
        at = y * (1.0 - short)
        point = point + step * smoothed_hinge.line_search(
            flat, point, step, at, changes, centers, 1.0
        )
    return objectives.feasible(problem, s * slopes)


def _mapped_forms(problem: Problem, alpha: Vector) -> Vector:
    """`forms_above` for the features, without the missing parts."""
    vectors = np.stack([np.append(*objectives.primal_point(problem, one)) for one in alpha.T])
    forms: Vector = vectors @ vectors.T
    return forms


def _signed(problem: Problem, alpha: Vector) -> Vector:
    """The coefficients of the rows in w(α)."""
    signed: Vector = alpha * (problem.y / (problem.regularization * problem.n_samples))
    return signed
