"""Runs trainings: a dataset becomes a model version."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from service.jobs.core.attempts import Attempt
from service.jobs.core.job import Job
from service.jobs.core.kind import RunContext
from service.jobs.core.leases import Outcome
from service.jobs.core.lifecycle import State
from service.jobs.training.memory_plan import rows_stay_in_files
from service.jobs.training.rows import LabeledRows, Split
from service.jobs.training.schemas import JobCreate
from service.jobs.training.training_sequence import TrainingSequence, threads_of
from service.jobs.training.warm_starts import load_start
from service.storage.arrays import Arrays, unpack
from service.storage.blobs import BlobDamaged
from service.storage.space import file_errors_reported
from svm.data.matrices import Indices, Vector
from svm.errors import CheckpointMismatch
from svm.model.metrics import calibration_metrics, classification_metrics
from svm.training import Training
from svm.training.results import TrainingResult
from svm.training.warm_start import WarmStart

NOT_CALIBRATED = (
    "The job was canceled before the first fold was done, so the model has no probabilities: there "
    "are no scores to fit them on."
)
CHECKPOINT_LOST = (
    "The last checkpoint could not be used, so the training started again from the beginning."
)


class Runner:
    """Carries out training jobs."""

    def __init__(self, context: RunContext) -> None:
        self._datasets = context.datasets
        self._models = context.models
        self._blobs = context.blobs
        self._settings = context.settings

    def __call__(self, attempt: Attempt) -> None:
        """Train, and end the job as succeeded or canceled.

        Raises what the training raises, Interrupted after the checkpoint was saved, and LeaseLost.
        """
        job = attempt.job
        attempt.check()
        spec = JobCreate.model_validate_json(json.dumps(job.spec))
        seed = spec.seed
        assert seed is not None
        dataset = self._datasets.get(job.dataset_id)
        in_files = rows_stay_in_files(spec, dataset, self._settings.limits.worker_memory_bytes)
        data = self._datasets.open(dataset) if in_files else self._datasets.load(dataset)
        rows = LabeledRows(data, dataset)
        splits = rows.splits(spec.validation, seed)
        start = load_start(spec, dataset, splits[0].training, self._models, self._datasets)
        with file_errors_reported():  # rows that stay in files are copied to a scratch file
            sequence, warnings = self._sequence(attempt, spec, rows, splits, start and start[0])
            canceled = sequence.run()
        result = sequence.model
        metrics = _metrics(rows, splits[0], result, sequence.folds)
        fitted = result.fitted
        held_out = None if spec.calibration is None else _held_out(rows, splits, sequence)
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
        summary: dict[str, Any] = {
            "metrics": metrics,
            "certificate": result.certificate.as_dict(result.fitted.classes),
            "stop_reason": "canceled" if canceled else result.stop_reason,
            "converged": result.converged,
            "epochs": result.epochs,
            "updates": result.updates,
        }
        attempt.show(_final_progress(attempt, canceled, summary), [])
        prepared = self._models.files.prepare(
            fitted,
            None if dataset.columns is None else list(dataset.columns),
            result.warm_start.with_rows(splits[0].training).to_arrays(),
        )
        attempt.finish(
            Outcome(
                state=State.CANCELED if canceled else State.SUCCEEDED,
                stop_reason=summary["stop_reason"],
                converged=result.converged,
                result=summary,
                warnings=(*warnings, *(start[1] if start else ()), *result.warnings),
            ),
            lambda connection: self._models.register(
                connection,
                prepared,
                model_name=spec.model_name,
                job_id=job.id,
                dataset=dataset,
                spec=spec.with_solver(result.warm_start.pipeline.solver),
                seed=seed,
                result=summary,
                n_support_vectors=result.n_support_vectors,
                set_alias=None if canceled else spec.set_alias,
            ),
        )

    def _sequence(
        self,
        attempt: Attempt,
        spec: JobCreate,
        rows: LabeledRows,
        splits: Sequence[Split],
        start: WarmStart | None,
    ) -> tuple[TrainingSequence, tuple[str, ...]]:
        """The job's trainings, at the last checkpoint or at their start, and warnings."""
        seed = spec.seed
        assert seed is not None

        def begin(number: int, budget_s: float, checkpoint: Arrays | None) -> Training:
            split, pipeline = splits[number], spec.pipeline()
            stopping = replace(pipeline.stopping, time_budget_s=budget_s)
            watched = split.validation if number == 0 else None
            return Training(
                replace(pipeline, stopping=stopping),
                *rows.of(split.training),
                seed=seed,
                validation=None if watched is None else rows.of(watched),
                warm_start=start if number == 0 else None,
                checkpoint=checkpoint,
                interrupted=attempt.check,
                digest=split.digest,
                threads=threads_of(self._settings),
            )

        def measure(number: int, result: TrainingResult) -> tuple[dict[str, Any], Vector | None]:
            validation = splits[number].validation
            assert validation is not None
            measured = {
                **_metrics_of(rows, validation, result),
                "stop_reason": result.stop_reason,
                "epochs": result.epochs,
                "relative_gap": result.certificate.worst.relative_gap,
            }
            keeps = spec.calibration is not None
            return measured, rows.scores(result.fitted, validation)[0] if keeps else None

        budget_s = min(spec.stopping.time_budget_s or math.inf, self._settings.limits.job_s)
        given = attempt, len(splits), begin, measure, budget_s
        if attempt.job.checkpoint_key is None:
            return TrainingSequence(*given, None), ()
        try:
            return TrainingSequence(*given, self._read_checkpoint(attempt.job)), ()
        except (BlobDamaged, CheckpointMismatch):
            return TrainingSequence(*given, None), (CHECKPOINT_LOST,)

    def _read_checkpoint(self, job: Job) -> Arrays:
        assert job.checkpoint_key is not None
        assert job.checkpoint_sha256 is not None
        return unpack(self._blobs.read(job.checkpoint_key, job.checkpoint_sha256))


