"""`newton`: its number of steps. `test_certificates` shows that it reaches the optimum."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import newton_reads
from benchmarks.problems import image_like
from svm import Auto, Newton, Pipeline, Stopping, Training
from svm.data.matrices import Vector
from svm.hyperparameters import Intercept
from svm.problem import objectives
from svm.problem.objectives import dual
from svm.problem.problem import RUN
from svm.solvers.newton import SAMPLE_SHARE, SAMPLED_FROM
from svm.solvers.smoothing import newton_steps, small_problems
from svm.solvers.smoothing.small_problems import ROWS
from svm.solvers.smoothing.smoothed_hinge import LINE_SEARCH, Active, solver_of_hessian
from svm.training.checkpoints import flatten
from svm.training.curve import Trace
from tests.svm.cases.problems import CASES, FORMS, Case, Form, problem_of
from tests.svm.cases.stored import stored
from tests.svm.cases.trainings import bits, train, written_and_read


@pytest.mark.parametrize("intercept", ["none", "free"])
@pytest.mark.parametrize("C", [10.0, 100.0])
def test_steps_after_less_smoothing_are_few(C: float, intercept: Intercept) -> None:
    """Steps to a gap of 0.1 %. With the curvature of the rows near the new, narrower margin alone
    there were 39 to 58."""
    X, labels = image_like(1500, 120)
    result = train(Pipeline(solver=Newton(C=C, intercept=intercept)), X, labels).result()
    assert result.stop_reason == "gap-reached"
    assert result.epochs <= 36


@pytest.mark.parametrize(("C", "steps"), [(0.1, 11), (1.0, 22)])
def test_steps_on_many_features_are_few(C: float, steps: int) -> None:
    """Steps to a gap of 0.1 %. Without centers of the smoothing there were 13 and 33."""
    X, labels = image_like(3000, 300)
    result = train(Pipeline(solver=Newton(C=C, intercept="none")), X, labels).result()
    assert result.stop_reason == "gap-reached"
    assert result.epochs <= steps


def test_gap_takes_few_passes() -> None:
    """Before the sums over the rows were updated, there were 33."""
    assert newton_reads.main(500_000, (1.0,))[1.0] <= 12.0


@pytest.mark.parametrize("intercept", ["none", "augmented", "free"])
@pytest.mark.parametrize("form", FORMS)
def test_updated_sums_are_those_over_all_rows(form: Form, intercept: Intercept) -> None:
    """At the end the primal value and the bound are summed again: updates had changed neither."""
    problem = problem_of(repeated(CASES["weighted"]), intercept, form)
    solver = Newton(C=1.0, intercept=intercept)
    state = solver.start(problem)
    for _ in range(8):
        state = solver.advance(problem, state)
        renewed = solver.renew(problem, state)
        assert renewed.best_primal == pytest.approx(state.best_primal, rel=1e-10)
        assert renewed.best_dual == pytest.approx(state.best_dual, rel=1e-10, abs=1e-12)
        alpha = problem.weights * renewed.best_slopes
        assert renewed.best_dual == pytest.approx(dual(problem, alpha), rel=1e-10, abs=1e-12)


def repeated(case: Case) -> Case:
    """The same objective, with enough rows that each pass over them is a call."""
    times = ROWS // len(case.y) + 1
    X, y, weights = (np.repeat(values, times, axis=0) for values in (case.X, case.y, case.weights))
    return Case(X, y, weights, case.regularization)


@pytest.mark.parametrize("intercept", ["none", "augmented", "free"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_steps_of_small_problems_are_those_in_passes(case: Case, intercept: Intercept) -> None:
    """The first step is the same, the optimum too; all values belong to the weights, or are sums
    over the rows of the bound, at every step, with the bits of several steps in one call."""
    solver = Newton(C=1.0, intercept=intercept)
    small, large = problem_of(case, intercept), problem_of(repeated(case), intercept)
    states, passes = [solver.start(small)], [solver.start(large)]
    while not (states[-1].stopped or len(states) > 60):
        states.append(solver.advance(small, states[-1]))
        passes.append(solver.advance(large, passes[-1]))
        state = states[-1]
        primal, error = solver.evaluation(small, state)
        scores = solver.scores(small, state)
        expected = small.scores(state.best_w, state.best_intercept)
        np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-9)
        assert primal == pytest.approx(
            objectives.primal(small, state.best_w, state.best_intercept), rel=1e-12
        )
        assert error == objectives.error_of(small, scores)
        assert solver.bound(small, state) <= min(state.best_primal, passes[-1].best_primal) + 1e-12
        assert solver.renew(small, state) == state
    first, expected_first = states[1], passes[1]
    near = 4.0 * LINE_SEARCH
    np.testing.assert_allclose(first.w, expected_first.w, rtol=near, atol=1e-9)
    assert first.intercept == pytest.approx(expected_first.intercept, rel=near, abs=1e-9)
    last = states[-1]
    assert last.best_primal == pytest.approx(passes[-1].best_primal, rel=1e-8)
    assert last.best_primal - last.best_dual <= 1e-9 * last.best_primal
    for gap in (0.1, 1e-3):
        [solved] = small_problems.solve([small], [states[0]], gap, 60)
        reached = next(s for s in states if newton_steps.relative_gap_of(s) <= gap)
        assert flatten(solved[0].state, "").keys() == flatten(reached, "").keys()
        for name, value in flatten(solved[0].state, "").items():
            np.testing.assert_array_equal(value, flatten(reached, "")[name])


def test_many_middle_sized_pairs_have_the_bits_of_one_after_the_other() -> None:
    """`auto` gives them to newton; a trace, or an interruption between two reports, changes
    nothing."""
    y = np.arange(540) % 9
    X = np.random.default_rng(0).normal(size=(9, 6))[y]
    X += np.random.default_rng(1).normal(size=X.shape)
    pipeline = Pipeline(solver=Auto())
    undisturbed = train(pipeline, X, y).result()
    assert undisturbed.notes == ("auto chose newton: there are 36 pairs of at most 120 rows",)
    assert undisturbed.certificate.status == "certified"
    assert bits(train(pipeline, X, y, trace=Trace()).result()) == bits(undisturbed)
    some = Training(pipeline, X, y, seed=0)
    next(iter(some))
    assert 0 < len(some.unfinished) < 36
    checkpoint = written_and_read(some.checkpoint())
    assert bits(train(pipeline, X, y, checkpoint=checkpoint).result()) == bits(undisturbed)


def many_rows(n: int) -> tuple[Vector, Vector]:
    """Two classes that overlap; all rows of one come first."""
    random = np.random.default_rng(0)
    labels = np.repeat([-1.0, 1.0], n // 2)
    return random.normal(size=(n, 3)) + 0.7 * labels[:, None], labels


def test_many_rows_begin_where_a_sample_ends() -> None:
    """The few remaining steps lead to the optimum of all rows."""
    X, labels = many_rows(SAMPLED_FROM[0])
    pipeline = Pipeline(solver=Newton(C=1.0), stopping=Stopping(duality_gap=1e-6))
    many = train(pipeline, X, labels).result()
    fewer = train(pipeline, X[:-2], labels[:-2]).result()
    assert many.stop_reason == fewer.stop_reason == "gap-reached"
    assert many.epochs <= fewer.epochs - 4
    for one, other in zip(many.certificate.pairs, fewer.certificate.pairs, strict=True):
        assert one.primal == pytest.approx(other.primal, rel=1e-4)


def test_useless_sample_does_no_harm() -> None:
    """The rows of the sample have one label, the others both."""
    X, labels = many_rows(SAMPLED_FROM[0])
    order = np.random.default_rng(1).permutation(len(X))
    X, labels = X[order], labels[order]
    sampled = np.arange(len(X)) // RUN % SAMPLE_SHARE == 0
    labels[sampled] = 1.0
    result = train(Pipeline(solver=Newton(C=1.0)), X, labels).result()
    assert result.stop_reason == "gap-reached"


def test_same_bits_from_files_after_a_sample(tmp_path: Path) -> None:
    X, labels = many_rows(SAMPLED_FROM[0])
    pipeline = Pipeline(solver=Newton(C=1.0))
    in_memory = train(pipeline, X, labels).result()
    from_files = train(pipeline, stored(X, tmp_path), labels).result()
    assert from_files.certificate == in_memory.certificate


def test_features_that_differ_by_rounding() -> None:
    """Their Hessian is indefinite in single precision; it is computed again in double."""
    random = np.random.default_rng(0)
    one = random.normal(size=(400, 1))
    X = np.hstack([one + 1e-6 * random.normal(size=(400, 1)) for _ in range(40)])
    labels = np.where(one[:, 0] + 0.3 * random.normal(size=400) > 0, 1.0, -1.0)
    result = train(Pipeline(solver=Newton(C=1e4, intercept="none")), X, labels).result()
    assert result.stop_reason == "gap-reached"


@pytest.mark.parametrize("C", [1e14, 1e20, 1e100])
def test_hessian_that_rounding_makes_indefinite(C: float) -> None:
    """Almost no penalty, and more features than rows near the margin: the diagonal of the almost
    flat Hessian is increased until it can be factored."""
    X = np.random.default_rng(0).normal(size=(50, 300))
    labels = np.random.default_rng(1).integers(0, 2, 50)
    result = train(Pipeline(solver=Newton(C=C)), X, labels).result()
    worst = result.certificate.worst
    assert 0.0 <= worst.dual <= worst.primal * (1.0 + 1e-12)
    assert (result.fitted.predict(X) == labels).all()


def test_direction_too_flat_for_float64_ends_the_conjugate_gradients() -> None:
    """Its curvature is 0 in float64: there is no division by it, and no step along it."""
    case = Case(np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([1.0, -1.0]), np.ones(2), 1e-100)
    problem = problem_of(case, "free", "csr-float64")
    solve, _ = solver_of_hessian(problem, Active.at(np.arange(2), 1.0), rough=False)
    assert solve(np.array([1e-120, 1e-120, 0.0]))[0].tolist() == [0.0, 0.0, 0.0]
