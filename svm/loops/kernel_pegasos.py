"""The inner loop of kernelized Pegasos."""

from __future__ import annotations

from svm.data.matrices import Indices, Vector
from svm.loops import compiled


@compiled
def updates(
    drawn: Indices,
    gram: Vector,
    sums: Vector,
    y: Vector,
    weights: Vector,
    regularization: float,
    free: bool,
    step: int,
    intercept: float,
    violations: Indices,
) -> float:
    """One update for every i in `drawn`, after `step` earlier ones; returns the intercept.

    `sums` (len(drawn),) holds Σⱼ sⱼ yⱼ violationsⱼ k(xⱼ, xᵢ) as it was before the block, and `gram`
    (len(drawn), len(drawn)) the kernel between the rows drawn, which updates `sums` within the
    block. `sums` and `violations` change in place.
    """
    for position in range(len(drawn)):
        i = drawn[position]
        score = intercept if free else 0.0
        if step > 0:
            score += sums[position] / (regularization * step)
        step += 1
        if y[i] * score < 1.0:
            change = weights[i] * y[i]
            violations[i] += 1
            for later in range(position + 1, len(drawn)):
                sums[later] += change * gram[position, later]
            if free:  # see svm.loops.pegasos
                intercept += min(1.0 / (regularization * step), step**-0.5) * change
    return intercept
