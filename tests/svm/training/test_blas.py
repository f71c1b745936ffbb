"""BLAS uses one thread, even if it may use more."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from svm.model.pipeline import Pipeline
from svm.solvers import SMO, Newton
from svm.stopping import Stopping
from svm.training.training import Training
from svm.transforms.features import Nystroem
from tests.svm.cases.trainings import bits, train

RANDOM = np.random.default_rng(0)
X, LABELS = RANDOM.normal(size=(1500, 60)), RANDOM.integers(0, 2, 1500)


def threads_of_blas() -> set[int]:
    return {
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    }


@pytest.mark.parametrize(
    "pipeline",
    [
        Pipeline(
            solver=Newton(), features=Nystroem(n_components=300), stopping=Stopping(max_epochs=2)
        ),
        Pipeline(solver=SMO(), stopping=Stopping(max_epochs=1)),
    ],
    ids=["nystroem", "smo"],
)
def test_bits_do_not_depend_on_the_number_of_processors(pipeline: Pipeline) -> None:
    """Nor do the bits of scaling, features and kernel."""
    results = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            results.append(bits(train(pipeline, X, LABELS).result()))
            assert threads_of_blas() == {threads}
    assert results[0] == results[1]


def test_trainings_side_by_side_keep_to_it_until_the_last_one_ends() -> None:
    """The first training to end does not lift the limit of the other."""
    pipeline = Pipeline(solver=Newton(), stopping=Stopping(max_epochs=5, duality_gap=1e-9))
    with threadpool_limits(2, user_api="blas"):
        first, second = (iter(Training(pipeline, X, LABELS, seed=seed)) for seed in (0, 1))
        next(first)
        next(second)
        for _ in first:
            pass
        assert threads_of_blas() == {1}
        for _ in second:
            pass
        assert threads_of_blas() == {2}
