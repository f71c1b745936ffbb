"""Runs trainings: a dataset becomes a model version."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from service.jobs.core.attempts import Attempt
from service.jobs.core.kind import RunContext
from service.jobs.core.leases import Outcome
from service.jobs.core.lifecycle import State
from service.jobs.training.memory_plan import rows_stay_in_files
from service.jobs.training.rows import LabeledRows, Split
from service.jobs.training.schemas import JobCreate, ValidationDataset
from service.jobs.training.summary import (
    CHECKPOINT_LOST,
    final_progress,
    finish_with_model,
    fold_of,
    metrics_of_folds,
    result_of,
    sum_of_folds,
    unproven,
)
from service.jobs.training.training_sequence import TrainingSequence, threads_of
from service.jobs.training.validation_set import rows_of
from service.jobs.training.warm_starts import load_start
from service.storage.arrays import Arrays
from service.storage.blobs import BlobDamaged
from service.storage.space import file_errors_reported
from svm.data.matrices import Indices, Vector
from svm.errors import CheckpointMismatch
from svm.model.metrics import calibration_metrics
from svm.training import Training
from svm.training.results import TrainingResult
from svm.training.warm_start import WarmStart

Measured = tuple[LabeledRows, Indices]
"""Rows to measure a model on, by number."""

NOT_CALIBRATED = (
    "The job was canceled before the first fold was done, so the model has no probabilities: there "
    "are no scores to fit them on."
)


def run(context: RunContext, attempt: Attempt) -> None:
    """Train, and end the job as succeeded or canceled.

    Raises what the training raises, Interrupted after the checkpoint was saved, and LeaseLost.
    """
    job = attempt.job
    attempt.check()
    spec = JobCreate.model_validate_json(json.dumps(job.spec))
    assert spec.seed is not None
    dataset = context.datasets.get(job.dataset_id)
    other = None
    if isinstance(spec.validation, ValidationDataset):
        other = context.datasets.get(spec.validation.dataset_id)
    limit = context.settings.limits.worker_memory_bytes
    in_files = rows_stay_in_files(spec, dataset, limit, other)
    read = context.datasets.open if in_files else context.datasets.load
    rows = LabeledRows(read(dataset), dataset, spec.classes)
    splits = rows.splits(spec.validation, spec.seed)
    watched = None if splits[0].validation is None else (rows, splits[0].validation)
    if other is not None:
        measured = rows_of(read(other), other, dataset, spec)
        watched = measured, measured.everything
    start = load_start(spec, dataset, splits[0].training, context.models, context.datasets)
    with file_errors_reported():  # rows that stay in files are copied to a scratch file
        sequence, warnings = _sequence(
            context, attempt, spec, rows, splits, start and start[0], watched
        )
        canceled = sequence.run()
    result = sequence.model
    metrics = _metrics(rows, splits[0], watched, result, sequence.folds)
    fitted = result.fitted
    held_out = None if spec.calibration is None else _held_out(rows, splits, watched, sequence)
    if spec.calibration is not None and held_out is None:
        warnings = (*warnings, NOT_CALIBRATED)
    elif spec.calibration is not None and held_out is not None:
        scores, codes = held_out
        fitted = fitted.calibrated(spec.calibration, scores, codes)
        metrics["validation"]["calibration"] = calibration_metrics(
            fitted.probabilities_from_scores(scores),
            fitted.codes_from_decision(fitted.decision_from_scores(scores)),
            codes,
        )
    summary = result_of(result, metrics)
    if canceled:
        summary["stop_reason"] = "canceled"
    attempt.show(final_progress(attempt, canceled, summary), [])
    outcome = Outcome(
        state=State.CANCELED if canceled else State.SUCCEEDED,
        stop_reason=summary["stop_reason"],
        converged=result.converged,
        result=summary,
        warnings=(*warnings, *(start[1] if start else ()), *result.warnings, *unproven(result)),
    )
    finish_with_model(
        context,
        attempt,
        outcome,
        fitted,
        result.warm_start,
        dataset=dataset,
        rows=splits[0].training,
        request=spec,
        spec=spec.with_solver(result.warm_start.pipeline.solver),
        result=summary,
        n_support_vectors=result.n_support_vectors,
    )


def _sequence(
    context: RunContext,
    attempt: Attempt,
    spec: JobCreate,
    rows: LabeledRows,
    splits: Sequence[Split],
    start: WarmStart | None,
    watched: Measured | None,
) -> tuple[TrainingSequence, tuple[str, ...]]:
    """The job's trainings, at the last checkpoint or at their start, and warnings."""
    seed = spec.seed
    assert seed is not None

    def begin(number: int, budget_s: float, checkpoint: Arrays | None) -> Training:
        split, pipeline = splits[number], spec.pipeline()
        begun = start if number == 0 else None
        like = None if begun is None else begun.fitted
        stopping = replace(pipeline.stopping, time_budget_s=budget_s)
        return Training(
            replace(pipeline, stopping=stopping),
            *rows.of(split.training, like),
            **rows.described(split.training, like),
            seed=seed,
            validation=None if watched is None or number else watched[0].of(watched[1], like),
            warm_start=begun,
            checkpoint=checkpoint,
            interrupted=attempt.check,
            digest=split.digest,
            threads=threads_of(context.settings),
            bounds_kernel=number == 0,
            trace=spec.trace if number == 0 else None,
        )

    def measure(number: int, result: TrainingResult) -> tuple[dict[str, Any], Vector | None]:
        validation = splits[number].validation
        assert validation is not None
        measured = fold_of(result, _metrics_of(rows, validation, result))
        keeps = spec.calibration is not None
        return measured, rows.scores(result.fitted, validation)[0] if keeps else None

    budget_s = min(spec.stopping.time_budget_s or math.inf, context.settings.limits.job_s)
    given = attempt, len(splits), begin, measure, budget_s
    try:
        return TrainingSequence(*given, context.checkpoint(attempt.job)), ()
    except (BlobDamaged, CheckpointMismatch):
        return TrainingSequence(*given, None), (CHECKPOINT_LOST,)


def _metrics(
    rows: LabeledRows,
    split: Split,
    watched: Measured | None,
    result: TrainingResult,
    folds: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """By part of the data. Of folds each row was predicted by the training that did not see it."""
    metrics = {"train": _metrics_of(rows, split.training, result)}
    if watched is not None:
        metrics["validation"] = _metrics_of(*watched, result)
    elif folds:
        metrics["validation"] = metrics_of_folds(sum_of_folds(folds), folds)
    return metrics


def _held_out(
    rows: LabeledRows,
    splits: Sequence[Split],
    watched: Measured | None,
    sequence: TrainingSequence,
) -> tuple[Vector, Indices] | None:
    """Scores of rows by a training that did not see them, and their classes by number; None if a
    job with folds was canceled before the first of them was done."""
    if watched is not None:
        return watched[0].scores(sequence.model.fitted, watched[1])
    if not sequence.scores:
        return None
    folds = [split.validation for split in splits if split.validation is not None]
    done = np.concatenate(folds[: len(sequence.scores)])
    return np.concatenate(sequence.scores), rows.codes(done)


def _metrics_of(rows: LabeledRows, some: Indices | None, result: TrainingResult) -> dict[str, Any]:
    assert some is not None
    return rows.confusion(result.fitted, some).metrics()
