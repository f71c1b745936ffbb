"""Passes over the rows of a problem: what one is, and the runs of leaves that it is computed for.

A pass is a value: a function with a name, and what it gets beside the rows. So other processes can
compute it. It adds to a sum over the leaves, notes some numbers of each leaf, and makes values of
rows, which later passes read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, TypeAlias

import numpy as np

from svm.data.executors import Executor, R, T
from svm.data.matrices import Floats, Indices, Signs, Vector
from svm.data.shards import Sum, subtree_sum
from svm.problem.losses import shortfalls

Parts: TypeAlias = Iterator[tuple[slice, Any, Indices]]
"""(Slice of the rows that were asked for, operand of compiled loops, row numbers in the operand),
a block of work at a time."""
RowValues: TypeAlias = Any
"""A value of each row, (n_samples,), or some `Chosen` rows; here, or where a pass made them."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Some rows of a problem."""

    rows: Indices
    """Their positions, ascending."""
    values: Vector
    """A number of each."""

    @classmethod
    def join(cls, parts: Sequence[Chosen]) -> Chosen:
        """Those of all parts, which are in the order of the rows."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.values for part in parts]),
        )

    def within(self, rows: slice) -> tuple[Indices, Vector]:
        """Those at the positions of a run."""
        first, last = np.searchsorted(self.rows, (rows.start, rows.stop)).tolist()
        return self.rows[first:last], self.values[first:last]


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass over all rows."""

    function: Callable[..., None]
    """Called as function(run, *given); defined in a module."""
    given: tuple[Any, ...] = ()
    _: KW_ONLY
    size: int = 0
    """Of the sum."""
    notes: int = 0
    """Numbers noted of each leaf."""
    makes: int = 0
    """How many values of rows it makes."""
    over: int | None = None
    """Which of the values that it reads the first values made replace: they begin as these."""
    chooses: bool = False
    """It makes `Chosen` rows."""
    together: int = 1
    """Leaves of a run, a power of two; 0 is any number, for short work on each row: such a pass
    has no sum."""

    def compute(self, units: range, leaves: Leaves) -> tuple[Sum, list[Chosen]]:
        """The sum over some units of `together` leaves, a whole subtree; and the chosen rows."""
        chosen: list[Chosen] = []

        def over_leaves(first: int, last: int) -> Sum:
            run = leaves.run(first, last, np.zeros(self.size))
            self.function(run, *self.given)
            if run.chosen is not None:
                chosen.append(run.chosen)
            return run.out

        if self.together == 0:
            return over_leaves(units.start, units.stop), chosen
        k = self.together
        return subtree_sum(lambda unit: over_leaves(unit * k, (unit + 1) * k), units), chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaves:
    """Neighboring leaves in one process, which a pass cuts into runs."""

    leaf: int
    """Number of the first one."""
    edges: Indices
    """Positions among the rows of the problem at which they begin, and the end."""
    y: Signs
    """(n_rows,), as all that follows."""
    margins: Vector | None
    """None if all are 1."""
    weights: Vector | None
    """None if all are equal."""
    equal_weights: Vector
    """As many as the longest leaf has rows: its weights, if all are equal."""
    of: Sequence[RowValues]
    made: Sequence[Vector]
    notes: Floats
    """(n_leaves, …)"""
    parts: Callable[[slice | Indices], Parts]

    def run(self, first: int, last: int, out: Sum) -> Run:
        """The leaves from one number to another, or to the end."""
        leaves = slice(first - self.leaf, min(last - self.leaf, len(self.edges) - 1))
        edges, begin = self.edges[leaves.start : leaves.stop + 1], int(self.edges[0])
        rows = slice(int(edges[0]) - begin, int(edges[-1]) - begin)
        return Run(
            leaf=first,
            edges=edges,
            y=self.y[rows],
            margins=None if self.margins is None else self.margins[rows],
            weights=self.equal_weights if self.weights is None else self.weights[rows],
            of=tuple(v if isinstance(v, Chosen) else v[rows] for v in self.of),
            out=out,
            notes=self.notes[leaves],
            made=tuple(values[rows] for values in self.made),
            parts=self.parts,
        )