def _metrics(
    rows: LabeledRows, split: Split, result: TrainingResult, folds: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """By part of the data. Of folds each row was predicted by the training that did not see it."""
    metrics = {"train": _metrics_of(rows, split.training, result)}
    if split.validation is not None:
        metrics["validation"] = _metrics_of(rows, split.validation, result)
    elif folds:
        accuracies = [fold["accuracy"] for fold in folds]
        confusion = np.sum([fold["confusion_matrix"] for fold in folds], axis=0)
        metrics["validation"] = {
            **classification_metrics(confusion),
            "accuracy_mean": float(np.mean(accuracies)),
            "accuracy_std": float(np.std(accuracies, ddof=1)) if len(folds) > 1 else None,
            "folds": list(folds),
        }
    return metrics


def _held_out(
    rows: LabeledRows, splits: Sequence[Split], sequence: TrainingSequence
) -> tuple[Vector, Indices] | None:
    """Scores of rows by a training that did not see them, and their classes by number; None if a
    job with folds was canceled before the first of them was done."""
    validation = splits[0].validation
    if validation is not None:
        return rows.scores(sequence.model.fitted, validation)
    if not sequence.scores:
        return None
    folds = [split.validation for split in splits if split.validation is not None]
    done = np.concatenate(folds[: len(sequence.scores)])
    return np.concatenate(sequence.scores), rows.codes(done)


def _metrics_of(rows: LabeledRows, some: Indices | None, result: TrainingResult) -> dict[str, Any]:
    assert some is not None
    return classification_metrics(rows.confusion(result.fitted, some))


def _final_progress(attempt: Attempt, canceled: bool, summary: Mapping[str, Any]) -> dict[str, Any]:
    certificate = summary["certificate"]
    return {
        "fraction": attempt.progress.get("fraction", 0.0) if canceled else 1.0,
        "epoch": summary["epochs"],
        "updates": summary["updates"],
        "primal": certificate["primal"],
        "dual": certificate["dual"],
        "relative_gap": certificate["relative_gap"],
        "eta_s": 0.0,
    }
