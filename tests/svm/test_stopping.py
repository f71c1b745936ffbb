"""When a training ends, and which reason it gives."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris

from svm.kernel.kernels import LinearKernel
from svm.model.pipeline import Pipeline
from svm.problem.objectives import primal
from svm.problem.problem import LinearClassifier
from svm.solvers import (
    DualCoordinateDescent,
    GradientDescent,
    KernelPegasos,
    Newton,
    Pegasos,
    SubGradient,
)
from svm.stopping import CostChange, Stopping, smoothed_change
from svm.training.training import Training
from tests.svm.cases import twins
from tests.svm.cases.problems import SOLVER_INTERCEPTS, blobs, solver_of
from tests.svm.cases.trainings import bits, run, train, written_and_read

X, LABELS = blobs(2)
Y = np.where(LABELS > 0, 1.0, -1.0)
EPOCH_SOLVERS = (Pegasos(), DualCoordinateDescent(), Newton())
"""They test the cost-change rule once an epoch."""


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (Stopping(), Stopping(max_epochs=1000, duality_gap=1e-3)),
        (Stopping(duality_gap=0.1), Stopping(max_epochs=1000, duality_gap=0.1)),
        (Stopping(max_epochs=7), Stopping(max_epochs=7)),
        (Stopping(max_updates=7), Stopping(max_updates=7)),
        (
            Stopping(max_updates=7, duality_gap=0.1),
            Stopping(max_updates=7, duality_gap=0.1),
        ),
        (
            Stopping(time_budget_s=2.0),
            Stopping(max_epochs=1000, duality_gap=1e-3, time_budget_s=2.0),
        ),
    ],
)
def test_defaults(given: Stopping, meant: Stopping) -> None:
    """Nothing given: a gap of 1e-3 or 1,000 epochs. One given: what else applies."""
    assert given.resolve() == meant
    assert meant.resolve() == meant


def test_cost_change_is_the_only_rule() -> None:
    """With the cost-change rule there is no other limit unless it is given."""
    rule = CostChange(epsilon=0.1)
    for given in (Stopping(cost_change=rule), Stopping(cost_change=rule, max_epochs=5)):
        assert given.resolve() == given


@pytest.mark.parametrize("epochs", [1, 2, 5, 6, 13])
@pytest.mark.parametrize(("solver", "intercept"), SOLVER_INTERCEPTS)
def test_max_epochs_is_exact(solver: str, intercept: str, epochs: int) -> None:
    """Exactly this number of epochs, evaluated at the last one, and not reported as converged."""
    if solver in ("smo", "newton") and epochs == 13:
        epochs = 7  # by 13 of them both have converged
    pipeline = Pipeline(
        solver=solver_of(solver, intercept=intercept), stopping=Stopping(max_epochs=epochs)
    )
    training = Training(pipeline, X, LABELS, seed=0)
    last = [now.evaluation for now in training if now.evaluation is not None][-1]
    result = training.result()
    assert (result.epochs, result.stop_reason, result.converged) == (epochs, "max-epochs", False)
    assert (last.epoch, last.primal) == (epochs, result.certificate.worst.primal)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("updates", [1, 47])
@pytest.mark.parametrize(("solver", "intercept"), SOLVER_INTERCEPTS)
def test_max_updates_is_exact(solver: str, intercept: str, updates: int, n_classes: int) -> None:
    """Exactly this number of updates of every pair, evaluated at the last one; only solvers that
    can make no more progress end before."""
    X, labels = blobs(n_classes)
    pipeline = Pipeline(
        solver=solver_of(solver, intercept=intercept), stopping=Stopping(max_updates=updates)
    )
    training = Training(pipeline, X, labels, seed=0)
    points = [now.evaluation for now in training if now.evaluation is not None]
    result = training.result()
    last = {point.pair: point for point in points}
    if solver in ("newton", "smo") and updates >= 7 and result.updates < updates * len(last):
        assert all(point.updates <= updates for point in last.values())
        return
    assert [last[pair].updates for pair in range(len(last))] == [updates] * len(last)
    assert result.updates == updates * len(last)
    assert (result.stop_reason, result.converged) == ("max-updates", False)
    assert [each.primal for each in result.certificate.pairs] == [
        last[pair].primal for pair in range(len(last))
    ]
    assert 0.0 <= result.certificate.worst.dual <= result.certificate.worst.primal


T_SOLVERS: list[tuple[Any, int]] = [
    (Pegasos(), 1),
    (Pegasos(batch_size=4), 4),
    (SubGradient(step="restarted"), 1),
    (SubGradient(step="doubled"), 1),
    (GradientDescent(batch_size=4, learning_rate=0.003), 4),
    (KernelPegasos(kernel=LinearKernel()), 1),
]


@pytest.mark.parametrize(("solver", "size"), T_SOLVERS, ids=repr)
@pytest.mark.parametrize("cut", [0, 1, 2])
def test_max_updates_in_the_middle_of_an_epoch(solver: Any, size: int, cut: int) -> None:
    """The last updates are those that a longer training makes at this point: after n more updates
    than an epoch's, the model is that of the first visits of the next epoch. A training that is
    resumed ends with the same bits."""
    per_epoch = -(-len(LABELS) // size)
    updates = 2 * per_epoch + 3
    stopping = Stopping(max_updates=updates)
    pipeline = Pipeline(solver=solver, stopping=stopping)
    result = train(pipeline, X, LABELS).result()
    assert (result.updates, result.epochs, result.stop_reason) == (updates, 2, "max-updates")

    [problem] = Training(replace(pipeline, stopping=Stopping()), X, LABELS, seed=0).problems
    state: Any = solver.start(problem)
    for _ in range(2):
        state = solver.advance(problem, state)
    whole = solver.advance(problem, state)
    state = solver.advance(replace(problem, max_updates=updates), state)
    expected = solver.classifier(problem, state)
    assert (state.updates, whole.updates) == (updates, 3 * per_epoch)
    assert result.fitted.intercepts[0] == expected.intercept
    if isinstance(expected, LinearClassifier):
        assert result.fitted.coefficients[0].tobytes() == expected.coefficients.tobytes()
    # The rest of the epoch follows from there.
    rest: Any = solver.advance(problem, state)
    assert (rest.epoch, rest.updates) == (3, whole.updates)
    ends = [solver.classifier(problem, each) for each in (rest, whole)]
    np.testing.assert_allclose(ends[0].coefficients, ends[1].coefficients, rtol=1e-12)

    training = Training(pipeline, X, LABELS, seed=0)
    for _, _ in zip(range(cut), training, strict=False):
        pass
    checkpoint = written_and_read(training.checkpoint())
    again = Training(pipeline, X, LABELS, seed=0, checkpoint=checkpoint)
    run(again)
    assert bits(again.result()) == bits(result)


def test_first_limit_ends_the_training() -> None:
    """Of epochs and updates the one that is used up first."""
    for limits, reason in (((2, 61), "max-epochs"), ((3, 61), "max-updates")):
        stopping = Stopping(max_epochs=limits[0], max_updates=limits[1])
        result = train(Pipeline(solver=Pegasos(), stopping=stopping), X, LABELS).result()
        assert result.stop_reason == reason


@pytest.mark.parametrize("gap", [0.3, 1e-2, 1e-5])
@pytest.mark.parametrize("solver", [DualCoordinateDescent(), Newton()], ids=lambda each: each.name)
def test_gap_ends_the_training(solver: DualCoordinateDescent | Newton, gap: float) -> None:
    """At the first evaluation that shows the gap."""
    training = Training(
        Pipeline(solver=solver, stopping=Stopping(duality_gap=gap)), X, LABELS, seed=0
    )
    gaps = [each.relative_gap for each in training if each.evaluation is not None]
    result = training.result()
    assert (result.stop_reason, result.converged) == ("gap-reached", True)
    assert gaps[-1] is not None
    assert gaps[-1] <= gap
    assert all(each is not None and each > gap for each in gaps[:-1])


@pytest.mark.parametrize("solver", [DualCoordinateDescent(), Newton()], ids=lambda each: each.name)
def test_solver_ends_by_its_own_rule(solver: DualCoordinateDescent | Newton) -> None:
    """Without a gap to reach, a solver ends when its own rule is met."""
    stopping = Stopping(max_epochs=1_000_000)
    result = train(Pipeline(solver=solver, stopping=stopping), X, LABELS).result()
    assert (result.stop_reason, result.converged) == ("converged", True)
    assert result.certificate.worst.relative_gap <= 1e-9


@pytest.mark.parametrize("smoothing", [None, 0.0, 0.5])
@pytest.mark.parametrize("solver", EPOCH_SOLVERS, ids=lambda each: each.name)
def test_cost_change_once_an_epoch(
    solver: Pegasos | DualCoordinateDescent | Newton, smoothing: float | None
) -> None:
    """The other solvers test the rule on the primal value after every epoch, from the second on;
    smoothing is 0 by default."""
    epsilon, limit = 2.0, 200
    rule = CostChange(epsilon=epsilon, smoothing=smoothing)
    pipeline = Pipeline(solver=solver, stopping=Stopping(cost_change=rule, max_epochs=limit))
    training = Training(pipeline, X, LABELS, seed=0)
    [problem] = training.problems
    state: Any = solver.start(problem)
    costs = []
    for _ in range(limit):
        state = solver.advance(problem, state)
        model = solver.classifier(problem, state)
        costs.append(primal(problem, model.coefficients, model.intercept))
    changes = twins.smoothed_changes(costs, smoothing or 0.0)
    expected = next(k for k, change in enumerate(changes, start=2) if change < epsilon)
    for _ in training:
        pass
    result = training.result()
    assert (result.epochs, result.stop_reason) == (expected, "converged")
    assert result.converged


@pytest.mark.parametrize(
    ("batch_size", "smoothing"), [("all", None), ("all", 0.7), (30, None), (8, None), (1, 0.2)]
)
@pytest.mark.parametrize("regularizer", ["share", "whole"])
def test_cost_change_after_every_update(
    batch_size: Any, smoothing: float | None, regularizer: Any
) -> None:
    """Gradient descent ends at the update whose smoothed change is below ε; smoothing is 0 for
    batch descent and 0.5 for the others by default."""
    n, epsilon, rate = 30, 1.0, 0.002
    solver = GradientDescent(batch_size=batch_size, learning_rate=rate, regularizer=regularizer)
    rule = CostChange(epsilon=epsilon, smoothing=smoothing)
    pipeline = Pipeline(solver=solver, stopping=Stopping(cost_change=rule))
    training = Training(pipeline, X, LABELS, seed=0)
    [problem] = training.problems
    size = n if batch_size == "all" else batch_size
    batches = []
    for epoch in range(100):
        order = np.arange(n) if size == n else problem.permutation(epoch)
        batches += [order[first : first + size] for first in range(0, n, size)]
    path = twins.gradient_descent(
        X, Y, np.ones(n), 1.0, "free", rate, batches, regularizer == "whole", np.zeros(3)
    )
    default = 0.0 if size == n else 0.5
    changes = twins.smoothed_changes(
        [float(n)] + [cost for _, _, cost in path], default if smoothing is None else smoothing
    )
    expected = next(k for k, change in enumerate(changes, start=1) if change < epsilon)
    for _ in training:
        pass
    result = training.result()
    assert (result.updates, result.stop_reason) == (expected, "converged")
    w, b, cost = path[expected - 1]
    np.testing.assert_allclose(result.fitted.coefficients[0], w, rtol=1e-12)
    np.testing.assert_allclose(result.fitted.intercepts[0], b, rtol=1e-12, atol=1e-14)
    assert result.certificate.worst.solver_objective == pytest.approx(cost, rel=1e-12)


def test_smoothed_change() -> None:
    """s Δ + (1 - s) 100 |f - f'| / f, in percent, for rising and falling costs."""
    assert smoothed_change(200.0, 150.0, 8.0, 0.25) == 0.25 * 8.0 + 0.75 * 25.0
    assert smoothed_change(200.0, 250.0, 0.0, 0.0) == 25.0


