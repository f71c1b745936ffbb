"""Every solver on every problem: the certificate encloses an optimum computed by other
libraries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from sklearn.svm import SVC

from benchmarks.problems import image_like
from svm import Pegasos
from svm.hyperparameters import Intercept
from svm.kernel.kernels import LinearKernel
from svm.model.pipeline import Pipeline
from svm.problem.certificate import Certificate, PairCertificate
from svm.problem.objectives import evaluate
from svm.problem.problem import Problem
from svm.solvers import SOLVERS, KernelPegasos
from svm.solvers.smoothing.smoothed_hinge import row_work
from svm.stopping import Stopping
from svm.training.binary_training import CERTIFIER_SHARE, LAST_CERTIFIER_WORK, BinaryTraining
from svm.training.training import Training
from svm.transforms.scaling import ScalingName
from tests.svm.cases.optima import optimum
from tests.svm.cases.problems import (
    CASES,
    FORMS,
    INTERCEPTS,
    SOLVER_INTERCEPTS,
    Form,
    blobs,
    in_form,
    intercepts_of,
    problem_of,
    solver_of,
)
from tests.svm.cases.variants import VARIANTS

ROUNDING = 1e-12
EXACT_SOLVERS = tuple(name for name in SOLVERS if solver_of(name).certifies)
"""Those that reach any gap; the stochastic ones only approach the optimum."""


def trained(solver: str, problem: Problem, stopping: Stopping) -> BinaryTraining:
    chosen = solver_of(solver, intercept=problem.intercept)
    problem = replace(problem, kernel=getattr(chosen, "kernel", None))
    training = BinaryTraining.begin(chosen, problem, stopping.resolve())
    while not training.progress.finished:
        training = training.step(False)
    return training


@pytest.mark.spread(3)
@pytest.mark.parametrize(("solver", "intercept"), SOLVER_INTERCEPTS)
@pytest.mark.parametrize(
    ("name", "form"),
    [
        (name, form)
        for name in CASES
        # Two forms have both layouts and both precisions.
        for form in (FORMS if name == "weighted" else ("dense-float64", "csr-float32"))
    ],
)
def test_certificate_brackets_the_optimum(
    name: str, solver: str, intercept: Intercept, form: Form
) -> None:
    """dual ≤ optimum ≤ primal, the dual within 1 % of the optimum for any model, and the primal is
    that of the model in the result."""
    problem = problem_of(CASES[name], intercept, form)
    training = trained(solver, problem, Stopping(max_epochs=30))
    lower, upper = optimum(name, intercept)
    now = training.progress
    assert now.dual <= upper * (1.0 + ROUNDING)
    assert now.primal >= lower * (1.0 - ROUNDING)
    assert now.dual >= 0.99 * lower
    model = training.solver.classifier(training.problem, training.state)
    # `smo` has kept its scores up to date for many steps; `newton` adds products in another order.
    rounding = {"smo": 1e-12, "newton": 1e-13}.get(solver, 0.0)
    assert evaluate(training.problem, model)[0] == pytest.approx(now.primal, rel=rounding, abs=0)


@pytest.mark.parametrize("form", ["dense-float64", "csr-float64"])
@pytest.mark.parametrize(
    ("solver", "name"),
    [
        (solver, name)
        for solver in EXACT_SOLVERS
        for name in CASES
        # Coordinate descent is slow at large C: 40,000 passes over these 40 rows.
        if (solver, name) != ("dual-coordinate-descent", "little regularization")
    ],
)
def test_asked_gap_is_reached(name: str, solver: str, form: Form) -> None:
    """`duality_gap` ends the training, with a model that close to the optimum."""
    for intercept in intercepts_of(solver):
        problem = problem_of(CASES[name], intercept, form)
        training = trained(solver, problem, Stopping(max_epochs=3000, duality_gap=1e-4))
        now, lower = training.progress, optimum(name, intercept).lower
        assert now.stop_reason in ("gap-reached", "converged")
        assert now.relative_gap <= 1e-4
        assert now.primal <= lower * (1.0 + 1.3e-4)  # the peer's own gap is 2e-5


@pytest.mark.parametrize("name", CASES)
def test_newton_reaches_the_last_digits(name: str) -> None:
    """Newton reaches a gap of 1e-8, even on badly conditioned problems."""
    for intercept in INTERCEPTS:
        problem = problem_of(CASES[name], intercept)
        training = trained("newton", problem, Stopping(max_epochs=500, duality_gap=1e-8))
        assert training.progress.relative_gap <= 1e-8


@pytest.mark.parametrize(("solver", "intercept"), SOLVER_INTERCEPTS)
def test_bound_never_falls(solver: str, intercept: Intercept) -> None:
    """The lower bound belongs to the problem: the best one is kept, step by step. At the end it is
    summed again over all rows, to other last bits."""
    problem = problem_of(CASES["noisy"], intercept)
    chosen = solver_of(solver, intercept=intercept)
    problem = replace(problem, kernel=getattr(chosen, "kernel", None))
    training = BinaryTraining.begin(chosen, problem, Stopping(max_epochs=20))
    bounds = [training.progress.dual]
    while not training.progress.finished:
        training = training.step(False)
        bounds.append(training.progress.dual)
    assert bounds[0] == 0.0
    assert bounds[:-1] == sorted(bounds[:-1])
    assert bounds[-1] >= bounds[-2] * (1.0 - 1e-14)


LINEAR_VARIANTS: list[Any] = [
    replace(each, kernel=LinearKernel()) if isinstance(each, KernelPegasos) else each
    for each in VARIANTS
]


@pytest.mark.parametrize("name", ["noisy", "weighted", "little regularization"])
@pytest.mark.parametrize("solver", LINEAR_VARIANTS, ids=repr)
def test_bounds_of_solvers_with_options(solver: Any, name: str) -> None:
    """The optimum lies between primal and dual, also if the training ends within an epoch; the
    certifier finds a good bound if the solver has none."""
    case = CASES[name]
    problem = problem_of(case, solver.intercept, kernel=getattr(solver, "kernel", None))
    best = optimum(name, solver.intercept)
    stopping = Stopping(max_updates=3 * len(case.y) + 5)
    problem = replace(problem, max_updates=stopping.max_updates)
    training = BinaryTraining.begin(solver, problem, stopping)
    while not training.progress.finished:
        training = training.step(False)
    now = training.progress
    if solver.name == "newton":  # needs fewer updates
        assert now.stop_reason == "converged"
    else:
        assert (now.stop_reason, training.state.updates) == ("max-updates", stopping.max_updates)
    assert now.dual <= best.upper * (1.0 + 1e-12)
    assert now.primal >= best.lower * (1.0 - 1e-12)
    assert now.dual >= 0.98 * best.lower


ALL: list[Any] = [
    *(solver_of(solver, intercept=intercept) for solver, intercept in SOLVER_INTERCEPTS),
    *LINEAR_VARIANTS,
]


@pytest.mark.parametrize("scaling", get_args(ScalingName))
@pytest.mark.parametrize("chosen", ALL, ids=repr)
def test_multiclass_certificate_is_the_worst_pairs(chosen: Any, scaling: ScalingName) -> None:
    """One certificate for each pair, with the model's primal value on the scaled rows of its two
    classes; the model's is the one with the largest relative gap."""
    X, labels = blobs(3)
    solver, intercept = chosen.name, chosen.intercept
    pipeline = Pipeline(
        solver=replace(chosen, C=2.0),
        scaling=scaling,
        stopping=Stopping(max_epochs=10),
    )
    training = Training(pipeline, X, labels, seed=1)
    for _ in training:
        pass
    result = training.result()
    fitted, pairs = result.fitted, result.certificate.pairs
    assert [pair.classes for pair in pairs] == [(0, 1), (0, 2), (1, 2)]
    assert max(pair.relative_gap for pair in pairs) == result.certificate.worst.relative_gap
    scaled = np.asarray(fitted.scaling.transform(X))
    for k, pair in enumerate(pairs):
        i, j = pair.classes
        rows = np.flatnonzero((labels == i) | (labels == j))
        y = np.where(labels[rows] == j, 1.0, -1.0)
        w, b = fitted.coefficients[k], float(fitted.intercepts[k])
        if fitted.support_vectors is not None:  # of a linear kernel
            w = np.asarray(w @ fitted.support_vectors)
        losses = np.maximum(0.0, 1.0 - y * (scaled[rows] @ w + b))
        C, norm = 2.0, float(w @ w) + (b * b if intercept == "augmented" else 0.0)
        objective = solver_of(solver).objective
        weight = 1.0 if objective.startswith("‖w‖²") else 0.5
        stated = weight * norm + C * float(losses.sum())
        assert pair.primal == pytest.approx(stated / (C * len(rows)), rel=1e-11)
        common = "(1/n) Σ hinge" in objective
        assert pair.solver_objective == pytest.approx(pair.primal if common else stated, rel=1e-11)


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_the_same_data_have_the_same_bounds(form: Form) -> None:
    """Dense, sparse and single-precision trainings certify the same optimum."""
    X, labels = blobs(2)
    peer = SVC(kernel="linear", tol=1e-10).fit(X, labels)
    losses = np.maximum(0.0, 1.0 - np.where(labels > 0, 1.0, -1.0) * peer.decision_function(X))
    expected = float(np.sum(peer.coef_**2)) / (2.0 * len(X)) + float(losses.mean())
    pipeline = Pipeline(
        solver=solver_of("newton", dtype=form.split("-")[1]), stopping=Stopping(duality_gap=1e-7)
    )
    training = Training(pipeline, in_form(X, form), labels, seed=0)
    for _ in training:
        pass
    [pair] = training.result().certificate.pairs
    assert pair.primal == pytest.approx(expected, rel=1e-6)
    assert pair.relative_gap <= 1e-7


