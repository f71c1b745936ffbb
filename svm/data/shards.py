"""Shards: runs of neighboring rows, over which every sum is taken, and the order of their sum.

Where shards begin is a function of the rows, features and stored values of the whole matrix. Their
sums are added in a fixed binary tree: shards 2k and 2k + 1 first, then those sums in the same way.
So the bits of a sum do not depend on who computes which shards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from svm.data.matrices import Indices, Vector, cuts
from svm.data.stored_rows import PIECE_VALUES, Rows, is_csr, row_sizes

SHARD_VALUES = PIECE_VALUES
"""Values of a shard: about 0.3 ms of one product each …"""
VALUES_TO_FEATURE = 128
"""… and at least this many for each feature: the sum of a shard has some numbers for each."""
RUNS_TO_THREAD = 4
"""Runs of shards for each thread, so that all threads end at about the same time."""

Sum: TypeAlias = Vector
"""A C-contiguous array, which is what shards are summed in."""


def shard_edges(X: Rows) -> Indices:
    """The rows at which the shards of X begin, and the number of rows at the end."""
    n, d = X.shape
    if n == 0:
        return np.zeros(2, dtype=np.int64)
    sizes = row_sizes(X, np.arange(n)) if is_csr(X) else d
    return cuts(sizes, n, _values_of_shard(d))


def expected_shards(n: int, d: int, values: int) -> int:
    """How many shards n rows with d features and this number of stored values have: exact if all
    rows have as many."""
    return -(-n // max(1, _values_of_shard(d) * n // max(1, values)))


def _values_of_shard(d: int) -> int:
    return max(SHARD_VALUES, VALUES_TO_FEATURE * d)


def leaf_edges(X: Rows, rows: Indices | None) -> Indices:
    """The positions among `rows` of X (ascending; None for all) at which their leaves begin, and
    their number at the end.

    A leaf is a shard; or, if the rows are at most half of those of X, the 2, 4, 8, … shards that
    are added first, so that it has about as many rows as a shard of X.
    """
    edges = shard_edges(X)
    if rows is None:
        return edges
    together = 1 << max(0, (X.shape[0] // max(1, len(rows))).bit_length() - 1)
    return np.searchsorted(rows, np.append(edges[:-1:together], edges[-1]))


def subtrees(n: int, threads: int) -> list[range]:
    """0 … n - 1 in runs that are whole subtrees: a single one for one thread, several for each of
    more threads."""
    if threads == 1 or n == 1:
        return [range(n)]
    size = 1 << (n - 1).bit_length()
    while size > 1 and -(-n // size) < RUNS_TO_THREAD * threads:
        size //= 2
    return [range(start, min(n, start + size)) for start in range(0, n, size)]


def subtree_sum(of_leaf: Callable[[int], Sum], run: range) -> Sum:
    """The sum of a run that is a whole subtree. `of_leaf` returns new arrays."""
    if len(run) == 1:
        return of_leaf(run[0])
    half = 1 << (len(run) - 1).bit_length() - 1
    total = subtree_sum(of_leaf, run[:half])
    total += subtree_sum(of_leaf, run[half:])
    return total


def tree_sum(sums: Any) -> Sum:
    """The sum of those of all leaves, or of all runs of one size: along the first axis."""
    totals = sums
    while len(totals) > 1:
        pairs = zip(totals[::2], totals[1::2], strict=False)
        totals = [*(one + other for one, other in pairs), *totals[len(totals) & ~1 :]]
    total: Sum = totals[0]
    return total
