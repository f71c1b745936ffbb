"""The interface of a training; and its bits depend on data, settings and seed only."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from dataclasses import replace

import numpy as np
import pytest

from svm.errors import Interrupted, InvalidHyperparameter
from svm.model.pipeline import Pipeline
from svm.solvers import (
    SOLVERS,
    DualCoordinateDescent,
    GradientDescent,
    Newton,
    Pegasos,
    SubGradient,
)
from svm.solvers.options import RandomStart
from svm.stopping import Stopping
from svm.training.training import SEVERAL_FROM, Execution, Training
from tests.svm.cases.problems import FORMS, SOLVER_INTERCEPTS, Form, blobs, in_form, solver_of
from tests.svm.cases.trainings import bits, interrupting_at, run, train

X, LABELS = blobs(4)
FEW = Stopping(max_epochs=6)
RANDOM = (
    Pegasos(),
    Pegasos(order="uniform"),
    GradientDescent(batch_size=7),
    GradientDescent(initial=RandomStart(random_scale=0.1)),
    Newton(initial=RandomStart(random_scale=0.1)),
    SubGradient(order="shuffled-once"),
    # At t = 1 the weights of the start are forgotten: they judge the first row only.
    Pegasos(order="given", initial=RandomStart(random_scale=10.0)),
)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("solver", sorted(SOLVERS))
def test_interrupted_training_leaves_its_memory(solver: str, threads: int) -> None:
    """Without references to it: no cycle keeps the data until the garbage collector runs."""
    gc.disable()
    try:
        pipeline = Pipeline(solver=solver_of(solver), scaling="standardize", stopping=FEW)
        training = Training(
            pipeline,
            X,
            LABELS,
            seed=0,
            how=Execution(threads=threads, interrupted=interrupting_at(5)),
        )
        with pytest.raises(Interrupted):
            run(training)
        data = weakref.ref(training.prepared.X)
        del training
        assert data() is None
    finally:
        gc.enable()


@pytest.mark.spread(3)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("solver", "intercept"), SOLVER_INTERCEPTS)
def test_same_seed_same_bits(solver: str, intercept: str, form: Form) -> None:
    """Two trainings with equal arguments give equal models and certificates, to the bit."""
    chosen = solver_of(solver, intercept=intercept, dtype=form.split("-")[1])
    pipeline = Pipeline(solver=chosen, stopping=FEW)
    results = [train(pipeline, in_form(X, form), LABELS, seed=3).result() for _ in range(2)]
    assert bits(results[0]) == bits(results[1])


@pytest.mark.parametrize("solver", RANDOM, ids=repr)
def test_other_seed_other_model(solver: Pegasos | GradientDescent | SubGradient) -> None:
    """All draws of a solver depend on the seed."""
    pipeline = Pipeline(solver=solver, stopping=Stopping(max_epochs=2))
    first, second = (train(pipeline, X, LABELS, seed=seed).result().fitted for seed in (1, 2))
    assert (first.coefficients != second.coefficients).any()


def test_pairs_draw_different_orders() -> None:
    """Two pairs with the same rows visit them in different orders."""
    twice = np.concatenate([X, X])
    labels = np.concatenate([LABELS % 2, 2 + LABELS % 2])  # classes 0 and 1 again as 2 and 3
    fitted = train(Pipeline(solver=Pegasos(), stopping=FEW), twice, labels).result().fitted
    first, second = fitted.coefficients[0], fitted.coefficients[5]  # pairs (0, 1) and (2, 3)
    assert (first != second).any()


@pytest.mark.parametrize("threads", [2, 3, 8])
@pytest.mark.parametrize(("solver", "intercept"), SOLVER_INTERCEPTS)
def test_threads_change_no_bit(solver: str, intercept: str, threads: int) -> None:
    """Threads give the bits of one thread."""
    pipeline = Pipeline(solver=solver_of(solver, intercept=intercept), stopping=FEW)
    alone = train(pipeline, X, LABELS).result()
    together = train(pipeline, X, LABELS, threads=threads).result()
    assert bits(together) == bits(alone)


def test_threads_are_used() -> None:
    """With `threads`, pairs train outside the caller's thread, at most `threads` at once."""
    seen = set()

    def interrupted() -> None:
        seen.add(threading.current_thread().name)

    train(Pipeline(solver=Pegasos(), stopping=FEW), X, LABELS, threads=2, interrupted=interrupted)
    assert 1 <= len(seen) <= 2
    assert threading.current_thread().name not in seen


