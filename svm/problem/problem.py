"""One problem: the rows, their signs ±1 and margins, and λ. Every solver solves such a problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np

from svm.data import stored_rows
from svm.data.executors import IN_THIS_THREAD, Executor
from svm.data.matrices import Floats, Indices, Matrix, Signs, Vector, cuts
from svm.data.randomness import generator
from svm.data.shards import Sum, leaf_edges, subtrees, tree_sum
from svm.data.stored_rows import Reader, Rows, StoredRows
from svm.hyperparameters import Intercept
from svm.kernel.kernel_rows import KernelRows
from svm.kernel.kernels import LINEAR, AnyKernel
from svm.problem import passes
from svm.problem.losses import HINGE, Loss, shortfalls
from svm.problem.passes import Chosen, Cluster, Leaves, Parts, Pass, Passed, RowValues
from svm.stopping import CostChange


@dataclass(frozen=True, slots=True)
class LinearClassifier:
    """f(x) = ⟨coefficients, x⟩ + intercept; positive means the positive class."""

    coefficients: Vector
    """(n_features,)"""
    intercept: float


@dataclass(frozen=True, slots=True)
class KernelClassifier:
    """f(x) = Σⱼ coefficientsⱼ k(xⱼ, x) + intercept, over the support vectors xⱼ."""

    support: Indices
    """(n_support,) rows of the problem, ascending."""
    coefficients: Vector
    """(n_support,) αⱼ yⱼ/(λn)"""
    intercept: float


Classifier: TypeAlias = LinearClassifier | KernelClassifier


BLOCK = 1 << 25
"""Multiplications between two calls of `interrupted`: some 20 ms of work, or 0.1 s if the rows are
far apart in memory."""
ROW_COST = 64
"""Cost of fetching a row from memory in random order, in multiplications."""

OrderInMemory = Literal["each-epoch", "shuffled-once", "given", "uniform"]
"""Every row once per epoch: in a new order each epoch, in one random order, or in the data's order;
or independent draws."""
Order = Literal[OrderInMemory, "blocks"]
"""Also: every row once, some blocks of neighbors at a time."""

BLOCK_VALUES = 1 << 16
"""Values of a block of neighbors: 512 KiB, which a disk reads as fast as longer stretches."""
BLOCKS_TOGETHER = 16
"""Blocks whose rows are shuffled together: 8 MiB, which the processor's cache holds."""

OVER_RELAXATION = 1.5
"""Length of a step in one αᵢ relative to the step to the minimum: 0.7 of the epochs on sparse
data."""

RUN = 256
"""Neighbors that a sample takes together: files are read in runs of rows."""

GROUP = 4
GROUPED_FROM = 4096


def _never() -> None:
    pass


def distinct(rows: Indices) -> tuple[Indices, Indices]:
    """Ascending row numbers, each once, and the place of each of `rows` among them."""
    first = np.diff(rows, prepend=-1) > 0
    if first.all():
        return rows, np.arange(len(rows))
    return rows[first], np.cumsum(first) - 1


