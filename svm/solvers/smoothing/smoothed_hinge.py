"""The hinge loss, smoothed: its gradient, its Hessian, and its minimum along a line.

    ℓ_μ(m) = 0  (m ≥ 1),   (1 - m)²/(2μ)  (1 - μ < m < 1),   1 - m - μ/2  (m ≤ 1 - μ)

The objective is λ/2 ‖w‖² + (1/n) Σ sᵢ ℓ_μ(yᵢ f(xᵢ)), with qᵢ in place of 1 if rows have other
margins. Points and steps are (w, b), one after the other: (n_features + 1,).

With the squared hinge nothing is smoothed: (1 - m)² = 2μ ℓ_μ(m) for every shortfall up to μ. So its
objective is 2μ times this one with λ/(2μ) for λ, at a μ that no shortfall reaches: `STEEP`.

Work is counted in multiplications of a pass over the data. Choices between solvers depend on such
estimates, never on times, so that the bits of a result do not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from svm.data.matrices import Floats, Indices, Vector
from svm.data.shards import tree_sum
from svm.errors import Diverged
from svm.problem import passes
from svm.problem.objectives import mean_weight
from svm.problem.passes import Chosen, Pass, RowValues, Run
from svm.problem.problem import Problem

STEEP = 2.0**64
"""μ of the squared hinge; a power of two, so that no bit is lost in products with it."""
DENSE_HESSIAN = 2000
"""Most features for which the Hessian is built; otherwise, and for sparse data, products."""
GATHER_ROWS = 2048
"""Rows copied at a time to build the Hessian."""
JITTER = 1e-14
"""Added to the Hessian's diagonal of ones: rounding can push the smallest eigenvalues of a long,
flat Hessian below zero."""
ROUGH_JITTER = 1e-7
"""The same in single precision."""
MOST_JITTER = 1e-6
"""More than rounding ever needs, even if it needs more than `JITTER`."""
OUT_OF_RANGE = "a Newton step left the range of floating-point numbers"
MAX_CONJUGATE_GRADIENTS = 250
"""Most products with the Hessian in one step."""
LINE_SEARCH = 1e-4
"""How near to the minimum along a step, as a share of its length. Nearer saves no step, and each
trial is a pass over the scores."""
EXACT = 1e-10, 1 << 14
"""The same for numeric targets, and up to how many sides of rows: where many of them reach an end
of ε at once, weighted and repeated rows then give the same model, not only the same gap."""
Solve: TypeAlias = Callable[[Vector], tuple[Vector, float]]
"""Gives the solution, and the work that it took."""
LEAVES = 8
"""Most parts of the rows of which a Hessian each is summed …"""
HESSIAN_VALUES = 1 << 23
"""… and most values of these Hessians, unless two have more: 64 MiB."""
ROW = 16.0
"""Cost of a row beside its values: its label, weight, score and number."""
BLAS = 8.0
"""Multiplications of a matrix product in the time of one in a pass over the data."""
PASSES = 4.0
"""Passes of a first Newton step beside the products with its Hessian."""
PRODUCTS = 20.0
"""Products with the Hessian in a step, if it is not built: a first guess."""


@dataclass(frozen=True, slots=True)
class Active:
    """The rows near the margin, or some of them."""

    chosen: RowValues
    """`Chosen`, each with what is added to its sᵢ aᵢ yᵢ, its change."""
    count: int
    smoothing: float
    """μ, for a share of the rows that share of it."""
    sums_changes: bool = False
    """Whether the changes are summed with the Hessian, as the rows are read anyway."""

    @classmethod
    def at(cls, rows: Indices, smoothing: float) -> Active:
        """The rows at these positions."""
        return cls(Chosen(rows, np.zeros(len(rows))), len(rows), smoothing)

    def curvature(self, problem: Problem) -> float:
        """The curvature of the mean loss, for a row of weight 1."""
        return 1.0 / (self.smoothing * problem.n_samples)


def slopes_at(problem: Problem, scores: Vector, mu: float) -> Vector:
    """aᵢ = clip((qᵢ - yᵢ fᵢ)/μ, 0, 1): minus the slope of ℓ_μ at each row."""
    return np.minimum(np.maximum(0.0, problem.shortfalls(scores)) / mu, 1.0)


def unit_of(problem: Problem) -> float:
    """The problem's objective over that with ℓ_μ."""
    return 2.0 * STEEP if problem.loss.squared else 1.0


