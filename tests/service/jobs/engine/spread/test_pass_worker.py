"""What a worker of Dask keeps from task to task, here as calls in this process."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from service.jobs.spread import pass_worker
from service.jobs.spread.pass_worker import NamedPass, PassResult
from service.jobs.spread.remote_passes import RemotePasses
from svm.data.matrices import Indices, Matrix
from svm.model.pipeline import Pipeline
from svm.problem.problem import Problem
from svm.solvers import Newton
from svm.stopping import Stopping
from svm.training.preparation import Prepared
from tests.svm.cases.trainings import bits, train

RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(30_000, 70))
LABELS = np.sign(X[:, :5].sum(axis=1) + RANDOM.normal(size=len(X)))
PIPELINE = Pipeline(solver=Newton(C=1.0), stopping=Stopping(duality_gap=1e-3))
_reads: list[str] = []


@dataclass(frozen=True)
class Noted:
    """A recipe whose readings are noted."""

    name: str

    def open(self) -> Noted:
        return self

    def read(self, rows: Indices) -> Matrix:
        _reads.append(self.name)
        part: Matrix = X[rows]
        return part


class InThisProcess(RemotePasses):
    """The passes by `pass_worker.answer`."""

    def carry_out(
        self, units: Sequence[int], step: NamedPass, *, fetch: bool = False
    ) -> Iterator[PassResult]:
        answer = pass_worker.answer(_moved(self.task(units, step, fetch=fetch)))
        while answer.missing:
            answer = pass_worker.answer(_moved(self.task(units, step, answer.missing, fetch=fetch)))
        yield answer


def _moved(task: Any) -> Any:
    return pickle.loads(pickle.dumps(task))


@pytest.fixture(autouse=True)
def fresh() -> None:
    pass_worker._trainings.clear()
    pass_worker._rows.clear()
    _reads.clear()


def trained(recipe: str, training: str) -> dict[str, Any]:
    def given(prepared: Prepared, problem: Problem) -> InThisProcess:
        return InThisProcess(problem, Noted(recipe), 4, training)

    return bits(train(PIPELINE, X, LABELS, spread=given).result())


def test_rows_are_read_once_for_all_trainings_on_them() -> None:
    """Also if the training between is on others; and the bits stay."""
    expected = bits(train(PIPELINE, X, LABELS).result())
    assert trained("a", "1") == expected
    once = len(_reads)
    for number, name in enumerate("aba", 2):
        assert trained(name, str(number)) == expected
    assert _reads == ["a"] * once + ["b"] * once


def test_few_trainings_and_rows_are_kept() -> None:
    """Those that were used last."""
    for number, name in enumerate("abcc"):
        trained(name, str(number))
    assert list(pass_worker._trainings) == ["2", "3"]
    assert len(pass_worker._rows) == 2
    _reads.clear()
    trained("b", "4")
    assert _reads == []
    trained("a", "5")
    assert set(_reads) == {"a"}
    assert list(pass_worker._trainings) == ["4", "5"]