def test_threads_can_come_and_go() -> None:
    """A function gives their number before each slice of a pair, one of which runs in the caller's
    thread; pairs of few values always run there."""
    random, caller = np.random.default_rng(0), threading.current_thread().name
    labels = np.arange(900) % 3
    large = random.normal(size=(900, SEVERAL_FROM // 900 + 1))
    pipeline = Pipeline(
        solver=DualCoordinateDescent(), multiclass="one-vs-rest", stopping=Stopping(max_epochs=9)
    )
    expected = bits(train(pipeline, large, labels).result())
    wanted, seen = [2], set()

    def interrupted() -> None:
        seen.add(threading.current_thread().name)

    how = Execution(threads=lambda: wanted[0], interrupted=interrupted)
    training = Training(pipeline, large, labels, seed=0, how=how)
    for progress in training:
        if wanted == [2] and progress.epoch >= 2:
            assert caller not in seen
            wanted[0] = 1
    assert caller in seen
    assert bits(training.result()) == expected
    small = Training(pipeline, large[:, :9], labels, seed=0, how=Execution(threads=lambda: 2))
    assert training.in_threads
    assert not small.in_threads


def test_pairs_that_run_now_are_not_lent() -> None:
    """With threads, the pairs that are waiting can be lent between two items, and trained
    elsewhere."""
    pipeline = Pipeline(solver=Pegasos(), stopping=FEW)
    expected = bits(train(pipeline, X, LABELS).result())
    training = Training(pipeline, X, LABELS, seed=0, how=Execution(threads=2))
    lent: list[int] = []
    for _ in training:
        if not lent:
            lent = training.waiting
            assert len(lent) >= len(training.problems) - 2
            other = Training(pipeline, X, LABELS, seed=0, checkpoint=training.lend(lent))
    assert training.unfinished == lent
    run(other)
    training.take_back(lent, other.checkpoint(lent))
    assert bits(training.result()) == expected


@pytest.mark.parametrize(
    ("stopping", "threads"),
    [(FEW, 1), (FEW, 2), (Stopping(), 1), (Stopping(max_epochs=40, duality_gap=1e-2), 2)],
)
@pytest.mark.parametrize(("solver", "intercept"), SOLVER_INTERCEPTS)
def test_progress_grows(solver: str, intercept: str, stopping: Stopping, threads: int) -> None:
    """The fraction grows from 0 to 1, updates never decrease, and every pair's epochs count up; the
    gap is reported as soon as all pairs have one."""
    pipeline = Pipeline(
        solver=solver_of(solver, intercept=intercept),
        stopping=replace(stopping, max_epochs=stopping.max_epochs or 50),
    )
    training = Training(pipeline, X, LABELS, seed=0, how=Execution(threads=threads))
    progress = run(training)
    fractions = [now.fraction for now in progress]
    assert fractions == sorted(fractions)
    assert 0.0 <= fractions[0] <= fractions[-1] == 1.0
    updates = [now.updates for now in progress]
    assert updates == sorted(updates)
    assert updates[-1] == training.result().updates
    for pair in range(6):
        epochs = [now.epoch for now in progress if now.pair == pair]
        assert epochs == sorted(epochs)
    known = [now.relative_gap is not None for now in progress]
    assert known == sorted(known)
    last = progress[-1]
    assert last.relative_gap == training.result().certificate.worst.relative_gap
    assert (last.primal, last.dual) == (
        training.result().certificate.worst.primal,
        training.result().certificate.worst.dual,
    )


def test_evaluations_are_those_of_their_pair() -> None:
    """Pegasos is evaluated after 1, 2, 4, 8 … epochs and at the end; each evaluation has the
    primal, bound, gap and training error of its pair at that moment."""
    pipeline = Pipeline(solver=Pegasos(), stopping=Stopping(max_epochs=10))
    training = Training(pipeline, X, LABELS, seed=0)
    evaluations = [now.evaluation for now in training if now.evaluation is not None]
    result = training.result()
    for pair in range(6):
        own = [each for each in evaluations if each.pair == pair]
        assert sorted({each.epoch for each in own}) == [1, 2, 4, 8, 10]
        for each in own:
            assert each.gap == each.primal - each.dual
            assert each.updates == 30 * each.epoch
            assert each.validation_error is None
        certificate, fitted = result.certificate.pairs[pair], result.fitted
        assert own[-1].primal == certificate.primal
        i, j = certificate.classes
        rows = np.isin(LABELS, (i, j))
        positive = fitted.problem_scores(X[rows])[:, pair] > 0
        assert own[-1].train_error == float((positive != (LABELS[rows] == j)).mean())


@pytest.mark.parametrize("seed", [-1, 2**63, 2**64])
def test_seed_out_of_range_is_refused(seed: int) -> None:
    """Seeds are 0 … 2⁶³ - 1."""
    with pytest.raises(InvalidHyperparameter, match="seed"):
        Training(Pipeline(solver=Pegasos()), X, LABELS, seed=seed)


def test_largest_seed() -> None:
    """The last seed of the range trains."""
    train(Pipeline(solver=Pegasos(), stopping=FEW), X, LABELS, seed=2**63 - 1)


@pytest.mark.parametrize(("solver", "intercept"), SOLVER_INTERCEPTS)
def test_result_in_the_middle(solver: str, intercept: str) -> None:
    """At any moment, including the start, the result is a model that predicts, with a certificate
    of exactly that model; its stop reason is `canceled`, and the training is not changed."""
    pipeline = Pipeline(solver=solver_of(solver, intercept=intercept), stopping=FEW)
    training = Training(pipeline, X, LABELS, seed=0)
    first = training.result()
    assert first.epochs == first.updates == 0
    assert not first.fitted.coefficients.any()
    assert first.certificate.worst.primal == 1.0  # every hinge loss is 1 at w = 0
    iteration = iter(training)
    for _ in range(8):
        next(iteration)
    result = training.result()
    assert bits(training.result()) == bits(result)
    assert result.stop_reason == "canceled"
    assert not result.converged
    assert result.fitted.predict(X).shape == (60,)
    assert 0.0 <= result.certificate.worst.dual <= result.certificate.worst.primal
    for _ in iteration:
        pass
    assert bits(training.result()) == bits(train(pipeline, X, LABELS).result())


def test_result_is_not_interrupted() -> None:
    """Canceling a job that keeps its model needs the result while `interrupted` raises."""
    training = Training(
        Pipeline(solver=Pegasos(), stopping=FEW),
        X,
        LABELS,
        seed=0,
        how=Execution(interrupted=_always_interrupting),
    )
    with pytest.raises(Interrupted):
        run(training)
    assert training.result().stop_reason == "canceled"
    with pytest.raises(Interrupted):
        run(training)


def _always_interrupting() -> None:
    raise Interrupted


@pytest.mark.parametrize("threads", [1, 3])
def test_loop_left_and_continued(threads: int) -> None:
    """Leaving the loop, or an interruption, and iterating again changes no bit."""
    pipeline = Pipeline(solver=Pegasos(), stopping=FEW)
    expected = bits(train(pipeline, X, LABELS).result())
    training = Training(
        pipeline, X, LABELS, seed=0, how=Execution(threads=threads, interrupted=interrupting_at(30))
    )
    with pytest.raises(Interrupted):
        run(training)
    for _ in training:
        break
    run(training)
    assert bits(training.result()) == expected
    assert run(training) == []  # nothing is left to do


def test_n_support_vectors_are_the_rows_inside_some_margin() -> None:
    """Each row is counted once, for any number of pairs."""
    training = train(Pipeline(solver=Pegasos(C=0.1), stopping=FEW), X, LABELS)
    result = training.result()
    scores = result.fitted.problem_scores(X)
    inside = np.zeros(60, dtype=bool)
    for pair, certificate in enumerate(result.certificate.pairs):
        i, j = certificate.classes
        sign = np.isin(LABELS, j) * 1.0 - np.isin(LABELS, i)  # 0 for the other classes
        inside |= (sign != 0.0) & (sign * scores[:, pair] <= 1.0)
    assert 0 < result.n_support_vectors == inside.sum() <= 60


def test_updates_and_epochs_are_counted() -> None:
    """Updates are summed over the pairs, epochs are the largest count of a pair."""
    batches = GradientDescent(batch_size=8)  # 30 rows a pair: batches of 8, 8, 8, 6
    result = train(Pipeline(solver=batches, stopping=FEW), X, LABELS).result()
    assert (result.epochs, result.updates) == (6, 6 * 6 * 4)


def test_elapsed_time_is_that_of_training() -> None:
    """Seconds count only while the loop runs."""
    training = Training(Pipeline(solver=Pegasos(), stopping=FEW), X, LABELS, seed=0)
    assert training.elapsed_s == 0.0
    started = time.monotonic()
    run(training)
    assert 0.0 < training.elapsed_s <= time.monotonic() - started
    rested = training.elapsed_s
    time.sleep(0.01)
    assert training.elapsed_s == rested
