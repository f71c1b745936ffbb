"""The inner loop of kernelized Pegasos."""

from __future__ import annotations

from svm.data.matrices import Indices, Signs, Vector
from svm.loops import compiled


@compiled
def updates(
    drawn: Indices,
    gram: Vector,
    sums: Vector,
    y: Signs,
    margins: Vector | None,
    weights: Vector,
    regularization: float,
    free: bool,
    limit: float,
    ahead: int,
    step: int,
    intercept: float,
    violations: Indices,
    lags: Vector,
    harmonic: float,
    intercept_sum: float,
) -> tuple[float, float, float]:
    """One update for every i in `drawn`, after `step` earlier ones.

    `sums` (len(drawn),) holds Σⱼ sⱼ yⱼ violationsⱼ k(xⱼ, xᵢ) as it was before the block, and `gram`
    (len(drawn), len(drawn)) the kernel between the rows drawn, which updates `sums` within the
    block. `sums` and `violations` change in place. Sums divided by λ (t - 1 + ahead) are the scores
    of update t.

    The average of f since some step T₀ weighs row j by h_T violationsⱼ - lagsⱼ in place of
    violationsⱼ/T, with h_t = Σ 1/s over T₀ < s ≤ t, as in `svm.loops.pegasos`; `lags` (n_samples,)
    sum h at the violations, and change in place if they are not empty. `limit` is as there, too.

    Returns (intercept, h, sum of intercepts).
    """
    for position in range(len(drawn)):
        i = drawn[position]
        score = intercept if free else 0.0
        if step + ahead > 0:
            score += sums[position] / (regularization * (step + ahead))
        step += 1
        if y[i] * score < (1.0 if margins is None else margins[i]):
            change = weights[i] * y[i]
            violations[i] += 1
            if len(lags) > 0:
                lags[i] += harmonic
            for later in range(position + 1, len(drawn)):
                sums[later] += change * gram[position, later]
            if free:  # see svm.loops.pegasos
                intercept += min(1.0 / (regularization * step), limit * step**-0.5) * change
        harmonic += 1.0 / step
        intercept_sum += intercept
    return intercept, harmonic, intercept_sum
