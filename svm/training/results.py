"""The result of a training: the model, its certificate, and how it ended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from svm.data.matrices import Matrix, Vector, is_sparse
from svm.kernel.kernels import dense_rows
from svm.model.pipeline import FittedPipeline, Pipeline
from svm.problem.certificate import (
    ROUGH_EXCESS,
    Certificate,
    PairCertificate,
    for_moved_rows,
    for_moved_rows_squared,
)
from svm.problem.objectives import at_zero, count_inside, inside, squared_norm
from svm.problem.problem import Classifier, KernelClassifier, LinearClassifier, Problem
from svm.solvers import certifier_of
from svm.solvers.protocol import HasDualCoefficients
from svm.stopping import DEFAULT_DUALITY_GAP, StopReason
from svm.training.binary_training import BinaryTraining
from svm.training.kernel_bound import with_kernel
from svm.training.preparation import Prepared
from svm.training.warm_start import WarmStart
from svm.transforms.features import Nystroem, RandomFourier

ROUNDED = (
    "the gap is proven for the rows rounded to single precision, but not for the rows themselves: "
    'train with "dtype": "float64", or scale the features'
)


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """A model and what is known about it."""

    fitted: FittedPipeline
    certificate: Certificate
    stop_reason: StopReason
    """Of all pairs the first one, in the order of `StopReason`."""
    epochs: int
    """The largest count of any pair."""
    updates: int
    """The sum over all pairs."""
    n_support_vectors: int
    """Training rows on or inside the margin of any pair."""
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    """What was chosen on the way, such as the solver: nothing to worry about."""
    warm_start: WarmStart
    """What a later training needs to begin where this one ended."""

    @property
    def converged(self) -> bool:
        """A stopping rule of the solver or the gap was met in every pair."""
        return self.stop_reason.converged


def result_of(
    pipeline: Pipeline,
    prepared: Prepared,
    pairs: Sequence[BinaryTraining],
    warnings: tuple[str, ...],
    notes: tuple[str, ...],
    kernel_bounds: Vector | None = None,
) -> TrainingResult:
    """The result of the binary trainings of all splits, all of them ended or stopped.

    `kernel_bounds` (n_problems,) are lower bounds with the kernel that features approximate.
    """
    reasons = {pair.progress.stop_reason for pair in pairs}
    fitted = _fitted(prepared, pairs)
    certificate = _certificate(pipeline, prepared, pairs, kernel_bounds)
    stop_reason = next(reason for reason in StopReason if reason in reasons)
    if (
        prepared.moved is not None
        and stop_reason is StopReason.GAP_REACHED
        and certificate.status != "certified"
    ):
        stop_reason = StopReason.STALLED
        warnings = (*warnings, ROUNDED)
    return TrainingResult(
        fitted=fitted,
        certificate=certificate,
        stop_reason=stop_reason,
        epochs=max(pair.state.epoch for pair in pairs),
        updates=sum(pair.state.updates for pair in pairs),
        n_support_vectors=_count_support_vectors(pairs),
        warnings=(*warnings, *_better_model(pipeline, prepared, pairs)),
        notes=notes,
        warm_start=_warm_start(pipeline, prepared, fitted, pairs),
    )


def _fitted(prepared: Prepared, pairs: Sequence[BinaryTraining]) -> FittedPipeline:
    classifiers = [pair.solver.classifier(pair.problem, pair.state) for pair in pairs]
    coefficients, support_vectors = _stack(classifiers, [pair.problem for pair in pairs])
    intercepts = np.array([classifier.intercept for classifier in classifiers])
    steps, target = prepared.steps, prepared.target
    if target is not None:
        coefficients, intercepts = target.in_unit(coefficients, intercepts)
        epsilon = pairs[0].problem.loss.epsilon * target.scale
        target = replace(target, epsilon=epsilon)
    return FittedPipeline(
        classes=prepared.classes,
        encoder=steps.encoder,
        scaling=steps.scaling,
        features=steps.features,
        multiclass=steps.pipeline.multiclass,
        kernel=prepared.kernel,
        support_vectors=support_vectors,
        coefficients=coefficients,
        intercepts=intercepts,
        target=target,
    )


def _stack(
    classifiers: Sequence[Classifier], problems: Sequence[Problem]
) -> tuple[Vector, Matrix | None]:
    """(coefficients of all problems, support vectors).

    Linear: (n_problems, n_features), None. Kernel: (n_problems, n_vectors), and the support vectors
    of all problems, each once.
    """
    supports = [
        problem.rows[classifier.support]
        for classifier, problem in zip(classifiers, problems, strict=True)
        if isinstance(classifier, KernelClassifier)
    ]
    if not supports:
        return np.array([classifier.coefficients for classifier in classifiers]), None
    union = np.unique(np.concatenate(supports))
    coefficients = np.zeros((len(classifiers), len(union)))
    for row, rows, classifier in zip(coefficients, supports, classifiers, strict=True):
        np.add.at(row, np.searchsorted(union, rows), classifier.coefficients)
    X = problems[0].matrix
    vectors = X[union].astype(np.float64) if is_sparse(X) else dense_rows(X, union)
    return coefficients, vectors


def _warm_start(
    pipeline: Pipeline,
    prepared: Prepared,
    fitted: FittedPipeline,
    pairs: Sequence[BinaryTraining],
) -> WarmStart:
    rows, coefficients = [], []
    of_solver = {
        solver: solver.dual_coefficients
        for solver in {pair.solver for pair in pairs}
        if isinstance(solver, HasDualCoefficients)
    }
    for pair in pairs:
        duals = np.empty(0)
        if pair.solver in of_solver:
            duals = of_solver[pair.solver](pair.problem, pair.state)
        numbers = pair.problem.rows
        if pair.problem.loss.numeric and len(duals):  # one signed number for both sides of a row
            duals = (pair.problem.y * duals).reshape(-1, 2).sum(axis=1)
            numbers = numbers[::2]
        support = np.flatnonzero(duals)
        rows.append(numbers[support])
        coefficients.append(duals[support])
    warm_start = WarmStart(
        pipeline=pipeline,
        fitted=fitted,
        steps=np.array([pair.state.step for pair in pairs], dtype=np.int64),
        regularization=np.array([pair.problem.regularization for pair in pairs]),
        rows=np.concatenate(rows),
        dual_coefficients=np.concatenate(coefficients),
        ends=np.cumsum([len(part) for part in rows]),
    )
    return warm_start if prepared.kept is None else warm_start.with_rows(prepared.kept)


def _certificate(
    pipeline: Pipeline,
    prepared: Prepared,
    pairs: Sequence[BinaryTraining],
    kernel_bounds: Vector | None,
) -> Certificate:
    asked, kernel = pipeline.stopping.resolve().duality_gap, pipeline.kernel
    of_kernel: Literal["exact", "approximated"] | None = None if kernel is None else "exact"
    if isinstance(pipeline.features, RandomFourier | Nystroem):
        of_kernel = "approximated"
    asked_gap = DEFAULT_DUALITY_GAP if asked is None else asked
    rounded = tuple(
        PairCertificate(
            classes=classes,
            primal=pair.progress.primal,
            dual=pair.progress.dual,
            solver_objective=pair.solver.stated(pair.problem, pair.progress.primal),
            zero_cost=at_zero(pair.problem)[0],
        )
        for classes, pair in zip(prepared.problem_classes, pairs, strict=True)
    )
    own = tuple(
        one if prepared.moved is None else _as_served(pair, one, prepared.moved)
        for pair, one in zip(pairs, rounded, strict=True)
    )
    exact = None
    if kernel_bounds is not None:
        bounds = zip(pairs, rounded, kernel_bounds.tolist(), strict=True)
        exact = Certificate(
            tuple(with_kernel(prepared, *one) for one in bounds), asked_gap, "exact"
        )
    return Certificate(own, asked_gap, of_kernel, exact)


def _as_served(pair: BinaryTraining, own: PairCertificate, moved: Vector) -> PairCertificate:
    """The certificate for rows that are not rounded to single precision, as the model sees those
    that it predicts."""
    problem = pair.problem
    some = moved if problem.some_rows is None else moved[problem.some_rows]
    squared_loss = problem.loss.squared
    # Of the two sides of a row only one has a slope.
    weights = problem.weights / problem.loss.n_sides
    distance = float((weights * (some * some if squared_loss else some)).mean())
    classifier = pair.solver.classifier(problem, pair.state)
    if isinstance(classifier, LinearClassifier):
        squared = squared_norm(problem, classifier.coefficients, classifier.intercept)
    else:
        losses = problem.loss.of_shortfalls(problem.shortfalls(pair.scores()))
        rest = own.primal - float((problem.weights * losses).mean())
        squared = max(0.0, 2.0 * rest / problem.regularization)
    norm = math.sqrt(squared)
    if squared_loss:
        served = for_moved_rows_squared(own, math.sqrt(distance), norm, problem.regularization)
    else:
        served = for_moved_rows(own, distance, norm, problem.regularization)
    stated = pair.solver.stated(problem, served.primal)
    return replace(served, solver_objective=stated)


def _better_model(
    pipeline: Pipeline, prepared: Prepared, pairs: Sequence[BinaryTraining]
) -> tuple[str, ...]:
    """If a gap was asked for: names the solver that found a much better model while it looked for
    a bound."""
    if pipeline.stopping.resolve().duality_gap is None:
        return ()

    def best(pair: BinaryTraining) -> float:
        return certifier_of(pair.problem).enclosure(pair.problem, pair.certifier)[0]

    searched = [pair for pair in pairs if pair.progress.certifier_steps]
    if not searched:
        return ()
    worst = min(searched, key=lambda pair: best(pair) / max(pair.progress.primal, 1e-300))
    primal, name = best(worst), certifier_of(worst.problem).name
    if worst.progress.primal <= (1.0 + ROUGH_EXCESS) * primal:
        return ()
    classes = prepared.problem_classes[worst.problem.pair]
    names = " and ".join(str(prepared.classes[i])[:32] for i in classes)
    where = f", for {names}" if len(pairs) > 1 else ""
    return (
        f"the lower bound was found with a model whose cost is {primal:.3g}, that of this model is "
        f"{worst.progress.primal:.3g}{where}: train with {name}",
    )


def _count_support_vectors(pairs: Sequence[BinaryTraining]) -> int:
    if pairs[0].problem.cluster is not None:  # a single pair; its scores stay where they are
        return count_inside(pairs[0].problem, pairs[0].scores())
    counted = np.zeros(pairs[0].problem.X.shape[0], dtype=bool)
    for pair in pairs:
        problem = pair.problem
        near = pair.inside
        if near is None:  # or it ended before the checkpoint that was resumed
            near = inside(problem, pair.scores())
        if problem.some_rows is None:
            counted |= near
        else:
            counted[problem.some_rows[near]] = True
    return int(counted.sum())
