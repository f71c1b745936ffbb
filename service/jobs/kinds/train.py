"""The kind of job that turns a dataset into a model version."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from service.datasets.store import Dataset, DatasetStore, LoadedData
from service.jobs.attempts import Attempt, Wish
from service.jobs.leases import Ending
from service.jobs.lifecycle import State
from service.jobs.schemas import JobCreate
from service.jobs.warm_starts import load_start
from service.models.registry import ModelRegistry
from service.settings import Settings
from service.storage.arrays import Arrays, pack, unpack
from service.storage.blobs import BlobDamaged, Blobs
from svm.errors import CheckpointMismatch, Interrupted
from svm.matrices import Indices
from svm.metrics import classification_metrics
from svm.pipeline import FittedPipeline, Pipeline
from svm.splitting import split
from svm.training import Evaluation, Progress, Training
from svm.warm_start import WarmStart

CHECKPOINT_LOST = "The last checkpoint could not be used, so the training began afresh."


class Trainer:
    """Carries out training jobs with the stores that it was built with."""

    def __init__(
        self, datasets: DatasetStore, registry: ModelRegistry, blobs: Blobs, settings: Settings
    ) -> None:
        self._datasets = datasets
        self._registry = registry
        self._blobs = blobs
        self._longest_s = settings.limits.job_s
        self._threads = max(1, len(os.sched_getaffinity(0)) // max(1, settings.workers))

    def __call__(self, attempt: Attempt) -> None:
        """Train, and end the job as succeeded or canceled.

        Raises what the training raises, Interrupted after the checkpoint was saved, and LeaseLost.
        """
        job = attempt.job
        attempt.check()
        spec = JobCreate.model_validate_json(json.dumps(job.spec))
        dataset = self._datasets.get(job.dataset_id)
        data = _Parts(self._datasets.load(dataset), dataset, spec)
        start = load_start(spec, dataset, data.rows, self._registry, self._datasets)
        training, warnings = self._begin(attempt, spec, data, start and start[0])
        canceled = _iterate(training, attempt)
        result = training.result()
        stop_reason = "canceled" if canceled else result.stop_reason
        converged = result.converged and not canceled
        certificate = result.certificate.as_dict(result.fitted.classes)
        columns = None if dataset.columns is None else list(dataset.columns)
        outcome = {
            "metrics": data.metrics(result.fitted),
            "certificate": certificate,
            "stop_reason": stop_reason,
            "converged": converged,
            "epochs": result.epochs,
            "updates": result.updates,
        }
        attempt.show(_final_progress(attempt, canceled, outcome), [])
        left = result.warm_start.with_rows(data.rows).to_arrays()
        prepared = self._registry.prepare(result.fitted, columns, left)
        attempt.finish(
            Ending(
                state=State.CANCELED if canceled else State.SUCCEEDED,
                stop_reason=stop_reason,
                converged=converged,
                result=outcome,
                warnings=(*warnings, *(start[1] if start else ()), *result.warnings),
            ),
            lambda connection: self._registry.register(
                connection,
                prepared,
                model_name=spec.model_name,
                job_id=job.id,
                dataset=dataset,
                spec=job.spec,
                seed=data.seed,
                result=outcome,
                n_support_vectors=result.n_support_vectors,
                set_alias=spec.set_alias,
            ),
        )

    def _begin(
        self, attempt: Attempt, spec: JobCreate, data: _Parts, start: WarmStart | None
    ) -> tuple[Training, tuple[str, ...]]:
        """The training at its last checkpoint, or at its start, and warnings."""
        pipeline = _pipeline(spec, self._longest_s)
        options: dict[str, Any] = {
            "seed": data.seed,
            "validation": data.validation,
            "warm_start": start,
            "interrupted": attempt.check,
            "threads": self._threads,
        }
        if attempt.job.checkpoint_key is None:
            return Training(pipeline, *data.train, **options), ()
        checkpoint = self._read_checkpoint(attempt)
        if checkpoint is not None:
            try:
                return Training.resume(pipeline, *data.train, checkpoint=checkpoint, **options), ()
            except CheckpointMismatch:
                pass
        return Training(pipeline, *data.train, **options), (CHECKPOINT_LOST,)

    def _read_checkpoint(self, attempt: Attempt) -> Arrays | None:
        assert attempt.job.checkpoint_key is not None
        assert attempt.job.checkpoint_sha256 is not None
        try:
            content = self._blobs.read(attempt.job.checkpoint_key, attempt.job.checkpoint_sha256)
        except BlobDamaged:
            return None
        return unpack(content)


class _Parts:
    """The rows to train on and those held back."""

    rows: Indices
    """Numbers of the rows to train on."""

    def __init__(self, data: LoadedData, dataset: Dataset, spec: JobCreate) -> None:
        assert data.codes is not None
        assert dataset.classes is not None
        assert spec.seed is not None
        self.seed = spec.seed
        self._n_classes = len(dataset.classes)
        labels = np.asarray(dataset.classes)
        self._X, self._codes = {"train": data.X}, {"train": data.codes}
        self.train, self.validation = (data.X, labels[data.codes]), None
        self.rows = np.arange(dataset.n_samples)
        if spec.validation is not None:
            self.rows, held_back = split(
                data.codes,
                spec.validation.fraction,
                stratify=spec.validation.stratify,
                seed=self.seed,
            )
            self._X = {"train": data.X[self.rows], "validation": data.X[held_back]}
            self._codes = {"train": data.codes[self.rows], "validation": data.codes[held_back]}
            self.train = (self._X["train"], labels[self._codes["train"]])
            self.validation = (self._X["validation"], labels[self._codes["validation"]])

    def metrics(self, fitted: FittedPipeline) -> dict[str, Any]:
        """By part: accuracy, confusion matrix, precision, recall and F1 of each class."""
        return {
            part: classification_metrics(
                self._codes[part],
                np.searchsorted(fitted.classes, fitted.predict(X)),
                self._n_classes,
            )
            for part, X in self._X.items()
        }


def _iterate(training: Training, attempt: Attempt) -> bool:
    """Train to the end, or until canceled with the wish to keep the model, which returns True."""
    learnt = attempt.job.checkpoint_key is not None
    attempt.may_end = True
    try:
        attempt.check()
        for progress in training:
            learnt = True
            attempt.show(
                _progress(progress, training.elapsed_s), _trace(progress, attempt, training)
            )
            if attempt.checkpoint_is_due:
                attempt.save(pack(training.checkpoint()))
        return False
    except Interrupted:
        if attempt.wish is Wish.SAVE_AND_LEAVE:
            attempt.save(pack(training.checkpoint()))
        if attempt.wish is Wish.KEEP_AND_END and learnt:
            return True
        raise
    finally:
        attempt.may_end = False


def _pipeline(spec: JobCreate, longest_s: float) -> Pipeline:
    budget = min(spec.stopping.time_budget_s or math.inf, longest_s)
    pipeline = spec.pipeline()
    return replace(pipeline, stopping=replace(pipeline.stopping, time_budget_s=budget))


def _progress(progress: Progress, elapsed_s: float) -> dict[str, Any]:
    """`elapsed_s` is the time that led to this point: what a lost worker did since its checkpoint
    is not in it, nor is the loading of data."""
    fraction = progress.fraction
    return {
        "fraction": fraction,
        "epoch": progress.epoch,
        "updates": progress.updates,
        "primal": progress.primal,
        "dual": progress.dual,
        "relative_gap": progress.relative_gap,
        "eta_s": elapsed_s * (1 - fraction) / fraction if fraction > 0 else None,
    }


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


def _trace(progress: Progress, attempt: Attempt, training: Training) -> list[dict[str, Any]]:
    evaluation: Evaluation | None = progress.evaluation
    if evaluation is None:
        return []
    classes, split = training.classes.tolist(), training.prepared.splits[evaluation.pair]
    return [
        {
            "pair": evaluation.pair,
            "updates": evaluation.updates,
            "epoch": evaluation.epoch,
            "classes": [classes[i] for i in split.classes],
            "elapsed_s": attempt.elapsed_s,
            "primal": evaluation.primal,
            "dual": evaluation.dual,
            "gap": evaluation.gap,
            "train_error": evaluation.train_error,
            "validation_error": evaluation.validation_error,
        }
    ]
