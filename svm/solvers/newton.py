"""Newton's method on a smoothed hinge loss, the smoothing taken to zero.

The hinge max(0, 1 - m) = max over 0 ≤ a ≤ 1 of a (1 - m) becomes smooth by subtracting μ a²/2:

    ℓ_μ(m) = 0  (m ≥ 1),   (1 - m)²/(2μ)  (1 - μ < m < 1),   1 - m - μ/2  (m ≤ 1 - μ)

Its slope is -a with a = clip((1 - m)/μ, 0, 1), so at the minimizer αᵢ = sᵢ aᵢ is dual feasible and
the duality gap of the SVM itself is (μ/n) Σ sᵢ aᵢ (1 - aᵢ): the certificate comes for free.
Smoothing and dual point: Nesterov, Smooth minimization of non-smooth functions (2005). Newton on
piecewise quadratic losses: Keerthi and DeCoste (2005), Chapelle (2007).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from svm.checkpoints import DERIVED
from svm.classifiers import LinearClassifier
from svm.hyperparameters import Hyperparameters, Intercept
from svm.matrices import Indices, Vector
from svm.objectives import dual, hinge_losses, primal_at_scores, squared_norm
from svm.problem import Problem
from svm.solvers.protocol import LINEAR, NOT_STOPPED, Inheritance, SolverState

DENSE_HESSIAN = 2000
"""Most features for which the Hessian is built; beyond, and for sparse data, products with it."""
GATHER_ROWS = 2048
"""Rows copied at a time to build the Hessian."""
MAX_CONJUGATE_GRADIENTS = 250
"""Most products with the Hessian in one step."""
FIRST_SMOOTHING = 4.0
"""μ at which every row pulls at w = 0, so that the first step is a ridge regression's."""
LESS_SMOOTHING = 0.5
"""Factor from one level of μ to the next."""
SMALLEST_SMOOTHING = 1e-12
"""μ below which nothing is left to gain."""
WARM_SMOOTHING = 0.03
"""Least μ of the first step from inherited weights. With less, weights that are near the optimum
but not at it took more steps than zero weights do."""
ROUNDING = 1e-15
"""A relative gain of the objective that is lost in rounding."""

Solve: TypeAlias = Callable[[Vector], Vector]


@dataclass(frozen=True, kw_only=True)
class NewtonState(SolverState):
    """The iterate under the present smoothing, and the best primal and dual points so far."""

    w: Vector
    intercept: float
    scores: Vector = field(metadata=DERIVED)
    """(n_samples,) of these weights; empty where the state comes from a checkpoint."""
    smoothing: float
    """μ of the next step."""
    last_smoothing: float
    """μ of the step that led here."""
    best_w: Vector
    best_intercept: float
    best_scores: Vector = field(metadata=DERIVED)
    best_primal: float
    best_dual: float