def test_certificate_as_json() -> None:
    """gap = primal - dual, relative_gap = gap / primal; pairs are named by their labels."""
    pairs = (
        PairCertificate(classes=(0, 1), primal=0.5, dual=0.4, solver_objective=5.0),
        PairCertificate(classes=(0, 2), primal=0.1, dual=0.05, solver_objective=1.0),
        PairCertificate(classes=(1, 2), primal=0.0, dual=0.0, solver_objective=0.0),
    )
    document = Certificate(pairs, asked_gap=1e-3).as_dict(np.array(["cat", "dog", "eel"]))
    assert {key: document[key] for key in document if key != "pairs"} == {
        "primal": 0.1,
        "dual": 0.05,
        "gap": 0.05,
        "relative_gap": 0.5,
        "excess": 1.0,
        "solver_objective": 1.0,
        "status": "open",
        "kernel": None,
        "exact": None,
        "summary": "Not converged: its cost may be up to 2 times the lowest possible, in the worst "
        "of 3 pairs (cat against eel).",
    }
    assert [pair["classes"] for pair in document["pairs"]] == [
        ["cat", "dog"],
        ["cat", "eel"],
        ["dog", "eel"],
    ]
    assert document["pairs"][0]["gap"] == pytest.approx(0.1)
    assert document["pairs"][2]["relative_gap"] == 0.0


def test_certifying_costs_a_share_of_the_training() -> None:
    """Its work is counted, so the bits do not depend on times. With more epochs it continues until
    the bound is close; a gap that was asked for is proven even if the training was short."""
    X, y = image_like(3000, 400)
    [problem] = Training(Pipeline(solver=Pegasos(C=0.1)), X, y, seed=0).problems
    bounds = []
    for epochs in (1, 10, 200):
        training = trained("pegasos", problem, Stopping(max_epochs=epochs))
        own = 2.0 * row_work(problem) * training.state.updates
        # The last step may take longer than the mean of those before it.
        assert training.certifier.work <= 1.2 * (CERTIFIER_SHARE * own + LAST_CERTIFIER_WORK)
        bounds.append(training.progress.dual)
    assert bounds[:-1] == sorted(bounds[:-1])
    assert bounds[-1] >= bounds[-2] * (1.0 - 1e-14)
    long = training.progress
    assert long.dual > bounds[0]
    assert long.relative_gap <= 0.1
    asked = trained("pegasos", problem, Stopping(max_epochs=30, duality_gap=0.3))
    assert asked.progress.stop_reason == "gap-reached"
