"""A binary problem: the order of its rows, and its blocks of work."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from svm.problem.problem import (
    BLOCK,
    BLOCK_VALUES,
    BLOCKS_TOGETHER,
    GROUP,
    GROUPED_FROM,
    ROW_COST,
    Problem,
)
from tests.svm.cases.strategies import PROPERTY


def problem(n_samples: int = 3, n_features: int = 2, seed: int = 0, pair: int = 0) -> Problem:
    return Problem(
        X=np.zeros((1, n_features)),
        some_rows=np.zeros(n_samples, dtype=np.int64),
        y=np.ones(n_samples, dtype=np.int8),
        unequal_weights=np.ones(n_samples),
        regularization=1.0,
        intercept="none",
        seed=seed,
        pair=pair,
    )


@PROPERTY
@given(
    n=st.one_of(st.integers(0, 50), st.integers(GROUPED_FROM - 9, GROUPED_FROM + 9)),
    seed=st.integers(0, 2**63 - 1),
    pair=st.integers(0, 5000),
    epoch=st.integers(0, 10**9),
)
def test_permutation_is_one(n: int, seed: int, pair: int, epoch: int) -> None:
    """Every number of 0 … n - 1 once, the same for the same seed, pair and epoch, and another for
    the next epoch; also if groups of neighbors are shuffled and n is not a multiple of their
    size."""
    order = problem(n, seed=seed, pair=pair).permutation(epoch)
    assert sorted(order.tolist()) == list(range(n))
    again = problem(n, seed=seed, pair=pair).permutation(epoch)
    np.testing.assert_array_equal(order, again)
    if n > 20:
        for other in (
            problem(n, seed=seed, pair=pair).permutation(epoch + 1),
            problem(n, seed=(seed + 1) % 2**63, pair=pair).permutation(epoch),
            problem(n, seed=seed, pair=pair + 1).permutation(epoch),
        ):
            assert (order != other).any()


@pytest.mark.parametrize("n", [10_000, 10_001, 10_003])
def test_large_permutations_keep_neighbors_together(n: int) -> None:
    """Groups of neighbors stay in their order, the groups themselves are shuffled."""
    order = problem(n).permutation(0)
    steps = np.diff(order)
    assert (steps == 1).mean() > 1.0 - 1.0 / GROUP - 0.01
    first = order[: len(order) // 2]
    assert 0.45 < (first < n // 2).mean() < 0.55


def test_permutation_of_fewer_rows() -> None:
    """For the rows that a solver has not skipped: as positions among them are permuted."""
    for n in (7, GROUPED_FROM + 2):
        some = 3 * np.arange(n) + 1
        order = problem(100).permutation(3, some)
        np.testing.assert_array_equal(order, some[problem(n).permutation(3)])


def test_random_streams_are_apart() -> None:
    """Draws for different purposes, epochs, pairs and seeds differ."""
    draws = [
        problem(seed=seed, pair=pair).random(epoch, purpose).integers(2**62, size=50)
        for seed in (0, 1)
        for pair in (0, 1)
        for epoch in (0, 1)
        for purpose in ("order", "start")
    ]
    assert len(set(np.concatenate(draws).tolist())) == 50 * len(draws)


@pytest.mark.parametrize(
    ("n_features", "rows"),
    [(1, BLOCK // (1 + ROW_COST)), (1000, BLOCK // (1000 + ROW_COST)), (BLOCK, 1)],
)
def test_blocks_of_dense_rows(n_features: int, rows: int) -> None:
    """A block has as many rows as make BLOCK multiplications, with the cost of fetching a row, and
    at least one."""
    one = Problem(
        X=np.broadcast_to(np.zeros(1), (1, n_features)),
        some_rows=np.zeros(1, dtype=np.int64),
        y=np.ones(1, dtype=np.int8),
        unequal_weights=np.ones(1),
        regularization=1.0,
        intercept="none",
    )
    assert one.block_rows == rows


def test_blocks_of_sparse_rows() -> None:
    """Only stored values count as work."""
    sparse = csr_array((np.ones(10), (np.arange(10), np.zeros(10, dtype=int))), shape=(10, 10**6))
    one = Problem(
        X=sparse,
        some_rows=np.arange(10),
        y=np.ones(10, dtype=np.int8),
        unequal_weights=np.ones(10),
        regularization=1.0,
        intercept="none",
    )
    assert one.block_rows == BLOCK // (1 + ROW_COST)


def test_blocks_cover_the_rows_and_can_be_interrupted() -> None:
    """0 … n in order without gaps, with one call of `interrupted` before each."""
    looks = 0

    def interrupted() -> None:
        nonlocal looks
        looks += 1

    wide = Problem(
        X=np.broadcast_to(np.zeros(1), (1, BLOCK // 10 - ROW_COST)),
        some_rows=np.zeros(25, dtype=np.int64),
        y=np.ones(25, dtype=np.int8),
        unequal_weights=np.ones(25),
        regularization=1.0,
        intercept="none",
        interrupted=interrupted,
    )
    assert list(wide.blocks(25)) == [slice(0, 10), slice(10, 20), slice(20, 25)]
    assert looks == 3
    assert list(wide.blocks(0)) == []


@PROPERTY
@given(
    n=st.integers(1, 300),
    n_features=st.sampled_from([1, 1000, BLOCK_VALUES // 3, 2 * BLOCK_VALUES]),
    epoch=st.integers(0, 10**6),
)
def test_blocks_are_an_order_of_their_own(n: int, n_features: int, epoch: int) -> None:
    """Every row once; neighbors in the order come from at most 16 blocks, and the parts of an epoch
    are its slices."""
    one = problem(n, n_features)
    parts = [drawn for _, _, drawn in one.visits(epoch, "blocks")]
    order = np.concatenate(parts)
    assert sorted(order.tolist()) == list(range(n))
    block = max(1, BLOCK_VALUES // n_features)
    assert all(len(np.unique(part // block)) <= BLOCKS_TOGETHER for part in parts)
    assert all(len(part) <= BLOCKS_TOGETHER * block for part in parts)
    first, last = n // 3, n - n // 4
    some = [drawn for _, _, drawn in one.visits(epoch, "blocks", first, last)]
    np.testing.assert_array_equal(np.concatenate([*some, []]), order[first:last])
    if n > 20:
        assert (np.concatenate([d for _, _, d in one.visits(epoch + 1, "blocks")]) != order).any()
