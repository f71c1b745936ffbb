"""A step of Newton's method: its state, its sums over the rows, its direction and its length."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from svm.data.matrices import Floats, Indices, Vector
from svm.data.shards import tree_sum
from svm.problem.certificate import relative_gap
from svm.problem.passes import Chosen, Pass, RowValues, Run
from svm.problem.problem import Problem
from svm.solvers.protocol import SolverState
from svm.solvers.smoothing import smoothed_hinge
from svm.solvers.smoothing.class_sums import EndOfStep, end_of_step, sum_all_rows
from svm.solvers.smoothing.smoothed_hinge import pass_work

LESS_SMOOTHING = 0.25
"""Factor from one level of μ to the next, if one step solved it …"""
LITTLE_LESS_SMOOTHING = 0.5
"""… or more."""
SMALLEST_SMOOTHING = 1e-12
"""μ below which nothing can be gained."""
ROUNDING = 1e-15
"""A relative gain of the objective, or change of the weights, that is lost in rounding."""
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
FULL_STEP = 0.9, 1.1
"""Lengths of a step about as good as 1."""
NEAR_LENGTH = 0.05
"""Share of a length by which the one tried before it is near."""
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
    """μ of the slopes aᵢ = clip(centerᵢ + (qᵢ - yᵢ fᵢ)/μ, 0, 1) at these scores; infinite if they
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
    """`objectives.error_of` the best weights."""
    best_slopes: RowValues
    """(n_samples,) aᵢ of the best dual point; empty if they are those at these scores."""
    best_primal: float
    best_dual: float
    work: float = 0.0
    """The work of all steps (see `smoothed_hinge`)."""


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
    end: EndOfStep | None = None
    """If it is known."""