@dataclass(frozen=True, kw_only=True)
class Newton(Hyperparameters):
    """Newton steps with exact line search on a smoothed hinge whose smoothing goes to zero.

    A few dozen passes over the data reach gaps that stochastic solvers never see, at any C. Builds
    the Hessian for dense data with up to 2,000 features; beyond, and for sparse data, conjugate
    gradients on products with it.
    """

    objective: ClassVar = "λ/2 ‖w‖² + (1/n) Σ hinge"
    cost_per_epoch: ClassVar = (
        "one Newton step: some passes of O(n d), and O(m d² + d³) for the m rows near the margin"
    )
    reference: ClassVar = (
        "Keerthi, DeCoste: A modified finite Newton method for fast solution of large scale "
        "linear SVMs. JMLR 6 (2005); smoothing after Nesterov, Mathematical Programming 103 (2005)"
    )
    suggestion: ClassVar = "scale the features"
    starts_from: ClassVar[tuple[str, ...]] = LINEAR
    inherits: ClassVar = "the weights"
    evaluation_growth: ClassVar = 1.0
    tests_every_update: ClassVar = False
    certifies: ClassVar = True

    name: Literal["newton"] = "newton"
    intercept: Intercept = "free"
    """`free`: not penalized. `augmented`: the weight of a constant feature, penalized in ‖w‖².
    `none`: the hyperplane passes through the origin."""

    @property
    def streams(self) -> bool:
        return True

    def stated(self, problem: Problem, primal: float) -> float:
        """This solver states the common form itself."""
        return primal

    def start(self, problem: Problem, inherited: Inheritance | None = None) -> NewtonState:
        """w = 0, b = 0; or the inherited ones, where little smoothing is needed."""
        w, scores = np.zeros(problem.n_features), np.zeros(problem.n_samples)
        state = NewtonState(
            w=w,
            intercept=0.0,
            scores=scores,
            smoothing=FIRST_SMOOTHING,
            last_smoothing=FIRST_SMOOTHING,
            best_w=w,
            best_intercept=0.0,
            best_scores=scores,
            best_primal=float(problem.weights.mean()),
            best_dual=0.0,
        )
        if inherited is None:
            return state
        w, intercept = inherited.w, inherited.intercept_under(problem.intercept)
        scores = problem.scores(w, intercept)
        sharpest, lower = _best_bound(problem, scores)
        return replace(
            state,
            w=w,
            intercept=intercept,
            scores=scores,
            smoothing=max(sharpest, WARM_SMOOTHING),
            last_smoothing=sharpest,
            best_w=w,
            best_intercept=intercept,
            best_scores=scores,
            best_primal=primal_at_scores(problem, squared_norm(problem, w, intercept), scores),
            best_dual=lower,
        )

    def advance(self, problem: Problem, state: NewtonState) -> NewtonState:
        """One Newton step; then less smoothing, if this level is solved well enough."""
        mu = state.smoothing
        point = np.append(state.w, state.intercept)
        scores = _scores(problem, state.w, state.intercept, state.scores)
        short = 1.0 - problem.y * scores
        # Less smoothing leaves most of the rows that were near the margin there, only closer. As
        # the rows between the old level's ends they show where to go; the few between the new
        # level's ends would let the step go far too far.
        level = max(mu, state.last_smoothing)
        active = np.flatnonzero((short > 0.0) & (short < level))
        pulls = np.where(short >= level, 1.0, np.maximum(short, 0.0) / mu)
        gradient = _gradient(problem, point, pulls)
        solve = _hessian(problem, active, mu)
        step = solve(-gradient)
        changes = problem.scores(step[:-1], step[-1])
        # The slopes at the end of the whole step are those whose w(α) is that end, but for the
        # rows that they are cut off for: a better bound than the slopes of the place it leads to.
        pulls[active] -= (problem.y * changes)[active] / mu
        lower = dual(problem, np.clip(pulls, 0.0, 1.0) * problem.weights)
        length = _line_search(problem, point, step, scores, changes, mu)
        point = point + length * step
        w, intercept = point[:-1].copy(), float(point[-1])
        scores = problem.scores(w, intercept)

        primal = primal_at_scores(problem, squared_norm(problem, w, intercept), scores)
        pulls = _pulls(problem, scores, mu)
        improved = primal < state.best_primal
        best_primal, best_dual = min(primal, state.best_primal), max(lower, state.best_dual)

        # At the exact solution of this level the gap is mean(μ sᵢ aᵢ (1 - aᵢ)), what smoothing
        # costs. Smoothing less before Newton comes near that would only ask for more steps later.
        cost = mu * float((problem.weights * pulls * (1.0 - pulls)).mean())
        rounding = -float(gradient @ step) <= ROUNDING * primal  # nothing is left to gain here
        if rounding or primal - lower <= 2.0 * cost:
            mu *= LESS_SMOOTHING
        converged = best_primal - best_dual <= 1e-13 * best_primal or mu < SMALLEST_SMOOTHING
        return NewtonState(
            epoch=state.epoch + 1,
            updates=state.updates + 1,
            stopped="converged" if converged else NOT_STOPPED,
            w=w,
            intercept=intercept,
            scores=scores,
            smoothing=mu,
            last_smoothing=state.smoothing,
            best_w=w if improved else state.best_w,
            best_intercept=intercept if improved else state.best_intercept,
            best_scores=scores if improved else state.best_scores,
            best_primal=best_primal,
            best_dual=best_dual,
        )

    def classifier(self, problem: Problem, state: NewtonState) -> LinearClassifier:
        return LinearClassifier(state.best_w, state.best_intercept)

    def scores(self, problem: Problem, state: NewtonState) -> Vector:
        """Of the best weights so far, (n_samples,)."""
        return _scores(problem, state.best_w, state.best_intercept, state.best_scores)

    def bound(self, problem: Problem, state: NewtonState) -> float:
        return state.best_dual

    def enclosure(self, problem: Problem, state: NewtonState) -> tuple[float, float]:
        """The best primal value and the best bound so far."""
        return state.best_primal, state.best_dual


