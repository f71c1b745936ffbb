"""A step of Newton's method: its state, its sums over the rows, its direction and its length."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from svm.checkpoints import DERIVED
from svm.data.matrices import Indices, Vector
from svm.problem import Problem
from svm.problem.certificate import relative_gap
from svm.solvers.class_sums import fresh
from svm.solvers.protocol import SolverState
from svm.solvers.smoothed_hinge import (
    builds_hessian,
    gradient_of_sum,
    line_search,
    solver_of_hessian,
)
from svm.solvers.work import pass_work

ROUGH_GAP = 0.01
"""Relative gap above which a Hessian in single precision is enough …"""
ROUGH_FROM = 1 << 20
"""… if it takes at least this number of products; a smaller one is fast in double precision …"""
LONGEST_ROUGH = 8.0
"""… unless the line search makes its step longer by this factor: then rounding has hidden how flat
the objective is."""
SAMPLED_GAP = 0.1
"""Relative gap above which the Hessian of a sample of the rows near the margin is enough …"""
SAMPLED_ROWS = 1024
"""… of at least half as many for each feature."""
UPDATES = 16
"""Most steps between two sums over all rows: rounding in updated sums grows with their number …"""
PRECISE_GAP = 1e-6
"""… and below this relative gap all rows are summed in each step."""


@dataclass(frozen=True, kw_only=True)
class NewtonState(SolverState):
    """The iterate under the current smoothing, and the best primal and dual points so far."""

    w: Vector
    intercept: float
    scores: Vector
    """(n_samples,) of these weights; empty if they are not known."""
    slopes: Vector = field(metadata=DERIVED)
    """(n_samples,) aᵢ at these scores, under the smoothing of the latest step; empty if the state
    comes from a checkpoint."""
    sums: Vector
    """(2, n_features) Σ sᵢ aᵢ xᵢ of each class; (0, n_features) if they are not known."""
    smoothing: float
    """μ of the next step."""
    centers: Vector
    """(n_samples,) of the smoothing of the next step; empty if they are 0."""
    reduced: bool = False
    """Whether the smoothing was reduced after the latest step."""
    steps: int = 0
    """Taken with this smoothing."""
    best_w: Vector
    best_intercept: float
    best_scores: Vector
    """(n_samples,) of the best weights; empty if these are the latest."""
    best_slopes: Vector
    """(n_samples,) aᵢ of the best dual point; empty if they are 0."""
    best_primal: float
    best_dual: float
    work: float = 0.0
    """Of all steps (`svm.solvers.work`)."""


@dataclass(frozen=True)
class Step:
    """What one step does, before anything has changed."""

    step: Vector
    """(n_features + 1,) of (w, b), if its length is 1."""
    changes: Vector
    """(n_samples,) of the scores."""
    length: float
    """That minimizes the smoothed objective."""
    active: Indices
    """The rows near the margin."""
    gain: float
    """Twice that of the quadratic model."""
    work: float
    """Of the Hessian and its solution."""


def newton_step(problem: Problem, state: NewtonState, point: Vector) -> Step:
    """The step from `point`, (w, b) of a state with sums."""
    mu, y, slopes, work = state.smoothing, problem.y, state.slopes, 0.0
    # After the smoothing was reduced, most rows near the margin are still there, only closer.
    # The rows that were near it determine the step, as if no slope were clipped; the few that
    # are near the new, narrower margin would make it far too long.
    active = np.flatnonzero((slopes > 0.0) & (slopes < 1.0))
    signed, pull, more = problem.weights * y, np.zeros(problem.n_features), None
    total = float(signed @ slopes)
    gap, rows, share = relative_gap_of(state), active, 1.0
    if state.reduced:
        unclipped = (state.centers + (1.0 - y * state.scores) / mu)[active]
        more = signed[active] * (unclipped - slopes[active]), pull
        total += float(more[0].sum())
    elif gap > SAMPLED_GAP and len(active):
        rows = active[:: 1 + len(active) // (SAMPLED_ROWS * (problem.n_features + 1))]
        share = len(rows) / len(active)
    products = len(rows) * problem.n_features**2
    rough = builds_hessian(problem) and gap > ROUGH_GAP and products >= ROUGH_FROM
    shifted = state.scores - mu * y * state.centers  # at these the centers are 0
    while True:
        solve = solver_of_hessian(problem, rows, share * mu, rough=rough, pull=more)
        combined = state.sums[1] - state.sums[0] + pull
        derivative = gradient_of_sum(problem, point, combined, total)
        step, further = solve(-derivative)
        work += further
        changes = problem.scores(step[:-1], step[-1])
        length = line_search(problem, point, step, shifted, changes, mu)
        if not rough or length <= LONGEST_ROUGH:
            return Step(step, changes, length, active, -float(derivative @ step), work)
        rough = False


def relative_gap_of(state: NewtonState) -> float:
    return relative_gap(state.best_primal, state.best_dual)


def slopes_of(problem: Problem, scores: Vector, centers: Vector, mu: float) -> Vector:
    """aᵢ = clip(centerᵢ + (1 - yᵢ fᵢ)/μ, 0, 1)."""
    return np.clip(centers + (1.0 - problem.y * scores) / mu, 0.0, 1.0)


def with_sums(problem: Problem, state: NewtonState) -> NewtonState:
    """The state with scores and sums over all rows again, if these are not known or rounding may
    matter."""
    if len(state.centers) == 0:
        state = replace(state, centers=np.zeros(problem.n_samples))
    centers, mu = state.centers, np.inf if state.reduced else state.smoothing
    if len(state.sums) and state.epoch % UPDATES and relative_gap_of(state) >= PRECISE_GAP:
        if len(state.slopes):
            return state
        return replace(state, slopes=slopes_of(problem, state.scores, centers, mu))
    if state.reduced and len(state.slopes):  # on a sample these differ
        centers = state.slopes
    scores, sums = fresh(problem, state.w, state.intercept, centers, mu)
    slopes = slopes_of(problem, scores, centers, mu)
    work = state.work + pass_work(problem)
    return replace(state, scores=scores, slopes=slopes, sums=sums, work=work)
