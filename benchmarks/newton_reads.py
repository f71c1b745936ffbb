"""How often `newton` reads the data: rows read to a certified gap, in passes over all rows.

Counted are all rows that a compiled loop reads: scores, sums, Hessians, the sample, and the sums
over all rows at the end. 500,000 × 54 in the shape of the forest cover types.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.problems import cover_like
from svm import Newton
from svm.data.matrices import Indices, Vector
from svm.data.stored_rows import Reader
from svm.problem.passes import Parts
from svm.problem.problem import Problem

GAP = 5e-4
MOST_STEPS = 100


@dataclass(frozen=True, kw_only=True)
class CountedProblem(Problem):
    """A problem that counts the rows read."""

    read: list[int] = field(default_factory=list)

    def parts(self, chosen: slice | Indices, reader: Reader | None = None) -> Parts:
        self.read.append(chosen.stop - chosen.start if isinstance(chosen, slice) else len(chosen))
        return super().parts(chosen, reader)


def passes(X: Vector, y: Vector, C: float, gap: float = GAP) -> float:
    """Until the gap is certified."""
    n = len(y)
    problem = CountedProblem(
        X=X,
        y=y.astype(np.int8),
        regularization=1.0 / (n * C),
        intercept="none",
    )
    solver = Newton(C=C, intercept="none")
    state = solver.start(problem)
    for _ in range(MOST_STEPS):
        state = solver.advance(problem, state)
        if state.best_primal - state.best_dual <= gap * state.best_primal:
            state = solver.renew(problem, state)
            primal, lower = solver.enclosure(problem, state)
            if primal - lower <= gap * primal:
                return sum(problem.read) / n
    raise AssertionError("newton does not get there")


def main(n: int = 500_000, strengths: tuple[float, ...] = (0.01, 1.0, 100.0)) -> dict[float, float]:
    """Print and return the passes by C."""
    X, y = cover_like(n)
    with threadpool_limits(1):
        result = {C: passes(X, y, C) for C in strengths}
    for C, count in result.items():
        print(f"{n:,} × {X.shape[1]}, C = {C:g}: {count:.1f} passes to a gap of {GAP:g}")
    return result


if __name__ == "__main__":
    main()
