"""Pairs that another training continues, and gives back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from svm.errors import CheckpointMismatch, Interrupted
from svm.model.pipeline import Pipeline
from svm.model.serialization import to_arrays
from svm.solvers import SMO, AnyChoice, Auto, Newton, Pegasos
from svm.stopping import Stopping
from svm.training.curve import Trace
from svm.training.results import TrainingResult
from svm.training.training import Training
from tests.svm.cases.trainings import options

SOLVERS: list[AnyChoice] = [Newton(C=1.0), SMO(C=1.0), Auto(C=1.0), Pegasos(lambda_=0.01)]
CLASSES = 6
PAIRS = CLASSES * (CLASSES - 1) // 2


def training(solver: AnyChoice, checkpoint: dict[str, np.ndarray] | None = None) -> Training:
    random = np.random.default_rng(0)
    X, y = random.normal(size=(300, 8)), random.integers(0, CLASSES, 300)
    pipeline = Pipeline(solver=solver, stopping=Stopping(duality_gap=1e-2, max_epochs=200))
    return Training(pipeline, X, y, seed=0, checkpoint=checkpoint)


def bits(result: TrainingResult) -> dict[str, bytes]:
    return {name: np.asarray(v).tobytes() for name, v in to_arrays(result.fitted).items()}


def stepped(some: Training, steps: int) -> Training:
    for _, _ in zip(range(steps), some, strict=False):
        pass
    return some


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
@pytest.mark.parametrize("steps", [1, 7, 20])
def test_lent_pairs_have_the_same_bits(solver: AnyChoice, steps: int) -> None:
    """Lent after some steps, given back unfinished once, then finished elsewhere."""
    undisturbed = stepped(training(solver), 100_000)
    assert undisturbed.unfinished == []
    some = stepped(training(solver), steps)
    pairs = some.unfinished[::2]
    lent = some.lend(pairs)
    assert some.own == [k for k in range(PAIRS) if k not in pairs]
    other = stepped(training(solver, lent), steps)
    assert other.own == pairs
    half = other.checkpoint(pairs)
    some = stepped(some, 100_000)
    assert some.unfinished == pairs
    some.take_back(pairs, half)
    lent = some.lend(pairs)
    other = training(solver, lent)
    fractions = [progress.fraction for progress in other]
    assert not fractions or fractions[-1] == 1.0
    some.take_back(pairs, other.checkpoint(pairs))
    assert some.unfinished == []
    stepped(some, 1)
    assert bits(some.result()) == bits(undisturbed.result())
    assert some.result().certificate == undisturbed.result().certificate


def test_pairs_that_are_taken_back_as_they_were() -> None:
    expected = bits(stepped(training(SOLVERS[0]), 100_000).result())
    some = stepped(training(SOLVERS[0]), 3)
    some.lend(range(PAIRS))
    assert list(some) == []
    some.take_back(range(PAIRS), {})
    assert bits(stepped(some, 100_000).result()) == expected


def test_pairs_of_another_training_are_refused() -> None:
    some, other = training(SOLVERS[0]), training(SOLVERS[1])
    foreign = other.lend([0])
    some.lend([0])
    with pytest.raises(CheckpointMismatch, match="another training"):
        some.take_back([0], foreign)
    assert 0 not in some.own


@pytest.mark.long
def test_points_of_a_trace_come_back_with_their_pairs() -> None:
    """Also those that an interruption kept from being reported."""

    def traced(checkpoint: Any = None, looks: int = 1_000_000) -> Training:
        left = iter(range(looks))

        def interrupted() -> None:
            if next(left, None) is None:
                raise Interrupted("stop")

        random = np.random.default_rng(0)
        X, y = random.normal(size=(90, 3)), np.arange(90) % 4
        pipeline = Pipeline(solver=Pegasos(lambda_=0.01), stopping=Stopping(max_epochs=60))
        given: dict[str, Any] = {"checkpoint": checkpoint, "interrupted": interrupted}
        return Training(pipeline, X, y, seed=0, trace=Trace(every=2), **options(**given))

    def points(some: Training) -> set[tuple[int, int]]:
        seen = set()
        try:
            for progress in some:
                seen |= {(point.pair, point.updates) for point in progress.points}
        except Interrupted:
            pass
        return seen

    expected = points(traced())
    for looks in range(1, 400, 7):
        some = traced()
        other = traced(some.lend([0, 3, 5]), looks)
        seen = points(other) | points(some)
        some.take_back([0, 3, 5], other.checkpoint([0, 3, 5]))
        assert seen | points(some) == expected, looks
