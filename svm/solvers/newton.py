"""Newton's method on a smoothed hinge loss, with the smoothing reduced to zero.

The hinge max(0, 1 - m) = max over 0 ≤ a ≤ 1 of a (1 - m) becomes smooth by subtracting μ a²/2:

    ℓ_μ(m) = 0  (m ≥ 1),   (1 - m)²/(2μ)  (1 - μ < m < 1),   1 - m - μ/2  (m ≤ 1 - μ)

Its slope is -a with a = clip((1 - m)/μ, 0, 1), so at the minimizer αᵢ = sᵢ aᵢ is dual feasible and
the duality gap of the SVM itself is (μ/n) Σ sᵢ aᵢ (1 - aᵢ): the certificate costs nothing.

Once a level of μ is solved, its slopes become the centers of the next: μ (a - center)²/2 is
subtracted there, and a = clip(center + (1 - m)/μ, 0, 1). So the gap falls to zero much faster than
μ, and enough rows stay near the margin to determine the next step.

Smoothing and dual point: Nesterov, Smooth minimization of non-smooth functions (2005). Centers: the
method of multipliers (Rockafellar, 1976). Newton on piecewise quadratic losses: Keerthi and DeCoste
(2005), Chapelle (2007).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from svm.data.matrices import Vector
from svm.data.stored_rows import stored_values
from svm.hyperparameters import Hyperparameters, Intercept, Loss
from svm.problem import objectives
from svm.problem.passes import RowValues
from svm.problem.problem import LinearClassifier, Problem
from svm.solvers.options import Initial
from svm.solvers.protocol import NOT_STOPPED, Inheritance, SolvedPair
from svm.solvers.smoothing import newton_steps, small_problems
from svm.solvers.smoothing.class_sums import lower_bound, sum_all_rows
from svm.solvers.smoothing.newton_steps import (
    LESS_SMOOTHING,
    LITTLE_LESS_SMOOTHING,
    ROUNDING,
    SMALLEST_SMOOTHING,
    NewtonState,
)
from svm.solvers.smoothing.smoothed_hinge import (
    STEEP,
    pass_work,
    rows_work,
    slopes_at,
    step_work,
    unit_of,
)

FIRST_SMOOTHING = 4.0
"""μ at which every row has a slope at w = 0, so that the first step is that of ridge regression."""
WARM_SMOOTHING = 0.125
"""Least μ of the first step from inherited weights. With less, weights near the optimum took more
steps than zero weights."""
SAMPLE_SHARE = 16
"""A training with many rows begins on one row of 16 …"""
SAMPLE_VALUES = 1 << 23
"""… or fewer, with this many values: 64 MiB …"""
SAMPLED_FROM = 1 << 16, 16
"""… if there are this many rows, and in the sample this many for each feature: a smaller one is no
help …"""
SAMPLE_GAP = 0.1
"""… up to the level of μ that is solved with this relative gap: with less smoothing the rows near
the margin of the sample would determine the weights too much."""
SAMPLE_STEPS = 50
"""Most steps on the sample."""
FLOAT_BYTES = 8


@dataclass(frozen=True, kw_only=True)
class Newton(Hyperparameters):
    """Newton steps with line search on a smoothed hinge whose smoothing goes to zero.

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
    starts_from: ClassVar = "linear"
    inherits: ClassVar = "the weights"
    evaluation_growth: ClassVar = 1.0
    own_loops: ClassVar = ({"loss": "squared-hinge"}, {"loss": "epsilon-insensitive"})
    states_common_form: ClassVar = True
    certifies: ClassVar = True
    needs_certifier: ClassVar = False
    row_values: ClassVar = (2, 5)
    """Scores, centers and slopes, before a step and after it. Measured are at most 42 bytes a row
    for two classes."""

    name: Literal["newton"] = "newton"
    intercept: Intercept = "free"
    """`free`: not penalized. `augmented`: the weight of a constant feature, penalized in ‖w‖².
    `none`: the hyperplane passes through the origin."""
    loss: Loss = None
    initial: Initial = "zero"

    @property
    def streams(self) -> bool:
        return True

    def start(self, problem: Problem, inherited: Inheritance | None = None) -> NewtonState:
        """w = 0, b = 0; or the inherited w and b, or random weights, with less smoothing."""
        w, unknown, first = problem.zeros, np.empty(0), _first_smoothing(problem)
        cost, error = objectives.at_zero(problem)
        state = NewtonState(
            w=w,
            intercept=0.0,
            scores=unknown,
            slope_smoothing=first,
            sums=np.zeros((0, problem.n_features)),
            smoothing=first,
            centers=unknown,
            best_w=w,
            best_intercept=0.0,
            best_error=error,
            best_slopes=unknown,
            best_primal=cost,
            best_dual=0.0,
        )
        if inherited is not None:
            w, intercept = inherited.w, inherited.intercept_under(problem.intercept)
        elif self.initial != "zero":
            w, intercept = self.initial.weights(problem), 0.0
        else:
            return state
        scores = problem.scores(w, intercept)
        sharpest, lower = _best_bound(problem, scores)
        return replace(
            state,
            w=w,
            intercept=intercept,
            scores=scores,
            smoothing=max(sharpest, WARM_SMOOTHING),
            slope_smoothing=max(sharpest, WARM_SMOOTHING),
            best_w=w,
            best_intercept=intercept,
            best_error=objectives.error_of(problem, scores),
            best_slopes=slopes_at(problem, scores, sharpest),
            best_primal=objectives.primal_at_scores(
                problem, objectives.squared_norm(problem, w, intercept), scores
            ),
            best_dual=lower,
        )

    def advance(self, problem: Problem, state: NewtonState) -> NewtonState:
        """One Newton step; then less smoothing, if this level is solved well enough."""
        if small_problems.is_small(problem):
            return small_problems.advance(problem, state)
        cold = state.smoothing == _first_smoothing(problem)
        if problem.loss.squared:
            cold = len(state.scores) == 0
        if state.epoch == 0 and cold:
            state = self._after_sample(problem, state)
        return self._advance(problem, state, recenters=True)

    def _advance(self, problem: Problem, state: NewtonState, *, recenters: bool) -> NewtonState:
        mu, state = state.smoothing, newton_steps.renew_sums(problem, state)
        point = np.append(state.w, state.intercept)
        taken = newton_steps.newton_step(problem, state, point)
        moved = taken.length * taken.step
        point = point + moved
        w, intercept = point[:-1].copy(), float(point[-1])
        end = taken.end or newton_steps.end_at(problem, state, taken.changes, taken.length)
        scores = end.scores
        squared, latest = problem.loss.squared, np.empty(0)
        if squared:
            latest = newton_steps.slopes_of(problem, scores, state.centers, mu)
        primal = _primal(problem, w, intercept, end.hinge, scores)
        lower, best_slopes = lower_bound(problem, end.latest, latest), np.empty(0)
        other = 0.0 if end.ends is None else lower_bound(problem, end.ends, end.end_slopes)
        if other > lower:
            lower, best_slopes = other, end.end_slopes

        improved, raised = primal < state.best_primal, lower > state.best_dual
        best_primal, best_dual = min(primal, state.best_primal), max(lower, state.best_dual)
        if not raised:
            best_slopes = newton_steps.best_slopes_of(problem, state)

        # At the exact solution of this level the gap is that between the losses and their tangents,
        # the cost of the smoothing. Less smoothing before Newton comes near that would only need
        # more steps later.
        solved = not squared and primal - lower <= 2.0 * end.cost / problem.n_samples
        if not state.reduced:  # if the step, or its gain, is lost in rounding, this level is done
            lost = float(np.abs(moved).max()) <= ROUNDING * float(np.abs(point).max())
            solved = solved or lost or unit_of(problem) * taken.gain <= ROUNDING * primal
        converged = best_primal - best_dual <= 1e-13 * best_primal or (squared and solved)
        centers, slope_smoothing = state.centers, mu
        mean_error = problem.loss.mean_error(end.error, problem.n_samples)
        work = state.work + taken.work + rows_work(problem, problem.n_samples + end.read)
        state = replace(state, scores=np.empty(0))  # they may be others than the caller's
        if solved and recenters and not squared:
            centers, slope_smoothing = newton_steps.slopes_of(problem, scores, centers, mu), np.inf
        if solved and not squared:
            mu *= LESS_SMOOTHING if state.steps == 0 or not recenters else LITTLE_LESS_SMOOTHING
        converged = converged or mu < SMALLEST_SMOOTHING
        return NewtonState(
            epoch=state.epoch + 1,
            updates=state.updates + 1,
            stopped="converged" if converged else NOT_STOPPED,
            w=w,
            intercept=intercept,
            scores=scores,
            slope_smoothing=slope_smoothing,
            sums=end.latest.sums,
            smoothing=mu,
            centers=centers,
            reduced=solved,
            steps=0 if solved else state.steps + 1,
            best_w=w if improved else state.best_w,
            best_intercept=intercept if improved else state.best_intercept,
            best_error=mean_error if improved else state.best_error,
            best_slopes=best_slopes,
            best_primal=best_primal,
            best_dual=best_dual,
            work=work,
        )

    def _after_sample(self, problem: Problem, state: NewtonState) -> NewtonState:
        """The state with weights and smoothing that are nearly optimal for a sample of the rows.

        The first steps need no more rows, and take a sixteenth of the time. Their levels have no
        centers, which rows outside of the sample lack.
        """
        n = problem.n_samples
        values = n * stored_values(problem.X) // problem.X.shape[0]
        share = sample_share(n, problem.n_features, values)
        if share == 0:
            return state
        sample = problem.sample(share)
        near = self._after_sample(sample, self.start(sample))
        while True:
            if near.stopped or near.epoch == SAMPLE_STEPS:
                return replace(state, work=near.work)
            level, near = near.smoothing, self._advance(sample, near, recenters=False)
            done = near.reduced or problem.loss.squared
            if done and newton_steps.relative_gap_of(near) <= SAMPLE_GAP:
                break
        return replace(
            state,
            w=near.w,
            intercept=near.intercept,
            smoothing=level,
            slope_smoothing=level,
            work=near.work,
        )

    def renew(self, problem: Problem, state: NewtonState) -> NewtonState:
        """The state with primal value and bound summed over all rows again: those of its steps are
        updated sums, in which rounding adds up, unless the problem is small."""
        if small_problems.is_small(problem):
            return state
        w, intercept = state.best_w, state.best_intercept
        slopes = newton_steps.best_slopes_of(problem, state)
        at = w, intercept, slopes, np.inf
        point, hinge, scores = sum_all_rows(problem, *at, makes_scores=problem.loss.squared)
        return replace(
            state,
            best_slopes=slopes,
            best_primal=_primal(problem, w, intercept, hinge, scores),
            best_dual=lower_bound(problem, point, slopes),
            work=state.work + pass_work(problem),
        )

    def solve_together(
        self,
        problems: Sequence[Problem],
        states: Sequence[NewtonState],
        gap: float,
        most_epochs: int,
        most_updates: int,
    ) -> Iterator[dict[int, SolvedPair]]:
        if not small_problems.are_many(problems):
            return iter(())
        return small_problems.solve(problems, states, gap, min(most_epochs, most_updates))

    def classifier(self, problem: Problem, state: NewtonState) -> LinearClassifier:
        return LinearClassifier(state.best_w, state.best_intercept)

    def scores(self, problem: Problem, state: NewtonState) -> Vector:
        """The scores of the best weights so far, (n_samples,)."""
        if small_problems.is_small(problem):
            return small_problems.scores(problem, state)
        latest = np.array_equal(state.best_w, state.w) and state.best_intercept == state.intercept
        if latest and len(state.scores):
            scores: Vector = state.scores
            return scores
        return problem.scores(state.best_w, state.best_intercept)

    def evaluation(self, problem: Problem, state: NewtonState) -> tuple[float, float]:
        """(Primal value, share of the rows on the wrong side) of the best weights so far."""
        return state.best_primal, state.best_error

    def bound(self, problem: Problem, state: NewtonState) -> float:
        return state.best_dual

    def work_after(self, problem: Problem, state: NewtonState) -> float:
        """That of all steps so far, and of one more, if it takes as long as their mean."""
        if state.epoch:
            return state.work * (1.0 + 1.0 / state.epoch)
        return step_work(problem)

    def enclosure(self, problem: Problem, state: NewtonState) -> tuple[float, float]:
        """The best primal value and the best bound so far."""
        return state.best_primal, state.best_dual