def penalty(problem: Problem) -> Vector:
    """λ, in the unit of the objective with ℓ_μ, for every coordinate of (w, b); 0 for b unless it
    is augmented."""
    every = np.full(problem.n_features + 1, float(problem.regularization) / unit_of(problem))
    if problem.intercept != "augmented":
        every[-1] = 0.0
    return every


def gradient(problem: Problem, point: Vector, slopes: Vector) -> Vector:
    """Gradient of the smoothed objective in (w, b); 0 for b if there is none."""
    signed = slopes * problem.weights * problem.y
    return gradient_of_sum(problem, point, problem.combination(signed), float(signed.sum()))


def gradient_of_sum(problem: Problem, point: Vector, change: Vector, total: float) -> Vector:
    """The same, if Σ sᵢ aᵢ yᵢ xᵢ and Σ sᵢ aᵢ yᵢ are known."""
    slope = penalty(problem) * point
    slope[:-1] -= change / problem.n_samples
    if problem.intercept != "none":
        slope[-1] -= total / problem.n_samples
    return slope


def builds_hessian(problem: Problem) -> bool:
    """Whether a step builds the Hessian; if not, it computes products with it."""
    return not problem.sparse and problem.n_features <= DENSE_HESSIAN


def step_work(problem: Problem) -> float:
    """The work of a first step: all rows are near the margin."""
    if builds_hessian(problem):
        products = hessian_work(problem, problem.n_samples)
    else:
        products = PRODUCTS * product_work(problem, problem.n_samples)
    return PASSES * pass_work(problem) + products


def solver_of_hessian(problem: Problem, active: Active, *, rough: bool) -> tuple[Solve, Vector]:
    """A function that solves H x = r for the Hessian of the smoothed objective, if the `active`
    rows are those near the margin; and (n_features,) the sum of their changes, or 0.

    `rough`: a dense Hessian is summed in single precision, in half the time, unless rounding then
    makes it indefinite.
    """
    ridge = penalty(problem)
    if problem.intercept == "none":
        ridge[-1] = 1.0  # keeps b at 0
    elif problem.intercept == "free":
        # Without rows near the margin b has no curvature: use that of one row.
        ridge[-1] = 0.0 if active.count else active.curvature(problem)
    if not builds_hessian(problem):
        return _conjugate_gradients(problem, active, ridge)
    return _cholesky(problem, active, ridge, rough=rough)


