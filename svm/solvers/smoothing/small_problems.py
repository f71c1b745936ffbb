"""Newton steps on small problems: one compiled call for any number of them.

On 400 rows the passes of a step take a hundredth of the time of their calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from svm.data.matrices import Vector
from svm.errors import Diverged
from svm.problem.problem import Problem
from svm.solvers.protocol import NOT_STOPPED, SolvedPair
from svm.solvers.smoothing import smoothed_hinge
from svm.solvers.smoothing.newton_steps import (
    LESS_SMOOTHING,
    LITTLE_LESS_SMOOTHING,
    ROUNDING,
    SMALLEST_SMOOTHING,
    NewtonState,
    relative_gap_of,
)

ROWS = 1024
"""Most rows of a small problem …"""
PRODUCTS = 1 << 22
"""… and most products of a Hessian of all of them, and of its factorization: 1 ms."""
MANY = 32
"""Least number that are solved without a report of each step …"""
TOGETHER = 16
"""… and how many between two reports."""
MOST_STEPS = 100
"""A problem that is not solved by then continues alone."""
NEVER = -1.0
"""A gap that ends no call."""
LIMITS = (
    *(LESS_SMOOTHING, LITTLE_LESS_SMOOTHING, SMALLEST_SMOOTHING),
    *(smoothed_hinge.LINE_SEARCH, ROUNDING, smoothed_hinge.JITTER),
)
NOTHING = np.empty(0)


def is_small(problem: Problem) -> bool:
    """Whether its steps are one call each: a problem of classes with the hinge, and dense rows."""
    n, d = problem.n_samples, problem.n_features + 1
    small = n <= ROWS and max(n, d) * d * d <= PRODUCTS
    alike = problem.margins is None and not problem.loss.squared
    return small and alike and smoothed_hinge.builds_hessian(problem)


def are_many(problems: Sequence[Problem]) -> bool:
    """Whether enough are small to be worth one report for several."""
    return sum(map(is_small, problems)) >= MANY


def advance(problem: Problem, state: NewtonState) -> NewtonState:
    """One step. Raises Diverged."""
    return _advance(problem, state, _signed_rows(problem), NEVER, 1)


def scores(problem: Problem, state: NewtonState) -> Vector:
    """Those of the best weights so far, (n_samples,)."""
    scores: Vector = problem.y * _best_margins(state, _signed_rows(problem))
    return scores


def solve(
    problems: Sequence[Problem], states: Sequence[NewtonState], gap: float, most_steps: int
) -> Iterator[dict[int, SolvedPair]]:
    """The small ones of some problems, from their states, as far as they are solved to the relative
    gap in that number of steps: by their position in the sequence, some at a time."""
    small = [k for k, problem in enumerate(problems) if is_small(problem)]
    for start in range(0, len(small), TOGETHER):
        solved = {}
        for k in small[start : start + TOGETHER]:
            problem, Z = problems[k], _signed_rows(problems[k])
            end = _advance(problem, states[k], Z, gap, min(most_steps, MOST_STEPS))
            if relative_gap_of(end) <= gap:
                solved[k] = SolvedPair(
                    state=end,
                    primal=end.best_primal,
                    best_primal=end.best_primal,
                    dual=end.best_dual,
                    train_error=end.best_error,
                    inside=1.0 - _best_margins(end, Z) >= 0.0,
                )
        yield solved


def _signed_rows(problem: Problem) -> Vector:
    """yᵢ (xᵢ, 1), or yᵢ (xᵢ, 0) without an intercept: (n_features + 1, n_samples)."""
    from svm.loops.small_newton import signed_columns

    signed = np.empty((problem.n_features + 1, problem.n_samples))
    for part, operand, rows in problem.parts(slice(0, problem.n_samples)):
        signed_columns(operand, rows, problem.y[part], part.start, signed)
    if problem.intercept == "none":
        signed[-1] = 0.0
    return signed


def _best_margins(state: NewtonState, Z: Vector) -> Vector:
    from svm.loops.small_newton import products

    margins = np.empty(Z.shape[1])
    products(Z, np.concatenate((state.best_w, [state.best_intercept])), margins)
    return margins


def _advance(
    problem: Problem, state: NewtonState, Z: Vector, gap: float, steps: int
) -> NewtonState:
    from svm.loops.small_newton import newton_steps

    problem.interrupted()
    free, cost = problem.intercept == "free", smoothed_hinge.hessian_work(problem, 0)
    work = smoothed_hinge.PASSES * smoothed_hinge.pass_work(problem) + cost
    limits = *LIMITS, work, smoothed_hinge.hessian_work(problem, 1) - cost
    ridge = np.full(len(Z), float(problem.regularization))
    if free:
        ridge[-1] = 0.0
    point = np.concatenate((state.w, [state.intercept]))
    best = np.concatenate((state.best_w, [state.best_intercept]))
    centers = state.centers.copy() if len(state.centers) else np.zeros(problem.n_samples)
    levels = state.smoothing, state.slope_smoothing, float(state.reduced), float(state.steps)
    bests = state.best_primal, state.best_error, state.best_dual, state.work
    mu, slope_mu, reduced, tries, primal, error, dual, work, made, end = newton_steps(
        *(Z, problem.y > 0, problem.weights, ridge, free, gap, steps, limits),
        *(point, centers, best, (*levels, *bests)),
    )
    if end < 0.0:
        raise Diverged(smoothed_hinge.OUT_OF_RANGE, "scale the features")
    return NewtonState(
        epoch=state.epoch + int(made),
        updates=state.updates + int(made),
        stopped=NOT_STOPPED if end else "converged",
        w=point[:-1],
        intercept=float(point[-1]),
        scores=NOTHING,
        slope_smoothing=slope_mu,
        sums=state.sums,
        smoothing=mu,
        centers=centers,
        reduced=bool(reduced),
        steps=int(tries),
        best_w=best[:-1],
        best_intercept=float(best[-1]),
        best_error=error,
        best_slopes=NOTHING,
        best_primal=primal,
        best_dual=dual,
        work=work,
    )