def newton_step(problem: Problem, state: NewtonState, point: Vector) -> Step:
    """The step from `point`, (w, b) of a state with sums."""
    mu, work = state.smoothing, 0.0
    # After the smoothing was reduced, most rows near the margin are still there, only closer.
    # The rows that were near it determine the step, as if no slope were clipped; the few that
    # are near the new, narrower margin would make it far too long.
    near = state.slope_smoothing, state.smoothing
    of = [state.scores, state.centers]
    passed = problem.compute(Pass(_near_margin, near, notes=3, chooses=True, together=0), of)
    notes, (chosen,) = passed.notes, passed.made
    total, change_total, _ = tree_sum(notes).tolist()
    count = n_active = int(notes[:, 2].sum())
    gap, share = relative_gap_of(state), 1.0
    if state.reduced:
        total += change_total
    elif gap > SAMPLED_GAP and n_active:
        stride = 1 + n_active // (SAMPLED_ROWS * (problem.n_features + 1))
        count = -(-n_active // stride)
        share = count / n_active
        if stride > 1:
            chosen = _every(problem, stride, chosen, notes[:, 2])
    active = smoothed_hinge.Active(chosen, count, share * mu, sums_changes=state.reduced)
    products = count * problem.n_features**2
    rough = smoothed_hinge.builds_hessian(problem) and gap > ROUGH_GAP and products >= ROUGH_FROM
    while True:
        solve, change = smoothed_hinge.solver_of_hessian(problem, active, rough=rough)
        combined = state.sums[1] - state.sums[0] + change
        derivative = smoothed_hinge.gradient_of_sum(problem, point, combined, total)
        step, further = solve(-derivative)
        del solve  # and what it keeps of the rows
        work += further
        changes, at_end = smoothed_hinge.changes_along(problem, step, of[0], of[1], mu)
        trials = None if problem.cluster is None else _Trials(problem, state, changes)
        length = smoothed_hinge.line_search(
            problem, point, step, of[0], changes, of[1], mu, at_end, trials
        )
        if not rough or length <= LONGEST_ROUGH:
            end = None if trials is None or trials.latest != length else trials.end
            return Step(step, changes, length, -float(derivative @ step), work, end)
        rough = False


def end_at(
    problem: Problem,
    state: NewtonState,
    changes: RowValues,
    length: float,
    *,
    derives: bool = False,
) -> EndOfStep:
    """After a step of this length from a state."""
    # The slopes at the end of the whole step have their w(α) there, except for the rows whose
    # slopes are clipped: a better bound, unless that is about the point that the search reaches.
    return end_of_step(
        *(problem, state.sums, state.scores, changes, state.centers),
        *(state.slope_smoothing, state.smoothing, length),
        to_end=not FULL_STEP[0] <= length <= FULL_STEP[1],
        derives=derives,
    )


@dataclass(slots=True)
class _Trials:
    """Lengths that a search tries. One near that before is probably the last: then one pass finds
    the derivatives there with all that the end of the step needs, as for other processes a pass is
    a message."""

    problem: Problem
    state: NewtonState
    changes: RowValues
    latest: float = 1.0
    end: EndOfStep | None = None
    """Of the step with the latest length, if that is near."""

    def __call__(self, length: float) -> Floats | None:
        near = abs(length - self.latest) <= NEAR_LENGTH * length
        self.latest, self.end = length, None
        if not near:
            return None
        self.end = end_at(self.problem, self.state, self.changes, length, derives=True)
        return self.end.derivatives


def _near_margin(run: Run, smoothing: float, following: float) -> None:
    """Choose the rows near the margin, with what is added to their sᵢ aᵢ yᵢ if the smoothing is
    reduced and no slope is clipped. Notes the sum of all sᵢ aᵢ yᵢ, of what is added, and the number
    of these rows."""
    from svm.loops.newton import near_margin

    scores, centers = run.of
    rows = run.inner, run.y, run.margins, run.weights, scores, centers
    # Only the part that is written takes memory.
    positions, changes = np.empty(len(run.y), dtype=np.int64), np.empty(len(run.y))
    count = near_margin(*rows, smoothing, following, positions, changes, run.notes)
    positions = positions[:count]
    positions += run.rows.start
    run.chosen = Chosen(positions, changes[:count])


def _every(problem: Problem, stride: int, chosen: RowValues, counts: Vector) -> RowValues:
    """Every `stride`-th of some chosen rows; `counts`: how many each leaf has."""
    starts = np.zeros(len(counts) + 1, dtype=np.int64)
    starts[1:] = np.cumsum(counts)
    return problem.compute(Pass(_some, (starts, stride), chooses=True, together=0), [chosen]).made[
        0
    ]


def _some(run: Run, starts: Indices, stride: int) -> None:
    rows, values = run.of[0].within(run.rows)
    some = slice(-int(starts[run.leaf]) % stride, None, stride)
    run.chosen = Chosen(rows[some].copy(), values[some].copy())


def relative_gap_of(state: NewtonState) -> float:
    return relative_gap(state.best_primal, state.best_dual)


def slopes_of(problem: Problem, scores: RowValues, centers: RowValues, mu: float) -> RowValues:
    """aᵢ = clip(centerᵢ + (qᵢ - yᵢ fᵢ)/μ, 0, 1)."""
    return problem.compute(Pass(_slopes, (mu,), makes=1, together=0), [scores, centers]).made[0]


def _slopes(run: Run, mu: float) -> None:
    from svm.loops.newton import slopes

    (scores, centers), (out,) = run.of, run.made
    slopes(run.y, run.margins, scores, centers, mu, out)


def zeros(problem: Problem) -> RowValues:
    """A zero for each row."""
    return problem.compute(Pass(_zeros, makes=1, together=0)).made[0]


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


def renew_sums(problem: Problem, state: NewtonState) -> NewtonState:
    """The state with scores and sums over all rows again, if these are not known or rounding may
    matter."""
    if len(state.centers) == 0:
        state = replace(state, centers=zeros(problem))
    if len(state.sums) and state.epoch % UPDATES and relative_gap_of(state) >= PRECISE_GAP:
        return state
    at = state.w, state.intercept, state.centers, state.slope_smoothing
    point, _, scores = sum_all_rows(problem, *at, makes_scores=True)
    work = state.work + pass_work(problem)
    return replace(state, scores=scores, sums=point.sums, work=work)