def _scores(problem: Problem, w: Vector, intercept: float, known: Vector) -> Vector:
    return known if len(known) else problem.scores(w, intercept)


def _pulls(problem: Problem, scores: Vector, mu: float) -> Vector:
    """aᵢ = clip((1 - yᵢ fᵢ)/μ, 0, 1): how hard each row pulls."""
    return np.minimum(hinge_losses(problem.y, scores) / mu, 1.0)


def _best_bound(problem: Problem, scores: Vector) -> tuple[float, float]:
    """(μ whose pulls at these scores make the best dual point, its value): that under which the
    weights are nearly the optimum."""
    mu, best = FIRST_SMOOTHING, (FIRST_SMOOTHING, 0.0)
    while mu > SMALLEST_SMOOTHING:
        lower = dual(problem, problem.weights * _pulls(problem, scores, mu))
        if 0.0 < best[1] >= lower:
            break
        best = mu, lower
        mu *= LESS_SMOOTHING
    return best


def _penalty(problem: Problem) -> Vector:
    """λ for every coordinate of (w, b); 0 for b unless it is augmented."""
    penalty = np.full(problem.n_features + 1, float(problem.regularization))
    if problem.intercept != "augmented":
        penalty[-1] = 0.0
    return penalty


def _gradient(problem: Problem, point: Vector, pulls: Vector) -> Vector:
    """Gradient of the smoothed objective in (w, b); 0 for b where there is none."""
    signed = pulls * problem.weights * problem.y / problem.n_samples
    gradient = _penalty(problem) * point
    gradient[:-1] -= problem.combination(signed)
    if problem.intercept != "none":
        gradient[-1] -= signed.sum()
    return gradient


def _hessian(problem: Problem, active: Indices, mu: float) -> Solve:
    """A function that solves H x = r for the Hessian of the smoothed objective, if the rows
    `active` are those near the margin."""
    curvature = problem.weights[active] / (mu * problem.n_samples)
    penalty = _penalty(problem)
    if problem.intercept == "none":
        penalty[-1] = 1.0  # keeps b at 0
    elif problem.intercept == "free":
        # No row near the margin, no curvature in b: as much as one row would give.
        penalty[-1] = 0.0 if len(active) else 1.0 / (mu * problem.n_samples)
    if problem.sparse or problem.n_features > DENSE_HESSIAN:
        return _conjugate_gradients(problem, active, curvature, penalty)
    return _cholesky(problem, active, curvature, penalty)