def operand_of(X: Any) -> Any:
    """X as an operand of compiled loops: an array, or (data, indices, indptr) of a CSR matrix.

    The indices become unsigned: compiled code tests each signed index for being negative, which
    halves its speed.
    """
    if isinstance(X, np.ndarray):
        return X
    data, *indices = X if isinstance(X, tuple) else (X.data, X.indices, X.indptr)
    return data, *(some.view(f"u{some.itemsize}") for some in indices)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Some rows of X with labels ±1; for the conventions see `svm.problem.objectives`.

    A pair of a multiclass problem shares X with the others and holds only its row numbers, so
    that K (K - 1) / 2 pairs side by side need no copy of the data. With numeric targets each row is
    there twice, one side after the other (`svm.problem.losses`): "rows" are sides then.
    """

    X: Rows
    """In memory or in files: the methods of this class read both."""
    some_rows: Indices | None = None
    """(n_samples,) row numbers in X, ascending, of two sides equal ones; None for all."""
    y: Signs
    """(n_samples,) labels, -1 or +1."""
    margins: Vector | None = None
    """(n_samples,) qᵢ: the loss is that of the shortfall qᵢ - yᵢ f(xᵢ); None if all are 1."""
    unequal_weights: Vector | None = None
    """(n_samples,) weight sᵢ > 0 of each loss; None if all are `equal_weight`."""
    loss: Loss = HINGE
    regularization: float
    """λ > 0."""
    intercept: Intercept
    seed: int = 0
    pair: int = 0
    """Number of the binary problem in its multiclass problem; part of the random stream."""
    kernel: AnyKernel | None = None
    """Replaces the inner product ⟨xᵢ, xⱼ⟩; fitted to the data."""
    shared_kernel_rows: KernelRows | None = None
    """Shared by all problems of a training."""
    shared_norms: Vector | None = None
    """‖x‖² of all rows of X, if known."""
    executor: Executor = IN_THIS_THREAD
    """Computes passes over the rows, in this process or in a `Cluster`; no bit depends on it."""
    cost_change: CostChange | None = None
    """For solvers that test it after every update."""
    max_updates: int | None = None
    """Count of updates at which an `advance` ends, even within an epoch."""
    interrupted: Callable[[], None] = _never
    """Raises `Interrupted` when the work should stop; solvers call it between blocks."""
    alike: Problem | None = None
    """One that differs in labels alone, and has what both can share."""

    @property
    def n_samples(self) -> int:
        return len(self.y)

    @cached_property
    def rows(self) -> Indices:
        """(n_samples,) row numbers in X, ascending, for loops that visit rows in any order."""
        return np.arange(self.n_samples) if self.some_rows is None else self.some_rows

    @cached_property
    def weights(self) -> Vector:
        """(n_samples,) weight sᵢ > 0 of each loss."""
        if self.unequal_weights is not None:
            return self.unequal_weights
        return np.full(self.n_samples, self.equal_weight)

    @property
    def equal_weight(self) -> float:
        """1; or 2 of a side of a row, as P is a mean over sides, of which each row has two."""
        return float(self.loss.n_sides)

    @property
    def n_rows(self) -> int:
        """Rows, those with two sides counted once."""
        return self.n_samples // self.loss.n_sides

    @cached_property
    def upper(self) -> Vector:
        """(n_samples,) the largest feasible αᵢ."""
        return self.loss.upper(self.weights)

    @cached_property
    def ridge(self) -> Vector | None:
        """(n_samples,) what a squared loss adds to the curvature of -n D in αᵢ; None if nothing."""
        return self.loss.ridge(self.weights)

    @cached_property
    def steps(self) -> Vector:
        """(n_samples,) the step in αᵢ for a derivative of -n D of 1, over-relaxed."""
        if self.alike is not None:
            return self.alike.steps
        scale = 1.0 / (self.regularization * self.n_samples)
        curvature = scale * (self.squared_norms + (1.0 if self.intercept == "augmented" else 0.0))
        if self.ridge is not None:
            curvature += self.ridge
        # A row of zeros without a constant feature: its αᵢ goes to sᵢ at once, with any step.
        steps: Vector = OVER_RELAXATION / np.maximum(curvature, 1e-300, out=curvature)
        return steps

    @cached_property
    def zeros(self) -> Vector:
        """(n_features,) the weights that trainings start from; never changed in place."""
        return np.zeros(self.n_features)

    def share(self, other: Problem) -> None:
        """Take the arrays that do not depend on labels from a problem of the same rows, weights and
        loss: of a class against the rest there are as many problems as classes."""
        names = ("rows", "weights", "upper", "ridge", "zeros")
        self.__dict__.update({name: getattr(other, name) for name in names})
        self.__dict__["alike"] = other

    @cached_property
    def corners(self) -> Signs | Vector:
        """(n_samples,) yᵢ qᵢ: the scores at which the shortfalls end."""
        return self.y if self.margins is None else self.y * self.margins

    def shortfalls(self, scores: Vector) -> Vector:
        """qᵢ - yᵢ fᵢ, (n_samples,)."""
        return shortfalls(self.y, self.margins, scores)

    @cached_property
    def _equal_weights(self) -> Vector:
        """Equal weights, as many as the longest leaf has rows."""
        return np.full(int(np.diff(self.leaves).max()), self.equal_weight)

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of X."""
        return self.X.dtype

    @property
    def sparse(self) -> bool:
        return stored_rows.is_csr(self.X)

    @property
    def matrix(self) -> Matrix:
        """X in memory, for solvers that do not stream."""
        assert not isinstance(self.X, StoredRows)
        return self.X

    @property
    def cluster(self) -> Cluster | None:
        """The other processes that compute passes, which then keep the values of rows."""
        return self.executor if isinstance(self.executor, Cluster) else None

    @property
    def unlimited(self) -> Problem:
        """This problem, for another solver than the one whose updates are limited."""
        return self if self.max_updates is None else self._unlimited

    @cached_property
    def _unlimited(self) -> Problem:
        # Not itself: a problem that refers to itself stays in memory until the collector runs.
        return replace(self, max_updates=None)

    @cached_property
    def kernel_rows(self) -> KernelRows:
        """Rows of the matrix of kernel values, or without a kernel of inner products."""
        if self.shared_kernel_rows is not None:
            return self.shared_kernel_rows
        others = np.ones(self.X.shape[0], dtype=np.int64)
        others[self.rows] = 0
        return KernelRows(self.matrix, self.kernel or LINEAR, others)

    @cached_property
    def kernel_groups(self) -> list[tuple[int, Indices]]:
        """The groups of `kernel_rows` in this problem, and its rows in each; with two sides of each
        row first one side of all."""
        rows, places = distinct(self.rows)
        groups = self.kernel_rows.groups_of(rows)
        sides = len(places) // max(1, len(rows))
        return [(group, sides * some + side) for group, some in groups for side in range(sides)]

    @cached_property
    def operand(self) -> Any:
        """X as an operand of compiled loops."""
        return operand_of(self.matrix)

    @cached_property
    def block_rows(self) -> int:
        """Rows in one block of work."""
        n: int = self.X.shape[0]
        return max(1, BLOCK * n // max(1, stored_rows.stored_values(self.X) + ROW_COST * n))

    def blocks(self, n: int) -> Iterator[slice]:
        """0 … n in slices of `block_rows`, calling `interrupted` before each."""
        for start in range(0, n, self.block_rows):
            self.interrupted()
            yield slice(start, min(n, start + self.block_rows))

    def parts(self, chosen: slice | Indices, reader: Reader | None = None) -> Parts:
        """The rows at some positions (ascending), a block of work at a time; see `Parts`."""
        start, stop = (chosen.start, chosen.stop) if isinstance(chosen, slice) else (0, len(chosen))
        if not isinstance(self.X, StoredRows):
            for part in self.blocks(stop - start):
                yield part, self.operand, self._numbers(chosen, part)
            return
        reader = Reader(self.X) if reader is None else reader
        rows = self._numbers(chosen, slice(0, stop - start))
        for first, last in pairwise(cuts(self.X.sizes(rows), len(rows), stored_rows.PIECE_VALUES)):
            self.interrupted()
            different, numbers = distinct(rows[first:last])
            yield slice(first, last), operand_of(reader.read(different)), numbers

    def _numbers(self, chosen: slice | Indices, part: slice) -> Indices:
        """Row numbers in X of a part of the rows at some positions."""
        if not isinstance(chosen, slice):
            return chosen[part] if self.some_rows is None else self.some_rows[chosen[part]]
        first, last = chosen.start + part.start, chosen.start + part.stop
        return np.arange(first, last) if self.some_rows is None else self.some_rows[first:last]

    @cached_property
    def leaves(self) -> Indices:
        """Positions of the rows at which the leaves of all sums begin, and their number."""
        return leaf_edges(self.X, self.some_rows)

    def compute(self, one: Pass, of: Sequence[RowValues] = ()) -> Passed:
        """One pass over all rows, in the fixed tree; `of` are the values of rows that it reads."""
        if self.cluster is not None:
            return self.cluster.compute(one, of)
        if one.together == 0:
            self.interrupted()
        edges = self.leaves
        n = len(edges) - 1
        noted = np.empty((n, one.notes))
        made: tuple[RowValues, ...] = () if one.over is None else (of[one.over],)
        made += tuple(np.empty(self.n_samples) for _ in range(one.makes - len(made)))

        def of_run(units: range) -> tuple[Sum, list[Chosen]]:
            reader = Reader(self.X) if isinstance(self.X, StoredRows) else None
            leaves = Leaves(
                leaf=0,
                edges=edges,
                y=self.y,
                margins=self.margins,
                weights=self.unequal_weights,
                equal_weights=self._equal_weights,
                of=of,
                made=made,
                notes=noted,
                parts=partial(self.parts, reader=reader),
            )
            return one.compute(units, leaves)

        every = subtrees(-(-n // max(1, one.together)), self.executor.threads)
        results = self.executor.map(of_run, every)
        total = tree_sum([total for total, _ in results])
        if not one.chooses:
            return Passed(total, noted, made)
        chosen = Chosen.join([part for _, parts in results for part in parts])
        return Passed(total, noted, (*made, chosen))

    def sample(self, share: int) -> Problem:
        """The problem with the same λ on every `share`-th run of `RUN` neighbors, in memory."""
        kept = (np.arange(0, self.n_samples, RUN * share)[:, None] + np.arange(RUN)).ravel()
        return self.on(kept[kept < self.n_samples])

    def on(self, kept: Indices) -> Problem:
        """The problem with the same λ on the rows at some positions, ascending, in memory."""
        weights, margins = self.unequal_weights, self.margins
        weights = None if weights is None else weights[kept]
        margins = None if margins is None else margins[kept]
        return self.with_rows(self.rows_at(kept), None, self.y[kept], margins, weights)

    def with_rows(
        self,
        X: Rows,
        some_rows: Indices | None,
        y: Signs,
        margins: Vector | None = None,
        weights: Vector | None = None,
    ) -> Problem:
        """The problem with the same λ on other rows, for this process."""
        return replace(
            self,
            X=X,
            some_rows=some_rows,
            y=y,
            margins=margins,
            unequal_weights=weights,
            shared_norms=None,
            executor=self.executor if self.cluster is None else self.cluster.here,
        )

    def rows_at(self, positions: Indices) -> Matrix:
        """The rows at some positions, in memory; ascending if they are in files."""
        numbers = self._numbers(positions, slice(0, len(positions)))
        if not isinstance(self.X, StoredRows):
            return self.X[numbers]
        different, places = distinct(numbers)
        rows = self.X.read(different)
        return rows if len(different) == len(places) else rows[places]

    def scores(self, w: Floats, intercept: float = 0.0) -> Vector:
        """⟨w, xᵢ⟩ + intercept for every row: (n_samples,), summed in float64."""
        w = np.ascontiguousarray(w, dtype=np.float64)
        if len(w) != self.n_features:  # compiled code would read beyond the end
            raise ValueError(f"expected {self.n_features} weights, got {len(w)}")
        scores: Vector = self.compute(Pass(passes.scores, (w, float(intercept)), makes=1)).made[0]
        return scores

    def combination(self, coefficients: Vector) -> Vector:
        """Σᵢ coefficientsᵢ xᵢ: (n_features,), in float64; rows with coefficient 0 cost nothing."""
        return self.compute(Pass(passes.combination, size=self.n_features), [coefficients]).total

    @cached_property
    def squared_norms(self) -> Vector:
        """‖xᵢ‖² of every row: (n_samples,); without the constant feature."""
        if self.shared_norms is not None:
            return self.shared_norms if self.some_rows is None else self.shared_norms[self.rows]
        norms: Vector = self.compute(Pass(passes.squared_norms, makes=1)).made[0]
        return norms

    def random(
        self, epoch: int, purpose: Literal["order", "start"] = "order"
    ) -> np.random.Generator:
        """The generator of one epoch: a function of (seed, pair, epoch)."""
        return generator(purpose, self.seed, self.pair, epoch)

    def updates_left(self, done: int, most: int) -> int:
        """How many updates an `advance` makes after `done` ones, if it is to make `most`."""
        return most if self.max_updates is None else min(most, self.max_updates - done)

    def order(self, epoch: int, order: OrderInMemory) -> Indices:
        """The n_samples rows that one epoch visits."""
        match order:
            case "each-epoch":
                return self.permutation(epoch)
            case "shuffled-once":
                return self.permutation(0)
            case "given":
                return np.arange(self.n_samples)
            case "uniform":
                return self.random(epoch).integers(self.n_samples, size=self.n_samples)

    def visits(
        self, epoch: int, order: Order, first: int = 0, last: int | None = None
    ) -> Iterator[tuple[Any, Indices, Indices]]:
        """The visits `first` … `last` - 1 of an epoch, a block of work at a time.

        Yields (operand of compiled loops, `numbers`, rows drawn): row i of the problem, for every i
        drawn, is row `numbers[i]` of the operand.
        """
        last = self.n_samples if last is None else last
        match order:
            case "each-epoch" | "shuffled-once" | "uniform":
                drawn = self.order(epoch, order)[first:last]
                for part in self.blocks(len(drawn)):
                    yield self.operand, self.rows, drawn[part]
                return
        stop = 0
        reader = Reader(self.X) if isinstance(self.X, StoredRows) else None
        numbers = np.empty(self.n_samples if reader else 0, dtype=np.int64)
        for runs, drawn in self._neighborhoods(epoch, order):
            start, stop = stop, stop + len(drawn)
            if stop <= first or start >= last:
                continue
            self.interrupted()
            some = drawn[max(0, first - start) : last - start]
            if reader is None:
                yield self.operand, self.rows, some
                continue
            parts, read = [distinct(self.rows[run]) for run in runs], 0
            operand = operand_of(reader.read(*(different for different, _ in parts)))
            for run, (different, places) in zip(runs, parts, strict=True):
                numbers[run] = places + read
                read += len(different)
            yield operand, numbers, some

    def _neighborhoods(
        self, epoch: int, order: Literal["blocks", "given"]
    ) -> Iterator[tuple[list[Indices], Indices]]:
        """(rows to read, each run ascending; the same rows in the order of their updates).

        A function of the problem's rows and their sizes; the same in memory and in files.
        """
        everything = np.arange(self.n_samples)
        if order == "given":
            for start, stop in pairwise(self._piece_edges):
                yield [everything[start:stop]], everything[start:stop]
            return
        random = self.random(epoch)
        edges = cuts(stored_rows.row_sizes(self.X, self.rows), len(everything), BLOCK_VALUES)
        blocks = random.permutation(len(edges) - 1)
        for first in range(0, len(blocks), BLOCKS_TOGETHER):
            together = blocks[first : first + BLOCKS_TOGETHER]
            runs = [everything[edges[k] : edges[k + 1]] for k in together]
            yield runs, random.permutation(np.concatenate(runs))

    @cached_property
    def _piece_edges(self) -> list[int]:
        """Where the rows in the order of the data are cut."""
        edges: list[int] = cuts(
            stored_rows.row_sizes(self.X, self.rows), self.n_samples, stored_rows.PIECE_VALUES
        ).tolist()
        return edges

    def permutation(self, epoch: int, items: Indices | None = None) -> Indices:
        """The items in the order of one epoch; default 0 … n_samples - 1.

        From `GROUPED_FROM` items on it shuffles groups of neighbors (`docs/decisions`): fetching
        single rows in random order takes two to three times as long.
        """
        from svm.loops.row_operations import in_groups

        items = np.arange(self.n_samples) if items is None else items
        size = GROUP if len(items) >= GROUPED_FROM else 1
        groups, order = self.random(epoch).permutation(-(-len(items) // size)), np.empty_like(items)
        in_groups(items, groups, size, order)
        return order