@pytest.mark.parametrize("solver", ["pegasos", "gradient-descent"])
def test_max_epochs_ends_a_rule_that_is_never_met(solver: str) -> None:
    """`max_epochs` applies together with the cost-change rule."""
    stopping = Stopping(cost_change=CostChange(epsilon=1e-12), max_epochs=11)
    result = train(Pipeline(solver=solver_of(solver), stopping=stopping), X, LABELS).result()
    assert (result.epochs, result.stop_reason) == (11, "max-epochs")


def test_first_rule_met_ends_the_training() -> None:
    """A wide gap is reached before the cost stops changing."""
    rule = CostChange(epsilon=1e-9)
    stopping = Stopping(duality_gap=0.5, cost_change=rule)
    result = train(Pipeline(solver=Newton(), stopping=stopping), X, LABELS).result()
    assert result.stop_reason == "gap-reached"


@pytest.mark.parametrize("solver", ["pegasos", "gradient-descent"])
def test_time_budget(solver: str) -> None:
    """Ends a long training when its seconds are over, and reports its gap."""
    endless = Stopping(max_epochs=10**9, time_budget_s=0.1)
    pipeline = Pipeline(solver=solver_of(solver), stopping=endless)
    training = Training(pipeline, X, LABELS, seed=0)
    late = [progress for progress in training if training.elapsed_s > 0.1]
    assert late[-1].epoch - late[0].epoch <= 1, "it may end during an epoch"
    result = training.result()
    assert (result.stop_reason, result.converged) == ("time-budget", False)
    assert training.elapsed_s > 0.1
    assert 0.0 < result.certificate.worst.dual <= result.certificate.worst.primal
    assert result.epochs > 1


