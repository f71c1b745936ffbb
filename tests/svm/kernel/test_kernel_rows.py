"""Rows of the kernel matrix: correct, and with the same bits in any order of requests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from svm.data.executors import executor_of
from svm.data.matrices import Vector
from svm.errors import Interrupted
from svm.kernel.kernel_rows import PIECE, KernelRow, KernelRows
from svm.kernel.kernels import GaussianKernel, PolynomialKernel
from svm.kernel.row_products import kernel_values
from tests.svm.cases.problems import FORMS, Form, in_form

KERNEL = GaussianKernel(gamma=0.1)


def never() -> None:
    pass


def values_of(rows: list[KernelRow]) -> Vector:
    return np.array([row.values for row in rows])


def some_rows(n: int = 700, d: int = 37) -> Vector:
    X = np.random.default_rng(5).normal(size=(n, d))
    X[np.abs(X) < 0.3] = 0.0
    return X.astype(np.float32).astype(np.float64)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kernel", [KERNEL, PolynomialKernel(degree=2)], ids=lambda k: k.name)
def test_values(form: Form, kernel: GaussianKernel | PolynomialKernel) -> None:
    """They are the kernel's, in the requested order."""
    X = some_rows()
    rows, columns = np.array([3, 600, 4]), np.arange(1, 700, 2)
    result = values_of(KernelRows(in_form(X, form), kernel).get(rows, 0, never))[:, columns]
    assert result.dtype == np.float64
    expected = kernel_values(kernel, X[rows], X[columns])
    np.testing.assert_allclose(result, expected, rtol=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_bits_depend_on_the_row_alone(form: Form) -> None:
    """Alone or with others, from the cache or computed again, by threads: a row is the same."""
    X = in_form(some_rows(), form)
    random = np.random.default_rng(0)
    alone = KernelRows(X, KERNEL)
    expected = np.vstack([values_of(alone.get(np.array([i]), 0, never)) for i in range(0, 700, 7)])
    small = KernelRows(X, KERNEL, cache_bytes=0)
    large = KernelRows(X, KERNEL)
    for rows, threads in ((small, 1), (large, 1), (KernelRows(X, KERNEL), 3)):
        for _ in range(4):
            crowd = random.permutation(700)[:200]
            rows.get(crowd, 0, never, executor_of(threads))
            result = rows.get(np.arange(0, 700, 7), 0, never, executor_of(threads))
            np.testing.assert_array_equal(values_of(result), expected)
    assert len(small._kept) <= PIECE < len(large._kept)


@pytest.mark.parametrize("form", FORMS)
def test_groups_are_parts_of_the_same_rows(form: Form) -> None:
    """The values of a row with the rows of a group have the bits of those with all rows; the cache
    of all groups stays within its bytes."""
    X = in_form(some_rows(), form)
    groups = np.random.default_rng(1).integers(0, 3, 700)
    parts = KernelRows(X, KERNEL, groups, cache_bytes=400_000)
    rows = np.array([600, 3, 4])
    expected = values_of(KernelRows(X, KERNEL).get(rows, 0, never))
    pair = np.flatnonzero(groups != 1)
    assert [group for group, _ in parts.groups_of(pair)] == [0, 2]
    for group, inside in parts.groups_of(pair):
        result = values_of(parts.get(rows, group, never))
        np.testing.assert_array_equal(result, expected[:, pair[inside]])
    for group in (0, 1, 2):
        parts.get(np.arange(700), group, never)
        held = sum(row.values.nbytes for row in parts._kept.values())
        assert 0.5 * 400_000 < held <= 400_000


def test_threads_may_evict_each_others_rows() -> None:
    """A small cache under four threads: every row is returned, and its size is counted
    correctly."""
    X, everything = some_rows(), np.arange(700)
    rows = KernelRows(X, KERNEL, cache_bytes=0)
    expected = values_of(KernelRows(X, KERNEL).get(everything, 0, never))

    def ask(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(6):
            some = random.permutation(700)[:90]
            np.testing.assert_array_equal(values_of(rows.get(some, 0, never)), expected[some])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(ask, range(4)))
    assert len(rows._kept) <= PIECE
    assert all(row.values.base is None for row in rows._kept.values())


def test_interruption() -> None:
    """`interrupted` is called between two pieces of rows, and no partial row is cached."""
    rows = KernelRows(some_rows(), KERNEL)

    def stop() -> None:
        raise Interrupted("stop")

    with pytest.raises(Interrupted):
        rows.get(np.arange(5), 0, stop)
    assert not rows._kept
