"""Sums of the rows of each class, weighted by their slopes: they give gradients and dual bounds.

From one Newton step to the next the slopes of few rows change, so the sums are updated instead of
summed again. They are kept for each class, because a dual point with Σ αᵢ yᵢ = 0 scales the classes
differently. Sums of class -1 come first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from svm.data.matrices import Vector
from svm.data.shards import Sum
from svm.problem import Problem
from svm.problem.objectives import best_multiple, squared_norm
from svm.problem.problem import Leaf


@dataclass(frozen=True, slots=True)
class DualPoint:
    """What is known of αᵢ = sᵢ aᵢ."""

    sums: Vector
    """(2, n_features) Σ sᵢ aᵢ xᵢ of each class."""
    totals: Vector
    """(2,) Σ sᵢ aᵢ."""
    largest: Vector
    """(2,) the largest aᵢ."""


@dataclass(frozen=True, slots=True)
class EndOfStep:
    """After a step: two dual points, and losses."""

    latest: DualPoint
    """From the slopes at the new scores."""
    ends: DualPoint | None
    """From those at the end of the whole step, if these are others …"""
    end_slopes: Vector
    """… (n_samples,), which else is empty."""
    hinge: float
    """Σ sᵢ max(0, 1 - yᵢ fᵢ)."""
    cost: float
    """By how much the losses are above their tangents, summed."""
    wrong: float
    """Rows on the wrong side."""
    read: int
    """Rows."""


def fresh(
    problem: Problem, w: Vector, intercept: float, centers: Vector, mu: float, scores: Vector
) -> tuple[DualPoint, float]:
    """(The dual point of the slopes with these weights; Σ sᵢ hinge), in one pass.

    aᵢ = clip(centerᵢ + (1 - yᵢ fᵢ)/μ, 0, 1): the centers themselves if μ is infinite. `scores`
    (n_samples,) become the fᵢ, unless they are empty.
    """
    from svm.loops.newton import scores_and_sums

    d = problem.n_features
    largest = np.zeros((len(problem.leaves) - 1, 2))

    def of_leaf(leaf: Leaf, out: Sum) -> None:
        sums, totals, most = out[: 2 * d].reshape(2, d), out[2 * d :], largest[leaf.number]
        s, c = problem.weights_of(leaf.rows), centers[leaf.rows]
        y = problem.y[leaf.rows]
        f = scores[leaf.rows] if len(scores) else np.empty(len(y))
        for part, operand, rows in leaf.parts(leaf.rows):
            slopes = (y[part], s[part], c[part], mu)
            scores_and_sums(operand, rows, w, intercept, *slopes, f[part], sums, totals, most)

    out = problem.sum(2 * d + 3, of_leaf)
    sums, totals = out[: 2 * d].reshape(2, d), out[2 * d : 2 * d + 2]
    return DualPoint(sums, totals, largest.max(axis=0)), float(out[-1])


def end_of_step(
    problem: Problem,
    sums: Vector,
    scores: Vector,
    changes: Vector,
    centers: Vector,
    before: float,
    mu: float,
    length: float,
    *,
    to_end: bool,
) -> EndOfStep:
    """After a step to the scores + length · `changes`, which become the new scores.

    `sums` are those of the slopes with smoothing `before`. `to_end`: there are other slopes at the
    end of the whole step.
    """
    from svm.loops import newton as loops

    d, n = problem.n_features, problem.n_samples
    end_slopes = np.empty(n if to_end else 0)
    n_leaves = len(problem.leaves) - 1
    largest, read = np.zeros((n_leaves, 4)), np.zeros(n_leaves, dtype=np.int64)

    def of_leaf(leaf: Leaf, out: Sum) -> None:
        added, totals = out[: 4 * d].reshape(2, 2, d), out[4 * d :]
        y = problem.y[leaf.rows]
        changed, first, further = np.empty(len(y), np.int64), np.empty(len(y)), np.empty(len(y))
        s, f, c = problem.weights_of(leaf.rows), scores[leaf.rows], centers[leaf.rows]
        slopes = changed, first, further, totals, largest[leaf.number]
        ends, steps = end_slopes[leaf.rows], changes[leaf.rows]
        count = loops.end_of_step(y, s, f, steps, c, before, mu, length, ends, *slopes)
        changed, read[leaf.number] = changed[:count], count
        y = y[changed]
        changed += leaf.rows.start
        for part, operand, rows in leaf.parts(changed):
            loops.add_changes(operand, rows, first[part], further[part], y[part], added)

    out = problem.sum(4 * d + 7, of_leaf)
    added, totals, most = out[: 4 * d].reshape(2, 2, d), out[4 * d :], largest.max(axis=0)
    at_ends = sums + added[0]
    latest = DualPoint(at_ends + added[1], totals[:2], most[:2])
    ends = DualPoint(at_ends, totals[2:4], most[2:]) if to_end else None
    hinge, cost, wrong = totals[4:].tolist()
    return EndOfStep(latest, ends, end_slopes, hinge, cost, wrong, int(read.sum()))


def lower_bound(problem: Problem, point: DualPoint) -> float:
    """The largest D(c α) over feasible factors c; as `objectives.dual`."""
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
    return best_multiple(problem, float(factors @ totals) / problem.n_samples, penalized)
