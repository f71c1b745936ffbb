"""Shards: where they begin, and the fixed tree in which their sums are added."""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from svm.data.executors import IN_THIS_THREAD, executor_of
from svm.data.shards import SHARD_VALUES, leaf_edges, shard_edges, subtree_sum, subtrees, tree_sum
from svm.model.pipeline import Pipeline
from svm.solvers import GradientDescent, Newton
from svm.stopping import CostChange, Stopping
from tests.svm.cases.stored import stored
from tests.svm.cases.trainings import bits, train


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13, 191])
@pytest.mark.parametrize("threads", [1, 2, 3, 7, 50])
def test_sums_do_not_depend_on_the_runs(n: int, threads: int) -> None:
    """Every run is a whole subtree, so that all numbers of threads add in the same order."""
    random = np.random.default_rng(n)
    values = random.normal(size=(n, 3)) * 10.0 ** random.integers(-8, 8, size=(n, 1))
    runs = subtrees(n, threads)
    assert [k for run in runs for k in run] == list(range(n))
    assert len(runs) >= min(n, 4 * threads) / 2 or threads == 1
    total = tree_sum([subtree_sum(lambda k: values[k].copy(), run) for run in runs])
    np.testing.assert_array_equal(total, tree_sum(values))
    np.testing.assert_allclose(total, values.sum(axis=0), rtol=1e-9, atol=1e-6)


def test_tree_adds_neighbors_first() -> None:
    """((0 + 1) + (2 + 3)) + 4, where another order gives other bits."""
    values = np.array([[1.0], [1e16], [-1e16], [1.0], [1.0]])
    a, b, c, d, e = values[:, 0].tolist()
    assert tree_sum(values).tolist() == [((a + b) + (c + d)) + e]
    assert ((a + b) + (c + d)) + e != (((a + b) + c) + d) + e


def test_shards_have_about_as_many_values() -> None:
    """Dense and sparse; the rows of a problem have leaves of several shards if they are few."""
    X = np.empty((300_000, 30))
    edges = shard_edges(X)
    assert np.diff(edges).max() * 30 <= SHARD_VALUES
    np.testing.assert_array_equal(leaf_edges(X, None), edges)
    fifth = leaf_edges(X, np.arange(0, 300_000, 5))
    np.testing.assert_array_equal(fifth, [*(-(-edges[:-1:4] // 5)), 60_000])
    sparse = csr_array(([1.0] * 3, [0, 1, 0], [0, 0, 2, 3]), shape=(3, 2))
    np.testing.assert_array_equal(shard_edges(sparse), [0, 3])
    np.testing.assert_array_equal(shard_edges(np.empty((0, 2))), [0, 0])


def test_threads_raise_what_a_part_raises() -> None:
    """After the parts that have begun have ended; NumPy's settings are those of the caller."""
    running = set()

    def work(part: int) -> float:
        running.add(part)
        try:
            if part == 2:
                raise ValueError("part 2")
            return float(np.float64(1.0) / np.float64(part))
        finally:
            running.remove(part)

    with np.errstate(divide="raise"), pytest.raises((ValueError, FloatingPointError)):
        executor_of(3).map(work, range(8))
    assert not running
    with np.errstate(divide="ignore"):
        for executor in (IN_THIS_THREAD, executor_of(2)):
            assert executor.map(work, [0, 1]) == [np.inf, 1.0]


def test_number_of_threads_may_change_before_each_pass() -> None:
    wanted = iter([1, 3, 2])
    executor = executor_of(lambda: next(wanted))
    barrier = threading.Barrier(3)
    assert executor.map(str, [1, 2]) == ["1", "2"]
    assert sorted(executor.map(lambda _: barrier.wait(10), range(3))) == [0, 1, 2]
    assert executor.map(str, [3, 4]) == ["3", "4"]


@cache
def large(sparse: bool) -> tuple[Any, Any]:
    """Seven shards or more; the classes overlap."""
    random = np.random.default_rng(0)
    if sparse:
        rows, own, columns = 400_000, 18, 90
        first = random.integers(0, columns // own, size=(rows, 1))
        indices = (first + np.arange(0, columns, columns // own)).astype(np.int32)
        edges = np.arange(rows + 1, dtype=np.int32) * own
        parts = random.normal(size=indices.size), indices.ravel(), edges
        X = csr_array(parts, shape=(rows, columns))
        return X, X @ random.normal(size=columns) + random.normal(size=rows) > 0.0
    dense = random.normal(size=(120_000, 60))
    return dense, dense[:, 0] + random.normal(size=120_000) > 0.0


SOLVERS = [
    (Newton(C=1.0), Stopping(duality_gap=1e-4)),
    (GradientDescent(), Stopping(cost_change=CostChange(epsilon=0.2), max_epochs=4)),
]


@pytest.mark.spread(3)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("solver", "stopping"), SOLVERS)
def test_threads_and_files_change_no_bit(
    solver: Any, stopping: Stopping, sparse: bool, tmp_path: Path
) -> None:
    """A single training on many shards, with 1, 2, 3 and 7 threads, in memory and from files."""
    X, labels = large(sparse)
    assert len(shard_edges(X)) > 7
    pipeline = Pipeline(solver=solver, stopping=stopping)
    expected = bits(train(pipeline, X, labels).result())
    for threads in (3, 7) if sparse else (2, 3, 7):
        assert bits(train(pipeline, X, labels, threads=threads).result()) == expected
    for threads in (2,) if sparse else (1, 3):
        rows = stored(X, tmp_path)
        assert bits(train(pipeline, rows, labels, threads=threads).result()) == expected


def test_classes_one_after_the_other(tmp_path: Path) -> None:
    """Most pairs have no rows in some shards, among them the first."""
    X = large(False)[0].copy()
    labels = np.arange(len(X)) * 3 // len(X)
    X[:, 0] += labels
    pipeline = Pipeline(solver=Newton(C=1.0), stopping=Stopping(duality_gap=1e-3))
    expected = train(pipeline, X, labels).result()
    assert expected.certificate.worst.relative_gap <= 1e-3
    found = train(pipeline, stored(X, tmp_path), labels, threads=3).result()
    assert bits(found) == bits(expected)


def test_threads_share_the_passes() -> None:
    """A single training of many shards uses other threads than the caller's."""
    X, labels = large(False)
    used = set()

    def note() -> None:
        used.add(threading.current_thread().name.split("_")[0])

    pipeline = Pipeline(solver=Newton(C=1.0), stopping=Stopping(max_epochs=2))
    train(pipeline, X, labels, threads=2, interrupted=note)
    assert "svm-shards" in used
