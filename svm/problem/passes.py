"""Passes over the rows of a problem: what one is, and the runs of leaves that it is computed for.

A pass is a value: a function with a name, and what it gets beside the rows. So other processes can
compute it. It adds to a sum over the leaves, notes some numbers of each leaf, and makes values of
rows, which later passes read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np

from svm.data.matrices import Floats, Indices, Signs, Vector
from svm.data.shards import Sum, subtree_sum

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
    def joined(cls, parts: Sequence[Chosen]) -> Chosen:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One pass over all rows."""

    function: Callable[..., None]
    """Called as function(run, *given); defined in a module."""
    given: tuple[Any, ...] = ()
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

    def computed(self, units: range, run_of: Callable[[int, int], Run]) -> Sum:
        """The sum over some units of `together` leaves, a whole subtree; `run_of` gives the run of
        the leaves from one number to another."""
        if self.together == 0:
            run = run_of(units.start, units.stop)
            self.function(run, *self.given)
            return run.out

        def of_unit(k: int) -> Sum:
            run = run_of(k * self.together, (k + 1) * self.together)
            self.function(run, *self.given)
            return run.out

        return subtree_sum(of_unit, units)


@dataclass(slots=True, kw_only=True)
class Run:
    """Some neighboring leaves, as a pass gets them."""

    leaf: int
    """Number of the first one. Edges do not tell: leaves can be empty."""
    edges: Indices
    """Positions among the rows of the problem at which they begin, and the end."""
    y: Signs
    """(n_rows,) of this run, as all that follows."""
    weights: Vector
    """Or ones for the rows of the longest leaf, if all weights are 1."""
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

    @property
    def inner(self) -> Indices:
        """The edges within this run."""
        inner: Indices = self.edges - self.edges[0]
        return inner

    @property
    def own_weights(self) -> Vector:
        """(n_rows,), for a run of one leaf."""
        return self.weights[: len(self.y)]


@dataclass(frozen=True, slots=True)
class Passed:
    """What a pass gave."""

    total: Sum
    notes: Floats
    """(n_leaves, …)"""
    made: tuple[RowValues, ...]
    """And the chosen rows last."""


class Cluster(Protocol):
    """Other processes that compute the passes of one problem. No bit depends on them."""

    def compute(self, one: Pass, of: Sequence[RowValues]) -> Passed:
        """Raises Interrupted."""


def scores(run: Run, w: Vector, intercept: float) -> None:
    """Makes ⟨w, xᵢ⟩ + intercept."""
    from svm.loops import products

    for part, operand, rows in run.parts(run.rows):
        products.scores(operand, rows, w, intercept, run.made[0][part])


def combination(run: Run) -> None:
    """Adds cᵢ xᵢ, for the values cᵢ that it reads."""
    from svm.loops.products import add_rows

    for part, operand, rows in run.parts(run.rows):
        add_rows(operand, rows, run.of[0][part], run.out)


def squared_norms(run: Run) -> None:
    """Makes ‖xᵢ‖²."""
    from svm.loops import products

    for part, operand, rows in run.parts(run.rows):
        products.squared_norms(operand, rows, run.made[0][part])
