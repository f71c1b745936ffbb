"""A step of Newton's method: its state, its sums over the rows, its direction and its length."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from svm.data.matrices import Indices, Vector
from svm.data.shards import tree_sum
from svm.problem import Problem
from svm.problem.certificate import relative_gap
from svm.problem.passes import Chosen, RowValues, Run
from svm.solvers.protocol import SolverState
from svm.solvers.smoothing.class_sums import fresh
from svm.solvers.smoothing.smoothed_hinge import (
    Active,
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
    scores: RowValues
    """(n_samples,) of these weights; empty if they are not known."""
    slope_smoothing: float
    """μ of the slopes aᵢ = clip(centerᵢ + (1 - yᵢ fᵢ)/μ, 0, 1) at these scores; infinite if they
    are the centers."""
    sums: Vector
    """(2, n_features) Σ sᵢ aᵢ xᵢ of each class; (0, n_features) if they are not known."""
    smoothing: float
    """μ of the next step."""
    centers: RowValues
    """(n_samples,) of the smoothing of the next step; empty if they are 0."""
    reduced: bool = False
    """Whether the smoothing was reduced after the latest step."""
    steps: int = 0
    """Taken with this smoothing."""
    best_w: Vector
    best_intercept: float
    best_error: float
    """Share of the rows on the wrong side of the best weights."""
    best_slopes: RowValues
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
    changes: RowValues
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
    near = state.slope_smoothing, state.smoothing
    of = [state.scores, state.centers]
    notes = problem.compute(_near_margin, *near, of=of, notes=3, together=0).notes
    total, change_total, _ = tree_sum(notes).tolist()
    n_active, stride = int(notes[:, 2].sum()), 1
    gap = relative_gap_of(state)
    if state.reduced:
        total += change_total
    elif gap > SAMPLED_GAP and n_active:
        stride = 1 + n_active // (SAMPLED_ROWS * (problem.n_features + 1))
    starts = np.zeros(len(notes) + 1, dtype=np.int64)
    starts[1:] = np.cumsum(notes[:, 2])
    chosen = problem.compute(
        *(_choose, *near, starts, stride), of=of, chooses=True, together=0
    ).made[0]
    count = -(-n_active // stride)
    share = count / n_active if n_active else 1.0
    active = Active(chosen, count, share * mu, sums_changes=state.reduced)
    products = count * problem.n_features**2
    rough = builds_hessian(problem) and gap > ROUGH_GAP and products >= ROUGH_FROM
    while True:
        solve, change = solver_of_hessian(problem, active, rough=rough)
        combined = state.sums[1] - state.sums[0] + change
        derivative = gradient_of_sum(problem, point, combined, total)
        step, further = solve(-derivative)
        del solve  # and what it keeps of the rows
        work += further
        changes = problem.scores(step[:-1], step[-1])
        length = line_search(problem, point, step, state.scores, changes, state.centers, mu)
        if not rough or length <= LONGEST_ROUGH:
            return Step(step, changes, length, -float(derivative @ step), work)
        rough = False


def _near_margin(run: Run, smoothing: float, following: float) -> None:
    """Notes the sum of all sᵢ aᵢ yᵢ; of the rows near the margin, how much is added to theirs if
    the smoothing is reduced and no slope is clipped; and their number."""
    from svm.loops.newton import near_margin

    starts, none = np.zeros(len(run.notes), dtype=np.int64), np.empty(0, dtype=np.int64)
    scores, centers = run.of
    rows = run.inner, run.y, run.weights, scores, centers
    near_margin(*rows, smoothing, following, starts, none, np.empty(0), run.notes)


def _choose(run: Run, smoothing: float, following: float, starts: Indices, stride: int) -> None:
    """Choose the rows near the margin, or every `stride`-th of them, with what is added to their
    sᵢ aᵢ yᵢ. `starts`: how many are before each leaf, and all."""
    from svm.loops.newton import near_margin

    own = starts[run.leaf : run.leaf + len(run.edges)]
    most = int(own[-1] - own[0])
    positions, changes = np.empty(most, dtype=np.int64), np.empty(most)
    scores, centers = run.of
    rows, notes = (run.inner, run.y, run.weights, scores, centers), np.empty((len(own) - 1, 3))
    near_margin(*rows, smoothing, following, own - own[0], positions, changes, notes)
    positions += run.rows.start
    if stride > 1:
        some = slice(-int(own[0]) % stride, most, stride)
        positions, changes = positions[some].copy(), changes[some].copy()
    run.chosen = Chosen(positions, changes)


def relative_gap_of(state: NewtonState) -> float:
    return relative_gap(state.best_primal, state.best_dual)


def slopes_of(problem: Problem, scores: RowValues, centers: RowValues, mu: float) -> RowValues:
    """aᵢ = clip(centerᵢ + (1 - yᵢ fᵢ)/μ, 0, 1)."""
    return problem.compute(_slopes, mu, of=[scores, centers], makes=1, together=0).made[0]


def _slopes(run: Run, mu: float) -> None:
    (scores, centers), (slopes,) = run.of, run.made
    for first, last in pairwise(run.inner.tolist()):
        leaf = slice(first, last)
        short = 1.0 - run.y[leaf] * scores[leaf]
        np.clip(centers[leaf] + short / mu, 0.0, 1.0, out=slopes[leaf])


def zeros(problem: Problem) -> RowValues:
    """A zero for each row."""
    return problem.compute(_zeros, makes=1, together=0).made[0]


def _zeros(run: Run) -> None:
    run.made[0][:] = 0.0


def best_slopes_of(problem: Problem, state: NewtonState) -> RowValues:
    """(n_samples,) aᵢ of the best dual point so far."""
    if len(state.best_slopes):
        return state.best_slopes
    if len(state.scores) == 0:
        return zeros(problem)
    if state.slope_smoothing == np.inf:
        return state.centers
    return slopes_of(problem, state.scores, state.centers, state.slope_smoothing)


def with_sums(problem: Problem, state: NewtonState) -> NewtonState:
    """The state with scores and sums over all rows again, if these are not known or rounding may
    matter."""
    if len(state.centers) == 0:
        state = replace(state, centers=zeros(problem))
    if len(state.sums) and state.epoch % UPDATES and relative_gap_of(state) >= PRECISE_GAP:
        return state
    at = state.w, state.intercept, state.centers, state.slope_smoothing
    point, _, scores = fresh(problem, *at, makes_scores=True)
    work = state.work + pass_work(problem)
    return replace(state, scores=scores, sums=point.sums, work=work)
