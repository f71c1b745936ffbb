"""Traces: the cost before the first update, and after every one or every few epochs or updates."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from svm.errors import Interrupted, InvalidHyperparameter
from svm.kernel.kernels import GaussianKernel, LinearKernel
from svm.model.pipeline import Pipeline
from svm.solvers import (
    AnySolver,
    DualCoordinateDescent,
    GradientDescent,
    KernelPegasos,
    Newton,
    Pegasos,
    SubGradient,
)
from svm.stopping import CostChange, Stopping
from svm.training.curve import DENSE_POINTS, THINNED, Evaluation, Progress, Trace, counts
from svm.training.training import Execution, Training
from tests.svm.cases import twins
from tests.svm.cases.problems import SOLVER_INTERCEPTS, blobs, solver_of
from tests.svm.cases.trainings import bits, interrupting_from, options, run, train
from tests.svm.training.test_resume import ends, resumed

X, LABELS = blobs(3)
TWO, SIDES = blobs(2)
EPOCHS, UPDATES = Trace(), Trace(unit="update")
OPTIONS: list[AnySolver] = [
    Pegasos(averaging="suffix", project=True, order="uniform"),
    Pegasos(order="blocks"),
    KernelPegasos(kernel=GaussianKernel(), order="uniform"),
    SubGradient(averaging="suffix", step="restarted"),
    SubGradient(order="given"),
    SubGradient(step="doubled", averaging="all"),
    Pegasos(batch_size=4, averaging="all"),
    KernelPegasos(kernel=GaussianKernel(), averaging="all"),
    GradientDescent(batch_size=4),
    GradientDescent(batch_size=7, regularizer="whole"),
    GradientDescent(),
]

Point = tuple[Any, ...]


def points_of(reports: list[Progress]) -> dict[tuple[int, int], Point]:
    """By pair and updates, without the time."""
    return {
        (point.pair, point.updates): (
            *(point.epoch, point.primal, point.dual, point.train_error, point.validation_error),
            point.solver_objective,
        )
        for report in reports
        for point in report.points
    }


def traced(pipeline: Pipeline, trace: Trace, X: Any = X, labels: Any = LABELS) -> list[Evaluation]:
    training = Training(pipeline, X, labels, seed=0, trace=trace)
    return [point for report in training for point in report.points]


def test_points_become_rarer() -> None:
    """The first ones as asked; then half as many each time the count doubles."""
    assert list(counts(3, 1000, 0, 20)) == [3, 6, 9, 12, 15, 18]
    assert list(counts(1, 4, 0, 40)) == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]
    ends = [0, 1, 5, 6, 17, 40]
    pieces = [counts(1, 4, a, b) for a, b in itertools.pairwise(ends)]
    assert list(itertools.chain(*pieces)) == list(counts(1, 4, 0, 40))


@pytest.mark.parametrize(("solver", "intercept"), SOLVER_INTERCEPTS)
def test_every_epoch_and_the_same_model(solver: str, intercept: str) -> None:
    """A point before the first update and one after every epoch; model, certificate and end have
    the bits of a training without a trace."""
    pipeline = Pipeline(
        solver=solver_of(solver, intercept=intercept), stopping=Stopping(max_epochs=9)
    )
    training = Training(pipeline, X, LABELS, seed=0, trace=EPOCHS)
    points = points_of(run(training))
    assert bits(training.result()) == bits(train(pipeline, X, LABELS).result())
    for pair, problem in enumerate(training.problems):
        own = [point for (k, _), point in points.items() if k == pair]
        assert [point[0] for point in own] == list(range(len(own)))
        assert own[0][1] == pytest.approx(problem.weights.mean())


@pytest.mark.parametrize("solver", OPTIONS, ids=repr)
def test_every_update_and_the_same_model(solver: AnySolver) -> None:
    """The point after the last update of an epoch is the evaluation there."""
    pipeline = Pipeline(solver=solver, stopping=Stopping(max_epochs=4))
    training = Training(pipeline, X, LABELS, seed=0, trace=UPDATES)
    reports = run(training)
    result, points = training.result(), points_of(reports)
    assert bits(result) == bits(train(pipeline, X, LABELS).result())
    assert len(points) == result.updates + 3
    for report in reports:
        if report.evaluation is not None:
            point = points[report.pair, report.evaluation.updates]
            assert point[:2] == (report.evaluation.epoch, report.evaluation.primal)


def test_costs_within_an_epoch_of_descent() -> None:
    """Those of a slow version that is written from the formulas."""
    solver = GradientDescent(batch_size=7, learning_rate=0.01, C=2.0)
    pipeline = Pipeline(solver=solver, stopping=Stopping(max_epochs=3))
    training = Training(pipeline, TWO, SIDES, seed=5, trace=UPDATES)
    costs = [point.solver_objective for report in training for point in report.points]
    [problem] = training.problems
    orders = [problem.permutation(epoch) for epoch in range(3)]
    batches = [order[start : start + 7] for order in orders for start in range(0, 30, 7)]
    slow = twins.gradient_descent(
        *(TWO, problem.y, problem.weights, 2.0, "free", 0.01, batches, False, np.zeros(3))
    )
    assert costs == pytest.approx([60.0, *(cost for _, _, cost in slow)], rel=1e-12)


@pytest.mark.parametrize("solver", [Pegasos(), KernelPegasos(kernel=LinearKernel())], ids=repr)
def test_costs_within_an_epoch_of_pegasos(solver: AnySolver) -> None:
    """Those of a slow version that is written from the paper."""
    pipeline = Pipeline(solver=solver, stopping=Stopping(max_epochs=2))
    training = Training(pipeline, TWO, SIDES, seed=5, trace=UPDATES)
    costs = [point.primal for report in training for point in report.points]
    [problem] = training.problems
    order = np.concatenate([problem.permutation(epoch) for epoch in range(2)])
    y, weights, regularization = problem.y, problem.weights, problem.regularization
    expected = [1.0]
    for t in range(1, 61):
        w, b, _ = twins.pegasos(TWO, y, weights, regularization, "free", [order[:t]])
        losses = twins.hinge_sum(TWO, y, weights, w, b)
        expected.append(0.5 * regularization * float(w @ w) + losses / 30)
    assert costs == pytest.approx(expected, rel=1e-12)


def test_ends_by_the_cost_change_at_the_same_update() -> None:
    """Where the solver itself computes costs after every update, the trace has the same."""
    rule = Stopping(cost_change=CostChange(epsilon=1.0))
    pipeline = Pipeline(solver=GradientDescent(batch_size=5, learning_rate=0.003), stopping=rule)
    training = Training(pipeline, TWO, SIDES, seed=0, trace=UPDATES)
    points = [point for report in training for point in report.points]
    result = training.result()
    assert bits(result) == bits(train(pipeline, TWO, SIDES).result())
    assert [point.updates for point in points] == list(range(result.updates + 1))
    changes = twins.smoothed_changes([point.solver_objective for point in points], 0.5)
    assert [change < 1.0 for change in changes].index(True) == len(changes) - 1


@pytest.mark.parametrize("solver", [*OPTIONS, Newton(), DualCoordinateDescent()], ids=repr)
def test_interrupted_anywhere_with_the_same_points(solver: AnySolver) -> None:
    """Each cut loses nothing: the reports of all attempts together have the points of an
    undisturbed training, with validation errors."""
    trace = UPDATES if solver.traces_updates else EPOCHS
    pipeline = Pipeline(solver=solver, stopping=Stopping(max_epochs=5))
    others: dict[str, Any] = {"trace": trace, "validation": (X[:20], LABELS[:20])}
    looks = itertools.count()
    counted: dict[str, Any] = {**others, "interrupted": lambda: next(looks)}
    expected = points_of(run(Training(pipeline, X, LABELS, seed=0, **options(**counted))))
    whole = next(looks)
    random = np.random.default_rng(whole)
    training = Training(
        pipeline, X, LABELS, seed=0, **others, how=Execution(interrupted=interrupting_from(1))
    )
    found: dict[tuple[int, int], Point] = {}
    while True:
        reports: list[Progress] = []
        try:
            for report in training:
                reports.append(report)
            break
        except Interrupted:
            pass
        finally:
            found |= points_of(reports)
        calls = int(random.integers(1, max(2, whole // 2)))
        threads = int(random.choice([1, 3]))
        training = resumed(
            training, X, interrupted=interrupting_from(calls), threads=threads, **others
        )
    assert found == expected


def test_long_trace_is_bounded() -> None:
    """More updates than points: a warning says what the distance is."""
    pipeline = Pipeline(solver=Pegasos(), stopping=Stopping(max_epochs=2 * DENSE_POINTS // 30 + 30))
    training = Training(pipeline, TWO, SIDES, seed=0, trace=UPDATES)
    points = [point.updates for report in training for point in report.points]
    assert points[: DENSE_POINTS + 1] == list(range(DENSE_POINTS + 1))
    assert set(np.diff(points[DENSE_POINTS : 3 * DENSE_POINTS // 2])) == {2}
    assert THINNED in training.result().notes
    assert not ends(training) or len(points) < 2 * DENSE_POINTS


@pytest.mark.parametrize("solver", ["newton", "smo", "dual-coordinate-descent"])
def test_solvers_without_weights_after_every_update(solver: str) -> None:
    with pytest.raises(InvalidHyperparameter, match=f"`epoch` for {solver}"):
        Training(Pipeline(solver=solver_of(solver)), X, LABELS, seed=0, trace=UPDATES)
