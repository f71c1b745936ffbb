"""The objective and its conventions: only here.

Labels are yᵢ ∈ {-1, +1}, weights sᵢ > 0 (default 1), and n counts the rows of the binary problem.

    primal   P(w, b) = λ/2 ‖w‖² + (1/n) Σ sᵢ max(0, 1 - yᵢ (⟨w, xᵢ⟩ + b))
    dual     D(α)    = (1/n) Σ αᵢ - λ/2 ‖w(α)‖²,   w(α) = 1/(λn) Σ αᵢ yᵢ xᵢ,   0 ≤ αᵢ ≤ sᵢ

With the squared hinge (`svm.problem.losses`) the loss is sᵢ max(0, 1 - yᵢ fᵢ)², D has the further
part -(1/n) Σ αᵢ²/(4sᵢ), and αᵢ ≥ 0 is the only bound. As λ/2 (‖w(α)‖² + Σ αᵢ²/(2sᵢλn)) it is part
of what is `penalized`.

With numeric targets each row has two sides of weight 2, as n counts sides, and the loss of a side
is a function of its shortfall qᵢ - yᵢ fᵢ in place of 1 - yᵢ fᵢ; the linear part of D is then
(1/n) Σ qᵢ αᵢ. So P is λ/2 ‖w‖² + the mean over the rows of max(0, |tᵢ - fᵢ| - ε), or its square.

With weights of rows, sᵢ = cᵢ rᵢ n / Σ r, of a class weight cᵢ and the weight rᵢ > 0 of the row,
summed over the rows of the problem; given C, λ = 1/(C Σ r). Rows of weight 0 are left out. So a row
of weight 2 counts as two equal rows.

The intercept b is `free` (not penalized; then Σ αᵢ yᵢ = 0), `augmented` (the weight of a constant
feature 1: ‖w‖² includes b²) or `none` (b = 0).

Solvers state the same problem in other constants:

    ½‖w‖² + C Σ sᵢ hinge   λ = 1/(nC), and this objective is P/λ    (LIBSVM, LIBLINEAR's L1-loss;
                           with hinge² its L2-loss, and scikit-learn's `squared_hinge`; with
                           ε-insensitive losses their SVR, n then counting the rows)
     ‖w‖² + C Σ sᵢ hinge   λ = 2/(nC), and this objective is 2P/λ   (sub-gradient coursework)

For every w and every feasible α, D(α) ≤ min P ≤ P(w): the duality gap bounds the distance of P(w)
to the optimum.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from svm.data.matrices import Indices, Mask, Matrix, Vector
from svm.data.shards import tree_sum
from svm.kernel.kernels import inner_products
from svm.problem.losses import Loss, shortfalls
from svm.problem.passes import Pass, Run
from svm.problem.problem import Classifier, KernelClassifier, LinearClassifier, Problem

ROUNDING = 1e-15
"""Relative error of a sum, as a share of the sizes of its terms."""
BLOCK_VALUES = 1 << 22
"""Kernel values of one block: 32 MiB."""
SIDE = 512
"""Rows and columns of a block that the processor's cache holds."""


def primal_at_scores(problem: Problem, penalized: float, scores: Vector) -> float:
    """P from known scores fᵢ and the penalized ‖w‖²."""
    return _primal_and_error(problem, penalized, scores)[0]


def primal_of(problem: Problem, penalized: float, losses: float) -> float:
    """P from the sum of the losses and the penalized ‖w‖²."""
    return 0.5 * problem.regularization * penalized + losses / problem.n_samples


def mean_weight(problem: Problem) -> float:
    """The mean of the weights sᵢ."""
    weights = problem.unequal_weights
    return problem.equal_weight if weights is None else float(weights.mean())


def at_zero(problem: Problem) -> tuple[float, float]:
    """P and `error_of` with w = 0 and b = 0."""
    if problem.margins is None:
        return mean_weight(problem), float(np.count_nonzero(problem.y > 0) / problem.n_samples)
    return _primal_and_error(problem, 0.0, np.zeros(problem.n_samples))


def primal(problem: Problem, w: Vector, intercept: float) -> float:
    """P(w, b) of a linear classifier."""
    scores = problem.scores(w, intercept)
    return primal_at_scores(problem, squared_norm(problem, w, intercept), scores)


def squared_norm(problem: Problem, w: Vector, intercept: float) -> float:
    """‖w‖² as it is penalized: with b² if the intercept is `augmented`."""
    norm = float(w @ w)
    return norm + intercept * intercept if problem.intercept == "augmented" else norm


