"""What a training comes to: the model, its certificate, and how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from svm.model.pipeline import FittedPipeline, Pipeline
from svm.problem.certificate import Certificate, PairCertificate
from svm.problem.objectives import evaluate
from svm.solvers.protocol import KnowsScores, WorksOnRows
from svm.stopping import StopReason
from svm.training.assembly import stacked
from svm.training.binary_training import BinaryTraining
from svm.training.preparation import Prepared
from svm.training.warm_start import WarmStart

REASONS: tuple[StopReason, ...] = (
    "canceled",
    "time-budget",
    "max-epochs",
    "gap-reached",
    "converged",
)
"""The first one that holds for any pair speaks for the model."""


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """The model with what is known about it."""

    fitted: FittedPipeline
    certificate: Certificate
    stop_reason: StopReason
    converged: bool
    """A stopping rule of the solver or the gap was met in every pair."""
    epochs: int
    """Of the pair with the most."""
    updates: int
    """Of all pairs."""
    n_support_vectors: int
    """Training rows on or inside the margin of any pair."""
    warnings: tuple[str, ...]
    warm_start: WarmStart
    """What a later training needs to begin where this one ended."""


def result_of(
    pipeline: Pipeline,
    prepared: Prepared,
    pairs: Sequence[BinaryTraining],
    warnings: tuple[str, ...],
) -> TrainingResult:
    """Of the binary trainings of all splits, ended or stopped."""
    reasons = {pair.progress.stop_reason for pair in pairs}
    fitted = _fitted(prepared, pairs)
    return TrainingResult(
        fitted=fitted,
        certificate=_certificate(prepared, pairs),
        stop_reason=next(reason for reason in REASONS if reason in reasons),
        converged=reasons <= {"converged", "gap-reached"},
        epochs=max(pair.state.epoch for pair in pairs),
        updates=sum(pair.state.updates for pair in pairs),
        n_support_vectors=_count_support_vectors(pairs),
        warnings=warnings,
        warm_start=_warm_start(pipeline, fitted, pairs),
    )


def _fitted(prepared: Prepared, pairs: Sequence[BinaryTraining]) -> FittedPipeline:
    classifiers = [pair.solver.classifier(pair.problem, pair.state) for pair in pairs]
    coefficients, support_vectors = stacked(classifiers, [pair.problem for pair in pairs])
    return FittedPipeline(
        classes=prepared.classes,
        scaling=prepared.scaling,
        features=prepared.features,
        multiclass=prepared.multiclass,
        kernel=prepared.kernel,
        support_vectors=support_vectors,
        coefficients=coefficients,
        intercepts=np.array([classifier.intercept for classifier in classifiers]),
    )


def _warm_start(
    pipeline: Pipeline, fitted: FittedPipeline, pairs: Sequence[BinaryTraining]
) -> WarmStart:
    rows, coefficients = [], []
    for pair in pairs:
        left = np.empty(0)
        if isinstance(pair.solver, WorksOnRows):
            left = pair.solver.dual_coefficients(pair.problem, pair.state)
        some = np.flatnonzero(left)
        rows.append(pair.problem.rows[some])
        coefficients.append(left[some])
    return WarmStart(
        pipeline=pipeline,
        fitted=fitted,
        steps=np.array([pair.state.step for pair in pairs], dtype=np.int64),
        regularization=np.array([pair.problem.regularization for pair in pairs]),
        rows=np.concatenate(rows),
        dual_coefficients=np.concatenate(coefficients),
        ends=np.cumsum([len(part) for part in rows]),
    )


def _certificate(prepared: Prepared, pairs: Sequence[BinaryTraining]) -> Certificate:
    return Certificate(
        tuple(
            PairCertificate(
                classes=split.classes,
                primal=pair.progress.primal,
                dual=pair.progress.dual,
                solver_objective=pair.solver.stated(pair.problem, pair.progress.primal),
            )
            for split, pair in zip(prepared.splits, pairs, strict=True)
        )
    )


def _count_support_vectors(pairs: Sequence[BinaryTraining]) -> int:
    inside = np.zeros(pairs[0].problem.X.shape[0], dtype=bool)
    for pair in pairs:
        problem = pair.problem
        near = pair.inside
        if near is None:  # it had ended before the resume
            classifier, known = pair.solver.classifier(problem, pair.state), None
            if isinstance(pair.solver, KnowsScores):
                known = pair.solver.scores(problem, pair.state)
            _, scores = evaluate(problem, classifier, known)
            near = problem.y * scores <= 1.0
        inside[problem.rows[near]] = True
    return int(inside.sum())
