"""The working sets of `smo`: which rows are in one, and many small problems side by side.

With 100 classes there are 4,950 pairs. If each has a few rows, one after the other takes a hundred
times as long in Python as in arithmetic. So pairs of as many rows advance side by side: every
operation is one call for all of them, and gives each the bits that it would have alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from svm.data.matrices import Indices, Mask, Signs, Vector
from svm.data.shards import shard_edges
from svm.kernel.kernels import LINEAR
from svm.kernel.row_products import KernelEvaluator
from svm.problem.losses import HINGE
from svm.problem.objectives import ROUNDING
from svm.problem.problem import Problem
from svm.solvers.protocol import SolvedPair, SolverState

WORKING_SET, LARGE_SET = 512, 1024
"""Rows of a working set; and of one for more variables than `WORKING_SET` within their box: these
depend on each other, and smaller sets would change them in turns."""
INNER_SHARE = 0.1
"""A working set is solved until its violation is this share of the problem's violation."""
INNER_STEPS = 20 * WORKING_SET
SMALL = 64
"""Most rows of a problem that is solved beside others …"""
MANY = 64
"""… and least number of them: fewer take a fraction of a second one after the other."""
MOST_ROWS = 4096
"""Of the matrix that they share: all its kernel values are computed, 128 MiB."""
SIDE_BY_SIDE = 1 << 18
"""Most kernel values of the problems that advance together."""
MOST_SETS = 32
"""A problem that is not solved by then continues alone."""
LONG = 1 << 13
"""Updates of a small problem after which another solver would be sooner."""


@dataclass(frozen=True, kw_only=True)
class SMOState(SolverState):
    """The dual point a = α/(λn) and what follows from it for every row."""

    a: Vector
    """(n_samples,) 0 … sᵢ/(λn)."""
    scores: Vector
    """(n_samples,) Σⱼ aⱼ yⱼ k(xⱼ, xᵢ): the scores without a free intercept."""
    working: Indices
    """The latest working set, its newest rows last."""
    w: Vector
    """(n_features,) Σ aᵢ yᵢ xᵢ; empty with a kernel."""
    intercept: float = math.nan
    """The best one for these scores; NaN before the first working set."""
    sets: int = 0
    """Working sets solved."""


def violations(
    y: Signs, corners: Signs | Vector, a: Vector, scores: Vector, upper: Vector, *, free: bool
) -> tuple[Vector, Vector]:
    """How much raising and lowering aᵢ yᵢ would gain, -inf (or 0) if the box forbids it: (…, n).

    With a free intercept these have a constant added, which cancels in the sum of two; otherwise
    they are the projected gradients.
    """
    residuals = corners - scores
    rises = np.where(y > 0, a < upper, a > 0)
    falls = np.where(y > 0, a > 0, a < upper)
    forbidden = -np.inf if free else 0.0
    return np.where(rises, residuals, forbidden), np.where(falls, -residuals, forbidden)


def largest_violation(up: Vector, down: Vector, *, free: bool) -> Vector:
    """The largest violation in each problem: (…)."""
    if free:
        return np.asarray(up.max(axis=-1) + down.max(axis=-1))
    return np.asarray(np.maximum(up, down).max(axis=-1))