def test_time_budget_counts_all_attempts() -> None:
    """A resumed training has only what is left of its budget."""
    endless = Stopping(max_epochs=10**9, time_budget_s=0.2)
    pipeline = Pipeline(solver=Pegasos(), stopping=endless)
    training = Training(pipeline, X, LABELS, seed=0)
    for _ in training:
        if training.elapsed_s > 0.15:
            break
    again = Training(pipeline, X, LABELS, seed=0, checkpoint=training.checkpoint())
    assert again.elapsed_s > 0.15
    late = [progress for progress in again if again.elapsed_s > 0.2]
    assert late[-1].epoch - late[0].epoch <= 1, "it may end during an epoch"
    assert again.result().stop_reason == "time-budget"


def test_one_pair_that_did_not_converge_decides_the_reason() -> None:
    """One separable pair and one that cannot be separated: the model's reason is `max-epochs`."""
    apart = X[LABELS == 1] + 100.0
    rows = np.concatenate([X, apart])
    labels = np.concatenate([LABELS, np.full(len(apart), 2)])
    stopping = Stopping(max_epochs=5, duality_gap=1e-3)
    training = train(
        Pipeline(solver=Newton(), scaling="standardize", stopping=stopping), rows, labels
    )
    result = training.result()
    gaps = [pair.relative_gap for pair in result.certificate.pairs]
    assert min(gaps) <= 1e-3 < max(gaps)
    assert (result.stop_reason, result.converged) == ("max-epochs", False)