def scores_of(problem: Problem, classifier: Classifier) -> Vector:
    """fᵢ of all rows, (n_samples,)."""
    match classifier:
        case LinearClassifier(coefficients=w, intercept=intercept):
            return problem.scores(w, intercept)
        case KernelClassifier(support=support, coefficients=coefficients):
            everywhere = np.zeros(problem.n_samples)
            everywhere[support] = coefficients
            return sums_over(problem, np.arange(problem.n_samples), everywhere) + _free_part(
                problem, classifier
            )


def evaluate(
    problem: Problem, classifier: Classifier, scores: Vector | None = None
) -> tuple[float, float, Vector]:
    """(P, `error_of`, scores of all rows) of a classifier; `scores` if they are known."""
    if scores is None:
        scores = scores_of(problem, classifier)
    match classifier:
        case LinearClassifier(coefficients=w, intercept=intercept):
            penalized = squared_norm(problem, w, intercept)
        case KernelClassifier(support=support, coefficients=coefficients):
            penalized = float(coefficients @ (scores[support] - _free_part(problem, classifier)))
    return *_primal_and_error(problem, penalized, scores), scores


def _free_part(problem: Problem, classifier: KernelClassifier) -> float:
    """The part of its scores beside the sums; an augmented intercept is part of the sums and the
    norm."""
    return classifier.intercept if problem.intercept == "free" else 0.0


def error_of(problem: Problem, scores: Vector) -> float:
    """Share of the rows on the wrong side, or the mean error of numeric targets: see
    `Loss.mean_error`."""
    return _primal_and_error(problem, 0.0, scores)[1]


def inside(problem: Problem, scores: Vector) -> Mask:
    """(n_samples,) whether a row is on or inside its margin: yᵢ fᵢ ≤ qᵢ."""
    mask = np.empty(problem.n_samples, dtype=np.bool_)
    for first, last in pairwise(problem.leaves.tolist()):
        leaf = slice(first, last)
        margins = None if problem.margins is None else problem.margins[leaf]
        short = shortfalls(problem.y[leaf], margins, scores[leaf])
        np.greater_equal(short, 0.0, out=mask[leaf])
    return mask


def count_inside(problem: Problem, scores: Vector) -> int:
    """How many rows are on or inside the margin."""
    return int(problem.compute(Pass(_count_inside, notes=1, together=0), [scores]).notes.sum())


def _primal_and_error(problem: Problem, penalized: float, scores: Vector) -> tuple[float, float]:
    notes = problem.compute(Pass(_losses, (problem.loss,), notes=2, together=0), [scores]).notes
    losses, wrong = tree_sum(notes).tolist()
    error = problem.loss.mean_error(wrong, problem.n_samples)
    return primal_of(problem, penalized, losses), error


def _losses(run: Run, loss: Loss) -> None:
    edges = run.inner
    for k, (first, last) in enumerate(pairwise(edges.tolist())):
        leaf = slice(first, last)
        scores = run.of[0][leaf]
        short = run.shortfalls(leaf, scores)
        error = loss.total_error(run.y[leaf], short, scores)
        run.notes[k] = run.weights_of(leaf) @ loss.of_shortfalls(short), error


def _count_inside(run: Run) -> None:
    for k, (first, last) in enumerate(pairwise(run.inner.tolist())):
        leaf = slice(first, last)
        run.notes[k] = np.count_nonzero(run.shortfalls(leaf, run.of[0][leaf]) >= 0.0)


def dual(problem: Problem, alpha: Vector) -> float:
    """The largest D(c α) over feasible factors c, after α was made feasible; never below 0.

    α (n_samples,) is clipped to its box. With a free intercept the class with the larger sum is
    scaled down to Σ αᵢ yᵢ = 0. The result is a lower bound of min P for any input.
    """
    alpha = feasible(problem, alpha)
    largest = float((alpha / problem.weights).max(initial=0.0))
    if largest <= 0.0:
        return 0.0
    alpha /= largest  # the largest multiple in the box of the hinge: its factors are 0 … 1
    with np.errstate(over="ignore"):
        penalized = _penalized(problem, alpha)
    return best_multiple(problem, linear(problem, alpha), penalized)


def linear(problem: Problem, alpha: Vector) -> float:
    """(1/n) Σ qᵢ αᵢ: the linear part of D."""
    if problem.margins is None:
        return float(alpha.sum()) / problem.n_samples
    return float(problem.margins @ alpha) / problem.n_samples


def best_multiple(problem: Problem, linear: float, penalized: float) -> float:
    """The largest D(c α) over 0 ≤ c ≤ 1, or c ≥ 0 without a box, from (1/n) Σ qᵢ αᵢ and what is
    `penalized` of a feasible α."""
    quadratic = 0.5 * problem.regularization * penalized
    if quadratic == np.inf or linear <= 0.0:
        return 0.0
    factor = linear / (2.0 * quadratic) if quadratic > 0.0 else 1.0
    if not problem.loss.squared:
        factor = min(1.0, factor)
    return factor * linear - factor * factor * quadratic


