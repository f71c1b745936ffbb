"""The trainings of one job: on which rows each is, how it begins, and what is measured of it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from service.jobs.context import RunContext
from service.jobs.core.attempts import Work
from service.jobs.spread.spreading import spreading
from service.jobs.training.memory_plan import rows_stay_in_files
from service.jobs.training.rows import LabeledRows, count_seen
from service.jobs.training.schemas import JobCreate, ValidationDataset
from service.jobs.training.summary import fold_of, metrics_of_folds, sum_of_folds
from service.jobs.training.validation_set import rare_classes, rows_of
from service.jobs.training.warm_starts import load_start
from service.settings import Settings
from service.storage.arrays import Arrays
from svm.data.matrices import Indices, Vector
from svm.training.preparation import Prepared
from svm.training.results import TrainingResult
from svm.training.training import Execution, Training
from svm.training.warm_start import WarmStart


def threads_of(settings: Settings, work: Work) -> int | Callable[[], int]:
    """That a training may use: those of its worker, or with one for each, what others leave."""
    own = len(os.sched_getaffinity(0)) // max(1, settings.workers)
    return own if own > 1 else work.threads


class Trainings:
    """Training 0 makes the model, the others measure the folds."""

    def __init__(self, context: RunContext, work: Work) -> None:
        """Read the rows. Raises what the stores raise."""
        self.spec = spec = JobCreate.model_validate_json(json.dumps(work.job.spec))
        assert spec.seed is not None
        self.dataset = dataset = context.datasets.get(work.job.dataset_id)
        other = None
        if isinstance(spec.validation, ValidationDataset):
            other = context.datasets.get(spec.validation.dataset_id)
        limits = context.settings.limits
        in_files = rows_stay_in_files(spec, dataset, limits.worker_memory_bytes, other)
        read = context.datasets.open if in_files else context.datasets.load
        self.rows = rows = LabeledRows(read(dataset), dataset, spec.classes)
        self.splits = rows.splits(spec.validation, spec.seed)
        first = self.splits[0]
        watched = None if first.validation is None else (rows, first.validation)
        if other is not None:
            measured = rows_of(read(other), other, dataset, spec)
            watched = measured, measured.everything
        self._watched = watched
        """Rows to measure the model on."""
        start = load_start(spec, dataset, first.training, context.models, context.datasets)
        self._start: WarmStart | None = None if start is None else start[0]
        rare = rare_classes(spec.validation, dataset.only(spec.classes))
        self.warnings = rare if start is None else (*rare, *start[1])
        self.budget_s = min(spec.stopping.time_budget_s or math.inf, limits.job_s)
        self._settings = context.settings
        self._connection = context.connection
        self.work = work
        self.prepared: Prepared | None = None
        """Of the model's training, if another one of the same pairs follows."""

    def begin(self, number: int, budget_s: float, checkpoint: Arrays | None) -> Training:
        """Begin a training with a time budget in seconds, or continue it from a checkpoint.

        Raises CheckpointMismatch.
        """
        spec, split, pipeline = self.spec, self.splits[number], self.spec.pipeline()
        begun = self._start if number == 0 else None
        like = None if begun is None else begun.fitted
        stopping = replace(pipeline.stopping, time_budget_s=budget_s)
        watched = None if number else self._watched
        assert spec.seed is not None
        prepared = None if number else self.prepared
        rows: tuple[Any, Any] = (None, None)
        described: dict[str, Any] = {}
        if prepared is None:
            rows = self.rows.of(split.training, like)
            described = self.rows.described(split.training, like)
        asked = spec.spread, self._connection, self.dataset, split.training
        how = Execution(
            interrupted=self.work.check,
            threads=threads_of(self._settings, self.work),
            digest=split.digest,
            prepared=prepared,
            spread=spreading(*asked, self._warn),
        )
        return Training(
            replace(pipeline, stopping=stopping),
            *rows,
            **described,
            seed=spec.seed,
            validation=None if watched is None else watched[0].of(watched[1], like),
            warm_start=begun,
            checkpoint=checkpoint,
            bounds_kernel=number == 0,
            trace=spec.trace if number == 0 else None,
            how=how,
        )

    def _warn(self, message: str) -> None:
        if message not in self.warnings:
            self.warnings += (message,)

    def measure(self, number: int, result: TrainingResult) -> tuple[dict[str, Any], Vector | None]:
        """The metrics of fold `number`, 1 …, as JSON; and the scores of its rows, if they are
        kept."""
        validation = self.splits[number].validation
        assert validation is not None
        measured = fold_of(result, _metrics_of(self.rows, validation, result))
        keeps = self.spec.calibration is not None
        return measured, self.rows.scores(result.fitted, validation)[0] if keeps else None

    def metrics(
        self, result: TrainingResult, folds: Mapping[int, Mapping[str, Any]]
    ) -> dict[str, Any]:
        """By part of the data. Of folds, by number, each row was predicted by the training that did
        not see it."""
        metrics = {"train": _metrics_of(self.rows, self.splits[0].training, result)}
        if self._watched is not None:
            rows, some = self._watched
            trained = self.rows.hashes[self.splits[0].training]
            metrics["validation"] = {
                **_metrics_of(rows, some, result),
                "trained_rows": count_seen(rows.hashes[some], trained),
            }
        elif folds:
            each = list(folds.values())
            metrics["validation"] = {
                **metrics_of_folds(sum_of_folds(each), each),
                "trained_rows": self.rows.seen([self.splits[k] for k in folds]),
            }
        return metrics

    def held_out(
        self, model: TrainingResult, of_folds: Mapping[int, Vector]
    ) -> tuple[Vector, Indices] | None:
        """Scores of rows by a training that did not see them, and their classes by number; None if
        a job with folds was canceled before any of them was done. `of_folds`: by number."""
        if self._watched is not None:
            return self._watched[0].scores(model.fitted, self._watched[1])
        if not of_folds:
            return None
        of_rows = [self.splits[k].validation for k in sorted(of_folds)]
        rows = [some for some in of_rows if some is not None]
        scores = [of_folds[k] for k in sorted(of_folds)]
        return np.concatenate(scores), self.rows.codes(np.concatenate(rows))


def _metrics_of(rows: LabeledRows, some: Indices, result: TrainingResult) -> dict[str, Any]:
    return rows.confusion(result.fitted, some).metrics()
