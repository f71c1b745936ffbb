"""One binary problem: the rows, their labels ±1, and λ. The unit that every solver works on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from svm.hyperparameters import Intercept
from svm.kernels import AnyKernel
from svm.matrices import Floats, Indices, Matrix, Vector, is_sparse, stored_values
from svm.randomness import generator
from svm.stopping import CostChange

BLOCK = 1 << 25
"""Multiplications between two looks at `interrupted`: some 20 ms of work."""

Sampling = Literal["permuted", "uniform"]
"""Every row once an epoch, in a new order; or independent draws."""

GROUP = 4
GROUPED_FROM = 4096


def _never() -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Rows `rows` of X with labels ±1; objective and conventions stand in `svm.objectives`.

    A pair of a multiclass problem shares X with the others and holds only its row numbers, so
    that K (K - 1) / 2 pairs side by side need no copy of the data.
    """

    X: Matrix
    rows: Indices
    """(n_samples,) row numbers in X, ascending."""
    y: Vector
    """(n_samples,) labels, -1 or +1."""
    weights: Vector
    """(n_samples,) weight sᵢ > 0 of each hinge loss, 1 by default."""
    regularization: float
    """λ > 0."""
    intercept: Intercept
    seed: int = 0
    pair: int = 0
    """Number of the binary problem in its multiclass problem; part of the random stream."""
    kernel: AnyKernel | None = None
    """Takes the place of the inner product ⟨xᵢ, xⱼ⟩; learnt from the data where it must be."""
    cost_change: CostChange | None = None
    """For the solver that tests it after every update."""
    interrupted: Callable[[], None] = _never
    """Raises `Interrupted` when the work should stop; solvers call it between blocks."""

    @property
    def n_samples(self) -> int:
        return len(self.rows)

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    @cached_property
    def operand(self) -> Any:
        """X as the compiled loops take it: the array, or (data, indices, indptr)."""
        return (self.X.data, self.X.indices, self.X.indptr) if is_sparse(self.X) else self.X

    @cached_property
    def block_rows(self) -> int:
        """Rows that make up one block of work."""
        n: int = self.X.shape[0]
        return max(1, BLOCK * n // max(1, stored_values(self.X)))

    def blocks(self, n: int) -> Iterator[slice]:
        """0 … n in slices of `block_rows`, looking at `interrupted` before each."""
        for start in range(0, n, self.block_rows):
            self.interrupted()
            yield slice(start, min(n, start + self.block_rows))

    def scores(self, w: Floats, intercept: float = 0.0) -> Vector:
        """⟨w, xᵢ⟩ + intercept for every row: (n_samples,), summed in float64."""
        from svm.loops.products import scores

        out = np.empty(self.n_samples)
        w = np.ascontiguousarray(w, dtype=np.float64)
        if len(w) != self.n_features:  # compiled code would read what lies behind
            raise ValueError(f"expected {self.n_features} weights, got {len(w)}")
        for part in self.blocks(self.n_samples):
            scores(self.operand, self.rows[part], w, float(intercept), out[part])
        return out

    def combination(self, coefficients: Vector) -> Vector:
        """Σᵢ coefficientsᵢ xᵢ: (n_features,), in float64; rows with coefficient 0 cost nothing."""
        from svm.loops.products import add_rows

        out = np.zeros(self.n_features)
        for part in self.blocks(self.n_samples):
            add_rows(self.operand, self.rows[part], coefficients[part], out)
        return out

    @cached_property
    def squared_norms(self) -> Vector:
        """‖xᵢ‖² of every row: (n_samples,); without the constant feature."""
        from svm.loops.products import squared_norms

        out = np.empty(self.n_samples)
        for part in self.blocks(self.n_samples):
            squared_norms(self.operand, self.rows[part], out[part])
        return out

    def random(
        self, epoch: int, purpose: Literal["order", "start"] = "order"
    ) -> np.random.Generator:
        """The generator of one epoch: a function of (seed, pair, epoch)."""
        return generator(purpose, self.seed, self.pair, epoch)

    def order(self, epoch: int, sampling: Sampling) -> Indices:
        """The rows that one epoch of n_samples updates draws."""
        if sampling == "permuted":
            return self.permutation(epoch)
        return self.random(epoch).integers(self.n_samples, size=self.n_samples)

    def permutation(self, epoch: int, n: int | None = None) -> Indices:
        """The order of one epoch: a permutation of 0 … n - 1 (default n_samples).

        From `GROUPED_FROM` rows on it shuffles groups of neighbors (`docs/decisions`): single rows
        in random order take memory two to three times as long.
        """
        n = self.n_samples if n is None else n
        if n < GROUPED_FROM:
            return self.random(epoch).permutation(n)
        groups = self.random(epoch).permutation(-(-n // GROUP))
        order: Indices = (groups[:, None] * GROUP + np.arange(GROUP)).ravel()
        return order[order < n] if n % GROUP else order