def sample_share(n_samples: int, n_features: int, values: int) -> int:
    """k, if a training on rows with `values` numbers begins on every k-th run of them; or 0."""
    least, least_to_feature = SAMPLED_FROM
    share = max(SAMPLE_SHARE, -(-values // SAMPLE_VALUES))
    few = n_samples < least or n_samples // share < least_to_feature * (n_features + 1)
    return 0 if few else share


def sample_bytes(n_samples: int, values: int, value_bytes: int) -> int:
    """Most memory that a sample of the rows takes beyond the numbers of all rows, which do not
    exist meanwhile."""
    if n_samples < SAMPLED_FROM[0]:
        return 0
    sample = value_bytes * min(SAMPLE_VALUES, values // SAMPLE_SHARE)
    return max(0, sample - FLOAT_BYTES * Newton.row_values[1] * n_samples)


def _primal(
    problem: Problem, w: Vector, intercept: float, hinge: float, scores: RowValues
) -> float:
    """P from the sum of the hinges; of a squared loss, which they do not tell, from the scores."""
    norm = objectives.squared_norm(problem, w, intercept)
    if problem.loss.squared:
        return objectives.primal_at_scores(problem, norm, scores)
    return objectives.primal_of(problem, norm, hinge)


def _first_smoothing(problem: Problem) -> float:
    return STEEP if problem.loss.squared else FIRST_SMOOTHING


def _best_bound(problem: Problem, scores: Vector) -> tuple[float, float]:
    """(μ whose slopes at these scores give the best dual point, its value): the smoothing for which
    the weights are nearly optimal."""
    if problem.loss.squared:
        return STEEP, objectives.dual(problem, problem.weights * slopes_at(problem, scores, STEEP))
    mu, best = FIRST_SMOOTHING, (FIRST_SMOOTHING, 0.0)
    while mu > SMALLEST_SMOOTHING:
        lower = objectives.dual(problem, problem.weights * slopes_at(problem, scores, mu))
        if 0.0 < best[1] >= lower:
            break
        best = mu, lower
        mu *= LESS_SMOOTHING
    return best