def test_gap_is_relative_to_the_primal() -> None:
    """(primal - dual) / primal of the worst pair is at most the requested gap."""
    result = train(
        Pipeline(solver=Newton(lambda_=1e-5), stopping=Stopping(duality_gap=0.02)), X, LABELS
    ).result()
    worst = result.certificate.worst
    assert worst.relative_gap == (worst.primal - worst.dual) / worst.primal <= 0.02
    assert math.isfinite(worst.primal)


def test_unlucky_evaluation_does_not_postpone_the_next_one() -> None:
    """The model of coordinate descent may be worse than an earlier one. The next evaluation is
    where the best gap so far, falling as before, would be small enough."""
    X, y = load_iris(return_X_y=True)
    pipeline = Pipeline(solver=DualCoordinateDescent(C=0.1))
    training = Training(pipeline, X[y > 0], y[y > 0], seed=4)
    points = [now.evaluation for now in training if now.evaluation is not None]
    unlucky = [
        after.updates / now.updates
        for before, now, after in zip(points, points[1:], points[2:], strict=False)
        if now.gap / now.primal >= before.gap / before.primal < 0.01
    ]
    assert unlucky
    assert max(unlucky) < DualCoordinateDescent.evaluation_growth
    assert training.result().stop_reason == "gap-reached"


def test_gap_that_the_final_certificate_proves_is_reached() -> None:
    """The last model of coordinate descent is good enough, but only the certifier proves it."""
    X, y = load_iris(return_X_y=True)
    stopping = Stopping(duality_gap=0.02, max_epochs=100)
    result = train(
        Pipeline(solver=DualCoordinateDescent(), stopping=stopping), X[y > 0], y[y > 0]
    ).result()
    assert result.certificate.worst.relative_gap <= 0.02
    assert result.stop_reason == "gap-reached"


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_much_better_model_is_named(n_classes: int) -> None:
    """If the certifier holds one, the warning has its cost and its solver."""
    random = np.random.default_rng(0)
    X = 1000.0 * random.normal(size=(60, 2))
    labels = np.digitize(X[:, 0] + 500.0 * random.normal(size=60), [0.0, 800.0][: n_classes - 1])
    result = train(Pipeline(solver=DualCoordinateDescent(C=100.0)), X, labels).result()
    assert not result.converged
    (warning,) = [text for text in result.warnings if "train with newton" in text]
    said = re.search(r"whose cost is (\S+), that of this model is ([0-9.e-]+)", warning)
    assert said is not None
    assert (", for " in warning) == (n_classes > 2)
    better = train(Pipeline(solver=Newton(C=100.0, intercept="augmented")), X, labels).result()
    assert better.converged
    assert not better.warnings
    assert float(said[1]) < float(said[2]) / 1.1
    if n_classes == 2:
        assert better.certificate.worst.dual <= float(said[1]) * 1.01
