"""Sequential minimal optimization on working sets of many rows (Platt; Fan, Chen, Lin, 2005)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from svm.data.matrices import Indices, Signs, Vector
from svm.hyperparameters import Hyperparameters, Intercept, Loss
from svm.kernel.kernel_rows import KernelRow
from svm.kernel.kernels import MEDIAN_GAUSSIAN, AnyKernel
from svm.problem.objectives import (
    best_multiple,
    evaluate,
    linear,
    penalized_by_loss,
    rounding_of_scores,
    squared_norm,
)
from svm.problem.problem import Classifier, KernelClassifier, LinearClassifier, Problem
from svm.solvers import working_sets
from svm.solvers.protocol import NOT_STOPPED, Inheritance, SolvedPair
from svm.solvers.working_sets import LARGE_SET, WORKING_SET, SMOState

WIDE = 4
"""A row of at least this many times the values of a working set is computed only once its variable
changes."""
SHARED_WORK = 1 << 18
"""Operations that are worth several threads."""


@dataclass(frozen=True, kw_only=True)
class SMO(Hyperparameters):
    """The kernel SVM in its dual, solved for a few hundred variables at a time.

    The rows that violate the optimality conditions most form a working set. Its small quadratic
    program is solved by steps in one variable or, to keep Σ αᵢ yᵢ = 0, in two; then all scores are
    updated by one product with the working set's kernel rows. The exact solver for kernels: time
    and memory grow with n², so it is for up to some ten thousand rows.
    """

    objective: ClassVar = "½‖f‖² + C Σ hinge through its dual, ‖f‖ the norm of the kernel's space"
    cost_per_epoch: ClassVar = "n kernel rows of O(n d), fewer if they are cached"
    reference: ClassVar = (
        "Fan, Chen, Lin: Working set selection using second order information for training support "
        "vector machines. JMLR 6 (2005); Platt: Fast training of support vector machines using "
        "sequential minimal optimization. 1998"
    )
    suggestion: ClassVar = "give a smaller C or scale the features"
    starts_from: ClassVar[tuple[str, ...]] = ("smo", "kernel-pegasos")
    inherits: ClassVar = "the dual variables of the rows"
    evaluation_growth: ClassVar = 1.0
    certifies: ClassVar = True

    name: Literal["smo"] = "smo"
    kernel: AnyKernel | None = MEDIAN_GAUSSIAN
    """Inner products in the feature space, or the name of a kernel, such as `rbf`; none for a
    linear model, which has weights instead of support vectors."""
    intercept: Intercept = "free"
    """`free`: not penalized. `augmented`: the weight of a constant feature, penalized in ‖f‖²;
    the kernel plus 1. `none`: no intercept."""

    loss: Loss = None

    @property
    def computes_kernel(self) -> bool:
        return True

    def start(self, problem: Problem, inherited: Inheritance | None = None) -> SMOState:
        """a = 0; or the inherited one, clipped to its box."""
        state = SMOState(
            a=np.zeros(problem.n_samples),
            scores=np.zeros(problem.n_samples),
            working=np.zeros(0, dtype=np.int64),
            w=np.zeros(problem.n_features if problem.kernel is None else 0),
        )
        if inherited is None:
            return state
        a = np.minimum(inherited.dual_coefficients, _upper(problem))
        if problem.intercept == "free":
            a = _balance(a, problem.y)
        scores = np.zeros(problem.n_samples)
        support = np.flatnonzero(a)
        for start in range(0, len(support), WORKING_SET):
            some = support[start : start + WORKING_SET]
            _add_rows(problem, some, a[some] * problem.y[some], scores)
        return replace(state, a=a, scores=scores, w=_weights(problem, a))

    def advance(self, problem: Problem, state: SMOState) -> SMOState:
        """One working set."""
        from svm.loops.smo import solve_pairs, solve_singles

        free = problem.intercept == "free"
        upper, y, curved = _upper(problem), problem.y, _with_ridge(problem, state)
        corners = problem.corners
        up, down = working_sets.violations(y, corners, state.a, curved, upper, free=free)
        violation = float(working_sets.largest_violation(up, down, free=free))
        if violation <= rounding_of_scores(problem, state.a):
            return replace(state, stopped="converged", epoch=state.epoch + 1)
        inside = int(np.count_nonzero((state.a > 0.0) & (state.a < upper)))
        most_rows = LARGE_SET if free and inside > WORKING_SET else WORKING_SET
        working = working_sets.working_set(state.working, up, down, most_rows)
        gram = _gram(problem, state.working, working)
        if problem.ridge is not None:
            gram[np.diag_indices(len(working))] += _ridge_of(problem, problem.ridge)[working]
        a, scores = state.a[working], curved[working]
        solve = solve_pairs if free else solve_singles
        most = problem.updates_left(state.updates, working_sets.INNER_STEPS)
        tolerance = working_sets.INNER_SHARE * violation
        sides = y[working], corners[working]
        steps = solve(gram, *sides, upper[working], a, scores, tolerance, most)
        changes = (a - state.a[working]) * y[working]
        everywhere = state.scores.copy()
        _add_rows(problem, working, changes, everywhere)
        dual = state.a.copy()
        dual[working] = a
        sets = state.sets + 1
        state = SMOState(
            epoch=-(-sets * len(working) // problem.n_samples),
            updates=state.updates + max(1, steps),
            stopped=NOT_STOPPED,
            a=dual,
            scores=everywhere,
            working=working,
            w=_weights(problem, dual),
            sets=sets,
        )
        return replace(state, intercept=_intercept(problem, state))

    def solve_together(
        self,
        problems: Sequence[Problem],
        _states: Sequence[SMOState],
        gap: float,
        most_epochs: int,
        most_updates: int,
    ) -> Iterator[dict[int, SolvedPair]]:
        return working_sets.solve_together(problems, gap, most_epochs, most_updates)

    def classifier(self, problem: Problem, state: SMOState) -> Classifier:
        if problem.kernel is None:
            return LinearClassifier(state.w, _intercept(problem, state))
        support = np.flatnonzero(state.a)
        coefficients = state.a[support] * problem.y[support]
        return KernelClassifier(support, coefficients, _intercept(problem, state))

    def scores(self, problem: Problem, state: SMOState) -> Vector:
        """f(xᵢ), (n_samples,), without computing kernel values."""
        if problem.kernel is None:
            return problem.scores(state.w, _intercept(problem, state))
        free = problem.intercept == "free"
        return state.scores + _intercept(problem, state) if free else state.scores

    def bound(self, problem: Problem, state: SMOState) -> float:
        """D(α): Kα or w is known, and α is feasible."""
        if problem.kernel is None:
            penalized = squared_norm(problem, state.w, _intercept(problem, state))
        else:
            penalized = float((state.a * problem.y) @ state.scores)
        scale = problem.regularization * problem.n_samples
        penalized += penalized_by_loss(problem, scale * state.a)
        return best_multiple(problem, scale * linear(problem, state.a), max(0.0, penalized))

    def work_after(self, problem: Problem, state: SMOState) -> float:
        """0: other solvers with a kernel compute its values, too."""
        return 0.0

    def enclosure(self, problem: Problem, state: SMOState) -> tuple[float, float]:
        """Primal value and bound of the state."""
        classifier, scores = self.classifier(problem, state), self.scores(problem, state)
        return evaluate(problem, classifier, scores)[0], self.bound(problem, state)

    def dual_coefficients(self, problem: Problem, state: SMOState) -> Vector:
        """αᵢ/(λn), (n_samples,)."""
        return state.a


KernelRowParts: TypeAlias = Sequence[tuple[Indices, Sequence[KernelRow], Indices]]
"""(Rows of the problem, for each requested row its kernel values with them, and the addresses of
these), by group."""


def _kernel_rows(problem: Problem, rows: Indices) -> KernelRowParts:
    """k(xᵢ, ·) for the `rows` i of the problem."""
    numbers, parts = problem.rows[rows], []
    for group, inside in problem.kernel_groups:
        some = problem.kernel_rows.get(numbers, group, problem.interrupted, problem.executor)
        parts.append((inside, some, np.array([row.address for row in some], dtype=np.int64)))
    return parts


def _gram(problem: Problem, latest: Indices, rows: Indices) -> Vector:
    """k(xᵢ, xⱼ) for the `rows` i and j of a working set, as the row of the later one has it; those
    of the `latest` set that stay are not computed again."""
    from svm.loops.smo import mirror, take_values

    kernel_rows, numbers, size = problem.kernel_rows, problem.rows[rows], len(rows)
    gram = np.empty((size, size))
    known = kernel_rows.take_block(numbers[: working_sets.n_kept(len(latest), size)], gram)
    places = np.arange(known, size)
    if problem.n_samples >= WIDE * size:
        groups = [group for group, _ in problem.kernel_groups]
        held = kernel_rows.holds(numbers[known:], groups)
        rare, places = places[~held], places[held]
        given = numbers[rare], numbers, problem.interrupted, problem.executor
        gram[rare] = kernel_rows.block(*given)

    def take(inside: Indices, addresses: Indices) -> None:
        positions = np.searchsorted(inside, rows)
        columns = np.flatnonzero(inside.take(positions, mode="clip") == rows)
        positions = positions[columns]

        def of_rows(some: slice) -> None:
            take_values(addresses[some], len(inside), positions, columns, places[some], gram)

        problem.executor.map(of_rows, _shares(problem, len(places), len(positions)))

    parts = _kernel_rows(problem, rows[places])  # keeps the values at these addresses
    for inside, _, addresses in parts:
        take(inside, addresses)
    mirror(gram, known)
    kernel_rows.keep_block(numbers[size // 2 :], gram)
    if problem.intercept == "augmented":
        gram += 1.0
    return gram


def _add_rows(problem: Problem, rows: Indices, changes: Vector, scores: Vector) -> None:
    """scores += Σ changesₖ k(xₖ, ·), for these rows k. Those that do not change are not computed:
    most rows that end as no support vector."""
    from svm.loops.smo import add_values

    changed = np.flatnonzero(changes)
    factors = changes[changed]

    def add(inside: Indices, addresses: Indices) -> None:
        def to_scores(some: slice) -> None:
            add_values(addresses, inside, some.start, some.stop, factors, scores)

        problem.executor.map(to_scores, _shares(problem, len(inside), len(changed)))

    if problem.intercept == "augmented":
        scores += changes.sum()
    parts = _kernel_rows(problem, rows[changed])  # keeps the values at these addresses
    for inside, _, addresses in parts:
        add(inside, addresses)


def _shares(problem: Problem, n: int, each: int) -> list[slice]:
    """0 … n - 1 in a part for each thread, if this number of operations with each is worth it."""
    parts = problem.executor.threads if n * each >= SHARED_WORK else 1
    edges = [n * k // parts for k in range(parts + 1)]
    return [slice(first, last) for first, last in pairwise(edges)]


def _weights(problem: Problem, a: Vector) -> Vector:
    """Σ aᵢ yᵢ xᵢ, (n_features,); empty with a kernel."""
    return np.empty(0) if problem.kernel is not None else problem.combination(a * problem.y)


def _upper(problem: Problem) -> Vector:
    """The upper end of the box, that of αᵢ/(λn)."""
    upper: Vector = problem.upper / (problem.regularization * problem.n_samples)
    return upper


def _with_ridge(problem: Problem, state: SMOState) -> Vector:
    """The scores, (n_samples,), as if the ridge of a squared loss were part of each row's kernel
    value with itself: then its dual is that of the hinge without a box."""
    if problem.ridge is None:
        return state.scores
    return state.scores + _ridge_of(problem, problem.ridge) * state.a * problem.y


def _ridge_of(problem: Problem, ridge: Vector) -> Vector:
    """The ridge in the scale of a = α/(λn)."""
    return problem.regularization * problem.n_samples * ridge


def _balance(a: Vector, y: Signs) -> Vector:
    """a with the class of the larger sum scaled down, so that Σ aᵢ yᵢ = 0."""
    up, down = float(a[y > 0].sum()), float(a[y < 0].sum())
    target = min(up, down)
    factors = np.where(y > 0, target / up if up > 0 else 0.0, target / down if down > 0 else 0.0)
    balanced: Vector = a * factors
    return balanced


def _intercept(problem: Problem, state: SMOState) -> float:
    """The b with the smallest primal value for these scores."""
    if not math.isnan(state.intercept):
        return state.intercept
    if problem.intercept == "none":
        return 0.0
    if problem.intercept == "augmented":
        return float(state.a @ problem.y)
    sides = problem.y, problem.corners, problem.weights
    return problem.loss.best_intercept(*sides, state.scores)
