"""Certificates on random small problems, against an exact QP solver: always sound, mostly tight.

The short version runs with the suite; `make soundness` checks 5,000 problems, and the words on
3,000.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, get_args, get_type_hints

import daqp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array

from svm.data.matrices import Floats, Vector
from svm.errors import Diverged
from svm.hyperparameters import Intercept, LossName
from svm.kernel.kernels import AnyKernel, GaussianKernel, LinearKernel, PolynomialKernel
from svm.kernel.row_products import kernel_values
from svm.model.pipeline import Pipeline
from svm.problem.losses import Loss
from svm.problem.objectives import rounding_of_scores
from svm.problem.problem import Classifier, KernelClassifier, LinearClassifier, Problem
from svm.solvers import SOLVERS, AnySolver
from svm.solvers.protocol import Inheritance
from svm.stopping import Stopping
from svm.training.binary_training import BinaryTraining
from tests.svm.cases.problems import SOLVER_INTERCEPTS, in_form
from tests.svm.cases.trainings import train
from tests.svm.cases.words import is_true

ROUNDING = 1e-9
NOTHING = 1e-12
"""A cost as good as 0."""


@dataclass(frozen=True)
class Outcome:
    """The bounds and values of one problem; all in the common form."""

    about: str
    primal: float
    dual: float
    lower: float
    """Of the optimum, by the QP solver's dual point."""
    upper: float
    """Of the optimum, by the primal point that belongs to it."""

    @property
    def is_sound(self) -> bool:
        slack = ROUNDING * self.upper + NOTHING
        return self.dual <= self.upper + slack and self.primal >= self.lower - slack

    @property
    def is_tight(self) -> bool:
        """The certified gap is at most three times the true one, plus 1e-3."""
        size = max(self.primal, NOTHING)  # which is 0 if no target is beyond ε
        certified = (self.primal - self.dual) / size
        true = max(0.0, self.primal - self.upper) / size
        return certified <= 3.0 * true + 1e-3


