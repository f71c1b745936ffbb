"""Many small problems of `smo` side by side: the same bits as one after the other."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from svm import SMO, GaussianKernel, Pipeline, Stopping, Training
from svm.data.matrices import Indices, Vector
from svm.kernel.kernels import AnyKernel, LinearKernel, PolynomialKernel
from svm.solvers.protocol import SolvedPair
from svm.solvers.working_sets import SMALL, solve_together
from svm.training.curve import Trace
from tests.svm.cases.problems import intercepts_of
from tests.svm.cases.trainings import bits, train, written_and_read

KERNELS: list[AnyKernel | None] = [
    GaussianKernel(gamma=0.3),
    LinearKernel(),
    PolynomialKernel(degree=2),
    None,
]
GAP = 1e-3
CLASSES = 14
PAIRS = CLASSES * (CLASSES - 1) // 2


def clouds(sizes: Any, seed: int = 0) -> tuple[Vector, Indices]:
    """Some rows of each class, around its center, in random order."""
    random = np.random.default_rng(seed)
    y = random.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return random.normal(size=(len(sizes), 5))[y] + 0.8 * random.normal(size=(len(y), 5)), y


def unequal(seed: int = 1) -> Any:
    """Numbers of rows, so that pairs have from 2 to 62."""
    return np.random.default_rng(seed).integers(1, 32, size=CLASSES)


@pytest.mark.long
@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name if kernel else "none")
@pytest.mark.parametrize("intercept", intercepts_of("smo"))
def test_states_are_those_of_one_at_a_time(
    intercept: Any, kernel: AnyKernel | None, C: float
) -> None:
    """State, costs and error of every problem equal those of its own advances, to the bit."""
    for X, y in (clouds(unequal()), clouds([5] * CLASSES)):
        solver = SMO(C=C, kernel=kernel, intercept=intercept)
        problems = Training(Pipeline(solver=solver), X, y, seed=0).problems
        solved: dict[int, SolvedPair] = {}
        for part in solve_together(problems, GAP, 1000, sys.maxsize):
            solved |= part
        assert len(solved) >= 0.9 * PAIRS
        for k, end in solved.items():
            state = solver.start(problems[k])
            gaps = []
            for _ in range(end.state.sets):
                state = solver.advance(problems[k], state)
                primal, dual = solver.enclosure(problems[k], state)
                gaps.append(primal - dual - GAP * primal)
            assert gaps[-1] <= 0.0
            assert end.primal == primal
            assert end.dual >= dual
            for name in ("a", "scores", "working", "w", "intercept", "sets", "epoch", "updates"):
                np.testing.assert_array_equal(getattr(end.state, name), getattr(state, name))


@pytest.mark.parametrize("kernel", [GaussianKernel(), None])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_training_has_the_bits_of_one_pair_after_the_other(
    sparse: bool, kernel: AnyKernel | None
) -> None:
    """A traced training computes the cost of every pair after each set, so it takes them alone."""
    X, y = clouds(unequal())
    rows: Any = csr_array(X) if sparse else X
    pipeline = Pipeline(solver=SMO(kernel=kernel))
    quick = train(pipeline, rows, y)
    assert bits(quick.result()) == bits(train(pipeline, rows, y, trace=Trace()).result())
    assert quick.result().converged


def test_few_or_large_or_weighted_problems_are_left_alone() -> None:
    """They would gain little, or would have other bits."""
    few, large = clouds([4] * 11), clouds([SMALL // 2 + 1] * CLASSES)
    for (X, y), weight in ((few, None), (large, None), (clouds(unequal()), "balanced")):
        pipeline = Pipeline(solver=SMO(), class_weight=weight)  # type: ignore[arg-type]
        problems = Training(pipeline, X, y, seed=0).problems
        assert list(solve_together(problems, GAP, 1000, sys.maxsize)) == []


def test_large_and_small_pairs_in_one_training() -> None:
    """Large pairs continue in turns, with the bits of a training of them alone."""
    sizes = [*([3] * CLASSES), 70, 80]
    X, y = clouds(sizes)
    result = train(Pipeline(solver=SMO()), X, y).result()
    assert result.converged
    assert bits(result) == bits(train(Pipeline(solver=SMO()), X, y, trace=Trace()).result())


@pytest.mark.parametrize("reports", [1, 2, 3])
def test_checkpoints_between_parts(reports: int) -> None:
    """A training that ends after some reports continues to the same bits."""
    X, y = clouds([*unequal(), 40, 50])
    pipeline = Pipeline(solver=SMO(), stopping=Stopping(duality_gap=GAP, max_epochs=200))
    undisturbed = bits(train(pipeline, X, y).result())
    some = Training(pipeline, X, y, seed=0)
    for _, _ in zip(range(reports), some, strict=False):
        pass
    assert 0 < len(some.unfinished) < len(some.problems)
    checkpoint = written_and_read(some.checkpoint())
    assert bits(train(pipeline, X, y, checkpoint=checkpoint).result()) == undisturbed


def test_lent_pairs_are_solved_together_elsewhere() -> None:
    """Half of the pairs is solved by another training, to the same bits."""
    X, y = clouds([3] * 20)
    pipeline = Pipeline(solver=SMO())
    undisturbed = bits(train(pipeline, X, y).result())
    some = Training(pipeline, X, y, seed=0)
    pairs = some.own[::2]
    other = train(pipeline, X, y, checkpoint=some.lend(pairs))
    list(some)
    assert some.unfinished == pairs
    some.take_back(pairs, other.checkpoint(pairs))
    list(some)
    assert bits(some.result()) == undisturbed


def test_the_epochs_that_are_allowed() -> None:
    """With one epoch each pair makes one working set, proven or not."""
    X, y = clouds(unequal())
    stopping = Stopping(duality_gap=1e-9, max_epochs=1)
    result = train(Pipeline(solver=SMO(C=10.0), stopping=stopping), X, y).result()
    assert result.epochs == 1
    assert result.stop_reason == "max-epochs"