@dataclass(slots=True, kw_only=True)
class Run:
    """Some neighboring leaves, as a pass gets them."""

    leaf: int
    """Number of the first one. Edges do not tell: leaves can be empty."""
    edges: Indices
    """Positions among the rows of the problem at which they begin, and the end."""
    y: Signs
    """(n_rows,) of this run, as all that follows."""
    margins: Vector | None
    """None if all are 1."""
    weights: Vector
    """Or those of the longest leaf, if all weights are equal."""
    of: tuple[RowValues, ...]
    """What the pass reads; `Chosen` rows can be more than those of this run."""
    out: Sum
    """To be added to."""
    notes: Floats
    """(n_leaves, …) to be written."""
    made: tuple[Vector, ...]
    """(n_rows,) each, to be written."""
    parts: Callable[[slice | Indices], Parts]
    """The rows of X at some positions, as `Problem.parts`, read into memory of this run."""
    chosen: Chosen | None = field(default=None)
    """To be set."""

    @property
    def rows(self) -> slice:
        """Positions among the rows of the problem."""
        return slice(int(self.edges[0]), int(self.edges[-1]))

    def margins_of(self, rows: slice | Indices) -> Vector | None:
        """Those of the rows at some positions in this run."""
        return None if self.margins is None else self.margins[rows]

    def shortfalls(self, rows: slice, scores: Vector) -> Vector:
        """qᵢ - yᵢ fᵢ of some rows of this run, whose scores are given."""
        return shortfalls(self.y[rows], self.margins_of(rows), scores)

    @property
    def inner(self) -> Indices:
        """The edges within this run."""
        inner: Indices = self.edges - self.edges[0]
        return inner

    def weights_of(self, rows: slice | Indices) -> Vector:
        """The weights of the rows at some positions in this run."""
        weights: Vector
        if len(self.weights) == len(self.y):
            weights = self.weights[rows]
            return weights
        n = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        weights = self.weights[:n] if n <= len(self.weights) else np.full(n, self.weights[0])
        return weights


@dataclass(frozen=True, slots=True)
class Passed:
    """What a pass gave."""

    total: Sum
    notes: Floats
    """(n_leaves, …)"""
    made: tuple[RowValues, ...]
    """And the chosen rows last."""


class Cluster(ABC):
    """An executor whose passes other processes compute. The rest is for the executor of this
    process, `here`, which it replaces. No bit depends on it."""

    def __init__(self, here: Executor) -> None:
        self.here = here

    @property
    def threads(self) -> int:
        return self.here.threads

    def map(self, function: Callable[[T], R], parts: Sequence[T]) -> list[R]:
        return self.here.map(function, parts)

    @abstractmethod
    def compute(self, one: Pass, of: Sequence[RowValues]) -> Passed:
        """Raises Interrupted."""


def scores(run: Run, w: Vector, intercept: float) -> None:
    """Makes ⟨w, xᵢ⟩ + intercept."""
    from svm.loops import row_operations as products

    for part, operand, rows in run.parts(run.rows):
        scores = run.made[0][part]
        if run.margins is None:
            products.scores(operand, rows, w, intercept, scores)
        else:  # the same for both sides of a row
            products.scores_of_sides(operand, rows, w, intercept, scores)


def combination(run: Run) -> None:
    """Adds cᵢ xᵢ, for the values cᵢ that it reads."""
    from svm.loops.row_operations import add_rows

    for part, operand, rows in run.parts(run.rows):
        add_rows(operand, rows, run.of[0][part], run.out)


def squared_norms(run: Run) -> None:
    """Makes ‖xᵢ‖²."""
    from svm.loops import row_operations as products

    for part, operand, rows in run.parts(run.rows):
        products.squared_norms(operand, rows, run.made[0][part])
