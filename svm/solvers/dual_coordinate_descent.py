"""Dual coordinate descent for the linear SVM (Hsieh, Chang, Lin, Keerthi, Sundararajan, 2008)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from svm.classifiers import LinearClassifier
from svm.hyperparameters import Hyperparameters
from svm.matrices import Floats, Indices, Vector
from svm.objectives import best_multiple, dual, primal_point, squared_norm
from svm.problem import Problem
from svm.solvers.protocol import NOT_STOPPED, Inheritance, SolverState

FIRST_TOLERANCE = 0.1
SMALLEST_TOLERANCE = 1e-10


@dataclass(frozen=True, kw_only=True)
class DualCoordinateDescentState(SolverState):
    """The dual point, and the rows not shrunk away."""

    alpha: Vector
    """(n_samples,) 0 … sᵢ."""
    w: Floats
    """(n_features,) w(α), kept up to date through all changes of α."""
    intercept: float
    active: Indices
    """Rows that the next epoch visits."""
    upper: float
    """A variable at 0 with a larger gradient is shrunk."""
    lower: float
    """A variable at sᵢ with a smaller gradient is shrunk."""
    tolerance: float
    """Once the projected gradients of the active rows spread less, all rows come back."""


@dataclass(frozen=True, kw_only=True)
class DualCoordinateDescent(Hyperparameters):
    """Exact minimization over one dual variable at a time, in random order, with shrinking.

    αᵢ ← clip(αᵢ - (yᵢ f(xᵢ) - 1) λn/‖xᵢ‖², 0, sᵢ). The fastest way to a small gap while C is small
    to moderate. It cannot keep Σ αᵢ yᵢ = 0, so the intercept is `augmented` or `none`.
    """

    objective: ClassVar = "½‖w‖² + C Σ hinge, through its dual"
    cost_per_epoch: ClassVar = "at most n updates of O(d), or O(non-zeros) for sparse data"
    reference: ClassVar = (
        "Hsieh, Chang, Lin, Keerthi, Sundararajan: A dual coordinate descent method for "
        "large-scale linear SVM. ICML 2008"
    )
    suggestion: ClassVar = "give a smaller C or scale the features"
    starts_from: ClassVar[tuple[str, ...]] = ("dual-coordinate-descent",)
    inherits: ClassVar = "the dual variables of the rows"
    evaluation_growth: ClassVar = 1.25
    tests_every_update: ClassVar = False
    certifies: ClassVar = True

    name: Literal["dual-coordinate-descent"] = "dual-coordinate-descent"
    intercept: Literal["augmented", "none"] = "augmented"
    """`augmented`: the weight of a constant feature, penalized in ‖w‖². `none`: the hyperplane
    passes through the origin."""

    def stated(self, problem: Problem, primal: float) -> float:
        """½‖w‖² + C Σ hinge is P/λ."""
        return primal / problem.regularization

    def start(
        self, problem: Problem, inherited: Inheritance | None = None
    ) -> DualCoordinateDescentState:
        """α = 0, w = 0, every row active; or the inherited α, as far as its box allows."""
        state = DualCoordinateDescentState(
            alpha=np.zeros(problem.n_samples),
            w=np.zeros(problem.n_features, dtype=problem.dtype),
            intercept=0.0,
            active=np.arange(problem.n_samples),
            upper=np.inf,
            lower=-np.inf,
            tolerance=FIRST_TOLERANCE,
        )
        if inherited is None:
            return state
        scale = problem.regularization * problem.n_samples
        alpha = np.minimum(scale * inherited.dual_coefficients, problem.weights)
        w, intercept = primal_point(problem, alpha)
        return replace(state, alpha=alpha, w=w.astype(problem.dtype), intercept=intercept)

    def advance(
        self, problem: Problem, state: DualCoordinateDescentState
    ) -> DualCoordinateDescentState:
        """One pass over the active rows."""
        from svm.loops.dual_coordinate_descent import sweep

        augmented = problem.intercept == "augmented"
        scale = 1.0 / (problem.regularization * problem.n_samples)
        curvature = scale * (problem.squared_norms + (1.0 if augmented else 0.0))
        # A row of zeros without a constant feature: its αᵢ goes to sᵢ at once, whatever the step.
        inverse_curvature = 1.0 / np.maximum(curvature, 1e-300)
        alpha, w, intercept = state.alpha.copy(), state.w.copy(), state.intercept
        order = state.active[problem.permutation(state.epoch, len(state.active))]
        kept: list[Indices] = []
        largest, smallest = -np.inf, np.inf
        for part in problem.blocks(len(order)):
            block_kept = np.empty(part.stop - part.start, dtype=np.int64)
            intercept, high, low, n_kept = sweep(
                problem.operand,
                problem.rows,
                order[part],
                problem.y,
                problem.weights,
                inverse_curvature,
                scale,
                augmented,
                state.upper,
                state.lower,
                w,
                intercept,
                alpha,
                block_kept,
            )
            kept.append(block_kept[:n_kept])
            largest, smallest = max(largest, high), min(smallest, low)
        # Ascending again, so that neighbors in `active` are neighbors in memory.
        active = np.sort(np.concatenate(kept))
        tolerance, stopped = state.tolerance, NOT_STOPPED
        upper = largest if largest > 0 else np.inf
        lower = smallest if smallest < 0 else -np.inf
        if len(active) == 0 or largest - smallest <= tolerance:
            if len(state.active) == problem.n_samples:  # it holds for all rows
                if tolerance <= SMALLEST_TOLERANCE:
                    stopped = "converged"
                tolerance *= 0.1
            active = np.arange(problem.n_samples)
            upper, lower = np.inf, -np.inf
        return DualCoordinateDescentState(
            epoch=state.epoch + 1,
            updates=state.updates + len(order),
            stopped=stopped,
            alpha=alpha,
            w=w,
            intercept=float(intercept),
            active=active,
            upper=float(upper),
            lower=float(lower),
            tolerance=tolerance,
        )

    def classifier(self, problem: Problem, state: DualCoordinateDescentState) -> LinearClassifier:
        if problem.dtype == np.float32:  # rounding adds up in w, not in α
            return LinearClassifier(*primal_point(problem, state.alpha))
        return LinearClassifier(state.w, state.intercept)

    def bound(self, problem: Problem, state: DualCoordinateDescentState) -> float:
        if problem.dtype == np.float32:
            return dual(problem, state.alpha)
        # w(α) is at hand, and α in its box: no pass over the data is needed.
        penalized = squared_norm(problem, state.w, state.intercept)
        return best_multiple(problem, float(state.alpha.mean()), penalized)

    def dual_coefficients(self, problem: Problem, state: DualCoordinateDescentState) -> Vector:
        """αᵢ/(λn), (n_samples,)."""
        coefficients: Vector = state.alpha / (problem.regularization * problem.n_samples)
        return coefficients
