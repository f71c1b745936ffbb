"""The kind of job that turns a dataset into a model version."""

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
from service.jobs.core.leases import Ending
from service.jobs.core.lifecycle import State
from service.jobs.training.memory_plan import rows_stay_in_files
from service.jobs.training.rows import LabelledRows, Part
from service.jobs.training.schemas import JobCreate
from service.jobs.training.training_sequence import Course, threads_of
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
    "The job was canceled before a fold was done, so the model has no probabilities: there are no "
    "scores to learn them from."
)
CHECKPOINT_LOST = "The last checkpoint could not be used, so the training began afresh."


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
        rows = LabelledRows(data, dataset)
        parts = rows.parts(spec.validation, seed)
        start = load_start(spec, dataset, parts[0].kept, self._models, self._datasets)
        with file_errors_reported():  # rows that stay in files are written once more
            course, warnings = self._course(attempt, spec, rows, parts, start and start[0])
            canceled = course.run()
        result = course.model
        metrics = _metrics(rows, parts[0], result, course.folds)
        fitted = result.fitted
        held_out = None if spec.calibration is None else _held_out(rows, parts, course)
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
        outcome: dict[str, Any] = {
            "metrics": metrics,
            "certificate": result.certificate.as_dict(result.fitted.classes),
            "stop_reason": "canceled" if canceled else result.stop_reason,
            "converged": result.converged,
            "epochs": result.epochs,
            "updates": result.updates,
        }
        attempt.show(_final_progress(attempt, canceled, outcome), [])
        prepared = self._models.files.prepare(
            fitted,
            None if dataset.columns is None else list(dataset.columns),
            result.warm_start.with_rows(parts[0].kept).to_arrays(),
        )
        attempt.finish(
            Ending(
                state=State.CANCELED if canceled else State.SUCCEEDED,
                stop_reason=outcome["stop_reason"],
                converged=result.converged,
                result=outcome,
                warnings=(*warnings, *(start[1] if start else ()), *result.warnings),
            ),
            lambda connection: self._models.register(
                connection,
                prepared,
                model_name=spec.model_name,
                job_id=job.id,
                dataset=dataset,
                spec=spec.taken(result.warm_start.pipeline.solver),
                seed=seed,
                result=outcome,
                n_support_vectors=result.n_support_vectors,
                set_alias=None if canceled else spec.set_alias,
            ),
        )

    def _course(
        self,
        attempt: Attempt,
        spec: JobCreate,
        rows: LabelledRows,
        parts: Sequence[Part],
        start: WarmStart | None,
    ) -> tuple[Course, tuple[str, ...]]:
        """The job's trainings at the last checkpoint, or at their start, and warnings."""
        seed = spec.seed
        assert seed is not None

        def begin(number: int, budget_s: float, checkpoint: Arrays | None) -> Training:
            part, pipeline = parts[number], spec.pipeline()
            stopping = replace(pipeline.stopping, time_budget_s=budget_s)
            watched = part.held_back if number == 0 else None
            return Training(
                replace(pipeline, stopping=stopping),
                *rows.of(part.kept),
                seed=seed,
                validation=None if watched is None else rows.of(watched),
                warm_start=start if number == 0 else None,
                checkpoint=checkpoint,
                interrupted=attempt.check,
                digest=part.digest,
                threads=threads_of(self._settings),
            )

        def measure(number: int, result: TrainingResult) -> tuple[dict[str, Any], Vector | None]:
            held_back = parts[number].held_back
            assert held_back is not None
            told = {
                **_metrics_of(rows, held_back, result),
                "stop_reason": result.stop_reason,
                "epochs": result.epochs,
                "relative_gap": result.certificate.worst.relative_gap,
            }
            keeps = spec.calibration is not None
            return told, rows.scores(result.fitted, held_back)[0] if keeps else None

        budget_s = min(spec.stopping.time_budget_s or math.inf, self._settings.limits.job_s)
        given = attempt, len(parts), begin, measure, budget_s
        if attempt.job.checkpoint_key is None:
            return Course(*given, None), ()
        try:
            return Course(*given, self._read_checkpoint(attempt.job)), ()
        except (BlobDamaged, CheckpointMismatch):
            return Course(*given, None), (CHECKPOINT_LOST,)

    def _read_checkpoint(self, job: Job) -> Arrays:
        assert job.checkpoint_key is not None
        assert job.checkpoint_sha256 is not None
        return unpack(self._blobs.read(job.checkpoint_key, job.checkpoint_sha256))


def _metrics(
    rows: LabelledRows, part: Part, result: TrainingResult, folds: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """By part of the data. Of folds each row was predicted by the training that did not see it."""
    metrics = {"train": _metrics_of(rows, part.kept, result)}
    if part.held_back is not None:
        metrics["validation"] = _metrics_of(rows, part.held_back, result)
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
    rows: LabelledRows, parts: Sequence[Part], course: Course
) -> tuple[Vector, Indices] | None:
    """Scores of rows by a training that did not see them, and their classes by number; None where
    a job with folds was canceled before any of them was done."""
    held_back = parts[0].held_back
    if held_back is not None:
        return rows.scores(course.model.fitted, held_back)
    if not course.scores:
        return None
    folds = [part.held_back for part in parts if part.held_back is not None]
    done = np.concatenate(folds[: len(course.scores)])
    return np.concatenate(course.scores), rows.codes(done)


def _metrics_of(rows: LabelledRows, some: Indices | None, result: TrainingResult) -> dict[str, Any]:
    assert some is not None
    return classification_metrics(rows.confusion(result.fitted, some))


def _final_progress(attempt: Attempt, canceled: bool, outcome: Mapping[str, Any]) -> dict[str, Any]:
    certificate = outcome["certificate"]
    return {
        "fraction": attempt.progress.get("fraction", 0.0) if canceled else 1.0,
        "epoch": outcome["epochs"],
        "updates": outcome["updates"],
        "primal": certificate["primal"],
        "dual": certificate["dual"],
        "relative_gap": certificate["relative_gap"],
        "eta_s": 0.0,
    }