def _cholesky(problem: Problem, active: Indices, curvature: Vector, penalty: Vector) -> Solve:
    from scipy.linalg import cho_factor, cho_solve
    from scipy.linalg.blas import dsyrk

    d = problem.n_features
    hessian = np.zeros((d + 1, d + 1), order="F")  # its lower triangle
    root = np.sqrt(curvature)
    for start in range(0, len(active), GATHER_ROWS):
        problem.interrupted()
        part = slice(start, start + GATHER_ROWS)
        block = np.empty((len(active[part]), d + 1))
        np.multiply(problem.dense_rows(active[part]), root[part, None], out=block[:, :-1])
        block[:, -1] = root[part] if problem.intercept != "none" else 0.0
        hessian = dsyrk(1.0, block.T, 1.0, hessian, lower=1, overwrite_c=1)
    diagonal = np.einsum("ii->i", hessian)
    diagonal += penalty
    # With a diagonal of ones, features of very different sizes do no harm.
    scale = 1.0 / np.sqrt(diagonal)
    hessian *= scale
    hessian *= scale[:, None]
    # Rounding can push the smallest eigenvalues of a long, flat Hessian below zero.
    diagonal += 1e-14
    factor = cho_factor(hessian, lower=True, overwrite_a=True, check_finite=False)

    def solve(right: Vector) -> Vector:
        result: Vector = scale * cho_solve(factor, scale * right, check_finite=False)
        return result

    return solve


def _conjugate_gradients(
    problem: Problem, active: Indices, curvature: Vector, penalty: Vector
) -> Solve:
    from svm.loops.newton import curvature_product
    from svm.loops.products import weighted_squares

    diagonal = penalty.copy()
    for part, operand, rows in problem.parts(active):
        weighted_squares(operand, rows, curvature[part], diagonal[:-1])
    if problem.intercept != "none":
        diagonal[-1] += curvature.sum()

    def product(v: Vector) -> Vector:
        out = np.zeros(problem.n_features)
        total = 0.0
        b = float(v[-1]) if problem.intercept != "none" else 0.0
        for part, operand, rows in problem.parts(active):
            total = curvature_product(operand, rows, curvature[part], v[:-1], b, out, total)
        result: Vector = penalty * v
        result[:-1] += out
        result[-1] += total if problem.intercept != "none" else 0.0
        return result

    def solve(right: Vector) -> Vector:
        x = np.zeros_like(right)
        residual = right.copy()
        z = residual / diagonal
        direction, rho = z.copy(), float(residual @ z)
        target = 1e-4 * rho  # in the norm of the preconditioner: a hundredth of the residual
        for _ in range(MAX_CONJUGATE_GRADIENTS):
            if rho <= target or rho == 0.0:
                break
            image = product(direction)
            length = rho / float(direction @ image)
            x += length * direction
            residual -= length * image
            z = residual / diagonal
            rho, before = float(residual @ z), rho
            direction = z + (rho / before) * direction
        return x

    return solve


def _line_search(
    problem: Problem, point: Vector, step: Vector, scores: Vector, changes: Vector, mu: float
) -> float:
    """The t ≥ 0 that minimizes the smoothed objective at point + t step, exactly.

    Its derivative in t is increasing and piecewise linear: Newton's method on it, kept inside a
    bracket, ends after a few of the pieces.
    """
    from svm.loops.newton import slope_and_curvature

    penalty = _penalty(problem)
    linear, quadratic = float(penalty @ (point * step)), float(penalty @ (step * step))
    margins, margin_changes = problem.y * scores, problem.y * changes
    low, high, t = 0.0, np.inf, 1.0
    for _ in range(50):
        slope, curvature = slope_and_curvature(margins, margin_changes, problem.weights, mu, t)
        slope = slope / problem.n_samples + linear + t * quadratic
        curvature = curvature / problem.n_samples + quadratic
        if slope < 0:
            low = t
        else:
            high = t
        following = t - slope / curvature if curvature > 0 else np.inf
        if high == np.inf:  # an almost flat piece would throw t far beyond its end
            following = min(following, 4.0 * t)
        if not low < following < high:
            following = 2.0 * t if high == np.inf else 0.5 * (low + high)
        if abs(following - t) <= 1e-10 * t:
            break
        t = following
    return t
