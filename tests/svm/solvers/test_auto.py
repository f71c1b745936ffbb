"""`auto`: the choice depends on the data alone, and gives the model of the chosen solver."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_iris

from svm import (
    SMO,
    Auto,
    GaussianKernel,
    LinearKernel,
    Pipeline,
    SVMClassifier,
    Training,
    TrainingResult,
)
from svm.errors import InvalidData
from svm.solvers import AnyChoice, AnySolver
from svm.solvers.auto import newton_is_sooner
from svm.solvers.dual_coordinate_descent import DualCoordinateDescent
from svm.solvers.newton import Newton
from svm.stopping import Stopping
from svm.training.curve import Trace
from svm.training.training import Execution
from tests.svm.cases.stored import stored
from tests.svm.cases.trainings import bits, train, written_and_read

RANDOM = np.random.default_rng(0)
LABELS = np.arange(60) % 3
X = RANDOM.normal(size=(60, 4)) + LABELS[:, None]
WIDE = RANDOM.normal(size=(60, 2500))
GAUSSIAN = GaussianKernel(gamma=0.1)

CASES: list[tuple[Auto, Any, AnySolver, str]] = [
    (Auto(C=0.1), X, DualCoordinateDescent(C=0.1), "C times the mean"),
    (Auto(lambda_=1.0), X, DualCoordinateDescent(lambda_=1.0), "C times the mean"),
    (Auto(C=0.1), 1e3 * X, Newton(C=0.1, intercept="augmented"), "C times the mean"),
    (Auto(C=1e3, intercept="none"), X, Newton(C=1e3, intercept="none"), "C times the mean"),
    (Auto(C=0.1, intercept="free"), X, Newton(C=0.1), "the intercept is free"),
    (Auto(C=0.1), csr_array(X), DualCoordinateDescent(C=0.1), "C times the mean"),
    (Auto(C=1e3), csr_array(X), Newton(C=1e3, intercept="augmented"), "C times the mean"),
    (Auto(C=1e3), WIDE, DualCoordinateDescent(C=1e3), "rows of 2500 features"),
    (Auto(C=1e3), csr_array(WIDE), DualCoordinateDescent(C=1e3), "rows of 2500 features"),
    (Auto(C=0.1, kernel=LinearKernel()), X, DualCoordinateDescent(C=0.1), "C times the mean"),
    (Auto(kernel=GAUSSIAN), X, SMO(kernel=GAUSSIAN, intercept="augmented"), "kernel"),
    (
        Auto(kernel=GAUSSIAN, intercept="free", dtype="float32"),
        X,
        SMO(kernel=GAUSSIAN, dtype="float32"),
        "kernel",
    ),
]


def trained(solver: AnyChoice, rows: Any, **options: Any) -> tuple[Training, TrainingResult]:
    training = train(Pipeline(solver=solver), rows, LABELS, **options)
    return training, training.result()


@pytest.mark.parametrize(("asked", "rows", "taken", "why"), CASES)
def test_model_is_that_of_the_chosen_solver(
    asked: Auto, rows: Any, taken: AnySolver, why: str
) -> None:
    """To the bit; the result has the choice and its reason, and the pipeline the solver."""
    training, result = trained(asked, rows)
    assert training.pipeline.solver == taken
    assert result.warm_start.pipeline.solver == taken
    [said] = [text for text in result.notes if text.startswith("auto")]
    assert said.startswith(f"auto chose {taken.name}: ")
    assert why in said
    _, expected = trained(taken, rows)
    np.testing.assert_array_equal(result.fitted.coefficients, expected.fitted.coefficients)
    assert result.certificate == expected.certificate


def test_checkpoint_continues_with_the_same_solver() -> None:
    pipeline = Pipeline(solver=Auto(C=0.5))
    _, expected = trained(Auto(C=0.5), X)
    first = Training(pipeline, X, LABELS, seed=1)
    next(iter(first))
    second = Training(pipeline, X, LABELS, seed=1, checkpoint=first.checkpoint())
    for _ in second:
        pass
    fitted = second.result().fitted
    np.testing.assert_array_equal(fitted.coefficients, expected.fitted.coefficients)


def test_warm_start_and_stored_rows_choose_newton(tmp_path: Any) -> None:
    """Newton can do both, coordinate descent cannot."""
    _, earlier = trained(Auto(C=0.1), X)
    warm, _ = trained(Auto(C=0.2), X, warm_start=earlier.warm_start)
    assert warm.pipeline.solver == Newton(C=0.2, intercept="augmented")
    in_files, _ = trained(Auto(C=0.1), stored(X, tmp_path))
    assert in_files.pipeline.solver == Newton(C=0.1, intercept="augmented")


def test_classifier_takes_it() -> None:
    model = SVMClassifier(solver="auto", C=0.1).fit(X, LABELS)
    assert model.result_.notes[0].startswith("auto chose dual-coordinate-descent")


IRIS, SPECIES = load_iris(return_X_y=True)
SLOW = Pipeline(solver=Auto(C=0.02), stopping=Stopping(duality_gap=1e-5))
"""On two of the three pairs of species the gap of coordinate descent falls too slowly."""


def test_newton_takes_over_from_slow_coordinate_descent() -> None:
    """In each pair by itself; the gap is proven, and the result names the solver."""
    training = Training(SLOW, IRIS, SPECIES, seed=0)
    for _ in training:
        pass
    result = training.result()
    assert (result.stop_reason, result.converged) == ("gap-reached", True)
    assert all(pair.relative_gap <= 1e-5 for pair in result.certificate.pairs)
    assert result.warm_start.pipeline.solver == Newton(C=0.02, intercept="augmented")
    chose, took_over = result.notes
    assert chose.startswith("auto chose dual-coordinate-descent")
    assert took_over.startswith("newton took over")
    assert took_over.endswith("in 2 of 3 pairs")
    exact = Pipeline(solver=Newton(C=0.02, intercept="augmented"), stopping=SLOW.stopping)
    alone = Training(exact, IRIS, SPECIES, seed=0)
    for _ in alone:
        pass
    for pair, optimum in zip(
        result.certificate.pairs, alone.result().certificate.pairs, strict=True
    ):
        assert pair.dual <= optimum.primal
        assert pair.primal >= optimum.dual


@pytest.mark.parametrize("threads", [1, 3])
def test_interrupted_before_and_after_the_switch(threads: int) -> None:
    """A checkpoint at any boundary continues to the same bits."""
    undisturbed = Training(SLOW, IRIS, SPECIES, seed=0, how=Execution(threads=threads))
    checkpoints = [written_and_read(undisturbed.checkpoint())]
    checkpoints += [written_and_read(undisturbed.checkpoint()) for _ in undisturbed]
    expected = bits(undisturbed.result())
    switched = set()
    for checkpoint in checkpoints:
        again = Training(SLOW, IRIS, SPECIES, seed=0, checkpoint=checkpoint)
        switched.add(sum(pair.progress.switched for pair in again._pairs))
        assert written_and_read(again.checkpoint()).keys() == checkpoint.keys()
        for _ in again:
            pass
        assert bits(again.result()) == expected
    assert switched == {0, 1, 2}


def many_small_pairs(scale: Any = 1.0) -> tuple[Any, Any]:
    """66 pairs of six rows."""
    y = np.arange(36) % 12
    random = np.random.default_rng(3)
    return scale * (2.0 * random.normal(size=(12, 5))[y] + random.normal(size=(36, 5))), y


@pytest.mark.parametrize("intercept", ["free", "augmented", "none"])
@pytest.mark.parametrize("rows_as", [np.asarray, csr_array])
def test_many_small_pairs_are_solved_at_once_to_linear_models(rows_as: Any, intercept: Any) -> None:
    """By `smo` without a kernel, with its bits; and with those of one pair after the other."""
    rows, labels = many_small_pairs()
    pipeline = Pipeline(solver=Auto(intercept=intercept))
    result = train(pipeline, rows_as(rows), labels).result()
    assert result.converged
    assert (result.fitted.kernel, result.fitted.support_vectors) == (None, None)
    assert result.fitted.coefficients.shape == (66, 5)
    assert result.notes == ("auto chose smo: there are 66 pairs of at most 6 rows",)
    asked = Pipeline(solver=SMO(kernel=None, intercept=intercept))
    assert bits(result) == bits(train(asked, rows_as(rows), labels).result())
    traced = train(pipeline, rows_as(rows), labels, trace=Trace())
    assert bits(result) == bits(traced.result())


def test_certificates_of_small_pairs_enclose_the_optimum_of_newton() -> None:
    rows, labels = many_small_pairs()
    result = train(Pipeline(solver=Auto()), rows, labels).result()
    exact = Pipeline(solver=Newton(intercept="augmented"), stopping=Stopping(duality_gap=1e-8))
    optima = train(exact, rows, labels).result().certificate.pairs
    for pair, optimum in zip(result.certificate.pairs, optima, strict=True):
        assert pair.dual <= optimum.primal * (1.0 + 1e-12)
        assert optimum.dual * (1.0 - 1e-12) <= pair.primal <= optimum.primal * 1.0011


HARD = Pipeline(solver=Auto(C=1e6, intercept="free"))
"""Some of the small pairs take coordinate steps too many: their features differ in size."""


@pytest.mark.parametrize("threads", [1, 2])
def test_newton_takes_over_hard_small_pairs(threads: int) -> None:
    """The gap is proven, and checkpoints at any boundary continue to the same bits."""
    rows, labels = many_small_pairs([1e3, 1.0, 1e-3, 1.0, 1e-4])
    labels[:12] = labels[11::-1]
    undisturbed = Training(HARD, rows, labels, seed=0, how=Execution(threads=threads))
    checkpoints = [
        written_and_read(undisturbed.checkpoint())
        for number, _ in enumerate(undisturbed)
        if number in (3, 60)
    ]
    result = undisturbed.result()
    assert len(checkpoints) == 2
    assert result.converged
    assert any("newton took over from smo" in said for said in result.notes)
    assert result.warm_start.pipeline.solver == Newton(C=1e6)
    for checkpoint in checkpoints:
        again = train(HARD, rows, labels, checkpoint=checkpoint)
        assert bits(again.result()) == bits(result)
    assert bits(train(HARD, rows, labels, trace=Trace()).result()) == bits(result)


def test_newton_takes_over_from_zero_what_smo_cannot_begin() -> None:
    """From weights of a million steps it would find no bound in hundreds of steps."""
    rows = np.random.default_rng(7).normal(size=(26, 4)) * [1e6, 1.0, 1e-3, 1.0]
    for intercept in ("free", "augmented", "none"):
        solver = Auto(C=1e6, intercept=intercept)
        result = train(Pipeline(solver=solver), rows, np.arange(26) // 2).result()
        assert (result.converged, result.epochs <= 60) == (True, True)


def test_a_model_of_small_pairs_starts_others() -> None:
    """Linear solvers begin from its weights, `smo` from its dual variables."""
    rows, labels = many_small_pairs()
    earlier = train(Pipeline(solver=Auto()), rows, labels).result()
    starts: list[AnyChoice] = [Auto(), Newton(), SMO(kernel=None, intercept="augmented")]
    for solver in starts:
        later = train(Pipeline(solver=solver), rows, labels, warm_start=earlier.warm_start).result()
        assert later.converged
    assert later.epochs == 0
    for other in (SMO(), Auto(kernel=GAUSSIAN)):
        with pytest.raises(InvalidData, match=r"kernel|trained by smo"):
            train(Pipeline(solver=other), rows, labels, warm_start=earlier.warm_start)


def test_gap_that_falls_is_not_given_up_with_many_features() -> None:
    """Newton steps are slow there, or needed in large numbers."""
    for rows, broad in ((WIDE, True), (csr_array(WIDE), True), (X, False)):
        problem = Training(Pipeline(solver=Auto()), rows, LABELS, seed=0).problems[0]
        assert newton_is_sooner(problem, 1e9, 1e30) is not broad
        assert newton_is_sooner(problem, 1e9, math.inf)
        assert not newton_is_sooner(problem, 1e9, 1.0)
    assert not newton_is_sooner(problem, 1.0, math.inf)  # before the probe is over