def outcome(number: int) -> Outcome | None:
    """Train on problem `number`, and solve it exactly; None if the QP solver failed."""
    random = np.random.default_rng([99, number])
    name, intercept = SOLVER_INTERCEPTS[number % len(SOLVER_INTERCEPTS)]
    kernel = _kernel(random) if "kernel" in SOLVERS[name].__dataclass_fields__ else None
    losses = losses_of(name)
    loss = Loss(losses[number // len(SOLVER_INTERCEPTS) % len(losses)])
    if loss.numeric:
        loss = replace(loss, epsilon=float(random.choice([0.0, 0.1, 1.0])))
    problem = _problem(random, intercept, kernel, loss)
    options: dict[str, Any] = {"intercept": intercept, "loss": loss.name}
    if kernel is not None:
        options["kernel"] = kernel
    kind: Any = SOLVERS[name]
    solver: AnySolver = kind(**options)
    stopping = Stopping(max_epochs=int(random.integers(1, 40)))
    inherited = _inheritance(random, problem) if random.integers(2) else None
    training = BinaryTraining.begin(solver, problem, stopping, inherited)
    while not training.progress.finished:
        training = training.step(False)
    bounds = _by_qp(problem)
    if bounds is None:
        return None
    now = training.progress
    about = f"problem {number}: {name}, {intercept}, {kernel}, {problem.loss.name}"
    return Outcome(about, now.primal, now.dual, *bounds)


def _kernel(random: np.random.Generator) -> AnyKernel:
    kernels: list[AnyKernel] = [
        LinearKernel(),
        GaussianKernel(gamma=float(10.0 ** random.uniform(-2, 1))),
        PolynomialKernel(degree=int(random.integers(2, 4)), coef0=float(random.integers(2))),
    ]
    return kernels[random.integers(3)]


def losses_of(solver: str) -> tuple[LossName, ...]:
    """The losses that a solver offers."""
    offered, _ = get_args(get_type_hints(SOLVERS[solver])["loss"])
    return get_args(offered)


def _problem(
    random: np.random.Generator, intercept: Intercept, kernel: AnyKernel | None, loss: Loss
) -> Problem:
    n, d = int(random.integers(4, 40)), int(random.integers(1, 7))
    X = random.normal(size=(n, d)) * 10.0 ** random.uniform(-0.5, 0.5)
    noise = random.choice([0.0, 0.3, 2.0])
    score = X @ random.normal(size=d) + random.normal() + noise * random.normal(size=n)
    weights = random.uniform(0.2, 3.0, size=n) if random.integers(2) else np.ones(n)
    if loss.numeric:
        y, margins = loss.two_sides(score * 10.0 ** random.uniform(-1, 1))
        rows, weights = np.repeat(np.arange(n), 2), 2.0 * np.repeat(weights, 2)
    else:
        y = np.where(score > np.quantile(score, random.uniform(0.1, 0.9)), 1, -1).astype(np.int8)
        y[:2] = [1, -1]
        rows, margins = np.arange(n), None
    return Problem(
        X=in_form(X, "csr-float64" if random.integers(2) else "dense-float64"),
        some_rows=rows,
        y=y,
        margins=margins,
        unequal_weights=weights,
        loss=loss,
        regularization=float(10.0 ** random.uniform(-3, 1)),
        intercept=intercept,
        seed=int(random.integers(1000)),
        kernel=kernel,
    )


def _inheritance(random: np.random.Generator, problem: Problem) -> Inheritance:
    """A random start."""
    return Inheritance(
        w=random.normal(size=problem.n_features),
        intercept=float(random.normal()),
        step=int(random.integers(1, 1000)),
        regularization=float(10.0 ** random.uniform(-3, 1)),
        dual_coefficients=np.maximum(0.0, random.normal(size=problem.n_samples)),
    )


def _by_qp(problem: Problem) -> tuple[float, float] | None:
    """(dual value, primal value) of the exact solver's point, from the definitions."""
    n, lam, y = problem.n_samples, problem.regularization, problem.y
    X: Any = problem.X.toarray() if hasattr(problem.X, "toarray") else problem.X
    X = X[problem.rows]
    margins = np.ones(n) if problem.margins is None else problem.margins
    K = kernel_values(problem.kernel or LinearKernel(), X, X)
    if problem.intercept == "augmented":
        K += 1.0
    # In units of sᵢ, so that the box is 0 … 1; scaled so that the largest curvature is 1.
    signed = y * problem.weights
    H = signed[:, None] * K * signed / (lam * n)
    squared = problem.loss.squared
    if squared:
        H += np.diag(0.5 * problem.weights)
    scale = float(np.abs(H).max()) or 1.0
    free = problem.intercept == "free"
    for proximal in (1e-7, 1e-5, 1e-3):  # H is often singular, and the steps then need damping
        solution, _, flag, _ = daqp.solve(
            H / scale,
            -problem.weights * margins / scale,
            signed[None] if free else np.zeros((0, n)),
            np.append(np.full(n, 1e30 if squared else 1.0), [0.0] * free),
            np.zeros(n + free),
            np.array([0] * n + [5] * free, dtype=np.int32),
            primal_tol=1e-12,
            eps_prox=proximal,
            eta_prox=1e-14,
        )
        if flag >= 1:
            break
    else:
        return None
    most = np.inf if squared else 1.0
    alpha = _balanced(np.clip(solution, 0.0, most) * problem.weights, y, free)
    scores = K @ (alpha * y) / (lam * n)
    norm = float((alpha * y) @ scores) / (lam * n)
    lower = float(margins @ alpha) / n - 0.5 * lam * norm
    corners = y * margins
    if squared:
        lower -= float((alpha * alpha / (4.0 * problem.weights)).sum()) / n

        def mean_loss(b: float) -> float:
            short = np.maximum(0.0, margins - y * (scores + b))
            return float(np.square(short) @ problem.weights) / n

        ends = (corners - scores).min(), (corners - scores).max()
        best = minimize_scalar(mean_loss, bounds=ends, options={"xatol": 1e-12}) if free else None
        return lower, 0.5 * lam * norm + (mean_loss(0.0) if best is None else float(best.fun))
    # With a free intercept the best one has some row on its margin.
    candidates = corners - scores if free else [0.0]
    losses = [np.maximum(0.0, margins - y * (scores + b)) @ problem.weights / n for b in candidates]
    return lower, 0.5 * lam * norm + float(min(losses))


def _balanced(alpha: Vector, y: Floats, free: bool) -> Vector:
    if free:
        up, down = float(alpha[y > 0].sum()), float(alpha[y < 0].sum())
        target = min(up, down)
        alpha = alpha * np.where(y > 0, target / max(up, 1e-300), target / max(down, 1e-300))
    return alpha


def check(count: int) -> list[Outcome]:
    """Asserts soundness and tightness of problems 0 … count - 1; returns the outcomes."""
    result = [each for number in range(count) if (each := outcome(number)) is not None]
    assert len(result) >= 0.95 * count, "the QP solver gave up too often"
    unsound = [each for each in result if not each.is_sound]
    assert not unsound, unsound[:5]
    loose = [each for each in result if not each.is_tight]
    assert len(loose) <= 0.05 * len(result), (len(loose), loose[:5])
    return result


LOSSES: tuple[LossName, ...] = get_args(LossName)
SHAPES = (
    *("plain", "offset", "one feature far larger", "duplicates", "conflicting duplicates"),
    *("separable", "one row of a class", "constant columns", "heavy tails", "few distinct values"),
    *("sparse", "more features than rows", "weights"),
)


def shaped(
    random: np.random.Generator, shape: str, *, numeric: bool
) -> tuple[Any, Vector, Vector | None]:
    """Rows of one of thirteen kinds, between 1e-6 and 1e6 in size, with labels or numeric targets,
    and weights."""
    n = int(random.integers(6, 60))
    d = int(random.integers(60, 90) if shape.startswith("more") else random.integers(1, 7))
    X = random.normal(size=(n, d))
    match shape:
        case "offset":
            X += 100.0
        case "one feature far larger":
            X[:, 0] *= 1e5
        case "duplicates" | "conflicting duplicates":
            X = X[random.integers(n, size=n) // 3]
        case "constant columns":
            X[:, d // 2 :] = 3.0
        case "heavy tails":
            X = random.standard_cauchy(size=(n, d)).clip(-1e4, 1e4)
        case "few distinct values":
            X = np.round(X)
        case "sparse":
            X *= random.uniform(size=X.shape) < 0.3
    score = (X - X.mean(axis=0)) @ random.normal(size=d)
    if shape not in ("separable", "duplicates"):
        score += np.abs(score).mean() * random.choice([0.3, 2.0]) * random.normal(size=n)
    y = score > (np.sort(score)[-2] if shape.startswith("one row") else np.median(score))
    y[:2] = [True, False]
    weights = random.uniform(0.1, 3.0, size=n) if shape == "weights" else None
    X = X * 10.0 ** random.uniform(-6, 6)
    if numeric:
        y = (score + 1e-3 * random.normal(size=n)) * 10.0 ** random.uniform(-6, 6)
    return (csr_array(X) if shape == "sparse" else X), y, weights


def checked_words(number: int) -> list[str]:
    """What is wrong with the certificates of trainings of problem `number`, by arithmetic."""
    random = np.random.default_rng([5, number])
    shape = SHAPES[number % len(SHAPES)]
    numeric = number // len(SHAPES) % 2 == 1
    X, labels, weights = shaped(random, shape, numeric=numeric)
    intercept = str(random.choice(["free", "augmented", "none"]))
    kernel: AnyKernel | None = None
    names = [name for name, other in SOLVER_INTERCEPTS if other == intercept]
    if random.integers(4) == 0:
        size = float(np.median(abs(X).sum(axis=1))) or 1.0
        kernel = GaussianKernel(gamma=float(10.0 ** random.uniform(-1, 1)) / size**2)
    names = [n for n in names if ("kernel" in SOLVERS[n].__dataclass_fields__) == bool(kernel)]
    given: dict[str, Any] = {
        "lambda_": float(10.0 ** random.uniform(-8, 4)),
        "intercept": intercept,
    }
    if kernel is not None:
        given["kernel"] = kernel
    best = "smo" if kernel else "newton"
    names = sorted({best, str(random.choice(names))})
    asked = [None, 1e-2, 1e-3][random.integers(3)]
    epochs = int(random.integers(1, 100))
    results, lowest = [], np.inf
    losses = [losses_of(name) for name in names]
    wanted = [
        loss for loss in LOSSES if Loss(loss).numeric == numeric and all(loss in o for o in losses)
    ]
    given["loss"] = str(random.choice(wanted))
    for name in names:
        kind: Any = SOLVERS[name]
        stopping = Stopping(duality_gap=asked, max_epochs=epochs)
        try:
            training = train(
                Pipeline(solver=kind(**given), stopping=stopping), X, labels, weights=weights
            )
        except Diverged:
            continue
        pair, problem = training._pairs[0], training.problems[0]
        classifier = pair.solver.classifier(problem, pair.state)
        primal, rounding = precise_primal(problem, classifier), 0.0
        if isinstance(classifier, KernelClassifier):
            a = np.zeros(problem.n_samples)
            a[classifier.support] = abs(classifier.coefficients)
            rounding = rounding_of_scores(problem, a)
        results.append((name, training.result(), primal, rounding))
        lowest = min(lowest, primal)
    faults = []
    for name, result, primal, rounding in results:
        worst, said = result.certificate.worst, result.certificate.summary(result.fitted.classes)
        slack = 1e-9 * primal + 1e-12 * worst.zero_cost + rounding
        wrong = {
            "the cost is wrong": abs(worst.primal - primal) > slack,
            "the bound is above the optimum": worst.dual > lowest + slack,
            "converged, but not proven": result.converged
            and asked is not None
            and worst.relative_gap > asked,
            "the sentence is wrong": not is_true(result.certificate, said, primal, lowest),
        }
        faults += [
            f"problem {number}, {shape}, {name}, {given}: {words}: {worst}, {primal}, {lowest}"
            for words, holds in wrong.items()
            if holds
        ]
    return faults


def precise_primal(problem: Problem, classifier: Classifier) -> float:
    """The cost of a model, from its definition, in long double."""
    X: Any = problem.X.toarray() if hasattr(problem.X, "toarray") else problem.X
    X = X[problem.rows]
    if isinstance(classifier, LinearClassifier):
        w = classifier.coefficients.astype(np.longdouble)
        scores, norm = X.astype(np.longdouble) @ w, w @ w
        if problem.intercept == "augmented":
            norm += np.longdouble(classifier.intercept) ** 2
        scores += classifier.intercept
    else:
        assert problem.kernel is not None
        K = kernel_values(problem.kernel, X, X[classifier.support]).astype(np.longdouble)
        K += problem.intercept == "augmented"
        scores = K @ classifier.coefficients
        norm = classifier.coefficients @ scores[classifier.support]
        scores += classifier.intercept if problem.intercept == "free" else 0.0
    margins = 1.0 if problem.margins is None else problem.margins
    losses = np.maximum(0.0, margins - problem.y * scores)
    losses = (np.square(losses) if problem.loss.squared else losses) * problem.weights
    return float(0.5 * problem.regularization * norm + losses.mean())


def test_words_are_true_on_a_few_problems() -> None:
    """Costs, bounds, `converged` and sentences of two solvers on each of 65 problems."""
    faults = [fault for number in range(65) for fault in checked_words(number)]
    assert not faults, faults[:5]


@pytest.mark.soundness
@pytest.mark.timeout(1800)
def test_words_are_true_on_3000_problems() -> None:
    """The same on 3,000: thirteen kinds, λ from 1e-8 to 1e4, sizes from 1e-6 to 1e6."""
    faults = [fault for number in range(3000) for fault in checked_words(number)]
    assert not faults, (len(faults), faults[:5])


@pytest.mark.soundness
def test_certificates_are_sound_and_tight() -> None:
    """dual ≤ optimum ≤ primal on 40 problems of all solvers, kernels, intercepts and weights."""
    check(40)


@pytest.mark.soundness
@pytest.mark.timeout(1800)
def test_certificates_of_5000_problems() -> None:
    """The same on 5,000."""
    result = check(5000)
    loose = sum(not each.is_tight for each in result)
    precise = np.median([(each.upper - each.lower) / each.upper for each in result])
    print(f"{len(result)} problems, 0 unsound, {loose} loose, QP bracket {precise:.1e} (median)")
