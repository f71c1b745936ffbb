"""Patience: a pair stops when its validation error falls no further, and keeps its best model."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from svm.errors import Interrupted, InvalidHyperparameter
from svm.kernel.kernels import GaussianKernel
from svm.model.pipeline import Pipeline
from svm.solvers import AnySolver, GradientDescent, KernelPegasos, Newton, Pegasos
from svm.stopping import Stopping
from svm.training.checkpoints import flatten
from svm.training.curve import Trace
from svm.training.training import Execution, Training
from tests.svm.cases.problems import blobs
from tests.svm.cases.trainings import bits, interrupting_from, run, train
from tests.svm.training.test_resume import resumed

X, LABELS = blobs(3, n_rows=30)
OTHERS = blobs(3, n_rows=60)
HELD_OUT = OTHERS[0][90:] + 0.3, OTHERS[1][90:]
SOLVERS: list[AnySolver] = [
    Pegasos(lambda_=0.01, averaging="suffix"),
    KernelPegasos(kernel=GaussianKernel()),
    GradientDescent(batch_size=5),
    Newton(C=100.0),
]


def patient(solver: AnySolver, patience: int = 3, **others: Any) -> Pipeline:
    return Pipeline(solver=solver, stopping=Stopping(patience=patience, max_epochs=60, **others))


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
def test_model_is_that_of_the_lowest_error(solver: AnySolver) -> None:
    """Each pair ends `patience` epochs after the first of its lowest errors, with the weights and
    the certificate of that epoch."""
    training = Training(patient(solver), X, LABELS, seed=0, validation=HELD_OUT, trace=Trace())
    points = [point for report in training for point in report.points]
    result = training.result()
    for pair, binary in enumerate(training._pairs):
        errors = [p.validation_error for p in points if p.pair == pair and p.epoch > 0]
        best = int(np.argmin(np.array(errors, dtype=float))) + 1
        if binary.progress.stop_reason != "patience":
            continue
        assert len(errors) == best + 3
        assert binary.state.epoch == best
        alone = train(Pipeline(solver=solver, stopping=Stopping(max_epochs=best)), X, LABELS)
        states = [flatten(each._pairs[pair].state, "") for each in (alone, training)]
        np.testing.assert_equal(states[0], states[1])
        assert (
            alone.result().certificate.pairs[pair].primal == result.certificate.pairs[pair].primal
        )
        assert result.certificate.pairs[pair].gap >= 0.0
    assert "patience" in {binary.progress.stop_reason for binary in training._pairs}
    if {binary.progress.stop_reason for binary in training._pairs} == {"patience"}:
        assert (result.stop_reason, result.converged) == ("patience", True)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
def test_interrupted_anywhere_and_resumed(solver: AnySolver) -> None:
    """The same end and bits, from checkpoints at any point, with any threads."""
    looks = itertools.count()
    counted: dict[str, Any] = {"interrupted": lambda: next(looks), "validation": HELD_OUT}
    expected, whole = bits(train(patient(solver), X, LABELS, **counted).result()), next(looks)
    random = np.random.default_rng(whole)
    others: dict[str, Any] = {"validation": HELD_OUT}
    stop = interrupting_from(1)
    training, cuts = (
        Training(patient(solver), X, LABELS, seed=0, **others, how=Execution(interrupted=stop)),
        0,
    )
    while True:
        try:
            run(training)
            break
        except Interrupted:
            cuts += 1
            stop = interrupting_from(int(random.integers(1, max(2, whole // 2))))
            threads = int(random.choice([1, 3]))
            training = resumed(training, X, LABELS, interrupted=stop, threads=threads, **others)
    assert cuts >= 2
    assert bits(training.result()) == expected


def test_other_rules_keep_the_last_model() -> None:
    """A training that reaches its gap first is one without patience."""
    solver = Newton()
    hasty = train(patient(solver, patience=50, duality_gap=1e-3), X, LABELS, validation=HELD_OUT)
    plain = train(
        Pipeline(solver=solver, stopping=Stopping(duality_gap=1e-3)),
        *(X, LABELS),
        validation=HELD_OUT,
    )
    assert hasty.result().stop_reason == "gap-reached"
    assert bits(hasty.result()) == bits(plain.result())


def test_patience_needs_a_validation_set() -> None:
    with pytest.raises(InvalidHyperparameter, match="expected a validation set"):
        Training(patient(Pegasos()), X, LABELS, seed=0)
