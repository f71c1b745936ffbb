"""Newton's method on a smoothed hinge loss, with the smoothing reduced to zero.

The hinge max(0, 1 - m) = max over 0 ≤ a ≤ 1 of a (1 - m) becomes smooth by subtracting μ a²/2:

    ℓ_μ(m) = 0  (m ≥ 1),   (1 - m)²/(2μ)  (1 - μ < m < 1),   1 - m - μ/2  (m ≤ 1 - μ)

Its slope is -a with a = clip((1 - m)/μ, 0, 1), so at the minimizer αᵢ = sᵢ aᵢ is dual feasible and
the duality gap of the SVM itself is (μ/n) Σ sᵢ aᵢ (1 - aᵢ): the certificate costs nothing.
Smoothing and dual point: Nesterov, Smooth minimization of non-smooth functions (2005). Newton on
piecewise quadratic losses: Keerthi and DeCoste (2005), Chapelle (2007).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np

from svm.checkpoints import DERIVED
from svm.classifiers import LinearClassifier
from svm.data.matrices import Indices, Vector
from svm.hyperparameters import Hyperparameters, Intercept
from svm.problem import Problem
from svm.problem.certificate import relative_gap
from svm.problem.objectives import dual, primal_at_scores, squared_norm
from svm.solvers.protocol import LINEAR, NOT_STOPPED, Inheritance, SolverState
from svm.solvers.smoothed_hinge import (
    builds_hessian,
    gradient,
    line_search,
    slopes_at,
    solver_of_hessian,
    step_work,
)
from svm.solvers.work import PASSES, pass_work

FIRST_SMOOTHING = 4.0
"""μ at which every row has a slope at w = 0, so that the first step is that of ridge regression."""
LESS_SMOOTHING = 0.25
"""Factor from one level of μ to the next."""
SMALLEST_SMOOTHING = 1e-12
"""μ below which nothing can be gained."""
WARM_SMOOTHING = 0.125
"""Least μ of the first step from inherited weights. With less, weights near the optimum took more
steps than zero weights."""
ROUGH_GAP = 0.01
"""Relative gap above which a Hessian in single precision is enough …"""
LONGEST_ROUGH = 8.0
"""… unless the line search makes its step longer by this factor: then rounding has hidden how flat
the objective is."""
SAMPLE_SHARE = 16
"""A training with many rows begins on one row of 16 …"""
SAMPLED_FROM = 1 << 16, 256
"""… if there are this many rows, and this many for each feature: a smaller sample is no help …"""
SAMPLE_GAP = 0.01
"""… up to this relative gap, about the difference between the optima of the sample and of all
rows."""
SAMPLE_STEPS = 50
"""Most steps on the sample."""
ROUNDING = 1e-15
"""A relative gain of the objective, or change of the weights, that is lost in rounding."""


@dataclass(frozen=True, kw_only=True)
class NewtonState(SolverState):
    """The iterate under the current smoothing, and the best primal and dual points so far."""

    w: Vector
    intercept: float
    scores: Vector = field(metadata=DERIVED)
    """(n_samples,) of these weights; empty if the state comes from a checkpoint."""
    smoothing: float
    """μ of the next step."""
    last_smoothing: float
    """μ of the latest step."""
    best_w: Vector
    best_intercept: float
    best_scores: Vector = field(metadata=DERIVED)
    best_primal: float
    best_dual: float
    work: float
    """Of all steps (`svm.solvers.work`)."""


@dataclass(frozen=True, kw_only=True)
class Newton(Hyperparameters):
    """Newton steps with exact line search on a smoothed hinge whose smoothing goes to zero.

    A few dozen passes over the data reach gaps that stochastic solvers never reach, at any C.
    Builds the Hessian for dense data with up to 2,000 features; for more, and for sparse data, it
    uses conjugate gradients on products with it.
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
    certifies: ClassVar = True
    needs_certifier: ClassVar = False

    name: Literal["newton"] = "newton"
    intercept: Intercept = "free"
    """`free`: not penalized. `augmented`: the weight of a constant feature, penalized in ‖w‖².
    `none`: the hyperplane passes through the origin."""

    @property
    def streams(self) -> bool:
        return True

    def stated(self, problem: Problem, primal: float) -> float:
        """P itself: this solver states the common form."""
        return primal

    def start(self, problem: Problem, inherited: Inheritance | None = None) -> NewtonState:
        """w = 0, b = 0; or the inherited w and b, with little smoothing."""
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
            work=0.0,
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
        if state.epoch == 0 and state.smoothing == FIRST_SMOOTHING:
            state = self._after_sample(problem, state)
        mu = state.smoothing
        point = np.append(state.w, state.intercept)
        scores = _scores(problem, state.w, state.intercept, state.scores)
        short = 1.0 - problem.y * scores
        # After the smoothing was reduced, most rows near the margin are still there, only closer.
        # The rows in the old, wider range determine the step; the few in the new range would make
        # it far too long.
        level = max(mu, state.last_smoothing)
        active = np.flatnonzero((short > 0.0) & (short < level))
        slopes = np.where(short >= level, 1.0, np.maximum(short, 0.0) / mu)
        derivative = gradient(problem, point, slopes)
        step, changes, length, work = self._step(problem, state, point, scores, active, derivative)
        # The slopes at the end of the whole step have their w(α) there, except for the rows whose
        # slopes are clipped: a better bound than the slopes at the point that the search reaches.
        slopes[active] -= (problem.y * changes)[active] / mu
        lower = dual(problem, np.clip(slopes, 0.0, 1.0) * problem.weights)
        point = point + length * step
        w, intercept = point[:-1].copy(), float(point[-1])
        scores = problem.scores(w, intercept)

        primal = primal_at_scores(problem, squared_norm(problem, w, intercept), scores)
        slopes = slopes_at(problem, scores, mu)
        improved = primal < state.best_primal
        best_primal, best_dual = min(primal, state.best_primal), max(lower, state.best_dual)

        # At the exact solution of this level the gap is mean(μ sᵢ aᵢ (1 - aᵢ)), the cost of the
        # smoothing. Reducing it before Newton comes near that would only need more steps later.
        cost = mu * float((problem.weights * slopes * (1.0 - slopes)).mean())
        # If the step, or what it would gain, is lost in rounding, this level is done.
        moved = length * float(np.abs(step).max()) > ROUNDING * float(np.abs(point).max())
        lost = not moved or -float(derivative @ step) <= ROUNDING * primal
        if lost or primal - lower <= 2.0 * cost:
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
            work=state.work + work,
        )

    def _step(
        self,
        problem: Problem,
        state: NewtonState,
        point: Vector,
        scores: Vector,
        active: Indices,
        derivative: Vector,
    ) -> tuple[Vector, Vector, float, float]:
        """(Step, its change of the scores, its best length, the work of the whole step)."""
        mu, work = state.smoothing, PASSES * pass_work(problem)
        rough = builds_hessian(problem) and _relative_gap(state) > ROUGH_GAP
        while True:
            step, more = solver_of_hessian(problem, active, mu, rough=rough)(-derivative)
            work += more
            changes = problem.scores(step[:-1], step[-1])
            length = line_search(problem, point, step, scores, changes, mu)
            if not rough or length <= LONGEST_ROUGH:
                return step, changes, length, work
            rough = False

    def _after_sample(self, problem: Problem, state: NewtonState) -> NewtonState:
        """The state with weights and smoothing that are nearly optimal for a sample of the rows.

        The first steps need no more rows, and take a sixteenth of the time.
        """
        least, least_to_feature = SAMPLED_FROM
        if problem.n_samples < max(least, least_to_feature * (problem.n_features + 1)):
            return state
        sample = problem.sample(SAMPLE_SHARE)
        near = self.start(sample)
        while _relative_gap(near) > SAMPLE_GAP:
            if near.stopped or near.epoch == SAMPLE_STEPS:
                return replace(state, work=near.work)
            near = self.advance(sample, near)
        return replace(
            state,
            w=near.best_w,
            intercept=near.best_intercept,
            scores=problem.scores(near.best_w, near.best_intercept),
            smoothing=near.last_smoothing,
            last_smoothing=near.last_smoothing,
            work=near.work,
        )

    def classifier(self, problem: Problem, state: NewtonState) -> LinearClassifier:
        return LinearClassifier(state.best_w, state.best_intercept)

    def scores(self, problem: Problem, state: NewtonState) -> Vector:
        """Of the best weights so far, (n_samples,)."""
        return _scores(problem, state.best_w, state.best_intercept, state.best_scores)

    def bound(self, problem: Problem, state: NewtonState) -> float:
        return state.best_dual

    def work_after(self, problem: Problem, state: NewtonState) -> float:
        """That of all steps so far, and of one more, if it takes as long as their mean."""
        if state.epoch:
            return state.work * (1.0 + 1.0 / state.epoch)
        return PASSES * pass_work(problem) + step_work(problem)

    def enclosure(self, problem: Problem, state: NewtonState) -> tuple[float, float]:
        """The best primal value and the best bound so far."""
        return state.best_primal, state.best_dual


def _relative_gap(state: NewtonState) -> float:
    return relative_gap(state.best_primal, state.best_dual)


def _scores(problem: Problem, w: Vector, intercept: float, known: Vector) -> Vector:
    return known if len(known) else problem.scores(w, intercept)


def _best_bound(problem: Problem, scores: Vector) -> tuple[float, float]:
    """(μ whose slopes at these scores give the best dual point, its value): the smoothing for which
    the weights are nearly optimal."""
    mu, best = FIRST_SMOOTHING, (FIRST_SMOOTHING, 0.0)
    while mu > SMALLEST_SMOOTHING:
        lower = dual(problem, problem.weights * slopes_at(problem, scores, mu))
        if 0.0 < best[1] >= lower:
            break
        best = mu, lower
        mu *= LESS_SMOOTHING
    return best
