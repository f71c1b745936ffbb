"""A training that is checkpointed at any point and resumed ends with the bits of an undisturbed
one."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from svm.errors import CheckpointMismatch, Interrupted
from svm.model.pipeline import Pipeline
from svm.problem.problem import Problem
from svm.solvers import (
    AnySolver,
    DualCoordinateDescent,
    GradientDescent,
    Newton,
    Pegasos,
)
from svm.stopping import CostChange, Stopping
from svm.training.binary_training import BinaryTraining
from svm.training.training import Execution, Training
from tests.svm.cases.problems import SOLVER_INTERCEPTS, Form, blobs, in_form, solver_of
from tests.svm.cases.trainings import (
    bits,
    interrupting_at,
    interrupting_from,
    options,
    run,
    train,
    written_and_read,
)
from tests.svm.cases.variants import VARIANTS

X, LABELS = blobs(3)
CUTS = (0, 1, 2, 4, 9, 20)


def resumed(training: Training, rows: Any, labels: Any = LABELS, **others: Any) -> Training:
    """The training that continues from the checkpoint of the given one, through a file."""
    return Training(
        training.pipeline,
        rows,
        labels,
        seed=training.seed,
        checkpoint=written_and_read(training.checkpoint()),
        **options(**others),
    )


def ends(training: Training) -> bool:
    """Whether it trains to its end without an interruption."""
    try:
        run(training)
    except Interrupted:
        return False
    return True


CHOSEN = [*(solver_of(name, intercept=each, C=5.0) for name, each in SOLVER_INTERCEPTS), *VARIANTS]
DIAGONALS: list[tuple[Form, Form]] = [
    ("dense-float64", "csr-float32"),
    ("dense-float32", "csr-float64"),
]
"""Each has both layouts and both precisions."""
MATRIX = [
    pytest.param(solver, form, id=f"{solver.name}-{solver.intercept}-{form}")
    for k, solver in enumerate(CHOSEN)
    for form in DIAGONALS[k % 2]
]


def pipeline_of(solver: AnySolver, form: Form) -> Pipeline:
    """Ends by the gap for some pairs and by the number of epochs for others."""
    dtype: Any = form.split("-")[1]
    stopping = Stopping(max_epochs=6, duality_gap=1e-3)
    return Pipeline(solver=replace(solver, dtype=dtype), scaling="max-abs", stopping=stopping)


@pytest.mark.spread(3)
@pytest.mark.parametrize(("solver", "form"), MATRIX)
def test_interrupted_anywhere_and_resumed(solver: AnySolver, form: Form) -> None:
    """Three pairs, interrupted at random calls again and again, each time resumed from a file by
    one thread or by three: model and certificate have the bits of an undisturbed training, and the
    result at a cut is the same on both sides."""
    pipeline, rows, looks = pipeline_of(solver, form), in_form(X, form), itertools.count()

    def count() -> None:
        next(looks)

    undisturbed = Training(pipeline, rows, LABELS, seed=0, how=Execution(interrupted=count))
    begins = next(looks) + 1  # the calls until there is a state, and one
    run(undisturbed)
    expected, whole = bits(undisturbed.result()), next(looks)
    random, cuts = np.random.default_rng(whole), 0
    training = Training(
        pipeline, rows, LABELS, seed=0, how=Execution(interrupted=interrupting_from(begins))
    )
    while not ends(training):
        cuts += 1
        again = resumed(
            training,
            rows,
            interrupted=interrupting_from(int(random.integers(begins, whole // 2))),
            threads=int(random.choice([1, 3])),
        )
        assert bits(again.result()) == bits(training.result())
        training = again
    assert cuts >= 3  # no attempt makes half of the calls
    assert bits(training.result()) == expected
    assert bits(resumed(training, rows).result()) == expected


@pytest.mark.spread(3)
@pytest.mark.parametrize(("solver", "form"), MATRIX)
def test_same_seed_same_bits_with_any_threads(solver: AnySolver, form: Form) -> None:
    """Also if the threads take the pairs in another order every time."""
    pipeline, rows = pipeline_of(solver, form), in_form(X, form)
    alone = train(pipeline, rows, LABELS, seed=4)
    for _ in range(2):
        together = train(pipeline, rows, LABELS, seed=4, threads=3)
        assert bits(together.result()) == bits(alone.result())


@pytest.mark.parametrize("threads", [1, 2])
def test_checkpoint_between_threads(threads: int) -> None:
    """Checkpoints taken while other pairs train in threads resume to the same bits, with any
    number of threads."""
    pipeline = Pipeline(solver=Pegasos(), stopping=Stopping(max_epochs=8))
    expected = bits(train(pipeline, X, LABELS).result())
    training = Training(pipeline, X, LABELS, seed=0, how=Execution(threads=2))
    checkpoints = [written_and_read(training.checkpoint()) for _ in training]
    for checkpoint in checkpoints[::2]:
        again = Training(
            pipeline, X, LABELS, seed=0, checkpoint=checkpoint, how=Execution(threads=threads)
        )
        run(again)
        assert bits(again.result()) == expected


def test_checkpoints_have_only_what_is_needed() -> None:
    """Nothing of pairs that have not begun, and of finished ones only what the result needs."""
    pipeline = Pipeline(solver=DualCoordinateDescent(), multiclass="one-vs-rest")
    training = Training(pipeline, X, LABELS, seed=0)
    assert training.checkpoint()["begun"].tolist() == []
    next(iter(training))
    begun = training.checkpoint()
    assert begun["begun"].tolist() == [0]
    assert not [name for name in begun if name.startswith(("1.", "2."))]
    again = resumed(training, X)
    run(training)
    run(again)
    assert bits(again.result()) == bits(training.result())
    assert training.checkpoint()["0.state.w"].size == 0
    assert bits(resumed(training, X).result()) == bits(training.result())


@pytest.mark.parametrize("batch_size", ["all", 4])
def test_cost_change_rule_is_resumed(batch_size: Any) -> None:
    """The values of the rule are in the checkpoint: a resumed training stops at the same update."""
    for solver in (
        GradientDescent(batch_size=batch_size, learning_rate=0.003),
        Newton(),
        Pegasos(),
    ):
        stopping = Stopping(cost_change=CostChange(epsilon=2.0), max_epochs=200)
        pipeline = Pipeline(solver=solver, stopping=stopping)
        expected = train(pipeline, X, LABELS).result()
        assert expected.stop_reason == "converged"
        for cut in CUTS:
            training = Training(pipeline, X, LABELS, seed=0)
            for _, _ in zip(range(cut), training, strict=False):
                pass
            again = resumed(training, X)
            run(again)
            assert bits(again.result()) == bits(expected)


def repeated_rows(n_samples: int, n_features: int) -> Problem:
    """Many rows in little memory: the problem holds row numbers, and these may repeat."""
    random = np.random.default_rng(1)
    rows = np.sort(random.integers(20, size=n_samples))
    return Problem(
        X=random.normal(size=(20, n_features)),
        some_rows=rows,
        y=np.where(random.uniform(size=n_samples) < 0.1 + 0.04 * rows, 1.0, -1.0),
        unequal_weights=np.ones(n_samples),
        regularization=0.01,
        intercept="augmented",
    )


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    "solver",
    [
        Pegasos(intercept="augmented"),
        Pegasos(intercept="augmented", batch_size=1000),
        DualCoordinateDescent(),
        GradientDescent(intercept="augmented", batch_size=1000),
        GradientDescent(intercept="augmented"),
        Newton(intercept="augmented"),
    ],
    ids=repr,
)
def test_epoch_interrupted_between_its_blocks(
    solver: Pegasos | DualCoordinateDescent | GradientDescent | Newton,
) -> None:
    """A long epoch is interrupted in its middle, and repeated from the state before it: no state is
    changed in place."""
    newton = isinstance(solver, Newton)  # it calls `interrupted` while it builds the Hessian
    problem = repeated_rows(5000, 10) if newton else repeated_rows(40_000, 2000)
    assert newton or problem.block_rows < problem.n_samples // 2
    before = solver.start(problem)
    kept = {name: np.copy(value) for name, value in vars(before).items()}
    expected = solver.advance(problem, before)  # type: ignore[arg-type]
    disturbed = replace(problem, interrupted=interrupting_at(3))
    with pytest.raises(Interrupted):
        solver.advance(disturbed, before)  # type: ignore[arg-type]
    for name, value in vars(before).items():
        np.testing.assert_array_equal(value, kept[name])
    again = solver.advance(disturbed, before)  # type: ignore[arg-type]
    for name, value in vars(expected).items():
        np.testing.assert_array_equal(getattr(again, name), value)


def test_epoch_in_several_advances() -> None:
    """If every update costs a pass over many rows, gradient descent advances by a part of an epoch;
    a checkpoint can be taken after each part."""
    problem = replace(repeated_rows(40_000, 2000), cost_change=CostChange(epsilon=1e-9))
    solver = GradientDescent(intercept="augmented", batch_size=10_000, learning_rate=1e-4)
    state, seen = solver.start(problem), []
    for _ in range(5):
        state = solver.advance(problem, state)
        seen.append((state.epoch, state.updates))
    assert seen == [(0, 1), (0, 2), (0, 3), (1, 4), (1, 5)]
    whole = replace(problem, cost_change=None)
    epoch = solver.advance(whole, solver.start(whole))
    two = solver.advance(whole, epoch)
    assert two.updates == 8
    for _ in range(3):
        state = solver.advance(problem, state)
    np.testing.assert_array_equal(state.w, two.w)
    assert state.intercept == two.intercept


BASE = Pipeline(solver=Pegasos(), stopping=Stopping(max_epochs=9))
OTHERS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "seed": lambda given: {**given, "seed": 1},
    "hyperparameters": lambda given: {**given, "pipeline": replace(BASE, solver=Pegasos(C=2.0))},
    "solver": lambda given: {**given, "pipeline": replace(BASE, solver=Newton())},
    "scaling": lambda given: {**given, "pipeline": replace(BASE, scaling="max-abs")},
    "stopping": lambda given: {**given, "pipeline": replace(BASE, stopping=Stopping())},
    "one value": lambda given: {**given, "X": X + 1e-9 * (np.arange(X.size) == 7).reshape(X.shape)},
    "order of rows": lambda given: {**given, "X": X[::-1]},
    "order of labels": lambda given: {**given, "labels": np.roll(LABELS, 1)},
    "names of classes": lambda given: {**given, "labels": LABELS + 1},
    "a row less": lambda given: {**given, "X": X[:-1], "labels": LABELS[:-1]},
    "a column more": lambda given: {**given, "X": np.column_stack([X, X[:, 0]])},
    "sparse": lambda given: {**given, "X": in_form(X, "csr-float64")},
}


@pytest.mark.parametrize("other", OTHERS)
def test_checkpoint_of_another_training_is_refused(other: str) -> None:
    """Other data, labels, hyperparameters or another seed: CheckpointMismatch."""
    checkpoint = train(BASE, X, LABELS).checkpoint()
    given = {"pipeline": BASE, "X": X, "labels": LABELS, "seed": 0, "checkpoint": checkpoint}
    Training(**given)  # type: ignore[arg-type]
    with pytest.raises(CheckpointMismatch, match="other data, settings or seed"):
        Training(**OTHERS[other](given))


def test_digest_replaces_the_rows_in_the_fingerprint() -> None:
    """With a digest from the caller the rows are not read for the fingerprint, and another digest
    is refused."""
    checkpoint = train(BASE, X, LABELS, digest="mine").checkpoint()
    again = {"seed": 0, "checkpoint": checkpoint}
    Training(BASE, X, LABELS, **again, how=Execution(digest="mine"))  # type: ignore[arg-type]
    Training(BASE, X + 1, LABELS, **again, how=Execution(digest="mine"))  # type: ignore[arg-type]
    for other in ("yours", None):
        with pytest.raises(CheckpointMismatch, match="other data, settings or seed"):
            Training(BASE, X, LABELS, **again, how=Execution(digest=other))  # type: ignore[arg-type]


def test_checkpoint_has_few_arrays_of_rows() -> None:
    """A newton checkpoint has scores, centers and perhaps best slopes of the rows, from which their
    slopes follow."""
    pipeline = Pipeline(solver=Newton(), stopping=Stopping(max_epochs=3))
    checkpoint = train(pipeline, X, LABELS).checkpoint()
    long = {name for name, array in checkpoint.items() if array.size > 2 * X.shape[1]}
    of_rows = {"state.scores", "state.centers", "state.best_slopes"}
    assert {name.split(".", 1)[1] for name in long} <= of_rows


def test_other_time_budget_is_accepted() -> None:
    """A resumed training may have another budget; the states do not depend on it."""
    checkpoint = written_and_read(train(BASE, X, LABELS).checkpoint())
    longer = replace(BASE, stopping=replace(BASE.stopping, time_budget_s=100.0))
    Training(longer, X, LABELS, seed=0, checkpoint=checkpoint)


def test_incomplete_checkpoint_is_refused() -> None:
    """Each field except the platform is needed, with its kind of number and its dimensions."""
    training = Training(BASE, X, LABELS, seed=0)
    for _ in training:
        break
    checkpoint = training.checkpoint()
    for name in checkpoint:
        lacking = {key: value for key, value in checkpoint.items() if key != name}
        again: dict[str, Any] = {"seed": 0, "checkpoint": lacking}
        if name == "platform":
            assert Training(BASE, X, LABELS, **again).warnings
            continue
        with pytest.raises(CheckpointMismatch):
            Training(BASE, X, LABELS, **again)
    for wrong in (np.zeros((2, 2)), np.array("text")):
        again = {"seed": 0, "checkpoint": {**checkpoint, "0.state.v": wrong}}
        with pytest.raises(CheckpointMismatch, match=r"0\.state\.v"):
            Training(BASE, X, LABELS, **again)
    numbers = json.loads(str(checkpoint["0.state.numbers"]))
    for number in (None, "1", 1.5):
        spoilt = np.array(json.dumps({**numbers, "step": number}))
        again = {"seed": 0, "checkpoint": {**checkpoint, "0.state.numbers": spoilt}}
        with pytest.raises(CheckpointMismatch, match=r"0\.state\.step"):
            Training(BASE, X, LABELS, **again)


def test_other_platform_warns() -> None:
    """A checkpoint from other libraries or another processor is accepted, with a warning in the
    result."""
    training = Training(BASE, X, LABELS, seed=0)
    for _ in training:
        break
    checkpoint = {**training.checkpoint(), "platform": np.array("abacus")}
    again = Training(BASE, X, LABELS, seed=0, checkpoint=checkpoint)
    run(again)
    [warning] = again.result().warnings
    assert "last bits" in warning
    assert resumed(training, X).result().warnings == ()


def test_checkpoint_is_plain_arrays() -> None:
    """No objects: it can be written without pickling. Elapsed time continues from its value."""
    training = train(BASE, X, LABELS)
    checkpoint = training.checkpoint()
    assert all(isinstance(value, np.ndarray) for value in checkpoint.values())
    assert not any(value.dtype.hasobject for value in checkpoint.values())
    assert resumed(training, X).elapsed_s == training.elapsed_s > 0.0


def test_checkpoint_does_not_change() -> None:
    """A checkpoint does not change while the training continues."""
    training = Training(BASE, X, LABELS, seed=0)
    iteration = iter(training)
    next(iteration)
    checkpoint = training.checkpoint()
    kept = {name: value.copy() for name, value in checkpoint.items()}
    for _ in iteration:
        pass
    for name, value in kept.items():
        np.testing.assert_array_equal(checkpoint[name], value)


def test_steps_change_nothing() -> None:
    """A step returns a new training and does not change the old one."""
    training = Training(BASE, X, LABELS, seed=0)
    problem = training.problems[0]
    first = BinaryTraining.begin(Pegasos(), problem, BASE.stopping)
    second = first.step(False)
    again = first.step(False)
    assert first.progress.advances == 0
    assert second.progress == again.progress
    np.testing.assert_array_equal(second.state.v, again.state.v)
    assert not first.state.v.any()
