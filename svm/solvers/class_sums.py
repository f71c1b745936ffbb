"""Sums of the rows of each class, weighted by their slopes: they give gradients and dual bounds.

From one Newton step to the next the slopes of few rows change, so the sums are updated instead of
summed again. They are kept for each class, because a dual point with Σ αᵢ yᵢ = 0 scales the classes
differently. Sums of class -1 come first.
"""

from __future__ import annotations

import numpy as np

from svm.data.matrices import Vector
from svm.problem import Problem
from svm.problem.objectives import best_multiple, squared_norm


def fresh(
    problem: Problem, w: Vector, intercept: float, centers: Vector, mu: float
) -> tuple[Vector, Vector]:
    """(Scores of these weights; Σ sᵢ aᵢ xᵢ of each class, (2, n_features)), in one pass.

    aᵢ = clip(centerᵢ + (1 - yᵢ fᵢ)/μ, 0, 1): the centers themselves if μ is infinite.
    """
    from svm.loops.newton import scores_and_sums

    scores, sums = np.empty(problem.n_samples), np.zeros((2, problem.n_features))
    for part, operand, rows in problem.parts():
        y, weights = problem.y[part], problem.weights[part]
        scores_and_sums(
            operand, rows, w, intercept, y, weights, centers[part], mu, scores[part], sums
        )
    return scores, sums


def updated(
    problem: Problem, sums: Vector, before: Vector, one: Vector, other: Vector
) -> tuple[Vector, Vector, int]:
    """The sums for two new vectors of slopes, from those for the slopes `before`; and the number of
    rows that were read for both."""
    from svm.loops.newton import add_changes

    changed = np.flatnonzero((one != before) | (other != before))
    weights, first = problem.weights[changed], one[changed]
    changes = weights * (first - before[changed])
    further = weights * (other[changed] - first)
    positive = problem.y[changed] > 0
    added = np.zeros((2, *sums.shape))
    for part, operand, rows in problem.parts(changed):
        add_changes(operand, rows, changes[part], further[part], positive[part], added)
    at_one = sums + added[0]
    return at_one, at_one + added[1], len(changed)


def lower_bound(problem: Problem, slopes: Vector, sums: Vector) -> float:
    """The largest D(c α) over feasible factors c, for αᵢ = sᵢ aᵢ; as `objectives.dual`."""
    alpha, positive = problem.weights * slopes, problem.y > 0
    total, difference = float(alpha.sum()), float(problem.y @ alpha)
    totals = 0.5 * np.array([total - difference, total + difference])
    factors = np.ones(2)
    if problem.intercept == "free":
        totals = np.array([alpha[~positive].sum(), alpha[positive].sum()])
        target = float(totals.min())
        if target <= 0.0:
            return 0.0
        factors = target / totals
        largest = float((factors[positive.astype(np.intp)] * slopes).max(initial=0.0))
    else:
        largest = float(slopes.max(initial=0.0))
    if largest <= 0.0:
        return 0.0
    factors /= largest  # the largest multiple in the box
    scale = 1.0 / (problem.regularization * problem.n_samples)
    b = 0.0
    if problem.intercept == "augmented":
        b = scale * float(factors[1] * totals[1] - factors[0] * totals[0])
    with np.errstate(over="ignore"):
        w = scale * (factors[1] * sums[1] - factors[0] * sums[0])
        penalized = squared_norm(problem, w, b)
    return best_multiple(problem, float(factors @ totals) / problem.n_samples, penalized)