def _cholesky(
    problem: Problem, active: Active, ridge: Vector, *, rough: bool, jitter: float = JITTER
) -> tuple[Solve, Vector]:
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    hessian, change = _hessian(problem, active, np.float32 if rough else np.float64)
    diagonal = np.einsum("ii->i", hessian)
    diagonal += ridge
    # A diagonal of ones allows features of very different sizes.
    scale = 1.0 / np.sqrt(diagonal)
    hessian *= scale
    hessian *= scale[:, None]
    diagonal += ROUGH_JITTER if rough else jitter
    try:
        factor = cho_factor(hessian.T, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError as error:
        if jitter > MOST_JITTER:
            raise Diverged(OUT_OF_RANGE, "scale the features") from error
        # The factorization has overwritten the Hessian, so it is summed again.
        more = jitter if rough else 100.0 * jitter
        return _cholesky(problem, active, ridge, rough=False, jitter=more)

    def solve(right: Vector) -> tuple[Vector, float]:
        result: Vector = scale * cho_solve(factor, scale * right, check_finite=False)
        return result, hessian_work(problem, active.count)

    return solve, change


def _leaves_together(problem: Problem, active: int) -> int:
    """How many leaves, a power of two, have one Hessian: there are few of these, each of many
    rows."""
    most = min(LEAVES, max(2, HESSIAN_VALUES // (problem.n_features + 1) ** 2))
    most = min(most, -(-active // GATHER_ROWS), len(problem.leaves) - 1)
    return 1 << (-(-(len(problem.leaves) - 1) // max(1, most)) - 1).bit_length()


def _hessian(
    problem: Problem, active: Active, precision: type[np.float32 | np.float64]
) -> tuple[Vector, Vector]:
    """Σ curvatureᵢ xᵢ xᵢᵀ over the active rows, each with its constant feature:
    (n_features + 1, n_features + 1); and the sum of their changes."""
    d = problem.n_features
    # Weights of mean 1 fit into single precision.
    unit = mean_weight(problem)
    out = problem.compute(
        Pass(
            _add_hessian,
            (d, unit, precision, problem.intercept != "none", active.sums_changes),
            size=(d + 1) ** 2 + d,
            together=_leaves_together(problem, active.count),
        ),
        [active.chosen],
    ).total
    hessian: Vector = out[: (d + 1) ** 2].reshape(d + 1, d + 1)
    hessian *= unit * active.curvature(problem)
    return hessian, out[(d + 1) ** 2 :]


def _add_hessian(
    run: Run,
    d: int,
    unit: float,
    precision: type[np.float32 | np.float64],
    constant: bool,
    sums_changes: bool,
) -> None:
    from svm.loops.newton import scaled_rows
    from svm.loops.row_operations import add_rows

    hessian, sums = run.out[: (d + 1) ** 2].reshape(d + 1, d + 1), run.out[(d + 1) ** 2 :]
    active, change = run.of[0].within(run.rows)
    buffer = np.empty((min(GATHER_ROWS, len(active)), d + 1), dtype=precision)
    product = np.empty_like(hessian, dtype=precision)
    for start in range(0, len(active), GATHER_ROWS):
        some = slice(start, min(start + GATHER_ROWS, len(active)))
        block, chosen = buffer[: some.stop - start], active[some]
        factors = np.sqrt(run.weights_of(chosen - run.rows.start) / unit).astype(precision)
        for part, operand, rows in run.parts(chosen):
            scaled_rows(operand, rows, factors[part], block[part, :d])
            if sums_changes:  # while the rows are in the processor's cache
                add_rows(operand, rows, change[some][part], sums)
        block[:, d] = factors if constant else 0.0
        hessian += np.matmul(block.T, block, out=product)


def _conjugate_gradients(problem: Problem, active: Active, ridge: Vector) -> tuple[Solve, Vector]:
    d, of, unit = problem.n_features, [active.chosen], active.curvature(problem)
    summed = problem.compute(
        Pass(_add_squares, (d, unit, active.sums_changes), size=2 * d + 1), of
    ).total
    diagonal = ridge.copy()
    diagonal[:-1] += summed[:d]
    if problem.intercept != "none":
        diagonal[-1] += summed[-1]

    def product(v: Vector) -> Vector:
        w, b = v[:-1], float(v[-1]) if problem.intercept != "none" else 0.0
        result = problem.compute(Pass(_add_product, (w, b, unit), size=d + 1), of).total
        if problem.intercept == "none":
            result[d] = 0.0
        result += ridge * v
        return result

    def solve(right: Vector) -> tuple[Vector, float]:
        x = np.zeros_like(right)
        residual = right.copy()
        z = residual / diagonal
        direction, rho = z.copy(), float(residual @ z)
        target = 1e-4 * rho  # in the norm of the preconditioner: a hundredth of the residual
        products = 1  # the diagonal
        for _ in range(MAX_CONJUGATE_GRADIENTS):
            if rho <= target or rho == 0.0:
                break
            image, products = product(direction), products + 1
            steepness = float(direction @ image)
            if steepness <= 0.0:  # too flat for float64
                break
            length = rho / steepness
            x += length * direction
            residual -= length * image
            z = residual / diagonal
            rho, before = float(residual @ z), rho
            direction = z + (rho / before) * direction
        return x, products * product_work(problem, active.count)

    return solve, summed[d : 2 * d]


def _add_squares(run: Run, d: int, unit: float, sums_changes: bool) -> None:
    from svm.loops.row_operations import add_rows, weighted_squares

    active, change = run.of[0].within(run.rows)
    curvature = unit * run.weights_of(active - run.rows.start)
    for part, operand, rows in run.parts(active):
        weighted_squares(operand, rows, curvature[part], run.out[:d])
        if sums_changes:
            add_rows(operand, rows, change[part], run.out[d : 2 * d])
    run.out[-1] = curvature.sum()


def _add_product(run: Run, w: Vector, b: float, unit: float) -> None:
    from svm.loops.newton import curvature_product

    out, d = run.out, len(w)
    active, _ = run.of[0].within(run.rows)
    curvature = unit * run.weights_of(active - run.rows.start)
    for part, operand, rows in run.parts(active):
        out[d] = curvature_product(operand, rows, curvature[part], w, b, out[:d], float(out[d]))


def line_search(
    problem: Problem,
    point: Vector,
    step: Vector,
    scores: RowValues,
    changes: RowValues,
    centers: RowValues,
    mu: float,
    at_end: Floats | None = None,
    derivatives_at: Callable[[float], Floats | None] | None = None,
) -> float:
    """The t ≥ 0 that minimizes the smoothed objective at point + t step, up to `LINE_SEARCH`, or
    `EXACT`.

    Its derivative in t is increasing and piecewise linear: Newton's method on it, inside a bracket,
    ends after a few pieces. `at_end`: the derivatives at t = 1, if they are known;
    `derivatives_at` may give them at another t.
    """
    ridge, of = penalty(problem), [scores, changes, centers]
    linear, quadratic = float(ridge @ (point * step)), float(ridge @ (step * step))
    low, high, t = 0.0, np.inf, 1.0
    exact = problem.loss.numeric and problem.n_samples <= EXACT[1]
    near = EXACT[0] if exact else LINE_SEARCH
    for _ in range(50):
        derivatives, at_end = at_end, None
        if derivatives is None and derivatives_at is not None:
            derivatives = derivatives_at(t)
        if derivatives is None:
            derivatives = problem.compute(
                Pass(_slopes_along, (mu, t), notes=2, together=0), of
            ).notes
        slope, curvature = (tree_sum(derivatives) / problem.n_samples).tolist()
        slope += linear + t * quadratic
        curvature += quadratic
        if slope < 0:
            low = t
        else:
            high = t
        following = t - slope / curvature if curvature > 0 else np.inf
        if high == np.inf:  # an almost flat piece would move t far beyond its end
            following = min(following, 4.0 * t)
        if not low < following < high:
            following = 2.0 * t if high == np.inf else 0.5 * (low + high)
        if abs(following - t) <= near * t:
            break
        t = following
    return t


def changes_along(
    problem: Problem, step: Vector, scores: RowValues, centers: RowValues, mu: float
) -> tuple[RowValues, Floats]:
    """How the scores change along a step, and the derivatives at its end: in one pass."""
    w, b = np.ascontiguousarray(step[:-1]), float(step[-1])
    passed = problem.compute(Pass(_changes_along, (w, b, mu), notes=2, makes=1), [scores, centers])
    return passed.made[0], passed.notes


def _changes_along(run: Run, w: Vector, b: float, mu: float) -> None:
    from svm.loops.newton import slope_and_curvature

    passes.scores(run, w, b)
    scores, centers = run.of
    slope_and_curvature(
        *(run.inner, run.y, run.margins, run.weights, scores, run.made[0], centers),
        *(mu, 1.0, run.notes),
    )


def _slopes_along(run: Run, mu: float, t: float) -> None:
    from svm.loops.newton import slope_and_curvature

    scores, changes, centers = run.of
    rows = run.inner, run.y, run.margins, run.weights, scores, changes, centers
    slope_and_curvature(*rows, mu, t, run.notes)


def row_work(problem: Problem) -> float:
    """The work of one inner product with a row, on average over all of X."""
    if not problem.sparse:
        return ROW + problem.n_features
    X: Any = problem.X
    return ROW + float(X.indptr[-1]) / (len(X.indptr) - 1)


def rows_work(problem: Problem, n: int) -> float:
    """The work of one inner product with each of this number of rows."""
    return n * row_work(problem)


def pass_work(problem: Problem) -> float:
    """The work of one inner product with each row."""
    return rows_work(problem, problem.n_samples)


def hessian_work(problem: Problem, active: int) -> float:
    """The work of building the Hessian of this number of rows, and factoring it."""
    d = problem.n_features + 1
    return active * row_work(problem) + (active * d * d / 2.0 + d * d * d / 6.0) / BLAS


def product_work(problem: Problem, active: int) -> float:
    """The work of a product with the Hessian of this number of rows."""
    return 2.0 * active * row_work(problem) + ROW * problem.n_features
