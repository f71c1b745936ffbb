"""Sums of the rows of each class, weighted by their slopes: they give gradients and dual bounds.

From one Newton step to the next the slopes of few rows change, so the sums are updated instead of
summed again. They are kept for each class, because a dual point with Σ αᵢ yᵢ = 0 scales the classes
differently. Sums of class -1 come first.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from svm.data.matrices import Floats, Vector
from svm.data.shards import tree_sum
from svm.problem.objectives import best_multiple, squared_norm
from svm.problem.passes import Pass, RowValues, Run
from svm.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class DualPoint:
    """What is known of αᵢ = sᵢ aᵢ."""

    sums: Vector
    """(2, n_features) Σ sᵢ aᵢ xᵢ of each class."""
    totals: Vector
    """(2,) Σ sᵢ aᵢ."""
    lines: Vector
    """(2,) Σ sᵢ aᵢ qᵢ."""
    largest: Vector
    """(2,) the largest aᵢ."""


@dataclass(frozen=True, slots=True)
class EndOfStep:
    """After a step: two dual points, and losses."""

    latest: DualPoint
    """From the slopes at the new scores."""
    ends: DualPoint | None
    """From those at the end of the whole step, if these are others …"""
    scores: RowValues
    """The new ones."""
    end_slopes: RowValues
    """… (n_samples,), which else is empty."""
    hinge: float
    """Σ sᵢ max(0, qᵢ - yᵢ fᵢ)."""
    cost: float
    """By how much the losses are above their tangents, summed."""
    error: float
    """The total error: see `Loss.mean_error`."""
    read: int
    """Rows."""
    derivatives: Floats
    """(n_leaves, 2) of the losses along the step, there; (n_leaves, 0) if nothing asks for them."""


def sum_all_rows(
    problem: Problem,
    w: Vector,
    intercept: float,
    centers: RowValues,
    mu: float,
    *,
    makes_scores: bool,
) -> tuple[DualPoint, float, RowValues]:
    """(The dual point of the slopes with these weights; Σ sᵢ hinge; the scores fᵢ, or else an empty
    array), in one pass.

    aᵢ = clip(centerᵢ + (qᵢ - yᵢ fᵢ)/μ, 0, 1): the centers themselves if μ is infinite.
    """
    d, unit = problem.n_features, problem.margins is None
    size = 2 * d + (3 if unit else 5)
    passed = problem.compute(
        Pass(_sum_all, (w, intercept, mu), size=size, notes=2, makes=1 if makes_scores else 0),
        [centers],
    )
    sums, totals = passed.total[: 2 * d].reshape(2, d), passed.total[2 * d :]
    largest = passed.notes.max(axis=0)
    scores = passed.made[0] if makes_scores else np.empty(0)
    point = DualPoint(sums, totals[:2], totals[:2] if unit else totals[3:], largest)
    return point, float(totals[2]), scores


def _sum_all(run: Run, w: Vector, intercept: float, mu: float) -> None:
    from svm.loops.newton import scores_and_sums

    d, (centers,) = len(w), run.of
    scores = run.made[0] if run.made else np.empty(len(run.y))
    sums, totals = run.out[: 2 * d].reshape(2, d), run.out[2 * d :]
    run.notes[0] = 0.0
    for part, operand, rows in run.parts(run.rows):
        sides = run.y[part], run.margins_of(part), run.weights_of(part)
        slopes = (*sides, centers[part], mu)
        made = (scores[part], sums, totals, run.notes[0])
        scores_and_sums(operand, rows, w, intercept, *slopes, *made)


def end_of_step(
    problem: Problem,
    sums: Vector,
    scores: RowValues,
    changes: RowValues,
    centers: RowValues,
    before: float,
    mu: float,
    length: float,
    *,
    to_end: bool,
    derives: bool,
) -> EndOfStep:
    """After a step to the scores + length · `changes`, which are replaced in this process.

    `sums` are those of the slopes with smoothing `before`. `to_end`: there are other slopes at the
    end of the whole step. `derives`: with derivatives.
    """
    d, unit = problem.n_features, problem.margins is None
    passed = problem.compute(
        Pass(
            _end_of_step,
            (d, problem.loss.epsilon, before, mu, length, to_end),
            size=4 * d + (7 if unit else 11),
            notes=7 if derives else 5,
            makes=2 if to_end else 1,
            over=1,
        ),
        [scores, changes, centers],
    )
    out, most = passed.total, passed.notes.max(axis=0)
    added, totals = out[: 4 * d].reshape(2, 2, d), out[4 * d :]
    lines, at_ends = totals[:4] if unit else totals[7:], sums + added[0]
    latest = DualPoint(at_ends + added[1], totals[:2], lines[:2], most[:2])
    ends = DualPoint(at_ends, totals[2:4], lines[2:], most[2:4]) if to_end else None
    end_slopes = passed.made[1] if to_end else np.empty(0)
    hinge, cost, error = totals[4:7].tolist()
    read, derivatives = int(passed.notes[:, 4].sum()), passed.notes[:, 5:].copy()
    return EndOfStep(
        latest, ends, passed.made[0], end_slopes, hinge, cost, error, read, derivatives
    )


def _end_of_step(
    run: Run, d: int, epsilon: float, before: float, mu: float, length: float, to_end: bool
) -> None:
    from svm.loops import newton as loops

    added, totals, n = run.out[: 4 * d].reshape(2, 2, d), run.out[4 * d :], len(run.y)
    scores, _, centers = run.of
    changes, ends = run.made[0], run.made[1] if to_end else np.empty(0)
    changed, first, further = np.empty(n, np.int64), np.empty(n), np.empty(n)
    run.notes[0] = 0.0
    if run.notes.shape[1] > 5:  # before the changes are replaced
        derivatives = np.empty((1, 2))
        along = run.inner, run.y, run.margins, run.weights, scores, changes, centers
        loops.slope_and_curvature(*along, mu, length, derivatives)
        run.notes[0, 5:] = derivatives[0]
    slopes = changed, first, further, totals, run.notes[0, :4]
    sides = run.y, run.margins, epsilon, run.weights_of(slice(0, n))
    given = (*sides, scores, changes, centers)
    count = loops.end_of_step(*given, before, mu, length, ends, *slopes)
    run.notes[0, 4] = count
    changed = changed[:count]
    y = run.y[changed]
    changed += run.rows.start
    for part, operand, rows in run.parts(changed):
        loops.add_changes(operand, rows, first[part], further[part], y[part], added)


def lower_bound(problem: Problem, point: DualPoint, slopes: RowValues) -> float:
    """The largest D(c α) over feasible factors c; as `objectives.dual`. `slopes`: its aᵢ, which
    only a squared loss needs."""
    totals, factors = point.totals, np.ones(2)
    if problem.intercept == "free":
        target = float(totals.min())
        if target <= 0.0:
            return 0.0
        factors = target / totals
    largest = float((factors * point.largest).max())
    if largest <= 0.0:
        return 0.0
    factors = factors / largest  # the largest multiple in the box
    scale = 1.0 / (problem.regularization * problem.n_samples)
    b = 0.0
    if problem.intercept == "augmented":
        b = scale * float(factors[1] * totals[1] - factors[0] * totals[0])
    with np.errstate(over="ignore"):
        w = scale * (factors[1] * point.sums[1] - factors[0] * point.sums[0])
        penalized = squared_norm(problem, w, b)
        if problem.loss.squared:
            squares = problem.compute(Pass(_squares, notes=2, together=0), [slopes]).notes
            penalized += 0.5 * scale * float(np.square(factors) @ tree_sum(squares))
    return best_multiple(problem, float(factors @ point.lines) / problem.n_samples, penalized)


def _squares(run: Run) -> None:
    """Note Σ sᵢ aᵢ² of each class."""
    for k, (first, last) in enumerate(pairwise(run.inner.tolist())):
        leaf = slice(first, last)
        squares = run.weights_of(leaf) * np.square(run.of[0][leaf])
        above = float(squares @ (run.y[leaf] > 0))
        run.notes[k] = float(squares.sum()) - above, above