def _penalized(problem: Problem, alpha: Vector) -> float:
    """‖w(α)‖², as it is penalized, and the part of a squared loss."""
    own = penalized_by_loss(problem, alpha)
    if problem.kernel is None:
        return own + squared_norm(problem, *primal_point(problem, alpha))
    scale = 1.0 / (problem.regularization * problem.n_samples)
    return own + quadratic_form(problem, scale * alpha * problem.y)


def penalized_by_loss(problem: Problem, alpha: Vector) -> float:
    """Σ αᵢ²/(2sᵢλn) of a squared loss, else 0: its part of what is `penalized`."""
    if problem.ridge is None:
        return 0.0
    return float(problem.ridge @ (alpha * alpha)) / (problem.regularization * problem.n_samples)


def feasible(problem: Problem, alpha: Vector) -> Vector:
    """α clipped to its box and, with a free intercept, balanced to Σ αᵢ yᵢ = 0."""
    alpha = np.clip(alpha, 0.0, problem.upper)
    if problem.intercept == "free":
        positive = problem.y > 0
        up, down = float(alpha[positive].sum()), float(alpha[~positive].sum())
        target = min(up, down)
        if target <= 0.0:
            return np.zeros_like(alpha)
        alpha *= np.where(positive, target / up, target / down)
    return alpha


def rounding_of_scores(problem: Problem, a: Vector) -> float:
    """The rounding of the scores Σ aⱼ yⱼ k(xⱼ, ·), at least that of a margin of 1: smaller
    violations of the optimality conditions mean nothing. From |k(x, z)| ≤ √k(x, x) √k(z, z)."""
    norms = problem.squared_norms
    squares = norms if problem.kernel is None else problem.kernel.of_norms(norms)
    sizes = np.sqrt(squares + (1.0 if problem.intercept == "augmented" else 0.0))
    return ROUNDING * max(1.0, float(a @ sizes) * float(sizes.max()))


def primal_point(problem: Problem, alpha: Vector) -> tuple[Vector, float]:
    """Without a kernel: w(α), and b(α) = 1/(λn) Σ αᵢ yᵢ if it is `augmented` (else 0)."""
    signed = alpha * problem.y
    scale = 1.0 / (problem.regularization * problem.n_samples)
    intercept = scale * float(signed.sum()) if problem.intercept == "augmented" else 0.0
    return scale * problem.combination(signed), intercept


def gram(problem: Problem, left: Indices, right: Indices) -> Vector:
    """k(x_left, x_right), (len(left), len(right))."""
    return _values(problem, problem.rows_at(left), left, right)


def _values(problem: Problem, rows: Matrix, left: Indices, right: Indices) -> Vector:
    """The same, if the rows on the left are in memory."""
    assert problem.kernel is not None
    norms = problem.squared_norms
    products = inner_products(rows, problem.rows_at(right))
    values = problem.kernel.of_products(products, norms[left], norms[right])
    if problem.intercept == "augmented":
        values += 1.0
    return values


def sums_over(problem: Problem, left: Indices, coefficients: Vector) -> Vector:
    """Σⱼ coefficientsⱼ k(x_left, xⱼ), (len(left),); rows with coefficient 0 cost nothing."""
    support = np.flatnonzero(coefficients)
    out = np.zeros(len(left))
    width = max(1, min(len(support), 2048))
    height = max(1, BLOCK_VALUES // width)
    for i in range(0, len(left), height):
        some = left[i : i + height]
        rows = problem.rows_at(some)
        for j in range(0, len(support), width):
            problem.interrupted()
            others = support[j : j + width]
            out[i : i + height] += _values(problem, rows, some, others) @ coefficients[others]
    return out


def quadratic_form(problem: Problem, coefficients: Vector) -> float:
    """Σ coefficientsᵢ coefficientsⱼ k(xᵢ, xⱼ): the squared norm of a combination of rows."""
    return float(inner_forms(problem, coefficients[:, None])[0, 0])


def inner_forms(problem: Problem, coefficients: Vector) -> Vector:
    """The inner products of p combinations of rows, (p, p), from coefficients (n_samples, p)."""
    support = np.flatnonzero(coefficients.any(axis=1))
    out = np.zeros((coefficients.shape[1],) * 2)
    for i in range(0, len(support), SIDE):
        problem.interrupted()
        left = support[i : i + SIDE]
        for j in range(0, i + 1, SIDE):  # the matrix is symmetric
            right = support[j : j + SIDE]
            block = coefficients[left].T @ gram(problem, left, right) @ coefficients[right]
            out += block if j == i else block + block.T
    return out
