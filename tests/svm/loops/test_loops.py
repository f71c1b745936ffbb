"""Every compiled loop against its slow twin in `twins.py`, for both layouts and precisions."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
import pytest

from svm.data.matrices import Signs, Vector
from svm.hyperparameters import Intercept
from svm.loops import gradient_descent as descent
from svm.loops import newton, pegasos, row_operations
from svm.loops.dual_coordinate_descent import sweep
from svm.problem.losses import Loss
from svm.problem.problem import Problem
from svm.solvers import DualCoordinateDescent, GradientDescent, Pegasos
from svm.solvers.options import RandomStart
from svm.stopping import CostChange
from tests.svm.cases import twins
from tests.svm.cases.problems import CASES, FORMS, INTERCEPTS, Form, problem_of

Numbers: TypeAlias = float | list[float] | Vector
CASE = CASES["weighted"]
# Single precision rounds every step; the data are the same numbers in both.
TOLERANCE = {"float64": 1e-11, "float32": 2e-5}


def close(actual: Numbers, expected: Numbers, form: Form) -> None:
    tolerance = TOLERANCE[form.split("-")[1]]
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> Form:
    chosen: Form = request.param
    return chosen


def part_of(
    case_form: Form, intercept: Intercept = "none", *, sided: bool = False
) -> tuple[Problem, Vector]:
    """A problem on some of the rows of a larger matrix, and those rows, dense in float64; `sided`:
    each twice, with margins of its own."""
    whole = problem_of(CASE, intercept, case_form)
    rows = np.flatnonzero(np.arange(40) % 3 != 1)
    y, margins = CASE.y[rows].astype(np.int8), None
    if sided:
        y, margins = Loss("epsilon-insensitive", 0.2).two_sides(1.5 * CASE.X[rows, 0])
        rows = np.repeat(rows, 2)
    part = Problem(
        X=whole.X,
        some_rows=rows,
        y=y,
        margins=margins,
        unequal_weights=CASE.weights[rows],
        regularization=CASE.regularization,
        intercept=intercept,
        seed=5,
        pair=2,
    )
    return part, CASE.X[rows]


def test_products_with_rows(form: Form) -> None:
    """Scores, combinations, squared norms and weighted squares of chosen rows, in float64."""
    problem, X = part_of(form)
    random = np.random.default_rng(0)
    w, coefficients = random.normal(size=4), random.normal(size=len(X))
    coefficients[::4] = 0.0
    exact: Form = "dense-float64"  # accumulated in float64 for any data
    close(problem.scores(w, 0.3), twins.scores(X, w, 0.3), exact)
    close(problem.combination(coefficients), twins.combination(X, coefficients), exact)
    close(problem.squared_norms, twins.squared_norms(X), exact)
    out = np.ones(4)
    row_operations.weighted_squares(problem.operand, problem.rows, coefficients, out)
    close(out, 1.0 + twins.combination(X**2, coefficients), exact)


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("order", ["each-epoch", "uniform"])
@pytest.mark.parametrize("sided", [False, True])
def test_pegasos(
    form: Form, intercept: Intercept, order: Literal["each-epoch", "uniform"], sided: bool
) -> None:
    """Epoch by epoch the iterate is the textbook's, w ← (1 - 1/t) w + yx/(λt), with the same
    draws."""
    problem, X = part_of(form, intercept, sided=sided)
    solver = Pegasos(order=order)
    n = problem.n_samples
    state, orders = solver.start(problem), []
    for epoch in range(4):
        if order == "each-epoch":
            orders.append(problem.permutation(epoch))
        else:
            orders.append(problem.random(epoch).integers(n, size=n))
        state = solver.advance(problem, state)
        w, b, violations = twins.pegasos(
            *(X, problem.y, problem.weights, problem.regularization, intercept),
            *(orders, problem.margins),
        )
        result = solver.classifier(problem, state)
        close(result.coefficients, w, form)
        close(result.intercept, b, form)
        np.testing.assert_array_equal(state.violations, violations)
        assert (state.epoch, state.updates) == (epoch + 1, (epoch + 1) * n)


@pytest.mark.parametrize("augmented", [False, True])
@pytest.mark.parametrize("sided", [False, True])
def test_dual_coordinate_descent_sweep(form: Form, augmented: bool, sided: bool) -> None:
    """One pass gives the twin's α, w(α) and projected gradients; a row that its bound keeps is
    skipped for longer and longer."""
    problem, X = part_of(form, "augmented" if augmented else "none", sided=sided)
    n, scale = len(X), 1.0 / (problem.regularization * len(X))
    alpha, w, intercept = np.zeros(n), np.zeros(4), 0.0
    rest, resting = np.zeros((2, n), dtype=np.int8)
    for epoch in range(8):
        order = problem.permutation(epoch)
        expected, projected = twins.dual_coordinate_descent(
            *(X, problem.y, problem.weights, problem.regularization, augmented, alpha),
            *(order, problem.margins),
        )
        rests = np.empty(n, dtype=np.int8)
        rests[order] = np.where(projected == 0.0, np.minimum(2 * rest[order] + 1, 63), 0)
        intercept, largest, smallest = sweep(
            problem.operand,
            problem.rows,
            order,
            problem.y,
            problem.margins,
            problem.weights,
            None,
            problem.steps,
            scale,
            augmented,
            w,
            intercept,
            alpha,
            rest,
            resting,
        )
        np.testing.assert_array_equal(rest, rests)
        np.testing.assert_array_equal(resting, rests)
        close(alpha, expected, form)
        close([largest, smallest], [projected.max(), projected.min()], form)
        close(w, scale * twins.combination(X, alpha * problem.y), form)
        close(intercept, scale * float(alpha @ problem.y) if augmented else 0.0, form)
    assert rest.max() == 63


def test_dual_coordinate_descent_epochs(form: Form) -> None:
    """The solver's epochs are passes of the twin over the rows that are not skipped, one epoch for
    every unit of `rest`, and its classifier is their average."""
    problem, X = part_of(form, "augmented")
    solver = DualCoordinateDescent()
    state, average = solver.start(problem), np.zeros(5)
    n, scale = len(X), 1.0 / (problem.regularization * len(X))
    due = np.zeros(n, dtype=np.int64)
    for epoch in range(12):
        awake = np.flatnonzero(due == epoch)
        awake = problem.permutation(epoch, awake)
        expected, _ = twins.dual_coordinate_descent(
            X, problem.y, problem.weights, problem.regularization, True, state.alpha, awake
        )
        before, state = state, solver.advance(problem, state)
        due[awake] = epoch + 1 + state.rest[awake]
        close(state.alpha, expected, form)
        assert state.updates == before.updates + len(awake)
        extended = np.column_stack([X, np.ones(len(X))])
        w = scale * twins.combination(extended, expected * problem.y)
        average = w if epoch == 0 else 0.6 * average + 0.4 * w
        result = solver.classifier(problem, state)
        close(np.append(result.coefficients, result.intercept), average, form)


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("regularizer", ["share", "whole"])
@pytest.mark.parametrize("batch_size", [1, 10, 27])  # 27 rows: 10 leaves a last batch of 7
def test_gradient_descent(
    form: Form, intercept: Intercept, regularizer: str, batch_size: int
) -> None:
    """Update by update the iterate and the cost are the twin's, from a random start."""
    rate = 0.01
    problem, X = part_of(form, intercept)
    solver = GradientDescent(
        learning_rate=rate,
        batch_size=batch_size,
        regularizer="whole" if regularizer == "whole" else "share",
        initial=RandomStart(random_scale=0.5),
    )
    n, C = problem.n_samples, 1.0 / (problem.regularization * problem.n_samples)
    start = solver.start(problem)
    orders = [np.arange(n) if batch_size == n else problem.permutation(k) for k in range(3)]
    batches = [
        order[first : first + batch_size] for order in orders for first in range(0, n, batch_size)
    ]
    path = twins.gradient_descent(
        X, problem.y, problem.weights, C, intercept, rate, batches, regularizer == "whole", start.w
    )
    state, per_epoch = start, -(-n // batch_size)
    for epoch in range(1, 4):
        state = solver.advance(problem, state)
        w, b, _ = path[epoch * per_epoch - 1]
        close(state.w, w, form)
        close(state.intercept, b, form)
        assert (state.epoch, state.updates) == (epoch, epoch * per_epoch)


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_gradient_descent_stops_in_the_middle_of_an_epoch(form: Form, intercept: Intercept) -> None:
    """With the cost-change rule the loop ends at the update at which the twin's change is below
    ε."""
    rate = 0.01
    problem, X = part_of(form, intercept)
    n, C = problem.n_samples, 1.0 / (problem.regularization * problem.n_samples)
    batches = [problem.permutation(0)[k : k + 4] for k in range(0, n, 4)]
    path = twins.gradient_descent(
        X, problem.y, problem.weights, C, intercept, rate, batches, False, np.zeros(4)
    )
    costs = [C * float(problem.weights.sum())] + [cost for _, _, cost in path]
    changes = twins.smoothed_changes(costs, 0.3)
    least = int(np.argmin(changes[:-1]))
    rule = CostChange(epsilon=changes[least] * 1.0001, smoothing=0.3)
    problem = replace(problem, cost_change=rule)
    solver = GradientDescent(learning_rate=rate, batch_size=4)
    state = solver.advance(problem, solver.start(problem))
    stopped_at = next(k for k, change in enumerate(changes) if change < rule.epsilon)
    assert state.updates == stopped_at + 1
    assert state.stopped == "converged"
    close(state.w, path[stopped_at][0], form)
    close(state.cost, path[stopped_at][2], form)
    close(state.change, changes[stopped_at], form)


@pytest.mark.parametrize(("score", "updates"), [(1.0, 0), (np.nextafter(1.0, 0.0), 1)])
def test_row_on_its_margin_is_left_alone(score: float, updates: int) -> None:
    """A row with y f(x) < 1 changes the weights, one with y f(x) = 1 does not, in Pegasos as in
    gradient descent."""
    row = np.ones((1, 1))
    one, weight, sign = np.array([0]), np.ones(1), np.ones(1, dtype=np.int8)
    violations, unaveraged = np.zeros(1), np.empty(0)
    pegasos.updates(
        row,
        one,
        one,
        sign,
        None,
        weight,
        1.0,
        pegasos.NONE,
        False,
        1.0,
        np.array([score]),
        violations,
        unaveraged,
        1,
        0.0,
        (0.0, 0.0, 0.0),
    )
    assert violations.tolist() == [updates]
    w = np.array([score])
    kept = np.zeros(1)
    settings = 1.0, 0.0, False, 0.5, 0.0, 0.0, False, False, 1, 1, False
    state = 0, w, 0.0, kept, 0.0, 0, np.empty(0), 0.0
    descent.descend(row, one, one, sign, None, weight, *settings, *state)
    assert w.tolist() == [score + 0.5 * updates]


Rows: TypeAlias = tuple[Signs, Vector, Vector, Vector]


def rows_of(weighted: bool, n: int = 50) -> Rows:
    """Labels, weights, scores and centers of rows: some slopes are 0, some 1, some between."""
    random = np.random.default_rng(3)
    y = random.choice(np.array([-1, 1], dtype=np.int8), size=n)
    weights = random.uniform(0.5, 2.0, size=n) if weighted else np.ones(n)
    return y, weights, 1.5 * random.normal(size=n), random.uniform(size=n)


def given(weights: Vector) -> Vector:
    """As loops over leaves take them: those of the longest leaf if all are 1."""
    return np.ones(30) if (weights == 1.0).all() else weights


EDGES = np.array([0, 20, 20, 50])


@pytest.mark.parametrize("weighted", [True, False])
def test_slope_and_curvature_are_the_derivatives_of_the_smoothed_loss(weighted: bool) -> None:
    """Of each leaf they equal the twin's, and the slope equals a difference quotient of
    Σ sᵢ ℓ_μ."""
    y, weights, scores, centers = rows_of(weighted)
    changes, mu, h = np.random.default_rng(4).normal(size=50), 0.7, 1e-6
    margins = y * scores - mu * centers

    def loss(t: float) -> float:
        at = margins + t * y * changes
        losses = [s * twins.smoothed_hinge(m, mu) for s, m in zip(weights, at, strict=True)]
        return float(sum(losses))

    rows = y, None, given(weights), scores, changes, centers
    for t in (0.0, 0.4, 1.0, 3.0):
        out = np.empty((3, 2))
        newton.slope_and_curvature(EDGES, *rows, mu, t, out)
        for k, (first, last) in enumerate(pairwise(EDGES)):
            some = slice(first, last)
            expected = twins.slope_and_curvature(
                margins[some], (y * changes)[some], weights[some], mu, t
            )
            np.testing.assert_allclose(out[k], expected, rtol=1e-12)
        slope = float(out[:, 0].sum())
        np.testing.assert_allclose(slope, (loss(t + h) - loss(t - h)) / (2.0 * h), rtol=1e-6)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize(("smoothing", "following"), [(0.9, 0.3), (np.inf, 0.3)])
def test_rows_near_the_margin(weighted: bool, smoothing: float, following: float) -> None:
    """Their number in each leaf, their positions, and how much further their slopes go."""
    y, weights, scores, centers = rows_of(weighted)
    rows, totals = (y, None, given(weights), scores, centers), np.empty((3, 3))
    slopes = twins.slopes(y, scores, centers, smoothing)
    near = np.flatnonzero((slopes > 0.0) & (slopes < 1.0))
    further = weights * y * (centers + (1.0 - y * scores) / following - slopes)
    positions, changes = np.empty(50, dtype=np.int64), np.empty(50)
    count = newton.near_margin(EDGES, *rows, smoothing, following, positions, changes, totals)
    np.testing.assert_array_equal(positions[:count], near)
    np.testing.assert_allclose(changes[:count], further[near], rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(totals[:, 2], np.diff(np.searchsorted(near, EDGES)))
    out = np.empty(50)
    newton.slopes(y, None, scores, centers, smoothing, out)
    np.testing.assert_allclose(out, slopes, rtol=1e-12)
    signed, near_sums = weights * slopes * y, np.isin(np.arange(50), near) * further
    for k, (first, last) in enumerate(pairwise(EDGES)):
        expected = signed[first:last].sum(), near_sums[first:last].sum()
        np.testing.assert_allclose(totals[k, :2], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("to_end", [True, False])
@pytest.mark.parametrize("before", [0.9, np.inf])
def test_end_of_step(weighted: bool, to_end: bool, before: float) -> None:
    """New scores; how the slopes change; sums and largest slopes of each class; the losses."""
    y, weights, scores, centers = rows_of(weighted)
    steps, length, mu = np.random.default_rng(4).normal(size=50), 0.4, 0.5
    old, after = twins.slopes(y, scores, centers, before), scores + length * steps
    slopes = twins.slopes(y, after, centers, mu)
    ends = slopes
    if to_end:
        near = (old > 0.0) & (old < 1.0)
        ends = np.where(near, twins.slopes(y, scores + steps, centers, mu), old)
    changes, end_slopes = steps.copy(), np.empty(50 if to_end else 0)
    changed, first, further = np.empty(50, dtype=np.int64), np.empty(50), np.empty(50)
    totals, largest = np.ones(7), np.zeros(4)
    at = y, None, 0.0, weights, scores, changes, centers, before, mu, length, end_slopes
    count = newton.end_of_step(*at, changed, first, further, totals, largest)
    np.testing.assert_allclose(changes, after, rtol=1e-12)
    np.testing.assert_allclose(end_slopes, ends[: len(end_slopes)], rtol=1e-12)
    others = np.zeros((2, 50))
    others[:, changed[:count]] = first[:count], further[:count]
    np.testing.assert_allclose(others[0], weights * (ends - old), atol=1e-12)
    np.testing.assert_allclose(others[1], weights * (slopes - ends), atol=1e-12)
    assert len(np.unique(changed[:count])) == count
    loss = np.maximum(0.0, 1.0 - y * after)
    wrong = np.count_nonzero((after > 0.0) != (y > 0))
    expected = np.zeros(7)
    expected[4:] = weights @ loss, weights @ (loss - slopes * (1.0 - y * after)), wrong
    for k, side in enumerate((y < 0, y > 0)):
        expected[k] = weights[side] @ slopes[side]
        assert largest[k] == pytest.approx(slopes[side].max(), rel=1e-12)
        if to_end:
            expected[2 + k] = weights[side] @ ends[side]
            assert largest[2 + k] == pytest.approx(ends[side].max(), rel=1e-12)
    np.testing.assert_allclose(totals, 1.0 + expected, rtol=1e-12)


def test_margins_are_offsets_of_scores() -> None:
    """q - y f is 1 - y (f + y (1 - q)): so loops over scores with margins are those without, at
    other scores; sums of margins are added, and errors in place of wrong sides."""
    y, weights, scores, centers = rows_of(weighted=True)
    random, mu, epsilon = np.random.default_rng(8), 0.5, 0.2
    margins, changes = random.normal(size=50), random.normal(size=50)
    other = scores + y * (1.0 - margins)
    for t in (0.0, 0.7):
        outs = np.empty((3, 2)), np.empty((3, 2))
        for q, f, out in ((margins, scores, outs[0]), (None, other, outs[1])):
            newton.slope_and_curvature(EDGES, y, q, weights, f, changes, centers, mu, t, out)
        np.testing.assert_allclose(*outs, rtol=1e-10)
    found = []
    for q, f in ((margins, scores), (None, other)):
        positions, further, totals = np.empty(50, np.int64), np.empty(50), np.empty((3, 3))
        rows = y, q, weights, f, centers
        count = newton.near_margin(EDGES[::3], *rows, mu, 0.3, positions, further, totals[:1])
        found.append([positions[:count], further[:count], totals[0]])
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-12)
    ends = []
    for q, f in ((margins, scores), (None, other)):
        moved, slopes, largest = changes.copy(), np.empty(50), np.zeros(4)
        changed, first, more = np.empty(50, dtype=np.int64), np.empty(50), np.empty(50)
        sums = np.zeros(11)
        at = y, q, epsilon, weights, f, moved, centers, 0.9, mu, 0.4, slopes
        count = newton.end_of_step(*at, changed, first, more, sums, largest)
        ends.append([slopes, largest, first[:count], more[:count], sums[:6]])
    for one, two in zip(*ends, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-12)
    after = scores + 0.4 * changes
    new = twins.slopes(y, other + 0.4 * changes, centers, mu)
    at_margins = newton_sums(y, margins, epsilon, weights, scores, changes, centers, mu)
    errors = np.maximum(margins - y * after + epsilon, 0.0).sum()
    assert at_margins[6] == pytest.approx(errors, rel=1e-12)
    lines = [float((weights * new * margins)[y * side > 0].sum()) for side in (-1, 1)]
    np.testing.assert_allclose(at_margins[7:9], lines, rtol=1e-9)


def newton_sums(*given: Any) -> Vector:
    """The totals of a step of length 0.4."""
    y, margins, epsilon, weights, scores, changes, centers, mu = given
    sums, n = np.zeros(11), len(y)
    rows = y, margins, epsilon, weights, scores, changes.copy(), centers, 0.9, mu, 0.4, np.empty(0)
    newton.end_of_step(*rows, np.empty(n, np.int64), np.empty(n), np.empty(n), sums, np.zeros(4))
    return sums


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_scaled_rows(precision: type[np.float32 | np.float64]) -> None:
    """Chosen rows, each times its factor, beside a column that is not changed."""
    X = np.random.default_rng(5).normal(size=(9, 4))
    rows, factors = np.array([1, 2, 8]), np.array([0.5, -2.0, 3.0], dtype=precision)
    out = np.full((3, 5), 7.0, dtype=precision)
    newton.scaled_rows(X, rows, factors, out[:, :4])
    expected = (factors[:, None] * X[rows]).astype(precision)
    np.testing.assert_allclose(out[:, :4], expected, rtol=float(np.finfo(precision).eps))
    assert (out[:, 4] == 7.0).all()


def test_curvature_product(form: Form) -> None:
    """The product with the Hessian that is never built, added to `out`."""
    problem, X = part_of(form)
    random = np.random.default_rng(4)
    curvature, v = random.uniform(size=len(X)), random.normal(size=4)
    out = np.ones(4)
    total = newton.curvature_product(problem.operand, problem.rows, curvature, v, 0.6, out, 2.0)
    expected, expected_total = twins.curvature_product(X, curvature, v, 0.6)
    close(out, 1.0 + expected, "dense-float64")
    close(total, 2.0 + expected_total, "dense-float64")


@pytest.mark.parametrize("smoothing", [0.5, np.inf])
@pytest.mark.parametrize("sided", [False, True])
def test_scores_and_sums(form: Form, smoothing: float, sided: bool) -> None:
    """In one pass: the scores, and the rows of each class times their clipped slopes."""
    problem, X = part_of(form, sided=sided)
    margins = np.ones(len(X)) if problem.margins is None else problem.margins
    random = np.random.default_rng(6)
    w, centers = random.normal(size=4), random.uniform(size=len(X))
    scores, sums = np.empty(len(X)), np.ones((2, 4))
    totals, largest = np.ones(5), np.zeros(2)
    at = (
        0.3,
        problem.y,
        problem.margins,
        problem.weights,
        centers,
        smoothing,
        scores,
        sums,
        totals,
        largest,
    )
    newton.scores_and_sums(problem.operand, problem.rows, w, *at)
    exact = X @ w + 0.3
    slopes = twins.slopes(problem.y, exact + problem.y * (1.0 - margins), centers, smoothing)
    close(scores, exact, form)
    for k, side in enumerate((problem.y < 0, problem.y > 0)):
        factors = problem.weights[side] * slopes[side]
        close(sums[k], 1.0 + factors @ X[side], form)
        close(totals[k], 1.0 + factors.sum(), form)
        close(largest[k], slopes[side].max(), form)
        if sided:
            close(totals[3 + k], 1.0 + factors @ margins[side], form)
    close(totals[2], 1.0 + problem.weights @ np.maximum(0.0, margins - problem.y * exact), form)
    if sided:
        out = np.empty(len(X))
        row_operations.scores_of_sides(problem.operand, problem.rows, w, 0.3, out)
        close(out, exact, form)


def test_add_changes(form: Form) -> None:
    """Two sums for each class, over some rows."""
    problem, X = part_of(form)
    random = np.random.default_rng(7)
    changes, further = random.normal(size=len(X)), random.normal(size=len(X))
    further[::2] = 0.0
    positive, sums = problem.y > 0, np.ones((2, 2, 4))
    newton.add_changes(problem.operand, problem.rows, changes, further, problem.y, sums)
    expected = [
        [1.0 + factors[positive == side] @ X[positive == side] for side in (False, True)]
        for factors in (changes, further)
    ]
    close(sums, np.array(expected), form)


@pytest.mark.parametrize("d", [8, 18, 32])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_short_rows_are_added_in_registers_with_the_same_bits(d: int, dtype: str) -> None:
    """As longer rows, whose further features are 0, one by one: with more rows than are added at
    once, in any order."""
    random, n = np.random.default_rng(9), 700
    X = random.normal(size=(n, d)).astype(dtype)
    longer = np.hstack([X, np.zeros((n, 33 - d), dtype)])
    rows, y = random.permutation(n), np.where(random.random(n) < 0.3, 1, -1).astype(np.int8)
    changes, further = random.normal(size=(2, n))
    further[:300] = 0.0
    sums = np.ones((2, 2, d)), np.ones((2, 2, 33))
    w, centers, scores = np.zeros(33), random.uniform(size=n), np.empty(n)
    of_all = np.ones((2, d)), np.ones((2, 33))
    for data, moved, some in zip((X, longer), sums, of_all, strict=True):
        newton.add_changes(data, rows, changes, further, y, moved)
        at = y, None, np.ones(n), centers, 0.5, scores, some, np.zeros(3), np.zeros(2)
        newton.scores_and_sums(data, rows, w[: data.shape[1]], 0.9, *at)
    np.testing.assert_array_equal(sums[0], sums[1][:, :, :d])
    np.testing.assert_array_equal(of_all[0], of_all[1][:, :d])
