"""A step of Newton's method: its state, its sums over the rows, its direction and its length."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from svm.data.matrices import Indices, Vector
from svm.data.shards import tree_sum
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
    slope_smoothing: float
    """μ of the slopes aᵢ = clip(centerᵢ + (1 - yᵢ fᵢ)/μ, 0, 1) at these scores; infinite if they
    are the centers."""
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
    best_error: float
    """Share of the rows on the wrong side of the best weights."""
    best_slopes: Vector
    """(n_samples,) aᵢ of the best dual point; empty if they are those at these scores."""
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
    """(n_samples,) of the scores, if its length is 1."""
    length: float
    """That minimizes the smoothed objective."""
    gain: float
    """Twice that of the quadratic model."""
    work: float
    """Of the Hessian and its solution."""


def newton_step(problem: Problem, state: NewtonState, point: Vector) -> Step:
    """The step from `point`, (w, b) of a state with sums."""
    mu, work = state.smoothing, 0.0
    # After the smoothing was reduced, most rows near the margin are still there, only closer.
    # The rows that were near it determine the step, as if no slope were clipped; the few that
    # are near the new, narrower margin would make it far too long.
    rows, pulls, total = _near_margin(problem, state)
    pull, more = np.zeros(problem.n_features), None
    gap, share = relative_gap_of(state), 1.0
    if state.reduced:
        more = pulls, pull
    elif gap > SAMPLED_GAP and len(rows):
        n_active = len(rows)
        rows = rows[:: 1 + n_active // (SAMPLED_ROWS * (problem.n_features + 1))].copy()
        share = len(rows) / n_active
    products = len(rows) * problem.n_features**2
    rough = builds_hessian(problem) and gap > ROUGH_GAP and products >= ROUGH_FROM
    while True:
        solve = solver_of_hessian(problem, rows, share * mu, rough=rough, pull=more)
        combined = state.sums[1] - state.sums[0] + pull
        derivative = gradient_of_sum(problem, point, combined, total)
        step, further = solve(-derivative)
        del solve  # and what it keeps of the rows
        work += further
        changes = problem.scores(step[:-1], step[-1])
        length = line_search(problem, point, step, state.scores, changes, state.centers, mu)
        if not rough or length <= LONGEST_ROUGH:
            return Step(step, changes, length, -float(derivative @ step), work)
        rough = False


def _near_margin(problem: Problem, state: NewtonState) -> tuple[Indices, Vector, float]:
    """The rows near the margin; what is added to their sᵢ aᵢ yᵢ if the smoothing was reduced and no
    slope is clipped; and the sum of all of these, over all rows: the second only if it was."""
    from svm.loops.newton import near_margin

    edges = problem.leaves
    totals, starts = np.empty((len(edges) - 1, 3)), np.zeros(len(edges), dtype=np.int64)
    positions, pulls = np.empty(0, dtype=np.int64), np.empty(0)
    rows = problem.y, problem.leaf_weights, state.scores, state.centers
    smoothing, following = state.slope_smoothing, state.smoothing

    def of_run(run: slice) -> None:
        some = edges[run.start : run.stop + 1]
        near_margin(some, *rows, smoothing, following, starts[run], positions, pulls, totals[run])

    problem.each_run(of_run)
    starts[1:] = np.cumsum(totals[:, 2])
    positions, pulls = np.empty(starts[-1], dtype=np.int64), np.empty(starts[-1])
    problem.each_run(of_run)
    total, pull, _ = tree_sum(totals).tolist()
    return positions, pulls, total + pull if state.reduced else total


def relative_gap_of(state: NewtonState) -> float:
    return relative_gap(state.best_primal, state.best_dual)


def slopes_of(problem: Problem, scores: Vector, centers: Vector, mu: float) -> Vector:
    """aᵢ = clip(centerᵢ + (1 - yᵢ fᵢ)/μ, 0, 1)."""
    edges, slopes = problem.leaves, np.empty(problem.n_samples)

    def of_run(run: slice) -> None:
        for first, last in pairwise(edges[run.start : run.stop + 1]):
            leaf = slice(first, last)
            short = 1.0 - problem.y[leaf] * scores[leaf]
            np.clip(centers[leaf] + short / mu, 0.0, 1.0, out=slopes[leaf])

    problem.each_run(of_run)
    return slopes


def best_slopes_of(problem: Problem, state: NewtonState) -> Vector:
    """(n_samples,) aᵢ of the best dual point so far."""
    if len(state.best_slopes):
        return state.best_slopes
    if len(state.scores) == 0:
        return np.zeros(problem.n_samples)
    if state.slope_smoothing == np.inf:
        return state.centers
    return slopes_of(problem, state.scores, state.centers, state.slope_smoothing)


def with_sums(problem: Problem, state: NewtonState) -> NewtonState:
    """The state with scores and sums over all rows again, if these are not known or rounding may
    matter."""
    if len(state.centers) == 0:
        state = replace(state, centers=np.zeros(problem.n_samples))
    if len(state.sums) and state.epoch % UPDATES and relative_gap_of(state) >= PRECISE_GAP:
        return state
    scores = np.empty(problem.n_samples)
    at = state.w, state.intercept, state.centers, state.slope_smoothing
    point, _ = fresh(problem, *at, scores)
    work = state.work + pass_work(problem)
    return replace(state, scores=scores, sums=point.sums, work=work)