def working_set(latest: Indices, up: Vector, down: Vector, most: int = WORKING_SET) -> Indices:
    """The newer half of the latest set, then the rows outside it that violate most: (…, size), in
    all at most `most`."""
    n = up.shape[-1]
    size = min(most, n)
    kept = latest[..., latest.shape[-1] - n_kept(latest.shape[-1], size) :]
    free = np.ones(up.shape, dtype=bool)
    np.put_along_axis(free, kept, False, axis=-1)
    wanted = size - kept.shape[-1]
    chosen = [kept]
    for gains, number in ((up, wanted // 2), (down, wanted - wanted // 2)):
        candidates = np.nonzero(free)[-1].reshape(*up.shape[:-1], -1)
        if number < candidates.shape[-1]:
            worst = np.argpartition(-np.take_along_axis(gains, candidates, axis=-1), number)
            candidates = np.take_along_axis(candidates, np.sort(worst[..., :number]), axis=-1)
        order = np.argsort(-np.take_along_axis(gains, candidates, axis=-1), kind="stable")
        chosen.append(np.take_along_axis(candidates, order, axis=-1))
        np.put_along_axis(free, chosen[-1], False, axis=-1)
    return np.concatenate(chosen, axis=-1)


def n_kept(n_latest: int, size: int) -> int:
    """Rows of the latest working set that stay in one of this size."""
    return (min(n_latest, size) + 1) // 2


def small_ones(problems: Sequence[Problem]) -> dict[int, list[int]]:
    """The positions of those that can be solved side by side, by their number of rows; none if that
    would not be sooner."""
    by_size: dict[int, list[int]] = {}
    for k, problem in enumerate(problems):
        alike = problem.unequal_weights is None and problem.loss == HINGE
        if problem.n_samples <= SMALL and alike:
            by_size.setdefault(problem.n_samples, []).append(k)
    if sum(map(len, by_size.values())) < MANY:
        return {}
    X = problems[0].X
    # With several shards, the sums over a few rows may be several, too.
    return {} if X.shape[0] > MOST_ROWS or len(shard_edges(X)) > 2 else by_size


def solve_together(
    problems: Sequence[Problem], gap: float, most_sets: int, most_updates: int
) -> Iterator[dict[int, SolvedPair]]:
    """The small ones of some problems of one training, as far as they are solved to the relative
    gap by that number of working sets, before the last of which there were fewer than
    `most_updates`: by their position in the sequence, some at a time."""
    by_size = small_ones(problems)
    if not by_size:
        return
    kernel, X = problems[0].kernel or LINEAR, problems[0].matrix
    values = np.ascontiguousarray(KernelEvaluator(kernel, X)(X.astype(np.float64, copy=False)))
    for n, numbers in by_size.items():
        at_once = max(1, SIDE_BY_SIDE // n**2)
        for start in range(0, len(numbers), at_once):
            some = numbers[start : start + at_once]
            beside = _SideBySide([problems[k] for k in some], values)
            solved = beside.solve(gap, min(most_sets, MOST_SETS), most_updates)
            yield {some[p]: pair for p, pair in solved}


class _SideBySide:
    """Problems of as many rows, with weights of 1. Arrays are (n_problems, n_samples)."""

    def __init__(self, problems: Sequence[Problem], values: Vector) -> None:
        """`values`: k(xᵢ, xⱼ) of all rows of their matrix."""
        first = problems[0]
        self.linear = first.kernel is None
        self.operand = first.operand
        self.free, self.augmented = (first.intercept == name for name in ("free", "augmented"))
        self.numbers = np.arange(len(problems))
        self.rows = np.stack([problem.rows for problem in problems])
        self.y = np.stack([problem.y for problem in problems])
        self.regularization = np.array([problem.regularization for problem in problems])
        self.values = values
        norms = np.stack([problem.squared_norms for problem in problems])
        squares = (first.kernel or LINEAR).of_norms(norms)
        self.sizes = np.sqrt(squares + (1.0 if self.augmented else 0.0))
        self.upper = np.ones(self.y.shape) / (self.regularization * self.y.shape[1])[:, None]
        self.a, self.scores = np.zeros(self.y.shape), np.zeros(self.y.shape)
        self.working = np.zeros((len(problems), 0), dtype=np.int64)
        self.w = np.zeros((len(problems), first.n_features if self.linear else 0))
        self.updates = np.zeros(len(problems), dtype=np.int64)
        self.best_primal = np.full(len(problems), np.inf)
        self.dual = np.zeros(len(problems))

    def solve(
        self, gap: float, most_sets: int, most_updates: int
    ) -> Iterator[tuple[int, SolvedPair]]:
        """Each problem when its gap is reached, with its position."""
        for sets in range(1, most_sets + 1):
            self._advance()
            if len(self.numbers) == 0:
                return
            intercepts = self._intercepts()
            shift = intercepts if self.free else np.zeros(len(intercepts))
            signed = self.a * self.y
            scores, norms = self._scores_and_norms(signed, intercepts, shift)
            short = 1.0 - self.y * scores
            losses = np.vecdot(np.ones_like(short), np.maximum(short, 0.0))
            costs = 0.5 * self.regularization * norms
            primal = costs + losses / short.shape[1]
            self.best_primal = np.minimum(self.best_primal, primal)
            self.dual = np.maximum(self.dual, self._bounds(np.maximum(costs, 0.0)))
            ends = primal - self.dual <= gap * np.maximum(primal, 0.0)
            wrong = np.count_nonzero((scores > 0.0) != (self.y > 0), axis=1)
            for p in np.flatnonzero(ends).tolist():
                state = SMOState(
                    epoch=sets,
                    updates=int(self.updates[p]),
                    a=self.a[p],
                    scores=self.scores[p],
                    working=self.working[p],
                    w=self.w[p],
                    intercept=float(intercepts[p]),
                    sets=sets,
                )
                norm = norms[p]
                if not self.linear:
                    support = np.flatnonzero(state.a)  # whose dot product has other bits
                    norm = float(signed[p, support] @ (scores[p, support] - shift[p]))
                at_end = 0.5 * self.regularization[p] * norm + losses[p] / short.shape[1]
                yield (
                    int(self.numbers[p]),
                    SolvedPair(
                        state=state,
                        primal=float(at_end),
                        best_primal=float(self.best_primal[p]),
                        dual=float(self.dual[p]),
                        train_error=float(wrong[p]) / short.shape[1],
                        inside=short[p] >= 0.0,
                    ),
                )
            self._keep(~ends & np.isfinite(primal) & (self.updates < most_updates))

    def _scores_and_norms(
        self, signed: Vector, intercepts: Vector, shift: Vector
    ) -> tuple[Vector, Vector]:
        """Scores and norms of the models so far: with the intercept, and ‖f‖² as it is
        penalized."""
        from svm.loops.smo import weigh_sets

        if not self.linear:
            return self.scores + shift[:, None], np.vecdot(signed, self.scores)
        self.w, scores = np.zeros((len(self.a), self.w.shape[1])), np.empty(self.a.shape)
        weigh_sets(self.operand, self.rows, signed, intercepts, self.w, scores)
        norms: Vector = np.vecdot(self.w, self.w)
        return scores, norms + intercepts * intercepts if self.augmented else norms

    def _advance(self) -> None:
        """One working set in each; those in which nothing can be gained are left out."""
        from svm.loops.smo import add_sets, solve_sets

        up, down = violations(self.y, self.y, self.a, self.scores, self.upper, free=self.free)
        violation = largest_violation(up, down, free=self.free)
        reach = np.vecdot(self.a, self.sizes) * self.sizes.max(axis=1)
        going = violation > ROUNDING * np.maximum(1.0, reach)
        self._keep(going)
        if len(self.numbers) == 0:
            return
        self.working = working_set(self.working, up[going], down[going])
        self.a, self.scores = self.a.copy(), self.scores.copy()
        changes, steps = np.empty(self.a.shape), np.empty(len(self.a), dtype=np.int64)
        rows = np.take_along_axis(self.rows, self.working, axis=1)
        tolerance = INNER_SHARE * violation[going]
        within = self.free, self.augmented, tolerance, INNER_STEPS
        boxes = self.y, self.upper, self.a, self.scores
        solve_sets(self.values, rows, self.working, *boxes, *within, changes, steps)
        if self.augmented:
            self.scores += changes.sum(axis=1)[:, None]
        add_sets(self.values, rows, self.rows, changes, self.scores)
        self.updates = self.updates + np.maximum(1, steps)

    def _intercepts(self) -> Vector:
        """The intercepts, as `smo` computes one: with weights of 1, the corners on both sides of
        the place that has as many corners below it as there are positive rows."""
        if self.augmented:
            sums: Vector = np.vecdot(self.a, self.y.astype(np.float64))
            return sums
        if not self.free:
            return np.zeros(len(self.a))
        corners = np.sort(self.y - self.scores, axis=1)
        positive = np.count_nonzero(self.y > 0, axis=1)
        every, last = np.arange(len(corners)), corners.shape[1] - 1
        ends = corners[every, positive - 1], corners[every, np.minimum(positive, last)]
        middle: Vector = 0.5 * (ends[0] + ends[1])
        return middle

    def _bounds(self, costs: Vector) -> Vector:
        """The largest D(c α) over 0 ≤ c ≤ 1, from λ/2 ‖f‖²."""
        linear = self.regularization * self.y.shape[1] * self.a.mean(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            factors = np.where(costs > 0.0, np.minimum(1.0, linear / (2.0 * costs)), 1.0)
        bounds: Vector = factors * linear - factors * factors * costs
        return np.where(np.isfinite(bounds), bounds, 0.0)

    def _keep(self, some: Mask) -> None:
        if some.all():
            return
        for name in (
            *("numbers", "rows", "y", "regularization", "sizes", "upper"),
            *("a", "scores", "working", "w", "updates", "best_primal", "dual"),
        ):
            setattr(self, name, getattr(self, name)[some])
